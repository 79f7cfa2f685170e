/* Real: floating-point numbers as text, the same bytes with every C library and in every locale. (printf's %a leaves
 * the digit in front of the point to the library, and the point itself to the locale.) */
#ifndef CORE_REAL_H
#define CORE_REAL_H

#include <stdbool.h>

#define REAL_TEXT_SIZE 40

/* Exact: "0x1.8p+1", "-0x0p+0", "0x0.0000000000001p-1022", "inf", "nan" (also for one with a sign or payload). */
void real_hex(char out[REAL_TEXT_SIZE], double value);
/* Reads what real_hex writes, and nothing else. */
bool real_parse(double *out, const char *text);

/* For people: rounded to `places` (at most 9) digits behind the point. */
void real_decimal(char out[REAL_TEXT_SIZE], double value, unsigned places);
/* As people write it, in the fewest digits that read back the same: 0.001, 0.9, 1e-8, 2.5e-7, 100. `value` is finite
 * and not negative. */
void real_shortest(char out[REAL_TEXT_SIZE], double value);

#endif
