#include "state_fields.h"

#include "fail.h"
#include "real.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values: the version and the recipe, then the fields of the table. */
#define VALUE_COUNT (2 + STATE_FIELD_COUNT)

struct state_view {
    const state *state;
    const net *net;
    ckpt_tensor *tensors; /* the history's columns, whose elements are the widest; then each vector's parameters */
    size_t tensor_count;
    char (*names)[STATE_TENSOR_NAME_SIZE]; /* of the vectors' tensors */
    ckpt_value values[VALUE_COUNT];
    char *recipe;
    char texts[STATE_FIELD_COUNT][STATE_FIELD_TEXT_SIZE];
};

/* Names and shapes; where the data lie is state_view_update's. */
static void tensors_describe(state_view *v)
{
    ckpt_tensor *t = v->tensors;

    for (int c = 0; c < HISTORY_COLUMNS; c++, t++)
        *t = (ckpt_tensor){.name = history_column_name((history_column)c),
                           .dtype = history_column_dtype((history_column)c),
                           .rank = 1};
    for (int k = 0; k < STATE_VECTORS; k++)
        for (size_t i = 0; i < v->net->param_count; i++, t++) {
            const param *const p = &v->net->params[i];
            char *const name = v->names[(size_t)k * v->net->param_count + i];
            state_tensor_name(name, (state_vector)k, p);
            *t = (ckpt_tensor){.name = name, .dtype = CKPT_F32, .rank = p->rank};
            for (unsigned d = 0; d < p->rank; d++)
                t->shape[d] = p->shape[d];
        }
}

int state_view_new(state_view **out, const state *s, const net *n, ckpt_error *err)
{
    int rc = 0;
    state_view *v = calloc(1, sizeof *v);

    FAIL_IF_NULL(v, err);
    v->state = s;
    v->net = n;
    v->tensor_count = HISTORY_COLUMNS + STATE_VECTORS * n->param_count;
    v->tensors = calloc(v->tensor_count, sizeof *v->tensors);
    v->names = calloc(STATE_VECTORS * n->param_count + 1, sizeof *v->names);
    FAIL_IF_NULL(v->tensors && v->names, err);
    tensors_describe(v);
    TRY(recipe_text(&v->recipe, &s->recipe, err));
    v->values[0] = (ckpt_value){STATE_KEY_VERSION, STATE_VERSION};
    v->values[1] = (ckpt_value){STATE_KEY_RECIPE, v->recipe};
    for (size_t i = 0; i < STATE_FIELD_COUNT; i++)
        v->values[2 + i] = (ckpt_value){STATE_FIELDS[i].key, v->texts[i]};
    state_view_update(v);
    *out = v;
    v = NULL;
out:
    state_view_free(v);
    return rc;
}

static void field_write(char out[STATE_FIELD_TEXT_SIZE], const state *s, const state_field *f)
{
    const void *const member = (const unsigned char *)s + f->offset;

    switch (f->kind) {
    case STATE_COUNT:
        snprintf(out, STATE_FIELD_TEXT_SIZE, "%" PRIu64, *(const uint64_t *)member);
        break;
    case STATE_THREADS:
        snprintf(out, STATE_FIELD_TEXT_SIZE, "%u", *(const unsigned *)member);
        break;
    case STATE_BEST:
        if (!s->has_best) {
            snprintf(out, STATE_FIELD_TEXT_SIZE, "none");
            break;
        }
        __attribute__((fallthrough));
    case STATE_REAL:
        real_hex(out, *(const double *)member);
        break;
    case STATE_DIGEST:
    case STATE_TEXT:
        snprintf(out, STATE_FIELD_TEXT_SIZE, "%s", (const char *)member);
        break;
    }
}

void state_view_update(state_view *v)
{
    const state *const s = v->state;
    ckpt_tensor *t = v->tensors;

    for (int c = 0; c < HISTORY_COLUMNS; c++, t++) {
        t->shape[0] = s->history.count;
        t->data = history_column_rows(&s->history, (history_column)c);
    }
    for (int k = 0; k < STATE_VECTORS; k++)
        for (size_t i = 0; i < v->net->param_count; i++, t++)
            t->data = state_vector_get(s, (state_vector)k) + v->net->params[i].offset;
    for (size_t i = 0; i < STATE_FIELD_COUNT; i++)
        field_write(v->texts[i], s, &STATE_FIELDS[i]);
}

const ckpt_tensor *state_view_tensors(size_t *count, const state_view *v)
{
    *count = v->tensor_count;
    return v->tensors;
}

const ckpt_value *state_view_values(size_t *count, const state_view *v)
{
    *count = VALUE_COUNT;
    return v->values;
}

void state_view_free(state_view *v)
{
    if (!v)
        return;
    free(v->tensors);
    free(v->names);
    free(v->recipe);
    free(v);
}
