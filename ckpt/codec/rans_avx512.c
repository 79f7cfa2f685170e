/* The rANS coder for x86 machines with AVX-512: eight lanes a vector, as with AVX2, since sixteen wait longer for one
 * another; but words go to their lanes in one instruction, and what that leaves free does better than a gather. */
#include "rans.h"

#include "cpu.h"

#include <assert.h>

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi2,popcnt")))
#define INLINE inline __attribute__((always_inline))

static TARGET INLINE __m128i look_4(const rans_slot *slots, __m128i at)
{
    const uint64_t low = (uint64_t)_mm_cvtsi128_si64(at), high = (uint64_t)_mm_extract_epi64(at, 1);
    __m128i four = _mm_cvtsi32_si128((int)slots[(uint32_t)low]);

    four = _mm_insert_epi32(four, (int)slots[low >> 32], 1);
    four = _mm_insert_epi32(four, (int)slots[(uint32_t)high], 2);
    return _mm_insert_epi32(four, (int)slots[high >> 32], 3);
}

static TARGET INLINE __m256i look_8(const rans_slot *slots, __m256i at)
{
    const __m128i low = look_4(slots, _mm256_castsi256_si128(at));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), look_4(slots, _mm256_extracti128_si256(at, 1)), 1);
}

static TARGET INLINE __m256i step(__m256i x, const unsigned char **in, unsigned char *symbol,
                                  const unsigned char *table, const rans_slot *slots)
{
    const __m256i tables = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)table));
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(RANS_TOTAL - 1));
    const __m256i slot = look_8(slots, _mm256_or_si256(_mm256_slli_epi32(tables, RANS_LOG2), low));
    const __m256i frequency =
        _mm256_add_epi32(_mm256_and_si256(_mm256_srli_epi32(slot, 8), _mm256_set1_epi32(0xfff)), _mm256_set1_epi32(1));

    _mm_storel_epi64((__m128i *)symbol, _mm256_cvtepi32_epi8(slot));
    x = _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(x, RANS_LOG2)), _mm256_srli_epi32(slot, 20));
    /* The next words go, in order, to the lanes that want one. */
    const __mmask8 want = _mm256_cmplt_epu32_mask(x, _mm256_set1_epi32(RANS_LOW));
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)*in));
    *in += 2 * (size_t)_mm_popcnt_u32(want);
    return _mm256_mask_or_epi32(x, want, _mm256_slli_epi32(x, 16), _mm256_maskz_expand_epi32(want, words));
}

#include "rans_vectors.h"

rans_decode_fn *rans_decode_avx512(void)
{
    return cpu_has(CPU_AVX512) ? decode_vectors : NULL;
}

/* ---- Encoding ---- */

/* What is to be known of eight symbols, each member in a vector of its own. */
typedef struct symbols_8 {
    __m256i limit, reciprocal, bias, last; /* last: complement in the low half, shift in the high one */
} symbols_8;
static_assert(sizeof(rans_symbol) == sizeof(__m128i), "symbols are loaded whole");

/* Those of two lanes, four lanes apart. */
static TARGET INLINE __m256i two_load(const rans_symbol *symbols, unsigned low, unsigned high)
{
    const __m256i first = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(symbols + low)));
    return _mm256_inserti128_si256(first, _mm_loadu_si128((const __m128i *)(symbols + high)), 1);
}

static TARGET INLINE symbols_8 symbols_load(const rans_symbol *symbols, const unsigned char *symbol,
                                            const unsigned char *table)
{
    const __m128i at =
        _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)symbol), _mm_loadl_epi64((const __m128i *)table));
    const uint64_t low = (uint64_t)_mm_cvtsi128_si64(at), high = (uint64_t)_mm_extract_epi64(at, 1);
    const __m256i a = two_load(symbols, (uint16_t)low, (uint16_t)high);
    const __m256i b = two_load(symbols, (uint16_t)(low >> 16), (uint16_t)(high >> 16));
    const __m256i c = two_load(symbols, (uint16_t)(low >> 32), (uint16_t)(high >> 32));
    const __m256i d = two_load(symbols, (uint16_t)(low >> 48), (uint16_t)(high >> 48));
    const __m256i ab_first = _mm256_unpacklo_epi32(a, b), ab_last = _mm256_unpackhi_epi32(a, b);
    const __m256i cd_first = _mm256_unpacklo_epi32(c, d), cd_last = _mm256_unpackhi_epi32(c, d);

    return (symbols_8){.limit = _mm256_unpacklo_epi64(ab_first, cd_first),
                       .reciprocal = _mm256_unpackhi_epi64(ab_first, cd_first),
                       .bias = _mm256_unpacklo_epi64(ab_last, cd_last),
                       .last = _mm256_unpackhi_epi64(ab_last, cd_last)};
}
static_assert(RANS_SYMBOLS_MAX == 256, "a table's number stands above a byte");

/* Writes up to 16 bytes in front of *out, of which those count that *out then points to. */
static TARGET INLINE __m256i encode_step(__m256i x, unsigned char **out, const rans_symbol *symbols,
                                         const unsigned char *symbol, const unsigned char *table)
{
    static const unsigned char LAST[32] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                           0x80, 0x80, 0x80, 0x80, 0x80, 0,    1,    2,    3,    4,    5,
                                           6,    7,    8,    9,    10,   11,   12,   13,   14,   15};
    const symbols_8 s = symbols_load(symbols, symbol, table);

    /* The low words of full lanes, moved to the end of 16 bytes. */
    const __mmask8 full = _mm256_cmpge_epu32_mask(x, s.limit);
    const size_t size = 2 * (size_t)_mm_popcnt_u32(full);
    const __m128i words = _mm256_cvtepi32_epi16(_mm256_maskz_compress_epi32(full, x));
    _mm_storeu_si128((__m128i *)(*out - 16), _mm_shuffle_epi8(words, _mm_loadu_si128((const __m128i *)(LAST + size))));
    *out -= size;
    x = _mm256_mask_srli_epi32(x, full, x, 16);
    /* The upper halves of products, of even lanes and of odd ones. */
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(x, s.reciprocal), 32);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(s.reciprocal, 32));
    const __m256i upper = _mm256_blend_epi32(even, odd, 0xaa);
    const __m256i quotient = _mm256_srlv_epi32(upper, _mm256_srli_epi32(s.last, 16));
    const __m256i complement = _mm256_and_si256(s.last, _mm256_set1_epi32(0xffff));
    return _mm256_add_epi32(_mm256_add_epi32(x, s.bias), _mm256_mullo_epi32(quotient, complement));
}

/* Codes as many symbols as whole rounds of all lanes have room for, the last of `count` first; returns how many are
 * left. */
static TARGET size_t encode_rounds(unsigned char **out, uint32_t state[RANS_LANES_MAX], const unsigned char *dst,
                                   const rans_symbol *symbols, const unsigned char *symbol, const unsigned char *table,
                                   size_t count)
{
    unsigned char *at = *out;
    __m256i x[VECTORS_MAX];

    for (unsigned v = 0; v < VECTORS_MAX; v++)
        x[v] = _mm256_loadu_si256((const __m256i *)state + v);
    for (; count >= RANS_LANES_MAX && at - dst >= 16 * VECTORS_MAX; count -= RANS_LANES_MAX)
        for (unsigned v = VECTORS_MAX; v-- > 0;) {
            const size_t i = count - RANS_LANES_MAX + (size_t)v * VECTOR_LANES;
            x[v] = encode_step(x[v], &at, symbols, symbol + i, table + i);
        }
    for (unsigned v = 0; v < VECTORS_MAX; v++)
        _mm256_storeu_si256((__m256i *)state + v, x[v]);
    *out = at;
    return count;
}

rans_encode_fn *rans_encode_avx512(void)
{
    return cpu_has(CPU_AVX512) ? encode_rounds : NULL;
}

#else

rans_encode_fn *rans_encode_avx512(void)
{
    return NULL;
}

rans_decode_fn *rans_decode_avx512(void)
{
    return NULL;
}

#endif
