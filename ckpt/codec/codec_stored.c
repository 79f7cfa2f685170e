/* STORED: payload := the bytes. */
#include "codec_internal.h"

#include "fail.h"

#include <string.h>

static int stored_encode(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                         const codec_chunk *chunk, ckpt_error *err)
{
    (void)c, (void)plan, (void)err;
    *payload_size = CODEC_NO_GAIN;
    if (chunk->size <= capacity) {
        memcpy(payload, chunk->src, chunk->size);
        *payload_size = chunk->size;
    }
    return 0;
}

static int stored_decode(void *dst, size_t size, codec *c, const void *payload, size_t payload_size,
                         const void *reference, ckpt_error *err)
{
    int rc = 0;

    (void)c, (void)reference;
    FAIL_IF(payload_size != size, err, CKPT_EDATA, "stored chunk has %zu bytes instead of %zu", payload_size, size);
    memcpy(dst, payload, size);
out:
    return rc;
}

const codec_mode_row CODEC_ROW_STORED = {.name = "stored", .encode = stored_encode, .decode = stored_decode};
