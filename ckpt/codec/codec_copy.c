/* COPY: no payload; the chunk equals its reference. */
#include "codec_internal.h"

#include "fail.h"

#include <string.h>

static int copy_encode(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                       const codec_chunk *chunk, ckpt_error *err)
{
    (void)payload, (void)capacity, (void)c, (void)plan, (void)err;
    *payload_size = memcmp(chunk->src, chunk->reference, chunk->size) ? CODEC_NO_GAIN : 0;
    return 0;
}

static int copy_decode(void *dst, size_t size, codec *c, const void *payload, size_t payload_size,
                       const void *reference, ckpt_error *err)
{
    int rc = 0;

    (void)c, (void)payload;
    FAIL_IF(payload_size != 0, err, CKPT_EDATA, "copied chunk with %zu bytes of its own", payload_size);
    memcpy(dst, reference, size);
out:
    return rc;
}

const codec_mode_row CODEC_ROW_COPY = {
    .name = "copy", .needs_reference = true, .encode = copy_encode, .decode = copy_decode};
