#include "bit_coder.h"
#include "weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BITS = 20000 };

static unsigned char coded[BITS];

/* Bits that are 1 in one of `rarity` cases. */
static bool next_bit(uint64_t *seed, unsigned rarity)
{
    return (random_next(seed) >> 20) % rarity == 0;
}

static size_t write_bits(unsigned rarity, size_t capacity, bool *fits)
{
    bit_writer w = bit_writer_new(coded, capacity);
    bit_model model = BIT_MODEL_NEW;
    uint64_t seed = rarity;
    size_t size = 0;

    for (unsigned i = 0; i < BITS; i++)
        bit_write(&w, &model, next_bit(&seed, rarity));
    *fits = bit_writer_end(&size, &w);
    return size;
}

static void bits_come_back_whatever_their_share_of_ones(void **state)
{
    (void)state;
    for (unsigned rarity = 1; rarity < 4000; rarity = 3 * rarity + 1) {
        bool fits = false;
        const size_t size = write_bits(rarity, sizeof coded, &fits);
        assert_true(fits);
        bit_reader r = bit_reader_new(coded, size);
        bit_model model = BIT_MODEL_NEW;
        uint64_t seed = rarity;
        for (unsigned i = 0; i < BITS; i++)
            assert_int_equal(bit_read(&r, &model), next_bit(&seed, rarity));
    }
}

/* 20,000 bits that are 1 in one of 4 cases have 16,226 bits of information. */
static void rare_ones_take_about_what_their_entropy_says(void **state)
{
    bool fits = false;
    const size_t size = write_bits(4, sizeof coded, &fits);
    (void)state;
    assert_true(fits && size > 16226 / 8 && size < 16226 / 8 * 106 / 100);
}

static void what_does_not_fit_is_told_and_not_written(void **state)
{
    bool fits = true;
    const size_t size = write_bits(2, sizeof coded, &fits);
    (void)state;
    assert_true(fits);
    memset(coded, 0x5a, sizeof coded);
    assert_int_equal(write_bits(2, size - 1, &fits), size);
    assert_false(fits);
    assert_int_equal(coded[size - 1], 0x5a);
}

static void nothing_written_is_no_byte(void **state)
{
    bit_writer w = bit_writer_new(coded, 0);
    size_t size = 1;
    (void)state;
    assert_true(bit_writer_end(&size, &w));
    assert_int_equal(size, 0);
}

static void trees_and_steps_of_every_value_come_back(void **state)
{
    bit_model tree[256], steps[BIT_STEP_MODELS];
    bit_writer w = bit_writer_new(coded, sizeof coded);
    size_t size = 0;
    (void)state;
    bit_models_reset(tree, 256);
    bit_models_reset(steps, BIT_STEP_MODELS);
    for (int value = -BIT_STEP_MAX; value <= BIT_STEP_MAX; value++) {
        bit_step_write(&w, steps, value);
        bit_tree_write(&w, tree, 8, (unsigned)value & 255);
    }
    assert_true(bit_writer_end(&size, &w));
    bit_reader r = bit_reader_new(coded, size);
    bit_models_reset(tree, 256);
    bit_models_reset(steps, BIT_STEP_MODELS);
    for (int value = -BIT_STEP_MAX; value <= BIT_STEP_MAX; value++) {
        assert_int_equal(bit_step_read(&r, steps), value);
        assert_int_equal(bit_tree_read(&r, tree, 8), (unsigned)value & 255);
    }
}

/* Under the sanitizers a byte read behind the end would be seen. */
static void reading_on_behind_the_end_is_harmless(void **state)
{
    unsigned char *const three = malloc(3);
    bit_model model = BIT_MODEL_NEW, steps[BIT_STEP_MODELS];
    (void)state;
    assert_non_null(three);
    memcpy(three, "\xff\x00\x80", 3);
    bit_reader r = bit_reader_new(three, 3);
    bit_models_reset(steps, BIT_STEP_MODELS);
    for (unsigned i = 0; i < 1000; i++) {
        (void)bit_read(&r, &model);
        assert_in_range(bit_step_read(&r, steps) + BIT_STEP_MAX, 0, 2 * BIT_STEP_MAX);
    }
    assert_int_equal(r.used, 3);
    free(three);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_come_back_whatever_their_share_of_ones),
        cmocka_unit_test(rare_ones_take_about_what_their_entropy_says),
        cmocka_unit_test(what_does_not_fit_is_told_and_not_written),
        cmocka_unit_test(nothing_written_is_no_byte),
        cmocka_unit_test(trees_and_steps_of_every_value_come_back),
        cmocka_unit_test(reading_on_behind_the_end_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
