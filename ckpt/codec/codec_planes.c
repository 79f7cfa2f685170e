/* PLANES: payload := planar (planes.h) of the elements as they are. */
#include "codec_internal.h"

static int raw_encode(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                      const codec_chunk *chunk, ckpt_error *err)
{
    const plane_layout layout = codec_plane_layout(plan, PLANE_DELTA_NONE);

    return planes_encode(payload_size, payload, capacity, c, &layout, plan->level, chunk->src, chunk->size, NULL, err);
}

static int raw_decode(void *dst, size_t size, codec *c, const void *payload, size_t payload_size, const void *reference,
                      ckpt_error *err)
{
    (void)reference;
    return planes_decode(dst, size, c, PLANE_DELTA_NONE, payload, payload_size, NULL, err);
}

const codec_mode_row CODEC_ROW_PLANES = {.name = "planes", .encode = raw_encode, .decode = raw_decode};
