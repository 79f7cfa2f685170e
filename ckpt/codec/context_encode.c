#include "context_internal.h"

#include "codec_internal.h"

#include "bytes.h"

#include <assert.h>
#include <string.h>

/* Columns, and groups of kernels, of which there are fewer say nothing. */
enum { PERIODS_MIN = 8, GROUPS_MIN = 4 };

/* ---- Layout ---- */

/* Bits of the exponent of a type of float, for the place of a reference and the cut of an element. */
static unsigned exponent_bits(ckpt_dtype dtype, unsigned width)
{
    static const unsigned char BITS[] = {
        [CKPT_F16] = 5,  [CKPT_BF16] = 8,  [CKPT_F32] = 8,     [CKPT_C64] = 8,
        [CKPT_F64] = 11, [CKPT_C128] = 11, [CKPT_F8_E4M3] = 4, [CKPT_F8_E5M2] = 5,
    };
    const unsigned bits = (unsigned)dtype < sizeof BITS ? BITS[dtype] : 0; /* 0: no floats */
    return bits + 1 < 8 * width ? bits : 0;                                /* a plan may say anything */
}

static uint64_t element_load(const unsigned char *p, unsigned width)
{
    switch (width) {
    case 1:
        return *p;
    case 2:
        return load_u16(p);
    case 4:
        return load_u32(p);
    default:
        return load_u64(p);
    }
}

/* All bits that occur in any element. */
static uint64_t elements_or(const unsigned char *src, size_t count, unsigned width)
{
    uint64_t all = 0, words = 0;
    size_t i = 0;

    for (; i + 8 / width <= count; i += 8 / width)
        words |= load_u64(src + i * width);
    for (; i < count; i++)
        all |= element_load(src + i * width, width);
    for (unsigned shift = 0; shift < 64; shift += 8 * width)
        all |= words >> shift;
    return width == 8 ? all : all & (((uint64_t)1 << 8 * width) - 1);
}

static context_layout layout_choose(const codec_plan *plan, const unsigned char *src, size_t size, bool has_reference)
{
    const unsigned width = plan->width == 2 || plan->width == 4 || plan->width == 8 ? plan->width : 1;
    const unsigned n = 8 * width, exponent = exponent_bits(plan->dtype, width);
    const uint64_t all = elements_or(src, size / width, width);
    context_layout l = {.width = width, .number = has_reference ? (context_number)(plan->number % 3) : CONTEXT_RAW};

    l.zeros = all ? (unsigned)__builtin_ctzll(all) : 0;
    if (l.number == CONTEXT_SUB)
        l.turned = exponent > 0;
    else if (l.number == CONTEXT_RAW)
        l.turned = exponent > 0 && all >> (n - 1); /* what is never negative needs no room for a sign */
    /* Only what is never negative grows alike; whether it does is found later. */
    l.growth = l.number == CONTEXT_SUB && l.turned && !(all >> (n - 1));
    l.places = has_reference;
    /* The exponent's lowest 8 bits; of short elements the top 8. */
    l.place_from = exponent >= 8 ? n - 1 - exponent : width == 1 ? 0 : n - 8;
    return l;
}

/* ---- Coding ---- */

static unsigned block_log2_choose(size_t count, unsigned period)
{
    if (count < 4096)
        return 5;
    if (count < 16384 || (period % 128 && period % 64 == 0))
        return 6;
    return 7;
}

/* Numbers and place bytes of all elements, as they stand. */
static void measure_runs(context_scratch *s, codec *c, const context_layout *l, const unsigned char *src,
                         const unsigned char *reference, size_t count)
{
    context_numbers grown;

    for (context_place p = context_place_first(&s->side, count); p.count > 0;
         p = context_place_next(p, &s->side, count)) {
        const void *const y = context_run_reference(&grown, c->context_kernel, &s->side, l, reference, p);
        c->context_kernel->numbers(c->planes + p.first * l->width, l, src + p.first * l->width, y, p.count);
        if (l->places)
            c->context_kernel->places(s->level + p.first, l, y, p.count);
    }
}

/* s->value, which weights of planes are found from. */
static void measure_values(context_scratch *s, const codec *c, const context_layout *l, size_t count)
{
    const unsigned char *const reference = l->number == CONTEXT_SUB ? (const unsigned char *)s->reference : NULL;
    context_numbers grown;

    for (context_place p = context_place_first(&s->side, count); p.count > 0;
         p = context_place_next(p, &s->side, count))
        c->context_kernel->values(s->value + p.first, s->element + p.first,
                                  context_run_reference(&grown, c->context_kernel, &s->side, l, reference, p), p.count);
}

/* Numbers and place bytes plane by plane. */
static void measure_planes(context_scratch *s, codec *c, const context_layout *l, size_t count)
{
    const context_kernel *const kernel = c->context_kernel;
    const uint32_t *const reference = l->number == CONTEXT_SUB ? s->reference : NULL;
    uint32_t approached[CONTEXT_RUN], grown[CONTEXT_RUN];
    int16_t growth[CONTEXT_RUN];

    for (context_place p = context_place_first(&s->side, count); p.count > 0;
         p = context_place_next(p, &s->side, count)) {
        if (l->growth)
            context_run_growth(growth, &s->side, p);
        context_run_approach(approached, grown, kernel, &s->side, reference, l->growth ? growth : NULL, s->value, p);
        kernel->numbers(c->planes + p.first * l->width, l, s->element + p.first, approached, p.count);
        kernel->places(s->level + p.first, l, approached, p.count);
    }
}

/* Does it pay to code plane by plane? Then everything is measured in that way. */
static bool try_neighbours(context_scratch *s, codec *c, context_head *h, const codec_plan *plan,
                           const unsigned char *src, const unsigned char *reference, size_t count)
{
    context_layout *const l = &h->layout;
    const bool delta = l->number == CONTEXT_SUB;
    const size_t group = (size_t)plan->grid.planes * plan->grid.inner;

    if (plan->dtype != CKPT_F32 || l->width != 4 || l->zeros || (!delta && reference) || group == 0 ||
        group > CONTEXT_GROUP_MAX || count < GROUPS_MIN * group)
        return false;
    const context_layout as_it_stands = *l;
    *l = (context_layout){.number = l->number,
                          .width = 4,
                          .turned = delta,
                          .places = true,
                          .growth = false,
                          .neighbours = true,
                          .place_from = 23};
    h->grid = (context_grid){.planes = plan->grid.planes,
                             .inner = plan->grid.inner,
                             .before = (group - (size_t)(plan->grid.first_byte / 4 % group)) % group};
    s->side.grid = h->grid;
    s->side.period = h->period % h->grid.planes == 0 ? h->period / h->grid.planes : 0;
    if (!context_grid_set(&s->side.grid, l, count))
        goto out;
    context_grid_gather(s->element, &s->side.grid, src, count);
    if (delta)
        context_grid_gather(s->reference, &s->side.grid, reference, count);
    l->growth = as_it_stands.growth && context_fit_growth(s, c->context_kernel, l, s->element, s->reference, count);
    context_columns_continue(&s->side);
    measure_values(s, c, l, count);
    if (!context_fit_neighbours(s))
        goto out;
    measure_planes(s, c, l, count);
    h->period = s->side.period;
    return true;
out:
    *l = as_it_stands;
    return false;
}

static context_cut cut_choose(context_fine *fine, const context_kernel *kernel, const context_layout *l,
                              const codec_plan *plan, const void *numbers, size_t count)
{
    const unsigned exponent = exponent_bits(plan->dtype, l->width);

    if (l->number == CONTEXT_RAW && l->neighbours)
        return context_fine_by_sign(fine, numbers, count);
    if (l->number != CONTEXT_RAW || (exponent == 0 && l->width > 1))
        return context_fine_by_length(fine, context_bits(l));
    return context_fine_by_top(fine, context_bits(l), exponent ? exponent + CONTEXT_FINE_MANTISSA + !l->turned : 8,
                               kernel->most(numbers, l->width, count));
}

/* Places, levels, fine symbols: everything that is counted. */
static void measure(context_scratch *s, context_fine *fine, codec *c, context_head *h, const codec_plan *plan,
                    const unsigned char *src, const unsigned char *reference, size_t count)
{
    context_layout *const l = &h->layout;

    s->side.block_log2 = h->block_log2;
    if (!try_neighbours(s, c, h, plan, src, reference, count)) {
        s->side.period = h->period;
        (void)context_grid_set(&s->side.grid, l, count);
        l->growth = l->growth && context_fit_growth(s, c->context_kernel, l, src, reference, count);
        context_columns_continue(&s->side);
        measure_runs(s, c, l, src, reference, count);
    }
    const context_cut cut = cut_choose(fine, c->context_kernel, l, plan, c->planes, count);
    context_fine_symbols(s->symbol, c->planes, l->width, &cut, &fine->alphabet, count);
    context_fit_levels(s, c->context_kernel, l, fine, count);
    context_columns_continue(&s->side);
}

/* s->level, from place bytes to levels, and what is counted at each. */
static void count_symbols(context_scratch *s, const codec *c, const context_layout *l, size_t count)
{
    uint8_t itself[CONTEXT_LEVELS];
    context_sums sums;

    for (unsigned i = 0; i < CONTEXT_LEVELS; i++)
        itself[i] = (uint8_t)i;
    context_sums_fill(&sums, &s->side, itself);
    for (context_place p = context_place_first(&s->side, count); p.count > 0;
         p = context_place_next(p, &s->side, count))
        context_run_sums(s->level + p.first, c->context_kernel, &s->side, l->places ? s->level + p.first : NULL, &sums,
                         p);
    memset(s->histogram, 0, sizeof s->histogram);
    for (size_t i = 0; i < count; i++)
        s->histogram[s->level[i]][s->symbol[i]]++;
}

static void head_write(unsigned char *out, const context_head *h)
{
    const context_layout *const l = &h->layout;

    out[0] = (unsigned char)((unsigned)__builtin_ctz(l->width) | (unsigned)l->number << 2 | (unsigned)l->turned << 4 |
                             (unsigned)l->places << 5 | (unsigned)l->growth << 6 | (unsigned)l->neighbours << 7);
    out[1] = (unsigned char)l->zeros;
    out[2] = (unsigned char)l->place_from;
    out[3] = (unsigned char)(h->block_log2 | h->lanes_log2 << 5);
    store_u16(out + 4, (uint16_t)h->period);
    store_u16(out + 6, (uint16_t)h->side_size);
    out[8] = (unsigned char)(h->side_size >> 16);
    store_u16(out + 9, (uint16_t)h->bits_size);
    out[11] = (unsigned char)(h->bits_size >> 16);
    if (!l->neighbours)
        return;
    out[12] = (unsigned char)h->grid.planes;
    store_u16(out + 13, (uint16_t)h->grid.inner);
    store_u16(out + 15, (uint16_t)h->grid.before);
}

/* More lanes are faster, and each costs four bytes. */
static unsigned lanes_log2_choose(size_t count)
{
    return count < 1024 ? 2 : count < 16384 ? 3 : 5;
}

/* How many raw bits there will be. */
static uint64_t bits_count(const context_scratch *s)
{
    uint64_t bits = 0;

    for (unsigned t = 0; t < s->side.table_count; t++)
        for (unsigned i = 0; i < s->side.alphabet.count; i++)
            bits += (uint64_t)s->histogram[t][i] * s->side.alphabet.bits[i];
    return bits;
}

/* Writes head, side information, raw bits and words; *used is CODEC_NO_GAIN when they do not fit. */
static void write_all(size_t *used, unsigned char *out, size_t capacity, codec *c, context_head *h, size_t count)
{
    context_scratch *const s = c->context;
    const unsigned lanes = 1u << h->lanes_log2;
    size_t rans_size = 0;

    *used = CODEC_NO_GAIN;
    h->size = CONTEXT_HEAD_SIZE + (h->layout.neighbours ? CONTEXT_GRID_SIZE : 0);
    if (capacity < h->size ||
        !context_side_write(&h->side_size, out + h->size, capacity - h->size, &s->side, &h->layout, count))
        return;
    size_t at = h->size + h->side_size;
    h->bits_size = (size_t)((bits_count(s) + 7) / 8);
    if (capacity - at < h->bits_size + 4 * (size_t)lanes)
        return;
    const uint64_t bits = context_bits_write(out + at, c->planes, h->layout.width, &s->side.alphabet, s->symbol, count);
    assert((bits + 7) / 8 == h->bits_size);
    (void)bits;
    at += h->bits_size;
    for (unsigned t = 0; t < s->side.table_count; t++)
        rans_symbols_fill(s->symbols + t * RANS_SYMBOLS_MAX, s->side.frequency[t], s->side.alphabet.count);
    rans_encode(&rans_size, out + at, capacity - at, c->rans_rounds, s->symbols, s->symbol, s->level, count, lanes);
    if (rans_size == SIZE_MAX)
        return;
    memmove(out + at, out + capacity - rans_size, rans_size);
    head_write(out, h);
    *used = at + rans_size;
}

int context_encode(size_t *coded_size, void *dst, size_t capacity, codec *c, const codec_plan *plan, const void *src,
                   size_t size, const void *reference, ckpt_error *err)
{
    context_scratch *const s = c->context;
    context_head h = {0};
    context_fine fine = {0};
    uint8_t merged[RANS_SYMBOLS_MAX] = {0}, table[256] = {0};
    unsigned char *const out = dst;

    (void)err;
    h.layout = layout_choose(plan, src, size, reference != NULL);
    const size_t count = size / h.layout.width, odd = size % h.layout.width;
    *coded_size = CODEC_NO_GAIN;
    if (count < 1 || capacity < odd)
        return 0;
    h.period = plan->period <= CONTEXT_PERIOD_MAX && plan->period <= count / PERIODS_MIN ? plan->period : 0;
    h.block_log2 = block_log2_choose(count, h.period);
    h.lanes_log2 = lanes_log2_choose(count);

    const float_env env = float_env_plain();
    measure(s, &fine, c, &h, plan, src, reference, count);
    float_env_restore(&env);
    count_symbols(s, c, &h.layout, count);
    context_fit_tables(merged, s, &fine);
    memcpy(table, s->side.table, sizeof s->side.table);
    c->context_kernel->translate(s->symbol, s->symbol, merged, count);
    c->context_kernel->translate(s->level, s->level, table, count);
    write_all(coded_size, out, capacity - odd, c, &h, count);
    if (*coded_size == CODEC_NO_GAIN)
        return 0;
    s->fixed_size = h.size + h.side_size + 4 * ((size_t)1 << h.lanes_log2);
    memcpy(out + *coded_size, (const unsigned char *)src + size - odd, odd);
    *coded_size += odd;
    return 0;
}
