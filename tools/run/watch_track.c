#include "watch_track.h"

#include "array.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

struct watch_track {
    watch_timing timing;
    watch_item **items; /* sorted by path */
    size_t count, capacity;
};

int watch_track_new(watch_track **out, const watch_timing *timing, ckpt_error *err)
{
    int rc = 0;
    watch_track *const t = calloc(1, sizeof *t);

    FAIL_IF_NULL(t, err);
    t->timing = *timing;
    *out = t;
out:
    return rc;
}

static void item_free(watch_item *item)
{
    free(item->path);
    free(item);
}

void watch_track_free(watch_track *t)
{
    for (size_t i = 0; t && i < t->count; i++)
        item_free(t->items[i]);
    if (t)
        free(t->items);
    free(t);
}

size_t watch_track_count(const watch_track *t)
{
    return t->count;
}

watch_item *watch_track_at(const watch_track *t, size_t i)
{
    return t->items[i];
}

/* The first item whose path does not stand before this one; *found: it is that path. `length` bytes of it count. */
static size_t place_of(bool *found, const watch_track *t, const char *path, size_t length)
{
    size_t low = 0, high = t->count;

    *found = false;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const char *const other = t->items[middle]->path;
        int order = strncmp(other, path, length);
        if (order == 0 && other[length])
            order = 1;
        *found |= order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static watch_item *find(const watch_track *t, const char *path, size_t length)
{
    bool found;
    const size_t i = place_of(&found, t, path, length);

    return found ? t->items[i] : NULL;
}

watch_item *watch_track_find(const watch_track *t, const char *path)
{
    return find(t, path, strlen(path));
}

watch_item *watch_track_around(const watch_track *t, const char *path)
{
    watch_item *item = watch_track_find(t, path);

    for (size_t length = strlen(path); !item && length > 0; length--)
        if (path[length] == '/')
            item = find(t, path, length);
    return item;
}

int watch_track_add(watch_item **out, watch_track *t, const char *path, ckpt_error *err)
{
    int rc = 0;
    bool found;
    watch_item *item = NULL;
    const size_t i = place_of(&found, t, path, strlen(path));
    watch_item **const grown = array_room(t->items, &t->capacity, t->count + 1, sizeof(watch_item *));

    FAIL_IF_NULL(grown, err);
    t->items = grown;
    item = calloc(1, sizeof *item);
    FAIL_IF_NULL(item, err);
    item->path = strdup(path);
    FAIL_IF_NULL(item->path, err);
    item->gone = true;
    item->fresh_ms = WATCH_NEVER;
    memmove(t->items + i + 1, t->items + i, (t->count - i) * sizeof *t->items);
    t->items[i] = item;
    t->count++;
    *out = item;
    item = NULL;
out:
    free(item);
    return rc;
}

void watch_track_forget(watch_track *t, watch_item *item)
{
    bool found;
    const size_t i = place_of(&found, t, item->path, strlen(item->path));

    t->count--;
    memmove(t->items + i, t->items + i + 1, (t->count - i) * sizeof *t->items);
    item_free(item);
}

/* ---- What happens to an item ---- */

static void fresh_since(watch_item *item, uint64_t now_ms)
{
    const bool same = item->has_saved && watch_mark_equal(&item->seen, &item->saved);

    if (same)
        item->fresh_ms = WATCH_NEVER;
    else if (item->fresh_ms == WATCH_NEVER)
        item->fresh_ms = now_ms;
}

void watch_item_look(watch_track *t, watch_item *item, const watch_mark *mark, bool folder, bool closed,
                     uint64_t now_ms)
{
    const bool same = !item->gone && watch_mark_equal(&item->seen, mark);

    item->gone = false;
    item->folder = folder;
    if (!same) {
        item->seen = *mark;
        item->since_ms = now_ms;
        item->closed = false;
    }
    if (closed)
        item->open = false;
    if (closed && !(same && item->closed)) {
        item->restless |= item->closed_ms && now_ms - item->closed_ms < t->timing.settle_ms && !folder;
        item->closed_ms = now_ms;
        item->closed = true;
    }
    fresh_since(item, now_ms);
}

void watch_item_gone(watch_item *item, uint64_t now_ms)
{
    if (!item->gone)
        item->since_ms = now_ms;
    item->gone = true;
    item->fresh_ms = WATCH_NEVER;
}

/* Its mark may look the same all the same: times of files come in ticks. */
void watch_item_written(watch_item *item, bool open, uint64_t now_ms)
{
    item->closed = false;
    item->open |= open;
    item->since_ms = now_ms;
}

void watch_item_known(watch_item *item, const watch_mark *mark)
{
    item->has_saved = true;
    item->saved = *mark;
    if (!item->gone && watch_mark_equal(&item->seen, mark))
        item->fresh_ms = WATCH_NEVER;
}

uint64_t watch_timing_next(const watch_timing *timing, uint64_t now_ms)
{
    const uint64_t passed = now_ms > timing->start_ms ? now_ms - timing->start_ms : 0;

    return timing->start_ms + (passed / timing->every_ms + 1) * timing->every_ms;
}

void watch_item_saved(watch_track *t, watch_item *item, const watch_mark *mark, uint64_t now_ms)
{
    watch_item_known(item, mark);
    fresh_since(item, now_ms);
    if (item->fresh_ms != WATCH_NEVER)
        item->fresh_ms = now_ms; /* what it became meanwhile */
    item->due_ms = watch_timing_next(&t->timing, now_ms);
}

void watch_item_changed(watch_item *item, uint64_t now_ms)
{
    item->restless = !item->folder;
    item->closed = false;
    item->since_ms = now_ms;
    item->retry_ms = now_ms + WATCH_RETRY_MS;
}

void watch_item_refused(watch_item *item)
{
    item->has_refused = true;
    item->refused = item->seen;
}

void watch_item_failed(watch_track *t, watch_item *item, uint64_t now_ms)
{
    item->due_ms = watch_timing_next(&t->timing, now_ms);
}

/* ---- Verdicts ---- */

/* Since when it stands still for long enough. Whoever has it open for writing may only be slow. */
static uint64_t settled_at(const watch_track *t, const watch_item *item)
{
    return item->since_ms + t->timing.settle_ms * (item->open ? WATCH_OPEN_SETTLES : 1);
}

/* A folder is closed by none of its files. */
static bool is_whole(const watch_track *t, const watch_item *item, uint64_t now_ms)
{
    return (item->closed && !item->folder) || now_ms >= settled_at(t, item);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

watch_verdict watch_item_judge(uint64_t *at_ms, const watch_track *t, const watch_item *item, uint64_t now_ms)
{
    *at_ms = WATCH_NEVER;
    if (item->gone || item->fresh_ms == WATCH_NEVER ||
        (item->has_refused && watch_mark_equal(&item->refused, &item->seen)))
        return WATCH_REST;
    *at_ms = item->due_ms;
    if (now_ms < item->due_ms)
        return WATCH_WAIT;
    if (is_whole(t, item, now_ms))
        return item->restless ? WATCH_COPY : WATCH_SAVE;
    const uint64_t forced_ms =
        item->folder ? WATCH_NEVER : later(later(item->due_ms, item->fresh_ms) + t->timing.every_ms, item->retry_ms);
    *at_ms = sooner(settled_at(t, item), forced_ms);
    return now_ms >= forced_ms ? WATCH_FORCED : WATCH_WAIT;
}

watch_verdict watch_track_judge_all(uint64_t *at_ms, const watch_track *t, uint64_t now_ms)
{
    uint64_t due_ms = 0, fresh_ms = WATCH_NEVER, settled_ms = 0;
    bool restless = false, whole = true;

    *at_ms = WATCH_NEVER;
    for (size_t i = 0; i < t->count; i++) {
        const watch_item *const item = t->items[i];
        uint64_t ignored;
        if (item->gone)
            continue;
        if (item->has_refused && watch_mark_equal(&item->refused, &item->seen))
            return WATCH_REST; /* one part is cut off: no whole */
        if (watch_item_judge(&ignored, t, item, now_ms) != WATCH_REST)
            fresh_ms = sooner(fresh_ms, item->fresh_ms);
        due_ms = later(due_ms, item->due_ms);
        settled_ms = later(settled_ms, settled_at(t, item));
        restless |= item->restless;
        whole &= is_whole(t, item, now_ms);
    }
    if (fresh_ms == WATCH_NEVER)
        return WATCH_REST;
    /* That one part was closed says nothing of the others, which may follow: all have to stand still, or, where that
     * never happens, all to be closed at one time. */
    const uint64_t hurried_ms = later(due_ms, fresh_ms) + t->timing.every_ms;
    if (now_ms >= due_ms && (now_ms >= settled_ms || (whole && now_ms >= hurried_ms)))
        return restless ? WATCH_COPY : WATCH_SAVE;
    *at_ms = later(due_ms, now_ms < settled_ms ? sooner(settled_ms, later(hurried_ms, now_ms + WATCH_RETRY_MS)) : 0);
    return WATCH_WAIT;
}

watch_item *watch_track_next(watch_verdict *verdict, uint64_t *at_ms, const watch_track *t, uint64_t now_ms)
{
    watch_item *next = NULL;

    *verdict = WATCH_REST;
    *at_ms = WATCH_NEVER;
    for (size_t i = 0; i < t->count; i++) {
        watch_item *const item = t->items[i];
        uint64_t at;
        const watch_verdict v = watch_item_judge(&at, t, item, now_ms);
        if (v == WATCH_REST || v == WATCH_WAIT) {
            *at_ms = sooner(*at_ms, at);
        } else if (!next || item->seen.mtime_ns < next->seen.mtime_ns) {
            next = item;
            *verdict = v;
        }
    }
    return next;
}
