/* Head of a .npy file: what NumPy writes in front of the elements of an array.
 *
 *     npy  := "\x93NUMPY" major minor length dictionary elements      length: 2 bytes in version 1, 4 in version 2
 *     dictionary := "{'descr': '<i8', 'fortran_order': False, 'shape': (60000, 28, 28), }" blanks "\n"
 * (numpy.org/doc/stable/reference/generated/numpy.lib.format.html) */
#ifndef CORE_NPY_HEAD_H
#define CORE_NPY_HEAD_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NPY_HEAD_START    8    /* bytes before the length: magic and version */
#define NPY_HEAD_TEXT_MAX 1024 /* bytes of the dictionary; NumPy's own are about 120 */
#define NPY_HEAD_RANK_MAX 4

typedef struct npy_head {
    char kind; /* 'u' or 'i': integers without and with sign */
    bool big_endian;
    unsigned item_size; /* 1, 2, 4 or 8 bytes */
    unsigned rank;
    uint64_t shape[NPY_HEAD_RANK_MAX];
} npy_head;

/* How many bytes the length takes that follows the start, or CKPT_EFORMAT for what is no .npy of version 1 or 2.
 * `name` is for messages. */
int npy_head_start(size_t *length_size, const unsigned char start[NPY_HEAD_START], const char *name, ckpt_error *err);
/* Reads the dictionary, a text of `size` bytes with a 0 byte behind; the keys in NumPy's order. CKPT_EFORMAT for
 * elements that are no integers, for Fortran's order, and for all that it does not know. */
int npy_head_parse(npy_head *out, const char *text, size_t size, const char *name, ckpt_error *err);

#endif
