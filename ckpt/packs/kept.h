/* Kept frames: decoded bytes of stored frames that stand in memory anyway, so that a delta against them needs no
 * decoding.
 *
 * A frame is known by the SHA-256 of its decoded bytes, whatever pack it lies in. The bytes are somebody else's, and
 * are believed a chunk at a time: when their XXH3-64 is the one that the pack has of the chunk, which is all that
 * decoding would prove too. */
#ifndef CKPT_KEPT_H
#define CKPT_KEPT_H

#include "pack.h"

typedef struct kept_frame {
    sha256 hash; /* of the frame: pack_frame.hash */
    const unsigned char *bytes;
    uint64_t size;
} kept_frame;

/* Zeroed there are none. */
typedef struct kept_frames {
    kept_frame *rows; /* sorted by hash once kept_sort was called */
    size_t count, capacity;
} kept_frames;

int kept_add(kept_frames *k, const sha256 *hash, const void *bytes, uint64_t size, ckpt_error *err);
void kept_sort(kept_frames *k); /* after the last one was added */
void kept_clear(kept_frames *k);

/* The first `size` bytes of chunk i of a frame; NULL when the frame is not kept or the chunk is shorter. `k` may be
 * NULL: then none is. */
const unsigned char *kept_chunk(const kept_frames *k, frame_at at, uint32_t i, size_t size);
/* Copies a range of a frame; false when it is not kept or reaches beyond the end. */
bool kept_read(void *dst, const kept_frames *k, frame_at at, uint64_t offset, size_t size);

#endif
