#include "real.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* IEEE 754 binary64: sign, 11 bits of exponent, 52 of fraction. */
#define FRACTION_BITS   52
#define FRACTION_DIGITS 13
#define EXPONENT_BIAS   1023
#define EXPONENT_MAX    2047

#define SHORTEST_DIGITS_MAX 17
#define SHORTEST_PLAIN_MIN  (-4) /* 0.0001 is the smallest that is written without exponent */
#define ZEROS               "00000000000000000"

#define DECIMAL_MAX 1e15 /* from here on a double holds no digits behind the point that are worth showing */

void real_hex(char out[REAL_TEXT_SIZE], double value)
{
    uint64_t bits;
    char fraction[FRACTION_DIGITS + 1];

    memcpy(&bits, &value, sizeof bits);
    const char *const sign = bits >> 63 ? "-" : "";
    const int exponent = (int)(bits >> FRACTION_BITS & EXPONENT_MAX);
    bits &= (UINT64_C(1) << FRACTION_BITS) - 1;

    if (exponent == EXPONENT_MAX) {
        snprintf(out, REAL_TEXT_SIZE, "%s", bits ? "nan" : *sign ? "-inf" : "inf");
        return;
    }
    snprintf(fraction, sizeof fraction, "%013" PRIx64, bits);
    for (size_t size = FRACTION_DIGITS; size > 0 && fraction[size - 1] == '0'; size--)
        fraction[size - 1] = '\0';
    /* Zero is written with exponent 0, numbers below the normal ones with the exponent of the smallest normal one. */
    const int power = exponent ? exponent - EXPONENT_BIAS : bits ? 1 - EXPONENT_BIAS : 0;
    snprintf(out, REAL_TEXT_SIZE, "%s0x%d%s%sp%+d", sign, exponent != 0, bits ? "." : "", fraction, power);
}

/* The digits behind the point, as the fraction's upper ones. Returns how many there are. */
static size_t fraction_parse(uint64_t *out, const char *text)
{
    static const char DIGITS[] = "0123456789abcdef";
    const size_t count = strspn(text, DIGITS);

    *out = 0;
    for (size_t i = 0; i < FRACTION_DIGITS; i++)
        *out = *out << 4 | (uint64_t)(i < count ? strchr(DIGITS, text[i]) - DIGITS : 0);
    return count;
}

/* "p-1022", "p+0"; what is no such number gives something that real_hex spells differently. */
static int power_parse(const char *text)
{
    int power = 0;

    if (text[0] != 'p' || (text[1] != '+' && text[1] != '-'))
        return 0;
    for (const char *p = text + 2; *p >= '0' && *p <= '9' && power < EXPONENT_MAX; p++)
        power = power * 10 + (*p - '0');
    return text[1] == '-' ? -power : power;
}

static double hex_parse(const char *text)
{
    const bool negative = *text == '-';
    uint64_t bits;
    double value;

    text += negative;
    if (strncmp(text, "0x", 2) != 0 || (text[2] != '0' && text[2] != '1'))
        return 0.0;
    const bool normal = text[2] == '1';
    const char *const digits = text + 3 + (text[3] == '.');
    const char *const power_text = digits + fraction_parse(&bits, digits);
    const int exponent = normal ? power_parse(power_text) + EXPONENT_BIAS : 0;
    if (exponent < 0 || exponent >= EXPONENT_MAX)
        return 0.0;
    bits |= (uint64_t)exponent << FRACTION_BITS | (uint64_t)negative << 63;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool real_parse(double *out, const char *text)
{
    char again[REAL_TEXT_SIZE];

    *out = strcmp(text, "inf") == 0    ? (double)INFINITY
           : strcmp(text, "-inf") == 0 ? -(double)INFINITY
           : strcmp(text, "nan") == 0  ? (double)NAN
                                       : hex_parse(text);
    real_hex(again, *out);
    return strcmp(text, again) == 0;
}

void real_decimal(char out[REAL_TEXT_SIZE], double value, unsigned places)
{
    uint64_t unit = 1;

    if (isnan(value) || isinf(value)) {
        real_hex(out, value);
        return;
    }
    if (fabs(value) >= DECIMAL_MAX) {
        snprintf(out, REAL_TEXT_SIZE, "%.*e", 0, value);
        return;
    }
    for (unsigned i = 0; i < places; i++)
        unit *= 10;
    double whole = floor(fabs(value));
    uint64_t part = (uint64_t)floor((fabs(value) - whole) * (double)unit + 0.5);
    if (part == unit) { /* rounded up to the next whole number */
        whole += 1;
        part = 0;
    }
    const char *const sign = value < 0 && (whole > 0 || part > 0) ? "-" : "";
    const int size = snprintf(out, REAL_TEXT_SIZE, "%s%.0f", sign, whole);
    if (places > 0)
        snprintf(out + size, REAL_TEXT_SIZE - (size_t)size, ".%0*" PRIu64, (int)places, part);
}

/* The fewest digits that read back the same, as d.ddd times 10^exponent: at most 17 are needed (David Matula,
 * "In-and-out conversions", 1968). Returns how many there are. */
static int digits_make(char digits[SHORTEST_DIGITS_MAX + 1], int *exponent, double value)
{
    char text[SHORTEST_DIGITS_MAX + 16];
    int count = 0;

    for (int places = 0; places < SHORTEST_DIGITS_MAX; places++) {
        snprintf(text, sizeof text, "%.*e", places, value);
        /* The point is the locale's, and may be several bytes. */
        const char *const e = strchr(text, 'e');
        count = 0;
        for (const char *at = text; at < e; at++)
            if (*at >= '0' && *at <= '9')
                digits[count++] = *at;
        digits[count] = 0;
        *exponent = (int)strtol(e + 1, NULL, 10);
        if (strtod(text, NULL) == value) /* in the locale that printed it */
            break;
    }
    return count;
}

void real_shortest(char out[REAL_TEXT_SIZE], double value)
{
    char digits[SHORTEST_DIGITS_MAX + 1];
    int exponent;

    assert(value >= 0 && value <= DBL_MAX);
    const int count = digits_make(digits, &exponent, value);
    const int whole = exponent + 1; /* digits before the point */

    if (exponent < SHORTEST_PLAIN_MIN || exponent >= SHORTEST_DIGITS_MAX)
        snprintf(out, REAL_TEXT_SIZE, "%c%s%se%d", digits[0], count > 1 ? "." : "", digits + 1, exponent);
    else if (exponent < 0)
        snprintf(out, REAL_TEXT_SIZE, "0.%.*s%s", -exponent - 1, ZEROS, digits);
    else if (count <= whole)
        snprintf(out, REAL_TEXT_SIZE, "%s%.*s", digits, whole - count, ZEROS);
    else
        snprintf(out, REAL_TEXT_SIZE, "%.*s.%s", whole, digits, digits + whole);
}
