/* Trainer: one training as its parts see it.
 *
 *   train.c        the public functions new, resume and free; what they refuse
 *   train_run.c    the loop over steps and epochs, and when it saves
 *   train_profile.c where the time went
 *   trainer.c      memory and plans of a training; one step
 *   split.c        which samples are trained with, validated on, tested on
 *   evaluator.c    loss, accuracy and probabilities of samples
 *   run_saver.c    checkpoints of a run: with what meta, through the background writer; pruning; what failed
 *   run_finder.c   which checkpoint of a run to go on from
 *   report.c       rates, time left, events to the caller and to the run's log
 *   model.c        networks of checkpoints, for evaluation and prediction
 *
 * The rhythm. A checkpoint is made when step % every == 0, at the end of each epoch (after its validation, so that it
 * can be `best`), at the very end (importance KEEP, tag NAME-final), and when the caller stops it (KEEP). A state whose
 * position is the end of its epoch has not been validated yet: who resumes it validates first. So a checkpoint that
 * falls on the end of an epoch by its step is made once, after the validation. */
#ifndef CORE_TRAINER_H
#define CORE_TRAINER_H

#include "evaluator.h"
#include "runlog.h"
#include "state.h"

#include <ckpt/train.h>
#include <math.h>

#define NOT_KNOWN ((double)NAN)

/* ---- report.c ---- */

/* Tells the caller and the log what happens. */
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

/* `s` may be NULL in notes and warnings, as long as there is none. */
void report_start(report *r, const state *s, uint64_t steps_total);
void report_step(report *r, const state *s, size_t images); /* BATCH */
void report_line(report *r, const state *s, double loss, double accuracy);
/* BATCH; not counted as training time. Called with `done` 0 before the first batch. */
void report_validating(report *r, const state *s, uint64_t done, uint64_t total);
void report_epoch(report *r, const state *s, double loss, double accuracy, double val_loss, double val_accuracy,
                  bool best);
void report_finished(report *r, const state *s, double test_loss, double test_accuracy);
void report_started(report *r, const state *s, const char *format, ...) __attribute__((format(printf, 3, 4)));
void report_note(report *r, const state *s, const char *format, ...) __attribute__((format(printf, 3, 4)));
void report_warning(report *r, const state *s, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- run_saver.c ---- */

typedef struct run_saver run_saver;

/* `store_path` is the .ckpt folder. Saves are of `s` as it stands at the call. `data_path` goes into the meta. */
int run_saver_open(run_saver **out, const char *store_path, const state *s, const net *n, backend *b,
                   const char *data_path, report *r, ckpt_error *err);
typedef enum save_reason {
    SAVE_RHYTHM,
    SAVE_EPOCH,
    SAVE_BEST,
    SAVE_ANEW, /* the first step of a run of which there are older checkpoints */
    SAVE_STOPPED,
    SAVE_FINAL
} save_reason;
/* Copies the state and returns; meta: run, epoch, data, host, seconds, images_per_s, reason, and val_acc for SAVE_EPOCH
 * and SAVE_BEST, test_acc for SAVE_FINAL. A save that failed since the last call is told as a warning, once for each
 * cause until one succeeds again, which is told too. SAVE_ANEW, SAVE_STOPPED and SAVE_FINAL wait until all is on disk
 * and return its error. */
int run_saver_save(run_saver *v, save_reason reason, double val_accuracy, double test_accuracy, ckpt_error *err);
void run_saver_result(ckpt_training_result *out, run_saver *v);
/* Waits, and tells what failed meanwhile; returns the error of a save that nobody has waited for. NULL is fine. */
int run_saver_close(run_saver *v, ckpt_error *err);

/* ---- run_finder.c ---- */

/* Opens checkpoints of the run (NULL: of any), newest first, until one has a good state: values, and then tensors by
 * `take`, which gets the opened content. Damaged ones are passed over with a warning. CKPT_ENOTFOUND when no checkpoint
 * of the run is there, CKPT_EDATA when all are damaged. */
typedef int (*run_take_fn)(void *payload, ckpt_content *content, size_t file, const ckpt_info *info, ckpt_error *err);
int run_find(ckpt_store *store, const char *run, report *r, run_take_fn take, void *payload, ckpt_error *err);
/* Has the store a checkpoint of this run? */
int run_exists(bool *exists, ckpt_store *store, const char *run, ckpt_error *err);
/* Value of a key of a checkpoint's meta, or NULL. */
const char *info_meta(const ckpt_info *info, const char *key);

/* ---- trainer.c ---- */

typedef struct trainer {
    backend *backend;
    net *net;
    dataset *data;
    state state;
    split split;
    uint32_t *order; /* of this epoch */
    uint64_t order_epoch;
    plan *full, *rest; /* NULL: no batch of that size */
    evaluator evaluator;
    void *arena;
    size_t arena_bytes;
    float *grads;
    uint8_t *batch_labels;
    double gather_seconds, adam_seconds, save_seconds, validation_seconds;
    uint64_t gather_calls, gather_samples, adam_calls, save_calls, validation_calls;
} trainer;

/* Makes everything that a training of `values` needs, with first weights; the backend stays the caller's. The data are
 * taken over, also on failure. CKPT_EUSAGE when recipe and data do not fit together. */
int trainer_open(trainer *t, const recipe_values *values, backend *b, dataset *data, bool profile, ckpt_error *err);
/* Takes over what was read from a checkpoint but for recipe and environment, and `recorded`'s history with it, and
 * reads the tensors. CKPT_EDATA when it cannot be the state of such a training. */
int trainer_restore(trainer *t, state *recorded, ckpt_content *content, size_t file, ckpt_error *err);
/* One step: the next batch of the epoch; the state moves on. CKPT_EDIFFER names the first bad tensor: when the loss is
 * bad, the state is as before the step; when the update went wrong, the weights are bad. */
int trainer_step(trainer *t, ckpt_error *err);
size_t trainer_epoch_samples(const trainer *t); /* that an epoch trains with: drop_last taken into account */
uint64_t trainer_steps_total(const trainer *t); /* as the recipe has it */
bool trainer_epoch_is_over(const trainer *t);   /* all its samples are done: it is to be validated */
uint64_t trainer_memory_bytes(const trainer *t);
/* CKPT_EINTERRUPTED when the callback of `tell` asked for it. */
int trainer_evaluate(ckpt_evaluation *out, trainer *t, ckpt_samples which, report *tell, ckpt_error *err);
void trainer_close(trainer *t);

#endif
