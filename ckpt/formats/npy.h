/* One NumPy array as .npy files and the members of .npz files hold it.
 *
 *   array  := "\x93NUMPY" major minor length header data       length: 2 bytes in version 1, 4 in versions 2 and 3
 *   header := a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } blanks newline */
#ifndef CKPT_NPY_H
#define CKPT_NPY_H

#include "tensor_file.h"

#define NPY_MAGIC      "\x93NUMPY"
#define NPY_MAGIC_SIZE 6

/* Fills everything of `view` but its name from the array that lies in [offset, offset + size) of the source.
 * CKPT_EFORMAT for what is no array of plain numbers: objects (they are pickles), records, big-endian. */
int npy_view(tensor_view *view, const byte_source *source, uint64_t offset, uint64_t size, ckpt_error *err);

#endif
