/* Cutting numbers into fine symbols and raw bits: the passes of the encoder that are the same on every machine. */
#include "context_internal.h"

#include "bytes.h"

#include <assert.h>

enum { FINE_MANTISSA = CONTEXT_FINE_MANTISSA, FINE_OCTAVE_TOP = 1 << FINE_MANTISSA, FINE_OCTAVE_LENGTH = 4 };

static void alphabet_add(context_alphabet *a, uint64_t base, unsigned bits)
{
    assert(a->count < RANS_SYMBOLS_MAX);
    a->base[a->count] = base;
    a->bits[a->count++] = (uint8_t)bits;
}

context_cut context_fine_by_length(context_fine *fine, unsigned bits)
{
    fine->octave = FINE_OCTAVE_LENGTH;
    for (uint64_t v = 0; v < (uint64_t)1 << (bits < 3 ? bits : 3); v++)
        alphabet_add(&fine->alphabet, v, 0);
    for (unsigned length = 4; length <= bits; length++)
        for (uint64_t v = 4; v < 8; v++)
            alphabet_add(&fine->alphabet, v << (length - 3), length - 3);
    for (unsigned f = 0; f < fine->alphabet.count; f++)
        fine->size[f] = (uint8_t)f;
    return (context_cut){.by_length = true};
}

/* Dyadic intervals for all numbers from `from` to `to` - 1, in units of 1 << shift. */
static void fine_cover(context_alphabet *a, uint64_t from, uint64_t to, unsigned shift)
{
    while (from < to) {
        unsigned bits = from ? (unsigned)__builtin_ctzll(from) : 63;
        while ((uint64_t)1 << bits > to - from)
            bits--;
        alphabet_add(a, from << shift, bits + shift);
        from += (uint64_t)1 << bits;
    }
}

static unsigned low_symbol(const context_alphabet *a, uint64_t number)
{
    unsigned symbol = 0;
    while (a->base[symbol] + ((uint64_t)1 << a->bits[symbol]) <= number)
        symbol++;
    return symbol;
}

#define DEFINE_FINE(N)                                                                                                 \
    static void fine_symbols_##N(uint8_t *symbol, const uint##N##_t *v, const context_cut *cut,                        \
                                 const context_alphabet *a, size_t count)                                              \
    {                                                                                                                  \
        if (cut->by_length) {                                                                                          \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const unsigned shift = 61u - (unsigned)__builtin_clzll((uint64_t)v[i] | 4);                            \
                symbol[i] = (uint8_t)(4 * shift + (unsigned)(v[i] >> shift));                                          \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        const uint##N##_t low = (uint##N##_t)cut->low;                                                                 \
        const unsigned base = cut->low_symbols - (unsigned)low;                                                        \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const uint##N##_t u = (uint##N##_t)(v[i] >> cut->shift);                                                   \
            symbol[i] = (uint8_t)(u >= low ? (unsigned)u + base : low_symbol(a, v[i]));                                \
        }                                                                                                              \
    }

DEFINE_FINE(8)
DEFINE_FINE(16)
DEFINE_FINE(32)
DEFINE_FINE(64)

context_cut context_fine_by_top(context_fine *fine, unsigned bits, unsigned top_bits, uint64_t most)
{
    const unsigned top = top_bits < bits ? top_bits : bits;
    const unsigned below = top < FINE_MANTISSA ? top : FINE_MANTISSA;
    /* The window is whole octaves, and so is what lies on either side of it: covering that takes at most as many
     * intervals as the number of an octave has bits. */
    const uint64_t window = (RANS_SYMBOLS_MAX - 2 * (top - below)) & ~(uint64_t)(FINE_OCTAVE_TOP - 1);
    context_cut cut = {.shift = bits - top};

    const uint64_t last = most >> cut.shift | (((uint64_t)1 << below) - 1);
    cut.low = last < window ? 0 : last + 1 - window;
    fine->octave = FINE_OCTAVE_TOP;
    fine_cover(&fine->alphabet, 0, cut.low, cut.shift);
    cut.low_symbols = fine->alphabet.count;
    for (uint64_t v = cut.low; v <= last; v++)
        alphabet_add(&fine->alphabet, v << cut.shift, cut.shift);
    fine_cover(&fine->alphabet, last + 1, (uint64_t)1 << top, cut.shift);
    for (unsigned f = 0; f < fine->alphabet.count; f++)
        fine->size[f] = (uint8_t)f;
    return cut;
}

enum { SIGN_MANTISSA = 2, SIGN_OCTAVE = 1 << SIGN_MANTISSA, SIGN_TOP = 1 << (8 + SIGN_MANTISSA), SIGN_WINDOW = 112 };
#define SIGN_BIT ((uint32_t)1 << 31)

context_cut context_fine_by_sign(context_fine *fine, const uint32_t *numbers, size_t count)
{
    context_alphabet *const a = &fine->alphabet;
    context_cut cut = {.shift = 31 - 8 - SIGN_MANTISSA};
    uint32_t most = 0;

    for (size_t i = 0; i < count; i++)
        most = (numbers[i] & ~SIGN_BIT) > most ? numbers[i] & ~SIGN_BIT : most;
    const uint64_t last = most >> cut.shift | (SIGN_OCTAVE - 1);
    cut.low = last < SIGN_WINDOW ? 0 : last + 1 - SIGN_WINDOW;
    fine->octave = SIGN_OCTAVE;
    for (uint64_t base = 0; base <= SIGN_TOP; base += SIGN_TOP) {
        const unsigned first = a->count;
        fine_cover(a, base, base + cut.low, cut.shift);
        cut.low_symbols = a->count - first;
        for (uint64_t v = cut.low; v <= last; v++)
            alphabet_add(a, (base + v) << cut.shift, cut.shift);
        fine_cover(a, base + last + 1, base + SIGN_TOP, cut.shift);
        for (unsigned f = first; f < a->count; f++)
            fine->size[f] = (uint8_t)(f - first);
        cut.half = base ? first : 0;
    }
    return cut;
}

/* As fine_symbols_32, for numbers with a sign. */
static void fine_symbols_sign(uint8_t *symbol, const uint32_t *v, const context_cut *cut, const context_alphabet *a,
                              size_t count)
{
    const uint32_t low = (uint32_t)cut->low;
    const unsigned base = cut->low_symbols - low;

    for (size_t i = 0; i < count; i++) {
        const uint32_t u = (v[i] & ~SIGN_BIT) >> cut->shift;
        symbol[i] = (uint8_t)(u >= low ? u + base + (v[i] >> 31) * cut->half : low_symbol(a, v[i]));
    }
}

void context_fine_symbols(uint8_t *symbol, const void *numbers, unsigned width, const context_cut *cut,
                          const context_alphabet *a, size_t count)
{
    if (cut->half) {
        fine_symbols_sign(symbol, numbers, cut, a, count);
        return;
    }
    switch (width) {
    case 1:
        fine_symbols_8(symbol, numbers, cut, a, count);
        break;
    case 2:
        fine_symbols_16(symbol, numbers, cut, a, count);
        break;
    case 4:
        fine_symbols_32(symbol, numbers, cut, a, count);
        break;
    default:
        fine_symbols_64(symbol, numbers, cut, a, count);
    }
}

/* ---- Raw bits ---- */

/* Up to 57 bits fit at once behind those of a byte that is not full. */
#define DEFINE_BITS(N)                                                                                                 \
    static uint64_t bits_write_##N(unsigned char *dst, const uint##N##_t *v, const context_alphabet *a,                \
                                   const uint8_t *symbol, size_t count)                                                \
    {                                                                                                                  \
        uint64_t word = 0, at = 0;                                                                                     \
        unsigned filled = 0;                                                                                           \
                                                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                           \
            word |= (v[i] - a->base[symbol[i]]) << filled;                                                             \
            filled += a->bits[symbol[i]];                                                                              \
            store_u64(dst + at, word);                                                                                 \
            at += filled >> 3;                                                                                         \
            word >>= filled & 0x38;                                                                                    \
            filled &= 7;                                                                                               \
        }                                                                                                              \
        return 8 * at + filled;                                                                                        \
    }

DEFINE_BITS(8)
DEFINE_BITS(16)
DEFINE_BITS(32)

static uint64_t bits_write_64(unsigned char *dst, const uint64_t *v, const context_alphabet *a, const uint8_t *symbol,
                              size_t count)
{
    uint64_t word = 0, at = 0;
    unsigned filled = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t bits = v[i] - a->base[symbol[i]];
        for (unsigned left = a->bits[symbol[i]]; left > 0;) {
            const unsigned now = left < 32 ? left : 32;
            word |= (bits & (((uint64_t)1 << now) - 1)) << filled;
            filled += now;
            store_u64(dst + at, word);
            at += filled >> 3;
            word >>= filled & 0x38;
            filled &= 7;
            bits >>= now;
            left -= now;
        }
    }
    return 8 * at + filled;
}

uint64_t context_bits_write(unsigned char *dst, const void *numbers, unsigned width, const context_alphabet *a,
                            const uint8_t *symbol, size_t count)
{
    switch (width) {
    case 1:
        return bits_write_8(dst, numbers, a, symbol, count);
    case 2:
        return bits_write_16(dst, numbers, a, symbol, count);
    case 4:
        return bits_write_32(dst, numbers, a, symbol, count);
    default:
        return bits_write_64(dst, numbers, a, symbol, count);
    }
}
