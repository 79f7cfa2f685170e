#include "store_internal.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

struct ckpt_list {
    size_t count;
    ckpt_info *infos;
    snapshot *snapshots;
    tag_row *tags; /* by id, then name */
    size_t tag_count;
    const char **tag_names; /* of tags, in their order */
};

void info_fill(ckpt_info *out, const snapshot *s)
{
    *out = (ckpt_info){
        .sequence = s->sequence,
        .time = s->time,
        .step = s->step,
        .files = s->files,
        .raw_bytes = s->raw_bytes,
        .stored_bytes = s->stored_bytes,
        .message = s->message,
        .meta_count = s->meta_count,
        .meta = s->meta,
    };
    sha256_hex(out->id, &s->id);
}

static int tag_compare_by_id(const void *a, const void *b)
{
    const tag_row *const x = a, *const y = b;
    const int order = sha256_compare(&x->id, &y->id);

    return order ? order : strcmp(x->name, y->name);
}

static int list_tags(ckpt_list *list, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;

    TRY(tag_rows(&list->tags, &list->tag_count, store, err));
    if (list->tag_count == 0)
        goto out;
    qsort(list->tags, list->tag_count, sizeof *list->tags, tag_compare_by_id);
    list->tag_names = calloc(list->tag_count, sizeof *list->tag_names);
    FAIL_IF_NULL(list->tag_names, err);
    for (size_t i = 0; i < list->tag_count; i++)
        list->tag_names[i] = list->tags[i].name;
out:
    return rc;
}

/* Points an info at its tags: a range of the sorted list, which begins at the first tag not below the id. */
static void info_attach_tags(ckpt_info *info, const sha256 *id, const ckpt_list *list)
{
    size_t low = 0, high = list->tag_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (sha256_compare(&list->tags[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (high = low; high < list->tag_count && sha256_compare(&list->tags[high].id, id) == 0; high++)
        ;
    if (high > low) {
        info->tags = list->tag_names + low;
        info->tag_count = high - low;
    }
}

static int list_snapshots(ckpt_list *list, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    size_t count;
    snapshot_name *names = NULL;
    ckpt_error why;

    TRY(snapshot_names(&names, &count, store->snapshots_dir, err));
    list->snapshots = calloc(count ? count : 1, sizeof *list->snapshots);
    list->infos = calloc(count ? count : 1, sizeof *list->infos);
    FAIL_IF_NULL(list->snapshots, err);
    FAIL_IF_NULL(list->infos, err);
    for (size_t i = 0; i < count; i++) {
        snapshot *const s = &list->snapshots[list->count];
        rc = snapshot_read(s, store->snapshots_dir, &names[i], &why);
        if (rc == CKPT_ENOMEM) {
            rc = error_memory(err);
            goto out;
        }
        /* One that is gone was pruned since it was listed. Others stay out of the list, but not out of sight. */
        if (rc && rc != CKPT_ENOTFOUND)
            store_note(store, "left out: %s", why.message);
        if (rc == 0)
            info_fill(&list->infos[list->count++], s);
        rc = 0;
    }
out:
    free(names);
    return rc;
}

int ckpt_list_new(ckpt_list **out, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    ckpt_list *list = calloc(1, sizeof *list);

    *out = NULL;
    FAIL_IF_NULL(list, err);
    TRY(list_snapshots(list, store, err));
    TRY(list_tags(list, store, err));
    for (size_t i = 0; i < list->count; i++)
        info_attach_tags(&list->infos[i], &list->snapshots[i].id, list);
    *out = list;
    list = NULL;
out:
    ckpt_list_free(list);
    return rc;
}

size_t ckpt_list_count(const ckpt_list *list)
{
    return list->count;
}

const ckpt_info *ckpt_list_get(const ckpt_list *list, size_t i)
{
    return i < list->count ? &list->infos[i] : NULL;
}

void ckpt_list_free(ckpt_list *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->count; i++)
        snapshot_clear(&list->snapshots[i]);
    free(list->snapshots);
    free(list->infos);
    tag_rows_free(list->tags, list->tag_count);
    free(list->tag_names);
    free(list);
}
