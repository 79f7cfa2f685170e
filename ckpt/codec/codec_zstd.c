/* ZSTD: payload := zstd_frame of the bytes (zstd_frame.h). */
#include "codec_internal.h"
#include "zstd_frame.h"

static int bytes_encode(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                        const codec_chunk *chunk, ckpt_error *err)
{
    return zstd_frame_encode(payload_size, payload, capacity, c->compressor, plan->level, chunk->src, chunk->size, NULL,
                             0, err);
}

static int bytes_decode(void *dst, size_t size, codec *c, const void *payload, size_t payload_size,
                        const void *reference, ckpt_error *err)
{
    (void)reference;
    return zstd_frame_decode(dst, size, c->decompressor, payload, payload_size, NULL, 0, err);
}

const codec_mode_row CODEC_ROW_ZSTD = {.name = "zstd", .encode = bytes_encode, .decode = bytes_decode};
