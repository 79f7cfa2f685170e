/* What of oneDNN's own interface our files on it share, and the one place that includes it. Its versions 2 and 3 differ
 * in kind: descriptions of memory are values in one and objects in the other, and primitives are described in two calls
 * or in one. Nothing outside this file depends on the version but the list of instruction sets in onednn.c. */
#ifndef CORE_ONEDNN_API_H
#define CORE_ONEDNN_API_H

#include "onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <string.h>

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attributes; /* scratchpads are ours to give */
    unsigned threads;
};

/* Makes an error of ours of one of theirs; `what` was done. */
int onednn_check(dnnl_status_t status, const char *what, ckpt_error *err);

/* ---- What differs between the versions --------------------------------------------------------------------------- */

/* What a convolution has to do with. Each pass reads some and writes the others, or their gradients. */
typedef enum conv_role { CONV_IN, CONV_WEIGHT, CONV_BIAS, CONV_OUT, CONV_ROLES } conv_role;

typedef struct conv_desc {
    dnnl_memory_desc_t of[CONV_ROLES];
    dnnl_dims_t strides, padding;
} conv_desc;

typedef enum conv_pass { CONV_FORWARD, CONV_INFERENCE, CONV_IN_GRAD, CONV_PARAM_GRAD } conv_pass;

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t desc_ref;
#define REF(desc)          (desc)
#define DNNL_ISA_UNLIMITED dnnl_cpu_isa_default

static inline dnnl_status_t desc_new(dnnl_memory_desc_t *desc, int rank, const dnnl_dims_t sizes, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(desc, rank, sizes, dnnl_f32, tag);
}

static inline void desc_clear(dnnl_memory_desc_t *desc)
{
    dnnl_memory_desc_destroy(*desc);
    *desc = NULL;
}

static inline dnnl_status_t conv_primitive_desc(dnnl_primitive_desc_t *pd, const onednn *o, conv_pass pass,
                                                const conv_desc *d, const_dnnl_primitive_desc_t forward)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    const dnnl_dims_t no_dilation = {0};

    if (pass == CONV_IN_GRAD)
        return dnnl_convolution_backward_data_primitive_desc_create(
            pd, o->engine, direct, d->of[CONV_IN], d->of[CONV_WEIGHT], d->of[CONV_OUT], d->strides, no_dilation,
            d->padding, d->padding, forward, o->attributes);
    if (pass == CONV_PARAM_GRAD)
        return dnnl_convolution_backward_weights_primitive_desc_create(
            pd, o->engine, direct, d->of[CONV_IN], d->of[CONV_WEIGHT], d->of[CONV_BIAS], d->of[CONV_OUT], d->strides,
            no_dilation, d->padding, d->padding, forward, o->attributes);
    return dnnl_convolution_forward_primitive_desc_create(
        pd, o->engine, pass == CONV_FORWARD ? dnnl_forward_training : dnnl_forward_inference, direct, d->of[CONV_IN],
        d->of[CONV_WEIGHT], d->of[CONV_BIAS], d->of[CONV_OUT], d->strides, no_dilation, d->padding, d->padding,
        o->attributes);
}

#else

typedef const dnnl_memory_desc_t *desc_ref;
#define REF(desc)          (&(desc))
#define DNNL_ISA_UNLIMITED dnnl_cpu_isa_all

static inline dnnl_status_t desc_new(dnnl_memory_desc_t *desc, int rank, const dnnl_dims_t sizes, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(desc, rank, sizes, dnnl_f32, tag);
}

static inline void desc_clear(dnnl_memory_desc_t *desc)
{
    memset(desc, 0, sizeof *desc);
}

static inline dnnl_status_t conv_primitive_desc(dnnl_primitive_desc_t *pd, const onednn *o, conv_pass pass,
                                                const conv_desc *d, const_dnnl_primitive_desc_t forward)
{
    dnnl_convolution_desc_t desc;
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_status_t status;

    if (pass == CONV_IN_GRAD)
        status = dnnl_convolution_backward_data_desc_init(&desc, direct, &d->of[CONV_IN], &d->of[CONV_WEIGHT],
                                                          &d->of[CONV_OUT], d->strides, d->padding, d->padding);
    else if (pass == CONV_PARAM_GRAD)
        status = dnnl_convolution_backward_weights_desc_init(&desc, direct, &d->of[CONV_IN], &d->of[CONV_WEIGHT],
                                                             &d->of[CONV_BIAS], &d->of[CONV_OUT], d->strides,
                                                             d->padding, d->padding);
    else
        status = dnnl_convolution_forward_desc_init(
            &desc, pass == CONV_FORWARD ? dnnl_forward_training : dnnl_forward_inference, direct, &d->of[CONV_IN],
            &d->of[CONV_WEIGHT], &d->of[CONV_BIAS], &d->of[CONV_OUT], d->strides, d->padding, d->padding);
    return status == dnnl_success ? dnnl_primitive_desc_create(pd, &desc, o->attributes, o->engine, forward) : status;
}

#endif

/* ---- Primitives, each with its arguments ------------------------------------------------------------------------- */

#define PRIMITIVE_ARGUMENTS_MAX 5 /* scratchpad included */

typedef struct primitive {
    dnnl_primitive_t handle; /* NULL: none */
    dnnl_exec_arg_t arguments[PRIMITIVE_ARGUMENTS_MAX];
    int argument_count;
    size_t scratch_bytes;
} primitive;

/* How argument `argument` (DNNL_ARG_...) lies in memory. */
static inline desc_ref argument_desc(const_dnnl_primitive_desc_t pd, int argument)
{
    return dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, argument);
}

/* `p` is zeroed; `arguments` are `count` words DNNL_ARG_... Also when it fails `p` is to be cleared. */
int primitive_new(primitive *p, const onednn *o, const_dnnl_primitive_desc_t pd, const int *arguments, int count,
                  ckpt_error *err);
/* A change of order; none where the orders are the same. */
int primitive_new_reorder(primitive *p, const onednn *o, desc_ref to, desc_ref from, ckpt_error *err);
/* addresses: of the arguments, in their order. */
int primitive_run(primitive *p, const onednn *o, const void *const *addresses, void *scratch, ckpt_error *err);
void primitive_clear(primitive *p);

#endif
