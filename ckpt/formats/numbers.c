#include "numbers.h"

#include "bytes.h"

#include <math.h>
#include <string.h>

static float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static double double_of_bits(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* A small IEEE-like float: sign, `exponent_bits`, `mantissa_bits`. With `infinities` the largest exponent is as in IEEE
 * 754; without (E4M3 of the Open Compute 8-bit floats) only all ones is NaN. */
static double small_float(unsigned bits, unsigned exponent_bits, unsigned mantissa_bits, bool infinities)
{
    const unsigned exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
    const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
    const unsigned top = (1u << exponent_bits) - 1;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
    const double fraction = (double)mantissa / (double)(1u << mantissa_bits);

    if (exponent == top && infinities)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == top && mantissa == (1u << mantissa_bits) - 1)
        return (double)NAN;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias);
    return sign * ldexp(1 + fraction, (int)exponent - bias);
}

unsigned numbers_per_element(ckpt_dtype dtype)
{
    return dtype == CKPT_C64 || dtype == CKPT_C128 ? 2 : 1;
}

#define EACH(expression)                                                                                               \
    for (size_t i = 0; i < count; i++)                                                                                 \
        dst[i] = (double)(expression);                                                                                 \
    break

void numbers_read(double *dst, const void *src, size_t count, ckpt_dtype dtype)
{
    const unsigned char *const p = src;

    count *= numbers_per_element(dtype);
    switch (dtype) {
    case CKPT_OPAQUE:
    case CKPT_BOOL:
    case CKPT_U8:
        EACH(p[i]);
    case CKPT_I8:
        EACH((int8_t)p[i]);
    case CKPT_U16:
        EACH(load_u16(p + 2 * i));
    case CKPT_I16:
        EACH((int16_t)load_u16(p + 2 * i));
    case CKPT_U32:
        EACH(load_u32(p + 4 * i));
    case CKPT_I32:
        EACH((int32_t)load_u32(p + 4 * i));
    case CKPT_U64:
        EACH(load_u64(p + 8 * i));
    case CKPT_I64:
        EACH((int64_t)load_u64(p + 8 * i));
    case CKPT_F16:
        EACH(small_float(load_u16(p + 2 * i), 5, 10, true));
    case CKPT_BF16:
        EACH(float_of_bits((uint32_t)load_u16(p + 2 * i) << 16));
    case CKPT_F32:
    case CKPT_C64:
        EACH(float_of_bits(load_u32(p + 4 * i)));
    case CKPT_F64:
    case CKPT_C128:
        EACH(double_of_bits(load_u64(p + 8 * i)));
    case CKPT_F8_E4M3:
        EACH(small_float(p[i], 4, 3, false));
    case CKPT_F8_E5M2:
        EACH(small_float(p[i], 5, 2, true));
    }
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

void numbers_error_add(numbers_error *e, double exact, double rounded)
{
    if (exact == 0 || !isfinite(exact))
        return;
    const double error = fabs((rounded - exact) / exact);
    if (error > e->max)
        e->max = error;
    e->squares += error * error;
    e->count++;
}

double numbers_error_rms(const numbers_error *e)
{
    return e->count ? sqrt(e->squares / (double)e->count) : 0;
}

/* A binary floating-point type narrower than a double: digits of its significand, powers of two of its smallest
 * denormal number and of the first number beyond its largest. */
typedef struct narrow {
    int digits, smallest, beyond;
} narrow;
static const narrow NARROW_F16 = {11, -24, 16}, NARROW_BF16 = {8, -133, 128};

static double narrow_round(double x, narrow to)
{
    int exponent = 0;

    if (x == 0 || !isfinite(x))
        return x;
    frexp(x, &exponent); /* 2^(exponent - 1) <= |x| < 2^exponent */
    const int quantum = exponent - to.digits > to.smallest ? exponent - to.digits : to.smallest;
    const double rounded = ldexp(rint(ldexp(x, -quantum)), quantum);
    return fabs(rounded) >= ldexp(1, to.beyond) ? copysign((double)INFINITY, x) : rounded;
}

static uint32_t bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Of a number that is one of F16's already. */
static uint16_t f16_bits(double x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double size = fabs(x);
    int exponent = 0;

    if (isnan(x))
        return sign | 0x7e00;
    if (isinf(x))
        return sign | 0x7c00;
    if (size < ldexp(1, -14)) /* denormal */
        return (uint16_t)(sign | (unsigned)ldexp(size, 24));
    const double fraction = frexp(size, &exponent);
    return (uint16_t)(sign | (unsigned)(exponent + 14) << 10 | ((unsigned)ldexp(fraction, 11) & 0x3ffu));
}

/* Writes one number and returns what it reads back as. */
static double number_write(unsigned char *dst, double x, ckpt_dtype dtype)
{
    uint64_t bits = 0;

    if (dtype == CKPT_F16) {
        x = narrow_round(x, NARROW_F16);
        store_u16(dst, f16_bits(x));
    } else if (dtype == CKPT_BF16) {
        x = narrow_round(x, NARROW_BF16);
        store_u16(dst, (uint16_t)(bits_of_float((float)x) >> 16));
    } else if (dtype == CKPT_F32) {
        store_u32(dst, bits_of_float((float)x));
        x = (double)(float)x;
    } else {
        memcpy(&bits, &x, sizeof bits);
        store_u64(dst, bits);
    }
    return x;
}

void numbers_write(void *dst, const double *src, size_t count, ckpt_dtype dtype, numbers_error *error)
{
    const size_t width = ckpt_dtype_size(dtype);
    unsigned char *const to = dst;

    for (size_t i = 0; i < count; i++)
        numbers_error_add(error, src[i], number_write(to + i * width, src[i], dtype));
}
