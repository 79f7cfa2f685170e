/* The passes between blocks and PyTorch's order of features, for every instruction set: they move single numbers, for
 * which vectors have only gathers and scatters, and those are slower. */
#include "pass_inline.h"

#define FLATTEN_TILE ((size_t)64) /* places whose block is in the first cache while it is turned */

/* Channels of block `unit` that are no fill-up; *plain is where they stand among the features. */
PASS_INLINE size_t flatten_unit(size_t *plain, const flatten_shape *s, size_t unit)
{
    const size_t blocks = (s->channels + s->block - 1) / s->block, first = unit % blocks * s->block;

    *plain = (unit / blocks * s->channels + first) * s->places;
    return s->channels - first < s->block ? s->channels - first : s->block;
}

PASS_INLINE void flatten_units(const flatten_job *j, size_t begin, size_t end, const size_t block)
{
    const flatten_shape *const s = &j->shape;
    const size_t places = s->places;
    const float floor = j->floor;

    for (size_t unit = begin; unit < end; unit++) {
        size_t plain;
        const size_t channels = flatten_unit(&plain, s, unit);
        const float *restrict const in = j->in + unit * places * block;
        float *restrict const out = j->out + plain;
        for (size_t from = 0; from < places; from += FLATTEN_TILE) {
            const size_t to = places - from < FLATTEN_TILE ? places : from + FLATTEN_TILE;
            for (size_t c = 0; c < channels; c++)
                for (size_t i = from; i < to; i++)
                    out[c * places + i] = raised(in[i * block + c], floor);
        }
    }
}

void pass_flatten(void *job, size_t begin, size_t end)
{
    const flatten_job *const j = job;
#define FLATTEN_UNITS(block) flatten_units(j, begin, end, (block))
    WITH_BLOCK(j->shape.block, FLATTEN_UNITS);
#undef FLATTEN_UNITS
}

PASS_INLINE void flatten_grad_units(const flatten_grad_job *j, size_t begin, size_t end, const size_t block)
{
    const flatten_shape *const s = &j->shape;
    const size_t places = s->places;

    for (size_t unit = begin; unit < end; unit++) {
        size_t plain;
        const size_t channels = flatten_unit(&plain, s, unit);
        float *restrict const in_grad = j->in_grad + unit * places * block;
        const float *restrict const out = j->out ? j->out + plain : NULL, *restrict const out_grad =
                                                                              j->out_grad + plain;
        for (size_t from = 0; from < places; from += FLATTEN_TILE) {
            const size_t to = places - from < FLATTEN_TILE ? places : from + FLATTEN_TILE;
            for (size_t c = 0; c < channels; c++)
                for (size_t i = from; i < to; i++)
                    in_grad[i * block + c] = out && out[c * places + i] <= 0 ? 0 : out_grad[c * places + i];
            for (size_t c = channels; c < block; c++)
                for (size_t i = from; i < to; i++)
                    in_grad[i * block + c] = 0;
        }
    }
}

void pass_flatten_grad(void *job, size_t begin, size_t end)
{
    const flatten_grad_job *const j = job;
#define FLATTEN_GRAD_UNITS(block) flatten_grad_units(j, begin, end, (block))
    WITH_BLOCK(j->shape.block, FLATTEN_GRAD_UNITS);
#undef FLATTEN_GRAD_UNITS
}
