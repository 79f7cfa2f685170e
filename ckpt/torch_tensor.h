/* One tensor of a PyTorch pickle: the call that would rebuild it, read as a view of a storage. */
#ifndef CKPT_TORCH_TENSOR_H
#define CKPT_TORCH_TENSOR_H

#include "pickle.h"
#include "tensor_file.h"

typedef struct torch_tensor {
    pickle_ref key;          /* TEXT: the name of its storage */
    uint64_t storage_bytes;  /* as the pickle says */
    uint64_t storage_offset; /* elements before the first */
    tensor_view view;        /* name and offset are left to the caller */
} torch_tensor;

/* Is the value a tensor that is a plain view of numbers? *found is false for everything else, so also for sparse and
 * quantised ones. CKPT_EFORMAT for a tensor whose sizes, strides or storage make no sense. */
int torch_tensor_read(bool *found, torch_tensor *out, const pickle *graph, pickle_ref ref, ckpt_error *err);

#endif
