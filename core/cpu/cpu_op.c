/* Operations of the backend `cpu`: which layers are done in one go, and what all operations have in common. */
#include "cpu_backend.h"

#include "fail.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*cpu_make_fn)(cpu_op *o, const op_request *request, ckpt_error *err);

static const cpu_make_fn MAKE[LAYER_KINDS] = {
    [LAYER_CONV] = cpu_conv_make,       [LAYER_RELU] = cpu_relu_make,   [LAYER_MAXPOOL] = cpu_maxpool_make,
    [LAYER_FLATTEN] = cpu_flatten_make, [LAYER_DENSE] = cpu_dense_make,
};

float cpu_op_floor(const cpu_op *o)
{
    return o->relu ? 0.0f : NAN;
}

void cpu_run(const cpu_backend *b, team_fn pass, void *job, size_t units, size_t grain)
{
    team_run(b->base.threads, pass, job, units, grain);
}

/* Is a layer of kind `a` done together with one of kind `b` behind it? */
static bool kinds_go_together(layer_kind a, layer_kind b)
{
    if (a == LAYER_RELU)
        return b == LAYER_MAXPOOL || b == LAYER_FLATTEN;
    return a == LAYER_DENSE && b == LAYER_RELU;
}

static size_t layers_in_one_go(const op_request *request)
{
    const layer *const l = &request->net->layers[request->layer];

    return request->layers_max >= 2 && kinds_go_together(l[0].kind, l[1].kind) ? 2 : 1;
}

static void op_free(op *base)
{
    cpu_op *const o = (cpu_op *)base;
    convolution_free(o->convolution);
    free(o);
}

int cpu_op_new(op **out, backend *b, const op_request *request, ckpt_error *err)
{
    int rc = 0;
    const layer *const first = &request->net->layers[request->layer];
    const size_t layer_count = layers_in_one_go(request);
    const layer *const last = first + layer_count - 1;
    cpu_op *const o = calloc(1, sizeof *o);

    assert(request->layer < request->net->layer_count && request->layers_max >= 1);
    assert(request->in[0].dtype == CKPT_F32);
    *out = NULL;
    FAIL_IF_NULL(o, err);
    o->backend = (cpu_backend *)b;
    o->in = request->in[0];
    o->relu = layer_count == 2;
    o->layer = first->kind == LAYER_RELU ? *last : *first;
    o->base.layer_count = layer_count;
    o->base.out = (value){request->in[0].batch, last->out, 1, CKPT_F32};
    o->base.free = op_free;
    snprintf(o->base.name, sizeof o->base.name, "%s%s%s", first->name, layer_count == 2 ? "+" : "",
             layer_count == 2 ? last->name : "");
    TRY(MAKE[o->layer.kind](o, request, err));
    op_count_bytes(&o->base, request);
    *out = &o->base;
out:
    if (rc && o)
        op_free(&o->base);
    return rc;
}
