/* Random bits for names that nobody else chooses or guesses. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <ckpt/error.h>
#include <stdint.h>

int random_u64(uint64_t *out, ckpt_error *err);

#endif
