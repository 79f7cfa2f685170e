#include "state_fields.h"

#include "dataset.h"
#include "pool.h"

#include <assert.h>
#include <stdio.h>

/* The order of samples counts epochs with 32 bits, a checkpoint its step with 63. */
#define EPOCH_MAX   UINT32_MAX
#define STEP_MAX    INT64_MAX
#define SEEN_MAX    INT64_MAX
#define THREADS_MAX POOL_THREADS_MAX

#define FIELD(key, kind, member, max)                                                                                  \
    {                                                                                                                  \
        key, kind, offsetof(state, member), max                                                                        \
    }

const state_field STATE_FIELDS[STATE_FIELD_COUNT] = {
    FIELD("epoch", STATE_COUNT, epoch, EPOCH_MAX),
    FIELD("step", STATE_COUNT, step, STEP_MAX),
    FIELD("position", STATE_COUNT, position, DATASET_SAMPLES_MAX),
    FIELD("loss_sum", STATE_REAL, loss_sum, 0),
    FIELD("correct", STATE_COUNT, correct, SEEN_MAX),
    FIELD("seen", STATE_COUNT, seen, SEEN_MAX),
    FIELD("epoch_loss_sum", STATE_REAL, epoch_loss_sum, 0),
    FIELD("epoch_correct", STATE_COUNT, epoch_correct, DATASET_SAMPLES_MAX),
    FIELD("best_val_accuracy", STATE_BEST, best_val_accuracy, 0),
    FIELD("data_digest", STATE_DIGEST, data_digest, 0),
    FIELD("environment.threads", STATE_THREADS, environment.threads, THREADS_MAX),
    FIELD("environment.isa", STATE_TEXT, environment.isa, 0),
    FIELD("environment.library", STATE_TEXT, environment.library, 0),
    FIELD("environment.cpu", STATE_TEXT, environment.cpu, 0),
    FIELD("environment.version", STATE_TEXT, environment.version, 0),
};

_Static_assert(STATE_FIELD_TEXT_SIZE >= BACKEND_TEXT_SIZE && STATE_FIELD_TEXT_SIZE >= SHA256_HEX_SIZE,
               "a value holds every kind of field");

void state_tensor_name(char out[STATE_TENSOR_NAME_SIZE], state_vector v, const param *p)
{
    static const char *const PREFIXES[STATE_VECTORS] = {
        [STATE_WEIGHTS] = "model.",
        [STATE_EXP_AVG] = "optimizer.exp_avg.",
        [STATE_EXP_AVG_SQ] = "optimizer.exp_avg_sq.",
    };

    snprintf(out, STATE_TENSOR_NAME_SIZE, "%s%s", PREFIXES[v], p->name);
}

const char *history_column_name(history_column c)
{
    static const char *const NAMES[HISTORY_COLUMNS] = {
        [HISTORY_STEP] = "history.step",
        [HISTORY_LOSS] = "history.loss",
        [HISTORY_ACCURACY] = "history.accuracy",
        [HISTORY_VAL_ACCURACY] = "history.val_accuracy",
    };

    return NAMES[c];
}

ckpt_dtype history_column_dtype(history_column c)
{
    return c == HISTORY_STEP ? CKPT_I64 : CKPT_F64;
}

void *history_column_rows(const history *h, history_column c)
{
    assert(c < HISTORY_COLUMNS);
    switch (c) {
    case HISTORY_STEP:
        return h->step;
    case HISTORY_LOSS:
        return h->loss;
    case HISTORY_ACCURACY:
        return h->accuracy;
    case HISTORY_VAL_ACCURACY:
        return h->val_accuracy;
    case HISTORY_COLUMNS:
        break;
    }
    return NULL;
}

float *state_vector_get(const state *s, state_vector v)
{
    assert(v < STATE_VECTORS);
    return v == STATE_WEIGHTS ? s->weights : v == STATE_EXP_AVG ? s->exp_avg : s->exp_avg_sq;
}

void state_clear(state *s)
{
    history_clear(&s->history);
}
