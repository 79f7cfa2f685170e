/* Export, as its formats see it: what is to be written, and the bytes of each tensor as they are to stand in the file.
 *
 *   export.c               which tensors under which names, and the commit
 *   export_safetensors.c   export_npz.c   export_torch.c      one file each */
#ifndef CKPT_EXPORT_INTERNAL_H
#define CKPT_EXPORT_INTERNAL_H

#include "content.h"
#include "numbers.h"
#include "zip_writer.h"

#include <ckpt/export.h>

typedef struct export_row {
    size_t tensor;    /* in the content */
    char *name;       /* as it is written; unique */
    ckpt_dtype dtype; /* as it is written */
    uint64_t elements;
} export_row;

typedef struct exporter {
    ckpt_content *content;
    ckpt_export_options options;
    export_row *rows; /* the widest elements first, then by name: all stand at multiples of their size */
    size_t count;
    ckpt_value *values; /* strings beside the tensors, of the files that are written */
    size_t value_count;
    char **value_keys; /* those made here */
    file_tmp tmp;
    unsigned char *bytes; /* EXPORT_ELEMENTS of any type */
    double *numbers;
    ckpt_export_result *result;
    numbers_error error;
    uint64_t done_bytes, total_bytes;
} exporter;

#define EXPORT_ELEMENTS    ((size_t)64 << 10) /* in memory at a time */
#define EXPORT_TENSORS_MAX TENSOR_FILE_TENSORS_MAX
#define EXPORT_ALIGNMENT   64u

uint64_t export_bytes(const export_row *row); /* that the tensor takes in the file */
const ckpt_tensor_info *export_info(const exporter *e, const export_row *row);

/* Gives all bytes of a tensor, in order, to `sink`. */
typedef int (*export_sink)(void *payload, const void *data, size_t size, ckpt_error *err);
int export_data(exporter *e, const export_row *row, export_sink sink, void *payload, ckpt_error *err);
/* One member of a zip archive: `head`, then the tensor. */
int export_member(zip_writer *z, exporter *e, const export_row *row, const char *name, const void *head,
                  size_t head_size, ckpt_error *err);

/* CKPT_EUSAGE, with a hint, when the format has no such type. */
int export_type_missing(const export_row *row, const char *program, ckpt_error *err);

/* Each writes the file to e->tmp. */
int export_safetensors(exporter *e, ckpt_error *err);
int export_npz(exporter *e, ckpt_error *err);
int export_torch(exporter *e, ckpt_error *err);

#endif
