/* PATCH: payload := zstd_frame of the bytes, whose repeats may reach back into the reference, which stands before them
 * as a raw content dictionary (zstd_frame.h). */
#include "codec_internal.h"
#include "zstd_frame.h"

static int patch_encode(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                        const codec_chunk *chunk, ckpt_error *err)
{
    return zstd_frame_encode(payload_size, payload, capacity, c->compressor, plan->level, chunk->src, chunk->size,
                             chunk->reference, chunk->size, err);
}

static int patch_decode(void *dst, size_t size, codec *c, const void *payload, size_t payload_size,
                        const void *reference, ckpt_error *err)
{
    return zstd_frame_decode(dst, size, c->decompressor, payload, payload_size, reference, size, err);
}

const codec_mode_row CODEC_ROW_PATCH = {
    .name = "patch", .needs_reference = true, .encode = patch_encode, .decode = patch_decode};
