/* Order: in which order the samples of an epoch come, a pure function of (seed, epoch), and which samples are held back
 * for validation, a pure function of the seed. */
#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include "philox.h"

#include <stddef.h>

/* Puts the `count` entries of `items` in random order: Fisher and Yates from the last place to the second, the place
 * to exchange with drawn without bias (Lemire, "Fast Random Integer Generation in an Interval", 2019, with rejection;
 * draws of one epoch are numbered 0, 1, 2, ... as they are made). */
void order_shuffle(uint32_t *items, size_t count, uint64_t seed, random_purpose purpose, uint32_t epoch);

/* Writes 0 .. count - 1 into items, `held` of them (chosen by the seed) last; both parts in rising order. Item i is
 * held when a number drawn below count - i, as in order_shuffle, is below how many are still to be held (Knuth, "The
 * Art of Computer Programming", 3.4.2, algorithm S). */
void order_split(uint32_t *items, size_t count, size_t held, uint64_t seed);

#endif
