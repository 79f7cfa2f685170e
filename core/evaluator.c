#include "evaluator.h"

#include "fail.h"

#include <math.h>
#include <stdlib.h>

int evaluator_new(evaluator *out, backend *b, const net *n, const dataset *data, size_t batch, bool probabilities,
                  ckpt_error *err)
{
    int rc = 0;

    *out = (evaluator){.backend = b, .data = data, .batch = batch, .classes = n->classes};
    TRY(plan_new(&out->plan, b, n, batch, PLAN_EVALUATE, err));
    out->indices = calloc(batch, sizeof *out->indices);
    FAIL_IF_NULL(out->indices, err);
    out->labels = calloc(batch, sizeof *out->labels);
    FAIL_IF_NULL(out->labels, err);
    if (probabilities) {
        out->probabilities = calloc(batch * n->classes, sizeof *out->probabilities);
        FAIL_IF_NULL(out->probabilities, err);
    }
out:
    return rc;
}

/* Samples [first, first + count) of the subset. */
static int batch_run(loss_result *out, evaluator *e, const subset *p, size_t first, size_t count, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        e->indices[i] = p->indices ? p->indices[first + i] : (uint32_t)(first + i);
        e->labels[i] = p->from->labels[e->indices[i]];
    }
    TRY(e->backend->gather(plan_batch(e->plan), e->backend, p->from->images, dims_count(&e->data->shape), e->indices,
                           count, e->batch, DATASET_SCALE, err));
    TRY(plan_run(out, e->plan, e->labels, count, e->probabilities, err));
out:
    return rc;
}

int evaluator_run(ckpt_evaluation *out, evaluator *e, const subset *p, evaluator_each_fn each, void *payload,
                  ckpt_error *err)
{
    int rc = 0;
    double sum = 0;

    *out = (ckpt_evaluation){.loss = (double)NAN, .accuracy = (double)NAN};
    for (size_t done = 0; done < p->count;) {
        const size_t count = p->count - done < e->batch ? p->count - done : e->batch;
        loss_result batch;
        TRY(batch_run(&batch, e, p, done, count, err));
        done += count;
        sum += batch.sum;
        out->correct += batch.correct;
        if (each)
            TRY(each(payload, e, count, done, p->count, err));
    }
    out->samples = p->count;
    if (p->count) {
        out->loss = sum / (double)p->count;
        out->accuracy = (double)out->correct / (double)p->count;
    }
out:
    return rc;
}

void evaluator_clear(evaluator *e)
{
    plan_free(e->plan);
    free(e->indices);
    free(e->labels);
    free(e->probabilities);
    *e = (evaluator){0};
}
