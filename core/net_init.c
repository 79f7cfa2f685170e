#include "net.h"

#include "philox.h"

#include <math.h>

/* The middle of one of 2^24 equal parts of (0, 1), so that neither end is drawn. */
static double unit(uint32_t word)
{
    return ((double)(word >> 8) + 0.5) / (1 << 24);
}

void net_init(float *weights, const net *n, uint64_t seed)
{
    for (size_t i = 0; i < n->param_count; i++) {
        const param *const p = &n->params[i];
        const double bound = 1 / sqrt((double)p->fan_in);
        random_sequence draws = {.seed = seed, .purpose = RANDOM_INIT, .epoch = (uint32_t)i};
        for (size_t k = 0; k < p->count; k++)
            weights[p->offset + k] = (float)((2 * unit(random_next(&draws)) - 1) * bound);
    }
}
