/* Tensors and values of the state of state_sample.h on their way into a file, for tests to change. Included by one test
 * each. */
#ifndef TESTS_STATE_PARTS_H
#define TESTS_STATE_PARTS_H

#include "state_sample.h"

#define PAIRS_MAX 32
#define ROWS_MAX  32

typedef struct parts {
    ckpt_tensor tensors[ROWS_MAX];
    ckpt_value values[PAIRS_MAX];
    size_t tensor_count, value_count;
    state_view *view;
} parts;

static inline void parts_open(parts *p, const sample *s)
{
    MUST(state_view_new(&p->view, &s->state, s->net, ERR));
    const ckpt_tensor *const tensors = state_view_tensors(&p->tensor_count, p->view);
    const ckpt_value *const values = state_view_values(&p->value_count, p->view);
    assert_in_range(p->tensor_count, 1, ROWS_MAX);
    assert_in_range(p->value_count, 1, PAIRS_MAX);
    memcpy(p->tensors, tensors, p->tensor_count * sizeof *tensors);
    memcpy(p->values, values, p->value_count * sizeof *values);
}

static inline ckpt_value *parts_value(parts *p, const char *key)
{
    for (size_t i = 0; i < p->value_count; i++)
        if (strcmp(p->values[i].key, key) == 0)
            return &p->values[i];
    fail_msg("no value %s", key);
    return NULL;
}

static inline ckpt_tensor *parts_tensor(parts *p, const char *name)
{
    for (size_t i = 0; i < p->tensor_count; i++)
        if (strcmp(p->tensors[i].name, name) == 0)
            return &p->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Saves the parts, and opens the checkpoint. */
static inline ckpt_content *parts_save(parts *p, const sample *s)
{
    ckpt_save_result saved;
    ckpt_content *content = NULL;
    MUST(ckpt_save_tensors(&saved, s->store, "exp-1/" STATE_FILE_NAME, p->tensors, p->tensor_count, p->values,
                           p->value_count, NULL, ERR));
    MUST(ckpt_content_open(&content, s->store, saved.id, ERR));
    state_view_free(p->view);
    return content;
}

static inline ckpt_content *state_save(const sample *s)
{
    parts p;
    parts_open(&p, s);
    return parts_save(&p, s);
}

#endif
