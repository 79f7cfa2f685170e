/* CONTEXT: payload := context (context.h), with the reference. */
#include "codec_internal.h"
#include "context.h"

static int with_encode(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                       const codec_chunk *chunk, ckpt_error *err)
{
    return context_encode(payload_size, payload, capacity, c, plan, chunk->src, chunk->size, chunk->reference, err);
}

static int with_decode(void *dst, size_t size, codec *c, const void *payload, size_t payload_size,
                       const void *reference, ckpt_error *err)
{
    return context_decode(dst, size, c, payload, payload_size, reference, err);
}

const codec_mode_row CODEC_ROW_CONTEXT = {
    .name = "context", .needs_reference = true, .checkable = true, .encode = with_encode, .decode = with_decode};
