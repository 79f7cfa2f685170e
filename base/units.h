/* Units: numbers, sizes, durations and times as people write and read them.
 *
 * Parsers take the whole text or fail with CKPT_EUSAGE, never a part of it; they know no locale. Printers write at most
 * UNITS_TEXT_SIZE bytes, the final 0 among them.
 *
 *     512  512B            bytes                       30m  6h  1h30m  90s  2d   durations, larger units first
 *     4k 4K 4KiB  1.5g     powers of 1024              12.3 MiB  12.3 MiB/s      printed
 *     4kB 1.5GB            powers of 1000              3 s  2m 05s  1h 02m  2d 03h */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <ckpt/error.h>
#include <stdint.h>

#define UNITS_TEXT_SIZE 32

/* Decimal digits only; parse_i64 takes one leading "-". */
int parse_u64(uint64_t *out, const char *text, ckpt_error *err);
int parse_i64(int64_t *out, const char *text, ckpt_error *err);

/* Decimal, with or without fraction and exponent: "-1.5e-3". Not "inf", "nan" or hexadecimal; too large is an error,
 * too small is 0 or the nearest denormal number. */
int parse_double(double *out, const char *text, ckpt_error *err);

/* Bytes. Units: none or B; k m g t in either case, KiB MiB GiB TiB; kB MB GB TB. One blank may stand before the unit. A
 * fraction of up to 6 digits may stand before a unit, and is rounded down to whole bytes. Units that mean either power
 * ("KB", "mb") are refused with a hint. */
int parse_size(uint64_t *bytes, const char *text, ckpt_error *err);

/* Seconds, of whole numbers with d, h, m, s, each at most once. A number without a unit is refused, but for 0. */
int parse_duration(uint64_t *seconds, const char *text, ckpt_error *err);

/* A share from "0%" to "100%", as 0 to 1. */
int parse_share(double *share, const char *text, ckpt_error *err);

void format_size(char out[UNITS_TEXT_SIZE], uint64_t bytes); /* "512 B", "12.3 MiB" */
void format_rate(char out[UNITS_TEXT_SIZE], double bytes_per_second);
void format_count(char out[UNITS_TEXT_SIZE], uint64_t count);     /* "950", "11.2 M": powers of 1000 */
void format_duration(char out[UNITS_TEXT_SIZE], double seconds);  /* "0.4 s", "1h 02m"; "-" when it is no duration */
void format_time(char out[UNITS_TEXT_SIZE], int64_t utc_seconds); /* "2026-11-30 12:01", local time */
void format_time_iso(char out[UNITS_TEXT_SIZE], int64_t utc_seconds); /* "2026-11-30T12:01:05Z" */
/* Times outside the years 0 to 9999 are printed as "@" and the seconds. */

#endif
