#include "context_internal.h"

#include "codec_internal.h"

#include "bytes.h"
#include "fail.h"

#include <assert.h>
#include <string.h>

enum {
    NUMBER_BITS = 2, /* of the first byte of the head, see head_write */
    FLAG_TURNED = 0x10,
    FLAG_PLACES = 0x20,
    FLAG_GROWTH = 0x40,
    FLAG_NEIGHBOURS = 0x80,
    BLOCK_MASK = 0x1f,
    LANES_FROM = 5,
    BLOCK_LOG2_MIN = 5, /* of CONTEXT_BLOCK_MIN */
    LANES_LOG2_MIN = 2, /* so that joining may read JOIN_SLACK bytes behind the raw bits */
    LANES_LOG2_MAX = 5,
    JOIN_SLACK = 9,
};
static_assert(4 << LANES_LOG2_MIN >= JOIN_SLACK, "states stand behind the raw bits");
static_assert(1 << LANES_LOG2_MAX == RANS_LANES_MAX, "lanes");
static_assert(1 << BLOCK_LOG2_MIN == CONTEXT_BLOCK_MIN, "blocks have at least CONTEXT_BLOCK_MIN elements");

const context_kernel *context_kernel_best(void)
{
    const context_kernel *const avx512 = context_kernel_avx512(), *const avx2 = context_kernel_avx2();
    return avx512 ? avx512 : avx2 ? avx2 : &CONTEXT_KERNEL_SCALAR;
}

/* ---- Head ---- */

static int head_read(context_head *h, const unsigned char *in, size_t size, bool has_reference, ckpt_error *err)
{
    int rc = 0;
    context_layout *const l = &h->layout;

    FAIL_IF(size < CONTEXT_HEAD_SIZE, err, CKPT_EDATA, "coded chunk ends too early");
    *h = (context_head){
        .layout = {.number = (context_number)(in[0] >> NUMBER_BITS & 3),
                   .width = 1u << (in[0] & 3),
                   .zeros = in[1],
                   .turned = in[0] & FLAG_TURNED,
                   .places = in[0] & FLAG_PLACES,
                   .growth = in[0] & FLAG_GROWTH,
                   .neighbours = in[0] & FLAG_NEIGHBOURS,
                   .place_from = in[2]},
        .block_log2 = in[3] & BLOCK_MASK,
        .lanes_log2 = in[3] >> LANES_FROM,
        .period = load_u16(in + 4),
        .side_size = load_u32(in + 6) & 0xffffff,
        .bits_size = load_u32(in + 8) >> 8,
        .size = CONTEXT_HEAD_SIZE + (in[0] & FLAG_NEIGHBOURS ? CONTEXT_GRID_SIZE : 0),
    };
    FAIL_IF(l->number > CONTEXT_XOR || l->zeros >= 8 * l->width || l->place_from >= 8 * l->width, err, CKPT_EDATA,
            "unknown flags of a context coded chunk");
    FAIL_IF(!has_reference && (l->number != CONTEXT_RAW || (l->places && !l->neighbours)), err, CKPT_EDATA,
            "a chunk without reference is coded against one");
    FAIL_IF(l->growth && (l->number != CONTEXT_SUB || l->zeros || l->width < 4), err, CKPT_EDATA,
            "growth of elements of %u bytes", l->width);
    FAIL_IF(h->block_log2 < BLOCK_LOG2_MIN || h->lanes_log2 < LANES_LOG2_MIN || h->lanes_log2 > LANES_LOG2_MAX ||
                h->period > CONTEXT_PERIOD_MAX,
            err, CKPT_EDATA, "blocks, lanes or columns of a context coded chunk");
    FAIL_IF(size < h->size || size - h->size < h->side_size || size - h->size - h->side_size < h->bits_size, err,
            CKPT_EDATA, "coded chunk ends too early");
    FAIL_IF(l->neighbours && (l->width != 4 || l->zeros || !l->places || l->number == CONTEXT_XOR ||
                              l->turned != (l->number == CONTEXT_SUB)),
            err, CKPT_EDATA, "neighbours of what is no float");
    if (l->neighbours)
        h->grid = (context_grid){.planes = in[12], .inner = load_u16(in + 13), .before = load_u16(in + 15)};
out:
    return rc;
}

/* ---- Order ---- */

bool context_grid_set(context_grid *g, const context_layout *layout, size_t count)
{
    if (!layout->neighbours) {
        *g = (context_grid){.planes = 1, .inner = 1, .groups = count, .plane_size = count};
        return true;
    }
    const size_t group = (size_t)g->planes * g->inner;
    if (g->planes < 2 || g->planes > CONTEXT_PLANES_MAX || g->inner < 1 || group > CONTEXT_GROUP_MAX ||
        g->before >= group || count < g->before + group)
        return false;
    g->groups = (count - g->before) / group;
    g->plane_size = g->groups * g->inner;
    return true;
}

void context_grid_gather(uint32_t *out, const context_grid *g, const void *elements, size_t count)
{
    const unsigned char *const in = (const unsigned char *)elements + 4 * g->before;
    const size_t body = g->planes * g->plane_size;

    if (g->inner == 1) /* the usual case, and copies of one element are slow */
        for (unsigned p = 0; p < g->planes; p++)
            for (size_t group = 0; group < g->groups; group++)
                out[p * g->plane_size + group] = load_u32(in + 4 * (group * g->planes + p));
    for (size_t group = 0; g->inner > 1 && group < g->groups; group++)
        for (unsigned p = 0; p < g->planes; p++)
            memcpy(out + p * g->plane_size + group * g->inner, in + 4 * (group * g->planes + p) * g->inner,
                   4 * (size_t)g->inner);
    memcpy(out + body, elements, 4 * g->before);
    memcpy(out + body + g->before, in + 4 * body, 4 * (count - body - g->before));
}

void context_grid_scatter(void *elements, const context_grid *g, const uint32_t *in, size_t count)
{
    unsigned char *const out = (unsigned char *)elements + 4 * g->before;
    const size_t body = g->planes * g->plane_size;

    if (g->inner == 1)
        for (unsigned p = 0; p < g->planes; p++)
            for (size_t group = 0; group < g->groups; group++)
                store_u32(out + 4 * (group * g->planes + p), in[p * g->plane_size + group]);
    for (size_t group = 0; g->inner > 1 && group < g->groups; group++)
        for (unsigned p = 0; p < g->planes; p++)
            memcpy(out + 4 * (group * g->planes + p) * g->inner, in + p * g->plane_size + group * g->inner,
                   4 * (size_t)g->inner);
    memcpy(elements, in + body, 4 * g->before);
    memcpy(out + 4 * body, in + body + g->before, 4 * (count - body - g->before));
}

/* ---- Runs ---- */

static context_place place_at(size_t first, const context_side *side, size_t count)
{
    const context_grid *const g = &side->grid;
    const size_t plane = first / g->plane_size, at = first % g->plane_size;
    size_t n = g->plane_size - at < count - first ? g->plane_size - at : count - first;

    n = n < CONTEXT_RUN ? n : CONTEXT_RUN;
    return (context_place){.first = first,
                           .count = n,
                           .column = side->period ? (unsigned)(at % side->period) : 0,
                           .plane = plane < g->planes ? (unsigned)plane : 0};
}

context_place context_place_first(const context_side *side, size_t count)
{
    return place_at(0, side, count);
}

context_place context_place_next(context_place p, const context_side *side, size_t count)
{
    return place_at(p.first + p.count, side, count);
}

void context_run_approach(uint32_t approached[CONTEXT_RUN], uint32_t grown[CONTEXT_RUN], const context_kernel *kernel,
                          const context_side *side, const uint32_t *reference, const int16_t *growth,
                          const float *value, context_place p)
{
    float prediction[CONTEXT_RUN];

    kernel->predict(prediction, value + p.first, side->grid.plane_size, side->plane_weight[p.plane],
                    context_lags(&side->grid, p.plane), p.count);
    if (!reference) {
        memcpy(approached, prediction, p.count * sizeof *approached);
        return;
    }
    memcpy(grown, reference + p.first, p.count * sizeof *grown);
    kernel->grow(grown, sizeof *grown, growth, p.count);
    memcpy(approached, grown, p.count * sizeof *approached);
    if (p.plane > 0)
        kernel->approach(approached, prediction, p.count);
}

/* ---- Rows and columns of a run ---- */

void context_columns_continue(context_side *side)
{
    for (unsigned j = 0; side->period && j < CONTEXT_RUN; j++) {
        side->column[side->period + j] = side->column[j];
        side->column_growth[side->period + j] = side->column_growth[j];
    }
}

void context_run_growth(int16_t growth[CONTEXT_RUN], const context_side *side, context_place p)
{
    const size_t block = (size_t)1 << side->block_log2;

    for (size_t i = 0; i < p.count;) {
        const size_t at = p.first + i, left = block - (at & (block - 1));
        const size_t n = left < p.count - i ? left : p.count - i;
        const int row = side->row_growth[at >> side->block_log2];
        for (size_t k = 0; k < n; k++)
            growth[i + k] = (int16_t)(row + (side->period ? side->column_growth[p.column + i + k] : 0));
        i += n;
    }
}

const void *context_run_reference(context_numbers *grown, const context_kernel *kernel, const context_side *side,
                                  const context_layout *layout, const unsigned char *reference, context_place p)
{
    int16_t growth[CONTEXT_RUN];

    if (!reference)
        return NULL;
    reference += p.first * layout->width;
    if (!layout->growth)
        return reference;
    context_run_growth(growth, side, p);
    memcpy(grown, reference, p.count * layout->width);
    kernel->grow(grown, layout->width, growth, p.count);
    return grown;
}

void context_run_sums(uint8_t *value, const context_kernel *kernel, const context_side *side, const uint8_t *place,
                      const context_sums *sums, context_place p)
{
    const size_t block = (size_t)1 << side->block_log2;

    for (size_t i = 0; i < p.count;) {
        const size_t at = p.first + i, left = block - (at & (block - 1));
        const size_t n = left < p.count - i ? left : p.count - i;
        kernel->sums(value + i, place ? place + i : NULL, side->row[at >> side->block_log2],
                     sums->columns ? side->column + p.column + i : NULL, sums, n);
        i += n;
    }
}

void context_sums_fill(context_sums *sums, const context_side *side, const uint8_t of_level[CONTEXT_LEVELS])
{
    for (int sum = CONTEXT_SUM_MIN; sum <= CONTEXT_SUM_MAX; sum++)
        sums->of[sum - CONTEXT_SUM_MIN] = of_level[sum < 0 ? 0 : sum < CONTEXT_LEVELS ? sum : CONTEXT_LEVELS - 1];
    for (unsigned i = 0; i < CONTEXT_PLACES; i++)
        sums->near[i] = side->place[i < side->place_count ? i : side->place_count - 1];
    for (unsigned byte = 0; byte < 256; byte++) {
        const unsigned from = byte < side->place_first ? 0 : byte - side->place_first;
        sums->place_of[byte] = sums->near[from < CONTEXT_PLACES ? from : CONTEXT_PLACES - 1];
    }
    memcpy(sums->level, of_level, sizeof sums->level);
    sums->first = (uint8_t)side->place_first;
    sums->single = side->place[0];
    sums->columns = !bytes_are_zero(side->column, side->period);
}

/* ---- Decoding ---- */

/* Bits of raw data that the symbols of a run take. */
static uint64_t run_bits(const context_alphabet *a, const uint8_t *symbol, size_t count)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < count; i++)
        bits += a->bits[symbol[i]];
    return bits;
}

static void cuts_fill(context_cuts *cuts, const context_alphabet *a)
{
    cuts->alphabet = a;
    cuts->bits_max = 0;
    for (unsigned i = 0; i < a->count; i++) {
        cuts->packed[i] = a->base[i] << 8 | a->bits[i];
        for (unsigned byte = 0; byte < 4 && i < CONTEXT_PLANE_SYMBOLS; byte++)
            cuts->plane[byte][i] = (uint8_t)(a->base[i] >> 8 * byte);
        if (i < CONTEXT_PLANE_SYMBOLS)
            cuts->plane[4][i] = a->bits[i];
        cuts->bits_max = a->bits[i] > cuts->bits_max ? a->bits[i] : cuts->bits_max;
    }
}

/* All that decoding the runs of a chunk needs. */
typedef struct run_decoder {
    const context_kernel *kernel;
    rans_decode_fn *rans_decode;
    context_scratch *scratch;
    const context_head *head;
    rans_decoder rans;
    context_sums sums;
    context_cuts cuts;
    const unsigned char *bits;
    uint64_t bits_at;
} run_decoder;

static void run_decoder_start(run_decoder *d, const codec *c, const context_head *h, const unsigned char *bits)
{
    const context_side *const side = &c->context->side;

    d->kernel = c->context_kernel;
    d->rans_decode = c->rans_decode;
    d->scratch = c->context;
    d->head = h;
    d->bits = bits;
    d->bits_at = 0;
    context_sums_fill(&d->sums, side, side->table);
    cuts_fill(&d->cuts, &side->alphabet);
}

/* The numbers of one run, whose place bytes are in `reference`. */
static int decode_numbers(void *numbers, run_decoder *d, const void *reference, context_place p, ckpt_error *err)
{
    int rc = 0;
    const context_layout *const l = &d->head->layout;
    const context_side *const side = &d->scratch->side;
    const uint64_t bits_left = 8 * (uint64_t)d->head->bits_size - d->bits_at;
    uint8_t place[CONTEXT_RUN], table[CONTEXT_RUN], symbol[CONTEXT_RUN];

    if (l->places)
        d->kernel->places(place, l, reference, p.count);
    context_run_sums(table, d->kernel, side, l->places ? place : NULL, &d->sums, p);
    d->rans_decode(&d->rans, symbol, table, p.count, d->scratch->slots);
    /* Counting is only needed where the end is near. */
    if (bits_left < (uint64_t)p.count * d->cuts.bits_max)
        FAIL_IF(run_bits(&side->alphabet, symbol, p.count) > bits_left, err, CKPT_EDATA,
                "raw bits of a coded chunk end too early");
    d->kernel->join(numbers, l->width, &d->cuts, symbol, d->bits, &d->bits_at, p.count);
out:
    return rc;
}

static int decode_runs(unsigned char *dst, size_t count, run_decoder *d, const unsigned char *reference,
                       ckpt_error *err)
{
    int rc = 0;
    const context_layout *const l = &d->head->layout;
    const context_side *const side = &d->scratch->side;
    context_numbers numbers, grown;

    for (context_place p = context_place_first(side, count); p.count > 0; p = context_place_next(p, side, count)) {
        const void *const y = context_run_reference(&grown, d->kernel, side, l, reference, p);

        TRY(decode_numbers(&numbers, d, y, p, err));
        d->kernel->elements(dst + p.first * l->width, l, &numbers, y, p.count);
    }
out:
    return rc;
}

/* The same in the order of the grid, each plane after those that predict it. */
static int decode_planes(void *dst, size_t count, run_decoder *d, const void *reference, ckpt_error *err)
{
    int rc = 0;
    const context_layout *const l = &d->head->layout;
    context_scratch *const s = d->scratch;
    const bool delta = l->number == CONTEXT_SUB;
    context_numbers numbers;
    uint32_t approached[CONTEXT_RUN], grown[CONTEXT_RUN];
    int16_t growth[CONTEXT_RUN];

    if (delta)
        context_grid_gather(s->reference, &s->side.grid, reference, count);
    for (context_place p = context_place_first(&s->side, count); p.count > 0;
         p = context_place_next(p, &s->side, count)) {
        if (l->growth)
            context_run_growth(growth, &s->side, p);
        context_run_approach(approached, grown, d->kernel, &s->side, delta ? s->reference : NULL,
                             l->growth ? growth : NULL, s->value, p);
        TRY(decode_numbers(&numbers, d, approached, p, err));
        d->kernel->elements(s->element + p.first, l, &numbers, approached, p.count);
        d->kernel->values(s->value + p.first, s->element + p.first, delta ? grown : NULL, p.count);
    }
    context_grid_scatter(dst, &s->side.grid, s->element, count);
out:
    return rc;
}

int context_decode(void *dst, size_t size, codec *c, const void *coded, size_t coded_size, const void *reference,
                   ckpt_error *err)
{
    int rc = 0;
    const unsigned char *in = coded;
    context_side *const side = &c->context->side;
    context_head h;
    run_decoder d;

    TRY(head_read(&h, in, coded_size, reference != NULL, err));
    const size_t count = size / h.layout.width, odd = size % h.layout.width;
    const size_t left = coded_size - h.size - h.side_size - h.bits_size;
    const unsigned lanes = 1u << h.lanes_log2;
    FAIL_IF(count < 1 || h.period > count || left < odd + 4 * (size_t)lanes, err, CKPT_EDATA,
            "context coded chunk of %zu bytes", size);
    side->block_log2 = h.block_log2;
    side->period = h.period;
    side->grid = h.grid;
    FAIL_IF(!context_grid_set(&side->grid, &h.layout, count), err, CKPT_EDATA, "planes of a context coded chunk");
    in += h.size;
    TRY(context_side_read(side, in, h.side_size, &h.layout, count, err));
    context_columns_continue(side);
    for (unsigned t = 0; t < side->table_count; t++)
        rans_slots_fill(c->context->slots + t * RANS_TOTAL, side->frequency[t], side->alphabet.count);
    in += h.side_size;
    run_decoder_start(&d, c, &h, in);
    TRY(rans_decoder_begin(&d.rans, in + h.bits_size, left - odd, lanes, err));
    if (h.layout.neighbours) {
        const float_env env = float_env_plain();
        rc = decode_planes(dst, count, &d, reference, err);
        float_env_restore(&env);
        TRY(rc);
    } else {
        TRY(decode_runs(dst, count, &d, reference, err));
    }
    FAIL_IF((d.bits_at + 7) / 8 != h.bits_size, err, CKPT_EDATA, "raw bits of a coded chunk are too many");
    TRY(rans_decoder_end(&d.rans, err));
    memcpy((unsigned char *)dst + size - odd, in + h.bits_size + left - odd, odd);
out:
    return rc;
}
