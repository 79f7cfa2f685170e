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
