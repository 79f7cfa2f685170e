#include "save_internal.h"

#include "checked.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

#define SHARE_HITS_MAX 4

int save_take_pack(saver *s, const pack *p, ckpt_error *err)
{
    int rc = 0;

    TRY(intent_take(s->intent, &p->name, 1, err));
    if (p->index.pack_count)
        TRY(intent_take(s->intent, p->index.packs, p->index.pack_count, err));
out:
    return rc;
}

static bool is_in_tables(const saver *s, const sha256 *name)
{
    for (uint32_t i = 0; i < s->tables.pack_count; i++)
        if (sha256_compare(&s->tables.packs[i], name) == 0)
            return true;
    return false;
}

int save_use_frame(uint32_t *number, saver *s, frame_at at, ckpt_error *err)
{
    int rc = 0;
    const pack *chain[REFERENCE_CHAIN_MAX];
    size_t count = 0;
    uint32_t ignored;

    TRY(reference_chain(chain, &count, s->store->packs, at, err));
    for (size_t i = 0; i < count; i++)
        if (!is_in_tables(s, &chain[i]->name))
            TRY(intent_take(s->intent, &chain[i]->name, 1, err));
    for (size_t i = 0; i < count; i++)
        TRY(pack_index_add_pack(i ? &ignored : number, &s->tables, &chain[i]->name, err));
out:
    return rc;
}

int save_use_closed_pack(uint32_t *number, saver *s, const pack *p, ckpt_error *err)
{
    int rc = 0;
    uint32_t ignored;

    TRY(pack_index_add_pack(number, &s->tables, &p->name, err));
    for (uint32_t i = 0; i < p->index.pack_count; i++)
        TRY(pack_index_add_pack(&ignored, &s->tables, &p->index.packs[i], err));
out:
    return rc;
}

/* What the store has is not what was put there: then memory does not stand for it any more, or the next frames would be
 * deltas of bytes that are lost. */
static void distrust_kept(saver *s)
{
    s->kept = NULL;
    frame_coder_keep(s->scratch.coder, NULL);
}

bool save_equal(saver *s, frame_at at, uint64_t frame_offset, const unsigned char *data, size_t size)
{
    while (size > 0) {
        const uint32_t chunk = (uint32_t)(frame_offset / CODEC_CHUNK_BYTES);
        const size_t from = (size_t)(frame_offset % CODEC_CHUNK_BYTES);
        const size_t room = CODEC_CHUNK_BYTES - from, n = size < room ? size : room;

        if (s->decoded_at.pack != at.pack || s->decoded_at.frame != at.frame || s->decoded_chunk != chunk) {
            s->decoded_at.pack = NULL;
            if (frame_read_chunk(s->scratch.decoded, s->scratch.reader, at, chunk, NULL)) {
                distrust_kept(s);
                return false; /* it is stored anew */
            }
            s->decoded_at = at;
            s->decoded_chunk = chunk;
        }
        if (memcmp(data, s->scratch.decoded + from, n) != 0)
            return false;
        data += n;
        frame_offset += n;
        size -= n;
    }
    return true;
}

/* The same for a piece that is not in memory. */
static int equal_streamed(bool *equal, saver *s, const piece *p, frame_at at, uint64_t frame_offset, ckpt_error *err)
{
    int rc = 0;

    *equal = false;
    for (uint64_t done = 0; done < p->size;) {
        const size_t n = p->size - done < CODEC_CHUNK_BYTES ? (size_t)(p->size - done) : CODEC_CHUNK_BYTES;
        TRY(s->source->read(s->source, s->scratch.buffer, p->offset + done, n, err));
        if (!save_equal(s, at, frame_offset + done, s->scratch.buffer, n))
            goto out;
        done += n;
    }
    *equal = true;
out:
    return rc;
}

static placed_row *placed_find(const saver *s, hash128 hash, uint64_t size)
{
    if (!s->placed_rows)
        return NULL;
    for (size_t i = (size_t)hash.low & (s->placed_rows - 1);; i = (i + 1) & (s->placed_rows - 1)) {
        placed_row *const row = &s->placed[i];
        if (!row->used || (row->hash.low == hash.low && row->hash.high == hash.high && row->size == size))
            return row;
    }
}

static int placed_grow(saver *s, ckpt_error *err)
{
    const size_t rows = s->placed_rows ? s->placed_rows * 2 : 256;
    placed_row *const old = s->placed, *const grown = calloc(rows, sizeof *grown);
    const size_t old_rows = s->placed_rows;

    if (!grown)
        return error_memory(err);
    s->placed = grown;
    s->placed_rows = rows;
    for (size_t i = 0; i < old_rows; i++)
        if (old[i].used)
            *placed_find(s, old[i].hash, old[i].size) = old[i];
    free(old);
    return 0;
}

int save_remember(saver *s, const piece *p, ckpt_error *err)
{
    if (p->size < LOOKUP_BYTES_MIN || (p->hash.low == 0 && p->hash.high == 0))
        return 0;
    if (s->placed_count * 2 >= s->placed_rows) {
        const int rc = placed_grow(s, err);
        if (rc)
            return rc;
    }
    placed_row *const row = placed_find(s, p->hash, p->size);
    if (!row->used) {
        *row = (placed_row){p->hash, p->size, p->frame_offset, p->pack, p->frame, PACK_NONE, true};
        s->placed_count++;
    }
    return 0;
}

void save_remember_extent(saver *s, uint32_t extent_row)
{
    const pack_extent *const e = &s->tables.extents[extent_row];
    placed_row *const row = placed_find(s, e->hash, e->size);

    if (row && row->used && row->frame == e->frame && row->frame_offset == e->frame_offset)
        row->extent = extent_row;
}

void save_remember_roll(saver *s, uint32_t number)
{
    for (size_t i = 0; i < s->placed_rows; i++)
        if (s->placed[i].used && s->placed[i].pack == 0)
            s->placed[i].pack = number;
}

static int place_if_equal(bool *shared, saver *s, piece *p, const unsigned char *data, frame_at at,
                          uint64_t frame_offset, ckpt_error *err)
{
    int rc = 0;

    if (at.frame >= at.pack->index.frame_count ||
        !checked_range(frame_offset, p->size, at.pack->index.frames[at.frame].size))
        goto out; /* a stale hint */
    if (data)
        *shared = save_equal(s, at, frame_offset, data, (size_t)p->size);
    else
        TRY(equal_streamed(shared, s, p, at, frame_offset, err));
    if (!*shared)
        goto out;
    rc = save_use_frame(&p->pack, s, at, err);
    if (rc == CKPT_ENOTFOUND) { /* a prune was quicker: then it is stored anew */
        rc = error_clear(err);
        *shared = false;
        goto out;
    }
    TRY(rc);
    p->frame = at.frame;
    p->frame_offset = frame_offset;
    p->hash = (hash128){0};
    p->placed = true;
    s->shared_bytes += p->size;
out:
    return rc;
}

/* Bytes that this save has stored before. */
static int share_placed(bool *shared, saver *s, piece *p, const unsigned char *data, bool may_roll, ckpt_error *err)
{
    int rc = 0;
    const placed_row *const row = placed_find(s, p->hash, p->size);
    frame_at at = {0};

    if (!row || !row->used)
        goto out;
    if (row->pack == 0) {
        if (!may_roll || s->rolls >= SAVE_ROLLS_MAX)
            goto out;
        TRY(saver_roll(s, err));
    }
    if (pack_set_get(&at.pack, s->store->packs, &s->tables.packs[row->pack - 1], NULL))
        goto out;
    at.frame = row->frame;
    TRY(place_if_equal(shared, s, p, data, at, row->frame_offset, err));
out:
    return rc;
}

int save_share(bool *shared, saver *s, piece *p, const unsigned char *data, bool may_roll, ckpt_error *err)
{
    int rc = 0;
    lookup_hit hits[SHARE_HITS_MAX];

    *shared = false;
    if (p->size < LOOKUP_BYTES_MIN)
        goto out;
    TRY(share_placed(shared, s, p, data, may_roll, err));
    if (*shared)
        goto out;
    const size_t count = lookup_find(hits, SHARE_HITS_MAX, s->lookup, p->hash, p->size);
    for (size_t i = 0; i < count && !*shared; i++) {
        frame_at at = {.frame = hits[i].frame};
        if (pack_set_get(&at.pack, s->store->packs, &hits[i].pack, NULL) == 0)
            TRY(place_if_equal(shared, s, p, data, at, hits[i].frame_offset, err));
    }
out:
    return rc;
}

/* The file whose only extent is row `extent`; NULL when there is none. */
static const pack_file *file_of_extent(const pack_index *tables, uint32_t extent_row)
{
    uint32_t low = 0, high = tables->file_count;

    while (low < high) { /* the first file whose extents begin behind the row */
        const uint32_t middle = low + (high - low) / 2;
        if (tables->files[middle].extent_first <= extent_row)
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- > 0 && tables->files[low].extent_first == extent_row)
        if (tables->files[low].extent_count == 1)
            return &tables->files[low];
    return NULL;
}

bool save_share_twin(saver *s, piece *p, const unsigned char *data)
{
    const placed_row *const row = placed_find(s, p->hash, p->size);
    sha256 hash;

    if (!row || !row->used || row->extent == PACK_NONE)
        return false;
    const pack_file *const twin = file_of_extent(&s->tables, row->extent);
    if (!twin || twin->size != p->size)
        return false;
    sha256_of(&hash, data, (size_t)p->size);
    if (sha256_compare(&hash, &twin->hash) != 0)
        return false;
    const pack_extent *const e = &s->tables.extents[row->extent];
    p->pack = e->pack;
    p->frame = e->frame;
    p->frame_offset = e->frame_offset;
    p->hash = (hash128){0};
    p->placed = true;
    s->shared_bytes += p->size;
    return true;
}
