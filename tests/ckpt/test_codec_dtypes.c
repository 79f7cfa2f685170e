/* What elements of each type take when they are saved, beside what NumPy says that they may (expect_entropy.py). */
#include "codec_internal.h"
#include "weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 1 << 15, ELEMENT_MAX = 8, WINDOW = 32 << 10 };

/* Bits of an element, as printed by expect_entropy.py. */
#define BITS_F32  26.5070
#define BITS_BF16 10.5070
#define BITS_F16  13.5055
#define BITS_F64  54.7098
#define BITS_I8   6.8877
#define BITS_F8   6.4137
#define BITS_I64  15.6023
/* Bits by which all is more than these, in all: what numbers look like has to be told too. */
#define SIDE_BYTES 800

static float weights[COUNT];
static unsigned char data[COUNT * ELEMENT_MAX], back[COUNT * ELEMENT_MAX], coded[CODEC_CHUNK_CODED_MAX];
static codec *c;

static int setup(void **state)
{
    (void)state;
    fill_weights(weights, sizeof weights, 21);
    return codec_new(&c, NULL) ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    codec_free(c);
    return 0;
}

static uint32_t weight_bits(size_t i)
{
    uint32_t bits;

    memcpy(&bits, &weights[i], sizeof bits);
    return bits;
}

/* Coded bytes of the first `count` elements, with the plan that samples of them choose. */
static size_t coded_bytes(ckpt_dtype dtype, size_t count)
{
    const size_t size = count * ckpt_dtype_size(dtype);
    const codec_sample sample = {.size = size < WINDOW ? size : WINDOW, .data = data};
    codec_plan plan;
    int reference = 0;
    double estimate = 0;
    size_t coded_size = 0;

    assert_int_equal(codec_plan_choose(&plan, &reference, &estimate, c, dtype, &sample, 1, 0, NULL), 0);
    assert_int_equal(codec_encode(&coded_size, coded, c, &plan, data, size, NULL, NULL), 0);
    assert_int_equal(codec_decode(back, size, c, coded, coded_size, NULL, NULL), 0);
    assert_memory_equal(back, data, size);
    return coded_size;
}

static void assert_bits(ckpt_dtype dtype, double bits)
{
    const size_t bytes = coded_bytes(dtype, COUNT);

    print_message("%s: %.3f bits, entropy %.3f\n", ckpt_dtype_name(dtype), (double)bytes * 8 / COUNT, bits);
    assert_in_range(bytes, 1, (size_t)(bits * COUNT / 8 * 1.01) + SIDE_BYTES);
}

static void f32_takes_its_exponents_and_the_rest_as_it_is(void **state)
{
    (void)state;
    memcpy(data, weights, sizeof weights);
    assert_bits(CKPT_F32, BITS_F32);
}

static void bf16_takes_its_exponents_and_the_rest_as_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const uint16_t bf16 = (uint16_t)(weight_bits(i) >> 16);
        memcpy(data + 2 * i, &bf16, 2);
    }
    assert_bits(CKPT_BF16, BITS_BF16);
}

/* From f32 by cutting, what is too small to 0. */
static uint16_t f16_of(uint32_t f32)
{
    const uint32_t exponent = f32 >> 23 & 255;

    return (uint16_t)(f32 >> 31 << 15 | (exponent > 112 ? (exponent - 112) << 10 | (f32 >> 13 & 0x3ff) : 0));
}

static void f16_takes_its_exponents_and_the_rest_as_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const uint16_t f16 = f16_of(weight_bits(i));
        memcpy(data + 2 * i, &f16, 2);
    }
    assert_bits(CKPT_F16, BITS_F16);
}

static void f64_takes_its_exponents_and_the_rest_as_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const double f64 = copysign(sqrt(fabs((double)weights[i])), (double)weights[i]);
        memcpy(data + 8 * i, &f64, 8);
    }
    assert_bits(CKPT_F64, BITS_F64);
}

static int8_t quantised(size_t i)
{
    return (int8_t)rintf(weights[i] * 500);
}

static void i8_and_u8_take_their_entropy(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        data[i] = (unsigned char)quantised(i);
    assert_bits(CKPT_I8, BITS_I8);
    for (size_t i = 0; i < COUNT; i++)
        data[i] = (unsigned char)(quantised(i) + 128); /* the zero point of others */
    assert_bits(CKPT_U8, BITS_I8);
}

static void f8_takes_its_entropy(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const uint32_t f32 = weight_bits(i);
        const int exponent = (int)(f32 >> 23 & 255) - 112;
        const uint32_t narrow = exponent < 0 ? 0 : exponent > 15 ? 15 : (uint32_t)exponent;
        data[i] = (unsigned char)(f32 >> 31 << 7 | narrow << 3 | (f32 >> 20 & 7));
    }
    assert_bits(CKPT_F8_E4M3, BITS_F8);
    assert_bits(CKPT_F8_E5M2, BITS_F8);
}

static void i64_below_50000_takes_two_bytes_at_most(void **state)
{
    uint64_t seed = 21;
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const uint64_t row = random_next(&seed) % 50000;
        memcpy(data + 8 * i, &row, 8);
    }
    assert_bits(CKPT_I64, BITS_I64);
}

/* 61 batch norms that have all seen 3910 batches; then each has seen another number. */
static void counters_take_next_to_nothing(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 61; i++)
        memcpy(data + 8 * i, &(uint64_t){3910}, 8);
    assert_in_range(coded_bytes(CKPT_I64, 61), 1, 9);
    for (uint64_t i = 0; i < 61; i++)
        memcpy(data + 8 * i, &(uint64_t){3910 + i % 7}, 8);
    assert_in_range(coded_bytes(CKPT_I64, 61), 1, 61 + 32);
}

static void f32_that_holds_bf16_takes_what_bf16_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const uint32_t f32 = weight_bits(i) & 0xffff0000;
        memcpy(data + 4 * i, &f32, 4);
    }
    assert_bits(CKPT_F32, BITS_BF16);
}

static void f32_that_holds_f16_takes_what_f16_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const uint32_t f32 = (weight_bits(i) >> 23 & 255) > 112 ? weight_bits(i) & 0xffffe000 : 0;
        memcpy(data + 4 * i, &f32, 4);
    }
    assert_bits(CKPT_F32, BITS_F16);
}

static void f64_that_holds_f32_takes_what_f32_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const double f64 = (double)weights[i];
        memcpy(data + 8 * i, &f64, 8);
    }
    assert_bits(CKPT_F64, BITS_F32);
}

/* 180 different numbers, which stand once in the palette. */
static void dequantised_weights_take_what_their_codes_take(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const float f32 = (float)quantised(i) * 0.0021f;
        memcpy(data + 4 * i, &f32, 4);
    }
    assert_bits(CKPT_F32, BITS_I8 + 180.0 * 32 / COUNT);
    assert_int_equal(coded[0], CODEC_PALETTE);
}

/* Every dtype, in whatever mode is chosen: NaNs with payloads, infinities, zeros, denormals, among weights. */
static void special_values_come_back_from_the_chosen_mode(void **state)
{
    static const uint64_t SPECIAL[] = {
        0x7ff8000000012345, 0xfff0000000000001, 0x7ff0000000000000, 0x8000000000000000, 0,
        0x0000000000000001, 0x800fffffffffffff, 0x7fc123457f800001, 0xff80000180000000, 0x7c01fc017c00fc00,
        0x7fc1ffc17f80ff80, 0xffffffffffffffff};
    enum { SPECIALS = sizeof SPECIAL / sizeof *SPECIAL };
    uint64_t seed = 3;
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const double weight = (double)weights[i];
        memcpy(data + 8 * i, i % 3 ? (const void *)&weight : (const void *)&SPECIAL[random_next(&seed) % SPECIALS], 8);
    }
    for (unsigned dtype = 0; dtype <= CKPT_F8_E5M2; dtype++)
        (void)coded_bytes((ckpt_dtype)dtype, 8 * 20000 / ckpt_dtype_size((ckpt_dtype)dtype));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_takes_its_exponents_and_the_rest_as_it_is),
        cmocka_unit_test(bf16_takes_its_exponents_and_the_rest_as_it_is),
        cmocka_unit_test(f16_takes_its_exponents_and_the_rest_as_it_is),
        cmocka_unit_test(f64_takes_its_exponents_and_the_rest_as_it_is),
        cmocka_unit_test(i8_and_u8_take_their_entropy),
        cmocka_unit_test(f8_takes_its_entropy),
        cmocka_unit_test(i64_below_50000_takes_two_bytes_at_most),
        cmocka_unit_test(counters_take_next_to_nothing),
        cmocka_unit_test(f32_that_holds_bf16_takes_what_bf16_takes),
        cmocka_unit_test(f32_that_holds_f16_takes_what_f16_takes),
        cmocka_unit_test(f64_that_holds_f32_takes_what_f32_takes),
        cmocka_unit_test(dequantised_weights_take_what_their_codes_take),
        cmocka_unit_test(special_values_come_back_from_the_chosen_mode),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
