/* The factors of Adam. Expected: the formula in Python's floats, rounded by numpy.float32. */
#include "adam.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void assert_rounded(const adam_factors *f, const adam_rounded *want)
{
    const adam_rounded got = adam_factors_round(f);
    assert_memory_equal(&got, want, sizeof got); /* six floats, no gaps */
}

static void factors_are_computed_in_double_and_rounded_once(void **state)
{
    (void)state;
    assert_rounded(&(adam_factors){1e-3, 0.9, 0.999, 1e-8, 1},
                   &(adam_rounded){0x1.99999ap-4f, 0x1.ff7ceep-1f, 0x1.0624dep-10f, 0x1.47ae14p-7f, 0x1.030dc4p-5f,
                                   0x1.5798eep-27f});
    assert_rounded(
        &(adam_factors){0.3, 0.5, 0.99, 1e-3, 7},
        &(adam_rounded){0x1p-1f, 0x1.fae148p-1f, 0x1.47ae14p-7f, 0x1.359e7p-2f, 0x1.0ae5fp-2f, 0x1.0624dep-10f});
}

static void corrections_fade_with_the_updates(void **state)
{
    (void)state;
    assert_rounded(&(adam_factors){1e-3, 0.9, 0.999, 1e-8, 1000},
                   &(adam_rounded){0x1.99999ap-4f, 0x1.ff7ceep-1f, 0x1.0624dep-10f, 0x1.0624dep-10f, 0x1.972148p-1f,
                                   0x1.5798eep-27f});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_computed_in_double_and_rounded_once),
        cmocka_unit_test(corrections_fade_with_the_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
