/* Progress: how far a job is, how fast, and how long it will take, for a person who waits.
 *
 *     progress_start(&p, &(progress_options){.out = stderr, .mode = progress_mode_of(stderr, quiet), .label = "save"});
 *     progress_update(&p, done, total);      as often as wanted; draws rarely
 *     progress_finish(&p);                   erases what was drawn
 *
 * Nothing is shown in the first second. Write errors are ignored: a job does not fail because nobody can watch it. One
 * thread uses it. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum progress_mode {
    PROGRESS_NONE,     /* quiet */
    PROGRESS_TERMINAL, /* one line with a bar, redrawn ten times a second */
    PROGRESS_NOTEBOOK, /* the same without a bar, twice a second: a cell shows "\r" but keeps all that was written */
    PROGRESS_LINES     /* a line every few seconds, for log files */
} progress_mode;

/* What fits `out`: nothing if quiet, else a terminal, a Jupyter kernel above (by its environment), or anything else. */
progress_mode progress_mode_of(FILE *out, bool quiet);

typedef struct progress_options {
    FILE *out;
    progress_mode mode;
    const char *label;              /* what is done: "save epoch_1.pt"; any bytes */
    bool counts;                    /* things, not bytes */
    uint64_t begun;                 /* how much was done before: no part of the rate */
    size_t columns;                 /* 0: as wide as the terminal, or 80 */
    double (*clock)(void *payload); /* seconds; NULL: the monotonic clock */
    void *payload;
} progress_options;

typedef struct progress {
    progress_options options;
    char *label;      /* in visible form */
    double start;     /* all times by options.clock */
    double next_draw; /* not before */
    double mark;      /* when the rate was measured last, and how much was done then */
    uint64_t mark_done;
    double rate;          /* per second, smoothed; below 0: not known yet */
    double left_s;        /* as the caller has it; below 0: by the rate */
    size_t drawn_columns; /* of the line on the terminal */
} progress;

void progress_start(progress *p, const progress_options *options);

/* `total` 0: not known. `done` may go back, as when a file is read again. */
void progress_update(progress *p, uint64_t done, uint64_t total);

/* How long it will take, for who knows more than what was done here; below 0: nobody does. Holds from the next update.
 */
void progress_left(progress *p, double seconds);

/* A zeroed or finished one is fine. */
void progress_finish(progress *p);

#endif
