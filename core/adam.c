#include "adam.h"

#include <assert.h>
#include <math.h>

adam_rounded adam_factors_round(const adam_factors *f)
{
    const double t = (double)f->t;

    assert(f->t > 0);
    return (adam_rounded){.grad_share = (float)(1 - f->beta1),
                          .square_decay = (float)f->beta2,
                          .square_share = (float)(1 - f->beta2),
                          .step_size = (float)(f->lr / (1 - pow(f->beta1, t))),
                          .correction = (float)sqrt(1 - pow(f->beta2, t)),
                          .eps = (float)f->eps};
}
