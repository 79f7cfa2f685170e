#include "planes.h"

#include "codec_internal.h"
#include "zstd_frame.h"

#include "bytes.h"
#include "fail.h"

#include <string.h>

enum { PLANE_STORED = 0, PLANE_CONSTANT = 1, PLANE_ZSTD = 2 };
enum { PLANE_ZSTD_HEADER = 4, FLAG_ROTATE = 0x3f, FLAG_ORDERED = 0x40 };

/* A plane's entropy is estimated on pieces of PIECE_BYTES, one in each PIECE_STEP bytes. */
enum { PIECE_BYTES = 64, PIECE_STEP = 1024, ESTIMATE_BYTES_MIN = 4096 };

/* zstd keeps literals as they are unless they shrink by 1/64: 7.875 bits a byte. In 1/256 of a bit. */
enum { LOG2_ONE = 256, INCOMPRESSIBLE_BITS = 8 * LOG2_ONE * 63 / 64 };

const plane_kernel *plane_kernel_best(void)
{
    const plane_kernel *avx2 = plane_kernel_avx2();
    return avx2 ? avx2 : &PLANE_KERNEL_SCALAR;
}

/* ---- Coding one plane ---- */

/* log2(n) in 1/256, in integers so that every machine decides alike: the fraction by squaring, a bit each time. */
static uint32_t log2_fixed(uint32_t n)
{
    const unsigned whole = 31u - (unsigned)__builtin_clz(n);
    uint64_t x = (uint64_t)n << (31 - whole); /* n / 2^whole, one is 2^31 */
    uint32_t log = whole;

    for (unsigned bit = 0; bit < 8; bit++) {
        x = x * x >> 31;
        log = log << 1 | (uint32_t)(x >> 32);
        x >>= x >> 32;
    }
    return log;
}

static bool plane_is_constant(const unsigned char *plane, size_t count)
{
    return count > 0 && memcmp(plane, plane + 1, count - 1) == 0;
}

/* Would Huffman coding hardly shrink it? Says no when in doubt, which costs only time. */
static bool plane_is_noise(const unsigned char *plane, size_t count)
{
    uint32_t histogram[256] = {0}, total = 0;
    uint64_t bits = 0;

    if (count < ESTIMATE_BYTES_MIN)
        return false;
    const size_t step = count < (size_t)ESTIMATE_BYTES_MIN * (PIECE_STEP / PIECE_BYTES) ? PIECE_BYTES : PIECE_STEP;
    for (size_t first = 0; first + PIECE_BYTES <= count; first += step) {
        for (size_t i = 0; i < PIECE_BYTES; i++)
            histogram[plane[first + i]]++;
        total += PIECE_BYTES;
    }
    /* total * entropy = sum of n * (log2(total) - log2(n)) */
    for (unsigned i = 0; i < 256; i++)
        if (histogram[i])
            bits += (uint64_t)histogram[i] * (log2_fixed(total) - log2_fixed(histogram[i]));
    return bits > (uint64_t)total * INCOMPRESSIBLE_BITS;
}

/* A search for repeats (level > 0) may pay even on noise. */
int plane_encode(bool *fits, size_t *used, unsigned char *dst, size_t capacity, codec *c, int level,
                 const unsigned char *plane, size_t count, ckpt_error *err)
{
    int rc = 0;
    unsigned char *out = dst + *used;
    const size_t room = capacity - *used;
    size_t coded = SIZE_MAX;

    if (plane_is_constant(plane, count)) {
        *fits = room >= 2;
        if (*fits) {
            out[0] = PLANE_CONSTANT;
            out[1] = plane[0];
            *used += 2;
        }
        goto out;
    }
    if (room > PLANE_ZSTD_HEADER && (level > 0 || !plane_is_noise(plane, count)))
        TRY(zstd_frame_encode(&coded, out + PLANE_ZSTD_HEADER, room - PLANE_ZSTD_HEADER, c->compressor, level, plane,
                              count, NULL, 0, err));
    if (coded < SIZE_MAX && coded + PLANE_ZSTD_HEADER < count + 1) {
        store_u32(out, PLANE_ZSTD | (uint32_t)coded << 8);
        *used += PLANE_ZSTD_HEADER + coded;
        goto out;
    }
    *fits = room > count;
    if (*fits) {
        out[0] = PLANE_STORED;
        memcpy(out + 1, plane, count);
        *used += 1 + count;
    }
out:
    return rc;
}

int planes_encode(size_t *coded_size, void *dst, size_t capacity, codec *c, const plane_layout *layout, int level,
                  const void *src, size_t size, const void *reference, ckpt_error *err)
{
    int rc = 0;
    unsigned char *out = dst;
    const size_t count = size / layout->width, tail = size % layout->width;
    size_t used = PLANES_HEADER_SIZE;
    bool fits = capacity >= PLANES_HEADER_SIZE + tail;

    *coded_size = CODEC_NO_GAIN;
    if (!fits)
        goto out;
    out[0] = (unsigned char)layout->width;
    out[1] = (unsigned char)(layout->rotate | (layout->ordered ? FLAG_ORDERED : 0));
    c->kernel->split(c->planes, layout, src, reference, count);
    for (unsigned p = 0; fits && p < layout->width; p++)
        TRY(plane_encode(&fits, &used, out, capacity - tail, c, level, c->planes + p * count, count, err));
    if (fits) {
        memcpy(out + used, (const unsigned char *)src + size - tail, tail);
        *coded_size = used + tail;
    }
out:
    return rc;
}

/* ---- Decoding ---- */

int plane_decode(const unsigned char **plane, size_t *used, unsigned char *scratch, codec *c,
                 const unsigned char *coded, size_t coded_size, size_t count, ckpt_error *err)
{
    int rc = 0;
    const unsigned char *in = coded + *used;
    const size_t left = coded_size - *used;
    size_t size = 0;

    FAIL_IF(left < 1, err, CKPT_EDATA, "coded planes end too early");
    *plane = scratch;
    switch (in[0]) {
    case PLANE_STORED:
        FAIL_IF(left - 1 < count, err, CKPT_EDATA, "stored plane ends too early");
        *plane = in + 1;
        *used += 1 + count;
        break;
    case PLANE_CONSTANT:
        FAIL_IF(left < 2, err, CKPT_EDATA, "constant plane ends too early");
        memset(scratch, in[1], count);
        *used += 2;
        break;
    case PLANE_ZSTD:
        FAIL_IF(left < PLANE_ZSTD_HEADER, err, CKPT_EDATA, "coded plane ends too early");
        size = load_u32(in) >> 8;
        FAIL_IF(left - PLANE_ZSTD_HEADER < size, err, CKPT_EDATA, "coded plane ends too early");
        TRY(zstd_frame_decode(scratch, count, c->decompressor, in + PLANE_ZSTD_HEADER, size, NULL, 0, err));
        *used += PLANE_ZSTD_HEADER + size;
        break;
    default:
        FAIL(err, CKPT_EDATA, "unknown coding %u of a plane", in[0]);
    }
out:
    return rc;
}

int planes_decode(void *dst, size_t size, codec *c, plane_delta delta, const void *coded, size_t coded_size,
                  const void *reference, ckpt_error *err)
{
    int rc = 0;
    const unsigned char *in = coded, *plane[PLANES_WIDTH_MAX] = {0};
    size_t used = PLANES_HEADER_SIZE, count = 0, tail = 0;
    plane_layout layout = {.delta = delta};

    FAIL_IF(coded_size < PLANES_HEADER_SIZE, err, CKPT_EDATA, "coded planes end too early");
    layout.width = in[0];
    layout.rotate = in[1] & FLAG_ROTATE;
    layout.ordered = in[1] & FLAG_ORDERED;
    FAIL_IF(layout.width != 1 && layout.width != 2 && layout.width != 4 && layout.width != 8, err, CKPT_EDATA,
            "elements of %u bytes", layout.width);
    FAIL_IF(layout.rotate >= 8 * layout.width || in[1] & ~(FLAG_ROTATE | FLAG_ORDERED), err, CKPT_EDATA,
            "unknown flags 0x%02x of planes", in[1]);

    count = size / layout.width;
    tail = size % layout.width;
    for (unsigned p = 0; p < layout.width; p++)
        TRY(plane_decode(&plane[p], &used, c->planes + p * count, c, in, coded_size, count, err));
    FAIL_IF(coded_size - used != tail, err, CKPT_EDATA, "%zu bytes behind coded planes instead of %zu",
            coded_size - used, tail);
    c->kernel->merge(dst, &layout, plane, reference, count);
    memcpy((unsigned char *)dst + size - tail, in + used, tail);
out:
    return rc;
}
