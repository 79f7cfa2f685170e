/* The context kernel for x86 machines with AVX2. */
#include "context.h"

#include "cpu.h"

#if defined(__x86_64__)

#define CONTEXT_TARGET __attribute__((target("avx2,bmi2")))
#include "context_block.h"

#include <immintrin.h>

/* Tables of 64 bytes, four vectors of which each has 16 of them twice. */
typedef struct table_64 {
    __m256i part[4];
} table_64;

static CONTEXT_TARGET inline table_64 table_load(const uint8_t bytes[64])
{
    table_64 t;

    for (unsigned i = 0; i < 4; i++)
        t.part[i] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)bytes + i));
    return t;
}

/* at: from 0 to 63. Bits 0-3 choose in each part, 4 and 5 choose the part: blending looks at the top bit of a byte. */
static CONTEXT_TARGET inline __m256i table_look(const table_64 *t, __m256i at)
{
    const __m256i bit_4 = _mm256_slli_epi16(at, 3), bit_5 = _mm256_slli_epi16(at, 2);
    const __m256i low =
        _mm256_blendv_epi8(_mm256_shuffle_epi8(t->part[0], at), _mm256_shuffle_epi8(t->part[1], at), bit_4);
    const __m256i high =
        _mm256_blendv_epi8(_mm256_shuffle_epi8(t->part[2], at), _mm256_shuffle_epi8(t->part[3], at), bit_4);

    return _mm256_blendv_epi8(low, high, bit_5);
}

static CONTEXT_TARGET size_t sums_of_vectors(uint8_t *value, const uint8_t *place, int row, const int8_t *column,
                                             const context_sums *sums, size_t count)
{
    const table_64 places = table_load(sums->near), levels = table_load(sums->level);
    const __m256i first = _mm256_set1_epi8((char)sums->first), most = _mm256_set1_epi8(CONTEXT_LEVELS - 1);
    const __m256i rows = _mm256_set1_epi8((char)row);
    __m256i level = _mm256_set1_epi8((char)sums->single), by = _mm256_setzero_si256();
    size_t i = 0;

    for (; i + sizeof(__m256i) <= count; i += sizeof(__m256i)) {
        if (place) {
            const __m256i byte = _mm256_loadu_si256((const __m256i *)(place + i));
            level = table_look(&places, _mm256_min_epu8(_mm256_subs_epu8(byte, first), most));
        }
        if (column)
            by = _mm256_loadu_si256((const __m256i *)(column + i));
        /* Sums are inside CONTEXT_SUM_MIN and CONTEXT_SUM_MAX, which a signed byte holds. */
        const __m256i sum = _mm256_add_epi8(_mm256_add_epi8(level, rows), by);
        const __m256i cut = _mm256_min_epi8(_mm256_max_epi8(sum, _mm256_setzero_si256()), most);
        _mm256_storeu_si256((__m256i *)(value + i), table_look(&levels, cut));
    }
    return i;
}

static const context_kernel KERNEL = {
    .name = "avx2", CONTEXT_KERNEL_SHARED, .translate = kernel_translate, .join = kernel_join};

const context_kernel *context_kernel_avx2(void)
{
    return cpu_has(CPU_AVX2) ? &KERNEL : NULL;
}

#else

const context_kernel *context_kernel_avx2(void)
{
    return NULL;
}

#endif
