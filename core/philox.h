/* Philox 4x32-10: random numbers as a pure function of a key and a counter (Salmon et al., "Parallel Random Numbers: As
 * Easy as 1, 2, 3", SC 2011). There is no stream and so no state that a checkpoint could forget: who knows the seed,
 * the purpose, the epoch and the place gets the same number on any machine, in any order, on any number of threads. */
#ifndef CORE_PHILOX_H
#define CORE_PHILOX_H

#include <stdint.h>

/* Part of what a checkpoint means: a number is never given a second meaning. */
typedef enum random_purpose {
    RANDOM_INIT = 1,  /* first weights; epoch is the index of the parameter */
    RANDOM_ORDER = 2, /* order of the samples of an epoch */
    RANDOM_SPLIT = 3  /* which samples are held back for validation */
} random_purpose;

/* The plain function: ten rounds over `counter` with `key`. */
void philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* Block `index` of the numbers for one purpose: key = seed, counter = {index low, index high, epoch, purpose}. */
void random_block(uint32_t out[4], uint64_t seed, random_purpose purpose, uint32_t epoch, uint64_t index);
/* The `index`-th number: word index % 4 of block index / 4. */
uint32_t random_word(uint64_t seed, random_purpose purpose, uint32_t epoch, uint64_t index);

/* The numbers 0, 1, 2, ... one after the other: the same as random_word gives, for a quarter of the work. */
typedef struct random_sequence {
    uint64_t seed;
    random_purpose purpose;
    uint32_t epoch;
    uint64_t index; /* of the next; begins at 0 */
    uint32_t block[4];
} random_sequence;
uint32_t random_next(random_sequence *s);

#endif
