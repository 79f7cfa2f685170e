/* A fault of the modes with contexts costs space and no chunk: what they make is decoded before it is taken. */
#include "codec_internal.h"
#include "weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SIZE = 100003 };

static unsigned char data[SIZE], reference[SIZE], back[SIZE], coded[CODEC_CHUNK_CODED_MAX];
static context_kernel faulty;

/* Does the first element of a run wrong where it is odd. */
static void elements_faulty(void *dst, const context_layout *layout, const void *numbers, const void *before,
                            size_t count)
{
    unsigned char *const out = dst;

    CONTEXT_KERNEL_SCALAR.elements(dst, layout, numbers, before, count);
    out[0] &= 0xfe;
}

static int setup(void **state)
{
    codec *c = NULL;

    if (codec_new(&c, NULL))
        return -1;
    faulty = CONTEXT_KERNEL_SCALAR;
    faulty.elements = elements_faulty;
    c->context_kernel = &faulty;
    fill_weights(reference, SIZE, 1);
    fill_trained(data, reference, SIZE, 0.01f, 2);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    codec_free(*state);
    return 0;
}

static bool comes_back(codec *c, const codec_plan *plan, const void *with)
{
    size_t coded_size = 0;

    assert_int_equal(codec_encode(&coded_size, coded, c, plan, data, SIZE, with, NULL), 0);
    assert_in_range(coded_size, 1, SIZE * 95 / 100);
    assert_int_equal(codec_decode(back, SIZE, c, coded, coded_size, with, NULL), 0);
    return memcmp(back, data, SIZE) == 0;
}

static void chunk_that_does_not_come_back_is_coded_as_planes(void **state)
{
    codec *const c = *state;
    codec_plan plan = codec_plan_of(CODEC_SYMBOLS, CKPT_F32);

    plan.check = true;
    assert_true(comes_back(c, &plan, NULL));
    assert_int_equal(coded[0], CODEC_PLANES);
    plan.mode = CODEC_CONTEXT;
    plan.number = CONTEXT_SUB;
    assert_true(comes_back(c, &plan, reference));
    assert_int_equal(coded[0], CODEC_PLANES);
    assert_int_equal(codec_faults(c), 2);
}

static void smallest_of_all_ways_is_checked_too(void **state)
{
    codec *const c = *state;
    codec_plan plan = codec_plan_of(CODEC_CONTEXT, CKPT_F32);

    plan.thorough = plan.check = true;
    plan.number = CONTEXT_SUB;
    assert_true(comes_back(c, &plan, reference));
    assert_int_equal(codec_faults(c), 1);
}

static void without_a_check_the_fault_stays(void **state)
{
    codec *const c = *state;
    const codec_plan plan = codec_plan_of(CODEC_SYMBOLS, CKPT_F32);

    assert_false(comes_back(c, &plan, NULL)); /* or else this kernel has no fault */
    assert_int_equal(codec_faults(c), 0);
}

static void chunk_that_comes_back_stays_as_it_was_coded(void **state)
{
    codec *const c = *state;
    codec_plan plan = codec_plan_of(CODEC_SYMBOLS, CKPT_F32);

    c->context_kernel = context_kernel_best();
    plan.check = true;
    assert_true(comes_back(c, &plan, NULL));
    assert_int_equal(coded[0], CODEC_SYMBOLS);
    assert_int_equal(codec_faults(c), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chunk_that_does_not_come_back_is_coded_as_planes, setup, teardown),
        cmocka_unit_test_setup_teardown(smallest_of_all_ways_is_checked_too, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_check_the_fault_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(chunk_that_comes_back_stays_as_it_was_coded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
