#include "feature.h"
#include "repack.h"
#include "save_internal.h"
#include "setting.h"
#include "tables.h"
#include "verify.h"

#include "bytes.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_FIRST   256 /* rows of a table; a power of two */
#define SAMPLE_WINDOWS 2
#define SAMPLE_BYTES   ((size_t)32 << 10)
#define LEVEL_OF_ZSTD  0x3fu           /* of the byte `level`, whose other bits tell of the save */
#define PACK_UNNAMED   ((sha256){{0}}) /* the pack that is being written */

/* A frame that can be used, by the SHA-256 of its decoded bytes. */
typedef struct place {
    sha256 hash, pack;
    uint32_t frame;
    bool used;
} place;

/* Open addressing, at most half full. */
typedef struct place_table {
    place *rows;
    size_t size, used;
} place_table;

struct repack_places {
    place_table frames;
    place_table families; /* the newest frame moved, by the hash of the end of its chain as it was */
};

/* A frame that became part of the new pack. */
typedef struct moved_frame {
    sha256 hash, family;
    uint32_t frame;
} moved_frame;

typedef struct repacker {
    ckpt_store *store;
    struct intent *intent;
    repack_places *places;
    pack *own; /* as it was */
    pack_writer writer;
    frame_coder *coder;
    frame_reader *reader;
    unsigned char *coded;   /* CODEC_CHUNK_CODED_MAX */
    unsigned char *decoded; /* CODEC_CHUNK_BYTES */
    unsigned char *samples; /* SAMPLE_WINDOWS of the frame, and as many of the reference */
    pack_extent *extents;
    moved_frame *moved;
    size_t moved_count;
} repacker;

/* ---- Places ----------------------------------------------------------------------------------------------------- */

static place *place_row(const place_table *t, const sha256 *hash)
{
    uint64_t start;

    memcpy(&start, hash, sizeof start);
    for (size_t i = (size_t)start & (t->size - 1);; i = (i + 1) & (t->size - 1))
        if (!t->rows[i].used || sha256_compare(&t->rows[i].hash, hash) == 0)
            return &t->rows[i];
}

static const place *place_find(const place_table *t, const sha256 *hash)
{
    const place *const row = t->size ? place_row(t, hash) : NULL;

    return row && row->used ? row : NULL;
}

static int place_table_grow(place_table *t, ckpt_error *err)
{
    place_table grown = {.size = t->size ? 2 * t->size : PLACES_FIRST, .used = t->used};

    grown.rows = calloc(grown.size, sizeof *grown.rows);
    if (!grown.rows)
        return error_memory(err);
    for (size_t i = 0; i < t->size; i++)
        if (t->rows[i].used)
            *place_row(&grown, &t->rows[i].hash) = t->rows[i];
    free(t->rows);
    *t = grown;
    return 0;
}

/* The last one said of a hash counts. */
static int place_put(place_table *t, const sha256 *hash, const sha256 *pack_name, uint32_t frame, ckpt_error *err)
{
    int rc = 0;

    if (2 * t->used >= t->size)
        TRY(place_table_grow(t, err));
    place *const row = place_row(t, hash);
    t->used += !row->used;
    *row = (place){*hash, *pack_name, frame, true};
out:
    return rc;
}

int repack_places_new(repack_places **out, const live_map *map, const bool *gone, ckpt_error *err)
{
    int rc = 0;
    repack_places *places = calloc(1, sizeof *places);

    FAIL_IF_NULL(places, err);
    for (uint32_t i = 0; i < map->reach.count; i++)
        for (uint32_t k = 0; !gone[i] && k < map->packs[i].frame_count; k++) {
            const live_frame *const frame = &map->packs[i].frames[k];
            if (frame->live)
                TRY(place_put(&places->frames, &frame->hash, &map->reach.packs[i].name, k, err));
        }
    /* What an interrupted run has moved already is the newest of its family. */
    for (uint32_t i = 0; i < map->reach.count; i++)
        for (uint32_t k = 0; gone[i] && k < map->packs[i].frame_count; k++) {
            const live_frame *const frame = &map->packs[i].frames[k];
            const place *const there = frame->live ? place_find(&places->frames, &frame->hash) : NULL;
            if (there)
                TRY(place_put(&places->families, &live_frame_at(map, live_root(map, (live_at){i, k}))->hash,
                              &there->pack, there->frame, err));
        }
    *out = places;
    places = NULL;
out:
    repack_places_free(places);
    return rc;
}

void repack_places_free(repack_places *places)
{
    if (!places)
        return;
    free(places->frames.rows);
    free(places->families.rows);
    free(places);
}

/* ---- Frames ----------------------------------------------------------------------------------------------------- */

static const pack_frame *row_of(frame_at at)
{
    return &at.pack->index.frames[at.frame];
}

/* The hash of the end of the frame's chain. */
static int family_of(sha256 *out, const repacker *r, frame_at at, ckpt_error *err)
{
    int rc = 0;

    while (row_of(at)->reference_pack != PACK_NONE)
        TRY(pack_set_follow(&at, r->store->packs, at.pack, row_of(at)->reference_pack, row_of(at)->reference_frame,
                            err));
    *out = row_of(at)->hash;
out:
    return rc;
}

/* Takes the packs that decoding a frame of a closed pack touches, and lists them in the new one. */
static int chain_use(uint32_t *number, repacker *r, frame_at at, ckpt_error *err)
{
    int rc = 0;
    const pack *chain[REFERENCE_CHAIN_MAX];
    size_t count = 0;
    uint32_t ignored;

    TRY(reference_chain(chain, &count, r->store->packs, at, err));
    for (size_t i = 0; i < count; i++)
        TRY(intent_take(r->intent, &chain[i]->name, 1, err));
    for (size_t i = 0; i < count; i++)
        TRY(pack_index_add_pack(i ? &ignored : number, &r->writer.index, &chain[i]->name, err));
out:
    return rc;
}

/* Number and depth, in the new pack, of a frame that has a place. */
static int place_use(uint32_t *number, unsigned *depth, repacker *r, const place *there, ckpt_error *err)
{
    int rc = 0;
    frame_at at = {.frame = there->frame};

    if (sha256_compare(&there->pack, &PACK_UNNAMED) == 0) {
        *number = 0;
        TRY(frame_coder_drain(r->coder, err));
        *depth = r->writer.index.frames[there->frame].depth;
        goto out;
    }
    TRY(pack_set_get(&at.pack, r->store->packs, &there->pack, err));
    FAIL_IF(at.frame >= at.pack->index.frame_count, err, CKPT_EBUG, "a frame that was moved is not where it was put");
    *depth = row_of(at)->depth;
    TRY(chain_use(number, r, at, err));
out:
    return rc;
}

static void reference_drop(pack_frame *row)
{
    row->reference_pack = PACK_NONE;
    row->reference_frame = 0;
    row->reference_hash = (sha256){{0}};
    row->depth = 0;
}

/* The chunks as they are coded: they stay right as long as the bytes of the reference are the same ones. *copied is
 * false when its reference has no place, or the chain would become too long. */
static int frame_copy(bool *copied, uint32_t *number, repacker *r, frame_at at, ckpt_error *err)
{
    int rc = 0;
    unsigned depth = 0;
    pack_frame row = *row_of(at);
    const place *const reference = place_find(&r->places->frames, &row.reference_hash);

    *copied = false;
    if (row.reference_pack != PACK_NONE) {
        if (!reference)
            goto out;
        TRY(place_use(&row.reference_pack, &depth, r, reference, err));
        if (depth >= PACK_DEPTH_WRITE_MAX)
            goto out;
        row.reference_frame = reference->frame;
        row.depth = (uint8_t)(depth + 1);
    }
    TRY(frame_coder_drain(r->coder, err));
    TRY(pack_index_add_string(&row.class_name, &r->writer.index, pack_string(&at.pack->index, row.class_name), err));
    TRY(pack_writer_frame(number, &r->writer, &row, err));
    for (uint32_t i = 0; i < pack_frame_chunks(row_of(at)); i++) {
        size_t size = 0;
        TRY(pack_read_chunk(&size, r->coded, at.pack, row_of(at), i, err));
        TRY(pack_writer_chunk(&r->writer, r->coded, size, at.pack->index.chunks[row_of(at)->chunk_first + i].xxh64,
                              err));
    }
    frame_coder_target(r->coder, &r->writer);
    *copied = true;
out:
    return rc;
}

/* The newest frame moved of the family, or the one that its chain begins with; pack is NULL without one. */
static int candidate_find(frame_at *out, repacker *r, const sha256 *family, ckpt_error *err)
{
    int rc = 0;
    const place *const newest = place_find(&r->places->families, family);

    *out = (frame_at){0};
    if (!newest)
        goto out;
    TRY(pack_set_get(&out->pack, r->store->packs, &newest->pack, err));
    out->frame = newest->frame;
    if (!reference_usable(out, r->store->packs))
        out->pack = NULL;
out:
    return rc;
}

static int plan_choose(codec_plan *plan, bool *refers, repacker *r, frame_at at, frame_at candidate, ckpt_error *err)
{
    int rc = 0, chosen = -1;
    double share;
    const uint64_t size = row_of(at)->size;
    codec_sample samples[SAMPLE_WINDOWS] = {0};

    for (size_t i = 0; i < SAMPLE_WINDOWS; i++) {
        unsigned char *const data = r->samples + 2 * i * SAMPLE_BYTES, *const reference = data + SAMPLE_BYTES;
        const uint64_t from = size > SAMPLE_BYTES ? (size - SAMPLE_BYTES) / 3 * (i + 1) / 8 * 8 : 0;
        samples[i].size = size < SAMPLE_BYTES ? (size_t)size : SAMPLE_BYTES;
        samples[i].data = data;
        TRY(frame_read(data, r->reader, at, from, samples[i].size, err));
        if (!candidate.pack)
            continue;
        TRY(frame_read(reference, r->reader, candidate, from, samples[i].size, err));
        samples[i].reference[0] = reference;
    }
    TRY(codec_plan_choose(plan, &chosen, &share, frame_reader_codec(r->reader), (ckpt_dtype)row_of(at)->dtype, samples,
                          SAMPLE_WINDOWS, candidate.pack ? 1 : 0, err));
    *refers = chosen >= 0;
out:
    return rc;
}

/* Codes the frame anew. */
static int frame_recode(uint32_t *number, repacker *r, frame_at at, const sha256 *family, ckpt_error *err)
{
    int rc = 0;
    bool refers = false;
    codec_plan plan = {0};
    frame_at reference;
    pack_frame row = *row_of(at);

    TRY(candidate_find(&reference, r, family, err));
    TRY(plan_choose(&plan, &refers, r, at, reference, err));
    reference_drop(&row);
    plan.thorough = row.level == pack_level(row.level, CKPT_LEVEL_MAX); /* as it was saved */
    row.level = (uint8_t)((row.level & ~LEVEL_OF_ZSTD) | ((unsigned)plan.level & LEVEL_OF_ZSTD));
    TRY(pack_index_add_string(&row.class_name, &r->writer.index, pack_string(&at.pack->index, row.class_name), err));
    if (refers) {
        TRY(chain_use(&row.reference_pack, r, reference, err));
        row.reference_frame = reference.frame;
        row.reference_hash = row_of(reference)->hash;
        row.depth = (uint8_t)(row_of(reference)->depth + 1);
    }
    TRY(frame_coder_begin(number, r->coder, &row, &plan, refers ? &reference : NULL, err));
    for (uint32_t i = 0; i < pack_frame_chunks(row_of(at)); i++) {
        unsigned char *slot = NULL;
        size_t size = 0;
        TRY(frame_coder_chunk(&slot, &size, r->coder, err));
        TRY(frame_read_chunk(slot, r->reader, at, i, err));
        TRY(frame_coder_submit(r->coder, err));
    }
out:
    return rc;
}

static int progress(const ckpt_store *store, ckpt_error *err)
{
    if (store->progress && store->progress(store->payload, 0, 0))
        return error_set(err, CKPT_EINTERRUPTED, "interrupted");
    return 0;
}

/* Where a frame is from now on: where it was or was moved to, else it becomes part of the new pack. */
static int frame_settle(uint32_t *pack_number, uint32_t *frame, repacker *r, frame_at at, ckpt_error *err)
{
    int rc = 0;
    bool copied;
    unsigned depth;
    sha256 family;
    const place *const there = place_find(&r->places->frames, &row_of(at)->hash);

    TRY(progress(r->store, err));
    if (there) {
        *frame = there->frame;
        TRY(place_use(pack_number, &depth, r, there, err));
        goto out;
    }
    TRY(family_of(&family, r, at, err));
    TRY(frame_copy(&copied, frame, r, at, err));
    if (!copied)
        TRY(frame_recode(frame, r, at, &family, err));
    *pack_number = 0;
    TRY(place_put(&r->places->frames, &row_of(at)->hash, &PACK_UNNAMED, *frame, err));
    r->moved[r->moved_count++] = (moved_frame){row_of(at)->hash, family, *frame};
out:
    return rc;
}

/* ---- The tables ------------------------------------------------------------------------------------------------- */

/* The hash by which later saves find the bytes, when the extent has lain in another pack so far. */
static int extent_hash(pack_extent *e, repacker *r, frame_at at, ckpt_error *err)
{
    int rc = 0;
    bool zero = true;
    xxh128_stream *stream = NULL;

    if (e->size < LOOKUP_BYTES_MIN || e->hash.low || e->hash.high)
        goto out;
    stream = xxh128_new();
    FAIL_IF_NULL(stream, err);
    for (uint64_t done = 0; done < e->size;) {
        const uint64_t left = e->size - done;
        const size_t n = left < CODEC_CHUNK_BYTES ? (size_t)left : CODEC_CHUNK_BYTES;
        TRY(frame_read(r->decoded, r->reader, at, e->frame_offset + done, n, err));
        xxh128_update(stream, r->decoded, n);
        zero = zero && bytes_are_zero(r->decoded, n);
        done += n;
    }
    if (!zero) /* nobody looks for zeros */
        e->hash = xxh128_finish(stream);
out:
    xxh128_free(stream);
    return rc;
}

static int extents_settle(repacker *r, ckpt_error *err)
{
    int rc = 0;
    const pack_index *const index = &r->own->index;

    for (uint32_t i = 0; i < index->extent_count; i++) {
        pack_extent *const e = &r->extents[i];
        frame_at at;
        *e = index->extents[i];
        TRY(pack_set_follow(&at, r->store->packs, r->own, e->pack, e->frame, err));
        const bool was_own = e->pack == 0;
        TRY(frame_settle(&e->pack, &e->frame, r, at, err));
        if (e->pack != 0)
            e->hash = (hash128){0};
        else if (!was_own)
            TRY(extent_hash(e, r, at, err));
    }
    TRY(frame_coder_drain(r->coder, err));
    save_tell_faults(r->store, frame_coder_faults(r->coder));
out:
    return rc;
}

/* The rows of files, tensors and values are those of the old pack; the packs listed so far are all that is needed. */
static int tables_settle(repacker *r, const snapshot *snap, ckpt_error *err)
{
    int rc = 0;
    sha256 tree;
    pack_index from = r->own->index;

    from.extents = r->extents;
    from.packs = r->writer.index.packs;
    from.pack_count = r->writer.index.pack_count;
    TRY(tables_copy(&r->writer.index, &from, 0, from.file_count, err));
    TRY(pack_index_tree(&tree, &r->writer.index, err));
    FAIL_IF(sha256_compare(&tree, &snap->tree) != 0, err, CKPT_EDATA,
            "the files in the pack are not those of the snapshot");
out:
    return rc;
}

/* ---- The pack --------------------------------------------------------------------------------------------------- */

static int repacker_open(repacker *r, const sha256 *own, ckpt_error *err)
{
    int rc = 0;
    pool *p = NULL;

    store_packs_borrow(r->store);
    TRY(intent_take(r->intent, own, 1, err));
    TRY(pack_set_get(&r->own, r->store->packs, own, err));
    TRY(intent_take(r->intent, r->own->index.packs, r->own->index.pack_count, err));
    TRY(store_pool(&p, r->store, err));
    TRY(frame_coder_new(&r->coder, p, r->store->packs, err));
    TRY(frame_reader_new(&r->reader, r->store->packs, err));
    r->coded = malloc(CODEC_CHUNK_CODED_MAX);
    r->decoded = malloc(CODEC_CHUNK_BYTES);
    r->samples = malloc(2 * SAMPLE_WINDOWS * SAMPLE_BYTES);
    r->extents = calloc((size_t)r->own->index.extent_count + 1, sizeof *r->extents);
    r->moved = calloc((size_t)r->own->index.extent_count + 1, sizeof *r->moved);
    FAIL_IF_NULL(r->coded && r->decoded && r->samples && r->extents && r->moved, err);
    TRY(pack_writer_open(&r->writer, r->store->tmp_dir, err));
    frame_coder_target(r->coder, &r->writer);
out:
    return rc;
}

static void repacker_close(repacker *r)
{
    frame_coder_free(r->coder);
    frame_reader_free(r->reader);
    free(r->coded);
    free(r->decoded);
    free(r->samples);
    free(r->extents);
    free(r->moved);
    pack_writer_discard(&r->writer);
    store_packs_return(r->store);
}

static int repacker_commit(sha256 *name, uint64_t *size_bytes, repacker *r, ckpt_error *err)
{
    int rc = 0;
    double parity;
    file_commit_plan plan = {0};

    TRY(setting_parity(&parity, r->store, err));
    TRY(pack_writer_finish(name, &r->writer, err));
    TRY(features_announce(r->store, pack_index_features(&r->writer.index), err));
    TRY(intent_add(r->intent, name, 1, err)); /* before it appears: prune must know whose it is */
    TRY(save_place_pack(&plan, size_bytes, r->store, &r->writer.tmp, name, parity, err));
    TRY(file_commit(&plan, err));
    for (size_t i = 0; i < r->moved_count; i++) {
        TRY(place_put(&r->places->frames, &r->moved[i].hash, name, r->moved[i].frame, err));
        TRY(place_put(&r->places->families, &r->moved[i].family, name, r->moved[i].frame, err));
    }
    (void)lookup_add(r->store, name, &r->writer.index, NULL);
out:
    file_commit_discard(&plan);
    return rc;
}

int repack_pack(sha256 *name, uint64_t *size_bytes, repack_places *places, ckpt_store *store, struct intent *in,
                const snapshot_name *id, const snapshot *snap, ckpt_error *err)
{
    int rc = 0;
    char why[REACH_WHY_SIZE];
    repacker r = {.store = store, .intent = in, .places = places, .writer.tmp.fd = -1};
    snapshot moved = *snap;

    TRY(repacker_open(&r, &snap->pack, err));
    TRY(extents_settle(&r, err));
    TRY(tables_settle(&r, snap, err));
    TRY(repacker_commit(name, size_bytes, &r, err));
    moved.pack = *name;
    TRY(verify_snapshot(why, store, id, &moved, err));
    FAIL_IF(why[0], err, CKPT_EDATA, "%s; it stays as it is", why);
out:
    repacker_close(&r);
    return rc;
}
