#include "sha256_pair.h"

#include "cpu.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define SHA_TARGET __attribute__((target("sha,sse4.1")))

/* FIPS 180-4, section 4.2.2. */
static const uint32_t K[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* One message. The instructions want the state as two vectors, named by their words from the highest down, and take the
 * message schedule four words at a time. */
typedef struct lane {
    __m128i abef, cdgh;
    __m128i words[4]; /* the last 16 of the schedule, four a vector; vector g % 4 is group g */
} lane;

static SHA_TARGET inline lane lane_load(const uint32_t state[8])
{
    const __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)state);
    const __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);

    return (lane){.abef = _mm_alignr_epi8(cdab, efgh, 8), .cdgh = _mm_blend_epi16(efgh, cdab, 0xf0)};
}

static SHA_TARGET inline void lane_store(uint32_t state[8], const lane *l)
{
    const __m128i feba = _mm_shuffle_epi32(l->abef, 0x1b), dchg = _mm_shuffle_epi32(l->cdgh, 0xb1);

    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* Rounds 4 g to 4 g + 3. */
static SHA_TARGET inline __attribute__((always_inline)) void lane_rounds(lane *l, const unsigned char *block, int g)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i *const w = &l->words[g % 4];

    if (g < 4) {
        *w = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(block + 16 * g)), big_endian);
    } else {
        const __m128i w7 = _mm_alignr_epi8(l->words[(g + 3) % 4], l->words[(g + 2) % 4], 4);
        *w = _mm_sha256msg1_epu32(*w, l->words[(g + 1) % 4]);
        *w = _mm_sha256msg2_epu32(_mm_add_epi32(*w, w7), l->words[(g + 3) % 4]);
    }
    const __m128i wk = _mm_add_epi32(*w, _mm_load_si128((const __m128i *)(const void *)(K + 4 * g)));
    l->cdgh = _mm_sha256rnds2_epu32(l->cdgh, l->abef, wk);
    l->abef = _mm_sha256rnds2_epu32(l->abef, l->cdgh, _mm_shuffle_epi32(wk, 0x0e));
}

static SHA_TARGET void pair_blocks(uint32_t state_a[8], const unsigned char *a, uint32_t state_b[8],
                                   const unsigned char *b, size_t blocks)
{
    lane x = lane_load(state_a), y = lane_load(state_b);

    for (; blocks > 0; blocks--, a += SHA256_BLOCK_SIZE, b += SHA256_BLOCK_SIZE) {
        const lane x_before = x, y_before = y;
#pragma GCC unroll 16
        for (int g = 0; g < 16; g++) {
            lane_rounds(&x, a, g);
            lane_rounds(&y, b, g);
        }
        x.abef = _mm_add_epi32(x.abef, x_before.abef);
        x.cdgh = _mm_add_epi32(x.cdgh, x_before.cdgh);
        y.abef = _mm_add_epi32(y.abef, y_before.abef);
        y.cdgh = _mm_add_epi32(y.cdgh, y_before.cdgh);
    }
    lane_store(state_a, &x);
    lane_store(state_b, &y);
}

sha256_pair_fn *sha256_pair_best(void)
{
    return cpu_has(CPU_SHA) ? pair_blocks : NULL;
}

#else

sha256_pair_fn *sha256_pair_best(void)
{
    return NULL;
}

#endif
