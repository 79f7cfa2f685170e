#include "plan_internal.h"

#include "clock.h"
#include "fail.h"

#include <assert.h>
#include <math.h>

#define VALUE_PART 1024 /* numbers that are looked at in one go */

/* ---- Measuring -------------------------------------------------------------------------------------------------- */

static int time_start(double *begin, const plan *p, ckpt_error *err)
{
    *begin = 0;
    if (!p->profile)
        return 0;
    const int rc = p->backend->wait(p->backend, err);
    *begin = clock_seconds();
    return rc;
}

static int time_stop(double *seconds, const plan *p, double begin, ckpt_error *err)
{
    if (!p->profile)
        return 0;
    const int rc = p->backend->wait(p->backend, err);
    *seconds += clock_seconds() - begin;
    return rc;
}

void plan_profile(plan *p, bool on)
{
    p->profile = on;
}

size_t plan_row_count(const plan *p)
{
    return p->node_count + 1;
}

void plan_row_get(plan_row *out, const plan *p, size_t i)
{
    assert(i < plan_row_count(p));
    const plan_time *const time = i < p->node_count ? &p->nodes[i].time : &p->loss_time;

    *out = (plan_row){.name = "loss",
                      .calls = time->calls,
                      .forward_seconds = time->forward_seconds,
                      .backward_seconds = time->backward_seconds};
    if (i < p->node_count) {
        const op *const o = p->nodes[i].op;
        out->name = o->name;
        out->forward_flops = o->forward_flops;
        out->forward_bytes = o->forward_bytes;
        out->backward_flops = p->nodes[i].has_backward ? o->backward_flops : 0;
        out->backward_bytes = p->nodes[i].has_backward ? o->backward_bytes : 0;
    }
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

static int forward_run(plan *p, plan_node *node, ckpt_error *err)
{
    int rc = 0;
    double begin;

    TRY(time_start(&begin, p, err));
    TRY(node->op->forward(node->op, &node->forward, err));
    TRY(time_stop(&node->time.forward_seconds, p, begin, err));
    node->time.calls += p->profile;
out:
    if (rc)
        error_prefix(err, "%s", node->op->name);
    return rc;
}

static int backward_run(plan *p, plan_node *node, ckpt_error *err)
{
    int rc = 0;
    double begin;

    TRY(time_start(&begin, p, err));
    TRY(node->op->backward(node->op, &node->backward, err));
    TRY(time_stop(&node->time.backward_seconds, p, begin, err));
out:
    if (rc)
        error_prefix(err, "%s", node->op->name);
    return rc;
}

static int loss_run(loss_result *out, plan *p, const uint8_t *labels, size_t count, float *probabilities,
                    ckpt_error *err)
{
    int rc = 0;
    double begin;
    const loss_memory memory = {.logits = plan_memory(p, p->node_count, PLACE_VALUE),
                                .labels = labels,
                                .logits_grad = plan_memory(p, p->node_count, PLACE_GRAD),
                                .probabilities = probabilities,
                                .batch = p->batch.batch,
                                .classes = p->net->classes,
                                .count = count};

    TRY(time_start(&begin, p, err));
    TRY(p->backend->loss(out, p->backend, &memory, err));
    TRY(time_stop(&p->loss_time.forward_seconds, p, begin, err));
    p->loss_time.calls += p->profile;
out:
    return rc;
}

int plan_run(loss_result *out, plan *p, const uint8_t *labels, size_t count, float *probabilities, ckpt_error *err)
{
    int rc = 0;

    assert(p->arena && count <= p->batch.batch);
    for (size_t i = 0; i < p->node_count; i++)
        TRY(forward_run(p, &p->nodes[i], err));
    TRY(loss_run(out, p, labels, count, probabilities, err));
    if (!isfinite(out->sum))
        goto out; /* nobody can use these gradients, and plan_first_bad needs the batch */
    for (size_t i = p->node_count; i-- > 0 && p->nodes[i].has_backward;)
        TRY(backward_run(p, &p->nodes[i], err));
out:
    return rc;
}

/* ---- What went wrong -------------------------------------------------------------------------------------------- */

/* False also when the memory cannot be read. */
static bool value_is_bad(const plan *p, size_t v)
{
    float part[VALUE_PART];
    const float *const numbers = plan_memory(p, v, PLACE_VALUE);
    const size_t count = p->buffers[v][PLACE_VALUE].bytes / sizeof *numbers;

    assert(plan_value(p, v)->dtype == CKPT_F32);
    for (size_t done = 0; done < count; done += VALUE_PART) {
        const size_t part_count = count - done < VALUE_PART ? count - done : VALUE_PART;
        if (p->backend->read(p->backend, part, numbers + done, part_count * sizeof *part, NULL))
            return false;
        for (size_t i = 0; i < part_count; i++)
            if (!isfinite(part[i]))
                return true;
    }
    return false;
}

const char *plan_first_bad(const plan *p)
{
    assert(p->mode == PLAN_TRAIN); /* only these keep the batch until the loss */
    for (size_t i = 0; i < p->node_count; i++) {
        const plan_node *const node = &p->nodes[i];
        if (node->op->forward(node->op, &node->forward, NULL))
            return NULL;
        if (value_is_bad(p, i + 1))
            return node->op->name;
    }
    return NULL;
}
