/* A small training state with numbers of every kind in it, and a store in a temporary folder. Included by one test
 * each. */
#ifndef TESTS_STATE_SAMPLE_H
#define TESTS_STATE_SAMPLE_H

#include "state.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "must.h"
#include "temp_dir.h"

#define SAMPLE_LAYERS "conv 2 3x3, relu, maxpool 2, flatten, dense 3"
#define SAMPLE_DIGEST "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

typedef struct sample {
    char root[TEMP_PATH_MAX];
    ckpt_store *store;
    net *net;
    state state;
} sample;

/* Three vectors of bits that are as good as random; infinities, NaN and numbers below the normal ones among them. */
static inline void sample_vectors(state *s, size_t count)
{
    float *const vectors = malloc(3 * count * sizeof *vectors);
    uint32_t x = 1;
    assert_non_null(vectors);
    for (size_t i = 0; i < 3 * count; i++) {
        x = x * 1664525u + 1013904223u;
        memcpy(&vectors[i], &x, sizeof x);
    }
    vectors[0] = -0.0f;
    vectors[1] = INFINITY;
    vectors[2] = NAN;
    vectors[3] = 1e-45f;
    s->weights = vectors;
    s->exp_avg = vectors + count;
    s->exp_avg_sq = vectors + 2 * count;
}

static inline void sample_recipe(recipe_values *out, const char *run)
{
    ckpt_recipe *recipe = NULL;
    MUST(ckpt_recipe_open(&recipe, "mnist-cnn", ERR));
    MUST(ckpt_recipe_set(recipe, "run.name", run, ERR));
    MUST(ckpt_recipe_set(recipe, "run.backend", "reference", ERR));
    MUST(ckpt_recipe_set(recipe, "data.classes", "3", ERR));
    MUST(ckpt_recipe_set(recipe, "data.batch", "8", ERR));
    MUST(ckpt_recipe_set(recipe, "net.layers", SAMPLE_LAYERS, ERR));
    *out = recipe->values;
    ckpt_recipe_free(recipe);
}

/* After epoch 2 of 10 batches each, in the middle of the next. */
static inline void sample_state(state *s, const net *n)
{
    *s = (state){
        .epoch = 2,
        .step = 23,
        .position = 24,
        .loss_sum = 0x1.23456789abcdep+3,
        .correct = 11,
        .seen = 16,
        .epoch_loss_sum = 0x1.fffffffffffffp+4,
        .epoch_correct = 17,
        .has_best = true,
        .best_val_accuracy = 0.1,
        .data_digest = SAMPLE_DIGEST,
        .environment = {
            .threads = 2, .isa = "avx2", .library = "oneDNN 2.6.3", .cpu = "Processor \"X\" 9000", .version = "0.1.0"}};
    sample_recipe(&s->recipe, "exp-1");
    sample_vectors(s, n->weight_count);
    MUST(history_reserve(&s->history, 100, ERR));
    history_add(&s->history, 10, 2.5, 0.25, NAN);
    history_add(&s->history, 10, (double)INFINITY, 0.0, 0.5);
    history_add(&s->history, 20, 0x1p-1074, -0.0, 0.75);
}

static inline int sample_setup(void **out)
{
    sample *const s = calloc(1, sizeof *s);
    if (!s || temp_dir_make(s->root))
        return -1;
    MUST(ckpt_store_init(NULL, s->root, ERR));
    MUST(ckpt_store_open(&s->store, s->root, NULL, ERR));
    MUST(net_parse(&s->net, SAMPLE_LAYERS, (dims){1, 8, 8}, 3, ERR));
    sample_state(&s->state, s->net);
    *out = s;
    return 0;
}

static inline int sample_teardown(void **out)
{
    sample *const s = *out;
    ckpt_store_close(s->store);
    free(s->state.weights);
    state_clear(&s->state);
    net_free(s->net);
    const int rc = temp_dir_remove(s->root);
    free(s);
    return rc;
}

#endif
