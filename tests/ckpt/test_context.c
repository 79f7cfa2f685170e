#include "codec_internal.h"
#include "weights.h"

#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Chunks are coded by themselves, with more room than they need: in a codec the ones that grow would be stored. */
enum { DATA_MAX = 600000, CODED_MAX = 2 * DATA_MAX + 100000 };

static unsigned char data[DATA_MAX], reference[DATA_MAX], coded[CODED_MAX], again[CODED_MAX], back[DATA_MAX + 1];
static codec *best, *scalar, *avx2; /* the best here, and what lesser machines have */

static int open_codecs(void **state)
{
    (void)state;
    if (codec_new(&best, NULL) || setenv("CKPT_CPU", "scalar", 1) || codec_new(&scalar, NULL) ||
        setenv("CKPT_CPU", "avx2", 1) || codec_new(&avx2, NULL))
        return -1;
    unsetenv("CKPT_CPU");
    print_message("kernel %s\n", best->context_kernel->name);
    return 0;
}

static int close_codecs(void **state)
{
    (void)state;
    codec_free(best);
    codec_free(scalar);
    codec_free(avx2);
    return 0;
}

static codec_plan plan_for(ckpt_dtype dtype, unsigned number, uint32_t period, uint32_t planes, uint32_t inner)
{
    return (codec_plan){.mode = CODEC_CONTEXT,
                        .width = codec_dtype_width(dtype),
                        .dtype = dtype,
                        .number = number,
                        .period = period,
                        .grid = {.planes = planes, .inner = inner}};
}

/* Coded by the best kernel and the scalar one to the same bytes, and decoded by all to what it was. Returns the coded
 * size. */
static size_t assert_coded(const codec_plan *plan, size_t size, const void *with)
{
    codec *const codecs[] = {best, scalar, avx2};
    size_t coded_size = 0, again_size = 0;
    ckpt_error err = {0};

    assert_int_equal(context_encode(&coded_size, coded, CODED_MAX, best, plan, data, size, with, NULL), 0);
    assert_int_equal(context_encode(&again_size, again, CODED_MAX, scalar, plan, data, size, with, NULL), 0);
    assert_int_equal(coded_size, again_size);
    if (coded_size == CODEC_NO_GAIN)
        return coded_size;
    assert_memory_equal(coded, again, coded_size);
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        memset(back, 0x5a, size + 1);
        if (context_decode(back, size, codecs[i], coded, coded_size, with, &err))
            fail_msg("%zu bytes, dtype %u, number %u: %s", size, (unsigned)plan->dtype, plan->number, err.message);
        assert_memory_equal(back, data, size);
        assert_int_equal(back[size], 0x5a);
    }
    return coded_size;
}

static bool has_neighbours(void)
{
    return coded[0] >> 7;
}

/* Kernels of planes * inner floats whose values are alike at neighbouring places. */
static void fill_kernels(void *dst, size_t size, unsigned planes, unsigned inner, size_t first, uint64_t seed)
{
    float last[512] = {0};

    assert_true(inner <= 512);
    for (size_t i = 0; 4 * i + 4 <= size; i++) {
        const size_t at = i + first, plane = at / inner % planes, c = at % inner;
        last[c] = (plane ? 0.9f * last[c] : 0) + 0.4f * weight(&seed);
        memcpy((unsigned char *)dst + 4 * i, &last[c], 4);
    }
}

static void every_type_number_and_size_around_lanes_and_runs_comes_back(void **state)
{
    static const size_t COUNTS[] = {1, 2, 3, 4, 5, 31, 32, 33, 63, 70, 1023, 1024, 1025, 4097, 16385};
    (void)state;
    fill_weights(reference, sizeof reference, 1);
    fill_trained(data, reference, sizeof data, 0.1f, 2);
    for (unsigned dtype = 0; dtype <= CKPT_F8_E5M2; dtype++)
        for (unsigned number = 0; number < 3; number++)
            for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
                const codec_plan plan = plan_for((ckpt_dtype)dtype, number, number * 17, 0, 0);
                const size_t size = COUNTS[i] * plan.width + i % plan.width;
                assert_true(assert_coded(&plan, size, reference) != CODEC_NO_GAIN);
                assert_true(assert_coded(&plan, size, NULL) != CODEC_NO_GAIN);
            }
}

static void sizes_of_0_to_70_bytes_come_back(void **state)
{
    (void)state;
    fill_noise(data, 70, 3);
    fill_noise(reference, 70, 4);
    for (size_t size = 0; size <= 70; size++)
        for (unsigned width = 1; width <= 8; width *= 2) {
            codec_plan plan = plan_for(CKPT_F32, CONTEXT_SUB, 3, 0, 0);
            plan.width = width;
            assert_int_equal(assert_coded(&plan, size, reference) == CODEC_NO_GAIN, size < width);
        }
}

/* Infinities, NaNs of both signs with payloads, zeros of both signs, denormals, the largest and smallest numbers, and
 * between them ordinary ones. */
static void fill_special(void *dst, size_t size, uint64_t seed)
{
    static const uint32_t SPECIAL[] = {0x7f800000, 0xff800000, 0x7fc00001, 0xffc0beef, 0x7f800001,
                                       0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                       0x7f7fffff, 0xff7fffff, 0x00800000, 0x60000000};
    for (size_t i = 0; i + 4 <= size; i += 4)
        if ((random_next(&seed) >> 40) % 3 == 0)
            memcpy((unsigned char *)dst + i, &SPECIAL[(random_next(&seed) >> 40) % 14], 4);
}

static void special_floats_come_back_from_every_kind_of_chunk(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 8; round++) {
        fill_kernels(reference, 40000, 9, 16, 0, 5);
        fill_kernels(data, 40000, 9, 16, 0, 6 + round);
        fill_special(data, round < 6 ? 40000 : 4000, 7 + round);
        fill_special(reference, round % 2 ? 40000 : 400, 8 + round);
        for (unsigned number = 0; number < 3; number++) {
            const codec_plan plan = plan_for(CKPT_F32, number, 144, 9, 16);
            assert_coded(&plan, 40000, reference);
            assert_coded(&plan, 40000, NULL);
        }
    }
}

static void kernels_of_all_shapes_cut_anywhere_come_back(void **state)
{
    static const unsigned SHAPES[][2] = {{2, 1}, {9, 1}, {9, 16}, {25, 3}, {49, 1}, {64, 2}, {3, 500}, {9, 128}};
    (void)state;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        const unsigned planes = SHAPES[i][0], inner = SHAPES[i][1];
        for (size_t first = 0; first < (size_t)planes * inner; first += 1 + (size_t)planes * inner / 5) {
            codec_plan plan = plan_for(CKPT_F32, CONTEXT_SUB, planes * inner, planes, inner);
            plan.grid.first_byte = 4 * first;
            fill_kernels(data, 60000, planes, inner, first, 9);
            assert_coded(&plan, 60000 - first % 4, NULL);
            assert_true(has_neighbours());
            fill_weights(reference, 60000, 10);
            for (size_t k = 0; k < 60000; k += 4) {
                float x, y;
                memcpy(&x, data + k, 4);
                memcpy(&y, reference + k, 4);
                y += 0.01f * x;
                memcpy(data + k, &y, 4);
            }
            assert_coded(&plan, 60000 - first % 4, reference);
            assert_true(has_neighbours());
        }
    }
}

/* How many intervals cover the numbers below and above those with symbols of their own depends on the largest one. */
static void largest_elements_of_every_exponent_come_back(void **state)
{
    static const struct {
        ckpt_dtype dtype;
        unsigned exponent;
    } TYPES[] = {{CKPT_F64, 11}, {CKPT_F32, 8}, {CKPT_BF16, 8}, {CKPT_F16, 5}, {CKPT_F8_E4M3, 4}, {CKPT_F8_E5M2, 5}};
    enum { COUNT = 40 };
    (void)state;
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        for (unsigned most = 0; most < 1u << TYPES[t].exponent; most++)
            for (unsigned negative = 0; negative < 2; negative++) {
                const codec_plan plan = plan_for(TYPES[t].dtype, CONTEXT_RAW, 0, 0, 0);
                const unsigned bits = 8 * plan.width, mantissa = bits - 1 - TYPES[t].exponent;
                for (unsigned i = 0; i < COUNT; i++) {
                    const uint64_t exponent = most > 3 * i ? most - 3 * i : 0;
                    const uint64_t element = exponent << mantissa | (uint64_t)(negative && i % 2) << (bits - 1) | i % 2;
                    memcpy(data + i * plan.width, &element, plan.width);
                }
                assert_coded(&plan, COUNT * plan.width, NULL);
                assert_coded(&plan, COUNT * plan.width, reference);
            }
}

static void alike_neighbours_are_worth_half_a_bit_and_more_of_each_float(void **state)
{
    const codec_plan with = plan_for(CKPT_F32, CONTEXT_RAW, 576, 9, 64), without = plan_for(CKPT_F32, 0, 576, 0, 0);
    (void)state;
    fill_kernels(data, 400000, 9, 64, 0, 11);
    const size_t by_planes = assert_coded(&with, 400000, NULL), as_they_stand = assert_coded(&without, 400000, NULL);
    assert_true(by_planes + 100000 / 16 < as_they_stand);
}

static void kernels_that_are_not_alike_are_coded_as_they_stand(void **state)
{
    const codec_plan plan = plan_for(CKPT_F32, CONTEXT_RAW, 576, 9, 64);
    (void)state;
    fill_weights(data, 100000, 12);
    assert_coded(&plan, 100000, NULL);
    assert_false(has_neighbours());
}

static void what_is_never_negative_and_grows_by_rows_is_expected_to(void **state)
{
    codec_plan plan = plan_for(CKPT_F32, CONTEXT_SUB, 0, 0, 0);
    uint64_t seed = 13;
    (void)state;
    for (size_t i = 0; i < 100000; i++) {
        const float y = 1e-6f + fabsf(weight(&seed)), x = y * (1.0f + 0.3f * sinf((float)(i / 256)));
        memcpy(reference + 4 * i, &y, 4);
        memcpy(data + 4 * i, &x, 4);
    }
    const size_t grown = assert_coded(&plan, 400000, reference);
    assert_true(coded[0] & 0x40);
    plan.dtype = CKPT_U32; /* the same bits, of which nobody expects to grow */
    assert_true(grown < assert_coded(&plan, 400000, reference) * 9 / 10);
    assert_false(coded[0] & 0x40);
}

static void floats_that_hold_shorter_ones_cost_as_much_as_those(void **state)
{
    static unsigned char short_ones[100000];
    const codec_plan wide = plan_for(CKPT_F32, CONTEXT_RAW, 0, 0, 0), narrow = plan_for(CKPT_BF16, 0, 0, 0, 0);
    (void)state;
    fill_weights(data, 200000, 14);
    for (size_t i = 0; i < 50000; i++) {
        memset(data + 4 * i, 0, 2);
        memcpy(short_ones + 2 * i, data + 4 * i + 2, 2);
    }
    const size_t wide_size = assert_coded(&wide, 200000, NULL);
    memcpy(data, short_ones, 100000);
    const size_t narrow_size = assert_coded(&narrow, 100000, NULL);
    assert_true(wide_size < narrow_size + 100 && narrow_size < 66000);
}

static void rounding_as_the_program_around_has_set_it_changes_nothing(void **state)
{
    static const int DIRECTIONS[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    const codec_plan plan = plan_for(CKPT_F32, CONTEXT_RAW, 144, 9, 16);
    (void)state;
    fill_kernels(data, 40000, 9, 16, 0, 15);
    const size_t size = assert_coded(&plan, 40000, NULL);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fesetround(DIRECTIONS[i]), 0);
        const int rc = context_decode(back, 40000, best, coded, size, NULL, NULL);
        assert_int_equal(fegetround(), DIRECTIONS[i]);
        fesetround(FE_TONEAREST);
        assert_int_equal(rc, 0);
        assert_memory_equal(back, data, 40000);
    }
}

/* ---- Hostile bytes, in buffers of exactly their size ---- */

/* All kernels say the same. */
static void decode_exact(size_t coded_size, size_t size, const void *with)
{
    unsigned char *const in = malloc(coded_size + !coded_size), *const out = malloc(size + !size);

    assert_true(in && out && size <= DATA_MAX);
    memcpy(in, coded, coded_size);
    const int rc = context_decode(back, size, scalar, in, coded_size, with, NULL);
    assert_true(rc == 0 || rc == CKPT_EDATA);
    assert_int_equal(context_decode(out, size, avx2, in, coded_size, with, NULL), rc);
    assert_true(rc || memcmp(out, back, size) == 0);
    assert_int_equal(context_decode(out, size, best, in, coded_size, with, NULL), rc);
    assert_true(rc || memcmp(out, back, size) == 0);
    free(in);
    free(out);
}

static void every_flipped_bit_and_every_cut_is_refused_or_decoded_within_bounds(void **state)
{
    (void)state;
    fill_kernels(reference, 8000, 9, 4, 0, 16);
    fill_kernels(data, 8000, 9, 4, 0, 17);
    for (unsigned number = 0; number < 2; number++) {
        const codec_plan plan = plan_for(CKPT_F32, number, 36, 9, 4);
        const void *const with = number ? reference : NULL;
        const size_t size = assert_coded(&plan, 8000, with);
        for (size_t bit = 0; bit < 8 * size; bit += bit < 1600 ? 1 : 97) {
            coded[bit / 8] ^= (unsigned char)(1u << bit % 8);
            decode_exact(size, 8000, with);
            decode_exact(size, 7999 - bit % 4, with);
            coded[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        for (size_t cut = 0; cut < size; cut += cut < 200 ? 1 : 41)
            assert_int_equal(context_decode(back, 8000, best, coded, cut, with, NULL), CKPT_EDATA);
    }
}

static void noise_behind_any_head_is_refused_or_decoded_within_bounds(void **state)
{
    (void)state;
    for (unsigned what = 0; what < 256; what++)
        for (uint64_t seed = 1; seed < 9; seed++) {
            fill_noise(coded, 2000, seed);
            coded[0] = (unsigned char)what;
            coded[1] = 0;
            coded[2] = 0;
            coded[3] = (unsigned char)(5 | (2 + seed % 4) << 5);
            memcpy(coded + 4, "\x08\x00\x40\x00\x00\x40\x01\x00\x09\x02\x00\x01\x00", 13);
            decode_exact(2000, 1000, seed % 2 ? reference : NULL);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_number_and_size_around_lanes_and_runs_comes_back),
        cmocka_unit_test(sizes_of_0_to_70_bytes_come_back),
        cmocka_unit_test(special_floats_come_back_from_every_kind_of_chunk),
        cmocka_unit_test(kernels_of_all_shapes_cut_anywhere_come_back),
        cmocka_unit_test(largest_elements_of_every_exponent_come_back),
        cmocka_unit_test(alike_neighbours_are_worth_half_a_bit_and_more_of_each_float),
        cmocka_unit_test(kernels_that_are_not_alike_are_coded_as_they_stand),
        cmocka_unit_test(what_is_never_negative_and_grows_by_rows_is_expected_to),
        cmocka_unit_test(floats_that_hold_shorter_ones_cost_as_much_as_those),
        cmocka_unit_test(rounding_as_the_program_around_has_set_it_changes_nothing),
        cmocka_unit_test(every_flipped_bit_and_every_cut_is_refused_or_decoded_within_bounds),
        cmocka_unit_test(noise_behind_any_head_is_refused_or_decoded_within_bounds),
    };
    return cmocka_run_group_tests(tests, open_codecs, close_codecs);
}
