/* Report: tells the caller of a training and its log what happens, with rates and the time that is left. */
#ifndef CORE_REPORT_H
#define CORE_REPORT_H

#include "runlog.h"
#include "state.h"

#include <math.h>

#define NOT_KNOWN ((double)NAN)

typedef struct report {
    ckpt_training_event_fn event;
    void *payload;
    runlog *log; /* or NULL */
    uint64_t epochs, steps, steps_begin;
    double begin, mark;             /* monotonic seconds: of the start, and up to where train_seconds counts */
    double train_seconds;           /* that passed, but for those in validation */
    double line_begin, epoch_begin; /* train_seconds then */
    uint64_t line_images, epoch_images, images;
    bool stop;       /* the callback asked for it */
    bool log_failed; /* and that was told */
} report;

/* Images per second of all steps so far; NaN before the first. */
double report_rate(const report *r);

/* `s` may be NULL in notes and warnings, as long as there is none. */
void report_start(report *r, const state *s, uint64_t steps_total);
void report_step(report *r, const state *s, size_t images); /* BATCH */
void report_line(report *r, const state *s, double loss, double accuracy);
/* BATCH; not counted as training time. Called with `done` 0 before the first batch. */
void report_validating(report *r, const state *s, uint64_t done, uint64_t total);
void report_epoch(report *r, const state *s, double loss, double accuracy, double val_loss, double val_accuracy,
                  bool best);
void report_finished(report *r, const state *s, double test_loss, double test_accuracy);
/* For the log of the run alone, whose seconds count up to here; the caller has the code. */
void report_stopped(report *r, const state *s);
void report_started(report *r, const state *s, const char *format, ...) __attribute__((format(printf, 3, 4)));
void report_note(report *r, const state *s, const char *format, ...) __attribute__((format(printf, 3, 4)));
void report_warning(report *r, const state *s, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
