#include "plan_internal.h"

#include "fail.h"

#include <assert.h>
#include <stdlib.h>

_Static_assert((NET_LAYERS_MAX + 1) * PLACES <= ARENA_BUFFERS_MAX, "the arena places all buffers of a plan");

/* ---- Operations ------------------------------------------------------------------------------------------------- */

/* Parameters of an operation are those of its layers: from *first up to the returned one. */
static size_t node_params(size_t *first, const plan *p, const plan_node *node)
{
    const layer *const last = &p->net->layers[node->layer + node->op->layer_count - 1];

    *first = p->net->layers[node->layer].param_first;
    return last->param_first + last->param_count;
}

/* In a chain every layer reads the one before it and no other does, so that all that are left may be done in one go. */
static int node_make(plan_node *node, const plan *p, size_t first_layer, const value *in, ckpt_error *err)
{
    const bool training = p->mode == PLAN_TRAIN;
    const size_t params_before = p->net->layers[first_layer].param_first;
    const op_request request = {.net = p->net,
                                .layer = first_layer,
                                .layers_max = p->net->layer_count - first_layer,
                                .in = {*in},
                                .training = training,
                                .wants_in_grad = {training && params_before > 0}};
    size_t param_first;

    const int rc = p->backend->op_new(&node->op, p->backend, &request, err);
    if (rc)
        return rc;
    assert(node->op->layer_count >= 1 && node->op->layer_count <= request.layers_max);
    node->layer = first_layer;
    node->has_backward = training && node_params(&param_first, p, node) > 0;
    return 0;
}

static int nodes_make(plan *p, ckpt_error *err)
{
    int rc = 0;

    p->nodes = calloc(p->net->layer_count, sizeof *p->nodes);
    FAIL_IF_NULL(p->nodes, err);
    for (size_t i = 0; i < p->net->layer_count;) {
        plan_node *const node = &p->nodes[p->node_count];
        assert(p->net->layers[i].input_count == 1 && p->net->layers[i].inputs[0] == i);
        TRY(node_make(node, p, i, plan_value(p, p->node_count), err));
        p->node_count++;
        i += node->op->layer_count;
    }
out:
    return rc;
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

const value *plan_value(const plan *p, size_t v)
{
    return v > 0 ? &p->nodes[v - 1].op->out : &p->batch;
}

/* When the value itself is used: from the forward pass of the operation that writes it to that of the one that reads it
 * (for the logits, the loss), and in training up to the backward passes that read it. */
static arena_buffer value_life(const plan *p, size_t v)
{
    const size_t n = p->node_count;
    const plan_node *const writer = v > 0 ? &p->nodes[v - 1] : NULL, *const reader = v < n ? &p->nodes[v] : NULL;
    arena_buffer life = {.bytes = value_bytes(plan_value(p, v)), .first = v > 0 ? v - 1 : 0, .last = v};

    if (v == 0 && p->mode == PLAN_TRAIN)
        life.last = n; /* plan_first_bad begins with it again */
    if (reader && reader->has_backward && reader->op->reads_in)
        life.last = 2 * n - v;
    if (writer && writer->has_backward && writer->op->reads_out)
        life.last = 2 * n - (v - 1);
    return life;
}

static int buffers_place(plan *p, ckpt_error *err)
{
    int rc = 0;
    const size_t n = p->node_count;

    p->buffers = calloc(n + 1, sizeof *p->buffers);
    FAIL_IF_NULL(p->buffers, err);
    p->buffers[0][PLACE_VALUE] = value_life(p, 0);
    for (size_t i = 0; i < n; i++) {
        const op *const o = p->nodes[i].op;
        const bool has_backward = p->nodes[i].has_backward;
        const size_t backward = 2 * n - i;
        arena_buffer *const row = p->buffers[i + 1];

        row[PLACE_VALUE] = value_life(p, i + 1);
        row[PLACE_KEEP] = (arena_buffer){.bytes = o->keep_bytes, .first = i, .last = has_backward ? backward : i};
        row[PLACE_FORWARD_SCRATCH] = (arena_buffer){.bytes = o->forward_scratch_bytes, .first = i, .last = i};
        if (!has_backward)
            continue;
        /* Written by the backward pass of the operation behind, or by the loss. */
        row[PLACE_GRAD] = (arena_buffer){.bytes = value_bytes(&o->out), .first = backward - 1, .last = backward};
        row[PLACE_BACKWARD_SCRATCH] =
            (arena_buffer){.bytes = o->backward_scratch_bytes, .first = backward, .last = backward};
    }
    TRY(arena_place(&p->bytes, p->buffers[0], (n + 1) * PLACES, err));
out:
    return rc;
}

void *plan_memory(const plan *p, size_t v, plan_place place)
{
    const arena_buffer *const b = &p->buffers[v][place];
    return b->bytes > 0 ? p->arena + b->offset : NULL;
}

static void node_bind(plan_node *node, const plan *p, size_t i, const float *weights, float *grads)
{
    size_t first;
    const size_t end = node_params(&first, p, node);

    assert(end - first <= OP_PARAMS_MAX);
    node->forward = (op_memory){.in = {plan_memory(p, i, PLACE_VALUE)},
                                .out = plan_memory(p, i + 1, PLACE_VALUE),
                                .keep = plan_memory(p, i + 1, PLACE_KEEP),
                                .scratch = plan_memory(p, i + 1, PLACE_FORWARD_SCRATCH)};
    node->backward = (op_memory){.in = {node->op->reads_in ? plan_memory(p, i, PLACE_VALUE) : NULL},
                                 .in_grad = {plan_memory(p, i, PLACE_GRAD)},
                                 .out = node->op->reads_out ? plan_memory(p, i + 1, PLACE_VALUE) : NULL,
                                 .out_grad = plan_memory(p, i + 1, PLACE_GRAD),
                                 .keep = plan_memory(p, i + 1, PLACE_KEEP),
                                 .scratch = plan_memory(p, i + 1, PLACE_BACKWARD_SCRATCH)};
    for (size_t k = first; k < end; k++) {
        const size_t offset = p->net->params[k].offset;
        node->forward.params[k - first] = node->backward.params[k - first] = weights + offset;
        node->backward.param_grads[k - first] = grads ? grads + offset : NULL;
    }
}

/* ---- The plan --------------------------------------------------------------------------------------------------- */

int plan_new(plan **out, backend *b, const net *n, size_t batch, plan_mode mode, ckpt_error *err)
{
    int rc = 0;
    plan *p = calloc(1, sizeof *p);

    FAIL_IF_NULL(p, err);
    assert(batch > 0 && n->layer_count > 0);
    p->backend = b;
    p->net = n;
    p->mode = mode;
    p->batch = (value){.batch = batch, .shape = n->input, .block = 1, .dtype = CKPT_F32};
    TRY(nodes_make(p, err));
    TRY(buffers_place(p, err));
    *out = p;
    p = NULL;
out:
    plan_free(p);
    return rc;
}

size_t plan_bytes(const plan *p)
{
    return p->bytes;
}

size_t plan_batch_size(const plan *p)
{
    return p->batch.batch;
}

void plan_bind(plan *p, void *arena, const float *weights, float *grads)
{
    assert(arena && weights && (grads != NULL) == (p->mode == PLAN_TRAIN));
    p->arena = arena;
    for (size_t i = 0; i < p->node_count; i++)
        node_bind(&p->nodes[i], p, i, weights, grads);
}

void *plan_batch(const plan *p)
{
    return plan_memory(p, 0, PLACE_VALUE);
}

void plan_free(plan *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->node_count; i++)
        p->nodes[i].op->free(p->nodes[i].op);
    free(p->nodes);
    free(p->buffers);
    free(p);
}
