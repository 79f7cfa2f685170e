#include "order.h"

#include "random_rows.h"

#include <stdbool.h>
#include <stdio.h>

#define COUNT_MAX 60000

static uint32_t *rising(size_t count)
{
    uint32_t *const items = calloc(count + 1, sizeof *items);
    assert_non_null(items);
    for (size_t i = 0; i < count; i++)
        items[i] = (uint32_t)i;
    return items;
}

/* Compares with "3 1 2", "-" or a SHA-256. */
static void assert_items(const uint32_t *items, size_t count, const uint32_t *all, size_t all_count,
                         const char *expected)
{
    char text[256] = "-";
    if (strlen(expected) == SHA256_HEX_SIZE - 1) {
        assert_sha256(all, all_count * sizeof *all, expected);
        return;
    }
    for (size_t i = 0, used = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i ? " %u" : "%u", items[i]);
    assert_string_equal(text, expected);
}

static void expect_shuffle(char *const *columns)
{
    const size_t count = column_u64(columns[2]);
    uint32_t *const items = rising(count);
    order_shuffle(items, count, column_u64(columns[0]), RANDOM_ORDER, (uint32_t)column_u64(columns[1]));
    assert_items(items, count, items, count, columns[3]);
    free(items);
}

static void orders_are_as_python_computes_them(void **state)
{
    (void)state;
    random_rows("shuffle", expect_shuffle);
}

static void expect_split(char *const *columns)
{
    const size_t count = column_u64(columns[1]), held = column_u64(columns[2]);
    uint32_t *const items = rising(count);
    order_split(items, count, held, column_u64(columns[0]));
    assert_items(items + count - held, held, items, count, columns[3]);
    free(items);
}

static void splits_are_as_python_computes_them(void **state)
{
    (void)state;
    random_rows("split", expect_split);
}

/* Each of 0 .. count - 1 once? */
static void assert_permutation(const uint32_t *items, size_t count)
{
    bool *const seen = calloc(count, sizeof *seen);
    assert_non_null(seen);
    for (size_t i = 0; i < count; i++) {
        assert_true(items[i] < count && !seen[items[i]]);
        seen[items[i]] = true;
    }
    free(seen);
}

static void an_order_has_every_sample_once(void **state)
{
    (void)state;
    uint32_t *const items = rising(COUNT_MAX);
    order_shuffle(items, COUNT_MAX, 11, RANDOM_ORDER, 4);
    assert_permutation(items, COUNT_MAX);
    free(items);
}

static void nothing_to_order_is_fine(void **state)
{
    (void)state;
    uint32_t one = 7;
    order_shuffle(&one, 0, 1, RANDOM_ORDER, 0);
    order_shuffle(&one, 1, 1, RANDOM_ORDER, 0);
    assert_int_equal(one, 7);
}

static size_t same_places(const uint32_t *a, const uint32_t *b, size_t count)
{
    size_t same = 0;
    for (size_t i = 0; i < count; i++)
        same += a[i] == b[i];
    return same;
}

/* Two random orders of 1000 agree in about one place. */
static void epochs_seeds_and_purposes_have_orders_of_their_own(void **state)
{
    (void)state;
    uint32_t *const first = rising(1000), *const again = rising(1000);
    uint32_t *const others[] = {rising(1000), rising(1000), rising(1000), rising(1000)};
    order_shuffle(first, 1000, 3, RANDOM_ORDER, 0);
    order_shuffle(again, 1000, 3, RANDOM_ORDER, 0);
    order_shuffle(others[0], 1000, 3, RANDOM_ORDER, 1);
    order_shuffle(others[1], 1000, 4, RANDOM_ORDER, 0);
    order_shuffle(others[2], 1000, 3 + ((uint64_t)1 << 32), RANDOM_ORDER, 0);
    order_shuffle(others[3], 1000, 3, RANDOM_SPLIT, 0);
    assert_memory_equal(first, again, 1000 * sizeof *first);
    for (size_t i = 0; i < 4; i++) {
        assert_true(same_places(first, others[i], 1000) < 10);
        free(others[i]);
    }
    free(first);
    free(again);
}

/* 24,000 orders of four items: each of the 24 comes about 1000 times. Chi-square of 23 degrees of freedom is below 49.7
 * in 999 of 1000 fair cases; a shuffle that exchanges with any place instead gives some 1,000. */
static void all_orders_come_equally_often(void **state)
{
    (void)state;
    unsigned times[4][4][4] = {0};
    double chi_square = 0;
    for (uint32_t epoch = 0; epoch < 24000; epoch++) {
        uint32_t items[4] = {0, 1, 2, 3};
        order_shuffle(items, 4, 2026, RANDOM_ORDER, epoch);
        times[items[0]][items[1]][items[2]]++;
    }
    for (size_t i = 0; i < 64; i++) {
        const double off = (double)(&times[0][0][0])[i] - 1000;
        const size_t a = i / 16, b = i / 4 % 4, c = i % 4;
        if (a != b && b != c && a != c)
            chi_square += off * off / 1000;
    }
    assert_true(chi_square < 49.7);
}

static void both_parts_of_a_split_rise_and_miss_nothing(void **state)
{
    (void)state;
    uint32_t *const items = rising(COUNT_MAX);
    order_split(items, COUNT_MAX, 6000, 8);
    assert_permutation(items, COUNT_MAX);
    for (size_t i = 1; i < COUNT_MAX; i++)
        assert_true(i == COUNT_MAX - 6000 || items[i - 1] < items[i]);
    free(items);
}

/* Of 10,000 splits that hold back 2 of 10, each sample is held back about 2000 times; chi-square of 9 degrees of
 * freedom (times 9 / 8, as two samples of a split are never the same) is below 27.9 in 999 of 1000 fair cases. */
static void every_sample_is_held_back_equally_often(void **state)
{
    (void)state;
    unsigned times[10] = {0};
    double chi_square = 0;
    for (uint64_t seed = 0; seed < 10000; seed++) {
        uint32_t items[10];
        order_split(items, 10, 2, seed);
        times[items[8]]++;
        times[items[9]]++;
    }
    for (size_t i = 0; i < 10; i++)
        chi_square += (times[i] - 2000.0) * (times[i] - 2000.0) / 2000 * 9 / 8;
    assert_true(chi_square < 27.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_as_python_computes_them),
        cmocka_unit_test(splits_are_as_python_computes_them),
        cmocka_unit_test(an_order_has_every_sample_once),
        cmocka_unit_test(nothing_to_order_is_fine),
        cmocka_unit_test(epochs_seeds_and_purposes_have_orders_of_their_own),
        cmocka_unit_test(all_orders_come_equally_often),
        cmocka_unit_test(both_parts_of_a_split_rise_and_miss_nothing),
        cmocka_unit_test(every_sample_is_held_back_equally_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
