/* The rANS decoder for x86 machines with AVX2: eight lanes a vector. */
#include "rans.h"

#include "cpu.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi2,popcnt")))

/* For each set of lanes that want a word, in which order the next words go to the lanes: bits 4 l to 4 l + 3 are the
 * number of the word for lane l. */
static TARGET inline __m256i words_order(unsigned wanting)
{
    /* The number of wanting lanes below each lane: nibbles of ones at wanting lanes, then added up by a product. */
    const uint64_t ones = _pdep_u64(wanting, 0x0101010101010101u);
    const uint64_t before = (ones * 0x0101010101010101u) - ones;

    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)before));
}

static TARGET inline __attribute__((always_inline)) __m256i
step(__m256i x, const unsigned char **in, unsigned char *symbol, const unsigned char *table, const rans_slot *slots)
{
    const __m256i tables = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)table));
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(RANS_TOTAL - 1));
    const __m256i at = _mm256_or_si256(_mm256_slli_epi32(tables, RANS_LOG2), low);
    const __m256i slot = _mm256_i32gather_epi32((const int *)slots, at, 4);
    const __m256i frequency =
        _mm256_add_epi32(_mm256_and_si256(_mm256_srli_epi32(slot, 8), _mm256_set1_epi32(0xfff)), _mm256_set1_epi32(1));

    /* The symbols: byte 0 of each lane. */
    const __m256i pick = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                          0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i picked = _mm256_shuffle_epi8(slot, pick);
    _mm_storel_epi64((__m128i *)symbol,
                     _mm_or_si128(_mm256_castsi256_si128(picked), _mm256_extracti128_si256(picked, 1)));

    x = _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(x, RANS_LOG2)), _mm256_srli_epi32(slot, 20));
    const __m256i want = _mm256_cmpgt_epi32(_mm256_set1_epi32(RANS_LOW), x);
    const unsigned wanting = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(want));
    const __m256i words =
        _mm256_permutevar8x32_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)*in)), words_order(wanting));
    *in += 2 * (size_t)_mm_popcnt_u32(wanting);
    return _mm256_blendv_epi8(x, _mm256_or_si256(_mm256_slli_epi32(x, 16), words), want);
}

#include "rans_vectors.h"

rans_decode_fn *rans_decode_avx2(void)
{
    return cpu_has(CPU_AVX2) ? decode_vectors : NULL;
}

#else

rans_decode_fn *rans_decode_avx2(void)
{
    return NULL;
}

#endif
