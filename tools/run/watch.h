/* Watch: saves what other programs write, each file or folder once it is whole, so that no program has to change.
 *
 *   whole := (closed after writing, or unchanged for settle_ms) and not cut off by its own structure
 *            and unchanged while it is read, which the save itself makes sure of
 *
 * Each file or folder that a pattern stands for is a checkpoint of its own, or all of them together are one. It is
 * saved at most once in each interval, and never the same bytes twice: what was saved last is remembered in the folder
 * of the job, and where that is lost, the files of the store's newest checkpoints are compared.
 *
 * Failures do not end a watch: each is told once and tried again in the next interval. */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include "job.h"
#include "metric_log.h"

#include <ckpt/store.h>

#define WATCH_PATTERNS_MAX 256
#define WATCH_MS_MAX       (uint64_t)(7 * 24 * 3600 * 1000LL) /* of each time in its options */
#define WATCH_GRACE_MS     25000u                             /* of the 30 s that most give who stop a program */
#define WATCH_META_FOLDER  "watch" /* key of the value that says in which folder a checkpoint was found */

typedef struct watch_saved {
    const char *path; /* the file or folder, or the first of several */
    size_t path_count;
    int64_t step; /* or CKPT_STEP_NONE */
    ckpt_save_result result;
    double seconds;
} watch_saved;

typedef struct watch_options {
    const char *store_path; /* absolute */
    const char *const *patterns;
    size_t pattern_count;
    uint64_t every_ms, settle_ms; /* the first is above 0 */
    uint64_t for_ms;              /* ends by itself after that time; 0: does not */
    uint64_t saves_max;           /* ends after so many; 0: does not */
    bool once;                    /* saves what is there, and ends */
    bool together;                /* all matches are one checkpoint */
    const char *message;
    ckpt_level level;
    bool prune;          /* after each save, among checkpoints found in the same folder */
    const char *keep;    /* by this policy; NULL: that of the config */
    metric_log *metrics; /* or NULL */
    job *job;            /* to be kept up to date; or NULL */
    unsigned threads;

    void (*started)(void *payload); /* the store is open and the patterns are good */
    int (*stopped)(void *payload);  /* a signal that came, or 0: SIGINT ends at once, others after a last round */
    void (*saved)(void *payload, const watch_saved *saved);
    void (*note)(void *payload, const char *text);
    void (*warning)(void *payload, const char *text);
    void *payload;
} watch_options;

/* Watches until it is stopped. CKPT_EINTERRUPTED after SIGINT; with `once` CKPT_ENOTFOUND when no file fits, what the
 * last failed save returned, or CKPT_ECHANGED when one is not whole. */
int watch_run(const watch_options *options, ckpt_error *err);

#endif
