#include "inflate.h"

#include "fail.h"

#include <libdeflate.h>

typedef enum libdeflate_result (*decompress_fn)(struct libdeflate_decompressor *decoder, const void *in, size_t in_size,
                                                void *out, size_t out_size, size_t *actual);

static int inflate_by(decompress_fn decompress, void *dst, size_t dst_size, const void *src, size_t src_size,
                      ckpt_error *err)
{
    int rc = 0;
    struct libdeflate_decompressor *const decoder = libdeflate_alloc_decompressor();

    FAIL_IF_NULL(decoder, err);
    /* Without a place for the number of bytes it wants exactly so many. */
    FAIL_IF(decompress(decoder, src, src_size, dst, dst_size, NULL) != LIBDEFLATE_SUCCESS, err, CKPT_EDATA,
            "packed bytes are damaged");
out:
    libdeflate_free_decompressor(decoder);
    return rc;
}

int inflate_exactly(void *dst, size_t dst_size, const void *src, size_t src_size, ckpt_error *err)
{
    return inflate_by(libdeflate_deflate_decompress, dst, dst_size, src, src_size, err);
}

int inflate_zlib_exactly(void *dst, size_t dst_size, const void *src, size_t src_size, ckpt_error *err)
{
    return inflate_by(libdeflate_zlib_decompress, dst, dst_size, src, src_size, err);
}
