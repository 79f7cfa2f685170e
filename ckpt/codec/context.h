/* Context coding: elements turned into numbers, numbers cut into a symbol and raw bits, symbols entropy coded with the
 * frequencies of the place they stand at.
 *
 *   number := of an element, in N = 8 * width - zeros bits: itself, or its ordered difference to the reference in
 *             zigzag, or its XOR with the reference
 *   symbol := a dyadic interval that the number lies in; which place in it is told by raw bits
 *   level  := place[reference] + row[i / block] + column[i mod period]: what size of number is to be expected here
 *   table  := one for each range of levels, at most RANS_TABLES_MAX
 *
 * The values of a convolution's kernel are alike at neighbouring places: in gradients, and so in all that is made of
 * them. So kernels are coded plane by plane (a plane: one place of all kernels), and earlier planes predict elements of
 * later ones; the prediction is added to the reference, or stands for one.
 *
 * Everything that selects a table is known before a run of symbols is decoded, so symbols are decoded in parallel.
 * Intervals, places, rows, columns and tables are found by the encoder for each chunk (context_fit.c) and stand in its
 * side information (context_side.c); docs/format.md describes every byte. */
#ifndef CKPT_CONTEXT_H
#define CKPT_CONTEXT_H

#include "codec.h"
#include "rans.h"

#define CONTEXT_HEAD_SIZE    12
#define CONTEXT_GRID_SIZE    5 /* more, for chunks with neighbours */
#define CONTEXT_PLANES_MAX   64
#define CONTEXT_LAGS_MAX     8     /* planes that a prediction is made of */
#define CONTEXT_GROUP_MAX    32768 /* elements of all planes of a group of kernels, planes * inner */
#define CONTEXT_LEVELS       64
#define CONTEXT_PLACES       64
#define CONTEXT_PERIOD_MAX   32768
#define CONTEXT_BLOCK_MIN    32 /* also the largest number of lanes */
#define CONTEXT_BLOCKS_MAX   (CODEC_CHUNK_BYTES / CONTEXT_BLOCK_MIN)
#define CONTEXT_MEASURES_MAX (CODEC_CHUNK_BYTES / 2) /* bytes have no rows and columns when there are more */
#define CONTEXT_RUN          1024                    /* elements that are worked on at a time */
#define CONTEXT_MEASURE_SHIFT 8
#define CONTEXT_GROWTH_SHIFT 5                       /* growth is in 1/32 of an octave */
#define CONTEXT_WEIGHT_ONE   32                      /* weights of planes are in 1/32 */

typedef enum context_number { CONTEXT_RAW = 0, CONTEXT_SUB = 1, CONTEXT_XOR = 2 } context_number;

/* How elements become numbers. */
typedef struct context_layout {
    context_number number;
    unsigned width;      /* bytes of an element: 1, 2, 4, 8 */
    unsigned zeros;      /* low bits that are 0 in all elements; less than 8 * width */
    bool turned;         /* RAW: the sign stands below the mantissa; SUB: elements are floats */
    bool places;         /* the reference selects tables */
    bool growth;         /* SUB: the reference grows by rows and columns before it is subtracted */
    bool neighbours;     /* f32: earlier planes predict */
    unsigned place_from; /* place bytes are bits place_from to place_from + 7 of the reference */
} context_layout;

/* In which order elements are coded:
 *
 *   elements := before[before] (plane[inner]{planes}){groups} after      as they stand
 *   order    := plane 0 of all groups, plane 1 of all groups, ...; then `before` and `after`
 *
 * Without neighbours there is one plane of everything. */
typedef struct context_grid {
    unsigned planes, inner;
    size_t before, groups;
    size_t plane_size; /* groups * inner, or all */
} context_grid;

/* The intervals, in the order of the numbers; together they are all numbers of N bits. */
typedef struct context_alphabet {
    unsigned count; /* 1 to RANS_SYMBOLS_MAX */
    uint64_t base[RANS_SYMBOLS_MAX];
    uint8_t bits[RANS_SYMBOLS_MAX]; /* the interval has 2^bits numbers */
} context_alphabet;

/* All that the side information says. */
typedef struct context_side {
    context_alphabet alphabet;
    unsigned place_first, place_count; /* place bytes outside count as the nearest one inside */
    uint8_t place[CONTEXT_PLACES];     /* level of each; without places only the first counts */
    uint8_t table[CONTEXT_LEVELS];     /* of each level, never falling and without gaps from 0 */
    unsigned table_count;              /* 1 to RANS_TABLES_MAX */
    unsigned block_log2, period;       /* of rows; of columns, 0: no columns */
    context_grid grid;
    int8_t plane_weight[CONTEXT_PLANES_MAX][CONTEXT_LAGS_MAX]; /* of planes 1, 2, ... before, in 1/CONTEXT_WEIGHT_ONE */
    int8_t row[CONTEXT_BLOCKS_MAX], row_growth[CONTEXT_BLOCKS_MAX];
    /* Continued periodically, so that a run of elements needs no division. */
    int8_t column[CONTEXT_PERIOD_MAX + CONTEXT_RUN], column_growth[CONTEXT_PERIOD_MAX + CONTEXT_RUN];
    uint8_t weight[RANS_TABLES_MAX][RANS_SYMBOLS_MAX];     /* 0 to CONTEXT_WEIGHT_MAX, see context_frequencies */
    uint16_t frequency[RANS_TABLES_MAX][RANS_SYMBOLS_MAX]; /* what follows from them */
} context_side;

/* How many bits the numbers of a layout have. */
static inline unsigned context_bits(const context_layout *l)
{
    return 8 * l->width - l->zeros;
}

/* Planes that the prediction of plane p is made of: three by three kernels need those up to the one above on the left,
 * larger ones more. */
static inline unsigned context_lags(const context_grid *g, unsigned p)
{
    const unsigned lags = g->planes <= 9 ? 4 : CONTEXT_LAGS_MAX;
    return p < lags ? p : lags;
}

/* The alphabet in the forms that decoding wants, for numbers of up to 32 bits: base << 8 | bits; and, of the first
 * CONTEXT_PLANE_SYMBOLS, the bytes of the base from the lowest on, then bits, each in a table of its own. */
#define CONTEXT_PLANE_SYMBOLS 128
typedef struct context_cuts {
    const context_alphabet *alphabet;
    uint64_t packed[RANS_SYMBOLS_MAX];
    uint8_t plane[5][CONTEXT_PLANE_SYMBOLS];
    unsigned bits_max;
} context_cuts;

/* Sums of place, row and column, each within its limits, are inside this range; levels are what it is cut to. */
#define CONTEXT_STEP_MAX (CONTEXT_LEVELS / 2) /* rows and columns are from -CONTEXT_STEP_MAX to CONTEXT_STEP_MAX - 1   \
                                               */
#define CONTEXT_SUM_MIN (-2 * CONTEXT_STEP_MAX)
#define CONTEXT_SUM_MAX (CONTEXT_LEVELS - 1 + 2 * (CONTEXT_STEP_MAX - 1))
typedef struct context_sums {
    uint8_t place_of[256];                             /* level of each place byte */
    uint8_t of[CONTEXT_SUM_MAX - CONTEXT_SUM_MIN + 1]; /* of[sum - CONTEXT_SUM_MIN]: what its level stands for */
    /* The same for place bytes less `first`, and for sums, that are cut to 0 and 63 before. */
    uint8_t first, near[CONTEXT_PLACES], level[CONTEXT_LEVELS];
    uint8_t single; /* level of all elements, when there are no places */
    bool columns;   /* are there any? */
} context_sums;

/* The passes over elements, in one implementation for each instruction set; all give the same bytes. Each works on at
 * most CONTEXT_RUN elements. Numbers are unsigned integers as wide as the elements. */
typedef struct context_kernel {
    const char *name; /* "scalar", "avx2", "avx512" */
    void (*numbers)(void *numbers, const context_layout *layout, const void *src, const void *reference, size_t count);
    void (*elements)(void *dst, const context_layout *layout, const void *numbers, const void *reference, size_t count);
    /* place[i] := place byte of element i of the reference */
    void (*places)(uint8_t *place, const context_layout *layout, const void *reference, size_t count);
    /* value[i] := what the sum of a place's level, row and column stands for. `place` NULL: all have the first level;
     * `column` NULL: all are 0. May work in place. */
    void (*sums)(uint8_t *value, const uint8_t *place, int row, const int8_t *column, const context_sums *sums,
                 size_t count);
    /* to[i] := table[from[i]]; may work in place. */
    void (*translate)(uint8_t *to, const uint8_t *from, const uint8_t table[256], size_t count);
    /* The largest of the numbers. */
    uint64_t (*most)(const void *numbers, unsigned width, size_t count);
    /* measure[i] := by how much the logarithm of x[i] is above that of y[i], in 1/2^CONTEXT_MEASURE_SHIFT of an octave,
     * cut at `far` to both sides; the bits of floats of 4 or 8 bytes. */
    void (*growths)(int16_t *measure, unsigned width, const void *x, const void *y, int far, size_t count);
    /* reference := grown reference, in place. `growth` is for each element, in 1/2^CONTEXT_GROWTH_SHIFT of an octave;
     * NULL: there is none. */
    void (*grow)(void *reference, unsigned width, const int16_t *growth, size_t count);
    /* prediction[i] := sum over lags of weight * value[i - lag * plane_size], for `lags` planes that there are. */
    void (*predict)(float *prediction, const float *value, size_t plane_size, const int8_t *weight, unsigned lags,
                    size_t count);
    /* reference[i] := reference[i] + prediction[i], unless it is huge or no number. */
    void (*approach)(uint32_t *reference, const float *prediction, size_t count);
    /* value[i] := element - reference, what neighbours are predicted from; reference NULL: element. */
    void (*values)(float *value, const uint32_t *element, const uint32_t *reference, size_t count);
    /* Numbers from symbols and their bits, from bit *at of `bits` on, which may be read 9 bytes behind the last bit. */
    void (*join)(void *numbers, unsigned width, const context_cuts *cuts, const uint8_t *symbol,
                 const unsigned char *bits, uint64_t *at, size_t count);
} context_kernel;

extern const context_kernel CONTEXT_KERNEL_SCALAR;
const context_kernel *context_kernel_avx2(void);   /* NULL: not this machine */
const context_kernel *context_kernel_avx512(void); /* the same; wants VBMI */
const context_kernel *context_kernel_best(void);

/* ---- Side information (context_side.c) ---- */

/* Writes the side information of `count` elements and fills in the frequencies; false: it does not fit. */
bool context_side_write(size_t *size, void *dst, size_t capacity, context_side *side, const context_layout *layout,
                        size_t count);
/* Fills all of *side but block_log2, period and grid, which stand in the head and are set. CKPT_EDATA. */
int context_side_read(context_side *side, const void *src, size_t size, const context_layout *layout, size_t count,
                      ckpt_error *err);
/* Frequencies for a table from the weights that stand in the side information (0: does not occur). They add up to
 * RANS_TOTAL; false when there is no weight at all. */
#define CONTEXT_WEIGHT_MAX 48 /* a weight w stands for 2^((w - 1) / 4) */
bool context_frequencies(uint16_t frequency[], const uint8_t weight[], unsigned symbol_count);

/* ---- Finding it (context_fit.c) ---- */

/* Scratch memory of one worker. */
typedef struct context_scratch {
    context_side side;
    rans_slot slots[RANS_TABLES_MAX * RANS_TOTAL];
    rans_symbol symbols[RANS_TABLES_MAX * RANS_SYMBOLS_MAX];
    uint32_t histogram[CONTEXT_LEVELS][RANS_SYMBOLS_MAX]; /* of fine symbols at each level */
    uint8_t symbol[CODEC_CHUNK_BYTES];                    /* of each element: fine ones first, then those of side */
    uint8_t level[CODEC_CHUNK_BYTES];                     /* of each element: place bytes, levels, tables */
    uint8_t size[CODEC_CHUNK_BYTES];                      /* of each element: that of its fine symbol */
    int16_t measure[CONTEXT_MEASURES_MAX];                /* of each element: what rows and columns are found from */
    int32_t row[CONTEXT_BLOCKS_MAX], column[CONTEXT_PERIOD_MAX];
    uint32_t element[CODEC_CHUNK_BYTES / 4];   /* in the order of coding, for chunks with neighbours */
    uint32_t reference[CODEC_CHUNK_BYTES / 4]; /* the same */
    float value[CODEC_CHUNK_BYTES / 4];        /* the same; what neighbours are predicted from */
    size_t fixed_size; /* of the chunk coded last: what does not grow with the number of elements */
} context_scratch;

/* What the fine symbols of a chunk are: the alphabet before symbols that do not pay are united. Symbols that are
 * `octave` apart stand for numbers that differ by a factor of two. */
typedef struct context_fine {
    context_alphabet alphabet;
    unsigned octave;
    uint8_t size[RANS_SYMBOLS_MAX]; /* of each symbol's numbers, without sign, in 1/octave of an octave */
} context_fine;

/* Rows and columns by which the reference should grow, from the first look at both; false: it does not pay. Fills
 * row_growth and column_growth. */
bool context_fit_growth(context_scratch *s, const context_kernel *kernel, const context_layout *layout, const void *src,
                        const void *reference, size_t count);
/* Places, rows and columns for s->symbol (fine) and s->level (place bytes); fills s->side up to the tables. */
void context_fit_levels(context_scratch *s, const context_kernel *kernel, const context_layout *layout,
                        const context_fine *fine, size_t count);
/* Weights of planes for s->value; false: predictions do not pay. Fills s->side.plane_weight. */
bool context_fit_neighbours(context_scratch *s);
/* Tables, intervals and weights for s->histogram; `merged` is the symbol that each fine one becomes. */
void context_fit_tables(uint8_t merged[RANS_SYMBOLS_MAX], context_scratch *s, const context_fine *fine);

/* ---- Coding ---- */

struct codec; /* scratch memory */

/* Codes `size` bytes as `context`; *coded_size is SIZE_MAX when that takes more than `capacity`. `reference` is NULL or
 * has `size` bytes. */
int context_encode(size_t *coded_size, void *dst, size_t capacity, struct codec *c, const codec_plan *plan,
                   const void *src, size_t size, const void *reference, ckpt_error *err);
/* `reference` NULL: of a chunk that was coded without. CKPT_EDATA. */
int context_decode(void *dst, size_t size, struct codec *c, const void *coded, size_t coded_size, const void *reference,
                   ckpt_error *err);

#endif
