#include "zstd_frame.h"

#include "bytes.h"
#include "fail.h"

#include <stdint.h>
#include <zstd_errors.h>

/* The smallest window that zstd writes, and the one that reaches from the end of a chunk to the start of its prefix. */
enum { WINDOW_LOG_MIN = 10, WINDOW_LOG_MAX = 27 };

static int window_log(size_t size)
{
    int log = WINDOW_LOG_MIN;
    while (log < WINDOW_LOG_MAX && ((size_t)1 << log) < size)
        log++;
    return log;
}

static size_t set(size_t so_far, ZSTD_CCtx *compressor, ZSTD_cParameter parameter, int value)
{
    return ZSTD_isError(so_far) ? so_far : ZSTD_CCtx_setParameter(compressor, parameter, value);
}

static size_t configure(ZSTD_CCtx *compressor, int level, size_t size, const void *prefix, size_t prefix_size)
{
    size_t result = ZSTD_CCtx_reset(compressor, ZSTD_reset_session_and_parameters);
    result = set(result, compressor, ZSTD_c_contentSizeFlag, 0);
    if (level <= ZSTD_FRAME_LEVEL_ENTROPY) {
        /* Only repeats of 7 bytes are looked for, in a table so small that it hardly finds chance ones. Negative levels
         * would not do: they leave literals without Huffman coding. */
        result = set(result, compressor, ZSTD_c_compressionLevel, 1);
        result = set(result, compressor, ZSTD_c_strategy, ZSTD_fast);
        result = set(result, compressor, ZSTD_c_minMatch, 7);
        result = set(result, compressor, ZSTD_c_hashLog, 6);
    } else {
        result = set(result, compressor, ZSTD_c_compressionLevel,
                     level < ZSTD_FRAME_LEVEL_MAX ? level : ZSTD_FRAME_LEVEL_MAX);
    }
    if (prefix_size && !ZSTD_isError(result)) {
        result = set(result, compressor, ZSTD_c_windowLog, window_log(size + prefix_size));
        if (!ZSTD_isError(result))
            result = ZSTD_CCtx_refPrefix(compressor, prefix, prefix_size);
    }
    return result;
}

int zstd_frame_encode(size_t *coded_size, void *dst, size_t capacity, ZSTD_CCtx *compressor, int level, const void *src,
                      size_t size, const void *prefix, size_t prefix_size, ckpt_error *err)
{
    int rc = 0;
    size_t result = configure(compressor, level, size, prefix, prefix_size);

    FAIL_IF(ZSTD_isError(result), err, CKPT_EBUG, "zstd parameters: %s", ZSTD_getErrorName(result));
    result = ZSTD_compress2(compressor, dst, capacity, src, size);
    *coded_size = ZSTD_isError(result) ? SIZE_MAX : result;
    if (!ZSTD_isError(result) || ZSTD_getErrorCode(result) == ZSTD_error_dstSize_tooSmall)
        goto out;
    if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
        TRY(error_memory(err));
    FAIL(err, CKPT_EBUG, "zstd: %s", ZSTD_getErrorName(result));
out:
    return rc;
}

/* Decoding in one call writes straight into dst and allocates no window, whatever size the frame asks for. */
int zstd_frame_decode(void *dst, size_t size, ZSTD_DCtx *decompressor, const void *coded, size_t coded_size,
                      const void *prefix, size_t prefix_size, ckpt_error *err)
{
    int rc = 0;
    size_t result = ZSTD_findFrameCompressedSize(coded, coded_size);

    /* The library may also know the formats before RFC 8878, whose decoders nobody hardens any more. */
    FAIL_IF(coded_size < 4 || load_u32(coded) != ZSTD_MAGICNUMBER, err, CKPT_EDATA, "coded data are no zstd frame");
    FAIL_IF(ZSTD_isError(result) || result != coded_size, err, CKPT_EDATA, "coded data are not one zstd frame");
    result = ZSTD_DCtx_reset(decompressor, ZSTD_reset_session_and_parameters);
    if (prefix_size && !ZSTD_isError(result))
        result = ZSTD_DCtx_refPrefix(decompressor, prefix, prefix_size);
    if (!ZSTD_isError(result))
        result = ZSTD_decompressDCtx(decompressor, dst, size, coded, coded_size);
    if (ZSTD_isError(result) && ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
        TRY(error_memory(err));
    FAIL_IF(ZSTD_isError(result), err, CKPT_EDATA, "zstd: %s", ZSTD_getErrorName(result));
    FAIL_IF(result != size, err, CKPT_EDATA, "zstd frame holds %zu bytes instead of %zu", result, size);
out:
    return rc;
}
