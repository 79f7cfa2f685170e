/* A backend that computes nothing and watches how a plan treats it.
 *
 * Each operation fills what it writes with a byte of its own and looks, when it reads, whether that byte still stands
 * in all places; so buffers that overlap while both are in use are found. What was called is kept as text:
 * "conv1 dense1 loss ~dense1 ~conv1". */
#ifndef TESTS_FAKE_BACKEND_H
#define TESTS_FAKE_BACKEND_H

#include "fail.h"
#include "philox.h"
#include "plan.h"

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FAKE_OPS_MAX   16
#define FAKE_TEXT_SIZE 1024
#define FAKE_SCRATCH   0x7e
#define FAKE_NAN       0xff /* four of them are a NaN; of all other bytes that stand here they are finite */

typedef struct fake_backend fake_backend;

typedef struct fake_op {
    op base;
    fake_backend *owner;
    op_request request;
    size_t index;     /* of the operation in its plan */
    op_memory memory; /* of the last call */
} fake_op;

struct fake_backend {
    backend base;
    /* Set by the test. */
    bool random_sizes;        /* blocks, scratch, what is kept, read and done in one go are drawn */
    bool reads_in, reads_out; /* without random_sizes */
    size_t fused;             /* layers done in one go, without random_sizes; 0: 1 */
    const char *bad;          /* the operation that gives NaN */
    const char *failing;      /* the call that fails: "conv1", "~conv1", "loss", "new conv1" */
    random_sequence draws;
    /* Kept for the test. */
    fake_op *ops[FAKE_OPS_MAX]; /* of the last plan */
    size_t op_count, op_alive;
    loss_memory loss;
    size_t waits;
    char calls[FAKE_TEXT_SIZE];
};

typedef enum fake_kind { FAKE_VALUE, FAKE_GRAD, FAKE_KEEP, FAKE_KINDS } fake_kind;

/* What value v, its gradient, or what operation v - 1 keeps, is filled with. */
static inline int fake_byte(fake_kind kind, size_t v)
{
    return (int)(1 + v * FAKE_KINDS + kind);
}

static inline void fake_fill(void *memory, size_t bytes, int byte)
{
    if (memory)
        memset(memory, byte, bytes);
}

static inline void fake_check(const void *memory, size_t bytes, int byte)
{
    const unsigned char *const p = memory;
    for (size_t i = 0; p && i < bytes; i++)
        assert_int_equal(p[i], byte);
}

static inline int fake_called(fake_backend *f, const char *prefix, const char *name, ckpt_error *err)
{
    char call[FAKE_TEXT_SIZE];
    const size_t used = strlen(f->calls);
    snprintf(call, sizeof call, "%s%s", prefix, name);
    snprintf(f->calls + used, sizeof f->calls - used, "%s%s", used ? " " : "", call);
    return f->failing && strcmp(call, f->failing) == 0 ? error_set(err, CKPT_EIO, "made to fail") : 0;
}

static inline int fake_forward(op *o, const op_memory *m, ckpt_error *err)
{
    fake_op *const own = (fake_op *)o;
    const bool bad = own->owner->bad && strcmp(own->owner->bad, o->name) == 0;
    const size_t v = own->index;
    const int out = bad ? FAKE_NAN : fake_byte(FAKE_VALUE, v + 1);

    own->memory = *m;
    assert_int_equal((m->scratch != NULL), o->forward_scratch_bytes > 0);
    assert_int_equal((m->keep != NULL), o->keep_bytes > 0);
    fake_fill(m->out, value_bytes(&o->out), out);
    fake_fill(m->keep, o->keep_bytes, fake_byte(FAKE_KEEP, v + 1));
    fake_fill(m->scratch, o->forward_scratch_bytes, FAKE_SCRATCH);
    if (!own->owner->bad)
        fake_check(m->in[0], value_bytes(&own->request.in[0]), fake_byte(FAKE_VALUE, v));
    fake_check(m->out, value_bytes(&o->out), out);
    fake_check(m->keep, o->keep_bytes, fake_byte(FAKE_KEEP, v + 1));
    return fake_called(own->owner, "", o->name, err);
}

static inline int fake_backward(op *o, const op_memory *m, ckpt_error *err)
{
    fake_op *const own = (fake_op *)o;
    const size_t v = own->index, in_bytes = value_bytes(&own->request.in[0]), out_bytes = value_bytes(&o->out);

    own->memory = *m;
    assert_int_equal((m->scratch != NULL), o->backward_scratch_bytes > 0);
    assert_int_equal((m->in[0] != NULL), o->reads_in);
    assert_int_equal((m->out != NULL), o->reads_out);
    assert_int_equal((m->in_grad[0] != NULL), own->request.wants_in_grad[0]);
    assert_non_null(m->out_grad);
    fake_fill(m->in_grad[0], in_bytes, fake_byte(FAKE_GRAD, v));
    fake_fill(m->scratch, o->backward_scratch_bytes, FAKE_SCRATCH);
    fake_check(m->in[0], in_bytes, fake_byte(FAKE_VALUE, v));
    fake_check(m->out, out_bytes, fake_byte(FAKE_VALUE, v + 1));
    fake_check(m->keep, o->keep_bytes, fake_byte(FAKE_KEEP, v + 1));
    fake_check(m->out_grad, out_bytes, fake_byte(FAKE_GRAD, v + 1));
    fake_check(m->in_grad[0], in_bytes, fake_byte(FAKE_GRAD, v));
    return fake_called(own->owner, "~", o->name, err);
}

static inline void fake_op_free(op *o)
{
    ((fake_op *)o)->owner->op_alive--;
    free(o);
}

static inline size_t fake_draw(fake_backend *f, size_t below)
{
    return f->random_sizes ? random_next(&f->draws) % below : 0;
}

/* As many layers as wanted, but of one with parameters no second. */
static inline size_t fake_fuse(fake_backend *f, const op_request *request)
{
    const layer *const first = &request->net->layers[request->layer];
    const size_t wanted = f->random_sizes ? 1 + fake_draw(f, 3) : f->fused ? f->fused : 1;
    size_t count = 1, params = first->param_count;
    while (count < wanted && count < request->layers_max && params + first[count].param_count <= OP_PARAMS_MAX)
        params += first[count++].param_count;
    return count;
}

static inline int fake_op_new(op **out, backend *b, const op_request *request, ckpt_error *err)
{
    fake_backend *const f = (fake_backend *)b;
    const layer *const first = &request->net->layers[request->layer];
    const size_t count = fake_fuse(f, request);
    const dims shape = first[count - 1].out;
    const bool vector = shape.height == 1 && shape.width == 1;
    const int rc = fake_called(f, "new ", first->name, err);
    if (rc)
        return rc;
    fake_op *const own = calloc(1, sizeof *own);
    if (!own)
        return error_memory(err);
    assert_true(f->op_count < FAKE_OPS_MAX);
    *own = (fake_op){.owner = f, .request = *request, .index = f->op_count};
    own->base = (op){.layer_count = count,
                     .out = {request->in[0].batch, shape, vector || !fake_draw(f, 2) ? 1 : 8, CKPT_F32},
                     .keep_bytes = request->training ? fake_draw(f, 3000) : 0,
                     .forward_scratch_bytes = fake_draw(f, 3000),
                     .backward_scratch_bytes = fake_draw(f, 3000),
                     .reads_in = f->random_sizes ? fake_draw(f, 2) : f->reads_in,
                     .reads_out = f->random_sizes ? fake_draw(f, 2) : f->reads_out,
                     .forward_flops = 1,
                     .backward_flops = 2,
                     .forward_bytes = 3,
                     .backward_bytes = 4,
                     .forward = fake_forward,
                     .backward = fake_backward,
                     .free = fake_op_free};
    snprintf(own->base.name, sizeof own->base.name, "%s", first->name);
    f->ops[f->op_count++] = own;
    f->op_alive++;
    *out = &own->base;
    return 0;
}

static inline int fake_loss(loss_result *out, backend *b, const loss_memory *m, ckpt_error *err)
{
    fake_backend *const f = (fake_backend *)b;
    const op *const last = &f->ops[f->op_count - 1]->base;
    const size_t bytes = value_bytes(&last->out);

    f->loss = *m;
    fake_fill(m->logits_grad, bytes, fake_byte(FAKE_GRAD, f->op_count));
    if (!f->bad)
        fake_check(m->logits, bytes, fake_byte(FAKE_VALUE, f->op_count));
    *out = (loss_result){.sum = f->bad ? (double)NAN : 1.5, .correct = 1};
    return fake_called(f, "", "loss", err);
}

static inline int fake_read(backend *b, void *host, const void *device, size_t bytes, ckpt_error *err)
{
    (void)b;
    (void)err;
    memcpy(host, device, bytes);
    return 0;
}

static inline int fake_wait(backend *b, ckpt_error *err)
{
    (void)err;
    ((fake_backend *)b)->waits++;
    return 0;
}

static inline fake_backend fake_backend_make(void)
{
    return (fake_backend){
        .base = {.name = "fake", .op_new = fake_op_new, .loss = fake_loss, .read = fake_read, .wait = fake_wait}};
}

/* A plan with memory of its own. */
typedef struct fake_plan {
    net *net;
    plan *plan;
    void *arena;
    float *weights, *grads;
} fake_plan;

/* The last number of the layers is that of the classes. */
static inline fake_plan fake_plan_make(fake_backend *f, const char *layers, dims input, size_t batch, plan_mode mode)
{
    fake_plan made = {0};
    const char *number = layers + strlen(layers);
    while (number > layers && (isdigit((unsigned char)number[-1]) || !isdigit((unsigned char)*number)))
        number--;
    assert_int_equal(net_parse(&made.net, layers, input, strtoul(number, NULL, 10), NULL), 0);
    f->op_count = 0;
    assert_int_equal(plan_new(&made.plan, &f->base, made.net, batch, mode, NULL), 0);
    f->calls[0] = 0;
    made.arena = aligned_alloc(BACKEND_ALIGNMENT, plan_bytes(made.plan));
    made.weights = calloc(made.net->weight_count + 1, sizeof *made.weights);
    made.grads = mode == PLAN_TRAIN ? calloc(made.net->weight_count + 1, sizeof *made.grads) : NULL;
    assert_non_null(made.arena);
    assert_non_null(made.weights);
    plan_bind(made.plan, made.arena, made.weights, made.grads);
    return made;
}

static inline int fake_plan_run(loss_result *out, fake_plan *made, const uint8_t *labels, float *probabilities,
                                ckpt_error *err)
{
    const size_t batch = plan_batch_size(made->plan);
    fake_fill(plan_batch(made->plan), batch * dims_count(&made->net->input) * sizeof(float), fake_byte(FAKE_VALUE, 0));
    return plan_run(out, made->plan, labels, batch, probabilities, err);
}

static inline void fake_plan_clear(fake_plan *made)
{
    plan_free(made->plan);
    net_free(made->net);
    free(made->arena);
    free(made->weights);
    free(made->grads);
}

#endif
