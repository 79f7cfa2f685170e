/* Tables: copying the rows of files from one set of tables into another. */
#ifndef CKPT_TABLES_H
#define CKPT_TABLES_H

#include "pack.h"

/* Appends files [first, last) of `from`, with their extents, tensors and values, to `to`. Pack numbers are translated;
 * 0 stays 0. */
int tables_copy(pack_index *to, const pack_index *from, uint32_t first, uint32_t last, ckpt_error *err);

#endif
