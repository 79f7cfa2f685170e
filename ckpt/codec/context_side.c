/* The side information of a context coded chunk, as bits of an adaptive coder (bit_coder.h):
 *
 *   side := intervals places? tables planes? rows columns growth? frequencies
 *
 * docs/format.md says what each of them is. */
#include "bit_coder.h"
#include "context.h"

#include "fail.h"

#include <assert.h>
#include <string.h>

enum { BYTE_BITS = 8, LEVEL_BITS = 6, INTERVAL_MODELS = 8, BYTE_MODELS = 256 };
static_assert(1 << LEVEL_BITS == CONTEXT_LEVELS, "levels have LEVEL_BITS");
static_assert(CONTEXT_LEVELS == CONTEXT_PLACES, "places are counted with LEVEL_BITS");

/* One way through the side information, written or read: with a writer all values are given, with a reader they come.
 * So both sides cannot differ. */
typedef struct side_stream {
    bit_writer *writer;
    bit_reader *reader;
    bool bad; /* read something impossible */
} side_stream;

static bool side_bit(side_stream *s, bit_model *m, bool bit)
{
    if (s->reader)
        return bit_read(s->reader, m);
    bit_write(s->writer, m, bit);
    return bit;
}

static unsigned side_tree(side_stream *s, bit_model *models, unsigned bits, unsigned value)
{
    if (s->reader)
        return bit_tree_read(s->reader, models, bits);
    bit_tree_write(s->writer, models, bits, value);
    return value;
}

static int side_step(side_stream *s, bit_model models[BIT_STEP_MODELS], int step)
{
    if (s->reader)
        return bit_step_read(s->reader, models);
    bit_step_write(s->writer, models, step);
    return step;
}

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

/* ---- Parts ---- */

/* The binary tree whose leaves are the intervals, from the root, lower halves first: is this node a leaf? */
static void side_intervals(side_stream *s, context_alphabet *a, unsigned bits)
{
    bit_model models[INTERVAL_MODELS];
    uint64_t base = 0; /* of the node that comes next */
    unsigned size = bits, history = 0, leaves = 0;
    const unsigned known = a->count;

    bit_models_reset(models, INTERVAL_MODELS);
    for (bool more = true; more;) {
        if (leaves == RANS_SYMBOLS_MAX || (s->writer && leaves == known)) {
            s->bad = true;
            return;
        }
        const bool leaf = size == 0 || side_bit(s, &models[history], s->writer && a->bits[leaves] == size);
        history = (history << 1 | leaf) & (INTERVAL_MODELS - 1);
        if (!leaf) {
            size--;
            continue;
        }
        a->base[leaves] = base;
        a->bits[leaves++] = (uint8_t)size;
        /* On to the upper half of the lowest node whose lower half this ends; there is none behind the last interval.
         */
        const uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
        const uint64_t length = size == 64 ? 0 : (uint64_t)1 << size;
        base = (base + length) & mask;
        more = base != 0;
        if (more)
            size = (unsigned)__builtin_ctzll(base);
    }
    a->count = leaves;
}

static void side_places(side_stream *s, context_side *side)
{
    bit_model first[BYTE_MODELS], count[CONTEXT_PLACES], steps[BIT_STEP_MODELS];
    int level = CONTEXT_LEVELS / 2;

    bit_models_reset(first, BYTE_MODELS);
    bit_models_reset(count, CONTEXT_PLACES);
    bit_models_reset(steps, BIT_STEP_MODELS);
    side->place_first = side_tree(s, first, BYTE_BITS, side->place_first);
    side->place_count = side_tree(s, count, LEVEL_BITS, side->place_count - 1) + 1;
    for (unsigned i = 0; i < side->place_count; i++) {
        level = clamp(level + side_step(s, steps, side->place[i] - level), 0, CONTEXT_LEVELS - 1);
        side->place[i] = (uint8_t)level;
    }
}

/* For each level but the first: does another table begin here? */
static void side_tables(side_stream *s, context_side *side)
{
    bit_model begins = BIT_MODEL_NEW;
    unsigned table = 0;

    for (unsigned level = 0; level < CONTEXT_LEVELS; level++) {
        if (level > 0)
            table += side_bit(s, &begins, side->table[level] != side->table[level - 1]);
        side->table[level] = (uint8_t)table;
    }
    side->table_count = table + 1;
    s->bad = s->bad || side->table_count > RANS_TABLES_MAX;
}

/* Are they not all 0? Then each: `bits` bits of value + 2^(bits - 1). */
static void side_values(side_stream *s, int8_t *values, size_t count, unsigned bits)
{
    bit_model any = BIT_MODEL_NEW, models[BYTE_MODELS];
    const int offset = 1 << (bits - 1);
    bool given = false;

    for (size_t i = 0; s->writer && i < count; i++)
        given = given || values[i] != 0;
    if (!side_bit(s, &any, given)) {
        memset(values, 0, count);
        return;
    }
    bit_models_reset(models, BYTE_MODELS);
    for (size_t i = 0; i < count; i++)
        values[i] = (int8_t)((int)side_tree(s, models, bits, (unsigned)(values[i] + offset)) - offset);
}

/* Weights of planes, each after the one of the same lag for the plane before. */
static void side_planes(side_stream *s, context_side *side)
{
    bit_model steps[BIT_STEP_MODELS];
    int last[CONTEXT_LAGS_MAX] = {0};

    bit_models_reset(steps, BIT_STEP_MODELS);
    for (unsigned p = 1; p < side->grid.planes; p++)
        for (unsigned lag = 0; lag < context_lags(&side->grid, p); lag++) {
            last[lag] =
                clamp(last[lag] + side_step(s, steps, side->plane_weight[p][lag] - last[lag]), INT8_MIN, INT8_MAX);
            side->plane_weight[p][lag] = (int8_t)last[lag];
        }
}

/* The weights of one table, each as the difference to what the one before it, and the same two of the table before,
 * let expect. */
static void side_weights(side_stream *s, uint8_t *weight, const uint8_t *above, unsigned count, bit_model *occurs,
                         bit_model *steps)
{
    int last = CONTEXT_WEIGHT_MAX / 2;
    bool before = true;

    for (unsigned i = 0; i < count; i++) {
        const bool known = above && above[i];
        before = side_bit(s, &occurs[(above ? 2 : 0) + (known ? 2 : 0) + before], weight[i] != 0);
        if (!before) {
            weight[i] = 0;
            continue;
        }
        int expected = last;
        if (known)
            expected = (last + above[i] + (i > 0 && above[i - 1] ? (int)above[i] - above[i - 1] : 0)) / 2;
        expected = clamp(expected, 1, CONTEXT_WEIGHT_MAX);
        last = clamp(expected + side_step(s, &steps[known ? BIT_STEP_MODELS : 0], weight[i] - expected), 1,
                     CONTEXT_WEIGHT_MAX);
        weight[i] = (uint8_t)last;
    }
}

static void side_frequencies(side_stream *s, context_side *side)
{
    bit_model occurs[6], steps[2 * BIT_STEP_MODELS];

    bit_models_reset(occurs, sizeof occurs / sizeof *occurs);
    bit_models_reset(steps, sizeof steps / sizeof *steps);
    for (unsigned t = 0; t < side->table_count && !s->bad; t++) {
        side_weights(s, side->weight[t], t ? side->weight[t - 1] : NULL, side->alphabet.count, occurs, steps);
        s->bad = s->bad || !context_frequencies(side->frequency[t], side->weight[t], side->alphabet.count);
    }
}

static void side_all(side_stream *s, context_side *side, const context_layout *layout, size_t count)
{
    const size_t blocks = ((count - 1) >> side->block_log2) + 1;

    side_intervals(s, &side->alphabet, context_bits(layout));
    if (s->bad)
        return;
    if (layout->places) {
        side_places(s, side);
    } else {
        side->place_count = 1;
        side->place[0] = CONTEXT_LEVELS / 2;
    }
    side_tables(s, side);
    if (s->bad)
        return;
    if (layout->neighbours)
        side_planes(s, side);
    side_values(s, side->row, blocks, LEVEL_BITS);
    side_values(s, side->column, side->period, LEVEL_BITS);
    if (layout->growth) {
        side_values(s, side->row_growth, blocks, BYTE_BITS);
        side_values(s, side->column_growth, side->period, BYTE_BITS);
    }
    side_frequencies(s, side);
}

/* ---- Frequencies ---- */

/* round(16 * 2^((w - 1) / 4)) */
static const uint32_t AMOUNT[CONTEXT_WEIGHT_MAX + 1] = {
    0,    16,   19,   23,   27,   32,    38,    45,    54,    64,    76,    91,    108,   128,   152,  181,  215,
    256,  304,  362,  431,  512,  609,   724,   861,   1024,  1218,  1448,  1722,  2048,  2435,  2896, 3444, 4096,
    4871, 5793, 6889, 8192, 9742, 11585, 13777, 16384, 19484, 23170, 27554, 32768, 38968, 46341, 55109};

bool context_frequencies(uint16_t frequency[], const uint8_t weight[], unsigned symbol_count)
{
    uint64_t total = 0;
    int32_t left = (int32_t)RANS_TOTAL;

    for (unsigned i = 0; i < symbol_count; i++)
        total += AMOUNT[weight[i]];
    if (total == 0)
        return false;
    for (unsigned i = 0; i < symbol_count; i++) {
        const uint64_t share = AMOUNT[weight[i]] * (uint64_t)RANS_TOTAL / total;
        frequency[i] = (uint16_t)(share > 0 || weight[i] == 0 ? share : 1);
        left -= frequency[i];
    }
    /* What rounding left over goes to the largest, the first of equals; what is lacking is taken there, one by one. */
    while (left != 0) {
        unsigned largest = 0;
        for (unsigned i = 1; i < symbol_count; i++)
            if (frequency[i] > frequency[largest])
                largest = i;
        const int32_t change = left > 0 ? left : -1;
        frequency[largest] = (uint16_t)(frequency[largest] + change);
        left -= change;
    }
    return true;
}

/* ---- Both ways ---- */

bool context_side_write(size_t *size, void *dst, size_t capacity, context_side *side, const context_layout *layout,
                        size_t count)
{
    bit_writer writer = bit_writer_new(dst, capacity);
    side_stream s = {.writer = &writer};

    side_all(&s, side, layout, count);
    assert(!s.bad);
    return bit_writer_end(size, &writer);
}

int context_side_read(context_side *side, const void *src, size_t size, const context_layout *layout, size_t count,
                      ckpt_error *err)
{
    int rc = 0;
    bit_reader reader = bit_reader_new(src, size);
    side_stream s = {.reader = &reader};

    side_all(&s, side, layout, count);
    FAIL_IF(s.bad, err, CKPT_EDATA, "side information of a coded chunk");
out:
    return rc;
}
