/* Running the operations of a backend on plain numbers, to compare them with those of another one:
 *
 *     const op_case c = {.layers = "conv 4 3x2 stride 2, relu", .in = {3, 7, 5}, .batch = 2, .layers_max = 2};
 *     op_inputs x;
 *     op_result want, got;
 *     op_inputs_new(&x, &c, 1);                        random numbers, the same for the same seed
 *     op_run(&want, reference, &c, &x);
 *     op_run(&got, other, &c, &x);
 *     op_result_assert_close(&got, &want, 1e-6);
 *
 * Numbers go in and come out in the plain order, whatever blocks the backend chooses. Every buffer that a backend sees
 * was filled with NaN before, and is NULL where the operation did not ask for it; what fills up channels must be 0.
 * Whatever fails here fails the test. */
#ifndef TESTS_OP_CHECK_H
#define TESTS_OP_CHECK_H

#include "backend.h"
#include "philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OP_STAGES_MAX 16
#define OP_TEXT_MAX   512

/* What is run; 0 everywhere else is the plainest case. */
typedef struct op_case {
    const char *layers; /* as net_parse reads them; they need not end in a class count */
    dims in;            /* of the first of them */
    size_t batch;
    size_t first;      /* leave out so many layers in front: {"flatten, dense 5", .first = 1} is a dense layer */
    size_t in_block;   /* block in which the input comes; 0: 1 */
    size_t layers_max; /* that one operation may do; 0: 1 */
    bool evaluate;     /* without training: no way back */
    bool no_in_grad;   /* nobody wants the input's gradient */
} op_case;

/* Plain numbers to run a case on; may be changed before they are used. */
typedef struct op_inputs {
    net *net;        /* the layers of the case, and some behind them that are never run */
    size_t end;      /* layers [first, end) are run */
    float *in;       /* [batch][channels][height][width] of layer `first` */
    float *out_grad; /* of layer end - 1 */
    float *weights;  /* of all layers before `end`, as in net.h */
    size_t in_count, out_count, weight_count;
} op_inputs;

/* What came out, in the plain order. */
typedef struct op_result {
    float *out;
    float *in_grad;      /* NULL: not wanted */
    float *weight_grads; /* NULL: without training */
    size_t in_count, out_count, weight_count;
    size_t op_count; /* operations that were made */
} op_result;

static inline void op_assert_ok(int rc, const ckpt_error *err)
{
    if (rc)
        fail_msg("%s", err->message);
}

static inline float *op_floats(size_t count)
{
    float *const numbers = malloc((count ? count : 1) * sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < count; i++)
        numbers[i] = NAN;
    return numbers;
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

/* Uniform in (-1, 1); `stream` tells vectors apart. */
static inline float *op_random(size_t count, uint64_t seed, unsigned stream)
{
    float *const numbers = op_floats(count);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)(random_word(seed, RANDOM_INIT, stream, i) >> 8) / 8388608.0f - 1.0f + 0x1p-24f;
    return numbers;
}

static inline void op_inputs_new(op_inputs *x, const op_case *c, uint64_t seed)
{
    ckpt_error err = {0};
    char layers[OP_TEXT_MAX];

    /* A net has to end in a dense layer. */
    snprintf(layers, sizeof layers, "%s%s, dense 1", c->layers, strstr(c->layers, "flatten") ? "" : ", flatten");
    *x = (op_inputs){0};
    op_assert_ok(net_parse(&x->net, layers, c->in, 1, &err), &err);
    x->end = x->net->layer_count - (strstr(c->layers, "flatten") ? 1 : 2);
    assert_true(c->first < x->end);
    x->in_count = c->batch * dims_count(&x->net->layers[c->first].in);
    x->out_count = c->batch * dims_count(&x->net->layers[x->end - 1].out);
    x->weight_count = x->net->params[x->net->layers[x->net->layer_count - 1].param_first].offset;
    x->in = op_random(x->in_count, seed, 0);
    x->weights = op_random(x->weight_count, seed, 1);
    x->out_grad = op_random(x->out_count, seed, 2);
}

static inline void op_inputs_clear(op_inputs *x)
{
    net_free(x->net);
    free(x->in);
    free(x->weights);
    free(x->out_grad);
}

/* ---- Layouts ----------------------------------------------------------------------------------------------------- */

/* Where number (n, c, place) of a value lies: see backend.h. */
static inline size_t op_place(const value *v, size_t n, size_t c, size_t place)
{
    const size_t plane = v->shape.height * v->shape.width, blocks = (v->shape.channels + v->block - 1) / v->block;
    return ((n * blocks + c / v->block) * plane + place) * v->block + c % v->block;
}

/* From the plain order into the layout of `v`, filled up with zeros; for free(). */
static inline float *op_blocked(const float *plain, const value *v)
{
    const size_t plane = v->shape.height * v->shape.width;
    float *const blocked = calloc(1, value_bytes(v));

    assert_non_null(blocked);
    for (size_t n = 0; n < v->batch; n++)
        for (size_t c = 0; c < v->shape.channels; c++)
            for (size_t i = 0; i < plane; i++)
                blocked[op_place(v, n, c, i)] = plain[(n * v->shape.channels + c) * plane + i];
    return blocked;
}

/* And back. */
static inline float *op_plain(const float *blocked, const value *v)
{
    const size_t plane = v->shape.height * v->shape.width, channels = v->shape.channels;
    const size_t filled = (channels + v->block - 1) / v->block * v->block;
    float *const plain = op_floats(v->batch * channels * plane);

    for (size_t n = 0; n < v->batch; n++)
        for (size_t c = 0; c < filled; c++)
            for (size_t i = 0; i < plane; i++) {
                const float number = blocked[op_place(v, n, c, i)];
                if (c < channels)
                    plain[(n * channels + c) * plane + i] = number;
                else if (number != 0)
                    fail_msg("channel %zu, which fills up, holds %g", c, (double)number);
            }
    return plain;
}

/* ---- The device's memory ----------------------------------------------------------------------------------------- */

/* NULL for no bytes; else full of NaN. */
static inline void *op_memory_new(backend *b, size_t bytes)
{
    ckpt_error err = {0};
    void *memory = NULL;

    if (!bytes)
        return NULL;
    void *const poison = malloc(bytes);
    assert_non_null(poison);
    memset(poison, 0xff, bytes);
    op_assert_ok(b->memory_new(&memory, b, bytes, &err), &err);
    op_assert_ok(b->write(b, memory, poison, bytes, &err), &err);
    free(poison);
    return memory;
}

static inline void *op_memory_with(backend *b, const void *host, size_t bytes)
{
    ckpt_error err = {0};
    void *const memory = op_memory_new(b, bytes);
    if (bytes)
        op_assert_ok(b->write(b, memory, host, bytes, &err), &err);
    return memory;
}

static inline float *op_memory_floats(backend *b, const void *memory, size_t count)
{
    ckpt_error err = {0};
    float *const numbers = op_floats(count);
    if (count)
        op_assert_ok(b->read(b, numbers, memory, count * sizeof *numbers, &err), &err);
    return numbers;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* One operation with its memory; its input is the output of the stage before. */
typedef struct op_stage {
    op *op;
    size_t layer;
    value in;
    void *out, *out_grad, *keep; /* the device's */
} op_stage;

typedef struct op_job {
    backend *b;
    const op_case *c;
    const op_inputs *x;
    op_stage stages[OP_STAGES_MAX];
    size_t stage_count;
    void *in, *in_grad;     /* the device's */
    float *weights, *grads; /* the device's */
} op_job;

static inline value op_in_value(const op_case *c, const op_inputs *x)
{
    return (value){c->batch, x->net->layers[c->first].in, c->in_block ? c->in_block : 1, CKPT_F32};
}

static inline void op_job_open(op_job *j)
{
    const size_t layers_max = j->c->layers_max ? j->c->layers_max : 1;
    ckpt_error err = {0};
    value in = op_in_value(j->c, j->x);

    for (size_t first = j->c->first; first < j->x->end;) {
        const size_t left = j->x->end - first;
        const op_request request = {.net = j->x->net,
                                    .layer = first,
                                    .layers_max = layers_max < left ? layers_max : left,
                                    .in = {in},
                                    .training = !j->c->evaluate,
                                    .wants_in_grad = {!j->c->evaluate && (first > j->c->first || !j->c->no_in_grad)}};
        assert_true(j->stage_count < OP_STAGES_MAX);
        op_stage *const s = &j->stages[j->stage_count++];
        *s = (op_stage){.layer = first, .in = in};
        op_assert_ok(j->b->op_new(&s->op, j->b, &request, &err), &err);
        assert_in_range(s->op->layer_count, 1, request.layers_max);
        s->out = op_memory_new(j->b, value_bytes(&s->op->out));
        s->out_grad = op_memory_new(j->b, request.training ? value_bytes(&s->op->out) : 0);
        s->keep = op_memory_new(j->b, s->op->keep_bytes);
        first += s->op->layer_count;
        in = s->op->out;
    }
}

/* Parameters of the one layer of the stage that has some. */
static inline void op_job_params(op_memory *m, const op_job *j, const op_stage *s)
{
    for (size_t i = s->layer; i < s->layer + s->op->layer_count; i++) {
        const layer *const l = &j->x->net->layers[i];
        for (unsigned k = 0; k < l->param_count; k++) {
            const size_t offset = j->x->net->params[l->param_first + k].offset;
            assert_null(m->params[k]);
            m->params[k] = j->weights + offset;
            m->param_grads[k] = j->grads ? j->grads + offset : NULL;
        }
    }
}

static inline void op_job_forward(op_job *j)
{
    ckpt_error err = {0};

    for (size_t i = 0; i < j->stage_count; i++) {
        const op_stage *const s = &j->stages[i];
        op_memory m = {.in = {i ? s[-1].out : j->in},
                       .out = s->out,
                       .keep = s->keep,
                       .scratch = op_memory_new(j->b, s->op->forward_scratch_bytes)};
        op_job_params(&m, j, s);
        memset(m.param_grads, 0, sizeof m.param_grads);
        op_assert_ok(s->op->forward(s->op, &m, &err), &err);
        op_assert_ok(j->b->wait(j->b, &err), &err);
        j->b->memory_free(j->b, m.scratch);
    }
}

static inline void op_job_backward(op_job *j)
{
    ckpt_error err = {0};

    for (size_t i = j->stage_count; i-- > 0;) {
        const op_stage *const s = &j->stages[i];
        op_memory m = {.in = {!s->op->reads_in ? NULL
                              : i              ? s[-1].out
                                               : j->in},
                       .in_grad = {i ? s[-1].out_grad : j->in_grad},
                       .out = s->op->reads_out ? s->out : NULL,
                       .out_grad = s->out_grad,
                       .keep = s->keep,
                       .scratch = op_memory_new(j->b, s->op->backward_scratch_bytes)};
        op_job_params(&m, j, s);
        op_assert_ok(s->op->backward(s->op, &m, &err), &err);
        op_assert_ok(j->b->wait(j->b, &err), &err);
        j->b->memory_free(j->b, m.scratch);
    }
}

static inline void op_job_close(op_job *j)
{
    for (size_t i = 0; i < j->stage_count; i++) {
        op_stage *const s = &j->stages[i];
        j->b->memory_free(j->b, s->out);
        j->b->memory_free(j->b, s->out_grad);
        j->b->memory_free(j->b, s->keep);
        s->op->free(s->op);
    }
    j->b->memory_free(j->b, j->in);
    j->b->memory_free(j->b, j->in_grad);
    j->b->memory_free(j->b, j->weights);
    j->b->memory_free(j->b, j->grads);
}

/* The numbers of a value in the device's memory, in the plain order. */
static inline float *op_read_plain(backend *b, const void *memory, const value *v)
{
    float *const blocked = op_memory_floats(b, memory, value_bytes(v) / sizeof(float));
    float *const plain = op_plain(blocked, v);
    free(blocked);
    return plain;
}

static inline void *op_write_blocked(backend *b, const float *plain, const value *v)
{
    float *const blocked = op_blocked(plain, v);
    void *const memory = op_memory_with(b, blocked, value_bytes(v));
    free(blocked);
    return memory;
}

/* Runs the layers of the case forward, and unless it says otherwise backward. */
static inline void op_run(op_result *r, backend *b, const op_case *c, const op_inputs *x)
{
    const value in = op_in_value(c, x);
    const size_t weight_bytes = x->weight_count * sizeof(float);
    op_job j = {.b = b, .c = c, .x = x};

    op_job_open(&j);
    op_stage *const last = &j.stages[j.stage_count - 1];
    j.in = op_write_blocked(b, x->in, &in);
    j.weights = op_memory_with(b, x->weights, weight_bytes);
    *r = (op_result){
        .in_count = x->in_count, .out_count = x->out_count, .weight_count = x->weight_count, .op_count = j.stage_count};
    op_job_forward(&j);
    r->out = op_read_plain(b, last->out, &last->op->out);
    if (!c->evaluate) {
        j.grads = op_memory_new(b, weight_bytes);
        j.in_grad = op_memory_new(b, c->no_in_grad ? 0 : value_bytes(&in));
        b->memory_free(b, last->out_grad);
        last->out_grad = op_write_blocked(b, x->out_grad, &last->op->out);
        op_job_backward(&j);
        r->weight_grads = op_memory_floats(b, j.grads, x->weight_count);
        r->in_grad = j.in_grad ? op_read_plain(b, j.in_grad, &in) : NULL;
    }
    op_job_close(&j);
}

static inline void op_result_clear(op_result *r)
{
    free(r->out);
    free(r->in_grad);
    free(r->weight_grads);
}

/* ---- Comparing --------------------------------------------------------------------------------------------------- */

/* Differences may be `tolerance` times the largest finite number of `want`; NaN and infinities stand where they are
 * expected and nowhere else. */
static inline void op_assert_close(const float *got, const float *want, size_t count, double tolerance,
                                   const char *what)
{
    double scale = 0;

    for (size_t i = 0; i < count; i++)
        if (isfinite(want[i]))
            scale = fmax(scale, fabs((double)want[i]));
    for (size_t i = 0; i < count; i++) {
        const bool same = isfinite(want[i]) ? fabs((double)got[i] - (double)want[i]) <= tolerance * scale
                          : isnan(want[i])  ? isnan(got[i])
                                            : got[i] == want[i];
        if (!same)
            fail_msg("%s: number %zu of %zu is %.9g instead of %.9g", what, i, count, (double)got[i], (double)want[i]);
    }
}

static inline void op_result_assert_close(const op_result *got, const op_result *want, double tolerance)
{
    assert_int_equal(got->out_count, want->out_count);
    op_assert_close(got->out, want->out, want->out_count, tolerance, "output");
    assert_int_equal(!got->in_grad, !want->in_grad);
    if (want->in_grad)
        op_assert_close(got->in_grad, want->in_grad, want->in_count, tolerance, "gradient of the input");
    assert_int_equal(!got->weight_grads, !want->weight_grads);
    if (want->weight_grads)
        op_assert_close(got->weight_grads, want->weight_grads, want->weight_count, tolerance,
                        "gradient of the parameters");
}

#endif
