/* Adam as PyTorch computes it (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014), element by element:
 *
 *     m = m + (1 - beta1) * (g - m)
 *     v = beta2 * v + (1 - beta2) * g * g
 *     w = w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *
 * Factors are made in double and rounded once, by one function for all backends; then each operation is rounded by
 * itself (never contracted), so that the bits do not depend on instruction set or threads. */
#ifndef CORE_ADAM_H
#define CORE_ADAM_H

#include <stddef.h>
#include <stdint.h>

/* Vectors of `count` numbers in the backend's memory. */
typedef struct adam_memory {
    float *weights, *exp_avg, *exp_avg_sq; /* w, m, v */
    const float *grads;                    /* g */
    size_t count;
} adam_memory;

typedef struct adam_factors {
    double lr, beta1, beta2, eps;
    uint64_t t; /* number of this update, from 1 */
} adam_factors;

/* As they stand in the formula, from left to right. */
typedef struct adam_rounded {
    float grad_share;   /* 1 - beta1 */
    float square_decay; /* beta2 */
    float square_share; /* 1 - beta2 */
    float step_size;    /* lr / (1 - beta1^t) */
    float correction;   /* sqrt(1 - beta2^t) */
    float eps;
} adam_rounded;
adam_rounded adam_factors_round(const adam_factors *f);

#endif
