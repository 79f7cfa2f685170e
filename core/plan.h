/* Plan: the operations of a network for one batch size, and the place of every buffer in one arena.
 *
 *     plan_new(&full,  b, n, 512, PLAN_TRAIN, err);       three plans,
 *     plan_new(&rest,  b, n, 240, PLAN_TRAIN, err);       made once,
 *     plan_new(&eval,  b, n, 512, PLAN_EVALUATE, err);    in the same memory of the largest plan_bytes
 *     plan_bind(full, arena, weights, grads);
 *     b->gather(plan_batch(full), b, samples, size, indices, 512, 512, 1 / 255.0f, err);
 *     plan_run(&result, full, labels, 512, NULL, err);    the gradients now stand in grads
 *
 * Times of a plan with n operations: forward of operation i at i, the loss at n, backward of operation i at 2 n - i. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include "backend.h"

typedef enum plan_mode { PLAN_TRAIN, PLAN_EVALUATE } plan_mode;

typedef struct plan plan;

/* `b` and `n` stay the caller's and must outlive the plan. Errors: of the backend's op_new, and CKPT_ENOMEM also when
 * the buffers together have no place in an address space. */
int plan_new(plan **out, backend *b, const net *n, size_t batch, plan_mode mode, ckpt_error *err);
size_t plan_bytes(const plan *p); /* of the arena that it needs */
size_t plan_batch_size(const plan *p);
/* `arena` has plan_bytes of the backend's memory; weights and grads (NULL in PLAN_EVALUATE) are vectors of
 * net.weight_count floats there. All stay the caller's, and another plan may use the arena between two runs. */
void plan_bind(plan *p, void *arena, const float *weights, float *grads);
void *plan_batch(const plan *p); /* [batch][channels][height][width], for gather; valid until the next plan_run */

/* Forward, loss, and with PLAN_TRAIN backward. `labels` has a label for each of `count` rows; probabilities
 * ([batch][classes]) may be NULL; both are in host memory. A loss that is not finite ends it: there are no gradients
 * then. Allocates nothing. Errors are the device's, with the name of the operation in front. */
int plan_run(loss_result *out, plan *p, const uint8_t *labels, size_t count, float *probabilities, ckpt_error *err);

/* Where time went: sums since the plan was made, when profiling was switched on. */
typedef struct plan_row {
    const char *name; /* of the operation, or "loss" */
    uint64_t calls;
    double forward_seconds, backward_seconds;
    double forward_flops, backward_flops, forward_bytes, backward_bytes; /* of one call */
} plan_row;
void plan_profile(plan *p, bool on);
size_t plan_row_count(const plan *p);
void plan_row_get(plan_row *out, const plan *p, size_t i);

/* Right after plan_run of a PLAN_TRAIN gave a loss that is not finite: goes forward once more with the same batch,
 * since values have shared memory, and names the first operation whose output holds NaN or infinity; NULL when none
 * does. */
const char *plan_first_bad(const plan *p);

void plan_free(plan *p); /* NULL is fine */

#endif
