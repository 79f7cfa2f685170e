/* Finding the side information of a chunk: what the levels of rows and columns are, which levels share a table, and
 * which symbols are worth telling apart. */
#include "context.h"

#include "bytes.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Amounts of bits are in 1/LOG2_ONE. */
enum { LOG2_BITS = 12, LOG2_ONE = 1 << LOG2_BITS };

/* What a symbol of a table, a table, and a node of the tree of intervals cost as side information, about. */
enum { WEIGHT_COST = 5 * LOG2_ONE / 2, TABLE_COST = 8 * LOG2_ONE, NODE_COST = LOG2_ONE };

/* log2(n) for n > 0, by a polynomial of third degree for the mantissa: errors are below 1/1000. */
static uint32_t log2_fixed(uint32_t n)
{
    const unsigned whole = 31u - (unsigned)__builtin_clz(n);
    const int64_t m = (int64_t)((uint64_t)n << (31 - whole) & 0x7fffffff) >> 15; /* in 1/65536 */
    /* log2(1 + m) = m + m (1 - m) (0.4400 - 0.2407 m + 0.0809 m^2), about */
    const int64_t bend = 28834 - (15774 * m >> 16) + ((5302 * m >> 16) * m >> 16);
    const int64_t fraction = m + ((m * (65536 - m) >> 16) * bend >> 16);
    return whole << LOG2_BITS | (uint32_t)(fraction >> (16 - LOG2_BITS));
}

/* n log2 n */
static uint64_t bits_of(uint32_t n)
{
    return n ? (uint64_t)n * log2_fixed(n) : 0;
}

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

/* value / divisor to the nearest; divisor > 0. */
static int rounded(int64_t value, int64_t divisor)
{
    return (int)((value >= 0 ? value + divisor / 2 : value - divisor / 2) / divisor);
}

/* ---- Rows and columns ---- */

/* Measures are in 1/MEASURE_ONE of a fine symbol or of a step of growth. */
enum { MEASURE_ONE = 16 };

typedef struct effects {
    size_t count, blocks, plane_size;
    unsigned block_log2, period;        /* 0: no columns */
    int64_t total, by_rows, by_columns; /* sums of squares: of all, and what rows and columns explain of them */
} effects;

/* Elements that lie in one block, in columns that follow one another. */
typedef struct span {
    size_t first, count, block;
    unsigned column;
} span;

static span span_at(const effects *e, size_t first)
{
    const size_t at = first % e->plane_size, block = first >> e->block_log2;
    size_t end = (block + 1) << e->block_log2;
    span p = {.first = first, .block = block};

    end = end < e->count ? end : e->count;
    if (e->period) {
        p.column = (unsigned)(at % e->period);
        end = end < first + e->plane_size - at ? end : first + e->plane_size - at;
        end = end < first + e->period - p.column ? end : first + e->period - p.column;
    }
    p.count = end - first;
    return p;
}

static size_t block_size(const effects *e, size_t block)
{
    const size_t first = block << e->block_log2, size = (size_t)1 << e->block_log2;
    return e->count - first < size ? e->count - first : size;
}

/* row := mean of measure - column */
static void fit_rows(effects *e, context_scratch *s, bool with_columns)
{
    memset(s->row, 0, e->blocks * sizeof *s->row);
    for (span p = span_at(e, 0); p.count > 0; p = span_at(e, p.first + p.count)) {
        const int16_t *const m = s->measure + p.first;
        const int32_t *const column = s->column + p.column;
        int32_t sum = 0;

        for (size_t i = 0; i < p.count; i++)
            sum += m[i];
        for (size_t i = 0; with_columns && i < p.count; i++)
            sum -= column[i];
        s->row[p.block] += sum;
    }
    e->by_rows = 0;
    for (size_t b = 0; b < e->blocks; b++) {
        const int64_t n = (int64_t)block_size(e, b);
        s->row[b] = rounded(s->row[b], n);
        e->by_rows += (int64_t)s->row[b] * s->row[b] * n;
    }
}

/* About how many elements a column has. */
static int64_t column_size(const effects *e, unsigned column)
{
    const size_t planes = e->count / e->plane_size, rest = e->count % e->plane_size;
    const size_t n = planes * ((e->plane_size - column + e->period - 1) / e->period) +
                     (rest > column ? (rest - column + e->period - 1) / e->period : 0);
    return n > 0 ? (int64_t)n : 1;
}

/* column := mean of measure - row */
static void fit_columns(effects *e, context_scratch *s)
{
    memset(s->column, 0, e->period * sizeof *s->column);
    for (span p = span_at(e, 0); p.count > 0; p = span_at(e, p.first + p.count)) {
        const int16_t *const m = s->measure + p.first;
        int32_t *const column = s->column + p.column;
        const int32_t row = s->row[p.block];

        for (size_t i = 0; i < p.count; i++)
            column[i] += m[i] - row;
    }
    e->by_columns = 0;
    for (unsigned j = 0; j < e->period; j++) {
        const int64_t n = column_size(e, j);
        s->column[j] = rounded(s->column[j], n);
        e->by_columns += (int64_t)s->column[j] * s->column[j] * n;
    }
}

/* Does what `effect` explains pay for `parts` values of `value_bits`? By the share r of the rest that it explains,
 * differences get shorter by -log2(1 - r) / 2, about 0.72 r bits; what chance explains, a rest's mean for each value,
 * does not count. */
static bool effect_pays(const effects *e, int64_t effect, size_t parts, unsigned value_bits)
{
    const int64_t rest = e->total - e->by_rows - e->by_columns;
    const int64_t chance = rest / (int64_t)e->count * (int64_t)parts;

    if (rest <= 0)
        return effect > 0;
    return effect > chance &&
           (double)(effect - chance) / (double)rest * 0.72 * (double)e->count > (double)(parts * value_bits);
}

/* The squares of a run, whose measures are small enough for 32 bits. */
static int32_t squares(const int16_t *measure, size_t count)
{
    int32_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += measure[i] * measure[i];
    return sum;
}

/* Rows and columns of s->measure into s->row and s->column; those that do not pay become 0. */
static effects fit_effects(context_scratch *s, size_t count, unsigned value_bits)
{
    effects e = {.count = count,
                 .plane_size = s->side.grid.plane_size,
                 .block_log2 = s->side.block_log2,
                 .period = s->side.period};

    e.blocks = ((count - 1) >> e.block_log2) + 1;
    for (size_t i = 0; i < count; i += CONTEXT_RUN)
        e.total += squares(s->measure + i, count - i < CONTEXT_RUN ? count - i : CONTEXT_RUN);
    fit_rows(&e, s, false);
    if (e.period) {
        fit_columns(&e, s);
        if (!effect_pays(&e, e.by_columns, e.period, value_bits)) {
            memset(s->column, 0, e.period * sizeof *s->column);
            e.by_columns = 0;
        } else {
            fit_rows(&e, s, true);
        }
    }
    if (!effect_pays(&e, e.by_rows, e.blocks, value_bits)) {
        memset(s->row, 0, e.blocks * sizeof *s->row);
        e.by_rows = 0;
    }
    return e;
}

static void effects_to_values(int8_t *row, int8_t *column, const context_scratch *s, const effects *e, int unit,
                              int limit)
{
    for (size_t b = 0; b < e->blocks; b++)
        row[b] = (int8_t)clamp(rounded(s->row[b], unit), -limit, limit - 1);
    for (unsigned j = 0; j < e->period; j++)
        column[j] = (int8_t)clamp(rounded(s->column[j], unit), -limit, limit - 1);
}

/* ---- Growth ---- */

/* Growth in 1/GROWTH_ONE of an octave; measures are cut at two octaves, then at GROWTH_NEAR around what was found. */
enum {
    GROWTH_ONE = 1 << CONTEXT_MEASURE_SHIFT,
    GROWTH_FAR = 2 * GROWTH_ONE,
    GROWTH_NEAR = GROWTH_ONE / 4,
    GROWTH_BITS = 4, /* of a value, about */
    GROWTH_LIMIT = 128
};

static void cut_to_near(context_scratch *s, const effects *e)
{
    for (span p = span_at(e, 0); p.count > 0; p = span_at(e, p.first + p.count)) {
        int16_t *const m = &s->measure[p.first];
        const int32_t row = s->row[p.block], *const column = s->column + p.column;

        if (e->period)
            for (size_t i = 0; i < p.count; i++)
                m[i] = (int16_t)clamp(m[i], row + column[i] - GROWTH_NEAR, row + column[i] + GROWTH_NEAR);
        else
            for (size_t i = 0; i < p.count; i++)
                m[i] = (int16_t)clamp(m[i], row - GROWTH_NEAR, row + GROWTH_NEAR);
    }
}

bool context_fit_growth(context_scratch *s, const context_kernel *kernel, const context_layout *layout, const void *src,
                        const void *reference, size_t count)
{
    const unsigned char *const x = src, *const y = reference;
    const unsigned width = layout->width;

    if (count > CONTEXT_MEASURES_MAX || (width != 4 && width != 8) || layout->zeros)
        return false;
    for (size_t i = 0; i < count; i += CONTEXT_RUN)
        kernel->growths(s->measure + i, width, x + i * width, y + i * width, GROWTH_FAR,
                        count - i < CONTEXT_RUN ? count - i : CONTEXT_RUN);
    effects e = fit_effects(s, count, GROWTH_BITS);
    if (e.by_rows + e.by_columns == 0)
        return false;
    cut_to_near(s, &e);
    e = fit_effects(s, count, GROWTH_BITS);
    effects_to_values(s->side.row_growth, s->side.column_growth, s, &e, GROWTH_ONE >> CONTEXT_GROWTH_SHIFT,
                      GROWTH_LIMIT);
    return e.by_rows + e.by_columns > 0;
}

/* ---- Levels ---- */

enum { LEVEL_VALUE_BITS = 2, LEVEL_OCTAVES_MAX = 8 };

/* Mean of sizes at each place byte, in 1/MEASURE_ONE; of all where there are none. */
static int32_t place_means(int32_t mean[256], context_scratch *s, const uint8_t *size, bool places, size_t count,
                           unsigned *first, unsigned *last)
{
    uint64_t sums[2][256] = {{0}}; /* elements << 32 | sum of their sizes; two, so that neighbours do not wait */
    uint64_t all = 0;

    if (places) {
        for (size_t i = 0; i < count; i++)
            sums[i & 1][s->level[i]] += (uint64_t)1 << 32 | size[i];
    } else {
        memset(s->level, 0, count);
        uint32_t sum = 0; /* in a register: all would wait for the same one in memory */
        for (size_t i = 0; i < count; i++)
            sum += size[i];
        sums[0][0] = (uint64_t)count << 32 | sum;
    }
    for (unsigned p = 0; p < 256; p++)
        all += sums[0][p] + sums[1][p];
    const int32_t overall = rounded((int64_t)(all & UINT32_MAX) * MEASURE_ONE, (int64_t)count);
    *first = 256;
    *last = 0;
    for (unsigned p = 0; p < 256; p++) {
        const uint64_t sum = sums[0][p] + sums[1][p];
        mean[p] = sum ? rounded((int64_t)(sum & UINT32_MAX) * MEASURE_ONE, (int64_t)(sum >> 32)) : overall;
        *first = sum && p < *first ? p : *first;
        *last = sum ? p : *last;
    }
    return overall;
}

/* measure[i] := size of element i less the mean at its place, cut at `far` to both sides. */
static void measure_levels(context_scratch *s, const context_kernel *kernel, const uint8_t *size,
                           const int32_t mean[256], bool places, int far, size_t count)
{
    uint8_t low[256], high[256], low_of[CONTEXT_RUN], high_of[CONTEXT_RUN];

    for (unsigned p = 0; p < 256; p++) {
        low[p] = (uint8_t)mean[p];
        high[p] = (uint8_t)(mean[p] >> 8);
    }
    memset(low_of, low[0], sizeof low_of);
    memset(high_of, high[0], sizeof high_of);
    for (size_t first = 0; first < count; first += CONTEXT_RUN) {
        const size_t n = count - first < CONTEXT_RUN ? count - first : CONTEXT_RUN;
        int16_t *const measure = s->measure + first;
        const uint8_t *const of = size + first;

        if (places) {
            kernel->translate(low_of, s->level + first, low, n);
            kernel->translate(high_of, s->level + first, high, n);
        }
        for (size_t i = 0; i < n; i++) {
            const int16_t above = (int16_t)(of[i] * MEASURE_ONE - (low_of[i] | high_of[i] << 8));
            const int16_t up = above < (int16_t)far ? above : (int16_t)far;
            measure[i] = up > (int16_t)-far ? up : (int16_t)-far;
        }
    }
}
static_assert(UINT8_MAX * MEASURE_ONE <= INT16_MAX, "means, and measures, have 16 bits");

void context_fit_levels(context_scratch *s, const context_kernel *kernel, const context_layout *layout,
                        const context_fine *fine, size_t count)
{
    context_side *const side = &s->side;
    const int unit = (int)(fine->octave * MEASURE_ONE / 2); /* of a level: half an octave */
    const int far = (int)(LEVEL_OCTAVES_MAX * fine->octave * MEASURE_ONE);
    int32_t mean[256];
    unsigned first = 0, last = 0;

    kernel->translate(s->size, s->symbol, fine->size, count);
    const int32_t overall = place_means(mean, s, s->size, layout->places, count, &first, &last);
    side->place_count = last - first < CONTEXT_PLACES ? last - first + 1 : CONTEXT_PLACES;
    side->place_first = last - side->place_count + 1; /* of too many the lowest count as one */
    for (unsigned p = 0; p < side->place_count; p++)
        side->place[p] = (uint8_t)clamp(CONTEXT_LEVELS / 2 + rounded(mean[side->place_first + p] - overall, unit), 0,
                                        CONTEXT_LEVELS - 1);

    const size_t blocks = ((count - 1) >> side->block_log2) + 1;
    memset(side->row, 0, blocks);
    memset(side->column, 0, side->period);
    if (count > CONTEXT_MEASURES_MAX)
        return;
    measure_levels(s, kernel, s->size, mean, layout->places, far, count);
    const effects e = fit_effects(s, count, LEVEL_VALUE_BITS);
    effects_to_values(side->row, side->column, s, &e, unit, CONTEXT_STEP_MAX);
}

/* ---- Neighbours ---- */

enum { NEIGHBOUR_SAMPLES = 1024 }; /* of each plane */
#define NEIGHBOUR_GAIN_MIN 0.1     /* share of the squares that predictions must explain */

/* The normal equations of one plane: how its values follow from those of the planes before. */
typedef struct plane_fit {
    double squares; /* of the plane's values */
    double with[CONTEXT_LAGS_MAX], among[CONTEXT_LAGS_MAX][CONTEXT_LAGS_MAX];
} plane_fit;

/* Each place counts by the directions of its values, not by their size, which differs between kernels. */
static void plane_count(plane_fit *fit, const float *value, size_t plane_size, unsigned lags)
{
    const size_t step = plane_size / NEIGHBOUR_SAMPLES + 1;

    *fit = (plane_fit){0};
    for (size_t t = 0; t < plane_size; t += step) {
        const double y = (double)value[t];
        double x[CONTEXT_LAGS_MAX], length = y * y;
        for (unsigned l = 0; l < lags; l++) {
            x[l] = (double)*(value + t - (l + 1) * plane_size);
            length += x[l] * x[l];
        }
        if (!(length > 0))
            continue;
        fit->squares += y * y / length;
        for (unsigned l = 0; l < lags; l++) {
            fit->with[l] += x[l] * y / length;
            for (unsigned k = 0; k <= l; k++)
                fit->among[l][k] += x[l] * x[k] / length;
        }
    }
}

/* Solves the equations by Cholesky's way. */
static void plane_solve(double weight[CONTEXT_LAGS_MAX], const plane_fit *fit, unsigned lags)
{
    double root[CONTEXT_LAGS_MAX][CONTEXT_LAGS_MAX];

    for (unsigned l = 0; l < lags; l++) {
        weight[l] = fit->with[l];
        for (unsigned k = 0; k <= l; k++) {
            double sum = fit->among[l][k] + (k == l ? 1e-3 : 0); /* never singular */
            for (unsigned m = 0; m < k; m++)
                sum -= root[l][m] * root[k][m];
            root[l][k] = k == l ? sqrt(sum > 1e-6 ? sum : 1e-6) : sum / root[k][k];
        }
        for (unsigned k = 0; k < l; k++)
            weight[l] -= root[l][k] * weight[k];
        weight[l] /= root[l][l];
    }
    for (unsigned l = lags; l-- > 0;) {
        for (unsigned k = l + 1; k < lags; k++)
            weight[l] -= root[k][l] * weight[k];
        weight[l] /= root[l][l];
    }
}

/* Squares that are left with these weights. */
static double plane_rest(const plane_fit *fit, const int8_t *weight, unsigned lags)
{
    double rest = fit->squares;

    for (unsigned l = 0; l < lags; l++) {
        const double w = (double)weight[l] / CONTEXT_WEIGHT_ONE;
        rest += w * (w * fit->among[l][l] - 2 * fit->with[l]);
        for (unsigned k = 0; k < l; k++)
            rest += 2 * w * weight[k] / CONTEXT_WEIGHT_ONE * fit->among[l][k];
    }
    return rest;
}

bool context_fit_neighbours(context_scratch *s)
{
    const context_grid *const g = &s->side.grid;
    double squares = 0, rest = 0;

    for (unsigned p = 1; p < g->planes; p++) {
        const unsigned lags = context_lags(g, p);
        double weight[CONTEXT_LAGS_MAX];
        plane_fit fit;

        plane_count(&fit, s->value + p * g->plane_size, g->plane_size, lags);
        plane_solve(weight, &fit, lags);
        for (unsigned l = 0; l < lags; l++)
            s->side.plane_weight[p][l] = (int8_t)clamp((int)lrint(weight[l] * CONTEXT_WEIGHT_ONE), INT8_MIN, INT8_MAX);
        squares += fit.squares;
        rest += plane_rest(&fit, s->side.plane_weight[p], lags);
    }
    return rest < squares * (1 - NEIGHBOUR_GAIN_MIN);
}

/* ---- Tables ---- */

/* A run of levels that share a table; its counts stand in the histogram of its first level. */
typedef struct segment_of_levels {
    unsigned first;
    uint64_t bits; /* of all its symbols, coded with a table of its own */
    int64_t saved; /* by uniting it with the next one; negative: that costs */
} segment_of_levels;

static uint64_t table_bits(const uint32_t *a, const uint32_t *b, unsigned count, unsigned *both)
{
    uint64_t bits = 0;
    uint32_t n = 0;

    *both = 0;
    for (unsigned f = 0; f < count; f++) {
        const uint32_t c = a[f] + (b ? b[f] : 0);
        if (b)
            *both += a[f] && b[f];
        n += c;
        bits += bits_of(c);
    }
    return bits_of(n) - bits;
}

static void segment_look_ahead(segment_of_levels *a, const segment_of_levels *b, const context_scratch *s,
                               unsigned count)
{
    unsigned both = 0;
    const uint64_t united = table_bits(s->histogram[a->first], s->histogram[b->first], count, &both);
    a->saved = (int64_t)(a->bits + b->bits) - (int64_t)united + TABLE_COST + (int64_t)both * WEIGHT_COST;
}

static bool level_is_empty(const uint32_t *counts, unsigned count)
{
    return bytes_are_zero(counts, count * sizeof *counts);
}

/* Cuts levels into runs, each with a table, uniting neighbours as long as that saves bits. */
static void fit_segments(context_scratch *s, unsigned count)
{
    segment_of_levels segment[CONTEXT_LEVELS];
    unsigned n = 0, ignored = 0;

    for (unsigned level = 0; level < CONTEXT_LEVELS; level++)
        if (!level_is_empty(s->histogram[level], count))
            segment[n++] =
                (segment_of_levels){.first = level, .bits = table_bits(s->histogram[level], NULL, count, &ignored)};
    for (unsigned i = 0; i + 1 < n; i++)
        segment_look_ahead(&segment[i], &segment[i + 1], s, count);
    while (n > 1) {
        unsigned best = 0;
        for (unsigned i = 1; i + 1 < n; i++)
            if (segment[i].saved > segment[best].saved)
                best = i;
        if (segment[best].saved <= 0 && n <= RANS_TABLES_MAX)
            break;
        uint32_t *const into = s->histogram[segment[best].first];
        const uint32_t *const from = s->histogram[segment[best + 1].first];
        for (unsigned f = 0; f < count; f++)
            into[f] += from[f];
        segment[best].bits = table_bits(into, NULL, count, &ignored);
        n--;
        memmove(&segment[best + 1], &segment[best + 2], (n - best - 1) * sizeof *segment);
        if (best + 1 < n)
            segment_look_ahead(&segment[best], &segment[best + 1], s, count);
        if (best > 0)
            segment_look_ahead(&segment[best - 1], &segment[best], s, count);
    }
    /* The counts of table t move to row t. Levels without elements go with those before them. */
    for (unsigned t = 0; t < n; t++) {
        const unsigned end = t + 1 < n ? segment[t + 1].first : CONTEXT_LEVELS;
        for (unsigned level = t ? segment[t].first : 0; level < end; level++)
            s->side.table[level] = (uint8_t)t;
        memmove(s->histogram[t], s->histogram[segment[t].first], sizeof s->histogram[t]);
    }
    s->side.table_count = n;
}

/* Is telling two halves of an interval apart worth its weights? Else one raw bit does it. */
static bool halves_pay(const uint32_t *lower, const uint32_t *upper, unsigned tables, const unsigned stride)
{
    uint64_t split = NODE_COST, united = 0;

    for (unsigned t = 0; t < tables; t++) {
        const uint32_t a = lower[t * stride], b = upper[t * stride];
        split += bits_of(a + b) - bits_of(a) - bits_of(b) + (a && b ? WEIGHT_COST : 0);
        united += (uint64_t)(a + b) * LOG2_ONE;
    }
    return split < united;
}

/* Unites halves of intervals that do not pay, from the smallest intervals up. */
static void fit_intervals(uint8_t merged[RANS_SYMBOLS_MAX], context_scratch *s, const context_alphabet *fine)
{
    context_alphabet *const out = &s->side.alphabet;
    const unsigned tables = s->side.table_count, stride = RANS_SYMBOLS_MAX;
    uint8_t first[RANS_SYMBOLS_MAX]; /* fine symbol with which each one begins */
    unsigned n = 0;

    /* Columns of the histogram move to the front, where those that are done lie as on a stack. */
    for (unsigned f = 0; f < fine->count; f++) {
        out->base[n] = fine->base[f];
        out->bits[n] = fine->bits[f];
        first[n] = (uint8_t)f;
        for (unsigned t = 0; t < tables; t++)
            s->histogram[t][n] = s->histogram[t][f];
        n++;
        while (n > 1 && out->bits[n - 1] == out->bits[n - 2] && !(out->base[n - 2] >> out->bits[n - 2] & 1) &&
               !halves_pay(&s->histogram[0][n - 2], &s->histogram[0][n - 1], tables, stride)) {
            n--;
            out->bits[n - 1]++;
            for (unsigned t = 0; t < tables; t++)
                s->histogram[t][n - 1] += s->histogram[t][n];
        }
    }
    out->count = n;
    for (unsigned i = 0; i < n; i++)
        for (unsigned f = first[i]; f < (i + 1 < n ? first[i + 1] : fine->count); f++)
            merged[f] = (uint8_t)i;
}

static void fit_weights(context_side *side, unsigned table, const uint32_t *counts)
{
    uint32_t most = 0;

    for (unsigned i = 0; i < side->alphabet.count; i++)
        most = counts[i] > most ? counts[i] : most;
    for (unsigned i = 0; i < side->alphabet.count; i++)
        side->weight[table][i] =
            counts[i] ? (uint8_t)clamp(
                            CONTEXT_WEIGHT_MAX -
                                rounded((int64_t)4 * ((int64_t)log2_fixed(most) - log2_fixed(counts[i])), LOG2_ONE),
                            1, CONTEXT_WEIGHT_MAX)
                      : 0;
}

void context_fit_tables(uint8_t merged[RANS_SYMBOLS_MAX], context_scratch *s, const context_fine *fine)
{
    fit_segments(s, fine->alphabet.count);
    fit_intervals(merged, s, &fine->alphabet);
    for (unsigned t = 0; t < s->side.table_count; t++)
        fit_weights(&s->side, t, s->histogram[t]);
}
