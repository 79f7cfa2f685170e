#include "parity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "must.h"

/* ---- The slow reference: GF(2^8) by shifts, modulo x^8 + x^4 + x^3 + x^2 + 1 ---- */

static unsigned slow_product(unsigned a, unsigned b)
{
    unsigned product = 0;
    for (; b; b >>= 1) {
        if (b & 1)
            product ^= a;
        a = a & 0x80 ? (a << 1) ^ 0x11d : a << 1;
    }
    return product;
}

static unsigned slow_inverse(unsigned a)
{
    unsigned b = 1;
    while (slow_product(a, b) != 1)
        b++;
    return b;
}

/* ---- Blocks ---- */

#define SIZE 100 /* no multiple of a vector */

typedef struct group {
    unsigned data_count, parity_count;
    unsigned char bytes[PARITY_GROUP_MAX][SIZE];
    unsigned char *blocks[PARITY_GROUP_MAX];
    parity_code *code;
} group;

static void group_make(group *g, unsigned data_count, unsigned parity_count)
{
    uint32_t x = 1;
    g->data_count = data_count;
    g->parity_count = parity_count;
    for (unsigned i = 0; i < data_count + parity_count; i++)
        for (unsigned n = 0; n < SIZE; n++) {
            x = x * 1664525u + 1013904223u;
            g->bytes[i][n] = (unsigned char)(x >> 24);
            g->blocks[i] = g->bytes[i];
        }
    MUST(parity_code_new(&g->code, data_count, parity_count, ERR));
    parity_encode(g->blocks + data_count, g->code, g->blocks, SIZE);
}

/* Rebuilds what `lost` says from the other blocks alone and compares. */
static void assert_rebuilds(const group *g, const bool *lost)
{
    const unsigned all = g->data_count + g->parity_count;
    parity_decoder *d = NULL;
    static unsigned char out[PARITY_GROUP_MAX][SIZE], sources[PARITY_GROUP_MAX][SIZE];
    unsigned char *to[PARITY_GROUP_MAX], *from[PARITY_GROUP_MAX];
    unsigned count = 0;
    MUST(parity_decoder_new(&d, g->code, lost, ERR));
    for (unsigned i = 0; i < g->data_count; i++) {
        const unsigned source = parity_decoder_sources(d)[i];
        assert_false(lost[source]);
        memcpy(sources[i], g->bytes[source], SIZE);
        from[i] = sources[i];
    }
    for (unsigned i = 0; i < all; i++)
        to[i] = out[i];
    parity_decode(to, d, from, SIZE);
    for (unsigned i = 0; i < all; i++)
        if (lost[i])
            assert_memory_equal(out[count++], g->bytes[i], SIZE);
    parity_decoder_free(d);
}

static void parity_is_that_of_the_slow_reference(void **state)
{
    (void)state;
    static const unsigned COUNTS[][2] = {{1, 1}, {3, 2}, {10, 4}, {17, 11}, {200, 55}};
    static group g;
    for (size_t n = 0; n < sizeof COUNTS / sizeof COUNTS[0]; n++) {
        const unsigned k = COUNTS[n][0], m = COUNTS[n][1];
        group_make(&g, k, m);
        for (unsigned i = 0; i < m; i++)
            for (unsigned x = 0; x < SIZE; x += 33) {
                unsigned sum = 0;
                for (unsigned j = 0; j < k; j++)
                    sum ^= slow_product(slow_inverse((k + i) ^ j), g.bytes[j][x]);
                assert_int_equal(g.bytes[k + i][x], sum);
            }
        parity_code_free(g.code);
    }
}

static unsigned bits(unsigned set)
{
    unsigned count = 0;
    for (; set; set &= set - 1)
        count++;
    return count;
}

static void any_m_lost_blocks_are_rebuilt_and_no_more(void **state)
{
    (void)state;
    static group g;
    for (unsigned k = 1; k <= 5; k++)
        for (unsigned m = 1; m <= 4; m++) {
            group_make(&g, k, m);
            for (unsigned set = 0; set < 1u << (k + m); set++) {
                bool lost[PARITY_GROUP_MAX] = {false};
                for (unsigned i = 0; i < k + m; i++)
                    lost[i] = set >> i & 1;
                if (bits(set) <= m) {
                    assert_rebuilds(&g, lost);
                } else {
                    parity_decoder *d = NULL;
                    assert_int_equal(parity_decoder_new(&d, g.code, lost, NULL), CKPT_EDATA);
                    assert_null(d);
                }
            }
            parity_code_free(g.code);
        }
}

static void the_largest_groups_are_rebuilt(void **state)
{
    (void)state;
    static group g;
    static const unsigned COUNTS[][2] = {{254, 1}, {240, 15}, {128, 127}, {1, 254}};
    for (size_t n = 0; n < sizeof COUNTS / sizeof COUNTS[0]; n++) {
        const unsigned m = COUNTS[n][1];
        group_make(&g, COUNTS[n][0], m);
        for (unsigned first = 0; first + m <= PARITY_GROUP_MAX; first += 1 + (PARITY_GROUP_MAX - m) / 3) {
            bool lost[PARITY_GROUP_MAX] = {false};
            for (unsigned i = 0; i < m; i++)
                lost[first + i] = true;
            assert_rebuilds(&g, lost);
        }
        parity_code_free(g.code);
    }
}

static void groups_beyond_the_field_are_refused(void **state)
{
    (void)state;
    static const unsigned COUNTS[][2] = {{0, 1}, {1, 0}, {255, 1}, {1, 255}, {128, 128}, {4000000000u, 2}};
    for (size_t n = 0; n < sizeof COUNTS / sizeof COUNTS[0]; n++) {
        parity_code *code = NULL;
        assert_int_equal(parity_code_new(&code, COUNTS[n][0], COUNTS[n][1], NULL), CKPT_EUSAGE);
        assert_null(code);
    }
}

/* ---- Interleaved groups ---- */

typedef struct medium {
    parity_layout layout;
    unsigned char *bytes; /* data, padded to whole blocks, then parity */
    uint64_t written;
} medium;

static int medium_read(void *payload, void *dst, uint64_t block, ckpt_error *err)
{
    (void)err;
    const medium *const m = payload;
    memcpy(dst, m->bytes + block * m->layout.block_size, m->layout.block_size);
    return 0;
}

static int medium_write(void *payload, const void *src, uint64_t block, ckpt_error *err)
{
    (void)err;
    medium *const m = payload;
    memcpy(m->bytes + block * m->layout.block_size, src, m->layout.block_size);
    m->written++;
    return 0;
}

static void medium_make(medium *m, uint64_t size, double share)
{
    uint64_t x = size;
    MUST(parity_layout_choose(&m->layout, size, share, ERR));
    m->bytes = calloc(m->layout.data_blocks + m->layout.parity_blocks, m->layout.block_size);
    assert_non_null(m->bytes);
    for (uint64_t i = 0; i < size; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        m->bytes[i] = (unsigned char)(x >> 56);
    }
    const parity_io io = {medium_read, medium_write, m};
    MUST(parity_blocks_make(&m->layout, &io, ERR));
    assert_int_equal(m->written, m->layout.parity_blocks);
    m->written = 0;
}

static void a_lost_range_of_the_share_is_rebuilt_wherever_it_begins(void **state)
{
    (void)state;
    static const uint64_t SIZES[] = {1, 255, 256, 257, 5000, 100003, 1500000};
    static const double SHARES[] = {0.01, 0.05, 0.3, 1};
    for (size_t n = 0; n < sizeof SIZES / sizeof SIZES[0]; n++)
        for (size_t s = 0; s < sizeof SHARES / sizeof SHARES[0]; s++) {
            medium m = {0};
            medium_make(&m, SIZES[n], SHARES[s]);
            const parity_layout *const l = &m.layout;
            const uint64_t range = (uint64_t)(SHARES[s] * (double)SIZES[n]), all = l->data_blocks + l->parity_blocks;
            const size_t bytes = (size_t)all * l->block_size;
            unsigned char *const good = malloc(bytes);
            bool *const lost = calloc(all, sizeof *lost);
            assert_non_null(good);
            assert_non_null(lost);
            memcpy(good, m.bytes, bytes);
            for (uint64_t from = 0; from + range <= SIZES[n]; from += 1 + SIZES[n] / 7) {
                memset(lost, 0, all * sizeof *lost);
                for (uint64_t b = from / l->block_size; range && b <= (from + range - 1) / l->block_size; b++) {
                    lost[b] = true;
                    memset(m.bytes + b * l->block_size, 0x55, l->block_size);
                }
                const parity_io io = {medium_read, medium_write, &m};
                MUST(parity_blocks_rebuild(l, &io, lost, ERR));
                assert_memory_equal(m.bytes, good, bytes);
            }
            free(lost);
            free(good);
            free(m.bytes);
        }
}

static void too_much_loss_is_refused_before_anything_is_written(void **state)
{
    (void)state;
    medium m = {0};
    medium_make(&m, 1500000, 0.05);
    const parity_layout *const l = &m.layout;
    const parity_io io = {medium_read, medium_write, &m};
    bool *const lost = calloc(l->data_blocks + l->parity_blocks, sizeof *lost);
    assert_non_null(lost);
    assert_true(l->group_count > 1);
    lost[1] = true; /* of another group, which could be rebuilt */
    for (unsigned i = 0; i <= l->parity_count; i++)
        lost[i * l->group_count] = true;
    assert_int_equal(parity_blocks_short(l, lost), 1);
    assert_int_equal(parity_blocks_rebuild(l, &io, lost, NULL), CKPT_EDATA);
    assert_int_equal(m.written, 0);
    lost[0] = false;
    assert_int_equal(parity_blocks_short(l, lost), 0);
    MUST(parity_blocks_rebuild(l, &io, lost, ERR));
    assert_int_equal(m.written, l->parity_count + 1);
    free(lost);
    free(m.bytes);
}

/* The parity of the last group, of its blocks as the layout says them, in place of the last one zeros. */
static void blocks_that_a_group_lacks_count_as_zeros(void **state)
{
    (void)state;
    medium m = {0};
    medium_make(&m, 1500000, 0.05);
    const parity_layout *const l = &m.layout;
    const uint32_t last = l->group_count - 1;
    parity_code *code = NULL;
    unsigned char *data[PARITY_GROUP_MAX], *parity[PARITY_GROUP_MAX];
    unsigned char *const zeros = calloc(1, l->block_size), *const made = calloc(l->parity_count, l->block_size);
    assert_non_null(zeros);
    assert_non_null(made);
    assert_int_equal((l->data_count - 1) * l->group_count + last, l->data_blocks); /* behind the last one */
    for (unsigned i = 0; i < l->data_count - 1; i++)
        data[i] = m.bytes + ((size_t)i * l->group_count + last) * l->block_size;
    data[l->data_count - 1] = zeros;
    for (unsigned i = 0; i < l->parity_count; i++)
        parity[i] = made + (size_t)i * l->block_size;
    MUST(parity_code_new(&code, l->data_count, l->parity_count, ERR));
    parity_encode(parity, code, data, l->block_size);
    for (unsigned i = 0; i < l->parity_count; i++)
        assert_memory_equal(m.bytes + (l->data_blocks + (size_t)i * l->group_count + last) * l->block_size, parity[i],
                            l->block_size);
    parity_code_free(code);
    free(made);
    free(zeros);
    free(m.bytes);
}

static void parity_takes_little_more_than_its_share(void **state)
{
    (void)state;
    for (uint64_t size = 1 << 20; size < (uint64_t)1 << 41; size = size * 3 + 1) {
        parity_layout l;
        MUST(parity_layout_choose(&l, size, 0.05, ERR));
        assert_true(l.data_count + l.parity_count <= PARITY_GROUP_MAX);
        assert_true((double)(l.parity_blocks * l.block_size) < 0.06 * (double)size);
        assert_true(l.parity_blocks * l.block_size >= size / 20);
    }
}

static void layouts_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    parity_layout l;
    assert_int_equal(parity_layout_choose(&l, 0, 0.05, NULL), CKPT_EUSAGE);
    assert_int_equal(parity_layout_choose(&l, 100, 0, NULL), CKPT_EUSAGE);
    assert_int_equal(parity_layout_choose(&l, 100, -1, NULL), CKPT_EUSAGE);
    assert_int_equal(parity_layout_choose(&l, 100, 1.01, NULL), CKPT_EUSAGE);
    assert_int_equal(parity_layout_choose(&l, UINT64_MAX, 0.05, NULL), CKPT_EUSAGE);
    static const parity_layout BAD[] = {
        {.size = 0, .block_size = 256, .group_count = 1, .parity_count = 1},
        {.size = 1000, .block_size = 128, .group_count = 1, .parity_count = 1},
        {.size = 1000, .block_size = 300, .group_count = 1, .parity_count = 1},
        {.size = 1000, .block_size = 131072, .group_count = 1, .parity_count = 1},
        {.size = 1000, .block_size = 256, .group_count = 0, .parity_count = 1},
        {.size = 1000, .block_size = 256, .group_count = 5, .parity_count = 1},
        {.size = 1000, .block_size = 256, .group_count = 1, .parity_count = 0},
        {.size = 1000, .block_size = 256, .group_count = 1, .parity_count = 252},
        {.size = 1000, .block_size = 256, .group_count = 1, .parity_count = UINT32_MAX},
        {.size = 256 * 256, .block_size = 256, .group_count = 1, .parity_count = 1},
        {.size = UINT64_MAX, .block_size = 65536, .group_count = UINT32_MAX, .parity_count = 1},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        l = BAD[i];
        assert_int_equal(parity_layout_complete(&l, NULL), CKPT_EDATA);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parity_is_that_of_the_slow_reference),
        cmocka_unit_test(any_m_lost_blocks_are_rebuilt_and_no_more),
        cmocka_unit_test(the_largest_groups_are_rebuilt),
        cmocka_unit_test(groups_beyond_the_field_are_refused),
        cmocka_unit_test(a_lost_range_of_the_share_is_rebuilt_wherever_it_begins),
        cmocka_unit_test(too_much_loss_is_refused_before_anything_is_written),
        cmocka_unit_test(blocks_that_a_group_lacks_count_as_zeros),
        cmocka_unit_test(parity_takes_little_more_than_its_share),
        cmocka_unit_test(layouts_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
