/* HDF5 datasets in chunks, packed or not: read whole, as their elements do not lie in the file in one piece.
 *
 *   tree   := "TREE" node of keys (size, skipped filters, place of the chunk) and addresses, leaves at level 0
 *   chunk  := elements of a block of the dataset's shape, after its filters: shuffle, deflate, a checksum */
#ifndef CKPT_HDF5_CHUNKS_H
#define CKPT_HDF5_CHUNKS_H

#include "hdf5_object.h"

#define HDF5_CHUNK_MAX    (UINT64_C(1) << 28) /* unpacked bytes of one */
#define HDF5_UNPACKED_MAX (UINT64_C(1) << 30) /* of a dataset */

/* What the datasets of one file may have together. */
typedef struct hdf5_budget {
    uint64_t rows;  /* of their trees */
    uint64_t bytes; /* of their chunks, packed: as many as the file has, since each belongs to one chunk */
} hdf5_budget;

/* Can the dataset be read: is it small enough, and is each of its chunks there? Takes what it looks at from *left, and
 * says CKPT_EFORMAT when that is used up. */
int hdf5_chunks_check(hdf5_budget *left, const byte_source *source, const hdf5_object *object, ckpt_error *err);
/* The elements in row-major order, malloc'ed. CKPT_EFORMAT when a chunk is missing or damaged. */
int hdf5_chunks_read(unsigned char **data, const byte_source *source, const hdf5_object *object, ckpt_error *err);

#endif
