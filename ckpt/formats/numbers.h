/* Numbers: elements of every dtype as doubles, for statistics. */
#ifndef CKPT_NUMBERS_H
#define CKPT_NUMBERS_H

#include <ckpt/store.h>

/* Doubles that one element makes: 2 for complex ones. */
unsigned numbers_per_element(ckpt_dtype dtype);
/* Reads `count` little-endian elements; dst has room for numbers_per_element() doubles each. Large 64-bit integers are
 * rounded. */
void numbers_read(double *dst, const void *src, size_t count, ckpt_dtype dtype);

/* How far rounded numbers are from the exact ones, relative to these; 0, infinities and NaN do not count. */
typedef struct numbers_error {
    double max, squares;
    uint64_t count;
} numbers_error;
void numbers_error_add(numbers_error *e, double exact, double rounded);
double numbers_error_rms(const numbers_error *e); /* root of the mean of the squares */

/* Writes numbers as CKPT_F16, CKPT_BF16, CKPT_F32 or CKPT_F64, each rounded once, to the nearest, of two the even one;
 * what is too large becomes infinite. Errors are added to `error`. */
void numbers_write(void *dst, const double *src, size_t count, ckpt_dtype dtype, numbers_error *error);

#endif
