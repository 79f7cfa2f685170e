#define _GNU_SOURCE /* strtod_l */
#include "units.h"

#include "checked.h"
#include "fail.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FRACTION_DIGITS_MAX 6u /* so that fraction times unit fits 64 bits */
#define SHOWN_MAX           40 /* characters of a faulty text in a message */

typedef struct unit {
    const char *name;
    uint64_t factor;
} unit;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits up to the first other character; fails when there is none or the number does not fit. */
static bool scan_digits(uint64_t *out, const char **text)
{
    const char *p = *text;
    uint64_t value = 0;
    for (; is_digit(*p); p++)
        if (!checked_mul(&value, value, 10) || !checked_add(&value, value, (uint64_t)(*p - '0')))
            return false;
    bool any = p > *text;
    *text = p;
    *out = value;
    return any;
}

static const unit *unit_find(const unit *units, const char *name)
{
    for (; units->name; units++)
        if (strcmp(units->name, name) == 0)
            return units;
    return NULL;
}

int parse_u64(uint64_t *out, const char *text, ckpt_error *err)
{
    const char *p = text;
    uint64_t value;
    if (!scan_digits(&value, &p) || *p)
        return error_set(err, CKPT_EUSAGE, "\"%.*s\" is not a whole number from 0 to %" PRIu64, SHOWN_MAX, text,
                         UINT64_MAX);
    *out = value;
    return 0;
}

int parse_i64(int64_t *out, const char *text, ckpt_error *err)
{
    bool negative = text[0] == '-';
    const char *p = text + negative;
    uint64_t value;
    if (!scan_digits(&value, &p) || *p || value > (uint64_t)INT64_MAX + negative)
        return error_set(err, CKPT_EUSAGE, "\"%.*s\" is not a whole number from %" PRId64 " to %" PRId64, SHOWN_MAX,
                         text, INT64_MIN, INT64_MAX);
    *out = negative ? (int64_t)-value : (int64_t)value;
    return 0;
}

static const char *skip_digits(const char *p)
{
    while (is_digit(*p))
        p++;
    return p;
}

/* strtod() takes more than numbers of ours look like: blanks, names, hexadecimal. */
static bool is_decimal(const char *text)
{
    const char *p = text + (*text == '-' || *text == '+');
    const char *whole = p;
    p = skip_digits(p);
    bool any = p > whole;
    if (*p == '.') {
        const char *fraction = ++p;
        p = skip_digits(p);
        any = any || p > fraction;
    }
    if (any && (*p == 'e' || *p == 'E')) {
        p += 1 + (p[1] == '-' || p[1] == '+');
        const char *exponent = p;
        p = skip_digits(p);
        any = p > exponent;
    }
    return any && !*p;
}

int parse_double(double *out, const char *text, ckpt_error *err)
{
    int rc = 0;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);

    FAIL_IF_NULL(plain, err);
    FAIL_IF(!is_decimal(text), err, CKPT_EUSAGE, "\"%.*s\" is not a number", SHOWN_MAX, text);
    double value = strtod_l(text, NULL, plain);
    FAIL_IF(isinf(value), err, CKPT_EUSAGE, "\"%.*s\" is too large", SHOWN_MAX, text);
    *out = value;
out:
    if (plain)
        freelocale(plain);
    return rc;
}

static const unit SIZES[] = {
    {"", 1},
    {"B", 1},
    {"k", 1ull << 10},
    {"K", 1ull << 10},
    {"KiB", 1ull << 10},
    {"m", 1ull << 20},
    {"M", 1ull << 20},
    {"MiB", 1ull << 20},
    {"g", 1ull << 30},
    {"G", 1ull << 30},
    {"GiB", 1ull << 30},
    {"t", 1ull << 40},
    {"T", 1ull << 40},
    {"TiB", 1ull << 40},
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {NULL, 0},
};

/* The digits behind a point as millionths. */
static bool scan_millionths(uint64_t *out, const char **text)
{
    const char *begin = *text;
    uint64_t value;
    if (!scan_digits(&value, text) || *text - begin > FRACTION_DIGITS_MAX)
        return false;
    for (size_t digits = (size_t)(*text - begin); digits < FRACTION_DIGITS_MAX; digits++)
        value *= 10;
    *out = value;
    return true;
}

static int fail_size(const char *text, const char *why, ckpt_error *err)
{
    error_set(err, CKPT_EUSAGE, "\"%.*s\" is not a size: %s", SHOWN_MAX, text, why);
    error_hint(err,
               "write 4k or 4KiB for 4096 bytes, 4kB for 4000; so too m or MiB, g or GiB, t or TiB and MB, GB, TB");
    return CKPT_EUSAGE;
}

int parse_size(uint64_t *bytes, const char *text, ckpt_error *err)
{
    const char *p = text;
    uint64_t whole;
    uint64_t millionths = 0;
    uint64_t total;

    if (!is_digit(*p))
        return fail_size(text, "it does not begin with a digit", err);
    if (!scan_digits(&whole, &p))
        return fail_size(text, "it is too large", err);
    bool fraction = *p == '.';
    if (fraction) {
        p++;
        if (!scan_millionths(&millionths, &p))
            return fail_size(text, "1 to 6 digits may stand behind the point", err);
    }
    if (p[0] == ' ' && p[1])
        p++;
    const unit *u = unit_find(SIZES, p);
    if (!u)
        return fail_size(text, "unknown or ambiguous unit", err);
    if (fraction && u->factor == 1)
        return fail_size(text, "bytes are whole", err);
    if (!checked_mul(&total, whole, u->factor) || !checked_add(&total, total, millionths * u->factor / 1000000))
        return fail_size(text, "it is too large", err);
    *bytes = total;
    return 0;
}

static int fail_duration(const char *text, ckpt_error *err)
{
    error_set(err, CKPT_EUSAGE, "\"%.*s\" is not a duration", SHOWN_MAX, text);
    error_hint(err, "write 90s, 30m, 6h, 1h30m or 2d");
    return CKPT_EUSAGE;
}

int parse_share(double *share, const char *text, ckpt_error *err)
{
    char number[UNITS_TEXT_SIZE];
    const size_t length = strlen(text);
    double percent = 0;

    if (length >= 2 && length <= sizeof number && text[length - 1] == '%') {
        memcpy(number, text, length - 1);
        number[length - 1] = 0;
        if (is_digit(*number) && parse_double(&percent, number, NULL) == 0 && percent <= 100) {
            *share = percent / 100;
            return 0;
        }
    }
    error_set(err, CKPT_EUSAGE, "\"%.*s\" is not a share", SHOWN_MAX, text);
    error_hint(err, "write 5%% or 0.5%%");
    return CKPT_EUSAGE;
}

int parse_duration(uint64_t *seconds, const char *text, ckpt_error *err)
{
    static const unit DURATIONS[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}};
    const size_t unit_count = sizeof DURATIONS / sizeof *DURATIONS;
    const char *p = text;
    uint64_t total = 0;

    if (strcmp(text, "0") == 0) {
        *seconds = 0;
        return 0;
    }
    for (size_t next = 0; next == 0 || *p; next++) {
        uint64_t value;
        if (!scan_digits(&value, &p))
            return fail_duration(text, err);
        while (next < unit_count && *p != DURATIONS[next].name[0])
            next++;
        if (next == unit_count || !checked_mul(&value, value, DURATIONS[next].factor) ||
            !checked_add(&total, total, value))
            return fail_duration(text, err);
        p++;
    }
    *seconds = total;
    return 0;
}

/* Printers use integers, since "%f" follows the locale of the host program. */

void format_size(char out[UNITS_TEXT_SIZE], uint64_t bytes)
{
    static const char *const UNITS[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64 " B", bytes);
        return;
    }
    for (unsigned i = 0;; i++) {
        unsigned shift = 10 * (i + 1);
        uint64_t rest = bytes & ((1ull << shift) - 1); /* below 2^60, so ten times it fits */
        uint64_t tenths = (bytes >> shift) * 10 + ((rest * 10 + (1ull << (shift - 1))) >> shift);
        if (tenths < 10240 || i + 1 == sizeof UNITS / sizeof *UNITS) {
            snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64 ".%u %s", tenths / 10, (unsigned)(tenths % 10), UNITS[i]);
            return;
        }
    }
}

void format_rate(char out[UNITS_TEXT_SIZE], double bytes_per_second)
{
    char size[UNITS_TEXT_SIZE];
    if (!(bytes_per_second >= 0 && bytes_per_second < 0x1p63)) {
        snprintf(out, UNITS_TEXT_SIZE, "-");
        return;
    }
    format_size(size, (uint64_t)bytes_per_second);
    snprintf(out, UNITS_TEXT_SIZE, "%.20s/s", size);
}

void format_count(char out[UNITS_TEXT_SIZE], uint64_t count)
{
    static const char UNITS[] = "kMGTPE";
    if (count < 1000) {
        snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64, count);
        return;
    }
    uint64_t factor = 1000;
    for (unsigned i = 0;; i++, factor *= 1000) {
        uint64_t tenths = count / factor * 10 + (count % factor + factor / 20) / (factor / 10);
        if (tenths < 10000 || i + 2 == sizeof UNITS) {
            snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64 ".%u %c", tenths / 10, (unsigned)(tenths % 10), UNITS[i]);
            return;
        }
    }
}

void format_duration(char out[UNITS_TEXT_SIZE], double seconds)
{
    if (!(seconds >= 0 && seconds < 0x1p53)) {
        snprintf(out, UNITS_TEXT_SIZE, "-");
        return;
    }
    uint64_t tenths = (uint64_t)(seconds * 10 + 0.5);
    uint64_t s = (uint64_t)(seconds + 0.5);
    if (tenths < 100 && tenths % 10)
        snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64 ".%u s", tenths / 10, (unsigned)(tenths % 10));
    else if (s < 60)
        snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64 " s", s);
    else if (s < 3600)
        snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64 "m %02us", s / 60, (unsigned)(s % 60));
    else if (s < 86400)
        snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64 "h %02um", s / 3600, (unsigned)(s % 3600 / 60));
    else
        snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64 "d %02uh", s / 86400, (unsigned)(s % 86400 / 3600));
}

static bool has_four_digits(const struct tm *parts)
{
    return parts->tm_year >= -1900 && parts->tm_year <= 9999 - 1900;
}

void format_time(char out[UNITS_TEXT_SIZE], int64_t utc_seconds)
{
    struct tm parts;
    time_t t = (time_t)utc_seconds;
    if (localtime_r(&t, &parts) && has_four_digits(&parts))
        strftime(out, UNITS_TEXT_SIZE, "%Y-%m-%d %H:%M", &parts);
    else
        snprintf(out, UNITS_TEXT_SIZE, "@%" PRId64, utc_seconds);
}

void format_time_iso(char out[UNITS_TEXT_SIZE], int64_t utc_seconds)
{
    struct tm parts;
    time_t t = (time_t)utc_seconds;
    if (gmtime_r(&t, &parts) && has_four_digits(&parts))
        strftime(out, UNITS_TEXT_SIZE, "%Y-%m-%dT%H:%M:%SZ", &parts);
    else
        snprintf(out, UNITS_TEXT_SIZE, "@%" PRId64, utc_seconds);
}
