/* The passes between blocks and PyTorch's order of features, for every instruction set: squares of four channels and
 * four places are turned in registers that all machines have; wider ones would need more exchanges for each number. */
#include "pass_inline.h"

#include <string.h>

#define SIDE ((size_t)4)
typedef float quad __attribute__((vector_size(16)));
typedef int32_t quad_mask __attribute__((vector_size(16)));

#if defined(__clang__)
#define QUAD_PICK(a, b, i, j, k, l) __builtin_shufflevector((a), (b), i, j, k, l)
#else
#define QUAD_PICK(a, b, i, j, k, l) __builtin_shuffle((a), (b), (quad_mask){i, j, k, l})
#endif

PASS_INLINE quad quad_load(const float *from)
{
    quad q;
    memcpy(&q, from, sizeof q);
    return q;
}

PASS_INLINE quad quad_chosen(quad_mask mask, quad yes, quad no)
{
    return (quad)((mask & (quad_mask)yes) | (~mask & (quad_mask)no));
}

/* Row i of the square becomes column i, at to + i. */
PASS_INLINE void square_turn(float *to, size_t stride, const quad rows[SIDE])
{
    const quad low_01 = QUAD_PICK(rows[0], rows[1], 0, 4, 1, 5), high_01 = QUAD_PICK(rows[0], rows[1], 2, 6, 3, 7);
    const quad low_23 = QUAD_PICK(rows[2], rows[3], 0, 4, 1, 5), high_23 = QUAD_PICK(rows[2], rows[3], 2, 6, 3, 7);
    const quad columns[SIDE] = {QUAD_PICK(low_01, low_23, 0, 1, 4, 5), QUAD_PICK(low_01, low_23, 2, 3, 6, 7),
                                QUAD_PICK(high_01, high_23, 0, 1, 4, 5), QUAD_PICK(high_01, high_23, 2, 3, 6, 7)};

    for (size_t i = 0; i < SIDE; i++)
        memcpy(to + i * stride, &columns[i], sizeof columns[i]);
}

/* Channels of block `unit` that are no fill-up; *plain is where they stand among the features. */
PASS_INLINE size_t flatten_unit(size_t *plain, const flatten_shape *s, size_t unit)
{
    const size_t blocks = (s->channels + s->block - 1) / s->block, first = unit % blocks * s->block;

    *plain = (unit / blocks * s->channels + first) * s->places;
    return s->channels - first < s->block ? s->channels - first : s->block;
}

/* The channels and places [.._from, .._to) of a unit one by one: what no square covers. */
PASS_INLINE void flatten_rest(float *restrict out /* [channels][places] */, const float *restrict in, size_t places,
                              size_t block, float floor, size_t c_from, size_t c_to, size_t i_from, size_t i_to)
{
    for (size_t c = c_from; c < c_to; c++)
        for (size_t i = i_from; i < i_to; i++)
            out[c * places + i] = raised(in[i * block + c], floor);
}

PASS_INLINE void flatten_units(const flatten_job *j, size_t begin, size_t end, const size_t block)
{
    const flatten_shape *const s = &j->shape;
    const size_t places = s->places, whole_places = places - places % SIDE;
    const quad floor = (quad){0} + j->floor;

    for (size_t unit = begin; unit < end; unit++) {
        size_t plain;
        const size_t channels = flatten_unit(&plain, s, unit), whole_channels = channels - channels % SIDE;
        const float *restrict const in = j->in + unit * places * block;
        float *restrict const out = j->out + plain;
        for (size_t i = 0; i < whole_places; i += SIDE)
            for (size_t c = 0; c < whole_channels; c += SIDE) {
                quad rows[SIDE];
                for (size_t k = 0; k < SIDE; k++) {
                    rows[k] = quad_load(in + (i + k) * block + c);
                    rows[k] = quad_chosen(rows[k] < floor, floor, rows[k]);
                }
                square_turn(out + c * places + i, places, rows);
            }
        flatten_rest(out, in, places, block, j->floor, whole_channels, channels, 0, whole_places);
        flatten_rest(out, in, places, block, j->floor, 0, channels, whole_places, places);
    }
}

void pass_flatten(void *job, size_t begin, size_t end)
{
    const flatten_job *const j = job;
#define FLATTEN_UNITS(block) flatten_units(j, begin, end, (block))
    WITH_BLOCK(j->shape.block, FLATTEN_UNITS);
#undef FLATTEN_UNITS
}

PASS_INLINE void flatten_grad_rest(float *restrict in_grad, const float *restrict out /* or NULL */,
                                   const float *restrict out_grad, size_t places, size_t block, size_t c_from,
                                   size_t c_to, size_t i_from, size_t i_to)
{
    for (size_t c = c_from; c < c_to; c++)
        for (size_t i = i_from; i < i_to; i++)
            in_grad[i * block + c] = out && out[c * places + i] <= 0 ? 0 : out_grad[c * places + i];
}

PASS_INLINE void flatten_grad_units(const flatten_grad_job *j, size_t begin, size_t end, const size_t block)
{
    const flatten_shape *const s = &j->shape;
    const size_t places = s->places, whole_places = places - places % SIDE;
    const quad zeros = {0};

    for (size_t unit = begin; unit < end; unit++) {
        size_t plain;
        const size_t channels = flatten_unit(&plain, s, unit), whole_channels = channels - channels % SIDE;
        float *restrict const in_grad = j->in_grad + unit * places * block;
        const float *restrict const out = j->out ? j->out + plain : NULL, *restrict const out_grad =
                                                                              j->out_grad + plain;
        for (size_t i = 0; i < whole_places; i += SIDE)
            for (size_t c = 0; c < whole_channels; c += SIDE) {
                quad rows[SIDE];
                for (size_t k = 0; k < SIDE; k++) {
                    const size_t at = (c + k) * places + i;
                    rows[k] = quad_load(out_grad + at);
                    if (out)
                        rows[k] = quad_chosen(quad_load(out + at) <= zeros, zeros, rows[k]);
                }
                square_turn(in_grad + i * block + c, block, rows);
            }
        flatten_grad_rest(in_grad, out, out_grad, places, block, whole_channels, channels, 0, whole_places);
        flatten_grad_rest(in_grad, out, out_grad, places, block, 0, channels, whole_places, places);
        for (size_t i = 0; i < places; i++)
            for (size_t c = channels; c < block; c++)
                in_grad[i * block + c] = 0;
    }
}

void pass_flatten_grad(void *job, size_t begin, size_t end)
{
    const flatten_grad_job *const j = job;
#define FLATTEN_GRAD_UNITS(block) flatten_grad_units(j, begin, end, (block))
    WITH_BLOCK(j->shape.block, FLATTEN_GRAD_UNITS);
#undef FLATTEN_GRAD_UNITS
}
