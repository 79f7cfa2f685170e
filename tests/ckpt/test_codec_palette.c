#include "codec_internal.h"
#include "weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ELEMENTS = 1 << 16, COLORS_MAX = 256 };

static unsigned char data[CODEC_CHUNK_BYTES], coded[CODEC_CHUNK_CODED_MAX], back[CODEC_CHUNK_BYTES + 1];
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

/* Codes by the mode alone; 0: it does not do. */
static size_t encode(size_t size, unsigned width)
{
    const codec_plan plan = {.mode = CODEC_PALETTE, .width = width};
    const codec_chunk chunk = {.src = data, .size = size};
    size_t coded_size = 0;

    assert_int_equal(codec_encode_mode(&coded_size, coded, sizeof coded, c, &plan, &chunk, NULL), 0);
    return coded_size == CODEC_NO_GAIN ? 0 : coded_size;
}

static void assert_comes_back(size_t coded_size, size_t size)
{
    ckpt_error err = {0};

    memset(back, 0x5a, size + 1);
    if (codec_decode(back, size, c, coded, coded_size, NULL, &err))
        fail_msg("%zu bytes: %s", size, err.message);
    assert_memory_equal(back, data, size);
    assert_int_equal(back[size], 0x5a);
}

/* `colors` different elements, in no order. */
static void fill_colors(size_t count, unsigned width, unsigned colors, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t color = i < colors ? i : random_next(&seed) % colors;
        const uint64_t element = (color + 1) * UINT64_C(0x9e3779b97f4a7c15);
        memcpy(data + i * width, (const unsigned char *)&element + (8 - width), width);
    }
}

static void any_number_of_colors_up_to_256_comes_back(void **state)
{
    static const unsigned COLORS[] = {1, 2, 3, 4, 5, 15, 16, 17, 255, 256};
    (void)state;
    for (unsigned width = 2; width <= 8; width *= 2)
        for (size_t i = 0; i < sizeof COLORS / sizeof *COLORS; i++)
            for (size_t tail = 0; tail < width; tail++) {
                const size_t size = 1003 * width + tail;
                fill_colors(1004, width, COLORS[i], 7);
                const size_t coded_size = encode(size, width);
                assert_in_range(coded_size, 1, size);
                assert_comes_back(coded_size, size);
            }
}

static void one_color_more_is_for_other_modes(void **state)
{
    (void)state;
    fill_colors(1000, 4, COLORS_MAX + 1, 7);
    assert_int_equal(encode(4000, 4), 0);
}

static void few_elements_and_none_come_back_or_are_for_other_modes(void **state)
{
    (void)state;
    fill_colors(20, 1, 3, 7);
    for (unsigned width = 1; width <= 8; width *= 2)
        for (size_t size = 0; size <= 20; size++) {
            const size_t coded_size = encode(size, width);
            if (coded_size)
                assert_comes_back(coded_size, size);
            else
                assert_true(size < width);
        }
}

static void a_full_chunk_of_bytes_comes_back(void **state)
{
    (void)state;
    fill_noise(data, sizeof data, 9);
    const size_t coded_size = encode(sizeof data, 1);
    assert_in_range(coded_size, 1, sizeof coded);
    assert_comes_back(coded_size, sizeof data);
}

/* Weights of a network whose layers were rounded to 16 steps and are kept as floats: binomial numbers of 15 coins.
 *
 * Their entropy is 2.99992 bits an element of 32:
 *   python3 -c "from math import *; p = [comb(15, k) / 2**15 for k in range(16)]; print(-sum(x * log2(x) for x in p))"
 */
#define ENTROPY_BITS 2.99992

static void fill_rounded_weights(void)
{
    uint64_t seed = 11;

    for (size_t i = 0; i < ELEMENTS; i++) {
        const float weight = (float)(__builtin_popcountll(random_next(&seed) >> 49) - 7) * 0.0137f;
        memcpy(data + 4 * i, &weight, 4);
    }
}

static void rounded_weights_take_their_entropy(void **state)
{
    (void)state;
    fill_rounded_weights();
    const size_t coded_size = encode(4 * ELEMENTS, 4);
    assert_in_range(coded_size, 1, (size_t)(ELEMENTS * ENTROPY_BITS / 8 * 1.01) + 400);
    assert_comes_back(coded_size, 4 * ELEMENTS);
}

static void special_floats_keep_every_bit(void **state)
{
    /* NaNs with payloads, infinities, both zeros, denormals */
    static const uint64_t SPECIAL[] = {0x7ff8000000012345,
                                       0xfff8000000012345,
                                       0x7ff0000000000001,
                                       0xffffffffffffffff,
                                       0x7ff0000000000000,
                                       0xfff0000000000000,
                                       0,
                                       0x8000000000000000,
                                       0x0000000000000001,
                                       0x8000000000000001,
                                       0x000fffffffffffff,
                                       0x7fc123457f800001,
                                       0xffc12345ff800001,
                                       0x0000000180000000,
                                       0x7c01fc017c00fc00,
                                       0x7fc1ffc17f80ff80};
    (void)state;
    for (size_t i = 0; i < 1000; i++)
        memcpy(data + 8 * i, &SPECIAL[i * i % 16], 8);
    for (unsigned width = 1; width <= 8; width *= 2)
        assert_comes_back(encode(8000, width), 8000);
}

/* ---- The format, by bytes put together by hand from docs/format.md ---- */

static const unsigned char BY_HAND[] = {9, 4, 2, 0, 0, 0x80, 0xbf, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0x12, 0x01, 0x77};

static void a_chunk_written_by_hand_is_read(void **state)
{
    /* colors -1, 0, 1; indexes 2 0 1 0 | 1; a tail of one byte */
    static const unsigned char FLOATS[] = {0, 0, 0x80, 0x3f, 0,    0, 0x80, 0xbf, 0, 0,   0,
                                           0, 0, 0,    0x80, 0xbf, 0, 0,    0,    0, 0x77};
    (void)state;
    assert_int_equal(codec_decode(back, sizeof FLOATS, c, BY_HAND, sizeof BY_HAND, NULL, NULL), 0);
    assert_memory_equal(back, FLOATS, sizeof FLOATS);
}

static void what_contradicts_the_format_is_damage(void **state)
{
    unsigned char bytes[sizeof BY_HAND + 1] = {0};
    (void)state;
    for (size_t n = 0; n < sizeof BY_HAND; n++)
        assert_int_equal(codec_decode(back, 21, c, BY_HAND, n, NULL, NULL), CKPT_EDATA);
    memcpy(bytes, BY_HAND, sizeof BY_HAND);
    assert_int_equal(codec_decode(back, 21, c, bytes, sizeof bytes, NULL, NULL), CKPT_EDATA);
    assert_int_equal(codec_decode(back, 20, c, bytes, sizeof BY_HAND, NULL, NULL), CKPT_EDATA);
    bytes[16] = 0x1f; /* index 3 of a palette of three */
    assert_int_equal(codec_decode(back, 21, c, bytes, sizeof BY_HAND, NULL, NULL), CKPT_EDATA);
    bytes[16] = 0x12;
    bytes[1] = 3; /* the width */
    assert_int_equal(codec_decode(back, 21, c, bytes, sizeof BY_HAND, NULL, NULL), CKPT_EDATA);
}

static void a_flipped_bit_gives_damage_or_other_bytes_and_nothing_worse(void **state)
{
    (void)state;
    fill_colors(1000, 4, 20, 5);
    const size_t coded_size = encode(4000, 4);
    for (size_t bit = 8; bit < 8 * coded_size; bit++) {
        coded[bit / 8] ^= (unsigned char)(1u << bit % 8);
        const int rc = codec_decode(back, 4000, c, coded, coded_size, NULL, NULL);
        assert_true(rc == 0 || rc == CKPT_EDATA);
        coded[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_comes_back(coded_size, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_colors_up_to_256_comes_back),
        cmocka_unit_test(one_color_more_is_for_other_modes),
        cmocka_unit_test(few_elements_and_none_come_back_or_are_for_other_modes),
        cmocka_unit_test(a_full_chunk_of_bytes_comes_back),
        cmocka_unit_test(rounded_weights_take_their_entropy),
        cmocka_unit_test(special_floats_keep_every_bit),
        cmocka_unit_test(a_chunk_written_by_hand_is_read),
        cmocka_unit_test(what_contradicts_the_format_is_damage),
        cmocka_unit_test(a_flipped_bit_gives_damage_or_other_bytes_and_nothing_worse),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
