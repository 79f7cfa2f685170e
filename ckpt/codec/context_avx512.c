/* The context kernel for x86 machines with AVX-512 and VBMI, whose tables of bytes make joining three times as fast. */
#include "context.h"

#include "cpu.h"

#if defined(__x86_64__)

#define CONTEXT_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi2")))
#include "context_block.h"

#include <immintrin.h>

enum {
    GROUP = 64,
    QUARTER = GROUP / 4,
    BITS_MAX = 25, /* so that a number, which may begin inside a byte, lies in four bytes */
};
static_assert(QUARTER * BITS_MAX + 7 <= 8 * sizeof(__m512i), "a vector holds the bits of a quarter");

/* A table of CONTEXT_PLANE_SYMBOLS bytes. */
typedef struct table_128 {
    __m512i low, high;
} table_128;

static CONTEXT_TARGET inline table_128 table_load(const uint8_t bytes[CONTEXT_PLANE_SYMBOLS])
{
    return (table_128){_mm512_loadu_si512(bytes), _mm512_loadu_si512(bytes + 64)};
}

static CONTEXT_TARGET inline __m512i table_look(const table_128 *t, __m512i at)
{
    return _mm512_permutex2var_epi8(t->low, at, t->high);
}

/* Bases of 64 symbols, 16 in each vector. */
static CONTEXT_TARGET inline void bases_look(__m512i base[4], const table_128 plane[4], __m512i symbols)
{
    /* Interleaving takes place inside of 16 bytes each, so what is to become the first vector must stand at their
     * beginnings. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i at = _mm512_permutexvar_epi32(order, symbols);
    const __m512i p0 = table_look(&plane[0], at), p1 = table_look(&plane[1], at);
    const __m512i p2 = table_look(&plane[2], at), p3 = table_look(&plane[3], at);
    const __m512i low01 = _mm512_unpacklo_epi8(p0, p1), high01 = _mm512_unpackhi_epi8(p0, p1);
    const __m512i low23 = _mm512_unpacklo_epi8(p2, p3), high23 = _mm512_unpackhi_epi8(p2, p3);

    base[0] = _mm512_unpacklo_epi16(low01, low23);
    base[1] = _mm512_unpackhi_epi16(low01, low23);
    base[2] = _mm512_unpacklo_epi16(high01, high23);
    base[3] = _mm512_unpackhi_epi16(high01, high23);
}

/* 16 numbers: their bases, and what `bits` say from bit `from` on, `total` bits in all. */
static CONTEXT_TARGET inline __m512i quarter_join(__m512i base, __m512i length, __m512i before,
                                                  const unsigned char *bits, uint64_t from, unsigned total)
{
    const unsigned skip = (unsigned)(from & 7), bytes = (skip + total + 7) / 8;
    const __mmask64 there = _bzhi_u64(UINT64_MAX, bytes);
    const __m512i data = _mm512_maskz_loadu_epi8(there, bits + (from >> 3));
    const __m512i at = _mm512_add_epi32(before, _mm512_set1_epi32((int)skip));
    /* The four bytes where each number begins, moved down to its first bit, less what is behind its last. */
    const __m512i each = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0x00000000);
    const __m512i four =
        _mm512_add_epi8(_mm512_shuffle_epi8(_mm512_srli_epi32(at, 3), each), _mm512_set1_epi32(0x03020100));
    const __m512i word =
        _mm512_srlv_epi32(_mm512_permutexvar_epi8(four, data), _mm512_and_si512(at, _mm512_set1_epi32(7)));
    const __m512i above = _mm512_sllv_epi32(_mm512_set1_epi32(-1), length);

    return _mm512_add_epi32(base, _mm512_andnot_si512(above, word));
}

static CONTEXT_TARGET inline __m512i quarter_widen(__m512i bytes, unsigned quarter)
{
    switch (quarter) {
    case 0:
        return _mm512_cvtepu8_epi32(_mm512_castsi512_si128(bytes));
    case 1:
        return _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(bytes, 1));
    case 2:
        return _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(bytes, 2));
    default:
        return _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(bytes, 3));
    }
}

/* A quarter with longer numbers; returns where its bits end. Not inlined, so that `from` of its caller is in a
 * register. */
static CONTEXT_TARGET __attribute__((noinline)) uint64_t
long_join(uint32_t *numbers, const context_cuts *cuts, const uint8_t *symbol, const unsigned char *bits, uint64_t from)
{
    join_32(numbers, cuts, symbol, bits, &from, QUARTER);
    return from;
}

/* All whole groups from the first on; returns how many elements that is. Quarters with longer numbers go the long way.
 */
static CONTEXT_TARGET size_t groups_join(uint32_t *numbers, const context_cuts *cuts, const uint8_t *symbol,
                                         const unsigned char *bits, uint64_t *at, size_t count)
{
    const __m512i quads = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const table_128 lengths = table_load(cuts->plane[4]);
    table_128 plane[4];
    uint64_t from = *at;
    size_t i = 0;

    for (unsigned p = 0; p < 4; p++)
        plane[p] = table_load(cuts->plane[p]);
    for (; i + GROUP <= count; i += GROUP) {
        const __m512i symbols = _mm512_loadu_si512(symbol + i), length = table_look(&lengths, symbols);
        const __mmask64 longer = _mm512_cmpgt_epu8_mask(length, _mm512_set1_epi8(BITS_MAX));
        /* Bits before each number: in its four as bytes, by a product that adds them up; of the fours before it in the
         * quarter, by adding what stands 4 and then 8 bytes below. */
        const __m512i inside = _mm512_mullo_epi32(length, _mm512_set1_epi32(0x01010101));
        const __m512i own = _mm512_srli_epi32(inside, 24);
        const __m512i two = _mm512_add_epi32(own, _mm512_bslli_epi128(own, 4));
        const __m512i sums = _mm512_add_epi32(two, _mm512_bslli_epi128(two, 8));
        const __m512i before_fours = _mm512_sub_epi32(sums, own), before = _mm512_sub_epi8(inside, length);
        uint32_t total[16];
        __m512i base[4];

        _mm512_storeu_si512(total, sums);
        bases_look(base, plane, symbols);
        for (unsigned q = 0; q < 4; q++) {
            if (__builtin_expect(longer >> q * QUARTER & 0xffff, 0)) {
                from = long_join(numbers + i + q * QUARTER, cuts, symbol + i + q * QUARTER, bits, from);
                continue;
            }
            const __m512i of_four =
                _mm512_permutexvar_epi32(_mm512_add_epi32(quads, _mm512_set1_epi32(4 * (int)q)), before_fours);
            const __m512i number =
                quarter_join(base[q], quarter_widen(length, q), _mm512_add_epi32(of_four, quarter_widen(before, q)),
                             bits, from, total[4 * q + 3]);
            _mm512_storeu_si512(numbers + i + q * QUARTER, number);
            from += total[4 * q + 3];
        }
    }
    *at = from;
    return i;
}

static CONTEXT_TARGET void join(void *numbers, unsigned width, const context_cuts *cuts, const uint8_t *symbol,
                                const unsigned char *bits, uint64_t *at, size_t count)
{
    const bool fits = width == 4 && cuts->alphabet->count <= CONTEXT_PLANE_SYMBOLS;
    const size_t done = fits ? groups_join(numbers, cuts, symbol, bits, at, count) : 0;

    kernel_join((unsigned char *)numbers + done * width, width, cuts, symbol + done, bits, at, count - done);
}

static CONTEXT_TARGET size_t sums_of_vectors(uint8_t *value, const uint8_t *place, int row, const int8_t *column,
                                             const context_sums *sums, size_t count)
{
    const __m512i places = _mm512_loadu_si512(sums->near), levels = _mm512_loadu_si512(sums->level);
    const __m512i first = _mm512_set1_epi8((char)sums->first), most = _mm512_set1_epi8(CONTEXT_LEVELS - 1);
    const __m512i rows = _mm512_set1_epi8((char)row);
    __m512i level = _mm512_set1_epi8((char)sums->single), by = _mm512_setzero_si512();
    size_t i = 0;

    for (; i + sizeof(__m512i) <= count; i += sizeof(__m512i)) {
        if (place) {
            const __m512i byte = _mm512_loadu_si512(place + i);
            level = _mm512_permutexvar_epi8(_mm512_min_epu8(_mm512_subs_epu8(byte, first), most), places);
        }
        if (column)
            by = _mm512_loadu_si512(column + i);
        /* Sums are inside CONTEXT_SUM_MIN and CONTEXT_SUM_MAX, which a signed byte holds. */
        const __m512i sum = _mm512_add_epi8(_mm512_add_epi8(level, rows), by);
        const __m512i cut = _mm512_min_epi8(_mm512_max_epi8(sum, _mm512_setzero_si512()), most);
        _mm512_storeu_si512(value + i, _mm512_permutexvar_epi8(cut, levels));
    }
    return i;
}

static CONTEXT_TARGET void translate(uint8_t *to, const uint8_t *from, const uint8_t table[256], size_t count)
{
    const table_128 low = table_load(table), high = table_load(table + CONTEXT_PLANE_SYMBOLS);
    size_t i = 0;

    for (; i + sizeof(__m512i) <= count; i += sizeof(__m512i)) {
        const __m512i at = _mm512_loadu_si512(from + i);
        const __m512i found =
            _mm512_mask_mov_epi8(table_look(&low, at), _mm512_movepi8_mask(at), table_look(&high, at));
        _mm512_storeu_si512(to + i, found);
    }
    kernel_translate(to + i, from + i, table, count - i);
}

static const context_kernel KERNEL = {.name = "avx512", CONTEXT_KERNEL_SHARED, .translate = translate, .join = join};

const context_kernel *context_kernel_avx512(void)
{
    return cpu_has(CPU_AVX512) && cpu_has(CPU_AVX512_VBMI) ? &KERNEL : NULL;
}

#else

const context_kernel *context_kernel_avx512(void)
{
    return NULL;
}

#endif
