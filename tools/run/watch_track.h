/* Track: what is known of each watched path, and which of them are to be saved when. It looks at nothing itself and
 * knows no clock: the caller tells what a look showed and what the time is, in milliseconds of one clock.
 *
 *   a look shows a new mark ──> fresh ── closed after writing, or unchanged for settle_ms ──> whole ──> saved
 *                                 │                                                    and its interval has come
 *                                 └── no such moment for a whole interval ──> forced: a copy, if that turns out whole
 *
 * Intervals are those of a grid that begins with the watch: a path is saved at most once in each, and, when it changes
 * at all, as soon in it as it can be caught. The first save of a path waits for no interval.
 *
 * A path that was closed twice within settle_ms, or changed while it was saved, is restless: it is copied first, in its
 * longest quiet time, which is right after it was closed, and the copy is saved. */
#ifndef RUN_WATCH_TRACK_H
#define RUN_WATCH_TRACK_H

#include "watch_mark.h"

#include <stddef.h>

#define WATCH_NEVER        UINT64_MAX
#define WATCH_OPEN_SETTLES 15  /* times settle_ms, for a file that is known to be open for writing */
#define WATCH_RETRY_MS     250 /* between two tries to catch a file of which no event tells */

typedef struct watch_timing {
    uint64_t every_ms, settle_ms;
    uint64_t start_ms; /* of the grid of intervals */
} watch_timing;

typedef struct watch_item {
    char *path;
    bool folder;
    bool gone;
    watch_mark seen;
    uint64_t since_ms;  /* when `seen` was first seen */
    bool open;          /* an event told that it was written on, and none that it was closed since */
    bool closed;        /* an event told that it was closed as `seen` is */
    uint64_t closed_ms; /* when that was last so; 0: never */
    bool restless;      /* see above */
    uint64_t fresh_ms;  /* since when it is not what was saved; WATCH_NEVER: it is */
    bool has_saved;
    watch_mark saved; /* as it was before its last save began */
    bool has_refused;
    watch_mark refused; /* looked cut off as this */
    uint64_t due_ms;    /* not before */
    uint64_t retry_ms;  /* no forced try before */
    /* Of the caller: */
    bool event, event_closed; /* an event came since the last look; the last one was a close */
    bool doubt;               /* may be in the store already as it is: to be compared first */
    int told;                 /* code of the failure that was told last; 0: none since the last success */
    uint64_t scan;            /* the last look around that found it */
} watch_item;

typedef enum watch_verdict {
    WATCH_REST,  /* nothing to save until it changes */
    WATCH_WAIT,  /* to be judged again later */
    WATCH_SAVE,  /* whole */
    WATCH_COPY,  /* whole, but restless */
    WATCH_FORCED /* not known to be whole: a copy, and only if that shows to be */
} watch_verdict;

typedef struct watch_track watch_track;

int watch_track_new(watch_track **out, const watch_timing *timing, ckpt_error *err);
void watch_track_free(watch_track *t); /* NULL is fine */

size_t watch_track_count(const watch_track *t);
watch_item *watch_track_at(const watch_track *t,
                           size_t i); /* sorted by path; pointers last until the item is forgotten */
watch_item *watch_track_find(const watch_track *t, const char *path); /* NULL: not known */
/* The item that an event at this path is about: the path itself, or the watched folder around it. */
watch_item *watch_track_around(const watch_track *t, const char *path);
int watch_track_add(watch_item **out, watch_track *t, const char *path, ckpt_error *err);
void watch_track_forget(watch_track *t, watch_item *item);

/* What a look showed; `closed`: after an event of closing and none of writing since. */
void watch_item_look(watch_track *t, watch_item *item, const watch_mark *mark, bool folder, bool closed,
                     uint64_t now_ms);
void watch_item_gone(watch_item *item, uint64_t now_ms);
/* An event told that it changed, and with `open` that it was written on and not closed so far. */
void watch_item_written(watch_item *item, bool open, uint64_t now_ms);
/* Known from an earlier run to have been saved as this. */
void watch_item_known(watch_item *item, const watch_mark *mark);

/* *at_ms: when WATCH_WAIT is over, unless an event comes. */
watch_verdict watch_item_judge(uint64_t *at_ms, const watch_track *t, const watch_item *item, uint64_t now_ms);
/* Of all items as one checkpoint: to be saved when one is fresh and none is unsettled. */
watch_verdict watch_track_judge_all(uint64_t *at_ms, const watch_track *t, uint64_t now_ms);
/* The item to save first, the one written first, and its verdict; NULL: none now, and *at_ms when to ask again. */
watch_item *watch_track_next(watch_verdict *verdict, uint64_t *at_ms, const watch_track *t, uint64_t now_ms);

/* What came of it. `mark` is what the look right before the save had shown. */
void watch_item_saved(watch_track *t, watch_item *item, const watch_mark *mark, uint64_t now_ms);
void watch_item_changed(watch_item *item, uint64_t now_ms);                /* while it was read */
void watch_item_refused(watch_item *item);                                 /* cut off: not before it changes */
void watch_item_failed(watch_track *t, watch_item *item, uint64_t now_ms); /* again in the next interval */

/* The end of the interval that `now_ms` lies in. */
uint64_t watch_timing_next(const watch_timing *timing, uint64_t now_ms);

#endif
