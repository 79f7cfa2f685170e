/* The weights in a .keras archive. */
#ifndef CKPT_KERAS_H
#define CKPT_KERAS_H

#include "tensor_file.h"

/* Where the HDF5 file with the weights lies. CKPT_ENOTFOUND when the file is no such archive; CKPT_EFORMAT when it is
 * one whose weights cannot be read in place. */
int keras_weights(uint64_t *offset, uint64_t *size, const byte_source *source, ckpt_error *err);

#endif
