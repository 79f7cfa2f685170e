#include "codec_internal.h"
#include "weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 200003 };

static unsigned char data[SIZE], reference[SIZE], back[SIZE + 1], coded[CODEC_CHUNK_CODED_MAX];
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

static size_t encode(codec_mode mode, ckpt_dtype dtype, bool thorough, const void *ref)
{
    codec_plan plan = codec_plan_of(mode, dtype);
    size_t coded_size = 0;

    plan.thorough = thorough;
    assert_int_equal(codec_encode(&coded_size, coded, c, &plan, data, SIZE, ref, NULL), 0);
    memset(back, 0x5a, sizeof back);
    assert_int_equal(codec_decode(back, SIZE, c, coded, coded_size, ref, NULL), 0);
    assert_memory_equal(back, data, SIZE);
    assert_int_equal(back[SIZE], 0x5a);
    return coded_size;
}

/* Whatever it was planned to be coded as. */
static void assert_best_is_smallest(ckpt_dtype dtype, const void *ref)
{
    static const codec_mode MODES[] = {CODEC_ZSTD,    CODEC_PLANES,  CODEC_SUB,    CODEC_XOR,
                                       CODEC_CONTEXT, CODEC_PALETTE, CODEC_SYMBOLS};
    enum { COUNT = sizeof MODES / sizeof *MODES };
    size_t smallest = SIZE_MAX;

    for (size_t i = 0; i < COUNT; i++) {
        const size_t size = encode(MODES[i], dtype, false, ref);
        smallest = size < smallest ? size : smallest;
    }
    for (size_t i = 0; i < COUNT; i++)
        assert_in_range(encode(MODES[i], dtype, true, ref), 1, smallest);
}

static void weights_by_themselves(void **state)
{
    (void)state;
    fill_weights(data, SIZE, 3);
    assert_best_is_smallest(CKPT_F32, NULL);
}

static void weights_some_steps_later(void **state)
{
    (void)state;
    fill_weights(reference, SIZE, 3);
    fill_trained(data, reference, SIZE, 0.01f, 4);
    assert_best_is_smallest(CKPT_F32, reference);
}

static void text_and_its_next_version(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZE; i++)
        reference[i] = (unsigned char)("step loss lr 0.1 0.25 "[i * i % 22]);
    memcpy(data + 1, reference, SIZE - 1);
    data[0] = 'x';
    assert_best_is_smallest(CKPT_OPAQUE, reference);
}

static void noise_stays_within_its_bound(void **state)
{
    (void)state;
    fill_noise(data, SIZE, 5);
    fill_noise(reference, SIZE, 6);
    assert_in_range(encode(CODEC_SUB, CKPT_F32, true, reference), 1, SIZE + 1);
    assert_in_range(encode(CODEC_ZSTD, CKPT_OPAQUE, true, NULL), 1, SIZE + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_by_themselves),
        cmocka_unit_test(weights_some_steps_later),
        cmocka_unit_test(text_and_its_next_version),
        cmocka_unit_test(noise_stays_within_its_bound),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
