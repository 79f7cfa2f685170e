/* Arithmetic on sizes that come from outside; each returns false when the result does not fit. */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add(uint64_t *sum, uint64_t a, uint64_t b)
{
    return !__builtin_add_overflow(a, b, sum);
}

static inline bool checked_mul(uint64_t *product, uint64_t a, uint64_t b)
{
    return !__builtin_mul_overflow(a, b, product);
}

/* Is [offset, offset + size) inside [0, limit)? */
static inline bool checked_range(uint64_t offset, uint64_t size, uint64_t limit)
{
    return offset <= limit && size <= limit - offset;
}

#endif
