/* Convolutions by oneDNN. */
#include "onednn_api.h"

#include "team.h"

#include "fail.h"

#include <assert.h>
#include <stdlib.h>

static void conv_desc_clear(conv_desc *d)
{
    desc_clear(&d->in);
    desc_clear(&d->weight);
    desc_clear(&d->bias);
    desc_clear(&d->out);
}

/* One of forward, gradient of the input, gradient of the parameters. */
typedef struct conv_step {
    primitive compute;
    primitive reorder;   /* of the weights before, or of their gradient after; nothing where the orders agree */
    size_t weight_bytes; /* room for them in oneDNN's order; 0 where the orders agree */
} conv_step;

struct convolution {
    onednn *o;
    conv_step forward, in_grad, param_grad;
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

/* What of the scratch memory is for the primitives. */
static void *conv_step_scratchpad(const conv_step *s, void *scratch)
{
    return s->weight_bytes ? (char *)scratch + s->weight_bytes : scratch;
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
    TRY(onednn_check(value_desc(&out->in, d->in, in_block), "input", err));
    TRY(onednn_check(desc_new(&out->weight, 4, d->weight, dnnl_format_tag_any), "weight", err));
    TRY(onednn_check(desc_new(&out->bias, 1, d->bias, dnnl_x), "bias", err));
    TRY(onednn_check(out_block ? value_desc(&out->out, d->out, out_block)
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
    TRY(onednn_check(conv_primitive_desc(pd, o, pass, &desc, NULL), "convolution", err));
    *out_block = desc_block(argument_desc(*pd, DNNL_ARG_DST), d->out);
    if (*out_block)
        goto out;

    /* It likes an order that values cannot have. */
    dnnl_primitive_desc_destroy(*pd);
    *pd = NULL;
    conv_desc_clear(&desc);
    TRY(conv_desc_new(&desc, d, r->layer, r->in_block, 1, err));
    TRY(onednn_check(conv_primitive_desc(pd, o, pass, &desc, NULL), "convolution", err));
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

    TRY(onednn_check(desc_new(&plain, 4, d->weight, dnnl_oihw), "weight", err));
    if (gradient)
        TRY(primitive_new(&s->compute, o, pd, PARAM_GRAD, 4, err));
    else if (pass == CONV_IN_GRAD)
        TRY(primitive_new(&s->compute, o, pd, IN_GRAD, 3, err));
    else
        TRY(primitive_new(&s->compute, o, pd, FORWARD, 4, err));
    TRY(primitive_new_reorder(&s->reorder, o, gradient ? REF(plain) : inner, gradient ? inner : REF(plain), err));
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
    TRY(onednn_check(conv_primitive_desc(&pd, c->o, pass, &desc, forward), "gradient of a convolution", err));
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

/* Runs the reorder of a step, where it has one. */
static int weights_reorder(conv_step *s, const onednn *o, const void *from, void *to, void *scratch, ckpt_error *err)
{
    const void *const addresses[] = {from, to};
    return s->weight_bytes ? primitive_run(&s->reorder, o, addresses, conv_step_scratchpad(s, scratch), err) : 0;
}

static int params_grad_run(convolution *c, const op_memory *m, ckpt_error *err)
{
    int rc = 0;
    conv_step *const s = &c->param_grad;
    void *const inner = s->weight_bytes ? m->scratch : m->param_grads[0];
    const void *const addresses[] = {m->in[0], m->out_grad, inner, m->param_grads[1]};

    TRY(primitive_run(&s->compute, c->o, addresses, conv_step_scratchpad(s, m->scratch), err));
    TRY(weights_reorder(s, c->o, inner, m->param_grads[0], m->scratch, err));
out:
    return rc;
}

static int in_grad_run(convolution *c, const op_memory *m, ckpt_error *err)
{
    int rc = 0;
    conv_step *const s = &c->in_grad;
    const void *const weight = s->weight_bytes ? m->scratch : (const void *)m->params[0];
    const void *const addresses[] = {m->out_grad, weight, m->in_grad[0]};

    TRY(weights_reorder(s, c->o, m->params[0], m->scratch, m->scratch, err));
    TRY(primitive_run(&s->compute, c->o, addresses, conv_step_scratchpad(s, m->scratch), err));
out:
    return rc;
}

int convolution_forward(convolution *c, const op_memory *m, ckpt_error *err)
{
    int rc = 0;
    conv_step *const s = &c->forward;
    const void *const weight = s->weight_bytes ? m->scratch : (const void *)m->params[0];
    const void *const addresses[] = {m->in[0], weight, m->params[1], m->out};

    TRY(weights_reorder(s, c->o, m->params[0], m->scratch, m->scratch, err));
    TRY(primitive_run(&s->compute, c->o, addresses, conv_step_scratchpad(s, m->scratch), err));
out:
    return rc;
}

int convolution_backward(convolution *c, const op_memory *m, ckpt_error *err)
{
    int rc = 0;

    assert(!m->in_grad[0] || c->in_grad.compute.handle);
    TRY(params_grad_run(c, m, err));
    if (m->in_grad[0])
        TRY(in_grad_run(c, m, err));
out:
    return rc;
}
