/* All memory is there before the first step: steps and evaluations allocate nothing. */
#include "alloc_fail.h"
#include "trainer_fixture.h"

#include <limits.h>

/* Allocations of `count` steps, each behind a validation. */
static long allocations(trainer *t, int count)
{
    ckpt_evaluation e;
    report unheard = {0};

    alloc_fail_arm(LONG_MAX);
    for (int i = 0; i < count; i++) {
        if (trainer_step(t, NULL) || trainer_evaluate(&e, t, CKPT_SAMPLES_VALIDATION, &unheard, NULL))
            return -1;
        if (trainer_epoch_is_over(t)) {
            t->state.epoch++;
            t->state.position = 0;
        }
    }
    const long found = alloc_fail_count;
    alloc_fail_disarm();
    return found;
}

static void steps_allocate_nothing(void **given)
{
    trainer_fixture f;
    const recipe_values values = values_small();

    (void)given;
    trainer_begin(&f, &values, true);
    assert_int_equal(allocations(&f.trainer, 9), 0); /* the first step and short batches among them */
    trainer_end(&f);
}

static void the_count_sees_an_allocation(void **given)
{
    net *n = NULL;

    (void)given;
    alloc_fail_arm(LONG_MAX);
    MUST(net_parse(&n, "flatten, dense 10", (dims){1, 28, 28}, 10, ERR));
    assert_in_range(alloc_fail_count, 1, LONG_MAX);
    alloc_fail_disarm();
    net_free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(the_count_sees_an_allocation),
    };

    if (!ALLOC_FAIL_WORKS) {
        print_message("skipped: allocations cannot be counted here\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
