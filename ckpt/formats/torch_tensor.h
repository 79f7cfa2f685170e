/* One tensor of a PyTorch pickle: the call that would rebuild it, read as a view of a storage. */
#ifndef CKPT_TORCH_TENSOR_H
#define CKPT_TORCH_TENSOR_H

#include "pickle.h"
#include "tensor_file.h"

#define TORCH_PART_CODES "int_repr"

typedef struct torch_tensor {
    pickle_ref key;          /* TEXT: the name of its storage */
    uint64_t storage_bytes;  /* as the pickle says */
    uint64_t storage_offset; /* bytes before the first element */
    tensor_view view;        /* name and offset are left to the caller */
    const char *part;        /* what of the tensor these numbers are: TORCH_PART_CODES; NULL: all of it */
} torch_tensor;

/* What torch.save wrote in place of a storage. */
typedef struct torch_storage {
    pickle_ref key;      /* TEXT: its name */
    ckpt_dtype dtype;    /* CKPT_OPAQUE for one that is not known */
    bool codes;          /* the numbers stand for others: quantised ones, several to a byte in some types */
    uint64_t width;      /* bytes of an element; 0 for a type that is not known */
    uint64_t elements;   /* of all of it */
    uint64_t view_first; /* of a part of it, which old files may speak of */
    uint64_t view_elements;
} torch_storage;

/* Reads the PERSISTENT node. CKPT_EFORMAT when it is no storage. */
int torch_storage_read(torch_storage *out, const pickle *graph, pickle_ref ref, ckpt_error *err);

/* Is the value a tensor that is a plain view of numbers? *found is false for everything else, so also for sparse ones
 * and those whose numbers are conjugated on reading. CKPT_EFORMAT for a tensor whose sizes, strides or storage make no
 * sense. */
int torch_tensor_read(bool *found, torch_tensor *out, const pickle *graph, pickle_ref ref, ckpt_error *err);

#endif
