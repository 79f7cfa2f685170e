/* A training that is small enough for tests, on the reference backend, and a store for it. Included by one test each.
 *
 * 2,000 samples, of which 1,910 are held back: an epoch is 90 samples in 12 batches, the last one short. */
#ifndef TESTS_TRAINING_FIXTURE_H
#define TESTS_TRAINING_FIXTURE_H

#include <ckpt/store.h>
#include <ckpt/train.h>

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "must.h"
#include "temp_dir.h"

#define FASHION     GOLDEN_DIR "/fashion-2000"
#define EPOCH_STEPS 12
#define EVERY       5
#define TEXT_MAX    1024
#define NEVER       UINT64_MAX

typedef struct fixture {
    char root[TEMP_PATH_MAX];
    uint64_t stop_at;     /* the callback stops at this step */
    bool stop_validating; /* when an evaluation has begun at that step */
    uint64_t events[CKPT_TRAINING_FINISHED + 1];
    ckpt_training_event last[CKPT_TRAINING_FINISHED + 1];
    char text[CKPT_TRAINING_FINISHED + 1][TEXT_MAX]; /* the last of each kind */
    ckpt_training_result result;
    ckpt_error err;
} fixture;

static int fixture_event(void *payload, const ckpt_training_event *event)
{
    fixture *const f = payload;

    f->events[event->kind]++;
    f->last[event->kind] = *event;
    if (event->text)
        snprintf(f->text[event->kind], TEXT_MAX, "%s", event->text);
    return event->step >= f->stop_at && (!f->stop_validating || event->evaluated > 0);
}

static inline void fixture_make(fixture *f)
{
    *f = (fixture){.stop_at = NEVER};
    assert_int_equal(temp_dir_make(f->root), 0);
    MUST(ckpt_store_init(NULL, f->root, ERR));
}

static inline void fixture_remove(fixture *f)
{
    assert_int_equal(temp_dir_remove(f->root), 0);
}

static inline int fixture_setup(void **state)
{
    fixture *const f = calloc(1, sizeof *f);
    assert_non_null(f);
    fixture_make(f);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    fixture_remove(*state);
    free(*state);
    return 0;
}

static inline void recipe_change(ckpt_recipe *recipe, const char *key, const char *value)
{
    MUST(ckpt_recipe_set(recipe, key, value, ERR));
}

/* The small training, for two epochs. */
static inline ckpt_recipe *recipe_small(void)
{
    ckpt_recipe *recipe = NULL;

    MUST(ckpt_recipe_open(&recipe, "mnist-cnn", ERR));
    recipe_change(recipe, "run.name", "small");
    recipe_change(recipe, "run.backend", "reference");
    recipe_change(recipe, "run.epochs", "2");
    recipe_change(recipe, "run.seed", "7");
    recipe_change(recipe, "data.batch", "8");
    recipe_change(recipe, "data.validation", "0.955");
    recipe_change(recipe, "net.layers", "maxpool 4, conv 2 3x3, relu, flatten, dense 10");
    recipe_change(recipe, "checkpoint.every", "5");
    recipe_change(recipe, "checkpoint.prune", "0");
    return recipe;
}

static inline ckpt_training_options fixture_options(fixture *f)
{
    ckpt_training_options options = CKPT_TRAINING_OPTIONS_INIT;

    options.store_path = f->root;
    options.event = fixture_event;
    options.payload = f;
    return options;
}

/* Runs what was opened; a stop by the callback is as good as the end. */
static inline void fixture_run(fixture *f, ckpt_training *training)
{
    const int rc = ckpt_training_run(&f->result, training, &f->err);

    ckpt_training_free(training);
    if (rc != (f->stop_at == NEVER ? 0 : CKPT_EWINDOW))
        fail_msg("%d: %s", rc, f->err.message);
}

/* Begins a training and runs it to its end, or to stop_at. */
static inline void fixture_train(fixture *f, const ckpt_recipe *recipe)
{
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(f);

    options.data = FASHION;
    MUST(ckpt_training_new(&training, recipe, &options, ERR));
    fixture_run(f, training);
}

static inline void fixture_resume(fixture *f, const char *epochs)
{
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(f);

    options.epochs = epochs;
    MUST(ckpt_training_resume(&training, NULL, NULL, &options, ERR));
    fixture_run(f, training);
}

/* SHA-256 of the state file of the newest checkpoint, which is of step `step`. */
static inline void fixture_sha(char out[CKPT_ID_SIZE], const fixture *f, int64_t step)
{
    ckpt_store *store = NULL;
    ckpt_content *content = NULL;

    MUST(ckpt_store_open(&store, f->root, NULL, ERR));
    MUST(ckpt_content_open(&content, store, "latest", ERR));
    assert_int_equal(ckpt_content_info(content)->step, step);
    memcpy(out, ckpt_content_file(content, ckpt_content_file_count(content) - 1)->sha256, CKPT_ID_SIZE);
    ckpt_content_close(content);
    ckpt_store_close(store);
}

#endif
