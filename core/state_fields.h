/* Fields of a training state: what stands beside the tensors in a checkpoint, and how tensors are named. One table for
 * who writes (state_view.c) and who reads (state_read.c); beside it are `ckpt.training` and `recipe`. */
#ifndef CORE_STATE_FIELDS_H
#define CORE_STATE_FIELDS_H

#include "state.h"

#define STATE_KEY_VERSION "ckpt.training"
#define STATE_KEY_RECIPE  "recipe"

#define STATE_FIELD_COUNT      15
#define STATE_FIELD_TEXT_SIZE  128 /* of a value: the longest are texts of the environment */
#define STATE_TENSOR_NAME_SIZE (NET_NAME_SIZE + 40)

typedef enum state_kind {
    STATE_COUNT,   /* uint64_t, decimal */
    STATE_THREADS, /* unsigned, decimal */
    STATE_REAL,    /* double that is finite, hexadecimal */
    STATE_BEST,    /* double in 0 .. 1, or "none" when has_best is not set */
    STATE_DIGEST,  /* char[SHA256_HEX_SIZE] */
    STATE_TEXT,    /* char[BACKEND_TEXT_SIZE] */
} state_kind;

typedef struct state_field {
    const char *key;
    state_kind kind;
    size_t offset; /* in a state */
    uint64_t max;  /* of counts and threads */
} state_field;

extern const state_field STATE_FIELDS[STATE_FIELD_COUNT];

/* Of the tensor that holds what of the vector is the parameter's. */
void state_tensor_name(char out[STATE_TENSOR_NAME_SIZE], state_vector v, const param *p);

typedef enum history_column {
    HISTORY_STEP,
    HISTORY_LOSS,
    HISTORY_ACCURACY,
    HISTORY_VAL_ACCURACY,
    HISTORY_COLUMNS
} history_column;
const char *history_column_name(history_column c); /* "history.step" */
ckpt_dtype history_column_dtype(history_column c);
void *history_column_rows(const history *h, history_column c);

#endif
