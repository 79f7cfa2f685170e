/* SYMBOLS: payload := context (context.h), without a reference. */
#include "codec_internal.h"
#include "context.h"

static int alone_encode(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                        const codec_chunk *chunk, ckpt_error *err)
{
    return context_encode(payload_size, payload, capacity, c, plan, chunk->src, chunk->size, NULL, err);
}

static int alone_decode(void *dst, size_t size, codec *c, const void *payload, size_t payload_size,
                        const void *reference, ckpt_error *err)
{
    (void)reference;
    return context_decode(dst, size, c, payload, payload_size, NULL, err);
}

const codec_mode_row CODEC_ROW_SYMBOLS = {
    .name = "symbols", .checkable = true, .encode = alone_encode, .decode = alone_decode};
