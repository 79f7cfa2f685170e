#include "reach.h"
#include "usage.h"

#include "fail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATS_CLASSES_MAX 256 /* further ones are counted as the last */
#define CLASS_OTHER       "other bytes"
#define CLASS_REST        "all others"

/* A place where a tensor's bytes begin; equal ones are one tensor that several files share. */
typedef struct tensor_place {
    uint32_t frame;
    uint64_t offset; /* in the frame */
} tensor_place;

/* ---- Classes ---------------------------------------------------------------------------------------------------- */

static const char *frame_class(const pack_index *index, const pack_frame *frame)
{
    const char *const name = pack_string(index, frame->class_name);

    return *name ? name : CLASS_OTHER;
}

static ckpt_stats_class *class_find(const ckpt_stats *stats, const char *name)
{
    for (size_t i = 0; i < stats->class_count; i++)
        if (strncmp(stats->classes[i].name, name, sizeof stats->classes[i].name - 1) == 0)
            return &stats->classes[i];
    return NULL;
}

/* The row of a class, made when it is new. */
static int class_row(ckpt_stats_class **out, ckpt_stats *stats, const char *name, ckpt_error *err)
{
    int rc = 0;

    *out = class_find(stats, name);
    if (!*out && stats->class_count >= STATS_CLASSES_MAX - 1) {
        name = CLASS_REST;
        *out = class_find(stats, name);
    }
    if (*out)
        goto out;
    if (!stats->classes)
        stats->classes = calloc(STATS_CLASSES_MAX, sizeof *stats->classes);
    FAIL_IF_NULL(stats->classes, err);
    *out = &stats->classes[stats->class_count++];
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
out:
    return rc;
}

static int count_frames(ckpt_stats *stats, const pack_index *index, ckpt_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < index->frame_count; i++) {
        const pack_frame *const frame = &index->frames[i];
        ckpt_stats_class *row;
        TRY(class_row(&row, stats, frame_class(index, frame), err));
        row->raw_bytes += frame->size;
        for (uint32_t j = 0; j < pack_frame_chunks(frame); j++)
            row->coded_bytes += index->chunks[frame->chunk_first + j].coded_size;
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

static int count_tensors(ckpt_stats *stats, const pack_index *index, ckpt_error *err)
{
    int rc = 0;
    uint32_t count = 0;
    ckpt_stats_class *row;
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
        TRY(class_row(&row, stats, frame_class(index, &index->frames[places[i].frame]), err));
        row->tensors++;
    }
out:
    free(ends);
    free(places);
    return rc;
}

static int visit_pack(void *payload, const pack *p, ckpt_error *err)
{
    int rc = 0;

    TRY(count_frames(payload, &p->index, err));
    TRY(count_tensors(payload, &p->index, err));
out:
    return rc;
}

static int class_compare(const void *a, const void *b)
{
    const ckpt_stats_class *const x = a, *const y = b;

    if (x->raw_bytes != y->raw_bytes)
        return x->raw_bytes < y->raw_bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* ---- The store -------------------------------------------------------------------------------------------------- */

/* Adds up checkpoints and marks what they need. *known is false when one cannot tell. */
static int count_checkpoints(ckpt_stats *stats, bool *known, reach *r, ckpt_error *err)
{
    int rc = 0;
    snapshot_name *names = NULL;
    size_t count;

    *known = true;
    TRY(snapshot_names(&names, &count, r->store->snapshots_dir, err));
    for (size_t i = 0; i < count; i++) {
        snapshot s;
        bool told = false;
        stats->checkpoints++;
        if (snapshot_read(&s, r->store->snapshots_dir, &names[i], NULL) == 0) {
            stats->raw_bytes += s.raw_bytes;
            rc = reach_need(&told, r, &s.pack, err);
            snapshot_clear(&s);
            TRY(rc);
        }
        *known = *known && told;
    }
out:
    free(names);
    return rc;
}

static int count_packs(ckpt_stats *stats, bool known, reach *r, ckpt_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < r->count; i++) {
        TRY(reach_read(r, &r->packs[i], err));
        stats->packs++;
        stats->pack_bytes += r->packs[i].size;
        if (known && !r->packs[i].needed)
            stats->unreachable_bytes += r->packs[i].size;
    }
    if (stats->class_count > 1)
        qsort(stats->classes, stats->class_count, sizeof *stats->classes, class_compare);
out:
    return rc;
}

int ckpt_stats_get(ckpt_stats *out, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    bool known;
    reach r = {0};

    *out = (ckpt_stats){0};
    TRY(reach_new(&r, store, err));
    r.visit = visit_pack;
    r.payload = out;
    TRY(count_checkpoints(out, &known, &r, err));
    TRY(count_packs(out, known, &r, err));
    out->held_bytes = known ? reach_held_bytes(&r) : 0;
    TRY(sweep_tmp(&out->leftover_bytes, store, true, true, err));
    TRY(usage_of_folder(&out->snapshot_bytes, store->snapshots_dir, err));
    TRY(usage_of_folder(&out->cache_bytes, store->cache_dir, err));
    TRY(file_space_free(&out->disk_free_bytes, store->path, err));
out:
    reach_clear(&r);
    if (rc)
        ckpt_stats_clear(out);
    return rc;
}

void ckpt_stats_clear(ckpt_stats *stats)
{
    free(stats->classes);
    *stats = (ckpt_stats){0};
}
