#include "planes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT_MAX = 1100, BYTES_MAX = COUNT_MAX * PLANES_WIDTH_MAX };

static unsigned char src[BYTES_MAX], reference[BYTES_MAX], planes[BYTES_MAX], expected[BYTES_MAX], back[BYTES_MAX];

/* xorshift64; every third byte is 0x00, 0xff, 0x80 or 0x7f, so that signs, infinities and carries occur. */
static void fill(unsigned char *dst, size_t size, uint64_t seed)
{
    static const unsigned char EDGES[4] = {0x00, 0xff, 0x80, 0x7f};
    for (size_t i = 0; i < size; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        dst[i] = seed % 3 == 0 ? EDGES[seed >> 8 & 3] : (unsigned char)(seed >> 32);
    }
}

/* ---- The definition of planes.h, one element at a time and with as little cleverness as can be ---- */

static uint64_t slow_mask(unsigned width)
{
    return width == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * width) - 1;
}

static uint64_t slow_load(const unsigned char *bytes, unsigned width)
{
    uint64_t x = 0;
    for (unsigned p = 0; p < width; p++)
        x += (uint64_t)bytes[p] << 8 * p;
    return x;
}

static uint64_t slow_ordered(uint64_t x, unsigned width)
{
    const uint64_t half = (uint64_t)1 << (8 * width - 1);
    return x >= half ? slow_mask(width) - x : x + half;
}

static uint64_t slow_number(uint64_t x, uint64_t y, const plane_layout *layout)
{
    const uint64_t mask = slow_mask(layout->width), half = (uint64_t)1 << (8 * layout->width - 1);
    uint64_t d = 0;

    if (layout->delta == PLANE_DELTA_NONE)
        return x;
    if (layout->delta == PLANE_DELTA_XOR)
        return x ^ y;
    if (layout->ordered)
        d = slow_ordered(x, layout->width) - slow_ordered(y, layout->width);
    else
        d = x - y;
    d &= mask;
    return d < half ? 2 * d : 2 * (mask - d) + 1; /* d, or -1 - d counted from the other end */
}

static void slow_split(unsigned char *out, const plane_layout *layout, size_t count)
{
    const unsigned width = layout->width, bits = 8 * width;

    for (size_t i = 0; i < count; i++) {
        uint64_t x = slow_number(slow_load(src + i * width, width), slow_load(reference + i * width, width), layout);
        for (unsigned turn = 0; turn < layout->rotate; turn++)
            x = (x * 2 + (x >> (bits - 1))) & slow_mask(width);
        for (unsigned p = 0; p < width; p++)
            out[p * count + i] = (unsigned char)(x >> 8 * p);
    }
}

/* ---- Every layout and awkward count, for one kernel ---- */

static void assert_kernel(const plane_kernel *kernel, const plane_layout *layout, size_t count)
{
    const size_t size = count * layout->width;
    const unsigned char *plane[PLANES_WIDTH_MAX] = {0};

    memset(planes, 0xa5, sizeof planes);
    memset(back, 0xa5, sizeof back);
    slow_split(expected, layout, count);
    kernel->split(planes, layout, src, reference, count);
    assert_memory_equal(planes, expected, size);
    for (size_t i = size; i < sizeof planes; i++)
        assert_int_equal(planes[i], 0xa5);

    for (unsigned p = 0; p < layout->width; p++)
        plane[p] = planes + p * count;
    kernel->merge(back, layout, plane, reference, count);
    assert_memory_equal(back, src, size);
    for (size_t i = size; i < sizeof back; i++)
        assert_int_equal(back[i], 0xa5);
}

static void assert_all_layouts(const plane_kernel *kernel)
{
    static const size_t COUNTS[] = {0, 1, 2, 31, 32, 33, 255, 256, 257, 512, COUNT_MAX};

    print_message("kernel %s\n", kernel->name);
    fill(src, sizeof src, 1);
    fill(reference, sizeof reference, 2);
    for (unsigned width = 1; width <= PLANES_WIDTH_MAX; width *= 2)
        for (unsigned rotate = 0; rotate < 8 * width; rotate += rotate < 9 ? 1 : 5)
            for (unsigned delta = PLANE_DELTA_NONE; delta <= PLANE_DELTA_SUB; delta++)
                for (unsigned ordered = 0; ordered <= (delta == PLANE_DELTA_SUB); ordered++)
                    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++)
                        assert_kernel(
                            kernel,
                            &(plane_layout){
                                .delta = (plane_delta)delta, .width = width, .rotate = rotate, .ordered = ordered},
                            COUNTS[i]);
}

static void scalar_planes_are_those_of_the_definition(void **state)
{
    (void)state;
    assert_all_layouts(&PLANE_KERNEL_SCALAR);
}

static void avx2_planes_are_those_of_the_definition(void **state)
{
    (void)state;
    if (!plane_kernel_avx2()) {
        print_message("no AVX2 here\n");
        skip();
    }
    assert_all_layouts(plane_kernel_avx2());
}

static void rotation_by_one_makes_the_exponent_of_a_float32_a_whole_byte(void **state)
{
    static const float VALUES[] = {1.0f, -2.0f, 0.15625f}; /* 3f800000 c0000000 3e200000 */
    static const unsigned char PLANES[] = {0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x7f, 0x80, 0x7c};
    (void)state;
    PLANE_KERNEL_SCALAR.split(planes, &(plane_layout){.width = 4, .rotate = 1}, VALUES, NULL, 3);
    assert_memory_equal(planes, PLANES, sizeof PLANES);
}

static void neighbouring_floats_differ_by_one_across_zero_and_powers_of_two(void **state)
{
    static const uint32_t LOWER[] = {0x80000000 /* -0 */, 0x3fffffff, 0x80000001, 0x7f7fffff};
    static const uint32_t UPPER[] = {0x00000000 /* +0 */, 0x40000000, 0x80000000, 0x7f800000 /* infinity */};
    static const unsigned char UP[16] = {2, 2, 2, 2}, DOWN[16] = {1, 1, 1, 1};
    const plane_layout layout = {.delta = PLANE_DELTA_SUB, .width = 4, .ordered = true};
    (void)state;
    PLANE_KERNEL_SCALAR.split(planes, &layout, UPPER, LOWER, 4);
    assert_memory_equal(planes, UP, sizeof UP);
    PLANE_KERNEL_SCALAR.split(planes, &layout, LOWER, UPPER, 4);
    assert_memory_equal(planes, DOWN, sizeof DOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_planes_are_those_of_the_definition),
        cmocka_unit_test(avx2_planes_are_those_of_the_definition),
        cmocka_unit_test(rotation_by_one_makes_the_exponent_of_a_float32_a_whole_byte),
        cmocka_unit_test(neighbouring_floats_differ_by_one_across_zero_and_powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
