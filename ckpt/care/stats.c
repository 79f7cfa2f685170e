#include "live.h"
#include "stats_random.h"
#include "usage.h"

#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATS_ROWS_MAX 256 /* further ones are counted as the last */
#define NAME_OTHER     "other bytes"
#define NAME_REST      "all others"
#define NAME_NOT_TOLD  "not told"

/* A place where a tensor's bytes begin; equal ones are one tensor that several files share. */
typedef struct tensor_place {
    uint32_t frame;
    uint64_t offset; /* in the frame */
} tensor_place;

/* Rows that are found while packs are read. */
typedef struct row_list {
    size_t count;
    ckpt_stats_row *rows;
} row_list;

typedef struct stats_counter {
    row_list classes, levels, modes;
    bool with_modes;
    stats_random random;
} stats_counter;

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

static ckpt_stats_row *row_find(const row_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->rows[i].name, name, sizeof list->rows[i].name - 1) == 0)
            return &list->rows[i];
    return NULL;
}

/* The row of a name, made when it is new. */
static int row_get(ckpt_stats_row **out, row_list *list, const char *name, ckpt_error *err)
{
    int rc = 0;

    *out = row_find(list, name);
    if (!*out && list->count >= STATS_ROWS_MAX - 1) {
        name = NAME_REST;
        *out = row_find(list, name);
    }
    if (*out)
        goto out;
    if (!list->rows)
        list->rows = calloc(STATS_ROWS_MAX, sizeof *list->rows);
    FAIL_IF_NULL(list->rows, err);
    *out = &list->rows[list->count++];
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
out:
    return rc;
}

static int row_compare(const void *a, const void *b)
{
    const ckpt_stats_row *const x = a, *const y = b;

    if (x->raw_bytes != y->raw_bytes)
        return x->raw_bytes < y->raw_bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Gives the rows away, the largest first. */
static void rows_take(ckpt_stats_row **rows, size_t *count, row_list *list)
{
    if (list->count > 1)
        qsort(list->rows, list->count, sizeof *list->rows, row_compare);
    *rows = list->rows;
    *count = list->count;
    *list = (row_list){0};
}

/* ---- Packs ------------------------------------------------------------------------------------------------------ */

static const char *name_or(const char *name, const char *otherwise)
{
    return *name ? name : otherwise;
}

/* The class of the frame; what was rounded before it was saved is a class of its own. */
static const char *frame_class(char out[sizeof((ckpt_stats_row *)0)->name], const pack_index *index,
                               const pack_frame *frame)
{
    const char *const name = name_or(pack_string(index, frame->class_name), NAME_OTHER);

    snprintf(out, sizeof((ckpt_stats_row *)0)->name, "%s%s", name, frame->transform == TRANSFORM_BF16 ? ", bf16" : "");
    return out;
}

static int count_frames(stats_counter *c, const pack_index *index, ckpt_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < index->frame_count; i++) {
        const pack_frame *const frame = &index->frames[i];
        ckpt_stats_row *class_row, *level_row;
        char class_name[sizeof class_row->name];
        uint64_t coded_bytes = 0;
        for (uint32_t j = 0; j < pack_frame_chunks(frame); j++)
            coded_bytes += index->chunks[frame->chunk_first + j].coded_size;
        TRY(row_get(&class_row, &c->classes, frame_class(class_name, index, frame), err));
        TRY(row_get(&level_row, &c->levels, name_or(pack_frame_level(frame), NAME_NOT_TOLD), err));
        class_row->raw_bytes += frame->size;
        class_row->coded_bytes += coded_bytes;
        level_row->count++;
        level_row->raw_bytes += frame->size;
        level_row->coded_bytes += coded_bytes;
    }
out:
    return rc;
}

/* The mode is the first byte of a coded chunk, and that alone is read. */
static int count_modes(stats_counter *c, const pack *p, ckpt_error *err)
{
    int rc = 0;
    unsigned char mode;

    for (uint32_t i = 0; i < p->index.frame_count; i++) {
        const pack_frame *const frame = &p->index.frames[i];
        uint64_t offset = frame->offset;
        for (uint32_t j = 0; j < pack_frame_chunks(frame); j++) {
            const uint32_t coded_size = p->index.chunks[frame->chunk_first + j].coded_size;
            const uint64_t left = frame->size - (uint64_t)j * CODEC_CHUNK_BYTES;
            ckpt_stats_row *row;
            TRY(file_read_at(&mode, p->fd, offset, 1, "a pack", err));
            const char *const name = codec_mode_name(mode);
            TRY(row_get(&row, &c->modes, name ? name : "damaged", err));
            row->count++;
            row->raw_bytes += left < CODEC_CHUNK_BYTES ? left : CODEC_CHUNK_BYTES;
            row->coded_bytes += coded_size;
            offset += coded_size;
        }
    }
out:
    return rc;
}

/* The places in this pack where tensors of a file begin. Tensors and extents both come in any number, but extents in
 * order, so each tensor is found by bisection of the extents' ends. */
static uint32_t places_of_file(tensor_place *places, const pack_index *index, const pack_file *file, uint64_t *ends)
{
    const pack_extent *const extents = index->extents + file->extent_first;
    uint64_t end = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < file->extent_count; i++)
        ends[i] = end += extents[i].size;
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const pack_tensor *const tensor = &index->tensors[file->tensor_first + i];
        uint32_t low = 0, high = file->extent_count;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (ends[middle] <= tensor->offset)
                low = middle + 1;
            else
                high = middle;
        }
        if (tensor->span_bytes == 0 || low == file->extent_count || extents[low].pack != 0)
            continue; /* without bytes, or stored in another pack and counted there */
        const uint64_t inside = tensor->offset - (ends[low] - extents[low].size);
        places[count++] = (tensor_place){extents[low].frame, extents[low].frame_offset + inside};
    }
    return count;
}

static int place_compare(const void *a, const void *b)
{
    const tensor_place *const x = a, *const y = b;

    if (x->frame != y->frame)
        return x->frame < y->frame ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int count_tensors(stats_counter *c, const pack_index *index, ckpt_error *err)
{
    int rc = 0;
    uint32_t count = 0;
    ckpt_stats_row *row;
    char class_name[sizeof row->name];
    tensor_place *places = calloc((size_t)index->tensor_count + 1, sizeof *places);
    uint64_t *ends = calloc((size_t)index->extent_count + 1, sizeof *ends);

    FAIL_IF_NULL(places, err);
    FAIL_IF_NULL(ends, err);
    for (uint32_t i = 0; i < index->file_count; i++)
        count += places_of_file(places + count, index, &index->files[i], ends);
    qsort(places, count, sizeof *places, place_compare);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && place_compare(&places[i - 1], &places[i]) == 0)
            continue;
        TRY(row_get(&row, &c->classes, frame_class(class_name, index, &index->frames[places[i].frame]), err));
        row->count++;
    }
out:
    free(ends);
    free(places);
    return rc;
}

static int visit_pack(void *payload, const pack *p, ckpt_error *err)
{
    int rc = 0;
    stats_counter *const c = payload;

    TRY(count_frames(c, &p->index, err));
    TRY(count_tensors(c, &p->index, err));
    if (c->with_modes) {
        TRY(count_modes(c, p, err));
        stats_random_show(&c->random, p);
    }
out:
    return rc;
}

/* ---- Checkpoints ------------------------------------------------------------------------------------------------ */

/* How many checkpoints need each pack; those of one own pack count each. */
static void users_count(uint32_t *users, const live_map *map)
{
    for (size_t i = 0; i < map->checkpoint_count; i++) {
        const uint32_t own = map->checkpoints[i].own;
        if (own == PACK_NONE)
            continue;
        users[own]++;
        for (uint32_t k = 0; k < map->reach.packs[own].need_count; k++)
            users[map->reach.packs[own].needs[k]]++;
    }
}

static int count_checkpoints(ckpt_stats *stats, const live_map *map, ckpt_error *err)
{
    int rc = 0;
    uint32_t *const users = calloc((size_t)map->reach.count + 1, sizeof *users);

    stats->rows = calloc(map->checkpoint_count + 1, sizeof *stats->rows);
    FAIL_IF_NULL(users && stats->rows, err);
    stats->checkpoints = map->checkpoint_count;
    users_count(users, map);
    for (size_t i = 0; i < map->checkpoint_count; i++) {
        const live_checkpoint *const c = &map->checkpoints[i];
        ckpt_stats_checkpoint *const row = &stats->rows[i];
        sha256_hex(row->id, &c->name.id);
        if (c->own == PACK_NONE)
            continue;
        const reach_pack *const own = &map->reach.packs[c->own];
        row->raw_bytes = c->raw_bytes;
        row->own_bytes = c->bytes + own->size;
        row->only_bytes = c->bytes;
        if (users[c->own] == 1)
            row->only_bytes += own->size;
        for (uint32_t k = 0; k < own->need_count; k++)
            if (users[own->needs[k]] == 1)
                row->only_bytes += map->reach.packs[own->needs[k]].size;
        stats->raw_bytes += c->raw_bytes;
    }
out:
    free(users);
    return rc;
}

/* Packs without an own checkpoint that hold more references than bytes of files. */
static bool is_held(const reach_pack *listed, const live_pack *p)
{
    return listed->needed && !listed->own && p->direct_bytes <= p->frame_bytes / 2;
}

static void count_packs(ckpt_stats *stats, const live_map *map)
{
    const bool known = !map->why[0];

    for (uint32_t i = 0; i < map->reach.count; i++) {
        const reach_pack *const listed = &map->reach.packs[i];
        const live_pack *const p = &map->packs[i];
        stats->packs++;
        stats->pack_bytes += listed->size;
        if (!known)
            continue;
        if (!listed->needed)
            stats->unreachable_bytes += listed->size;
        else
            stats->dead_bytes += p->frame_bytes - p->live_bytes;
        if (is_held(listed, p))
            stats->held_bytes += listed->size;
    }
}

/* ---- The store -------------------------------------------------------------------------------------------------- */

static int folders_count(ckpt_stats *out, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;

    TRY(sweep_tmp(&out->leftover_bytes, store, true, true, err));
    TRY(usage_of_folder(&out->snapshot_bytes, store->snapshots_dir, err));
    TRY(usage_of_folder(&out->cache_bytes, store->cache_dir, err));
    TRY(usage_of_folder(&out->parity_bytes, store->parity_dir, err));
    TRY(usage_of_folder(&out->damaged_bytes, store->damaged_dir, err));
    TRY(file_space_free(&out->disk_free_bytes, store->path, err));
out:
    return rc;
}

int ckpt_stats_get(ckpt_stats *out, ckpt_store *store, const ckpt_stats_options *options, ckpt_error *err)
{
    int rc = 0;
    ckpt_stats_options own = {.size = sizeof own};
    stats_counter c = {0};
    live_map map = {0};

    *out = (ckpt_stats){0};
    TRY(store_options(&own, sizeof own, options, err));
    c.with_modes = own.modes;
    TRY(live_map_new(&map, store, true, visit_pack, &c, err));
    TRY(count_checkpoints(out, &map, err));
    count_packs(out, &map);
    rows_take(&out->classes, &out->class_count, &c.classes);
    rows_take(&out->levels, &out->level_count, &c.levels);
    rows_take(&out->modes, &out->mode_count, &c.modes);
    TRY(stats_random_measure(&out->random_share, &out->random_chunks, &c.random, store, err));
    TRY(folders_count(out, store, err));
out:
    live_map_clear(&map);
    free(c.classes.rows);
    free(c.levels.rows);
    free(c.modes.rows);
    if (rc)
        ckpt_stats_clear(out);
    return rc;
}

void ckpt_stats_clear(ckpt_stats *stats)
{
    free(stats->classes);
    free(stats->levels);
    free(stats->modes);
    free(stats->rows);
    *stats = (ckpt_stats){0};
}
