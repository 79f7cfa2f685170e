#include "kept.h"

#include "array.h"
#include "checked.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

int kept_add(kept_frames *k, const sha256 *hash, const void *bytes, uint64_t size, ckpt_error *err)
{
    int rc = 0;
    kept_frame *const grown = array_room(k->rows, &k->capacity, k->count + 1, sizeof *grown);

    FAIL_IF_NULL(grown, err);
    k->rows = grown;
    k->rows[k->count++] = (kept_frame){*hash, bytes, size};
out:
    return rc;
}

static int by_hash(const void *a, const void *b)
{
    return sha256_compare(&((const kept_frame *)a)->hash, &((const kept_frame *)b)->hash);
}

void kept_sort(kept_frames *k)
{
    if (k->count > 0)
        qsort(k->rows, k->count, sizeof *k->rows, by_hash);
}

void kept_clear(kept_frames *k)
{
    free(k->rows);
    *k = (kept_frames){0};
}

const unsigned char *kept_chunk(const kept_frames *k, frame_at at, uint32_t i, size_t size)
{
    const pack_frame *const frame = &at.pack->index.frames[at.frame];
    const kept_frame key = {.hash = frame->hash};
    const uint64_t offset = (uint64_t)i * CODEC_CHUNK_BYTES;

    if (!k || k->count == 0)
        return NULL;
    const kept_frame *const row = bsearch(&key, k->rows, k->count, sizeof *k->rows, by_hash);
    if (!row || row->size != frame->size || !checked_range(offset, size, row->size))
        return NULL;
    const uint64_t left = row->size - offset;
    const size_t whole = left < CODEC_CHUNK_BYTES ? (size_t)left : CODEC_CHUNK_BYTES;
    if (size > whole || xxh64_of(row->bytes + offset, whole) != at.pack->index.chunks[frame->chunk_first + i].xxh64)
        return NULL;
    return row->bytes + offset;
}

bool kept_read(void *dst, const kept_frames *k, frame_at at, uint64_t offset, size_t size)
{
    unsigned char *to = dst;

    while (size > 0) {
        const size_t skip = (size_t)(offset % CODEC_CHUNK_BYTES), room = CODEC_CHUNK_BYTES - skip;
        const size_t n = size < room ? size : room;
        const unsigned char *const chunk = kept_chunk(k, at, (uint32_t)(offset / CODEC_CHUNK_BYTES), skip + n);
        if (!chunk)
            return false;
        memcpy(to, chunk + skip, n);
        to += n;
        offset += n;
        size -= n;
    }
    return true;
}
