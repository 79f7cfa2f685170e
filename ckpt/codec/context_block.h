/* The part of a context kernel that is the same source for every instruction set. The loops are written so that the
 * compiler makes vectors of them.
 *
 * Included once by each kernel's file, which first defines
 *   CONTEXT_TARGET   attributes of every function, such as __attribute__((target("avx2,bmi2")))
 * and afterwards provides sums_of_vectors. */
#ifndef CKPT_CONTEXT_BLOCK_H
#define CKPT_CONTEXT_BLOCK_H

#include "bytes.h"
#include "context.h"

#include <assert.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "elements are little-endian"
#endif

/* log2(1 + m) - m, for the mantissa m of a float as a fraction of 1, is about 87/256 m (1 - m). So the bits of a float
 * plus this correction are its logarithm, and growing is adding there. */
#define DEFINE_GROWTH(N, MANTISSA)                                                                                     \
    static CONTEXT_TARGET inline uint##N##_t curve_##N(uint##N##_t b)                                                  \
    {                                                                                                                  \
        const uint##N##_t m = b >> (MANTISSA - 7) & 127;                                                               \
        return (m * (128 - m) * 87) << (MANTISSA - 22);                                                                \
    }                                                                                                                  \
    static CONTEXT_TARGET inline uint##N##_t grown_##N(uint##N##_t b, int growth)                                      \
    {                                                                                                                  \
        const uint##N##_t steps = (uint##N##_t)(int##N##_t)growth;                                                     \
        const uint##N##_t to = b + (steps << (MANTISSA - CONTEXT_GROWTH_SHIFT));                                       \
        return to + curve_##N(b) - curve_##N(to);                                                                      \
    }

DEFINE_GROWTH(32, 23)
DEFINE_GROWTH(64, 52)

/* Of floats that are not negative. */
#define DEFINE_GROWTHS(N, MANTISSA)                                                                                    \
    static CONTEXT_TARGET void growths_##N(int16_t *measure, const uint##N##_t *x, const uint##N##_t *y, int far,      \
                                           size_t count)                                                               \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const int32_t a = (int32_t)((x[i] + curve_##N(x[i])) >> (MANTISSA - CONTEXT_MEASURE_SHIFT));               \
            const int32_t b = (int32_t)((y[i] + curve_##N(y[i])) >> (MANTISSA - CONTEXT_MEASURE_SHIFT));               \
            const int32_t up = a - b < far ? a - b : far;                                                              \
            measure[i] = (int16_t)(up > -far ? up : -far);                                                             \
        }                                                                                                              \
    }

DEFINE_GROWTHS(32, 23)
DEFINE_GROWTHS(64, 52)

/* Numbers of N - zeros bits are worked on in the upper bits of N, so that signs and carries fall where they should.
 * Masks are all ones or zero: a float whose sign bit is set is complemented and any other gets its top bit flipped. */
#define DEFINE_NUMBERS(N)                                                                                              \
    static CONTEXT_TARGET inline uint##N##_t ordered_##N(uint##N##_t b, bool turned, uint##N##_t high)                 \
    {                                                                                                                  \
        const uint##N##_t top = (uint##N##_t)((uint##N##_t)1 << (N - 1));                                              \
        const uint##N##_t flip = (uint##N##_t)(((uint##N##_t)(0 - (uint##N##_t)(b >> (N - 1))) | top) & high);         \
        return (uint##N##_t)((b & high) ^ (turned ? flip : 0));                                                        \
    }                                                                                                                  \
                                                                                                                       \
    static CONTEXT_TARGET void numbers_##N(uint##N##_t *v, const context_layout *l, const uint##N##_t *x,              \
                                           const uint##N##_t *y, size_t count)                                         \
    {                                                                                                                  \
        const unsigned z = l->zeros;                                                                                   \
        const uint##N##_t high = (uint##N##_t)((uint##N##_t) ~(uint##N##_t)0 << z);                                    \
                                                                                                                       \
        if (l->number == CONTEXT_SUB && l->turned)                                                                     \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const uint##N##_t d = (uint##N##_t)(ordered_##N(x[i], true, high) - ordered_##N(y[i], true, high));    \
                const uint##N##_t sign = (uint##N##_t)((uint##N##_t)(0 - (uint##N##_t)(d >> (N - 1))) & high);         \
                v[i] = (uint##N##_t)((uint##N##_t)((uint##N##_t)(d << 1) ^ sign) >> z);                                \
            }                                                                                                          \
        else if (l->number == CONTEXT_SUB)                                                                             \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const uint##N##_t d = (uint##N##_t)(x[i] - (y[i] & high));                                             \
                const uint##N##_t sign = (uint##N##_t)((uint##N##_t)(0 - (uint##N##_t)(d >> (N - 1))) & high);         \
                v[i] = (uint##N##_t)((uint##N##_t)((uint##N##_t)(d << 1) ^ sign) >> z);                                \
            }                                                                                                          \
        else if (l->number == CONTEXT_XOR)                                                                             \
            for (size_t i = 0; i < count; i++)                                                                         \
                v[i] = (uint##N##_t)((uint##N##_t)(x[i] ^ y[i]) >> z);                                                 \
        else if (l->neighbours)                                                                                        \
            for (size_t i = 0; i < count; i++)                                                                         \
                v[i] = (uint##N##_t)(x[i] ^ (uint##N##_t)(y[i] & ((uint##N##_t)1 << (N - 1))));                        \
        else if (l->turned)                                                                                            \
            for (size_t i = 0; i < count; i++)                                                                         \
                v[i] = (uint##N##_t)(                                                                                  \
                    (uint##N##_t)((uint##N##_t)(x[i] << 1) | (uint##N##_t)((uint##N##_t)(x[i] >> (N - 1)) << z)) >>    \
                    z);                                                                                                \
        else                                                                                                           \
            for (size_t i = 0; i < count; i++)                                                                         \
                v[i] = (uint##N##_t)(x[i] >> z);                                                                       \
    }                                                                                                                  \
                                                                                                                       \
    static CONTEXT_TARGET void elements_##N(uint##N##_t *x, const context_layout *l, const uint##N##_t *v,             \
                                            const uint##N##_t *y, size_t count)                                        \
    {                                                                                                                  \
        const unsigned z = l->zeros;                                                                                   \
        const uint##N##_t high = (uint##N##_t)((uint##N##_t) ~(uint##N##_t)0 << z);                                    \
        const uint##N##_t top = (uint##N##_t)((uint##N##_t)1 << (N - 1));                                              \
                                                                                                                       \
        if (l->number == CONTEXT_SUB)                                                                                  \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const uint##N##_t odd = (uint##N##_t)(0 - (uint##N##_t)(v[i] & 1));                                    \
                const uint##N##_t d = (uint##N##_t)((uint##N##_t)((uint##N##_t)(v[i] >> 1) ^ odd) << z);               \
                const uint##N##_t sum = (uint##N##_t)(d + ordered_##N(y[i], l->turned, high));                         \
                const uint##N##_t flip =                                                                               \
                    (uint##N##_t)(((uint##N##_t)((uint##N##_t)(sum >> (N - 1)) - 1) | top) & high);                    \
                x[i] = (uint##N##_t)(sum ^ (l->turned ? flip : 0));                                                    \
            }                                                                                                          \
        else if (l->number == CONTEXT_XOR)                                                                             \
            for (size_t i = 0; i < count; i++)                                                                         \
                x[i] = (uint##N##_t)((uint##N##_t)(v[i] << z) ^ (y[i] & high));                                        \
        else if (l->neighbours)                                                                                        \
            for (size_t i = 0; i < count; i++)                                                                         \
                x[i] = (uint##N##_t)(v[i] ^ (uint##N##_t)(y[i] & top));                                                \
        else if (l->turned)                                                                                            \
            for (size_t i = 0; i < count; i++)                                                                         \
                x[i] = (uint##N##_t)((uint##N##_t)((uint##N##_t)(v[i] >> 1) << z) |                                    \
                                     (uint##N##_t)((uint##N##_t)(v[i] & 1) << (N - 1)));                               \
        else                                                                                                           \
            for (size_t i = 0; i < count; i++)                                                                         \
                x[i] = (uint##N##_t)(v[i] << z);                                                                       \
    }                                                                                                                  \
                                                                                                                       \
    static CONTEXT_TARGET void places_##N(uint8_t *place, const uint##N##_t *y, unsigned from, size_t count)           \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++)                                                                             \
            place[i] = (uint8_t)(y[i] >> from);                                                                        \
    }

DEFINE_NUMBERS(8)
DEFINE_NUMBERS(16)
DEFINE_NUMBERS(32)
DEFINE_NUMBERS(64)

/* Elements that do not stand where numbers of their width may are copied to where they do. */
typedef union context_run {
    uint8_t v8[CONTEXT_RUN];
    uint16_t v16[CONTEXT_RUN];
    uint32_t v32[CONTEXT_RUN];
    uint64_t v64[CONTEXT_RUN];
} context_run;

static CONTEXT_TARGET bool stands_well(const void *elements, const context_layout *l)
{
    return (uintptr_t)elements % l->width == 0;
}

static CONTEXT_TARGET const void *run_read(context_run *room, const void *src, const context_layout *l, size_t count)
{
    assert(count <= CONTEXT_RUN);
    if (!src || stands_well(src, l))
        return src;
    return memcpy(room, src, count * l->width);
}

static CONTEXT_TARGET void kernel_grow(void *reference, unsigned width, const int16_t *growth, size_t count)
{
    uint32_t *const narrow = reference;
    uint64_t *const wide = reference;

    if (growth && width == 4)
        for (size_t i = 0; i < count; i++)
            narrow[i] = grown_32(narrow[i], growth[i]);
    if (growth && width == 8)
        for (size_t i = 0; i < count; i++)
            wide[i] = grown_64(wide[i], growth[i]);
}

static CONTEXT_TARGET void kernel_growths(int16_t *measure, unsigned width, const void *x, const void *y, int far,
                                          size_t count)
{
    context_run a, b;

    memcpy(&a, x, count * width);
    memcpy(&b, y, count * width);
    if (width == 4)
        growths_32(measure, a.v32, b.v32, far, count);
    else
        growths_64(measure, a.v64, b.v64, far, count);
}

/* ---- Neighbours ---- */

/* Floats are only added and multiplied where nothing can overflow, so that no NaN comes up, whose bits differ between
 * machines: exponents are below FLOAT_HUGE. One operation after the other, each rounded for itself: the file is built
 * without contraction. */
enum { FLOAT_HUGE = 192 };

/* Floats of the bits given, 0 for those of what is huge or no number. Bits and floats are in arrays of their own, since
 * compilers make no vectors of what goes from one to the other element by element. */
static CONTEXT_TARGET void floats_of(float value[CONTEXT_RUN], const uint32_t *bits, size_t count)
{
    uint32_t tamed[CONTEXT_RUN];

    for (size_t i = 0; i < count; i++)
        tamed[i] = (bits[i] >> 23 & 255) < FLOAT_HUGE ? bits[i] : 0;
    memcpy(value, tamed, count * sizeof *value);
}

static CONTEXT_TARGET void kernel_predict(float *prediction, const float *value, size_t plane_size,
                                          const int8_t *weight, unsigned lags, size_t count)
{
    for (size_t i = 0; i < count; i++)
        prediction[i] = 0;
    for (unsigned lag = 1; lag <= lags; lag++) {
        const float *const before = value - lag * plane_size;
        const float by = (float)weight[lag - 1] / CONTEXT_WEIGHT_ONE;
        for (size_t i = 0; i < count; i++)
            prediction[i] += before[i] * by;
    }
}

static CONTEXT_TARGET void kernel_approach(uint32_t *reference, const float *prediction, size_t count)
{
    float sum[CONTEXT_RUN];
    uint32_t bits[CONTEXT_RUN];

    floats_of(sum, reference, count);
    for (size_t i = 0; i < count; i++)
        sum[i] += prediction[i];
    memcpy(bits, sum, count * sizeof *bits);
    for (size_t i = 0; i < count; i++)
        reference[i] = (reference[i] >> 23 & 255) < FLOAT_HUGE ? bits[i] : reference[i];
}

static CONTEXT_TARGET void kernel_values(float *value, const uint32_t *element, const uint32_t *reference, size_t count)
{
    float of_element[CONTEXT_RUN], of_reference[CONTEXT_RUN];

    floats_of(of_element, element, count);
    if (!reference) {
        memcpy(value, of_element, count * sizeof *value);
        return;
    }
    floats_of(of_reference, reference, count);
    for (size_t i = 0; i < count; i++)
        value[i] = of_element[i] - of_reference[i];
}

/* ---- Passes ---- */

static CONTEXT_TARGET void kernel_numbers(void *numbers, const context_layout *l, const void *src,
                                          const void *reference, size_t count)
{
    context_run room[3];
    const void *const from = run_read(&room[0], src, l, count), *const y = run_read(&room[1], reference, l, count);
    void *const to = stands_well(numbers, l) ? numbers : &room[2];

    switch (l->width) {
    case 1:
        numbers_8(to, l, from, y, count);
        break;
    case 2:
        numbers_16(to, l, from, y, count);
        break;
    case 4:
        numbers_32(to, l, from, y, count);
        break;
    default:
        numbers_64(to, l, from, y, count);
    }
    if (to != numbers)
        memcpy(numbers, to, count * l->width);
}

static CONTEXT_TARGET void kernel_elements(void *dst, const context_layout *l, const void *numbers,
                                           const void *reference, size_t count)
{
    context_run room[3];
    const void *const from = run_read(&room[0], numbers, l, count), *const y = run_read(&room[1], reference, l, count);
    void *const to = stands_well(dst, l) ? dst : &room[2];

    switch (l->width) {
    case 1:
        elements_8(to, l, from, y, count);
        break;
    case 2:
        elements_16(to, l, from, y, count);
        break;
    case 4:
        elements_32(to, l, from, y, count);
        break;
    default:
        elements_64(to, l, from, y, count);
    }
    if (to != dst)
        memcpy(dst, to, count * l->width);
}

static CONTEXT_TARGET void kernel_places(uint8_t *place, const context_layout *l, const void *reference, size_t count)
{
    context_run room;
    const void *const y = run_read(&room, reference, l, count);

    switch (l->width) {
    case 1:
        places_8(place, y, l->place_from, count);
        break;
    case 2:
        places_16(place, y, l->place_from, count);
        break;
    case 4:
        places_32(place, y, l->place_from, count);
        break;
    default:
        places_64(place, y, l->place_from, count);
    }
}

#define DEFINE_MOST(N)                                                                                                 \
    static CONTEXT_TARGET uint64_t most_##N(const uint##N##_t *v, size_t count)                                        \
    {                                                                                                                  \
        uint##N##_t most = 0;                                                                                          \
        for (size_t i = 0; i < count; i++)                                                                             \
            most = v[i] > most ? v[i] : most;                                                                          \
        return most;                                                                                                   \
    }

DEFINE_MOST(8)
DEFINE_MOST(16)
DEFINE_MOST(32)
DEFINE_MOST(64)

/* `numbers` is aligned. */
static CONTEXT_TARGET uint64_t kernel_most(const void *numbers, unsigned width, size_t count)
{
    switch (width) {
    case 1:
        return most_8(numbers, count);
    case 2:
        return most_16(numbers, count);
    case 4:
        return most_32(numbers, count);
    default:
        return most_64(numbers, count);
    }
}

static CONTEXT_TARGET void kernel_translate(uint8_t *to, const uint8_t *from, const uint8_t table[256], size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = table[from[i]];
}

/* Provided by the kernel's file for as many elements from the first on as it likes; how many is returned. */
static CONTEXT_TARGET size_t sums_of_vectors(uint8_t *value, const uint8_t *place, int row, const int8_t *column,
                                             const context_sums *sums, size_t count);

static CONTEXT_TARGET void kernel_sums(uint8_t *value, const uint8_t *place, int row, const int8_t *column,
                                       const context_sums *sums, size_t count)
{
    const uint8_t *const of = sums->of - CONTEXT_SUM_MIN + row;
    size_t i = 0;

    if (!place && !column) {
        memset(value, of[sums->single], count);
        return;
    }
    for (i = sums_of_vectors(value, place, row, column, sums, count); i < count; i++)
        value[i] = of[(place ? sums->place_of[place[i]] : sums->single) + (column ? column[i] : 0)];
}

#define DEFINE_JOIN(N)                                                                                                 \
    static CONTEXT_TARGET void join_##N(void *numbers, const context_cuts *cuts, const uint8_t *symbol,                \
                                        const unsigned char *bits, uint64_t *at, size_t count)                         \
    {                                                                                                                  \
        uint##N##_t *const v = numbers;                                                                                \
        uint64_t from = *at;                                                                                           \
                                                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const uint64_t cut = cuts->packed[symbol[i]];                                                              \
            const unsigned length = (uint8_t)cut;                                                                      \
            const uint64_t word = load_u64(bits + (from >> 3)) >> (from & 7);                                          \
            v[i] = (uint##N##_t)((cut >> 8) + (word & (((uint64_t)1 << length) - 1)));                                 \
            from += length;                                                                                            \
        }                                                                                                              \
        *at = from;                                                                                                    \
    }

DEFINE_JOIN(8)
DEFINE_JOIN(16)
DEFINE_JOIN(32)

/* Up to 64 bits, which may begin inside a byte and so reach into a ninth. */
static CONTEXT_TARGET void join_64(void *numbers, const context_cuts *cuts, const uint8_t *symbol,
                                   const unsigned char *bits, uint64_t *at, size_t count)
{
    uint64_t *const v = numbers;
    uint64_t from = *at;

    for (size_t i = 0; i < count; i++) {
        const unsigned length = cuts->alphabet->bits[symbol[i]], shift = (unsigned)(from & 7);
        const unsigned char *const p = bits + (from >> 3);
        const uint64_t word = load_u64(p) >> shift | (uint64_t)p[8] << 1 << (63 - shift);
        const uint64_t mask = length == 64 ? UINT64_MAX : ((uint64_t)1 << length) - 1;
        v[i] = cuts->alphabet->base[symbol[i]] + (word & mask);
        from += length;
    }
    *at = from;
}

static CONTEXT_TARGET void kernel_join(void *numbers, unsigned width, const context_cuts *cuts, const uint8_t *symbol,
                                       const unsigned char *bits, uint64_t *at, size_t count)
{
    switch (width) {
    case 1:
        join_8(numbers, cuts, symbol, bits, at, count);
        break;
    case 2:
        join_16(numbers, cuts, symbol, bits, at, count);
        break;
    case 4:
        join_32(numbers, cuts, symbol, bits, at, count);
        break;
    default:
        join_64(numbers, cuts, symbol, bits, at, count);
    }
}

/* Members of a context_kernel that are the same for all; sums calls the file's own sums_of_vectors. */
#define CONTEXT_KERNEL_SHARED                                                                                          \
    .numbers = kernel_numbers, .elements = kernel_elements, .places = kernel_places, .sums = kernel_sums,              \
    .most = kernel_most, .growths = kernel_growths, .grow = kernel_grow, .predict = kernel_predict,                    \
    .approach = kernel_approach, .values = kernel_values

#endif
