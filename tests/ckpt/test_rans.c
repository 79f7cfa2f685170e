#include "rans.h"
#include "weights.h"

#include "bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { COUNT_MAX = 5000, CODED_MAX = 4 * RANS_LANES_MAX + 2 * COUNT_MAX };

static uint16_t frequency[RANS_TABLES_MAX][RANS_SYMBOLS_MAX];
static rans_symbol symbols[RANS_TABLES_MAX * RANS_SYMBOLS_MAX];
static rans_slot slots[RANS_TABLES_MAX * RANS_TOTAL];
static unsigned char symbol[COUNT_MAX], table[COUNT_MAX], coded[CODED_MAX + 64], fast_coded[CODED_MAX], slow[COUNT_MAX],
    back[COUNT_MAX + 1];

/* Table 0 has one symbol, table 1 all of them, the others some, one of them most of the time. */
static void make_tables(uint64_t seed)
{
    memset(frequency, 0, sizeof frequency);
    for (unsigned t = 0; t < RANS_TABLES_MAX; t++) {
        const unsigned used = t == 0 ? 1 : t == 1 ? RANS_SYMBOLS_MAX : 2 + (unsigned)(random_next(&seed) >> 40) % 60;
        uint32_t left = RANS_TOTAL - used;
        for (unsigned s = 0; s < used; s++) {
            const uint32_t more = s + 1 < used ? (uint32_t)(random_next(&seed) >> 33) % (left / 2 + 1) : left;
            frequency[t][s] = (uint16_t)(1 + more);
            left -= more;
        }
        rans_symbols_fill(symbols + t * RANS_SYMBOLS_MAX, frequency[t], RANS_SYMBOLS_MAX);
        rans_slots_fill(slots + t * RANS_TOTAL, frequency[t], RANS_SYMBOLS_MAX);
    }
}

static void make_symbols(size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        table[i] = (unsigned char)((random_next(&seed) >> 30) % RANS_TABLES_MAX);
        symbol[i] = (unsigned char)slots[table[i] * RANS_TOTAL + (random_next(&seed) >> 30) % RANS_TOTAL];
    }
}

/* With vectors, where there are any, as without. */
static size_t encode(size_t count, unsigned lanes)
{
    size_t size = 0, fast = 0;

    rans_encode(&size, coded, CODED_MAX, NULL, symbols, symbol, table, count, lanes);
    assert_true(size <= CODED_MAX);
    memmove(coded, coded + CODED_MAX - size, size);
    rans_encode(&fast, fast_coded, CODED_MAX, rans_encode_avx512(), symbols, symbol, table, count, lanes);
    assert_int_equal(fast, size);
    assert_memory_equal(fast_coded + CODED_MAX - size, coded, size);
    return size;
}

/* The definition in rans.h, as it stands there. */
static void slow_decode(size_t size, size_t count, unsigned lanes)
{
    uint32_t state[RANS_LANES_MAX];
    size_t at = 4 * (size_t)lanes;

    for (unsigned lane = 0; lane < lanes; lane++)
        state[lane] = load_u32(coded + 4 * lane);
    for (size_t i = 0; i < count; i++) {
        uint32_t x = state[i % lanes], start = 0;
        unsigned s = 0;
        while (x % 4096 >= start + frequency[table[i]][s])
            start += frequency[table[i]][s++];
        x = frequency[table[i]][s] * (x / 4096) + x % 4096 - start;
        if (x < 32768) {
            x = x * 65536 + load_u16(coded + at);
            at += 2;
        }
        state[i % lanes] = x;
        slow[i] = (unsigned char)s;
    }
    assert_int_equal(at, size);
    for (unsigned lane = 0; lane < lanes; lane++)
        assert_int_equal(state[lane], 32768);
}

static int decode(rans_decode_fn *fn, size_t size, size_t count, unsigned lanes, size_t run)
{
    rans_decoder d;
    int rc = rans_decoder_begin(&d, coded, size, lanes, NULL);

    back[count] = 0x5a;
    for (size_t i = 0; !rc && i < count; i += run)
        fn(&d, back + i, table + i, count - i < run ? count - i : run, slots);
    assert_int_equal(back[count], 0x5a);
    return rc ? rc : rans_decoder_end(&d, NULL);
}

static void assert_decodes(rans_decode_fn *fn)
{
    for (unsigned lanes = 1; lanes <= RANS_LANES_MAX; lanes *= 2)
        for (size_t count = 0; count < COUNT_MAX; count = count < 70 ? count + 1 : count * 3) {
            make_tables(count + 1);
            make_symbols(count, count + lanes);
            const size_t size = encode(count, lanes);
            slow_decode(size, count, lanes);
            assert_memory_equal(slow, symbol, count);
            assert_int_equal(decode(fn, size, count, lanes, COUNT_MAX), 0);
            assert_memory_equal(back, symbol, count);
            assert_int_equal(decode(fn, size, count, lanes, 77), 0); /* not a multiple of any number of lanes */
            assert_memory_equal(back, symbol, count);
        }
}

static void scalar_decoding_is_that_of_the_definition(void **state)
{
    (void)state;
    assert_decodes(rans_decode_scalar);
}

static void avx2_decoding_is_that_of_the_definition(void **state)
{
    (void)state;
    if (!rans_decode_avx2()) {
        print_message("no AVX2 here\n");
        skip();
    }
    assert_decodes(rans_decode_avx2());
}

static void avx512_decoding_is_that_of_the_definition(void **state)
{
    (void)state;
    if (!rans_decode_avx512()) {
        print_message("no AVX-512 here\n");
        skip();
    }
    assert_decodes(rans_decode_avx512());
}

static void a_symbol_that_is_always_there_costs_nothing(void **state)
{
    (void)state;
    make_tables(1);
    memset(table, 0, COUNT_MAX);
    memset(symbol, 0, COUNT_MAX);
    assert_int_equal(encode(COUNT_MAX, 8), 32);
}

static void what_does_not_fit_is_told(void **state)
{
    rans_encode_fn *const ways[] = {NULL, rans_encode_avx512()};
    (void)state;
    make_tables(2);
    make_symbols(3000, 3);
    const size_t size = encode(3000, 32);
    for (size_t way = 0; way < 2; way++) {
        size_t again = 0;
        memset(coded, 0x5a, sizeof coded);
        rans_encode(&again, coded, size, ways[way], symbols, symbol, table, 3000, 32);
        assert_int_equal(again, size);
        assert_memory_equal(coded, fast_coded + CODED_MAX - size, size);
        for (size_t lack = 1; lack < size; lack++) {
            memset(coded, 0x5a, lack);
            rans_encode(&again, coded + lack, size - lack, ways[way], symbols, symbol, table, 3000, 32);
            assert_true(again == SIZE_MAX);
            assert_int_equal(coded[lack - 1], 0x5a); /* nothing is written in front */
        }
        rans_encode(&again, coded, 127, ways[way], symbols, symbol, table, 0, 32);
        assert_true(again == SIZE_MAX);
        assert_int_equal(coded[size], 0x5a);
    }
}

static void cut_lengthened_or_hostile_streams_are_refused(void **state)
{
    rans_decoder d;
    (void)state;
    make_tables(4);
    make_symbols(2000, 5);
    const size_t size = encode(2000, 32);
    assert_int_equal(decode(rans_decode_best(), size, 2000, 32, 1024), 0);
    for (size_t cut = 1; cut <= size; cut += 1 + cut / 3)
        assert_int_equal(decode(rans_decode_best(), size - cut, 2000, 32, 1024), CKPT_EDATA);
    assert_int_equal(decode(rans_decode_best(), size + 2, 2000, 32, 1024), CKPT_EDATA);
    store_u32(coded + 4, 0x7fff);
    assert_int_equal(rans_decoder_begin(&d, coded, size, 32, NULL), CKPT_EDATA);
    store_u32(coded + 4, 0x80000000);
    assert_int_equal(rans_decoder_begin(&d, coded, size, 32, NULL), CKPT_EDATA);
}

static void noise_gives_symbols_of_the_tables_and_the_best_decoder_the_same(void **state)
{
    (void)state;
    make_tables(6);
    make_symbols(4000, 7);
    for (uint64_t seed = 1; seed < 40; seed++) {
        fill_noise(coded, 6000, seed);
        for (unsigned lane = 0; lane < 32; lane++)
            coded[4 * lane + 3] = (unsigned char)((coded[4 * lane + 3] & 0x7f) | 1);
        assert_int_equal(decode(rans_decode_scalar, 6000, 4000, 32, 1024), CKPT_EDATA);
        memcpy(slow, back, 4000);
        assert_int_equal(decode(rans_decode_best(), 6000, 4000, 32, 1024), CKPT_EDATA);
        assert_memory_equal(back, slow, 4000);
        for (size_t i = 0; i < 4000; i++)
            assert_true(frequency[table[i]][back[i]] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_decoding_is_that_of_the_definition),
        cmocka_unit_test(avx2_decoding_is_that_of_the_definition),
        cmocka_unit_test(avx512_decoding_is_that_of_the_definition),
        cmocka_unit_test(a_symbol_that_is_always_there_costs_nothing),
        cmocka_unit_test(what_does_not_fit_is_told),
        cmocka_unit_test(cut_lengthened_or_hostile_streams_are_refused),
        cmocka_unit_test(noise_gives_symbols_of_the_tables_and_the_best_decoder_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
