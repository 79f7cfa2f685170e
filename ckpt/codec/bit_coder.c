#include "bit_coder.h"

#include <assert.h>

enum { RATE_MAX = 5, STEP_ZERO = 0, STEP_SIGN = 1, STEP_UNARY = 2 };

void bit_models_reset(bit_model *models, size_t count)
{
    for (size_t i = 0; i < count; i++)
        models[i] = BIT_MODEL_NEW;
}

/* low + (high - low) * p / 65536, which the header has in 32 bits. */
static uint32_t split_of(uint32_t low, uint32_t high, const bit_model *m)
{
    return low + (uint32_t)((uint64_t)(high - low) * m->one >> 16);
}

/* Without a branch: which bit it is is a matter of chance. */
static void adapt(bit_model *m, bool bit)
{
    const unsigned rate = m->seen < RATE_MAX ? m->seen + 1u : RATE_MAX;
    const uint32_t down = (uint32_t)bit - 1; /* all ones: towards 0 */
    const uint32_t step = (m->one ^ (~down & 0xffff)) >> rate;

    m->one = (uint16_t)(m->one + ((step ^ down) - down));
    m->seen = (uint16_t)rate;
}

/* ---- Writing ---- */

bit_writer bit_writer_new(void *dst, size_t capacity)
{
    return (bit_writer){.dst = dst, .capacity = capacity, .high = UINT32_MAX};
}

static void put(bit_writer *w, unsigned char byte)
{
    if (w->used < w->capacity)
        w->dst[w->used] = byte;
    w->used++;
}

void bit_write(bit_writer *w, bit_model *m, bool bit)
{
    const uint32_t split = split_of(w->low, w->high, m);

    if (bit)
        w->high = split;
    else
        w->low = split + 1;
    adapt(m, bit);
    while (((w->low ^ w->high) & 0xff000000) == 0) {
        put(w, (unsigned char)(w->high >> 24));
        w->low <<= 8;
        w->high = w->high << 8 | 0xff;
    }
}

bool bit_writer_end(size_t *size, bit_writer *w)
{
    /* The shortest bytes b such that b followed by zeros is not below low; b is not above high, since the top bytes
     * differ. */
    if (w->low > 0)
        put(w, (unsigned char)((w->low >> 24) + 1));
    *size = w->used;
    return w->used <= w->capacity;
}

/* ---- Reading ---- */

static uint32_t next(bit_reader *r)
{
    return r->used < r->size ? r->src[r->used++] : 0;
}

bit_reader bit_reader_new(const void *src, size_t size)
{
    bit_reader r = {.src = src, .size = size, .high = UINT32_MAX};

    for (unsigned i = 0; i < 4; i++)
        r.code = r.code << 8 | next(&r);
    return r;
}

static inline void read_more(bit_reader *r)
{
    while (__builtin_expect(((r->low ^ r->high) & 0xff000000) == 0, 0)) {
        r->low <<= 8;
        r->high = r->high << 8 | 0xff;
        r->code = r->code << 8 | next(r);
    }
}

bool bit_read(bit_reader *r, bit_model *m)
{
    const uint32_t split = split_of(r->low, r->high, m);
    const bool bit = r->code <= split;

    if (bit)
        r->high = split;
    else
        r->low = split + 1;
    adapt(m, bit);
    read_more(r);
    return bit;
}

/* ---- Numbers ---- */

void bit_tree_write(bit_writer *w, bit_model *models, unsigned bits, unsigned value)
{
    assert(value >> bits == 0);
    for (unsigned node = 1; bits-- > 0; node = node << 1 | (value >> bits & 1))
        bit_write(w, &models[node], value >> bits & 1);
}

unsigned bit_tree_read(bit_reader *r, bit_model *models, unsigned bits)
{
    bit_reader own = *r; /* in registers */
    bit_model m = models[1];
    unsigned node = 1;

    for (unsigned left = bits; left-- > 0;) {
        /* Both models that may come next are there before it is known which; behind the last bit there is none. */
        const unsigned child = left > 0 ? 2 * node : 0;
        const bit_model zero = models[child], one = models[child + (left > 0)];
        const uint32_t split = split_of(own.low, own.high, &m);
        const bool bit = own.code <= split;

        adapt(&m, bit);
        models[node] = m;
        own.high = bit ? split : own.high;
        own.low = bit ? own.low : split + 1;
        node = node << 1 | bit;
        m = bit ? one : zero;
        read_more(&own);
    }
    *r = own;
    return node - (1u << bits);
}

static unsigned unary_model(unsigned done)
{
    return done < BIT_STEP_MODELS - STEP_UNARY ? STEP_UNARY + done : BIT_STEP_MODELS - 1;
}

void bit_step_write(bit_writer *w, bit_model models[BIT_STEP_MODELS], int step)
{
    const unsigned amount = (unsigned)(step < 0 ? -step : step);

    assert(amount <= BIT_STEP_MAX);
    bit_write(w, &models[STEP_ZERO], step == 0);
    if (step == 0)
        return;
    bit_write(w, &models[STEP_SIGN], step < 0);
    for (unsigned done = 1; done < BIT_STEP_MAX; done++) {
        bit_write(w, &models[unary_model(done - 1)], amount == done);
        if (amount == done)
            break;
    }
}

int bit_step_read(bit_reader *r, bit_model models[BIT_STEP_MODELS])
{
    int amount = 1;

    if (bit_read(r, &models[STEP_ZERO]))
        return 0;
    const bool negative = bit_read(r, &models[STEP_SIGN]);
    while (amount < BIT_STEP_MAX && !bit_read(r, &models[unary_model((unsigned)amount - 1)]))
        amount++;
    return negative ? -amount : amount;
}
