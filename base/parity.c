#include "parity.h"

#include "fail.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/erasure_code.h>

#define TABLE_BYTES       32   /* that libisal makes of one coefficient */
#define SMALL_BLOCKS      128  /* up to so many blocks are kept small, to lose little with each */
#define PAGE_BLOCK        4096 /* of a device: damage is seldom smaller */
#define FINE_BLOCKS_COUNT 65536

struct parity_code {
    unsigned data_count, parity_count;
    unsigned char *tables; /* [m][k][TABLE_BYTES] */
};

struct parity_decoder {
    unsigned source_count, lost_count;
    unsigned char sources[PARITY_GROUP_MAX];
    unsigned char *tables; /* [lost][sources][TABLE_BYTES] */
};

/* ---- The matrix ------------------------------------------------------------------------------------------------- */

static unsigned char coefficient(const parity_code *code, unsigned parity, unsigned data)
{
    return gf_inv((unsigned char)((code->data_count + parity) ^ data));
}

static int tables_new(unsigned char **out, unsigned rows, unsigned columns, unsigned char *matrix, ckpt_error *err)
{
    *out = malloc((size_t)TABLE_BYTES * rows * columns + 1);
    if (!*out)
        return error_memory(err);
    ec_init_tables((int)columns, (int)rows, matrix, *out);
    return 0;
}

/* dst[row] = sum over columns of matrix[row][column] * src[column]. libisal has no const, so it gets copies. */
static void multiply(unsigned char *const *dst, unsigned rows, unsigned char *tables, unsigned char *const *src,
                     unsigned columns, size_t size)
{
    unsigned char *to[PARITY_GROUP_MAX], *from[PARITY_GROUP_MAX];

    assert(size <= INT_MAX);
    memcpy(to, dst, rows * sizeof *to);
    memcpy(from, src, columns * sizeof *from);
    ec_encode_data((int)size, (int)columns, (int)rows, tables, from, to);
}

int parity_code_new(parity_code **out, unsigned data_count, unsigned parity_count, ckpt_error *err)
{
    int rc = 0;
    unsigned char *matrix = NULL;
    parity_code *code = calloc(1, sizeof *code);

    FAIL_IF_NULL(code, err);
    FAIL_IF(data_count == 0 || parity_count == 0 || data_count > PARITY_GROUP_MAX ||
                parity_count > PARITY_GROUP_MAX - data_count,
            err, CKPT_EUSAGE, "no parity of %u blocks for %u", parity_count, data_count);
    code->data_count = data_count;
    code->parity_count = parity_count;
    matrix = malloc((size_t)data_count * parity_count);
    FAIL_IF_NULL(matrix, err);
    for (unsigned i = 0; i < parity_count; i++)
        for (unsigned j = 0; j < data_count; j++)
            matrix[i * data_count + j] = coefficient(code, i, j);
    TRY(tables_new(&code->tables, parity_count, data_count, matrix, err));
    *out = code;
    code = NULL;
out:
    free(matrix);
    parity_code_free(code);
    return rc;
}

void parity_code_free(parity_code *code)
{
    if (!code)
        return;
    free(code->tables);
    free(code);
}

void parity_encode(unsigned char *const *parity, const parity_code *code, unsigned char *const *data, size_t size)
{
    multiply(parity, code->parity_count, code->tables, data, code->data_count, size);
}

/* ---- Rebuilding ------------------------------------------------------------------------------------------------- */

/* Blocks of one group, by what is left of them. */
typedef struct survey {
    unsigned kept_count, gone_count;        /* data blocks */
    unsigned char kept[PARITY_GROUP_MAX];   /* data blocks that are there */
    unsigned char gone[PARITY_GROUP_MAX];   /* data blocks that are lost */
    unsigned char helper[PARITY_GROUP_MAX]; /* as many parity blocks that are there */
    unsigned lost_parity_count;
    unsigned char lost_parity[PARITY_GROUP_MAX];
} survey;

static int survey_make(survey *s, const parity_code *code, const bool *lost, ckpt_error *err)
{
    int rc = 0;
    unsigned helpers = 0;

    *s = (survey){0};
    for (unsigned j = 0; j < code->data_count; j++)
        if (lost[j])
            s->gone[s->gone_count++] = (unsigned char)j;
        else
            s->kept[s->kept_count++] = (unsigned char)j;
    for (unsigned i = 0; i < code->parity_count; i++)
        if (lost[code->data_count + i])
            s->lost_parity[s->lost_parity_count++] = (unsigned char)i;
        else if (helpers < s->gone_count)
            s->helper[helpers++] = (unsigned char)i;
    FAIL_IF(helpers < s->gone_count, err, CKPT_EDATA, "%u blocks of %u are lost, and %u of %u parity blocks",
            s->gone_count, code->data_count, s->lost_parity_count, code->parity_count);
out:
    return rc;
}

/* The lost data blocks d follow from the helping parity blocks p and the kept data blocks: with C the coefficients of d
 * in p,
 *
 *   C d = p - (coefficients of the kept blocks) kept        so        d = inverse(C) (p - ...)
 *
 * In GF(2^8) minus is plus. `inverse` is [gone][gone]; `rows` gets [gone][sources], sources being kept, then helpers.
 */
static void data_rows(unsigned char *rows, const parity_code *code, const survey *s, const unsigned char *inverse)
{
    const unsigned gone = s->gone_count, columns = s->kept_count + gone;

    for (unsigned d = 0; d < gone; d++) {
        unsigned char *const row = rows + d * columns;
        memset(row, 0, s->kept_count);
        for (unsigned h = 0; h < gone; h++) {
            const unsigned char factor = inverse[d * gone + h];
            row[s->kept_count + h] = factor;
            for (unsigned j = 0; j < s->kept_count; j++)
                row[j] ^= gf_mul(factor, coefficient(code, s->helper[h], s->kept[j]));
        }
    }
}

/* A lost parity block is made of data blocks, those that are kept and those of data_rows. */
static void parity_row(unsigned char *row, const parity_code *code, const survey *s, unsigned parity,
                       const unsigned char *rows)
{
    const unsigned columns = s->kept_count + s->gone_count;

    memset(row, 0, columns);
    for (unsigned j = 0; j < s->kept_count; j++)
        row[j] = coefficient(code, parity, s->kept[j]);
    for (unsigned d = 0; d < s->gone_count; d++) {
        const unsigned char factor = coefficient(code, parity, s->gone[d]);
        for (unsigned c = 0; c < columns; c++)
            row[c] ^= gf_mul(factor, rows[d * columns + c]);
    }
}

static int matrix_invert(unsigned char **out, const parity_code *code, const survey *s, ckpt_error *err)
{
    int rc = 0;
    const size_t cells = (size_t)s->gone_count * s->gone_count;
    unsigned char *const matrix = malloc(cells + 1), *inverse = malloc(cells + 1);

    FAIL_IF_NULL(matrix, err);
    FAIL_IF_NULL(inverse, err);
    for (unsigned h = 0; h < s->gone_count; h++)
        for (unsigned d = 0; d < s->gone_count; d++)
            matrix[h * s->gone_count + d] = coefficient(code, s->helper[h], s->gone[d]);
    FAIL_IF(s->gone_count > 0 && gf_invert_matrix(matrix, inverse, (int)s->gone_count), err, CKPT_EBUG,
            "a Cauchy matrix has no inverse");
    *out = inverse;
    inverse = NULL;
out:
    free(inverse);
    free(matrix);
    return rc;
}

int parity_decoder_new(parity_decoder **out, const parity_code *code, const bool *lost, ckpt_error *err)
{
    int rc = 0;
    survey s;
    unsigned char *inverse = NULL, *rows = NULL;
    parity_decoder *d = calloc(1, sizeof *d);

    FAIL_IF_NULL(d, err);
    TRY(survey_make(&s, code, lost, err));
    d->source_count = code->data_count;
    d->lost_count = s.gone_count + s.lost_parity_count;
    memcpy(d->sources, s.kept, s.kept_count);
    for (unsigned h = 0; h < s.gone_count; h++)
        d->sources[s.kept_count + h] = (unsigned char)(code->data_count + s.helper[h]);
    TRY(matrix_invert(&inverse, code, &s, err));
    rows = malloc((size_t)d->lost_count * d->source_count + 1);
    FAIL_IF_NULL(rows, err);
    data_rows(rows, code, &s, inverse);
    for (unsigned i = 0; i < s.lost_parity_count; i++)
        parity_row(rows + (size_t)(s.gone_count + i) * d->source_count, code, &s, s.lost_parity[i], rows);
    TRY(tables_new(&d->tables, d->lost_count, d->source_count, rows, err));
    *out = d;
    d = NULL;
out:
    free(rows);
    free(inverse);
    parity_decoder_free(d);
    return rc;
}

void parity_decoder_free(parity_decoder *d)
{
    if (!d)
        return;
    free(d->tables);
    free(d);
}

const unsigned char *parity_decoder_sources(const parity_decoder *d)
{
    return d->sources;
}

void parity_decode(unsigned char *const *lost, const parity_decoder *d, unsigned char *const *sources, size_t size)
{
    if (d->lost_count > 0)
        multiply(lost, d->lost_count, d->tables, sources, d->source_count, size);
}

/* ---- Layout ----------------------------------------------------------------------------------------------------- */

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

int parity_layout_complete(parity_layout *l, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(l->size == 0 || l->block_size < PARITY_BLOCK_MIN || l->block_size > PARITY_BLOCK_MAX ||
                (l->block_size & (l->block_size - 1)) != 0 || l->group_count == 0 || l->parity_count == 0,
            err, CKPT_EDATA, "no such layout of parity");
    l->data_blocks = divide_up(l->size, l->block_size);
    FAIL_IF(l->data_blocks > PARITY_BLOCKS_MAX || l->group_count > l->data_blocks, err, CKPT_EDATA,
            "no parity of %" PRIu64 " blocks in %" PRIu32 " groups", l->data_blocks, l->group_count);
    const uint64_t data_count = divide_up(l->data_blocks, l->group_count);
    FAIL_IF(data_count > PARITY_GROUP_MAX || l->parity_count > PARITY_GROUP_MAX - data_count, err, CKPT_EDATA,
            "no parity of %u blocks for %" PRIu64, l->parity_count, data_count);
    l->data_count = (unsigned)data_count;
    l->parity_blocks = (uint64_t)l->group_count * l->parity_count;
out:
    return rc;
}

static uint32_t block_size_for(uint64_t size)
{
    uint32_t block = PARITY_BLOCK_MIN;

    while (block < PAGE_BLOCK && divide_up(size, block) > SMALL_BLOCKS)
        block *= 2;
    while (block < PARITY_BLOCK_MAX && divide_up(size, block) > FINE_BLOCKS_COUNT)
        block *= 2;
    return block;
}

int parity_layout_choose(parity_layout *out, uint64_t size, double share, ckpt_error *err)
{
    int rc = 0;
    parity_layout l = {.size = size, .block_size = block_size_for(size)};

    FAIL_IF(!(share > 0 && share <= PARITY_SHARE_MAX), err, CKPT_EUSAGE,
            "a share of parity is above 0 and at most %d %%", (int)(100 * PARITY_SHARE_MAX));
    const uint64_t blocks = divide_up(size, l.block_size);
    FAIL_IF(blocks == 0 || blocks > PARITY_BLOCKS_MAX, err, CKPT_EUSAGE, "no parity for %" PRIu64 " bytes", size);
    /* A range begins and ends inside blocks: one more than fit into it. */
    const uint64_t wanted = (uint64_t)(share * (double)blocks) + 2;
    uint64_t groups = divide_up(blocks + wanted, PARITY_GROUP_MAX);
    while (divide_up(blocks, groups) + divide_up(wanted, groups) > PARITY_GROUP_MAX)
        groups++;
    l.group_count = (uint32_t)groups;
    l.parity_count = (unsigned)divide_up(wanted, groups);
    TRY(parity_layout_complete(&l, err));
    *out = l;
out:
    return rc;
}

/* ---- All groups ------------------------------------------------------------------------------------------------- */

/* Memory for one group: data blocks, then parity blocks. */
typedef struct workspace {
    unsigned char *memory;
    unsigned char *blocks[PARITY_GROUP_MAX];
} workspace;

static int workspace_make(workspace *w, const parity_layout *l, ckpt_error *err)
{
    const unsigned count = l->data_count + l->parity_count;

    w->memory = calloc(count, l->block_size);
    if (!w->memory)
        return error_memory(err);
    for (unsigned i = 0; i < count; i++)
        w->blocks[i] = w->memory + (size_t)i * l->block_size;
    return 0;
}

/* The block that stands at a place of a group; false: there is none, and zeros stand for it. */
static bool block_at(uint64_t *block, const parity_layout *l, uint32_t group, unsigned place)
{
    const bool is_data = place < l->data_count;
    const uint64_t number = (uint64_t)(is_data ? place : place - l->data_count) * l->group_count + group;

    *block = is_data ? number : l->data_blocks + number;
    return !is_data || number < l->data_blocks;
}

static int place_read(workspace *w, const parity_layout *l, const parity_io *io, uint32_t group, unsigned place,
                      ckpt_error *err)
{
    uint64_t block;

    if (block_at(&block, l, group, place))
        return io->read(io->payload, w->blocks[place], block, err);
    memset(w->blocks[place], 0, l->block_size);
    return 0;
}

int parity_blocks_make(const parity_layout *l, const parity_io *io, ckpt_error *err)
{
    int rc = 0;
    uint64_t block;
    workspace w = {0};
    parity_code *code = NULL;

    TRY(parity_code_new(&code, l->data_count, l->parity_count, err));
    TRY(workspace_make(&w, l, err));
    for (uint32_t group = 0; group < l->group_count; group++) {
        for (unsigned i = 0; i < l->data_count; i++)
            TRY(place_read(&w, l, io, group, i, err));
        parity_encode(w.blocks + l->data_count, code, w.blocks, l->block_size);
        for (unsigned i = l->data_count; i < l->data_count + l->parity_count; i++) {
            (void)block_at(&block, l, group, i);
            TRY(io->write(io->payload, w.blocks[i], block, err));
        }
    }
out:
    free(w.memory);
    parity_code_free(code);
    return rc;
}

/* Which blocks of a group are lost, and how many. */
static unsigned group_lost(bool out[PARITY_GROUP_MAX], const parity_layout *l, uint32_t group, const bool *lost)
{
    unsigned count = 0;
    uint64_t block;

    for (unsigned i = 0; i < l->data_count + l->parity_count; i++) {
        out[i] = block_at(&block, l, group, i) && lost[block];
        count += out[i];
    }
    return count;
}

uint64_t parity_blocks_short(const parity_layout *l, const bool *lost)
{
    uint64_t missing = 0;
    bool in_group[PARITY_GROUP_MAX];

    for (uint32_t group = 0; group < l->group_count; group++) {
        const unsigned count = group_lost(in_group, l, group, lost);
        missing += count > l->parity_count ? count - l->parity_count : 0;
    }
    return missing;
}

static int group_rebuild(workspace *w, const parity_layout *l, const parity_code *code, const parity_io *io,
                         uint32_t group, const bool lost[PARITY_GROUP_MAX], ckpt_error *err)
{
    int rc = 0;
    uint64_t block;
    unsigned lost_count = 0;
    unsigned char *sources[PARITY_GROUP_MAX], *rebuilt[PARITY_GROUP_MAX];
    parity_decoder *decoder = NULL;

    TRY(parity_decoder_new(&decoder, code, lost, err));
    for (unsigned i = 0; i < l->data_count; i++) {
        const unsigned place = parity_decoder_sources(decoder)[i];
        TRY(place_read(w, l, io, group, place, err));
        sources[i] = w->blocks[place];
    }
    for (unsigned i = 0; i < l->data_count + l->parity_count; i++)
        if (lost[i])
            rebuilt[lost_count++] = w->blocks[i];
    parity_decode(rebuilt, decoder, sources, l->block_size);
    for (unsigned i = 0; i < l->data_count + l->parity_count; i++)
        if (lost[i] && block_at(&block, l, group, i))
            TRY(io->write(io->payload, w->blocks[i], block, err));
out:
    parity_decoder_free(decoder);
    return rc;
}

int parity_blocks_rebuild(const parity_layout *l, const parity_io *io, const bool *lost, ckpt_error *err)
{
    int rc = 0;
    workspace w = {0};
    parity_code *code = NULL;
    bool in_group[PARITY_GROUP_MAX];
    const uint64_t missing = parity_blocks_short(l, lost);

    FAIL_IF(missing > 0, err, CKPT_EDATA, "%" PRIu64 " blocks more are lost than its parity can rebuild", missing);
    TRY(parity_code_new(&code, l->data_count, l->parity_count, err));
    TRY(workspace_make(&w, l, err));
    for (uint32_t group = 0; group < l->group_count; group++)
        if (group_lost(in_group, l, group, lost) > 0)
            TRY(group_rebuild(&w, l, code, io, group, in_group, err));
out:
    free(w.memory);
    parity_code_free(code);
    return rc;
}
