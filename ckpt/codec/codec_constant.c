/* CONSTANT: payload := element {1, 2, 4 or 8 bytes}, repeated until the chunk is full; the last one may be cut. */
#include "codec_internal.h"

#include "fail.h"

#include <string.h>

size_t codec_constant_period(const void *src, size_t size)
{
    const unsigned char *bytes = src;

    for (size_t period = 1; period <= 8 && period <= size; period *= 2)
        if (memcmp(bytes, bytes + period, size - period) == 0)
            return period;
    return 0;
}

static int constant_encode(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                           const codec_chunk *chunk, ckpt_error *err)
{
    const size_t period = codec_constant_period(chunk->src, chunk->size);

    (void)c, (void)plan, (void)err;
    *payload_size = CODEC_NO_GAIN;
    if (period > 0 && period <= capacity) {
        memcpy(payload, chunk->src, period);
        *payload_size = period;
    }
    return 0;
}

static int constant_decode(void *dst, size_t size, codec *c, const void *payload, size_t payload_size,
                           const void *reference, ckpt_error *err)
{
    int rc = 0;
    unsigned char *out = dst;
    size_t filled = payload_size;

    (void)c, (void)reference;
    FAIL_IF(payload_size != 1 && payload_size != 2 && payload_size != 4 && payload_size != 8, err, CKPT_EDATA,
            "constant of %zu bytes", payload_size);
    FAIL_IF(payload_size > size, err, CKPT_EDATA, "constant of %zu bytes for a chunk of %zu", payload_size, size);
    memcpy(out, payload, payload_size);
    while (filled < size) {
        const size_t n = filled <= size - filled ? filled : size - filled;
        memcpy(out + filled, out, n);
        filled += n;
    }
out:
    return rc;
}

const codec_mode_row CODEC_ROW_CONSTANT = {.name = "constant", .encode = constant_encode, .decode = constant_decode};
