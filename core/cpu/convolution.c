/* Convolutions by oneDNN.
 *
 * Each of the three passes (forward, gradient of the input, gradient of the parameters) is one primitive. Values are
 * described to it as they come, and it takes those orders unless it has only plain loops for them; weights are left to
 * it. What it wants in another order than we have it in is reordered on the way in or out, in scratch memory:
 *
 *     scratch := reordered{} scratchpad            the scratchpad serves one primitive after the other */
#include "convolution.h"

#include "onednn_api.h"

#include "team.h"

#include "fail.h"

#include <assert.h>
#include <stdlib.h>

/* What a pass calls its roles; 0: it has nothing to do with it. */
typedef struct pass_words {
    int argument[CONV_ROLES];
    bool written[CONV_ROLES];
} pass_words;

static const pass_words WORDS_FORWARD = {{[CONV_IN] = DNNL_ARG_SRC,
                                          [CONV_WEIGHT] = DNNL_ARG_WEIGHTS,
                                          [CONV_BIAS] = DNNL_ARG_BIAS,
                                          [CONV_OUT] = DNNL_ARG_DST},
                                         {[CONV_OUT] = true}};
static const pass_words WORDS_IN_GRAD = {
    {[CONV_IN] = DNNL_ARG_DIFF_SRC, [CONV_WEIGHT] = DNNL_ARG_WEIGHTS, [CONV_OUT] = DNNL_ARG_DIFF_DST},
    {[CONV_IN] = true}};
static const pass_words WORDS_PARAM_GRAD = {{[CONV_IN] = DNNL_ARG_SRC,
                                             [CONV_WEIGHT] = DNNL_ARG_DIFF_WEIGHTS,
                                             [CONV_BIAS] = DNNL_ARG_DIFF_BIAS,
                                             [CONV_OUT] = DNNL_ARG_DIFF_DST},
                                            {[CONV_WEIGHT] = true, [CONV_BIAS] = true}};

static const pass_words *words_of(conv_pass pass)
{
    return pass == CONV_IN_GRAD ? &WORDS_IN_GRAD : pass == CONV_PARAM_GRAD ? &WORDS_PARAM_GRAD : &WORDS_FORWARD;
}

typedef struct conv_step {
    const pass_words *words;
    primitive compute;
    primitive reorders[CONV_ROLES]; /* none where the orders agree */
    size_t offsets[CONV_ROLES];     /* into scratch, of what is reordered */
    size_t scratchpad_offset, scratch_bytes;
    bool slow; /* done in plain loops, or with values reordered */
} conv_step;

struct convolution {
    onednn *o;
    conv_step forward, in_grad, param_grad;
    size_t out_block;
};

static void conv_desc_clear(conv_desc *d)
{
    for (int role = 0; role < CONV_ROLES; role++)
        desc_clear(&d->of[role]);
}

static void conv_step_clear(conv_step *s)
{
    primitive_clear(&s->compute);
    for (int role = 0; role < CONV_ROLES; role++)
        primitive_clear(&s->reorders[role]);
}

/* ---- Orders of values -------------------------------------------------------------------------------------------- */

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

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

/* A convolution with its values in these blocks; 0: oneDNN may choose, as it does with the weights unless they are to
 * be `plain`. */
typedef struct conv_plan {
    const layer *layer;
    size_t batch, in_block, out_block;
    bool plain;
} conv_plan;

static dnnl_status_t value_desc_or_any(dnnl_memory_desc_t *desc, const dnnl_dims_t sizes, size_t block)
{
    return block ? value_desc(desc, sizes, block) : desc_new(desc, 4, sizes, dnnl_format_tag_any);
}

/* Also when it fails `out` is to be cleared. */
static int conv_desc_new(conv_desc *out, const conv_plan *p, ckpt_error *err)
{
    int rc = 0;
    const layer *const l = p->layer;
    const dnnl_dim_t n = (dnnl_dim_t)p->batch, ic = (dnnl_dim_t)l->in.channels, oc = (dnnl_dim_t)l->out.channels;
    const dnnl_dims_t in = {n, ic, (dnnl_dim_t)l->in.height, (dnnl_dim_t)l->in.width};
    const dnnl_dims_t weight = {oc, ic, (dnnl_dim_t)l->kernel_height, (dnnl_dim_t)l->kernel_width};
    const dnnl_dims_t bias = {oc}, to = {n, oc, (dnnl_dim_t)l->out.height, (dnnl_dim_t)l->out.width};

    *out = (conv_desc){.strides = {(dnnl_dim_t)l->stride, (dnnl_dim_t)l->stride},
                       .padding = {(dnnl_dim_t)l->padding, (dnnl_dim_t)l->padding}};
    TRY(onednn_check(value_desc_or_any(&out->of[CONV_IN], in, p->in_block), "input", err));
    TRY(onednn_check(desc_new(&out->of[CONV_WEIGHT], 4, weight, p->plain ? dnnl_oihw : dnnl_format_tag_any), "weight",
                     err));
    TRY(onednn_check(desc_new(&out->of[CONV_BIAS], 1, bias, dnnl_x), "bias", err));
    TRY(onednn_check(value_desc_or_any(&out->of[CONV_OUT], to, p->out_block), "output", err));
out:
    return rc;
}

static void pd_clear(dnnl_primitive_desc_t *pd)
{
    if (*pd)
        dnnl_primitive_desc_destroy(*pd);
    *pd = NULL;
}

static int pd_new(dnnl_primitive_desc_t *pd, const onednn *o, conv_pass pass, const conv_plan *p,
                  const_dnnl_primitive_desc_t forward, ckpt_error *err)
{
    int rc = 0;
    conv_desc desc = {0};

    TRY(conv_desc_new(&desc, p, err));
    TRY(onednn_check(conv_primitive_desc(pd, o, pass, &desc, forward), "convolution", err));
out:
    conv_desc_clear(&desc);
    return rc;
}

/* Plain loops serve every order, a hundred times slower. */
static bool pd_is_slow(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           strncmp(name, "ref", strlen("ref")) == 0;
}

/* With the values as they are, or where that is slow in whatever order is not. */
static int pd_choose(dnnl_primitive_desc_t *pd, const onednn *o, conv_pass pass, const conv_plan *p,
                     const_dnnl_primitive_desc_t forward, ckpt_error *err)
{
    int rc = 0;
    conv_plan any = *p;
    dnnl_primitive_desc_t other = NULL;

    TRY(pd_new(pd, o, pass, p, forward, err));
    if (!pd_is_slow(*pd))
        goto out;
    any.in_block = any.out_block = 0;
    TRY(pd_new(&other, o, pass, &any, forward, err));
    if (!pd_is_slow(other)) {
        pd_clear(pd);
        *pd = other;
        other = NULL;
    }
out:
    pd_clear(&other);
    return rc;
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */

static size_t round_up(size_t bytes)
{
    return (bytes + BACKEND_ALIGNMENT - 1) / BACKEND_ALIGNMENT * BACKEND_ALIGNMENT;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The reorder of one role between `outer`, as we have it, and what `pd` wants. */
static int conv_step_reorder(conv_step *s, const onednn *o, const_dnnl_primitive_desc_t pd, int role, desc_ref outer,
                             ckpt_error *err)
{
    int rc = 0;
    const desc_ref inner = argument_desc(pd, s->words->argument[role]);
    const bool written = s->words->written[role];

    TRY(primitive_new_reorder(&s->reorders[role], o, written ? outer : inner, written ? inner : outer, err));
    if (s->reorders[role].handle) {
        s->offsets[role] = s->scratchpad_offset;
        s->scratchpad_offset += round_up(dnnl_memory_desc_get_size(inner));
    }
out:
    return rc;
}

static int conv_step_new(conv_step *s, const onednn *o, conv_pass pass, const_dnnl_primitive_desc_t pd,
                         const conv_plan *p, ckpt_error *err)
{
    int rc = 0, arguments[CONV_ROLES], count = 0;
    size_t scratchpad_bytes;
    conv_desc outer = {0};
    conv_plan plain = *p;

    s->words = words_of(pass);
    plain.plain = true;
    TRY(conv_desc_new(&outer, &plain, err));
    for (int role = 0; role < CONV_ROLES; role++)
        if (s->words->argument[role]) {
            arguments[count++] = s->words->argument[role];
            TRY(conv_step_reorder(s, o, pd, role, REF(outer.of[role]), err));
        }
    TRY(primitive_new(&s->compute, o, pd, arguments, count, err));
    scratchpad_bytes = s->compute.scratch_bytes;
    for (int role = 0; role < CONV_ROLES; role++)
        scratchpad_bytes = larger(scratchpad_bytes, s->reorders[role].scratch_bytes);
    s->scratch_bytes = s->scratchpad_offset + round_up(scratchpad_bytes);
    s->slow = pd_is_slow(pd) || s->reorders[CONV_IN].handle || s->reorders[CONV_OUT].handle;
out:
    conv_desc_clear(&outer);
    return rc;
}

static int gradient_new(conv_step *s, const onednn *o, conv_pass pass, const conv_plan *p,
                        const_dnnl_primitive_desc_t forward, ckpt_error *err)
{
    int rc = 0;
    dnnl_primitive_desc_t pd = NULL;

    TRY(pd_choose(&pd, o, pass, p, forward, err));
    TRY(conv_step_new(s, o, pass, pd, p, err));
out:
    pd_clear(&pd);
    return rc;
}

/* The block of the output is what forward likes best, of those that values may have. */
static int forward_new(convolution *c, dnnl_primitive_desc_t *pd, conv_pass pass, conv_plan *p, ckpt_error *err)
{
    int rc = 0;
    const dims *const out = &p->layer->out;
    const dnnl_dims_t sizes = {(dnnl_dim_t)p->batch, (dnnl_dim_t)out->channels, (dnnl_dim_t)out->height,
                               (dnnl_dim_t)out->width};

    TRY(pd_choose(pd, c->o, pass, p, NULL, err));
    c->out_block = desc_block(argument_desc(*pd, DNNL_ARG_DST), sizes);
    if (!c->out_block)
        c->out_block = 1;
    p->out_block = c->out_block;
    TRY(conv_step_new(&c->forward, c->o, pass, *pd, p, err));
out:
    return rc;
}

int convolution_new(convolution **out, onednn *o, const convolution_request *request, ckpt_error *err)
{
    int rc = 0;
    dnnl_primitive_desc_t forward = NULL;
    conv_plan plan = {request->layer, request->batch, request->in_block, 0, false};
    const team_settings before = team_enter(o->threads);
    convolution *const c = calloc(1, sizeof *c);

    FAIL_IF_NULL(c, err);
    c->o = o;
    TRY(forward_new(c, &forward, request->training ? CONV_FORWARD : CONV_INFERENCE, &plan, err));
    if (request->training)
        TRY(gradient_new(&c->param_grad, o, CONV_PARAM_GRAD, &plan, forward, err));
    if (request->training && request->wants_in_grad)
        TRY(gradient_new(&c->in_grad, o, CONV_IN_GRAD, &plan, forward, err));
    *out = c;
out:
    pd_clear(&forward);
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
    return c->forward.scratch_bytes;
}

size_t convolution_in_grad_scratch_bytes(const convolution *c)
{
    return c->in_grad.scratch_bytes;
}

size_t convolution_param_grad_scratch_bytes(const convolution *c)
{
    return c->param_grad.scratch_bytes;
}

bool convolution_param_grad_is_slow(const convolution *c)
{
    return c->param_grad.slow;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* There may be no scratch memory at all, to which nothing is added. */
static void *scratch_at(void *scratch, size_t offset)
{
    return offset ? (char *)scratch + offset : scratch;
}

/* outer: of the roles, as we have them. */
static int conv_step_run(conv_step *s, const onednn *o, const void *const outer[CONV_ROLES], void *scratch,
                         ckpt_error *err)
{
    int rc = 0, count = 0;
    const void *inner[CONV_ROLES], *arguments[CONV_ROLES];
    void *const scratchpad = scratch_at(scratch, s->scratchpad_offset);

    for (int role = 0; role < CONV_ROLES; role++) {
        primitive *const reorder = &s->reorders[role];
        inner[role] = reorder->handle ? scratch_at(scratch, s->offsets[role]) : outer[role];
        if (s->words->argument[role])
            arguments[count++] = inner[role];
        if (reorder->handle && !s->words->written[role])
            TRY(primitive_run(reorder, o, (const void *[]){outer[role], inner[role]}, scratchpad, err));
    }
    TRY(primitive_run(&s->compute, o, arguments, scratchpad, err));
    for (int role = 0; role < CONV_ROLES; role++)
        if (s->reorders[role].handle && s->words->written[role])
            TRY(primitive_run(&s->reorders[role], o, (const void *[]){inner[role], outer[role]}, scratchpad, err));
out:
    return rc;
}

int convolution_forward(convolution *c, const op_memory *m, ckpt_error *err)
{
    const void *const outer[CONV_ROLES] = {m->in[0], m->params[0], m->params[1], m->out};
    return conv_step_run(&c->forward, c->o, outer, m->scratch, err);
}

int convolution_in_grad(convolution *c, const op_memory *m, ckpt_error *err)
{
    const void *const outer[CONV_ROLES] = {m->in_grad[0], m->params[0], NULL, m->out_grad};
    assert(c->in_grad.compute.handle);
    return conv_step_run(&c->in_grad, c->o, outer, m->scratch, err);
}

int convolution_param_grad(convolution *c, const op_memory *m, ckpt_error *err)
{
    const void *const outer[CONV_ROLES] = {m->in[0], m->param_grads[0], m->param_grads[1], m->out_grad};
    return conv_step_run(&c->param_grad, c->o, outer, m->scratch, err);
}
