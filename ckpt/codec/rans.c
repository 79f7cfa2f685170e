#include "rans.h"

#include "bytes.h"
#include "fail.h"

#include <assert.h>

void rans_slots_fill(rans_slot slots[RANS_TOTAL], const uint16_t frequency[], unsigned symbol_count)
{
    uint32_t start = 0;

    for (unsigned s = 0; s < symbol_count; s++) {
        const uint32_t what = s | (frequency[s] - 1u) << 8;
        for (uint32_t i = 0; i < frequency[s]; i++)
            slots[start + i] = what | i << 20;
        start += frequency[s];
    }
    assert(start == RANS_TOTAL);
}

/* ---- Encoding ---- */

/* floor(x / frequency) = (x * reciprocal >> 32) >> shift for all x < 2^31: F. Giesen, "rANS in practice" (2014). A
 * frequency of 1 has no such reciprocal; there x - 1 is taken for the quotient and the bias makes good for it. */
void rans_symbols_fill(rans_symbol symbols[], const uint16_t frequency[], unsigned symbol_count)
{
    uint32_t start = 0;

    for (unsigned s = 0; s < symbol_count; s++) {
        const uint32_t f = frequency[s];
        rans_symbol *const out = &symbols[s];

        *out = (rans_symbol){.limit = f << (31 - RANS_LOG2), .complement = (uint16_t)(RANS_TOTAL - f)};
        if (f < 2) {
            out->reciprocal = UINT32_MAX;
            out->bias = start + RANS_TOTAL - 1;
        } else {
            unsigned shift = 0;
            while (f > (uint32_t)1 << shift)
                shift++;
            out->reciprocal = (uint32_t)((((uint64_t)1 << (shift + 31)) + f - 1) / f);
            out->shift = (uint16_t)(shift - 1);
            out->bias = start;
        }
        start += f;
    }
}

/* Codes symbols `from` to `to` - 1, the last first; false: they do not fit. */
static bool encode_range(unsigned char **out, uint32_t state[RANS_LANES_MAX], const unsigned char *dst,
                         const rans_symbol *symbols, const unsigned char *symbol, const unsigned char *table,
                         size_t from, size_t to, size_t mask)
{
    unsigned char *at = *out;

    for (size_t i = to; i-- > from;) {
        const rans_symbol *const s = &symbols[table[i] * RANS_SYMBOLS_MAX + symbol[i]];
        uint32_t x = state[i & mask];

        assert(s->limit > 0);
        if (at - dst < 2)
            return false; /* the states at the end need more than this */
        /* Whether it overflows is a matter of chance, so no branch depends on it. */
        const uint32_t full = x >= s->limit;
        store_u16(at - 2, (uint16_t)x);
        at -= 2 * full;
        x >>= 16 * full;
        const uint32_t quotient = (uint32_t)((uint64_t)x * s->reciprocal >> 32) >> s->shift;
        state[i & mask] = x + s->bias + quotient * s->complement;
    }
    *out = at;
    return true;
}

void rans_encode(size_t *coded_size, unsigned char *dst, size_t capacity, rans_encode_fn *rounds,
                 const rans_symbol *symbols, const unsigned char *symbol, const unsigned char *table, size_t count,
                 unsigned lanes)
{
    uint32_t state[RANS_LANES_MAX];
    unsigned char *out = dst + capacity;
    const size_t mask = lanes - 1;
    size_t left = count;

    assert(lanes > 0 && lanes <= RANS_LANES_MAX && (lanes & mask) == 0);
    *coded_size = SIZE_MAX;
    for (unsigned lane = 0; lane < lanes; lane++)
        state[lane] = RANS_LOW;
    if (rounds && lanes == RANS_LANES_MAX) {
        left -= count % RANS_LANES_MAX;
        if (!encode_range(&out, state, dst, symbols, symbol, table, left, count, mask))
            return;
        left = rounds(&out, state, dst, symbols, symbol, table, left);
    }
    if (!encode_range(&out, state, dst, symbols, symbol, table, 0, left, mask))
        return;
    if ((size_t)(out - dst) < 4 * (size_t)lanes)
        return;
    for (unsigned lane = lanes; lane-- > 0;) {
        out -= 4;
        store_u32(out, state[lane]);
    }
    *coded_size = (size_t)(dst + capacity - out);
}

/* ---- Decoding ---- */

int rans_decoder_begin(rans_decoder *d, const void *coded, size_t coded_size, unsigned lanes, ckpt_error *err)
{
    int rc = 0;
    const unsigned char *const in = coded;

    assert(lanes > 0 && lanes <= RANS_LANES_MAX);
    FAIL_IF(coded_size < 4 * (size_t)lanes || coded_size % 2, err, CKPT_EDATA, "entropy coded data end too early");
    *d = (rans_decoder){.in = in + 4 * (size_t)lanes, .end = in + coded_size, .lanes = lanes};
    for (unsigned lane = 0; lane < lanes; lane++) {
        d->state[lane] = load_u32(in + 4 * (size_t)lane);
        FAIL_IF(d->state[lane] < RANS_LOW || d->state[lane] >> 31, err, CKPT_EDATA, "state of entropy coded data");
    }
out:
    return rc;
}

int rans_decoder_end(const rans_decoder *d, ckpt_error *err)
{
    int rc = 0;
    bool clean = !d->ended && d->in == d->end;

    for (unsigned lane = 0; lane < d->lanes; lane++)
        clean = clean && d->state[lane] == RANS_LOW;
    FAIL_IF(!clean, err, CKPT_EDATA, "entropy coded data do not end as they should");
out:
    return rc;
}

void rans_decode_scalar(rans_decoder *d, unsigned char *symbol, const unsigned char *table, size_t count,
                        const rans_slot *slots)
{
    const unsigned mask = d->lanes - 1;
    const unsigned char *in = d->in;

    for (size_t i = 0; i < count; i++) {
        uint32_t *const state = &d->state[(d->lane + i) & mask];
        uint32_t x = *state;
        const rans_slot slot = slots[((size_t)table[i] << RANS_LOG2) + (x & (RANS_TOTAL - 1))];

        symbol[i] = (unsigned char)slot;
        x = ((slot >> 8 & 0xfff) + 1) * (x >> RANS_LOG2) + (slot >> 20);
        if (x < RANS_LOW) {
            if (in < d->end) {
                x = x << 16 | load_u16(in);
                in += 2;
            } else {
                d->ended = true;
                x |= RANS_LOW;
            }
        }
        *state = x;
    }
    d->in = in;
    d->lane = (unsigned)(d->lane + count) & mask;
}

rans_decode_fn *rans_decode_best(void)
{
    rans_decode_fn *const avx512 = rans_decode_avx512(), *const avx2 = rans_decode_avx2();
    return avx512 ? avx512 : avx2 ? avx2 : rans_decode_scalar;
}
