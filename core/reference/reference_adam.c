/* Adam in the order of operations in which torch.optim.Adam has it for one tensor, see adam.h:
 *
 *     exp_avg.lerp_(grad, 1 - beta1)                                m
 *     exp_avg_sq.mul_(beta2).addcmul_(grad, grad, 1 - beta2)        v
 *     param.addcdiv_(exp_avg, exp_avg_sq.sqrt() / sqrt(1 - beta2^t) + eps, -lr / (1 - beta1^t))
 *
 * PyTorch's kernels contract a multiplication with the addition behind it where the processor can, and their square
 * root may be the neighbour of the nearest float. Here every operation is rounded by itself, to the nearest. */
#include "reference_backend.h"

#include <math.h>

int reference_adam(bool *finite, backend *b, const adam_memory *m, const adam_factors *factors, ckpt_error *err)
{
    const adam_rounded f = adam_factors_round(factors);
    (void)b;
    (void)err;

    *finite = true;
    for (size_t i = 0; i < m->count; i++) {
        const float g = m->grads[i];
        const float avg = m->exp_avg[i] + f.grad_share * (g - m->exp_avg[i]);
        const float avg_sq = f.square_decay * m->exp_avg_sq[i] + f.square_share * g * g;
        const float weight = m->weights[i] - f.step_size * avg / (sqrtf(avg_sq) / f.correction + f.eps);

        m->exp_avg[i] = avg;
        m->exp_avg_sq[i] = avg_sq;
        m->weights[i] = weight;
        *finite &= isfinite(weight) != 0;
    }
    return 0;
}
