/* The metric history of a training. */
#include "state_sample.h"

static void a_full_history_drops_its_oldest_row(void **test)
{
    (void)test;
    history h = {0};
    MUST(history_reserve(&h, SIZE_MAX, ERR));
    for (int64_t i = 0; i <= HISTORY_ROWS_MAX; i++)
        history_add(&h, i, (double)i + 0.25, (double)i + 0.5, (double)i + 0.75);
    assert_int_equal(h.count, HISTORY_ROWS_MAX);
    assert_int_equal(h.step[0], 1);
    assert_true(h.loss[0] == 1.25 && h.accuracy[0] == 1.5 && h.val_accuracy[0] == 1.75);
    assert_int_equal(h.step[h.count - 1], HISTORY_ROWS_MAX);
    history_clear(&h);
}

static void a_history_keeps_its_rows_when_it_grows(void **test)
{
    (void)test;
    history h = {0};
    MUST(history_reserve(&h, 1, ERR));
    history_add(&h, 5, 1, 2, 3);
    MUST(history_reserve(&h, 1000, ERR));
    assert_int_equal(h.count, 1);
    assert_int_equal(h.step[0], 5);
    assert_true(h.loss[0] == 1 && h.accuracy[0] == 2 && h.val_accuracy[0] == 3);
    history_clear(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_history_drops_its_oldest_row),
        cmocka_unit_test(a_history_keeps_its_rows_when_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
