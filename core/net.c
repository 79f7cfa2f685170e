#include "net_internal.h"

#include "checked.h"
#include "fail.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int net_new(net **out, dims input, size_t layers_max, ckpt_error *err)
{
    int rc = 0;
    net *n = NULL;

    FAIL_IF(input.channels < 1 || input.channels > NET_DIM_MAX || input.height < 1 || input.height > NET_DIM_MAX ||
                input.width < 1 || input.width > NET_DIM_MAX || dims_count(&input) > NET_ELEMENTS_MAX,
            err, CKPT_EUSAGE, "a network cannot take %zux%zux%zu", input.channels, input.height, input.width);
    n = calloc(1, sizeof *n);
    FAIL_IF_NULL(n, err);
    n->input = input;
    n->layers = calloc(layers_max, sizeof *n->layers);
    FAIL_IF_NULL(n->layers, err);
    n->params = calloc(layers_max * NET_PARAMS_MAX, sizeof *n->params);
    FAIL_IF_NULL(n->params, err);
    *out = n;
    n = NULL;
out:
    net_free(n);
    return rc;
}

void net_free(net *n)
{
    if (!n)
        return;
    free(n->layers);
    free(n->params);
    free(n);
}

/* ---- Shapes ----------------------------------------------------------------------------------------------------- */

/* The kind of the layer that gave a value its shape; LAYER_KINDS: it is that of the batch. */
static layer_kind value_shaped_by(const net *n, size_t value)
{
    while (value > 0 && n->layers[value - 1].kind == LAYER_RELU)
        value = n->layers[value - 1].inputs[0];
    return value > 0 ? n->layers[value - 1].kind : LAYER_KINDS;
}

static bool value_is_vector(const net *n, size_t value)
{
    const layer_kind kind = value_shaped_by(n, value);
    return kind == LAYER_FLATTEN || kind == LAYER_DENSE;
}

/* *count is the product of the factors, none of which is 0; false when it is above NET_ELEMENTS_MAX. */
static bool elements_count(size_t *count, const size_t *factors, size_t factor_count)
{
    uint64_t product = 1;

    for (size_t i = 0; i < factor_count; i++)
        if (!checked_mul(&product, product, factors[i]) || product > NET_ELEMENTS_MAX)
            return false;
    *count = (size_t)product;
    return true;
}

static int param_add(net *n, layer *l, const char *what, const size_t *shape, unsigned rank, size_t fan_in,
                     ckpt_error *err)
{
    int rc = 0;
    param *const p = &n->params[n->param_count];

    assert(l->param_count < NET_PARAMS_MAX && rank <= NET_PARAM_RANK_MAX);
    FAIL_IF(!elements_count(&p->count, shape, rank), err, CKPT_EUSAGE, "its %s has more than %zu numbers", what,
            NET_ELEMENTS_MAX);
    snprintf(p->name, sizeof p->name, "%s.%s", l->name, what);
    p->rank = rank;
    for (unsigned i = 0; i < rank; i++)
        p->shape[i] = shape[i];
    p->offset = n->weight_count;
    p->fan_in = fan_in;
    n->weight_count += p->count;
    n->param_count++;
    l->param_count++;
out:
    return rc;
}

/* Height and width that a window gives as it moves over its input; what does not fill a last window is left out. */
static int window_slide(layer *l, ckpt_error *err)
{
    int rc = 0;
    const size_t height = l->in.height + 2 * l->padding, width = l->in.width + 2 * l->padding;

    FAIL_IF(l->padding >= l->kernel_height || l->padding >= l->kernel_width, err, CKPT_EUSAGE,
            "the padding of %zu is not smaller than the window of %zux%zu", l->padding, l->kernel_height,
            l->kernel_width);
    FAIL_IF(l->kernel_height > height || l->kernel_width > width, err, CKPT_EUSAGE,
            "the window of %zux%zu is larger than its %s of %zux%zu", l->kernel_height, l->kernel_width,
            l->padding > 0 ? "padded input" : "input", height, width);
    l->out.height = (height - l->kernel_height) / l->stride + 1;
    l->out.width = (width - l->kernel_width) / l->stride + 1;
out:
    return rc;
}

static int shape_conv(net *n, layer *l, ckpt_error *err)
{
    int rc = 0;
    const size_t weight[] = {l->out.channels, l->in.channels, l->kernel_height, l->kernel_width};
    const size_t fan_in = l->in.channels * l->kernel_height * l->kernel_width;

    FAIL_IF(value_is_vector(n, l->inputs[0]), err, CKPT_EUSAGE, "it needs an image, but gets a vector");
    TRY(window_slide(l, err));
    TRY(param_add(n, l, "weight", weight, 4, fan_in, err));
    TRY(param_add(n, l, "bias", weight, 1, fan_in, err));
out:
    return rc;
}

static int shape_relu(net *n, layer *l, ckpt_error *err)
{
    (void)n;
    (void)err;
    l->out = l->in;
    return 0;
}

static int shape_maxpool(net *n, layer *l, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(value_is_vector(n, l->inputs[0]), err, CKPT_EUSAGE, "it needs an image, but gets a vector");
    TRY(window_slide(l, err));
    l->out.channels = l->in.channels;
out:
    return rc;
}

static int shape_flatten(net *n, layer *l, ckpt_error *err)
{
    (void)n;
    (void)err;
    l->out = (dims){dims_count(&l->in), 1, 1};
    return 0;
}

static int shape_dense(net *n, layer *l, ckpt_error *err)
{
    int rc = 0;
    const size_t features = l->in.channels, weight[] = {l->out.channels, features};
    const layer_kind before = value_shaped_by(n, l->inputs[0]);

    if (before == LAYER_CONV || before == LAYER_MAXPOOL || dims_count(&l->in) != features) {
        rc =
            error_set(err, CKPT_EUSAGE, "it needs a vector, but gets %zux%zux%zu", features, l->in.height, l->in.width);
        error_hint(err, "put `flatten` before it");
        goto out;
    }
    l->out.height = l->out.width = 1;
    TRY(param_add(n, l, "weight", weight, 2, features, err));
    TRY(param_add(n, l, "bias", weight, 1, features, err));
out:
    return rc;
}

/* Each gives a layer with `inputs` and `in` its `out` and parameters. */
static int (*const SHAPES[LAYER_KINDS])(net *n, layer *l, ckpt_error *err) = {
    [LAYER_CONV] = shape_conv,       [LAYER_RELU] = shape_relu,   [LAYER_MAXPOOL] = shape_maxpool,
    [LAYER_FLATTEN] = shape_flatten, [LAYER_DENSE] = shape_dense,
};

/* ---- Growing ---------------------------------------------------------------------------------------------------- */

/* "conv2": the kind, and which of its kind. */
static void layer_name(layer *l, const net *n)
{
    size_t number = 1;

    for (size_t i = 0; i < n->layer_count; i++)
        number += n->layers[i].kind == l->kind;
    snprintf(l->name, sizeof l->name, "%s%zu", layer_kind_name(l->kind), number);
}

int net_add(net *n, const layer *asked, ckpt_error *err)
{
    int rc = 0;
    size_t count;
    layer *const l = &n->layers[n->layer_count];

    *l = *asked;
    layer_name(l, n);
    l->inputs[0] = n->layer_count; /* the value before */
    l->input_count = 1;
    l->in = n->layer_count > 0 ? l[-1].out : n->input;
    l->param_first = n->param_count;
    TRY(SHAPES[l->kind](n, l, err));
    FAIL_IF(!elements_count(&count, (const size_t[]){l->out.channels, l->out.height, l->out.width}, 3), err,
            CKPT_EUSAGE, "it gives %zux%zux%zu, more than %zu numbers for a sample", l->out.channels, l->out.height,
            l->out.width, NET_ELEMENTS_MAX);
    n->layer_count++;
out:
    return rc;
}

int net_finish(net *n, size_t classes, ckpt_error *err)
{
    int rc = 0;
    const layer *const last = &n->layers[n->layer_count - 1];

    assert(n->layer_count > 0);
    if (!value_is_vector(n, n->layer_count)) {
        rc = error_set(err, CKPT_EUSAGE, "the last layer, %s, gives %zux%zux%zu instead of a vector of %zu", last->name,
                       last->out.channels, last->out.height, last->out.width, classes);
        error_hint(err, "put `flatten, dense %zu` behind it", classes);
        goto out;
    }
    FAIL_IF(last->out.channels != classes, err, CKPT_EUSAGE, "the last layer, %s, gives %zu numbers for %zu classes",
            last->name, last->out.channels, classes);
    n->classes = classes;
out:
    return rc;
}
