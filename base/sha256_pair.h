/* SHA-256 of two messages at a time, for hash.c.
 *
 * Each round of SHA-256 needs the one before, so one message leaves the SHA instructions of a CPU idle half of the
 * time. Two that know nothing of each other fill it. */
#ifndef BASE_SHA256_PAIR_H
#define BASE_SHA256_PAIR_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BLOCK_SIZE 64

/* Hashes as many blocks of each message into its state: eight words, the first of the standard's first. */
typedef void sha256_pair_fn(uint32_t state_a[8], const unsigned char *a, uint32_t state_b[8], const unsigned char *b,
                            size_t blocks);

sha256_pair_fn *sha256_pair_best(void); /* NULL: this machine cannot */

#endif
