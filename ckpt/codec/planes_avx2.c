/* The plane kernel for x86 machines with AVX2. */
#include "planes.h"

#include "cpu.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define PLANES_TARGET __attribute__((target("avx2")))
#include "planes_block.h"

/* Cutting elements of 2^k bytes is k times the same step: of a pair of vectors, the bytes at even places and those at
 * odd places. */
static PLANES_TARGET inline void cut_pair(__m256i *even, __m256i *odd, __m256i a, __m256i b)
{
    const __m256i low = _mm256_set1_epi16(0x00ff);
    const __m256i e = _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    const __m256i o = _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));

    /* Packing works in each half: a0 b0 a1 b1 -> a0 a1 b0 b1. */
    *even = _mm256_permute4x64_epi64(e, 0xd8);
    *odd = _mm256_permute4x64_epi64(o, 0xd8);
}

static PLANES_TARGET inline void join_pair(__m256i *a, __m256i *b, __m256i even, __m256i odd)
{
    const __m256i low = _mm256_unpacklo_epi8(even, odd), high = _mm256_unpackhi_epi8(even, odd);

    *a = _mm256_permute2x128_si256(low, high, 0x20);
    *b = _mm256_permute2x128_si256(low, high, 0x31);
}

/* v: `width` vectors of elements. Afterwards v[p] is plane p. Inlined with a constant width, all loops vanish. */
static PLANES_TARGET inline __attribute__((always_inline)) void cut_vectors(__m256i v[PLANES_WIDTH_MAX],
                                                                            const unsigned width)
{
    __m256i w[PLANES_WIDTH_MAX];

    /* v holds `streams` streams one behind the other, stream s of the bytes at places s, s + streams, ... */
    for (unsigned streams = 1; streams < width; streams *= 2) {
        const unsigned length = width / streams;
        for (unsigned s = 0; s < streams; s++)
            for (unsigned i = 0; i < length / 2; i++)
                cut_pair(&w[s * (length / 2) + i], &w[(s + streams) * (length / 2) + i], v[s * length + 2 * i],
                         v[s * length + 2 * i + 1]);
        for (unsigned i = 0; i < width; i++)
            v[i] = w[i];
    }
}

static PLANES_TARGET inline __attribute__((always_inline)) void join_vectors(__m256i v[PLANES_WIDTH_MAX],
                                                                             const unsigned width)
{
    __m256i w[PLANES_WIDTH_MAX];

    for (unsigned streams = width / 2; streams >= 1; streams /= 2) {
        const unsigned length = width / streams;
        for (unsigned s = 0; s < streams; s++)
            for (unsigned i = 0; i < length / 2; i++)
                join_pair(&w[s * length + 2 * i], &w[s * length + 2 * i + 1], v[s * (length / 2) + i],
                          v[(s + streams) * (length / 2) + i]);
        for (unsigned i = 0; i < width; i++)
            v[i] = w[i];
    }
}

static PLANES_TARGET inline __attribute__((always_inline)) void cut_block(unsigned char *const plane[PLANES_WIDTH_MAX],
                                                                          const block *b, const unsigned width)
{
    for (size_t first = 0; first < BLOCK_ELEMENTS; first += VECTOR_BYTES) {
        __m256i v[PLANES_WIDTH_MAX];
        for (unsigned i = 0; i < width; i++)
            v[i] = _mm256_loadu_si256((const __m256i *)(b->bytes + first * width) + i);
        cut_vectors(v, width);
        for (unsigned p = 0; p < width; p++)
            _mm256_storeu_si256((__m256i *)(plane[p] + first), v[p]);
    }
}

static PLANES_TARGET inline __attribute__((always_inline)) void
join_block(block *b, const unsigned char *const plane[PLANES_WIDTH_MAX], const unsigned width)
{
    for (size_t first = 0; first < BLOCK_ELEMENTS; first += VECTOR_BYTES) {
        __m256i v[PLANES_WIDTH_MAX];
        for (unsigned p = 0; p < width; p++)
            v[p] = _mm256_loadu_si256((const __m256i *)(plane[p] + first));
        join_vectors(v, width);
        for (unsigned i = 0; i < width; i++)
            _mm256_storeu_si256((__m256i *)(b->bytes + first * width) + i, v[i]);
    }
}

static PLANES_TARGET void block_cut(unsigned char *const plane[PLANES_WIDTH_MAX], const block *b, unsigned width)
{
    switch (width) {
    case 1:
        cut_block(plane, b, 1);
        break;
    case 2:
        cut_block(plane, b, 2);
        break;
    case 4:
        cut_block(plane, b, 4);
        break;
    default:
        cut_block(plane, b, 8);
    }
}

static PLANES_TARGET void block_join(block *b, const unsigned char *const plane[PLANES_WIDTH_MAX], unsigned width)
{
    switch (width) {
    case 1:
        join_block(b, plane, 1);
        break;
    case 2:
        join_block(b, plane, 2);
        break;
    case 4:
        join_block(b, plane, 4);
        break;
    default:
        join_block(b, plane, 8);
    }
}

static const plane_kernel KERNEL = {.name = "avx2", .split = kernel_split, .merge = kernel_merge};

const plane_kernel *plane_kernel_avx2(void)
{
    return cpu_has(CPU_AVX2) ? &KERNEL : NULL;
}

#else

const plane_kernel *plane_kernel_avx2(void)
{
    return NULL;
}

#endif
