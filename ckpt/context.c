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
    const context_kernel *const avx2 = context_kernel_avx2();
    return avx2 ? avx2 : &CONTEXT_KERNEL_SCALAR;
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
                   .place_from = in[2]},
        .block_log2 = in[3] & BLOCK_MASK,
        .lanes_log2 = in[3] >> LANES_FROM,
        .period = load_u16(in + 4),
        .side_size = load_u32(in + 6) & 0xffffff,
        .bits_size = load_u32(in + 8) >> 8,
    };
    FAIL_IF(l->number > CONTEXT_XOR || in[0] >> 7 || l->zeros >= 8 * l->width || l->place_from >= 8 * l->width, err,
            CKPT_EDATA, "unknown flags of a context coded chunk");
    FAIL_IF(!has_reference && (l->number != CONTEXT_RAW || l->places), err, CKPT_EDATA,
            "a chunk without reference is coded against one");
    FAIL_IF(l->growth && (l->number != CONTEXT_SUB || l->zeros || l->width < 4), err, CKPT_EDATA,
            "growth of elements of %u bytes", l->width);
    FAIL_IF(h->block_log2 < BLOCK_LOG2_MIN || h->lanes_log2 < LANES_LOG2_MIN || h->lanes_log2 > LANES_LOG2_MAX ||
                h->period > CONTEXT_PERIOD_MAX,
            err, CKPT_EDATA, "blocks, lanes or columns of a context coded chunk");
    FAIL_IF(size - CONTEXT_HEAD_SIZE < h->side_size || size - CONTEXT_HEAD_SIZE - h->side_size < h->bits_size, err,
            CKPT_EDATA, "coded chunk ends too early");
out:
    return rc;
}

/* ---- Rows and columns of a run ---- */

context_place context_place_first(size_t count)
{
    return context_place_next((context_place){0}, count, 0);
}

context_place context_place_next(context_place p, size_t count, unsigned period)
{
    const size_t first = p.first + p.count;
    return (context_place){.first = first,
                           .count = count - first < CONTEXT_RUN ? count - first : CONTEXT_RUN,
                           .column = period ? (unsigned)((p.column + p.count) % period) : 0};
}

void context_columns_continue(context_side *side)
{
    for (unsigned j = 0; side->period && j < CONTEXT_RUN; j++) {
        side->column[side->period + j] = side->column[j];
        side->column_growth[side->period + j] = side->column_growth[j];
    }
}

bool context_has_columns(const context_side *side)
{
    return !bytes_are_zero(side->column, side->period);
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

void context_run_sums(uint8_t *value, const context_kernel *kernel, const context_side *side, const uint8_t *level,
                      bool single, bool columns, const context_sums *sums, context_place p)
{
    const size_t block = (size_t)1 << side->block_log2;

    for (size_t i = 0; i < p.count;) {
        const size_t at = p.first + i, left = block - (at & (block - 1));
        const size_t n = left < p.count - i ? left : p.count - i;
        kernel->sums(value + i, single ? level : level + i, single, side->row[at >> side->block_log2],
                     columns ? side->column + p.column + i : NULL, sums, n);
        i += n;
    }
}

void context_sums_fill(context_sums *sums, const uint8_t of_level[CONTEXT_LEVELS])
{
    for (int sum = CONTEXT_SUM_MIN; sum <= CONTEXT_SUM_MAX; sum++)
        sums->of[sum - CONTEXT_SUM_MIN] = of_level[sum < 0 ? 0 : sum < CONTEXT_LEVELS ? sum : CONTEXT_LEVELS - 1];
}

void context_places_fill(uint8_t of[256], const context_side *side)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        const unsigned from = byte < side->place_first ? 0 : byte - side->place_first;
        of[byte] = side->place[from < side->place_count ? from : side->place_count - 1];
    }
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
        cuts->bits_max = a->bits[i] > cuts->bits_max ? a->bits[i] : cuts->bits_max;
    }
}

static int decode_runs(unsigned char *dst, size_t count, codec *c, const context_head *h, rans_decoder *rans,
                       const unsigned char *bits, const unsigned char *reference, ckpt_error *err)
{
    int rc = 0;
    const context_kernel *const kernel = c->context_kernel;
    const context_layout *const l = &h->layout;
    context_side *const side = &c->context->side;
    const bool columns = context_has_columns(side);
    const uint64_t bits_end = 8 * (uint64_t)h->bits_size;
    uint8_t level[CONTEXT_RUN], table[CONTEXT_RUN], symbol[CONTEXT_RUN], places[256];
    int16_t growth[CONTEXT_RUN];
    unsigned char numbers[CONTEXT_RUN * 8] __attribute__((aligned(64)));
    context_sums sums;
    context_cuts cuts;
    uint64_t at = 0;

    context_sums_fill(&sums, side->table);
    context_places_fill(places, side);
    cuts_fill(&cuts, &side->alphabet);
    for (context_place p = context_place_first(count); p.count > 0; p = context_place_next(p, count, side->period)) {
        const unsigned char *const y = reference ? reference + p.first * l->width : NULL;

        if (l->places)
            kernel->places(level, l, y, places, p.count);
        context_run_sums(table, kernel, side, l->places ? level : side->place, !l->places, columns, &sums, p);
        c->rans_decode(rans, symbol, table, p.count, c->context->slots);
        /* Counting is only needed where the end is near. */
        if (bits_end - at < (uint64_t)p.count * cuts.bits_max)
            FAIL_IF(run_bits(&side->alphabet, symbol, p.count) > bits_end - at, err, CKPT_EDATA,
                    "raw bits of a coded chunk end too early");
        kernel->join(numbers, l->width, &cuts, symbol, bits, &at, p.count);
        if (l->growth)
            context_run_growth(growth, side, p);
        kernel->elements(dst + p.first * l->width, l, numbers, y, l->growth ? growth : NULL, p.count);
    }
    FAIL_IF((at + 7) / 8 != h->bits_size, err, CKPT_EDATA, "raw bits of a coded chunk are too many");
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
    rans_decoder rans;

    TRY(head_read(&h, in, coded_size, reference != NULL, err));
    const size_t count = size / h.layout.width, odd = size % h.layout.width;
    const size_t left = coded_size - CONTEXT_HEAD_SIZE - h.side_size - h.bits_size;
    const unsigned lanes = 1u << h.lanes_log2;
    FAIL_IF(count < 1 || h.period > count || left < odd + 4 * (size_t)lanes, err, CKPT_EDATA,
            "context coded chunk of %zu bytes", size);
    side->block_log2 = h.block_log2;
    side->period = h.period;
    in += CONTEXT_HEAD_SIZE;
    TRY(context_side_read(side, in, h.side_size, &h.layout, count, err));
    context_columns_continue(side);
    for (unsigned t = 0; t < side->table_count; t++)
        rans_slots_fill(c->context->slots + t * RANS_TOTAL, side->frequency[t], side->alphabet.count);
    in += h.side_size;
    TRY(rans_decoder_begin(&rans, in + h.bits_size, left - odd, lanes, err));
    TRY(decode_runs(dst, count, c, &h, &rans, in, reference, err));
    TRY(rans_decoder_end(&rans, err));
    memcpy((unsigned char *)dst + size - odd, in + h.bits_size + left - odd, odd);
out:
    return rc;
}
