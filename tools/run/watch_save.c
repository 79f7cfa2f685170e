#include "watch_internal.h"

#include "clock.h"
#include "fail.h"
#include "hash.h"
#include "name_step.h"
#include "utf8.h"
#include "visible.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATHS_MAX       4096 /* of one checkpoint */
#define META_MAX        (METRICS_MAX + 2)
#define META_FOLDER_MAX 256u /* bytes of a folder's name; of a longer one a hash, then the end */
#define META_HASH_SIZE  20   /* 16 digits, "..." */

/* Values that go beside a checkpoint; the texts belong to the watch and its metrics. */
typedef struct save_meta {
    ckpt_value rows[META_MAX];
    size_t count, bytes;
    char folder[FILE_PATH_MAX], epoch[32];
} save_meta;

/* ---- Telling ---- */

/* A failure is told once for each path, until that is saved; a full disk would else fill the log. */
static void tell_failure(watch *w, watch_item *item, int rc, const ckpt_error *why)
{
    char text[FILE_PATH_MAX + sizeof why->message + sizeof why->hint];
    const char *const message = why->message[0] ? why->message : ckpt_error_name(rc);

    w->failures++;
    w->failed = rc;
    w->failure = *why;
    if (w->options->job) {
        job_count(w->options->job, "failed", 1);
        job_failure(w->options->job, message);
    }
    if (item->told == rc)
        return;
    item->told = rc;
    const bool named = strstr(message, item->path) != NULL;
    snprintf(text, sizeof text, "%s%s%s%s%s%s", named ? "" : item->path, named ? "" : ": ", message,
             why->hint[0] ? " (" : "", why->hint, why->hint[0] ? ")" : "");
    w->options->warning(w->options->payload, text);
}

/* One that stands still like this is left alone until it changes. */
static void cut_off(watch *w, watch_item *item, const char *why)
{
    char text[FILE_PATH_MAX + sizeof((ckpt_error *)0)->message + 64];
    const uint64_t now_ms = clock_ms();

    if (item->restless && now_ms - item->since_ms < w->timing.settle_ms) {
        watch_item_changed(item, now_ms);
        return;
    }
    watch_item_refused(item);
    if (item->told == CKPT_EFORMAT)
        return;
    item->told = CKPT_EFORMAT;
    snprintf(text, sizeof text, "%s is not whole%s%s; it is saved once it is", item->path, why[0] ? ": " : "", why);
    w->options->note(w->options->payload, text);
}

/* ---- What goes beside it ---- */

/* The name under which the store keeps a path; see ckpt_save_files. */
static const char *saved_name(const watch *w, const char *path)
{
    const size_t length = strlen(w->here);

    if (path[0] != '/' && strncmp(path, "../", 3) != 0)
        return path;
    if (strncmp(path, w->here, length) == 0 && path[length] == '/')
        return path + length + 1;
    return path_base(path);
}

static void meta_add(save_meta *meta, const char *key, const char *value)
{
    const size_t bytes = strlen(key) + strlen(value);

    if (meta->count == META_MAX || meta->bytes + bytes > CKPT_META_BYTES_MAX)
        return;
    for (size_t i = 0; i < meta->count; i++)
        if (strcmp(meta->rows[i].key, key) == 0)
            return;
    meta->rows[meta->count++] = (ckpt_value){.key = key, .value = value};
    meta->bytes += bytes;
}

/* Values are UTF-8 without control characters, names of folders any bytes: others are escaped. Two folders must not get
 * one text, as what one of them holds is pruned by itself. */
static int folder_text(char out[FILE_PATH_MAX], const char *name, ckpt_error *err)
{
    int rc = 0;
    size_t size = strlen(name), from = 0;
    char hash[META_HASH_SIZE] = "";
    char *text = NULL;

    if (size > META_FOLDER_MAX) {
        snprintf(hash, sizeof hash, "%016" PRIx64 "...", xxh64_of(name, size));
        from = utf8_cut(name, size, size - META_FOLDER_MAX);
    }
    text = visible_text(NULL, name + from, size - from);
    FAIL_IF_NULL(text, err);
    snprintf(out, FILE_PATH_MAX, "%s%s", hash, text);
out:
    free(text);
    return rc;
}

static int folder_of(char out[FILE_PATH_MAX], const watch *w, const char *path, ckpt_error *err)
{
    char parent[FILE_PATH_MAX];
    const size_t length = strlen(w->here);

    if (path_parent(parent, path, NULL))
        snprintf(parent, sizeof parent, ".");
    const char *name = parent;
    if (strcmp(parent, w->here) == 0)
        name = ".";
    else if (strncmp(parent, w->here, length) == 0 && parent[length] == '/')
        name = parent + length + 1;
    return folder_text(out, name, err);
}

/* A log that cannot be read is told once; the checkpoint matters more. */
static void read_metrics(watch *w)
{
    ckpt_error why = {0};

    if (metric_log_read(w->options->metrics, &why) == 0 || w->metrics_told)
        return;
    w->metrics_told = true;
    w->options->warning(w->options->payload, why.message);
}

/* The values that came; a metric that never gets one, as its name or log may be wrong, is told once. */
static void meta_add_metrics(save_meta *meta, watch *w)
{
    const metric_log *const metrics = w->options->metrics;
    char text[METRIC_KEY_SIZE + 120];

    for (size_t i = 0; i < metric_log_count(metrics); i++) {
        const char *const key = metric_log_key(metrics, i);
        if (metric_log_value(metrics, i)) {
            meta_add(meta, key, metric_log_value(metrics, i));
        } else if (!w->no_value_told) {
            snprintf(text, sizeof text, "no value of the metric `%s` has come yet; checkpoints are saved without it",
                     key);
            w->options->warning(w->options->payload, text);
        }
    }
    w->no_value_told = true;
}

/* What the names tell; of several the largest. */
static void steps_of(int64_t *step, int64_t *epoch, watch_item *const *items, size_t count)
{
    *step = *epoch = NAME_STEP_NONE;
    for (size_t i = 0; i < count; i++) {
        int64_t one_step, one_epoch;
        name_step(&one_step, &one_epoch, items[i]->path);
        *step = one_step > *step ? one_step : *step;
        *epoch = one_epoch > *epoch ? one_epoch : *epoch;
    }
}

static int meta_fill(save_meta *meta, int64_t *step, watch *w, watch_item *const *items, size_t count, ckpt_error *err)
{
    int rc = 0;
    int64_t epoch;
    metric_log *const metrics = w->options->metrics;

    meta->bytes = w->options->message ? strlen(w->options->message) : 0;
    TRY(folder_of(meta->folder, w, items[0]->path, err));
    meta_add(meta, WATCH_META_FOLDER, meta->folder);
    steps_of(step, &epoch, items, count);
    if (metrics) {
        read_metrics(w);
        for (size_t i = 0; i < count; i++)
            if (items[i]->folder)
                metric_log_history(metrics, items[i]->path);
        meta_add_metrics(meta, w);
    }
    if (epoch != NAME_STEP_NONE) {
        snprintf(meta->epoch, sizeof meta->epoch, "%" PRId64, epoch);
        meta_add(meta, "epoch", meta->epoch);
    }
out:
    return rc;
}

/* ---- One checkpoint ---- */

/* Is each of them whole by its own structure? Where only that can tell, it has to say so. */
static int check_whole(bool *whole, watch *w, watch_item *const *items, size_t count, watch_verdict verdict,
                       ckpt_error *err)
{
    int rc = 0;
    char why[CKPT_WHY_SIZE];

    *whole = true;
    for (size_t i = 0; *whole && i < count; i++) {
        ckpt_file_state state = CKPT_FILE_UNKNOWN;
        /* What is restless is judged as the copy that is saved of it. */
        if (verdict == WATCH_COPY && !items[i]->folder)
            continue;
        TRY(ckpt_file_check(&state, why, items[i]->path, err));
        if (state == CKPT_FILE_CUT_OFF)
            cut_off(w, items[i], why);
        *whole = state == CKPT_FILE_WHOLE || (state == CKPT_FILE_UNKNOWN && verdict != WATCH_FORCED);
        if (!*whole && state == CKPT_FILE_UNKNOWN)
            watch_item_failed(w->track, items[i], clock_ms());
    }
out:
    return rc;
}

static void done(watch *w, const watch_saved *saved)
{
    const watch_options *const o = w->options;

    w->saves++;
    if (o->job) {
        job_count(o->job, "saved", 1);
        job_count(o->job, "raw_bytes", saved->result.raw_bytes);
        job_count(o->job, "stored_bytes", saved->result.stored_bytes);
        job_of(o->job)->last_success = (int64_t)time(NULL);
    }
    o->saved(o->payload, saved);
}

/* Among what was found in the same folder, as a training prunes its own run alone. */
static void prune(watch *w, watch_item *item, const save_meta *meta)
{
    const watch_options *const o = w->options;
    const ckpt_value among = {WATCH_META_FOLDER, meta->folder};
    const ckpt_prune_options options = {.size = sizeof options, .keep = o->keep, .among = &among};
    ckpt_prune_result result = {0};
    ckpt_error why = {0};

    if (!o->prune)
        return;
    const int rc = ckpt_prune(&result, w->store, &options, &why);
    if (rc && rc != CKPT_EBUSY && rc != CKPT_EINTERRUPTED) {
        error_prefix(&why, "prune");
        tell_failure(w, item, rc, &why);
    }
    if (!rc && o->job)
        job_count(o->job, "pruned", result.removed_checkpoints);
    ckpt_prune_result_clear(&result);
}

/* A folder may have changed between two of its files, or lost some: such a checkpoint is taken back. */
static int check_folders(const watch *w, watch_item *const *items, size_t count, const char *id, ckpt_error *why)
{
    int rc = 0;
    watch_mark after;
    bool folder = false, same = true;

    for (size_t i = 0; same && i < count; i++)
        same = !items[i]->folder || (watch_mark_take(&after, &folder, items[i]->path, NULL, NULL, NULL) == 0 &&
                                     watch_mark_equal(&items[i]->seen, &after));
    if (same)
        goto out;
    TRY(ckpt_remove(w->store, id, true, why));
    rc = error_set(why, CKPT_ECHANGED, "a folder changed while it was saved");
out:
    return rc;
}

/* After the save: what each item was saved as. */
static int items_saved(watch *w, watch_item *const *items, size_t count, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        const watch_mark before = items[i]->seen;
        items[i]->told = 0;
        TRY(watch_look(w, items[i], err));
        watch_item_saved(w->track, items[i], &before, clock_ms());
        if (w->end_ms != WATCH_NEVER)
            items[i]->due_ms = WATCH_NEVER; /* once in the last round */
    }
    w->state_due = true;
out:
    return rc;
}

static void items_failed(watch *w, watch_item *const *items, size_t count, int rc, const ckpt_error *why)
{
    const uint64_t now_ms = clock_ms();

    for (size_t i = 0; i < count; i++) {
        if (rc == CKPT_ECHANGED)
            watch_item_changed(items[i], now_ms);
        else if (rc == CKPT_EFORMAT)
            cut_off(w, items[i], count == 1 ? "" : why->message);
        else if (rc != CKPT_ENOTFOUND)
            watch_item_failed(w->track, items[i], now_ms);
        if (rc == CKPT_ENOSPC)
            items[i]->restless = false; /* there may be room without the copy */
        if (w->end_ms != WATCH_NEVER && rc != CKPT_ECHANGED)
            items[i]->due_ms = WATCH_NEVER;
    }
    if (rc != CKPT_ECHANGED && rc != CKPT_EFORMAT && rc != CKPT_ENOTFOUND && rc != CKPT_EINTERRUPTED)
        tell_failure(w, items[0], rc, why);
}

static int save_now(watch *w, watch_item *const *items, size_t count, watch_verdict verdict, ckpt_error *err)
{
    int rc = 0;
    const char **paths = calloc(count, sizeof *paths);
    ckpt_file_mark *const marks = calloc(count, sizeof *marks);
    save_meta meta = {0};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    watch_saved saved = {.path = items[0]->path, .path_count = count};
    ckpt_error why = {0};
    const uint64_t begin_ms = clock_ms();

    FAIL_IF_NULL(paths && marks, err);
    for (size_t i = 0; i < count; i++) {
        paths[i] = items[i]->path;
        marks[i] = (ckpt_file_mark){items[i]->seen.size, items[i]->seen.inode, items[i]->seen.mtime_ns};
    }
    TRY(meta_fill(&meta, &options.step, w, items, count, err));
    saved.step = options.step;
    options.message = w->options->message;
    options.meta = meta.rows;
    options.meta_count = meta.count;
    options.level = w->options->level;
    options.whole_only = true;
    options.from_copy = verdict != WATCH_SAVE;
    options.expected = marks; /* what was found to be whole, not what it may be by now */
    rc = ckpt_save_files(&saved.result, w->store, paths, count, &options, &why);
    saved.seconds = (double)(clock_ms() - begin_ms) / 1000;
    if (rc == 0)
        rc = check_folders(w, items, count, saved.result.id, &why);
    if (rc) {
        items_failed(w, items, count, rc, &why);
        rc = 0;
        goto out;
    }
    done(w, &saved);
    TRY(items_saved(w, items, count, err));
    prune(w, items[0], &meta);
out:
    free(marks);
    free(paths);
    return rc;
}

/* Is it in the store as it is? Where an earlier watch may have saved it, the store is asked. */
static bool is_known(const watch *w, const watch_item *item, int64_t step)
{
    bool same = false;

    if (item->has_saved && item->fresh_ms == WATCH_NEVER)
        return true;
    return item->doubt && watch_known(&same, w->store, item->path, saved_name(w, item->path), step, NULL) == 0 && same;
}

static bool all_known(const watch *w, watch_item *const *items, size_t count)
{
    bool known = true;
    int64_t step, epoch;

    steps_of(&step, &epoch, items, count);
    for (size_t i = 0; known && i < count; i++)
        known = is_known(w, items[i], step);
    return known;
}

int watch_save(watch *w, watch_item *const *items, size_t count, watch_verdict verdict, ckpt_error *err)
{
    int rc = 0;
    bool whole = false;
    ckpt_error why = {0};

    if (count > PATHS_MAX)
        rc = error_set(&why, CKPT_EUSAGE, "more than %d files in one checkpoint", PATHS_MAX);
    else
        rc = check_whole(&whole, w, items, count, verdict, &why);
    if (rc) {
        items_failed(w, items, count, rc, &why);
        rc = 0;
        goto out;
    }
    if (!whole)
        goto out;
    if (all_known(w, items, count)) {
        for (size_t i = 0; i < count; i++)
            watch_item_known(items[i], &items[i]->seen);
        w->state_due = true;
        goto out;
    }
    for (size_t i = 0; i < count; i++)
        items[i]->doubt = false;
    TRY(save_now(w, items, count, verdict, err));
out:
    return rc;
}
