/* Weights of convolutions in every order and size of kernels: what a plan says of their shape changes how they are
 * coded, never what comes back. */
#include "codec_internal.h"
#include "weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT_MAX = 1 << 16 };

static float weights[COUNT_MAX], later[COUNT_MAX];
static unsigned char back[sizeof weights + 1], coded[CODEC_CHUNK_CODED_MAX];
static codec *c;

static int setup(void **state)
{
    (void)state;
    return codec_new(&c, NULL) ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    codec_free(c);
    return 0;
}

/* Neighbours in a kernel are alike, as they are in trained ones: then planes are predicted from planes. */
static void fill_kernels(unsigned planes, unsigned inner)
{
    uint64_t seed = 5;

    for (size_t i = 0; i < COUNT_MAX; i++) {
        weights[i] = weight(&seed);
        if (i / inner % planes)
            weights[i] = 0.9f * weights[i - inner] + 0.1f * weights[i];
    }
    fill_trained(later, weights, sizeof later, 0.01f, 6);
}

static void assert_comes_back(const codec_plan *plan, size_t count, const float *data, const float *reference)
{
    ckpt_error err = {0};
    size_t coded_size = 0;
    const size_t size = count * sizeof *data;

    assert_int_equal(codec_encode(&coded_size, coded, c, plan, data, size, reference, NULL), 0);
    memset(back, 0x5a, size + 1);
    if (codec_decode(back, size, c, coded, coded_size, reference, &err))
        fail_msg("mode %u, planes %u, inner %u, %zu elements: %s", plan->mode, plan->grid.planes, plan->grid.inner,
                 count, err.message);
    assert_memory_equal(back, data, size);
    assert_int_equal(back[size], 0x5a);
}

static void assert_grid_comes_back(unsigned planes, unsigned inner, size_t count, uint64_t first_byte)
{
    codec_plan plan = codec_plan_of(CODEC_SYMBOLS, CKPT_F32);

    plan.period = planes * inner;
    plan.grid.planes = planes;
    plan.grid.inner = inner;
    plan.grid.first_byte = first_byte;
    assert_comes_back(&plan, count, weights, NULL);
    plan.mode = CODEC_CONTEXT;
    for (plan.number = 0; plan.number < 3; plan.number++)
        assert_comes_back(&plan, count, later, weights);
}

static void kernels_come_back_whatever_their_size_and_order(void **state)
{
    static const unsigned PLANES[] = {2, 3, 4, 7, 9, 25, 49}, INNERS[] = {1, 3, 16, 64};
    (void)state;
    for (size_t p = 0; p < sizeof PLANES / sizeof *PLANES; p++)
        for (size_t i = 0; i < sizeof INNERS / sizeof *INNERS; i++) {
            fill_kernels(PLANES[p], INNERS[i]);
            assert_grid_comes_back(PLANES[p], INNERS[i], COUNT_MAX, 0);
            assert_grid_comes_back(PLANES[p], INNERS[i], 30011, 0);
            assert_grid_comes_back(PLANES[p], INNERS[i], COUNT_MAX - 1, 1 << 20); /* a later chunk */
        }
}

static void few_kernels_come_back(void **state)
{
    (void)state;
    fill_kernels(9, 1);
    for (size_t count = 1; count < 2000; count += 97)
        assert_grid_comes_back(9, 1, count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_come_back_whatever_their_size_and_order),
        cmocka_unit_test(few_kernels_come_back),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
