#include "live.h"

#include "array.h"
#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct live_reader {
    live_map *map;
    int (*visit)(void *payload, const pack *p, ckpt_error *err);
    void *payload;
} live_reader;

static void not_known(live_map *map, const char *why)
{
    if (!map->why[0])
        snprintf(map->why, sizeof map->why, "%.*s", (int)sizeof map->why - 1, why);
}

/* ---- Tables ----------------------------------------------------------------------------------------------------- */

/* rows[i] is the row of pack number i of `index`, which is that of the pack in row `self`. */
static int rows_of_numbers(uint32_t **rows, const live_map *map, uint32_t self, const pack_index *index,
                           ckpt_error *err)
{
    int rc = 0;

    *rows = calloc((size_t)index->pack_count + 1, sizeof **rows);
    FAIL_IF_NULL(*rows, err);
    (*rows)[0] = self;
    for (uint32_t i = 0; i < index->pack_count; i++) {
        const reach_pack *const found = reach_find(&map->reach, &index->packs[i]);
        (*rows)[i + 1] = found ? (uint32_t)(found - map->reach.packs) : PACK_NONE;
    }
out:
    return rc;
}

static int frames_take(live_pack *p, const uint32_t *rows, const pack_index *index, ckpt_error *err)
{
    int rc = 0;

    p->frames = calloc((size_t)index->frame_count + 1, sizeof *p->frames);
    FAIL_IF_NULL(p->frames, err);
    p->frame_count = index->frame_count;
    for (uint32_t i = 0; i < index->frame_count; i++) {
        const pack_frame *const row = &index->frames[i];
        live_frame *const frame = &p->frames[i];
        frame->hash = row->hash;
        frame->reference = (live_at){PACK_NONE, 0};
        if (row->reference_pack != PACK_NONE)
            frame->reference = (live_at){rows[row->reference_pack], row->reference_frame};
        for (uint32_t k = 0; k < pack_frame_chunks(row); k++)
            frame->coded_bytes += index->chunks[row->chunk_first + k].coded_size;
        p->frame_bytes += frame->coded_bytes;
    }
out:
    return rc;
}

/* Extents of one frame stand together mostly; what is used several times in a row is noted once. */
static int uses_take(live_map *map, live_pack *p, const uint32_t *rows, const pack_index *index, ckpt_error *err)
{
    int rc = 0;

    p->use_first = (uint32_t)map->use_count;
    for (uint32_t i = 0; i < index->extent_count; i++) {
        const live_at at = {rows[index->extents[i].pack], index->extents[i].frame};
        const live_at *const last = map->use_count > p->use_first ? &map->uses[map->use_count - 1] : NULL;
        if (last && last->pack == at.pack && last->frame == at.frame)
            continue;
        live_at *const grown = array_room(map->uses, &map->use_capacity, map->use_count + 1, sizeof *grown);
        FAIL_IF_NULL(grown, err);
        FAIL_IF(map->use_count == UINT32_MAX, err, CKPT_ENOMEM, "too many extents in one store");
        map->uses = grown;
        map->uses[map->use_count++] = at;
    }
    p->use_count = (uint32_t)map->use_count - p->use_first;
out:
    return rc;
}

static int pack_visit(void *payload, const pack *p, ckpt_error *err)
{
    int rc = 0;
    const live_reader *const reader = payload;
    live_map *const map = reader->map;
    const reach_pack *const listed = reach_find(&map->reach, &p->name);
    const uint32_t self = (uint32_t)(listed - map->reach.packs);
    uint32_t *rows = NULL;

    TRY(rows_of_numbers(&rows, map, self, &p->index, err));
    TRY(frames_take(&map->packs[self], rows, &p->index, err));
    if (listed->own)
        TRY(uses_take(map, &map->packs[self], rows, &p->index, err));
    if (reader->visit)
        TRY(reader->visit(reader->payload, p, err));
out:
    free(rows);
    return rc;
}

/* ---- Checkpoints ------------------------------------------------------------------------------------------------ */

static int checkpoint_read(live_checkpoint *c, live_map *map, const snapshot_name *name, ckpt_error *err)
{
    int rc = 0;
    bool known = false;
    char path[FILE_PATH_MAX];
    struct stat st;
    snapshot s = {0};
    ckpt_error why;

    *c = (live_checkpoint){.name = *name, .own = PACK_NONE};
    TRY(snapshot_path(path, map->reach.store->snapshots_dir, name, err));
    c->bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    if (snapshot_read(&s, map->reach.store->snapshots_dir, name, &why)) {
        TRY(error_pass_own(err, &why));
        not_known(map, why.message);
        goto out;
    }
    TRY(reach_need(&known, &map->reach, &s.pack, err));
    const reach_pack *const own = reach_find(&map->reach, &s.pack);
    c->raw_bytes = s.raw_bytes;
    if (known)
        c->own = (uint32_t)(own - map->reach.packs);
    else
        not_known(map, own ? own->why : "the pack of a checkpoint is missing");
out:
    snapshot_clear(&s);
    return rc;
}

static int checkpoints_read(live_map *map, ckpt_error *err)
{
    int rc = 0;
    snapshot_name *names = NULL;

    TRY(snapshot_names(&names, &map->checkpoint_count, map->reach.store->snapshots_dir, err));
    map->checkpoints = calloc(map->checkpoint_count + 1, sizeof *map->checkpoints);
    FAIL_IF_NULL(map->checkpoints, err);
    for (size_t i = 0; i < map->checkpoint_count; i++)
        TRY(checkpoint_read(&map->checkpoints[i], map, &names[i], err));
out:
    free(names);
    return rc;
}

static int tables_read(live_map *map, bool all, ckpt_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < map->reach.count; i++) {
        reach_pack *const p = &map->reach.packs[i];
        if (!p->needed && !all)
            continue;
        TRY(reach_read(&map->reach, p, err));
        if (p->why && p->needed)
            not_known(map, p->why);
        else if (p->lacks && p->own)
            not_known(map, "a pack that a checkpoint needs is missing");
    }
out:
    return rc;
}

/* ---- Marks ------------------------------------------------------------------------------------------------------ */

static bool is_there(const live_map *map, live_at at)
{
    return at.pack != PACK_NONE && at.frame < map->packs[at.pack].frame_count;
}

/* Marks a frame and its references. Depths grow along a chain, so that it ends. */
static void frame_mark(live_map *map, live_at at)
{
    bool direct = true;

    for (; at.pack != PACK_NONE; at = live_frame_at(map, at)->reference) {
        if (!is_there(map, at)) {
            not_known(map, "a frame that a checkpoint needs is missing");
            return;
        }
        live_frame *const frame = live_frame_at(map, at);
        live_pack *const p = &map->packs[at.pack];
        if (direct && !frame->direct)
            p->direct_bytes += frame->coded_bytes;
        frame->direct |= direct;
        direct = false;
        if (frame->live)
            return;
        frame->live = true;
        p->live_bytes += frame->coded_bytes;
    }
}

int live_map_new(live_map *out, const ckpt_store *store, bool all,
                 int (*visit)(void *payload, const pack *p, ckpt_error *err), void *payload, ckpt_error *err)
{
    int rc = 0;
    live_reader reader = {out, visit, payload};

    *out = (live_map){0};
    TRY(reach_new(&out->reach, store, err));
    out->packs = calloc((size_t)out->reach.count + 1, sizeof *out->packs);
    FAIL_IF_NULL(out->packs, err);
    out->reach.visit = pack_visit;
    out->reach.payload = &reader;
    TRY(checkpoints_read(out, err));
    TRY(tables_read(out, all, err));
    for (size_t i = 0; i < out->use_count; i++)
        if (is_there(out, out->uses[i]))
            frame_mark(out, out->uses[i]);
        else
            not_known(out, "a frame that a checkpoint needs is missing");
out:
    out->reach.visit = NULL;
    return rc;
}

void live_map_clear(live_map *map)
{
    for (uint32_t i = 0; map->packs && i < map->reach.count; i++)
        free(map->packs[i].frames);
    free(map->packs);
    free(map->checkpoints);
    free(map->uses);
    reach_clear(&map->reach);
    *map = (live_map){0};
}

live_at live_root(const live_map *map, live_at at)
{
    while (live_frame_at(map, at)->reference.pack != PACK_NONE)
        at = live_frame_at(map, at)->reference;
    return at;
}
