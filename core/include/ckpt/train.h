/* <ckpt/train.h>: training that survives its machine.
 *
 * Simple use
 *
 *     ckpt_recipe *recipe = NULL;
 *     ckpt_training *training = NULL;
 *     ckpt_training_options options = CKPT_TRAINING_OPTIONS_INIT;
 *     ckpt_training_result result;
 *     ckpt_error err;
 *     options.data = "/usr/share/datasets/fashion-mnist";
 *     int rc = ckpt_recipe_open(&recipe, "mnist-cnn", &err);            // a preset, or an INI file
 *     if (!rc)
 *         rc = ckpt_recipe_set(recipe, "run.epochs", "2", &err);
 *     if (!rc)
 *         rc = ckpt_training_new(&training, recipe, &options, &err);    // checkpoints go to the nearest .ckpt upwards
 *     if (!rc)
 *         rc = ckpt_training_run(&result, training, &err);              // CKPT_EWINDOW: stopped and saved
 *     if (rc)
 *         fprintf(stderr, "%s\n", err.message);
 *     ckpt_training_free(training);
 *     ckpt_recipe_free(recipe);
 *
 * These functions are in libckpt-train, apart from libckpt, since they load the heavy libraries that training needs.
 * The rules of <ckpt/store.h> hold: codes, `err`, options that begin with their size, who owns what. One thread uses a
 * training or a model; of all trainings and models of a process one computes at a time.
 *
 * A training is a pure function of its recipe, the bytes of its data and its environment (threads, instruction set,
 * library version, CPU): killed at any moment and resumed, it ends with the same bits. docs/determinism.md says what
 * that covers. */
#ifndef CKPT_TRAIN_H
#define CKPT_TRAIN_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

CKPT_API const char *ckpt_train_version(void);    /* "0.1.0"; the program loads no other than its own */
CKPT_API const char *ckpt_train_built_with(void); /* "oneDNN 2.6.3, OpenMP" */

/* ---- Recipes ---------------------------------------------------------------------------------------------------- */

typedef struct ckpt_recipe ckpt_recipe;

/* `name` is a preset, or else the path of an INI file. CKPT_ENOTFOUND names the nearest preset; CKPT_EFORMAT and
 * CKPT_EUSAGE name line and key of what is wrong, with the nearest known key. */
CKPT_API int ckpt_recipe_open(ckpt_recipe **out, const char *name, ckpt_error *err);
/* That of the newest good checkpoint of the run (NULL: of any run) in the store, to be changed and given to
 * ckpt_training_resume. CKPT_ENOTFOUND when there is none. */
CKPT_API int ckpt_recipe_open_run(ckpt_recipe **out, const char *run, const char *store_path, ckpt_error *err);
/* `key` is SECTION.KEY, as "optimizer.lr". CKPT_EUSAGE. */
CKPT_API int ckpt_recipe_set(ckpt_recipe *recipe, const char *key, const char *value, ckpt_error *err);
/* Do the values fit together? ckpt_training_new asks this too. */
CKPT_API int ckpt_recipe_check(const ckpt_recipe *recipe, ckpt_error *err);
/* The whole recipe as an INI file with comments, to be copied and changed; malloc'ed. */
CKPT_API int ckpt_recipe_print(char **out, const ckpt_recipe *recipe, ckpt_error *err);
CKPT_API void ckpt_recipe_free(ckpt_recipe *recipe);
/* Name of the i-th preset, NULL past the last; *summary (may be NULL) is one line about it. */
CKPT_API const char *ckpt_recipe_preset(size_t i, const char **summary);

/* ---- What a training tells while it runs ------------------------------------------------------------------------ */

typedef enum ckpt_training_event_kind {
    CKPT_TRAINING_BATCH = 0, /* after each step and each batch of an evaluation: for a progress bar; little is set */
    CKPT_TRAINING_STEPS = 1, /* every `checkpoint.every` steps */
    CKPT_TRAINING_EPOCH = 2, /* an epoch ended and was validated */
    /* `text` says where from, and for a resume whether it is identical, equivalent or not exact, and why */
    CKPT_TRAINING_STARTED = 3,
    CKPT_TRAINING_NOTE = 4,    /* `text` */
    CKPT_TRAINING_WARNING = 5, /* `text`: a save failed and training goes on, the disk is full, ... */
    CKPT_TRAINING_FINISHED = 6 /* all done and saved; test accuracy is set */
} ckpt_training_event_kind;

typedef struct ckpt_training_event {
    ckpt_training_event_kind kind;
    uint64_t epoch, epochs;          /* epoch counts from 0 */
    uint64_t step, steps;            /* steps done, and in all as the recipe has it */
    uint64_t evaluated, evaluation;  /* BATCH during an evaluation: samples done and in all; else 0 */
    double loss, accuracy;           /* STEPS: mean since the line before; EPOCH: of the epoch; of training samples */
    double val_loss, val_accuracy;   /* EPOCH; NaN when nothing is held back */
    double test_loss, test_accuracy; /* FINISHED */
    bool best;                       /* EPOCH: the best validation accuracy so far */
    double images_per_s;             /* STEPS: since the line before; EPOCH: of the epoch, without validation; NaN when
                                        all steps were made before this training was resumed */
    double seconds_left;             /* estimated, until all is done; below 0: not known yet */
    const char *text;                /* NULL, or one line */
} ckpt_training_event;

/* A non-zero return stops the training before the next step: the state is saved, and ckpt_training_run returns
 * CKPT_EWINDOW. */
typedef int (*ckpt_training_event_fn)(void *payload, const ckpt_training_event *event);

/* ---- Training --------------------------------------------------------------------------------------------------- */

typedef struct ckpt_training_options {
    size_t size;
    const char *store_path;     /* NULL: as ckpt_store_open */
    const char *data;           /* folder or .npz; NULL for a resume: where they were */
    const char *epochs, *steps; /* for a resume: instead of what the recipe says; NULL: as it says */
    unsigned threads;           /* 0: as many as the machine allows; for a resume: as recorded */
    bool restart;               /* ckpt_training_new: begin at epoch 0 though the store has checkpoints of this run */
    bool profile;               /* measure operations: ckpt_training_profile_row */
    ckpt_training_event_fn event;
    void *payload;
} ckpt_training_options;

#define CKPT_TRAINING_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(ckpt_training_options), NULL, NULL, NULL, NULL, 0, false, false, NULL, NULL                             \
    }

typedef struct ckpt_training ckpt_training;

/* A training at epoch 0. CKPT_EUSAGE when the store has checkpoints of a run of this name and `restart` is not set;
 * CKPT_EBUSY when another process trains it; errors of data, recipe and store. */
CKPT_API int ckpt_training_new(ckpt_training **out, const ckpt_recipe *recipe, const ckpt_training_options *options,
                               ckpt_error *err);
/* The newest good checkpoint of the run `name` (NULL: of any run). CKPT_ENOTFOUND when there is none: begin at epoch 0.
 * `recipe` may be NULL; else it must agree with the recorded one, or CKPT_EUSAGE names the differences. Data of another
 * digest are CKPT_EUSAGE. The recorded thread count and instruction set are taken again; where that is not possible the
 * run is `equivalent`, and the event STARTED says why. */
CKPT_API int ckpt_training_resume(ckpt_training **out, const char *name, const ckpt_recipe *recipe,
                                  const ckpt_training_options *options, ckpt_error *err);

typedef struct ckpt_training_result {
    uint64_t epoch, step;
    double test_accuracy, best_val_accuracy;     /* NaN: not known */
    uint64_t saves, saves_failed, saves_skipped; /* skipped: replaced by a newer one before it was written */
    double blocked_seconds;                      /* in all saves together */
    uint64_t raw_bytes, stored_bytes;            /* of all saves that were written */
    double seconds, images_per_s;                /* of this call, training steps only; the rate is NaN without any */
    uint64_t memory_bytes;                       /* of parameters, optimizer, gradients and arena */
} ckpt_training_result;

/* Trains to the end; may be called once. `result` may be NULL and is filled in also when it fails.
 *
 * CKPT_EWINDOW: the event callback stopped it and the state is saved. CKPT_EDIFFER: the loss or a weight became NaN or
 * infinite; the message names the first bad tensor, and the last good checkpoint is untouched. A save that fails is a
 * WARNING event and training goes on, trying again at the next; only when the last save fails is that the error. */
CKPT_API int ckpt_training_run(ckpt_training_result *result, ckpt_training *training, ckpt_error *err);
CKPT_API void ckpt_training_free(ckpt_training *training);

/* Where the time of the run went, with `profile`. */
typedef struct ckpt_profile_row {
    const char *name; /* "conv2", "relu1+maxpool1", "loss", "adam", "gather", "save", "validation" */
    uint64_t calls;
    double seconds; /* forward and backward together */
    double forward_seconds, backward_seconds;
    double flops, bytes; /* of all calls: operations and least memory traffic */
} ckpt_profile_row;
/* CKPT_ENOTFOUND past the last. */
CKPT_API int ckpt_training_profile_row(ckpt_profile_row *out, const ckpt_training *training, size_t i);

/* What this machine can do with `threads` threads (0: as many as allowed) and its widest instruction set: multiply-adds
 * of fp32 on registers, and copying of memory that no cache holds. Measures for about half a second. CKPT_EUSAGE for
 * too many threads, CKPT_ENOMEM. */
typedef struct ckpt_machine_limits {
    unsigned threads;
    double flops_per_s, bytes_per_s;
} ckpt_machine_limits;
CKPT_API int ckpt_machine_limits_measure(ckpt_machine_limits *out, unsigned threads, ckpt_error *err);

/* ---- Models: the network of a checkpoint, for use --------------------------------------------------------------- */

typedef struct ckpt_model ckpt_model;

typedef struct ckpt_model_options {
    size_t size;
    const char *store_path; /* NULL: as ckpt_store_open */
    const char *data;       /* NULL: where the run had them */
    unsigned threads;
    ckpt_training_event_fn event; /* BATCH with `evaluated`; non-zero: stop with CKPT_EINTERRUPTED */
    void *payload;
} ckpt_model_options;

typedef enum ckpt_samples { CKPT_SAMPLES_TEST = 0, CKPT_SAMPLES_VALIDATION = 1, CKPT_SAMPLES_TRAIN = 2 } ckpt_samples;

typedef struct ckpt_evaluation {
    uint64_t samples, correct;
    double loss, accuracy;
} ckpt_evaluation;

typedef struct ckpt_prediction {
    uint64_t index; /* in the file of the data set, from 0 */
    unsigned label; /* as the data set has it */
    unsigned class_index;
    double probability;         /* of that class */
    const float *probabilities; /* of all classes; valid during the call */
    size_t class_count;
} ckpt_prediction;
typedef int (*ckpt_prediction_fn)(void *payload, const ckpt_prediction *prediction, ckpt_error *err);

/* `name` is a checkpoint, or the path of a restored state; the order is that of `ckpt show`. CKPT_EUSAGE when it holds
 * no training state. */
CKPT_API int ckpt_model_open(ckpt_model **out, const char *name, const ckpt_model_options *options, ckpt_error *err);
CKPT_API int ckpt_model_evaluate(ckpt_evaluation *out, ckpt_model *model, ckpt_samples samples, ckpt_error *err);
/* Calls `each` for every sample in the order of the file, until it returns non-zero, which is returned. */
CKPT_API int ckpt_model_predict(ckpt_model *model, ckpt_samples samples, ckpt_prediction_fn each, void *payload,
                                ckpt_error *err);
CKPT_API void ckpt_model_free(ckpt_model *model);

#ifdef __cplusplus
}
#endif
#endif
