/* What the machine can do at most: that it is measured, never how much it is. */
#include "pool.h"

#include <ckpt/train.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void both_limits_are_numbers(void **state)
{
    ckpt_machine_limits limits;
    ckpt_error err = {0};
    (void)state;

    assert_int_equal(ckpt_machine_limits_measure(&limits, 1, &err), 0);
    print_message("%.3g FLOP/s, %.3g B/s\n", limits.flops_per_s, limits.bytes_per_s);
    assert_int_equal(limits.threads, 1);
    assert_true(isfinite(limits.flops_per_s) && limits.flops_per_s > 0);
    assert_true(isfinite(limits.bytes_per_s) && limits.bytes_per_s > 0);
}

static void no_threads_are_as_many_as_allowed(void **state)
{
    ckpt_machine_limits limits;
    unsigned threads = 0;
    (void)state;

    assert_int_equal(pool_threads_default(&threads, NULL), 0);
    assert_int_equal(ckpt_machine_limits_measure(&limits, 0, NULL), 0);
    assert_int_equal(limits.threads, threads);
}

static void too_many_threads_are_refused(void **state)
{
    ckpt_machine_limits limits;
    (void)state;

    assert_int_equal(ckpt_machine_limits_measure(&limits, POOL_THREADS_MAX + 1, NULL), CKPT_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_limits_are_numbers),
        cmocka_unit_test(no_threads_are_as_many_as_allowed),
        cmocka_unit_test(too_many_threads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
