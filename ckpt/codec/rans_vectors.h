/* The part of a rANS decoder that is the same source for every instruction set with eight lanes a vector.
 *
 * Included once by each decoder's file, which first defines
 *   TARGET   attributes of every function
 *   step     decodes a symbol of each of eight lanes and gives them the words they want, at most 16 bytes from *in on:
 *            __m256i step(__m256i x, const unsigned char **in, unsigned char *symbol, const unsigned char *table,
 *                         const rans_slot *slots) */
#ifndef CKPT_RANS_VECTORS_H
#define CKPT_RANS_VECTORS_H

#include "rans.h"

#include <immintrin.h>

enum { VECTOR_LANES = 8, VECTORS_MAX = RANS_LANES_MAX / VECTOR_LANES };

static TARGET inline __attribute__((always_inline)) size_t decode(rans_decoder *d, unsigned char *symbol,
                                                                  const unsigned char *table, size_t count,
                                                                  const rans_slot *slots, const unsigned vectors)
{
    const unsigned lanes = vectors * VECTOR_LANES;
    const unsigned char *in = d->in;
    __m256i x[VECTORS_MAX];
    size_t i = 0;

    for (unsigned v = 0; v < vectors; v++)
        x[v] = _mm256_load_si256((const __m256i *)d->state + v);
    /* Each vector reads 16 bytes and uses at most all of them. */
    for (; i + lanes <= count && (size_t)(d->end - in) >= 16 * (size_t)vectors; i += lanes)
        for (unsigned v = 0; v < vectors; v++)
            x[v] = step(x[v], &in, symbol + i + v * VECTOR_LANES, table + i + v * VECTOR_LANES, slots);
    for (unsigned v = 0; v < vectors; v++)
        _mm256_store_si256((__m256i *)d->state + v, x[v]);
    d->in = in;
    return i;
}

static TARGET void decode_vectors(rans_decoder *d, unsigned char *symbol, const unsigned char *table, size_t count,
                                  const rans_slot *slots)
{
    const size_t to_first = (d->lanes - d->lane) % d->lanes;
    size_t done = to_first < count ? to_first : count;

    rans_decode_scalar(d, symbol, table, done, slots); /* until the next symbol is that of the first lane */
    if (d->lanes == RANS_LANES_MAX)
        done += decode(d, symbol + done, table + done, count - done, slots, VECTORS_MAX);
    else if (d->lanes == VECTOR_LANES)
        done += decode(d, symbol + done, table + done, count - done, slots, 1);
    rans_decode_scalar(d, symbol + done, table + done, count - done, slots);
}

#endif
