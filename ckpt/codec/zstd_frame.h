/* One zstd frame made and read in one call, as all modes use them.
 *
 *   frame := a zstd frame (RFC 8878) without content size, checksum and dictionary id
 *
 * The decoded size is always known from outside, so a field for it would only cost bytes. */
#ifndef CKPT_ZSTD_FRAME_H
#define CKPT_ZSTD_FRAME_H

#include <ckpt/error.h>
#include <stddef.h>
#include <zstd.h>

/* Huffman coding and hardly any search for repeats: three times as fast as level 1 on exponents, and smaller, since
 * the short repeats that level 1 finds in noise cost more than they save. */
#define ZSTD_FRAME_LEVEL_ENTROPY 0
#define ZSTD_FRAME_LEVEL_MAX     19

/* `prefix` are bytes that the decoder will have too, or NULL. *coded_size is SIZE_MAX when the frame does not fit. */
int zstd_frame_encode(size_t *coded_size, void *dst, size_t capacity, ZSTD_CCtx *compressor, int level, const void *src,
                      size_t size, const void *prefix, size_t prefix_size, ckpt_error *err);

/* `coded` is exactly one frame of exactly `size` decoded bytes: CKPT_EDATA otherwise. */
int zstd_frame_decode(void *dst, size_t size, ZSTD_DCtx *decompressor, const void *coded, size_t coded_size,
                      const void *prefix, size_t prefix_size, ckpt_error *err);

#endif
