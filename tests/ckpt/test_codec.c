#include "codec_internal.h"
#include "weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODE_COUNT = CODEC_SYMBOLS + 1, DTYPE_COUNT = CKPT_F8_E5M2 + 1 };

static unsigned char data[CODEC_CHUNK_BYTES], reference[CODEC_CHUNK_BYTES], back[CODEC_CHUNK_BYTES + 1];
static unsigned char coded[CODEC_CHUNK_CODED_MAX], other[CODEC_CHUNK_CODED_MAX];
static codec *c;

static int setup(void **state)
{
    (void)state;
    if (codec_new(&c, NULL))
        return -1;
    print_message("kernel %s\n", c->kernel->name);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    codec_free(c);
    return 0;
}

static codec_plan plan_for(codec_mode mode, ckpt_dtype dtype, int level)
{
    const unsigned width = codec_dtype_width(dtype);
    return (codec_plan){.mode = mode, .width = width, .dtype = dtype, .level = level, .rotate = width > 1};
}

/* ---- Round trips ---- */

static size_t assert_round_trip(const codec_plan *plan, const void *src, size_t size, const void *ref)
{
    size_t coded_size = 0;
    ckpt_error err = {0};
    bool needs = false;

    assert_int_equal(codec_encode(&coded_size, coded, c, plan, src, size, ref, &err), 0);
    assert_true(coded_size <= size + size / 1000 + 16);
    assert_int_equal(codec_needs_reference(&needs, coded, coded_size, &err), 0);
    memset(back, 0x5a, size + 1);
    if (codec_decode(back, size, c, coded, coded_size, needs ? ref : NULL, &err))
        fail_msg("mode %u dtype %u size %zu: %s", plan->mode, plan->dtype, size, err.message);
    assert_memory_equal(back, src, size);
    assert_int_equal(back[size], 0x5a);
    return coded_size;
}

static void assert_round_trips(size_t size, int level)
{
    for (unsigned mode = 0; mode < MODE_COUNT; mode++)
        for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            const codec_plan plan = plan_for((codec_mode)mode, (ckpt_dtype)dtype, level);
            assert_round_trip(&plan, data, size, reference);
            assert_round_trip(&plan, data, size, NULL);
        }
}

static void every_mode_and_dtype_survives_sizes_0_to_17(void **state)
{
    (void)state;
    fill_weights(reference, 64, 3);
    fill_trained(data, reference, 64, 0.01f, 4);
    for (size_t size = 0; size <= 17; size++)
        assert_round_trips(size, 0);
}

static void every_mode_and_dtype_survives_odd_tails(void **state)
{
    (void)state;
    fill_weights(reference, 40000, 3);
    fill_trained(data, reference, 40000, 0.01f, 4);
    for (size_t size = 9000; size <= 9008; size++)
        assert_round_trips(size, 0);
    assert_round_trips(39999, 3);
}

static void every_mode_survives_a_full_chunk_and_one_byte_less(void **state)
{
    (void)state;
    fill_weights(reference, sizeof reference, 5);
    fill_trained(data, reference, sizeof data, 0.01f, 6);
    for (unsigned mode = 0; mode < MODE_COUNT; mode++) {
        const codec_plan plan = plan_for((codec_mode)mode, CKPT_F32, 0);
        assert_round_trip(&plan, data, CODEC_CHUNK_BYTES, reference);
        assert_round_trip(&plan, data, CODEC_CHUNK_BYTES - 1, reference);
    }
}

static void noise_never_grows_beyond_the_bound_whatever_the_plan(void **state)
{
    (void)state;
    fill_noise(data, sizeof data, 7);
    fill_noise(reference, sizeof reference, 8);
    for (unsigned mode = 0; mode < MODE_COUNT; mode++)
        for (unsigned width = 0; width <= 9; width++) {
            const codec_plan plan = {
                .mode = (codec_mode)mode, .width = width, .dtype = CKPT_F64, .level = 1, .rotate = 77};
            assert_round_trip(&plan, data, 70001, reference);
        }
    const codec_plan plan = plan_for(CODEC_SUB, CKPT_F32, 0);
    assert_round_trip(&plan, data, CODEC_CHUNK_BYTES, reference);
}

static void a_plan_of_unknown_numbers_still_codes(void **state)
{
    const codec_plan plan = {
        .mode = (codec_mode)200, .width = 3, .dtype = (ckpt_dtype)99, .level = 1000, .rotate = 500};
    (void)state;
    fill_weights(data, 5000, 9);
    assert_round_trip(&plan, data, 5000, NULL);
}

static void special_floats_keep_every_bit(void **state)
{
    /* quiet and signalling NaNs with payloads, infinities, zeros, denormals, the largest and the smallest */
    static const uint32_t SPECIAL[] = {0x7fc00000, 0x7fc12345, 0xffc12345, 0x7f800001, 0xff800001, 0x7fffffff,
                                       0xffffffff, 0x7f800000, 0xff800000, 0x00000000, 0x80000000, 0x00000001,
                                       0x80000001, 0x007fffff, 0x807fffff, 0x7f7fffff, 0xff7fffff, 0x00800000};
    enum { COUNT = sizeof SPECIAL / sizeof *SPECIAL };
    static uint32_t pairs[COUNT * COUNT * 4], references[COUNT * COUNT * 4];
    (void)state;
    for (size_t i = 0; i < COUNT * COUNT * 4; i++) {
        pairs[i] = SPECIAL[i % COUNT];
        references[i] = SPECIAL[i / COUNT % COUNT];
    }
    for (unsigned mode = CODEC_PLANES; mode <= CODEC_XOR; mode++)
        for (unsigned dtype = CKPT_F16; dtype < DTYPE_COUNT; dtype++) {
            const codec_plan plan = plan_for((codec_mode)mode, (ckpt_dtype)dtype, 0);
            assert_round_trip(&plan, pairs, sizeof pairs, references);
            assert_int_equal(coded[0], mode);
        }
}

static void a_constant_chunk_takes_at_most_nine_bytes(void **state)
{
    static const size_t PERIODS[] = {1, 2, 4, 8};
    const codec_plan plan = plan_for(CODEC_SUB, CKPT_F32, 0);
    (void)state;
    for (size_t p = 0; p < 4; p++) {
        for (size_t i = 0; i < 100001; i++)
            data[i] = (unsigned char)(17 * (i % PERIODS[p]) + 1);
        assert_int_equal(assert_round_trip(&plan, data, 100001, reference), 1 + PERIODS[p]);
        assert_int_equal(coded[0], CODEC_CONSTANT);
    }
}

static void a_chunk_equal_to_its_reference_takes_one_byte(void **state)
{
    const codec_plan plan = plan_for(CODEC_PLANES, CKPT_F32, 0);
    (void)state;
    fill_weights(data, 100000, 10);
    memcpy(reference, data, 100000);
    assert_int_equal(assert_round_trip(&plan, data, 100000, reference), 1);
    assert_int_equal(coded[0], CODEC_COPY);
}

static void patches_reach_from_the_end_of_a_full_chunk_to_the_start_of_its_reference(void **state)
{
    const codec_plan plan = plan_for(CODEC_PATCH, CKPT_OPAQUE, 9);
    (void)state;
    fill_noise(reference, sizeof reference, 27);
    fill_noise(data, sizeof data, 28);
    memcpy(data + CODEC_CHUNK_BYTES - 200000, reference, 200000);
    assert_true(assert_round_trip(&plan, data, CODEC_CHUNK_BYTES, reference) < CODEC_CHUNK_BYTES - 199000);
    assert_int_equal(coded[0], CODEC_PATCH);
}

static void scalar_and_avx2_give_the_same_bytes(void **state)
{
    const plane_kernel *kernels[] = {&PLANE_KERNEL_SCALAR, plane_kernel_avx2()}, *best = c->kernel;
    (void)state;
    if (!kernels[1]) {
        print_message("no AVX2 here\n");
        skip();
    }
    fill_weights(reference, 300000, 11);
    fill_trained(data, reference, 300000, 0.1f, 12);
    for (unsigned mode = CODEC_PLANES; mode <= CODEC_XOR; mode++)
        for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            const codec_plan plan = plan_for((codec_mode)mode, (ckpt_dtype)dtype, 0);
            size_t size = 0, other_size = 0;
            c->kernel = kernels[0];
            assert_int_equal(codec_encode(&size, coded, c, &plan, data, 299999, reference, NULL), 0);
            c->kernel = kernels[1];
            assert_int_equal(codec_encode(&other_size, other, c, &plan, data, 299999, reference, NULL), 0);
            assert_int_equal(size, other_size);
            assert_memory_equal(coded, other, size);
            assert_int_equal(codec_decode(back, 299999, c, coded, size, reference, NULL), 0);
            assert_memory_equal(back, data, 299999);
            c->kernel = kernels[0];
            assert_int_equal(codec_decode(back, 299999, c, coded, size, reference, NULL), 0);
            assert_memory_equal(back, data, 299999);
        }
    c->kernel = best;
}

/* ---- The format, by bytes put together by hand from the grammar ---- */

static void assert_decodes(const void *bytes, size_t bytes_size, const void *ref, const void *expected, size_t size)
{
    ckpt_error err = {0};
    memset(back, 0x5a, size + 1);
    if (codec_decode(back, size, c, bytes, bytes_size, ref, &err))
        fail_msg("%s", err.message);
    assert_memory_equal(back, expected, size);
    assert_int_equal(back[size], 0x5a);
}

static void chunks_written_by_hand_are_read(void **state)
{
    static const unsigned char FLOATS[] = {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0, 0x77}; /* 1, -2, tail */
    static const unsigned char BEFORE[] = {0xff, 0xff, 0x7f, 0x3f, 0x01, 0x00, 0x00, 0xc0, 0x00};
    static const unsigned char STORED[] = {0, 'a', 'b', 'c'}, CONSTANT[] = {1, 'a', 'b'}, COPY[] = {2};
    /* zstd frames: magic, single segment with a content size of one byte; or none and a window of 1 KiB; a raw block */
    static const unsigned char ZSTD[] = {3, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 3, 0x19, 0, 0, 'a', 'b', 'c'};
    static const unsigned char PLANES[] = {5, 4, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0x7f, 0x80, 0x77};
    static const unsigned char PLANES_ZSTD[] = {5,    4, 1, 2, 11, 0, 0, 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x00,
                                                0x11, 0, 0, 0, 1,  1, 0, 1,    0,    0,    0x7f, 0x80, 0x77};
    static const unsigned char SUB[] = {6, 4, 0x40, 0, 2, 2, 1, 0, 1, 0, 1, 0, 0x77}; /* each one step up */
    static const unsigned char XOR[] = {7, 1, 0, 0, 0xff, 0xff, 0xff, 0, 0x01, 0, 0, 0, 0x77};
    (void)state;
    assert_decodes(STORED, sizeof STORED, NULL, "abc", 3);
    assert_decodes(CONSTANT, sizeof CONSTANT, NULL, "ababa", 5);
    assert_decodes(COPY, sizeof COPY, FLOATS, FLOATS, 9);
    assert_decodes(ZSTD, sizeof ZSTD, NULL, "abc", 3);
    assert_decodes(PLANES, sizeof PLANES, NULL, FLOATS, 9);
    assert_decodes(SUB, sizeof SUB, BEFORE, FLOATS, 9);
    assert_decodes(XOR, sizeof XOR, BEFORE, FLOATS, 9);
    assert_decodes(PLANES_ZSTD, sizeof PLANES_ZSTD, NULL, FLOATS, 9);
}

static void modes_have_their_names_and_say_whether_they_need_a_reference(void **state)
{
    static const char *const NAMES[] = {"stored", "constant", "copy",    "zstd",    "patch",  "planes",
                                        "sub",    "xor",      "context", "palette", "symbols"};
    static const bool NEEDS[] = {false, false, true, false, true, false, true, true, true, false, false};
    (void)state;
    for (unsigned mode = 0; mode < MODE_COUNT; mode++) {
        const unsigned char byte = (unsigned char)mode;
        bool needs = !NEEDS[mode];
        assert_string_equal(codec_mode_name(mode), NAMES[mode]);
        assert_int_equal(codec_needs_reference(&needs, &byte, 1, NULL), 0);
        assert_int_equal(needs, NEEDS[mode]);
    }
    assert_null(codec_mode_name(MODE_COUNT));
}

/* ---- Hostile bytes ---- */

static int decode(const void *bytes, size_t bytes_size, size_t size, const void *ref)
{
    return codec_decode(back, size, c, bytes, bytes_size, ref, NULL);
}

static size_t encode_trained(codec_mode mode, size_t size)
{
    const codec_plan plan = plan_for(mode, CKPT_F32, 0);
    size_t coded_size = 0;

    fill_weights(reference, size, 13);
    fill_trained(data, reference, size, 0.001f, 14);
    assert_int_equal(codec_encode(&coded_size, coded, c, &plan, data, size, reference, NULL), 0);
    assert_int_equal(coded[0], mode);
    return coded_size;
}

static void a_truncated_or_lengthened_chunk_is_damage(void **state)
{
    static const codec_mode CODED[] = {CODEC_PLANES, CODEC_SUB, CODEC_XOR};
    (void)state;
    for (size_t m = 0; m < sizeof CODED / sizeof *CODED; m++) {
        const size_t size = 3002, coded_size = encode_trained(CODED[m], size);
        for (size_t n = 0; n < coded_size; n++)
            assert_int_equal(decode(coded, n, size, reference), CKPT_EDATA);
        coded[coded_size] = 0;
        assert_int_equal(decode(coded, coded_size + 1, size, reference), CKPT_EDATA);
        assert_int_equal(decode(coded, coded_size, size - 1, reference), CKPT_EDATA);
        assert_int_equal(decode(coded, coded_size, size + 1, reference), CKPT_EDATA);
    }
}

static void a_flipped_bit_gives_damage_or_other_bytes_and_nothing_worse(void **state)
{
    static const codec_mode CODED[] = {CODEC_PLANES, CODEC_SUB, CODEC_XOR};
    (void)state;
    for (size_t m = 0; m < sizeof CODED / sizeof *CODED; m++) {
        const size_t size = 3002, coded_size = encode_trained(CODED[m], size);
        for (size_t bit = 0; bit < 8 * coded_size; bit++) {
            coded[bit / 8] ^= (unsigned char)(1u << bit % 8);
            const int rc = decode(coded, coded_size, size, reference);
            assert_true(rc == 0 || rc == CKPT_EDATA);
            coded[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        assert_int_equal(decode(coded, coded_size, size, reference), 0);
        assert_memory_equal(back, data, size);
    }
}

static void every_mode_byte_before_noise_is_refused_or_decoded_within_bounds(void **state)
{
    (void)state;
    fill_noise(coded, 2000, 15);
    for (unsigned mode = 0; mode < 256; mode++)
        for (size_t n = 1; n < 2000; n += 13) {
            coded[0] = (unsigned char)mode;
            memset(back, 0x5a, 1001);
            const int rc = decode(coded, n, 1000, reference);
            assert_true(rc == CKPT_EDATA || (rc == 0 && mode < MODE_COUNT));
            assert_int_equal(back[1000], 0x5a);
        }
}

static void wrong_fields_of_planes_are_damage(void **state)
{
    static const unsigned char WIDTH_0[] = {5, 0, 0}, WIDTH_3[] = {5, 3, 0, 1, 0, 1, 0, 1, 0};
    static const unsigned char ROTATE_32[] = {5, 4, 32, 1, 0, 1, 0, 1, 0, 1, 0}, FLAG[] = {5, 1, 0x80, 1, 0};
    static const unsigned char TAG_3[] = {5, 1, 0, 3, 0};
    (void)state;
    assert_int_equal(decode(WIDTH_0, sizeof WIDTH_0, 12, NULL), CKPT_EDATA);
    assert_int_equal(decode(WIDTH_3, sizeof WIDTH_3, 12, NULL), CKPT_EDATA);
    assert_int_equal(decode(ROTATE_32, sizeof ROTATE_32, 12, NULL), CKPT_EDATA);
    assert_int_equal(decode(FLAG, sizeof FLAG, 12, NULL), CKPT_EDATA);
    assert_int_equal(decode(TAG_3, sizeof TAG_3, 12, NULL), CKPT_EDATA);
}

static void a_zstd_frame_of_another_size_or_with_a_second_frame_is_damage(void **state)
{
    /* "abc" as in chunks_written_by_hand_are_read, and an empty skippable frame */
    static const unsigned char FRAMES[] = {3,   0x28, 0xb5, 0x2f, 0xfd, 0x20, 3, 0x19, 0, 0, 'a',
                                           'b', 'c',  0x50, 0x2a, 0x4d, 0x18, 0, 0,    0, 0};
    (void)state;
    assert_int_equal(decode(FRAMES, 13, 3, NULL), 0);
    assert_int_equal(decode(FRAMES, 13, 2, NULL), CKPT_EDATA);
    assert_int_equal(decode(FRAMES, 13, 4, NULL), CKPT_EDATA);
    assert_int_equal(decode(FRAMES, sizeof FRAMES, 3, NULL), CKPT_EDATA);
}

static void zstd_frames_are_written_without_content_size_checksum_and_dictionary(void **state)
{
    const codec_plan plan = plan_for(CODEC_ZSTD, CKPT_OPAQUE, 3);
    (void)state;
    for (size_t i = 0; i < 5000; i++)
        data[i] = (unsigned char)(i % 100);
    assert_round_trip(&plan, data, 5000, NULL);
    assert_int_equal(coded[0], CODEC_ZSTD);
    assert_int_equal(coded[5], 0); /* the frame header descriptor */
}

static void a_delta_without_its_reference_is_damage(void **state)
{
    (void)state;
    const size_t coded_size = encode_trained(CODEC_SUB, 5000);
    assert_int_equal(decode(coded, coded_size, 5000, NULL), CKPT_EDATA);
}

static void a_chunk_that_is_too_large_is_refused(void **state)
{
    const codec_plan plan = plan_for(CODEC_STORED, CKPT_U8, 0);
    size_t coded_size = 0;
    (void)state;
    assert_int_equal(codec_encode(&coded_size, coded, c, &plan, data, CODEC_CHUNK_BYTES + 1, NULL, NULL), CKPT_EUSAGE);
    assert_int_equal(decode("\1\0", 2, CODEC_CHUNK_BYTES + 1, NULL), CKPT_EDATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_and_dtype_survives_sizes_0_to_17),
        cmocka_unit_test(every_mode_and_dtype_survives_odd_tails),
        cmocka_unit_test(every_mode_survives_a_full_chunk_and_one_byte_less),
        cmocka_unit_test(noise_never_grows_beyond_the_bound_whatever_the_plan),
        cmocka_unit_test(a_plan_of_unknown_numbers_still_codes),
        cmocka_unit_test(special_floats_keep_every_bit),
        cmocka_unit_test(a_constant_chunk_takes_at_most_nine_bytes),
        cmocka_unit_test(a_chunk_equal_to_its_reference_takes_one_byte),
        cmocka_unit_test(scalar_and_avx2_give_the_same_bytes),
        cmocka_unit_test(chunks_written_by_hand_are_read),
        cmocka_unit_test(modes_have_their_names_and_say_whether_they_need_a_reference),
        cmocka_unit_test(a_truncated_or_lengthened_chunk_is_damage),
        cmocka_unit_test(a_flipped_bit_gives_damage_or_other_bytes_and_nothing_worse),
        cmocka_unit_test(every_mode_byte_before_noise_is_refused_or_decoded_within_bounds),
        cmocka_unit_test(wrong_fields_of_planes_are_damage),
        cmocka_unit_test(a_zstd_frame_of_another_size_or_with_a_second_frame_is_damage),
        cmocka_unit_test(zstd_frames_are_written_without_content_size_checksum_and_dictionary),
        cmocka_unit_test(a_delta_without_its_reference_is_damage),
        cmocka_unit_test(a_chunk_that_is_too_large_is_refused),
        cmocka_unit_test(patches_reach_from_the_end_of_a_full_chunk_to_the_start_of_its_reference),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
