/* XOR: payload := planar (planes.h) of the bits that differ from the reference. */
#include "codec_internal.h"

static int xor_encode(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                      const codec_chunk *chunk, ckpt_error *err)
{
    const plane_layout layout = codec_plane_layout(plan, PLANE_DELTA_XOR);

    return planes_encode(payload_size, payload, capacity, c, &layout, plan->level, chunk->src, chunk->size,
                         chunk->reference, err);
}

static int xor_decode(void *dst, size_t size, codec *c, const void *payload, size_t payload_size, const void *reference,
                      ckpt_error *err)
{
    return planes_decode(dst, size, c, PLANE_DELTA_XOR, payload, payload_size, reference, err);
}

const codec_mode_row CODEC_ROW_XOR = {
    .name = "xor", .needs_reference = true, .encode = xor_encode, .decode = xor_decode};
