/* Watching, as its parts see it:
 *
 *   watch.c         the loop: events and looks -> watch_track -> saves
 *   watch_save.c    one checkpoint: is it whole, what it is called, what came of it
 *   watch_state.c   what was saved last, over the end of the process
 *   watch_known.c   the same, from the store itself */
#ifndef RUN_WATCH_INTERNAL_H
#define RUN_WATCH_INTERNAL_H

#include "watch.h"
#include "watch_events.h"
#include "watch_glob.h"
#include "watch_track.h"

typedef struct watch_state watch_state;

typedef struct watch {
    const watch_options *options;
    ckpt_store *store;
    watch_glob *globs[WATCH_PATTERNS_MAX];
    size_t glob_count;
    watch_events *events; /* NULL: none are to be had */
    watch_track *track;
    watch_timing timing;
    watch_state *state;
    char here[FILE_PATH_MAX]; /* the current folder */
    uint64_t scan_ms;         /* when to look around next */
    uint64_t scans;
    bool state_due;      /* what was saved is to be written down, once there is time */
    uint64_t publish_ms; /* when to say that we are alive */
    uint64_t end_ms;     /* when the last round has to be over; WATCH_NEVER: it has not begun */
    uint64_t stop_ms;    /* when a save under way is given up, after a signal; WATCH_NEVER: none came */
    uint64_t saves, failures;
    uint64_t found;     /* by the last look around */
    bool metrics_told;  /* that a log cannot be read */
    bool no_value_told; /* of which metrics no value has come */
    bool folders_told;  /* that there are more folders than events can be had of */
    bool scan_told;     /* that more fits the patterns than can be watched */
    int failed;         /* code of the last failed save */
    ckpt_error failure;
} watch;

/* ---- watch.c ---- */
/* Looks at an item and takes the events about it; `gone` is set when nothing is there any more. */
int watch_look(watch *w, watch_item *item, ckpt_error *err);

/* ---- watch_save.c ---- */
/* Saves the items as one checkpoint, if they are whole. An error is one of the watch itself; a save that fails is
 * remembered by the items and told. */
int watch_save(watch *w, watch_item *const *items, size_t count, watch_verdict verdict, ckpt_error *err);

/* ---- watch_state.c ---- */
/* Reads from `folder` what was saved to this store; NULL: nothing is kept. A damaged or missing file is an empty one.
 */
int watch_state_open(watch_state **out, const char *folder, ckpt_store *store, ckpt_error *err);
void watch_state_close(watch_state *s); /* NULL is fine */
/* What was the path's mark when it was saved to this store? False: not known. */
bool watch_state_get(watch_mark *out, const watch_state *s, const char *path);
/* Writes what the items were saved as. */
int watch_state_put(watch_state *s, const watch_track *track, ckpt_error *err);

/* ---- watch_known.c ---- */
/* Has the newest checkpoint that holds this file or folder under `name` the same bytes of it? Those of another `step`
 * than that which it would be saved with are passed over. */
int watch_known(bool *same, ckpt_store *store, const char *path, const char *name, int64_t step, ckpt_error *err);

#endif
