/* What encoding and decoding of context coded chunks share, see context.h. */
#ifndef CKPT_CONTEXT_INTERNAL_H
#define CKPT_CONTEXT_INTERNAL_H

#include "context.h"

#include <fenv.h>

/* The head of a payload:
 *
 *   head := what:u8 zeros:u8 place_from:u8 sizes:u8 period:u16 side_size:u24 bits_size:u24 grid?
 *   grid := planes:u8 inner:u16 before:u16               with neighbours only
 *
 * what: log2 of the width in bits 0-1, number in 2-3, turned 4, places 5, growth 6, neighbours 7. sizes: block_log2 in
 * bits 0-4, lanes_log2 in 5-7. */
typedef struct context_head {
    context_layout layout;
    unsigned block_log2, lanes_log2, period;
    context_grid grid; /* planes, inner, before */
    size_t size, side_size, bits_size;
} context_head;

/* Floats as the standard says, with denormals and rounding to nearest, whatever the program around us has set. */
typedef fenv_t float_env;
static inline float_env float_env_plain(void)
{
    float_env before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    return before;
}
static inline void float_env_restore(const float_env *before)
{
    fesetenv(before);
}

/* Sets all of a grid for `count` elements from planes, inner and before; false: it does not fit them. */
bool context_grid_set(context_grid *grid, const context_layout *layout, size_t count);
/* Elements of 4 bytes into the order of coding, and back. */
void context_grid_gather(uint32_t *out, const context_grid *grid, const void *elements, size_t count);
void context_grid_scatter(void *elements, const context_grid *grid, const uint32_t *in, size_t count);

/* Where a pass over the elements stands, in the order of coding; runs end where planes end. */
typedef struct context_place {
    size_t first, count; /* of the run */
    unsigned column;     /* of its first element, which begins anew with each plane */
    unsigned plane;      /* 0 for elements that no plane predicts */
} context_place;

context_place context_place_first(const context_side *side, size_t count);
/* The next run of `count` elements in all; its own count is 0 behind the last. */
context_place context_place_next(context_place p, const context_side *side, size_t count);

/* The reference of a run with neighbours, as numbers are made with it: `reference` grows, is kept in `grown`, and what
 * earlier planes predict is added; without a reference (NULL) the prediction stands for it. */
void context_run_approach(uint32_t approached[CONTEXT_RUN], uint32_t grown[CONTEXT_RUN], const context_kernel *kernel,
                          const context_side *side, const uint32_t *reference, const int16_t *growth,
                          const float *value, context_place p);

/* Continues columns periodically over a run. */
void context_columns_continue(context_side *side);

/* Numbers, or elements, of a run. */
typedef union context_numbers {
    uint64_t widest[CONTEXT_RUN];
} context_numbers;

/* The reference of a run as it stands, or as it has grown; NULL without one. */
const void *context_run_reference(context_numbers *grown, const context_kernel *kernel, const context_side *side,
                                  const context_layout *layout, const unsigned char *reference, context_place p);
/* Growth of each element of a run. */
void context_run_growth(int16_t growth[CONTEXT_RUN], const context_side *side, context_place p);
/* value[i] := what the sum of place, row and column stands for, for the elements of a run; `place` are their place
 * bytes, NULL without places. */
void context_run_sums(uint8_t *value, const context_kernel *kernel, const context_side *side, const uint8_t *place,
                      const context_sums *sums, context_place p);
/* For sums whose levels stand for of_level. */
void context_sums_fill(context_sums *sums, const context_side *side, const uint8_t of_level[CONTEXT_LEVELS]);

/* ---- Fine symbols (context_fine.c) ---- */

/* A cut of numbers by their length and the two bits below the leading one (by_length), or by their top bits. */
typedef struct context_cut {
    bool by_length;
    unsigned shift;       /* top bits: what is below */
    uint64_t low;         /* the first number >> shift with a symbol of its own */
    unsigned low_symbols; /* for all smaller ones */
    unsigned half;        /* of numbers with a sign: the first symbol of those whose top bit is set; else 0 */
} context_cut;

#define CONTEXT_FINE_MANTISSA 3 /* bits below an exponent that fine symbols tell apart */

context_cut context_fine_by_length(context_fine *fine, unsigned bits);
/* Numbers of `bits` bits of which at most top_bits count; `most` is the largest. */
context_cut context_fine_by_top(context_fine *fine, unsigned bits, unsigned top_bits, uint64_t most);
/* The same for floats of 4 bytes whose top bit is the sign. */
context_cut context_fine_by_sign(context_fine *fine, const uint32_t *numbers, size_t count);
void context_fine_symbols(uint8_t *symbol, const void *numbers, unsigned width, const context_cut *cut,
                          const context_alphabet *a, size_t count);
/* Writes the raw bits of all numbers and returns how many; up to 8 bytes behind them are overwritten. */
uint64_t context_bits_write(unsigned char *dst, const void *numbers, unsigned width, const context_alphabet *a,
                            const uint8_t *symbol, size_t count);

#endif
