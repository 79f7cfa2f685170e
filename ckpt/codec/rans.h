/* rANS: an entropy coder with static frequencies, several states side by side.
 *
 * Each state codes every lanes-th symbol; the words they put out stand in one stream, in the order in which a decoder
 * asks for them. (J. Duda, "Asymmetric numeral systems", arXiv 1311.2540; the interleaving is F. Giesen's, arXiv
 * 1402.3392.)
 *
 *   stream := state:u32{lanes} word:u16*
 *   symbol i, with lane = i mod lanes, x = state[lane], and the table that the context of i names:
 *     slot = x mod 4096;  s = the symbol with start[s] <= slot < start[s] + frequency[s]
 *     x = frequency[s] * floor(x / 4096) + slot - start[s];  if x < 2^15: x = x * 65536 + next word
 *   at the end all states are 2^15 and all words are used
 *
 * Frequencies of a table add up to 4096. */
#ifndef CKPT_RANS_H
#define CKPT_RANS_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANS_LOG2        12
#define RANS_TOTAL       ((uint32_t)1 << RANS_LOG2)
#define RANS_LOW         ((uint32_t)1 << 15) /* states are from RANS_LOW to 2^31 - 1 */
#define RANS_SYMBOLS_MAX 256
#define RANS_TABLES_MAX  16
#define RANS_LANES_MAX   32

/* What a decoder needs to know of a slot: symbol in bits 0-7, frequency - 1 in bits 8-19, slot - start in 20-31. */
typedef uint32_t rans_slot;
/* Fills the slots of one table; frequencies add up to RANS_TOTAL. */
void rans_slots_fill(rans_slot slots[RANS_TOTAL], const uint16_t frequency[], unsigned symbol_count);

/* What an encoder needs to know of a symbol: a division by its frequency as a multiplication. */
typedef struct rans_symbol {
    uint32_t limit, reciprocal, bias;
    uint16_t complement, shift; /* limit 0: a symbol that does not occur */
} rans_symbol;
void rans_symbols_fill(rans_symbol symbols[], const uint16_t frequency[], unsigned symbol_count);

/* A faster way through whole rounds of RANS_LANES_MAX lanes, the last of `count` symbols first, for as long as there is
 * room between dst and *out for all that they may take; returns how many symbols are left. */
typedef size_t rans_encode_fn(unsigned char **out, uint32_t state[RANS_LANES_MAX], const unsigned char *dst,
                              const rans_symbol *symbols, const unsigned char *symbol, const unsigned char *table,
                              size_t count);
rans_encode_fn *rans_encode_avx512(void); /* NULL: not this machine */

/* Codes symbol[i] with the table table[i], whose symbols begin at symbols[table[i] * RANS_SYMBOLS_MAX], towards the
 * front from dst + capacity on; `rounds` may be NULL. *coded_size is SIZE_MAX when they do not fit. */
void rans_encode(size_t *coded_size, unsigned char *dst, size_t capacity, rans_encode_fn *rounds,
                 const rans_symbol *symbols, const unsigned char *symbol, const unsigned char *table, size_t count,
                 unsigned lanes);

/* A stream that is being decoded. */
typedef struct rans_decoder {
    uint32_t state[RANS_LANES_MAX] __attribute__((aligned(32)));
    const unsigned char *in, *end;
    unsigned lanes; /* 1, 2, 4 ... RANS_LANES_MAX */
    unsigned lane;  /* of the next symbol */
    bool ended;     /* asked for more words than there are */
} rans_decoder;

int rans_decoder_begin(rans_decoder *d, const void *coded, size_t coded_size, unsigned lanes, ckpt_error *err);
/* CKPT_EDATA unless everything was used up as it should be. */
int rans_decoder_end(const rans_decoder *d, ckpt_error *err);

/* Decodes `count` symbols, of tables table[i] < RANS_TABLES_MAX, whose slots begin at slots[table[i] * RANS_TOTAL].
 * Hostile words give wrong symbols, which are in the tables. */
typedef void rans_decode_fn(rans_decoder *d, unsigned char *symbol, const unsigned char *table, size_t count,
                            const rans_slot *slots);
rans_decode_fn rans_decode_scalar;
rans_decode_fn *rans_decode_avx2(void);   /* NULL: not this machine */
rans_decode_fn *rans_decode_avx512(void); /* the same */
rans_decode_fn *rans_decode_best(void);

#endif
