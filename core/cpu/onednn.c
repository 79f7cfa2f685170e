#include "onednn.h"

#include "team.h"

#include "cpu.h"
#include "fail.h"

#include <assert.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 5 /* of one primitive, scratchpad included */

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attributes; /* scratchpads are ours to give */
    unsigned threads;
};

static int check(dnnl_status_t status, const char *what, ckpt_error *err)
{
    if (status == dnnl_success)
        return 0;
    if (status == dnnl_out_of_memory)
        return error_memory(err);
    return error_set(err, status == dnnl_unimplemented ? CKPT_EMISSING : CKPT_EBUG, "oneDNN: %s: status %d", what,
                     (int)status);
}

/* ---- What differs between the versions: descriptions are values in 2 and objects in 3 ---------------------------- */

/* What a convolution is described by. */
typedef struct conv_desc {
    dnnl_memory_desc_t in, weight, bias, out;
    dnnl_dims_t strides, padding;
} conv_desc;

typedef enum conv_pass { CONV_FORWARD, CONV_INFERENCE, CONV_IN_GRAD, CONV_PARAM_GRAD } conv_pass;

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t desc_ref;
#define REF(desc)          (desc)
#define DNNL_ISA_UNLIMITED dnnl_cpu_isa_default

static dnnl_status_t desc_new(dnnl_memory_desc_t *desc, int rank, const dnnl_dims_t sizes, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(desc, rank, sizes, dnnl_f32, tag);
}

static void desc_clear(dnnl_memory_desc_t *desc)
{
    dnnl_memory_desc_destroy(*desc);
    *desc = NULL;
}

static dnnl_status_t conv_primitive_desc(dnnl_primitive_desc_t *pd, const onednn *o, conv_pass pass, const conv_desc *d,
                                         const_dnnl_primitive_desc_t forward)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    const dnnl_dims_t no_dilation = {0};

    if (pass == CONV_IN_GRAD)
        return dnnl_convolution_backward_data_primitive_desc_create(pd, o->engine, direct, d->in, d->weight, d->out,
                                                                    d->strides, no_dilation, d->padding, d->padding,
                                                                    forward, o->attributes);
    if (pass == CONV_PARAM_GRAD)
        return dnnl_convolution_backward_weights_primitive_desc_create(pd, o->engine, direct, d->in, d->weight, d->bias,
                                                                       d->out, d->strides, no_dilation, d->padding,
                                                                       d->padding, forward, o->attributes);
    return dnnl_convolution_forward_primitive_desc_create(
        pd, o->engine, pass == CONV_FORWARD ? dnnl_forward_training : dnnl_forward_inference, direct, d->in, d->weight,
        d->bias, d->out, d->strides, no_dilation, d->padding, d->padding, o->attributes);
}

#else

typedef const dnnl_memory_desc_t *desc_ref;
#define REF(desc)          (&(desc))
#define DNNL_ISA_UNLIMITED dnnl_cpu_isa_all

static dnnl_status_t desc_new(dnnl_memory_desc_t *desc, int rank, const dnnl_dims_t sizes, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(desc, rank, sizes, dnnl_f32, tag);
}

static void desc_clear(dnnl_memory_desc_t *desc)
{
    memset(desc, 0, sizeof *desc);
}

static dnnl_status_t conv_primitive_desc(dnnl_primitive_desc_t *pd, const onednn *o, conv_pass pass, const conv_desc *d,
                                         const_dnnl_primitive_desc_t forward)
{
    dnnl_convolution_desc_t desc;
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_status_t status;

    if (pass == CONV_IN_GRAD)
        status = dnnl_convolution_backward_data_desc_init(&desc, direct, &d->in, &d->weight, &d->out, d->strides,
                                                          d->padding, d->padding);
    else if (pass == CONV_PARAM_GRAD)
        status = dnnl_convolution_backward_weights_desc_init(&desc, direct, &d->in, &d->weight, &d->bias, &d->out,
                                                             d->strides, d->padding, d->padding);
    else
        status = dnnl_convolution_forward_desc_init(
            &desc, pass == CONV_FORWARD ? dnnl_forward_training : dnnl_forward_inference, direct, &d->in, &d->weight,
            &d->bias, &d->out, d->strides, d->padding, d->padding);
    return status == dnnl_success ? dnnl_primitive_desc_create(pd, &desc, o->attributes, o->engine, forward) : status;
}

#endif

static void conv_desc_clear(conv_desc *d)
{
    desc_clear(&d->in);
    desc_clear(&d->weight);
    desc_clear(&d->bias);
    desc_clear(&d->out);
}

/* ---- Instruction sets -------------------------------------------------------------------------------------------- */

static const struct isa_word {
    const char *name;
    dnnl_cpu_isa_t isa;
} ISA_WORDS[] = {
    {"sse41", dnnl_cpu_isa_sse41},
    {"avx", dnnl_cpu_isa_avx},
    {"avx2", dnnl_cpu_isa_avx2},
    {"avx2_vnni", dnnl_cpu_isa_avx2_vnni},
    {"avx512_core", dnnl_cpu_isa_avx512_core},
    {"avx512_core_vnni", dnnl_cpu_isa_avx512_core_vnni},
    {"avx512_core_bf16", dnnl_cpu_isa_avx512_core_bf16},
    {"avx512_core_amx", dnnl_cpu_isa_avx512_core_amx},
#if DNNL_VERSION_MAJOR >= 3
    {"avx2_vnni_2", dnnl_cpu_isa_avx2_vnni_2},
    {"avx512_core_fp16", dnnl_cpu_isa_avx512_core_fp16},
    {"avx512_core_amx_fp16", dnnl_cpu_isa_avx512_core_amx_fp16},
#endif
};
#define ISA_WORD_COUNT (sizeof ISA_WORDS / sizeof ISA_WORDS[0])
#define ISA_EVERY      (~0u)

void onednn_isa(char out[BACKEND_TEXT_SIZE])
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();

    out[0] = '\0';
    if (isa == DNNL_ISA_UNLIMITED)
        return;                                                /* no x86 */
    snprintf(out, BACKEND_TEXT_SIZE, "isa_%x", (unsigned)isa); /* newer than this list */
    for (size_t i = 0; i < ISA_WORD_COUNT; i++)
        if (ISA_WORDS[i].isa == isa)
            snprintf(out, BACKEND_TEXT_SIZE, "%s", ISA_WORDS[i].name);
}

void onednn_version(char out[BACKEND_TEXT_SIZE])
{
    const dnnl_version_t *const v = dnnl_version();

    snprintf(out, BACKEND_TEXT_SIZE, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

/* What CKPT_CPU allows; what the machine lacks oneDNN finds out for itself. */
static unsigned isa_allowed(void)
{
#if defined(__x86_64__)
    if (!cpu_has(CPU_AVX2))
        return dnnl_cpu_isa_sse41;
    if (!cpu_has(CPU_AVX512))
        return dnnl_cpu_isa_avx2;
    if (!cpu_has(CPU_AVX512_BF16))
        return dnnl_cpu_isa_avx512_core_vnni;
#endif
    return ISA_EVERY;
}

static int isa_limit(const char *name, ckpt_error *err)
{
    int rc = 0;
    unsigned limit = isa_allowed(); /* a set is the bits of those that it includes */

    if (name && name[0]) {
        size_t i = 0;
        while (i < ISA_WORD_COUNT && strcmp(ISA_WORDS[i].name, name) != 0)
            i++;
        FAIL_IF(i == ISA_WORD_COUNT, err, CKPT_EMISSING, "instruction set '%s' is not known here", name);
        limit &= (unsigned)ISA_WORDS[i].isa;
    }
    /* Refused once the process has used oneDNN: onednn_isa tells what is in use. */
    if (limit != ISA_EVERY)
        dnnl_set_max_cpu_isa((dnnl_cpu_isa_t)limit);
out:
    return rc;
}

int onednn_new(onednn **out, unsigned threads, const char *isa, ckpt_error *err)
{
    int rc = 0;
    onednn *const o = calloc(1, sizeof *o);

    FAIL_IF_NULL(o, err);
    o->threads = threads;
    TRY(isa_limit(isa, err));
    TRY(check(dnnl_engine_create(&o->engine, dnnl_cpu, 0), "engine", err));
    TRY(check(dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags), "stream", err));
    TRY(check(dnnl_primitive_attr_create(&o->attributes), "attributes", err));
    TRY(check(dnnl_primitive_attr_set_scratchpad_mode(o->attributes, dnnl_scratchpad_mode_user), "attributes", err));
    *out = o;
out:
    if (rc)
        onednn_free(o);
    return rc;
}

void onednn_free(onednn *o)
{
    if (!o)
        return;
    if (o->attributes)
        dnnl_primitive_attr_destroy(o->attributes);
    if (o->stream)
        dnnl_stream_destroy(o->stream);
    if (o->engine)
        dnnl_engine_destroy(o->engine);
    free(o);
}

int onednn_multiply(onednn *o, const matrix_product *p, ckpt_error *err)
{
    const dnnl_dim_t rows = (dnnl_dim_t)p->rows, columns = (dnnl_dim_t)p->columns, inner = (dnnl_dim_t)p->inner;
    const team_settings before = team_enter(o->threads);
    const dnnl_status_t status =
        dnnl_sgemm(p->a_transposed ? 'T' : 'N', p->b_transposed ? 'T' : 'N', rows, columns, inner, 1, p->a,
                   p->a_transposed ? rows : inner, p->b, p->b_transposed ? inner : columns, 0, p->c, columns);

    team_leave(before);
    return check(status, "matrix product", err);
}

/* ---- Primitives, each with its arguments ------------------------------------------------------------------------- */

typedef struct primitive {
    dnnl_primitive_t handle;
    dnnl_exec_arg_t arguments[ARGUMENTS_MAX];
    int argument_count;
    size_t scratch_bytes;
} primitive;

static void primitive_clear(primitive *p)
{
    for (int i = 0; i < p->argument_count; i++)
        dnnl_memory_destroy(p->arguments[i].memory);
    if (p->handle)
        dnnl_primitive_destroy(p->handle);
    *p = (primitive){0};
}

static desc_ref argument_desc(const_dnnl_primitive_desc_t pd, int argument)
{
    return dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, argument);
}

/* `arguments` are `count` words DNNL_ARG_...; the scratchpad is put behind them. */
static int primitive_new(primitive *p, const onednn *o, const_dnnl_primitive_desc_t pd, const int *arguments, int count,
                         ckpt_error *err)
{
    int rc = 0;

    assert(count < ARGUMENTS_MAX);
    TRY(check(dnnl_primitive_create(&p->handle, pd), "primitive", err));
    for (int i = 0; i <= count; i++) {
        dnnl_exec_arg_t *const a = &p->arguments[i];
        a->arg = i < count ? arguments[i] : DNNL_ARG_SCRATCHPAD;
        TRY(check(dnnl_memory_create(&a->memory, argument_desc(pd, a->arg), o->engine, DNNL_MEMORY_NONE), "memory",
                  err));
        p->argument_count++;
    }
    p->scratch_bytes = dnnl_memory_desc_get_size(argument_desc(pd, DNNL_ARG_SCRATCHPAD));
out:
    return rc; /* the caller clears */
}

/* addresses: of the arguments in their order. oneDNN takes pointers to what it only reads without const. */
static int primitive_run(primitive *p, const onednn *o, const void *const *addresses, void *scratch, ckpt_error *err)
{
    int rc = 0;
    const team_settings before = team_enter(o->threads);

    for (int i = 0; i < p->argument_count; i++) {
        union {
            const void *given;
            void *taken;
        } address = {.given = i + 1 < p->argument_count ? addresses[i] : scratch};
        TRY(check(dnnl_memory_set_data_handle(p->arguments[i].memory, address.taken), "memory", err));
    }
    TRY(check(dnnl_primitive_execute(p->handle, o->stream, p->argument_count, p->arguments), "execute", err));
    TRY(check(dnnl_stream_wait(o->stream), "wait", err));
out:
    team_leave(before);
    return rc;
}

/* A change of order, or nothing where the orders are the same. */
static int reorder_new(primitive *p, const onednn *o, desc_ref to, desc_ref from, ckpt_error *err)
{
    int rc = 0;
    dnnl_primitive_desc_t pd = NULL;
    static const int ARGUMENTS[] = {DNNL_ARG_FROM, DNNL_ARG_TO};

    if (dnnl_memory_desc_equal(to, from))
        return 0;
    TRY(check(dnnl_reorder_primitive_desc_create(&pd, from, o->engine, to, o->engine, o->attributes), "reorder", err));
    TRY(primitive_new(p, o, pd, ARGUMENTS, 2, err));
out:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

/* ---- Convolution ------------------------------------------------------------------------------------------------- */

/* One of forward, gradient of the input, gradient of the parameters. */
typedef struct conv_step {
    primitive compute;
    primitive reorder;   /* of the weights before, or of their gradient after; nothing where the orders agree */
    size_t weight_bytes; /* room for them in oneDNN's order; 0 where the orders agree */
} conv_step;

struct convolution {
    onednn *o;
    conv_step forward, in_grad, param_grad;
    bool wants_in_grad;
    size_t out_block;
};

static size_t round_up(size_t bytes)
{
    return (bytes + BACKEND_ALIGNMENT - 1) / BACKEND_ALIGNMENT * BACKEND_ALIGNMENT;
}

/* weights, then the scratchpad that the primitives of a step take one after the other */
static size_t conv_step_scratch_bytes(const conv_step *s)
{
    const size_t a = s->compute.scratch_bytes, b = s->reorder.scratch_bytes;
    return s->weight_bytes + round_up(a > b ? a : b);
}

static void conv_step_clear(conv_step *s)
{
    primitive_clear(&s->compute);
    primitive_clear(&s->reorder);
}

/* Tags of the blocks in which values may lie, best first; the last is block = channels. */
static const struct block_tag {
    size_t block;
    dnnl_format_tag_t tag;
} BLOCK_TAGS[] = {{1, dnnl_nchw}, {16, dnnl_nChw16c}, {8, dnnl_nChw8c}, {4, dnnl_nChw4c}, {0, dnnl_nhwc}};
#define BLOCK_TAG_COUNT (sizeof BLOCK_TAGS / sizeof BLOCK_TAGS[0])

static size_t block_of(size_t i, size_t channels)
{
    return BLOCK_TAGS[i].block ? BLOCK_TAGS[i].block : channels;
}

static dnnl_status_t value_desc(dnnl_memory_desc_t *desc, const dnnl_dims_t sizes, size_t block)
{
    size_t i = 0;
    while (i + 1 < BLOCK_TAG_COUNT && BLOCK_TAGS[i].block != block)
        i++;
    assert(block_of(i, (size_t)sizes[1]) == block);
    return desc_new(desc, 4, sizes, BLOCK_TAGS[i].tag);
}

/* In which block is the value of this description? 0: in none that values may have. */
static size_t desc_block(desc_ref desc, const dnnl_dims_t sizes)
{
    size_t block = 0;

    for (size_t i = 0; i < BLOCK_TAG_COUNT && !block; i++) {
        dnnl_memory_desc_t known;
        if (desc_new(&known, 4, sizes, BLOCK_TAGS[i].tag) != dnnl_success)
            continue;
        if (dnnl_memory_desc_equal(desc, REF(known)))
            block = block_of(i, (size_t)sizes[1]);
        desc_clear(&known);
    }
    return block;
}

typedef struct conv_dims {
    dnnl_dims_t in, weight, bias, out;
} conv_dims;

static void conv_dims_set(conv_dims *d, const layer *l, size_t batch)
{
    const dnnl_dim_t n = (dnnl_dim_t)batch, ic = (dnnl_dim_t)l->in.channels, oc = (dnnl_dim_t)l->out.channels;

    *d = (conv_dims){{n, ic, (dnnl_dim_t)l->in.height, (dnnl_dim_t)l->in.width},
                     {oc, ic, (dnnl_dim_t)l->kernel_height, (dnnl_dim_t)l->kernel_width},
                     {oc},
                     {n, oc, (dnnl_dim_t)l->out.height, (dnnl_dim_t)l->out.width}};
}

/* out_block 0: oneDNN may choose. */
static int conv_desc_new(conv_desc *out, const conv_dims *d, const layer *l, size_t in_block, size_t out_block,
                         ckpt_error *err)
{
    int rc = 0;

    *out = (conv_desc){.strides = {(dnnl_dim_t)l->stride, (dnnl_dim_t)l->stride},
                       .padding = {(dnnl_dim_t)l->padding, (dnnl_dim_t)l->padding}};
    TRY(check(value_desc(&out->in, d->in, in_block), "input", err));
    TRY(check(desc_new(&out->weight, 4, d->weight, dnnl_format_tag_any), "weight", err));
    TRY(check(desc_new(&out->bias, 1, d->bias, dnnl_x), "bias", err));
    TRY(check(out_block ? value_desc(&out->out, d->out, out_block)
                        : desc_new(&out->out, 4, d->out, dnnl_format_tag_any),
              "output", err));
out:
    return rc; /* the caller clears */
}

/* The description of the forward pass, with the block of its output. */
static int forward_choose(dnnl_primitive_desc_t *pd, size_t *out_block, const onednn *o, conv_pass pass,
                          const conv_dims *d, const convolution_request *r, ckpt_error *err)
{
    int rc = 0;
    conv_desc desc = {0};

    TRY(conv_desc_new(&desc, d, r->layer, r->in_block, 0, err));
    TRY(check(conv_primitive_desc(pd, o, pass, &desc, NULL), "convolution", err));
    *out_block = desc_block(argument_desc(*pd, DNNL_ARG_DST), d->out);
    if (*out_block)
        goto out;

    /* It likes an order that values cannot have. */
    dnnl_primitive_desc_destroy(*pd);
    *pd = NULL;
    conv_desc_clear(&desc);
    TRY(conv_desc_new(&desc, d, r->layer, r->in_block, 1, err));
    TRY(check(conv_primitive_desc(pd, o, pass, &desc, NULL), "convolution", err));
    *out_block = 1;
out:
    conv_desc_clear(&desc);
    return rc;
}

/* The primitive of `pd` and the reorder between PyTorch's weights and its own. */
static int conv_step_new(conv_step *s, const onednn *o, conv_pass pass, const_dnnl_primitive_desc_t pd,
                         const conv_dims *d, ckpt_error *err)
{
    static const int FORWARD[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST};
    static const int IN_GRAD[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    static const int PARAM_GRAD[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS};
    int rc = 0;
    dnnl_memory_desc_t plain = {0};
    const bool gradient = pass == CONV_PARAM_GRAD;
    const desc_ref inner = argument_desc(pd, gradient ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS);

    TRY(check(desc_new(&plain, 4, d->weight, dnnl_oihw), "weight", err));
    if (gradient)
        TRY(primitive_new(&s->compute, o, pd, PARAM_GRAD, 4, err));
    else if (pass == CONV_IN_GRAD)
        TRY(primitive_new(&s->compute, o, pd, IN_GRAD, 3, err));
    else
        TRY(primitive_new(&s->compute, o, pd, FORWARD, 4, err));
    TRY(reorder_new(&s->reorder, o, gradient ? REF(plain) : inner, gradient ? inner : REF(plain), err));
    s->weight_bytes = s->reorder.handle ? round_up(dnnl_memory_desc_get_size(inner)) : 0;
out:
    desc_clear(&plain);
    return rc;
}

/* A gradient, with the values in the order of the forward pass and the weights as oneDNN likes them here. */
static int gradient_new(conv_step *s, const convolution *c, conv_pass pass, const conv_dims *d,
                        const convolution_request *r, const_dnnl_primitive_desc_t forward, ckpt_error *err)
{
    int rc = 0;
    conv_desc desc = {0};
    dnnl_primitive_desc_t pd = NULL;

    TRY(conv_desc_new(&desc, d, r->layer, r->in_block, c->out_block, err));
    TRY(check(conv_primitive_desc(&pd, c->o, pass, &desc, forward), "gradient of a convolution", err));
    TRY(conv_step_new(s, c->o, pass, pd, d, err));
out:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    conv_desc_clear(&desc);
    return rc;
}

int convolution_new(convolution **out, onednn *o, const convolution_request *request, ckpt_error *err)
{
    int rc = 0;
    dnnl_primitive_desc_t pd = NULL;
    conv_dims d;
    const conv_pass pass = request->training ? CONV_FORWARD : CONV_INFERENCE;
    const team_settings before = team_enter(o->threads);
    convolution *const c = calloc(1, sizeof *c);

    FAIL_IF_NULL(c, err);
    c->o = o;
    c->wants_in_grad = request->wants_in_grad;
    conv_dims_set(&d, request->layer, request->batch);
    TRY(forward_choose(&pd, &c->out_block, o, pass, &d, request, err));
    TRY(conv_step_new(&c->forward, o, pass, pd, &d, err));
    if (request->training) {
        TRY(gradient_new(&c->param_grad, c, CONV_PARAM_GRAD, &d, request, pd, err));
        if (request->wants_in_grad)
            TRY(gradient_new(&c->in_grad, c, CONV_IN_GRAD, &d, request, pd, err));
    }
    *out = c;
out:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (rc)
        convolution_free(c);
    team_leave(before);
    return rc;
}

void convolution_free(convolution *c)
{
    if (!c)
        return;
    conv_step_clear(&c->forward);
    conv_step_clear(&c->in_grad);
    conv_step_clear(&c->param_grad);
    free(c);
}

size_t convolution_out_block(const convolution *c)
{
    return c->out_block;
}

size_t convolution_forward_scratch_bytes(const convolution *c)
{
    return conv_step_scratch_bytes(&c->forward);
}

size_t convolution_backward_scratch_bytes(const convolution *c)
{
    const size_t a = conv_step_scratch_bytes(&c->param_grad), b = conv_step_scratch_bytes(&c->in_grad);
    return a > b ? a : b;
}

/* *inner: the weights in the order that the step wants. */
static int weights_enter(const void **inner, conv_step *s, const onednn *o, const float *weight, void *scratch,
                         ckpt_error *err)
{
    *inner = weight;
    if (!s->weight_bytes)
        return 0;
    *inner = scratch;
    return primitive_run(&s->reorder, o, (const void *[]){weight, scratch}, (char *)scratch + s->weight_bytes, err);
}

int convolution_forward(convolution *c, const op_memory *m, ckpt_error *err)
{
    int rc = 0;
    conv_step *const s = &c->forward;
    const void *weight;

    TRY(weights_enter(&weight, s, c->o, m->params[0], m->scratch, err));
    TRY(primitive_run(&s->compute, c->o, (const void *[]){m->in[0], weight, m->params[1], m->out},
                      (char *)m->scratch + s->weight_bytes, err));
out:
    return rc;
}

int convolution_backward(convolution *c, const op_memory *m, ckpt_error *err)
{
    int rc = 0;
    const void *weight;
    char *const scratch = m->scratch;
    conv_step *s = &c->param_grad;
    void *const inner = s->weight_bytes ? m->scratch : m->param_grads[0];

    TRY(primitive_run(&s->compute, c->o, (const void *[]){m->in[0], m->out_grad, inner, m->param_grads[1]},
                      scratch + s->weight_bytes, err));
    if (s->weight_bytes)
        TRY(primitive_run(&s->reorder, c->o, (const void *[]){inner, m->param_grads[0]}, scratch + s->weight_bytes,
                          err));
    if (!m->in_grad[0])
        goto out;
    assert(c->wants_in_grad);
    s = &c->in_grad;
    TRY(weights_enter(&weight, s, c->o, m->params[0], m->scratch, err));
    TRY(primitive_run(&s->compute, c->o, (const void *[]){m->out_grad, weight, m->in_grad[0]},
                      scratch + s->weight_bytes, err));
out:
    return rc;
}
