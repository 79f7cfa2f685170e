#include "inflate.h"

#include "fail.h"

#include <libdeflate.h>

int inflate_exactly(void *dst, size_t dst_size, const void *src, size_t src_size, ckpt_error *err)
{
    int rc = 0;
    struct libdeflate_decompressor *const decoder = libdeflate_alloc_decompressor();

    FAIL_IF_NULL(decoder, err);
    /* Without a place for the number of bytes it wants exactly so many. */
    FAIL_IF(libdeflate_deflate_decompress(decoder, src, src_size, dst, dst_size, NULL) != LIBDEFLATE_SUCCESS, err,
            CKPT_EDATA, "packed bytes are damaged");
out:
    libdeflate_free_decompressor(decoder);
    return rc;
}
