/* Evaluator: what a network says about samples, in batches of one size, the last one filled up.
 *
 *     evaluator_new(&e, b, n, data, 512, false, err);
 *     plan_bind(e.plan, arena, weights, NULL);
 *     evaluator_run(&result, &e, &subset, each, payload, err); */
#ifndef CORE_EVALUATOR_H
#define CORE_EVALUATOR_H

#include "plan.h"
#include "split.h"

typedef struct evaluator {
    backend *backend;
    const dataset *data;
    plan *plan; /* PLAN_EVALUATE; the caller binds it */
    size_t batch, classes;
    uint32_t *indices;    /* [batch] */
    uint8_t *labels;      /* [batch] */
    float *probabilities; /* [batch][classes]; NULL: not wanted */
} evaluator;

/* `b`, `n` and `data` stay the caller's and must outlive it. Errors as of plan_new; also then `out` is to be cleared.
 */
int evaluator_new(evaluator *out, backend *b, const net *n, const dataset *data, size_t batch, bool probabilities,
                  ckpt_error *err);
/* Called after each batch, whose `count` samples stand in e->indices, labels and probabilities, with the samples done
 * and in all. A non-zero return ends the evaluation and is returned. */
typedef int (*evaluator_each_fn)(void *payload, const evaluator *e, size_t count, size_t done, size_t total,
                                 ckpt_error *err);
/* Loss and accuracy are means, added up in the order of the samples; NaN of none. Allocates nothing. */
int evaluator_run(ckpt_evaluation *out, evaluator *e, const subset *p, evaluator_each_fn each, void *payload,
                  ckpt_error *err);
void evaluator_clear(evaluator *e);

#endif
