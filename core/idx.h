/* IDX: the file format of MNIST.
 *
 *     IDX := 0 0 type rank  size{rank}  element*      numbers big-endian, type 8 is unsigned byte
 *
 * (yann.lecun.com/exdb/mnist) */
#ifndef CORE_IDX_H
#define CORE_IDX_H

#include <ckpt/error.h>
#include <stddef.h>
#include <stdint.h>

#define IDX_RANK_MAX 3

typedef struct idx {
    uint8_t *data; /* malloc'ed; the last axis runs fastest */
    unsigned rank;
    size_t shape[IDX_RANK_MAX];
} idx;

/* One file, plain or .gz (by its first bytes, not its name), of the rank wanted. Errors as of dataset_open. */
int idx_read(idx *out, const char *path, unsigned rank, ckpt_error *err);
void idx_clear(idx *file);
/* The same from memory, for tests of hostile input; `path` is for messages. */
int idx_parse(idx *out, const void *data, size_t size, const char *path, unsigned rank, ckpt_error *err);

#endif
