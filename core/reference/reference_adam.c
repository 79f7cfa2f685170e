/* Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014), in the order of operations in which
 * torch.optim.Adam has it for one tensor, see adam_memory:
 *
 *     exp_avg.lerp_(grad, 1 - beta1)                                m
 *     exp_avg_sq.mul_(beta2).addcmul_(grad, grad, 1 - beta2)        v
 *     param.addcdiv_(exp_avg, exp_avg_sq.sqrt() / sqrt(1 - beta2^t) + eps, -lr / (1 - beta1^t))
 *
 * PyTorch's kernels contract a multiplication with the addition behind it where the processor can, and their square
 * root may be the neighbour of the nearest float. Here every operation is rounded by itself, to the nearest. */
#include "reference_backend.h"

#include <assert.h>
#include <math.h>

int reference_adam(bool *finite, backend *b, const adam_memory *m, const adam_factors *f, ckpt_error *err)
{
    const double t = (double)f->t;
    const float grad_share = (float)(1 - f->beta1);
    const float square_decay = (float)f->beta2, square_share = (float)(1 - f->beta2);
    const float step_size = (float)(f->lr / (1 - pow(f->beta1, t)));
    const float correction = (float)sqrt(1 - pow(f->beta2, t)), eps = (float)f->eps;
    (void)b;
    (void)err;

    assert(f->t);
    *finite = true;
    for (size_t i = 0; i < m->count; i++) {
        const float g = m->grads[i];
        const float avg = m->exp_avg[i] + grad_share * (g - m->exp_avg[i]);
        const float avg_sq = square_decay * m->exp_avg_sq[i] + square_share * g * g;
        const float weight = m->weights[i] - step_size * avg / (sqrtf(avg_sq) / correction + eps);

        m->exp_avg[i] = avg;
        m->exp_avg_sq[i] = avg_sq;
        m->weights[i] = weight;
        *finite &= isfinite(weight) != 0;
    }
    return 0;
}
