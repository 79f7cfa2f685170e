/* Bit coder: an adaptive binary arithmetic coder for the few numbers that describe how a chunk is coded.
 *
 *   state       := low, high: u32, at first 0 and ffffffff; low <= high
 *   model       := p: u16, the chance that the bit is 1 in 1/65536, at first 8000 (hex); seen: how often it was used
 *   split       := low + (high - low >> 16) * p + ((high - low & ffff) * p >> 16)
 *   coding 1    := high = split, else low = split + 1; then, while the top bytes of low and high are equal, that byte
 *                  goes out and both move up by 8 bits, ones coming in below high
 *   adapting    := p += (65535 - p) >> rate for 1, p -= p >> rate for 0; rate = min(seen + 1, 5), then seen + 1
 *   end         := as many top bytes of low + ... as name a number between low and high; behind the last byte a reader
 *                  sees zeros
 *
 * Models learn at once, because there are few bits for each. The coder is small and slow (some ns a bit). */
#ifndef CKPT_BIT_CODER_H
#define CKPT_BIT_CODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bit_model {
    uint16_t one;
    uint16_t seen;
} bit_model;

#define BIT_MODEL_NEW ((bit_model){.one = 0x8000})
void bit_models_reset(bit_model *models, size_t count);

typedef struct bit_writer {
    unsigned char *dst;
    size_t capacity, used; /* used goes on counting where nothing fits any more */
    uint32_t low, high;
} bit_writer;

bit_writer bit_writer_new(void *dst, size_t capacity);
void bit_write(bit_writer *w, bit_model *m, bool bit);
/* Returns the size of all bytes; false: they did not fit. */
bool bit_writer_end(size_t *size, bit_writer *w);

typedef struct bit_reader {
    const unsigned char *src;
    size_t size, used;
    uint32_t low, high, code;
} bit_reader;

bit_reader bit_reader_new(const void *src, size_t size);
bool bit_read(bit_reader *r, bit_model *m);

/* A number of `bits` bits, the highest first, each with a model for each way to it: 2^bits models. */
void bit_tree_write(bit_writer *w, bit_model *models, unsigned bits, unsigned value);
unsigned bit_tree_read(bit_reader *r, bit_model *models, unsigned bits);

/* A difference that is mostly small: is it 0, is it negative, then its amount in unary, up to BIT_STEP_MAX. */
#define BIT_STEP_MAX    255
#define BIT_STEP_MODELS 12
void bit_step_write(bit_writer *w, bit_model models[BIT_STEP_MODELS], int step);
int bit_step_read(bit_reader *r, bit_model models[BIT_STEP_MODELS]);

#endif
