/* Numbers: elements of every dtype as doubles, for statistics. */
#ifndef CKPT_NUMBERS_H
#define CKPT_NUMBERS_H

#include <ckpt/store.h>

/* Doubles that one element makes: 2 for complex ones. */
unsigned numbers_per_element(ckpt_dtype dtype);
/* Reads `count` little-endian elements; dst has room for numbers_per_element() doubles each. Large 64-bit integers are
 * rounded. */
void numbers_read(double *dst, const void *src, size_t count, ckpt_dtype dtype);

#endif
