/* A trainer without a store, on the reference backend. Included by one test each. */
#ifndef TESTS_TRAINER_FIXTURE_H
#define TESTS_TRAINER_FIXTURE_H

#include "trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "must.h"

#define BATCH 6

/* 20 samples, 5 of which are held back: 15 in three batches, the last one of 3. */
static inline recipe_values values_small(void)
{
    return (recipe_values){.name = "small",
                           .epochs = 3,
                           .seed = 11,
                           .backend = "reference",
                           .data_kind = "mnist",
                           .classes = 10,
                           .batch = BATCH,
                           .validate = VALIDATE_SPLIT,
                           .validation = 0.25,
                           .layers = "maxpool 4, conv 2 3x3, relu, flatten, dense 10",
                           .optimizer_kind = "adam",
                           .lr = 0.01,
                           .beta1 = 0.9,
                           .beta2 = 0.999,
                           .eps = 1e-8};
}

typedef struct trainer_fixture {
    backend *backend;
    trainer trainer;
} trainer_fixture;

static inline void trainer_begin(trainer_fixture *f, const recipe_values *values, bool profile)
{
    const backend_options options = {0};
    dataset *data = NULL;

    MUST(backend_new(&f->backend, values->backend, &options, ERR));
    MUST(dataset_open(&data, GOLDEN_DIR "/fashion-20", 10, ERR));
    MUST(trainer_open(&f->trainer, values, f->backend, data, profile, ERR));
}

static inline void trainer_end(trainer_fixture *f)
{
    trainer_close(&f->trainer);
    backend_free(f->backend);
    f->backend = NULL;
}

#endif
