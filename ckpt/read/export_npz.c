/* NumPy's .npz: a zip archive with one .npy for each array, which numpy.load reads and mmap can use in place. */
#include "export_internal.h"

#include "bytes.h"
#include "fail.h"
#include "npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX        ".npy"
#define PREFIX_SIZE   (NPY_MAGIC_SIZE + 4u) /* version 1.0 and the length of the header */
#define HEAD_SIZE     ((size_t)576)         /* a multiple of EXPORT_ALIGNMENT, with room for CKPT_RANK_MAX dimensions */
#define DIMENSION_MAX 23u                   /* digits of a dimension, comma and blank */

/* NumPy's name of a type; NULL: it has none. */
static const char *descr_of(ckpt_dtype dtype)
{
    static const char *const NAMES[] = {
        [CKPT_BOOL] = "|b1", [CKPT_U8] = "|u1",  [CKPT_I8] = "|i1",  [CKPT_U16] = "<u2",  [CKPT_I16] = "<i2",
        [CKPT_U32] = "<u4",  [CKPT_I32] = "<i4", [CKPT_U64] = "<u8", [CKPT_I64] = "<i8",  [CKPT_F16] = "<f2",
        [CKPT_F32] = "<f4",  [CKPT_F64] = "<f8", [CKPT_C64] = "<c8", [CKPT_C128] = "<c16"};

    return (size_t)dtype < sizeof NAMES / sizeof NAMES[0] ? NAMES[dtype] : NULL;
}

/* Magic, version, length, and the literal, padded with blanks so that the data behind it are aligned. */
static size_t head_make(char out[HEAD_SIZE], const ckpt_tensor_info *info, const char *descr)
{
    char shape[CKPT_RANK_MAX * DIMENSION_MAX + 1] = "";
    size_t used = 0;

    for (unsigned i = 0; i < info->rank; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%llu%s", (unsigned long long)info->shape[i],
                                 info->rank == 1      ? ","
                                 : i + 1 < info->rank ? ", "
                                                      : "");
    memset(out, ' ', HEAD_SIZE);
    memcpy(out, NPY_MAGIC "\1\0", NPY_MAGIC_SIZE + 2);
    const int size = snprintf(out + PREFIX_SIZE, HEAD_SIZE - PREFIX_SIZE,
                              "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    const size_t end = PREFIX_SIZE + (size_t)size;
    const size_t padded = (end + 1 + EXPORT_ALIGNMENT - 1) / EXPORT_ALIGNMENT * EXPORT_ALIGNMENT;
    out[end] = ' ';
    out[padded - 1] = '\n';
    store_u16(out + NPY_MAGIC_SIZE + 2, (uint16_t)(padded - PREFIX_SIZE));
    return padded;
}

int export_npz(exporter *e, ckpt_error *err)
{
    int rc = 0;
    zip_writer zip = {.out = &e->tmp};
    char head[HEAD_SIZE], member[TENSOR_FILE_NAME_MAX + FILE_PATH_MAX + sizeof SUFFIX];

    for (size_t i = 0; i < e->count; i++)
        if (!descr_of(e->rows[i].dtype))
            TRY(export_type_missing(&e->rows[i], "NumPy", err));
    for (size_t i = 0; i < e->count; i++) {
        const export_row *const row = &e->rows[i];
        const size_t size = head_make(head, export_info(e, row), descr_of(row->dtype));
        snprintf(member, sizeof member, "%s" SUFFIX, row->name);
        TRY(export_member(&zip, e, row, member, head, size, err));
    }
    TRY(zip_writer_finish(&zip, err));
out:
    zip_writer_clear(&zip);
    return rc;
}
