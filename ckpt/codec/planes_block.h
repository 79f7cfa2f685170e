/* The part of a plane kernel that is the same source for every instruction set: elements <-> numbers, block by block.
 *
 * Included once by each kernel's file, which first defines
 *   PLANES_TARGET   attributes of every function, such as __attribute__((target("avx2")))
 * and provides, for a block of BLOCK_ELEMENTS elements of `width` bytes each,
 *   block_cut(plane, block, width)    element bytes -> plane[p][0 .. BLOCK_ELEMENTS)
 *   block_join(block, plane, width)   and back
 *
 * Elements are worked on in vectors of the compiler, which become whatever the target has. */
#ifndef CKPT_PLANES_BLOCK_H
#define CKPT_PLANES_BLOCK_H

#include "planes.h"

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "byte planes are cut from little-endian elements"
#endif

enum { BLOCK_ELEMENTS = 256, BLOCK_BYTES = BLOCK_ELEMENTS * PLANES_WIDTH_MAX, VECTOR_BYTES = 32 };

typedef uint8_t vector_8 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t vector_16 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t vector_32 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t vector_64 __attribute__((vector_size(VECTOR_BYTES)));

typedef union block {
    unsigned char bytes[BLOCK_BYTES];
    vector_8 v8[BLOCK_BYTES / VECTOR_BYTES];
    vector_16 v16[BLOCK_BYTES / VECTOR_BYTES];
    vector_32 v32[BLOCK_BYTES / VECTOR_BYTES];
    vector_64 v64[BLOCK_BYTES / VECTOR_BYTES];
} block;

static PLANES_TARGET void block_cut(unsigned char *const plane[PLANES_WIDTH_MAX], const block *b, unsigned width);
static PLANES_TARGET void block_join(block *b, const unsigned char *const plane[PLANES_WIDTH_MAX], unsigned width);

/* numbers_N: b := rotate_left(number(b)); elements_N: the way back. Masks are all ones or zero, so a float whose sign
 * bit is set is complemented and any other gets its top bit flipped. `0 - x` negates unsigned vectors. */
#define DEFINE_NUMBERS(N)                                                                                              \
    static PLANES_TARGET void numbers_##N(block *b, const block *reference, const plane_layout *layout)                \
    {                                                                                                                  \
        const size_t count = (BLOCK_ELEMENTS * (N / 8)) / VECTOR_BYTES;                                                \
        const vector_##N zero = {0}, top = zero + (uint##N##_t)((uint##N##_t)1 << (N - 1));                            \
                                                                                                                       \
        if (layout->delta == PLANE_DELTA_XOR)                                                                          \
            for (size_t i = 0; i < count; i++)                                                                         \
                b->v##N[i] ^= reference->v##N[i];                                                                      \
        if (layout->delta == PLANE_DELTA_SUB)                                                                          \
            for (size_t i = 0; i < count; i++) {                                                                       \
                vector_##N x = b->v##N[i], y = reference->v##N[i];                                                     \
                if (layout->ordered) {                                                                                 \
                    x ^= (zero - (x >> (N - 1))) | top;                                                                \
                    y ^= (zero - (y >> (N - 1))) | top;                                                                \
                }                                                                                                      \
                x -= y;                                                                                                \
                b->v##N[i] = (x + x) ^ (zero - (x >> (N - 1)));                                                        \
            }                                                                                                          \
        if (layout->rotate)                                                                                            \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const vector_##N x = b->v##N[i];                                                                       \
                b->v##N[i] = (x << (uint##N##_t)layout->rotate) | (x >> (uint##N##_t)(N - layout->rotate));            \
            }                                                                                                          \
    }                                                                                                                  \
                                                                                                                       \
    static PLANES_TARGET void elements_##N(block *b, const block *reference, const plane_layout *layout)               \
    {                                                                                                                  \
        const size_t count = (BLOCK_ELEMENTS * (N / 8)) / VECTOR_BYTES;                                                \
        const vector_##N zero = {0}, one = zero + 1, top = zero + (uint##N##_t)((uint##N##_t)1 << (N - 1));            \
                                                                                                                       \
        if (layout->rotate)                                                                                            \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const vector_##N x = b->v##N[i];                                                                       \
                b->v##N[i] = (x >> (uint##N##_t)layout->rotate) | (x << (uint##N##_t)(N - layout->rotate));            \
            }                                                                                                          \
        if (layout->delta == PLANE_DELTA_XOR)                                                                          \
            for (size_t i = 0; i < count; i++)                                                                         \
                b->v##N[i] ^= reference->v##N[i];                                                                      \
        if (layout->delta == PLANE_DELTA_SUB)                                                                          \
            for (size_t i = 0; i < count; i++) {                                                                       \
                vector_##N x = b->v##N[i], y = reference->v##N[i];                                                     \
                x = (x >> 1) ^ (zero - (x & one));                                                                     \
                if (layout->ordered)                                                                                   \
                    y ^= (zero - (y >> (N - 1))) | top;                                                                \
                x += y;                                                                                                \
                if (layout->ordered)                                                                                   \
                    x ^= ((x >> (N - 1)) - one) | top;                                                                 \
                b->v##N[i] = x;                                                                                        \
            }                                                                                                          \
    }

DEFINE_NUMBERS(8)
DEFINE_NUMBERS(16)
DEFINE_NUMBERS(32)
DEFINE_NUMBERS(64)

static PLANES_TARGET void block_to_numbers(block *b, const block *reference, const plane_layout *layout)
{
    switch (layout->width) {
    case 1:
        numbers_8(b, reference, layout);
        break;
    case 2:
        numbers_16(b, reference, layout);
        break;
    case 4:
        numbers_32(b, reference, layout);
        break;
    default:
        numbers_64(b, reference, layout);
    }
}

static PLANES_TARGET void block_to_elements(block *b, const block *reference, const plane_layout *layout)
{
    switch (layout->width) {
    case 1:
        elements_8(b, reference, layout);
        break;
    case 2:
        elements_16(b, reference, layout);
        break;
    case 4:
        elements_32(b, reference, layout);
        break;
    default:
        elements_64(b, reference, layout);
    }
}

/* Elements [first, first + n) of an array; the rest of a block that is not full is zeros. */
static PLANES_TARGET void block_load(block *b, const void *array, size_t first, size_t n, unsigned width)
{
    if (n < BLOCK_ELEMENTS)
        memset(b, 0, sizeof *b);
    memcpy(b->bytes, (const unsigned char *)array + first * width, n * width);
}

static PLANES_TARGET void kernel_split(unsigned char *planes, const plane_layout *layout, const void *src,
                                       const void *reference, size_t count)
{
    const unsigned width = layout->width;
    unsigned char last[BLOCK_BYTES], *plane[PLANES_WIDTH_MAX] = {0};
    block b, r;

    for (size_t first = 0; first < count; first += BLOCK_ELEMENTS) {
        const size_t n = count - first < BLOCK_ELEMENTS ? count - first : BLOCK_ELEMENTS;
        const bool full = n == BLOCK_ELEMENTS;

        for (unsigned p = 0; p < width; p++)
            plane[p] = full ? planes + p * count + first : last + p * BLOCK_ELEMENTS;
        block_load(&b, src, first, n, width);
        if (layout->delta != PLANE_DELTA_NONE)
            block_load(&r, reference, first, n, width);
        block_to_numbers(&b, &r, layout);
        block_cut(plane, &b, width);
        for (unsigned p = 0; !full && p < width; p++)
            memcpy(planes + p * count + first, plane[p], n);
    }
}

static PLANES_TARGET void kernel_merge(void *dst, const plane_layout *layout,
                                       const unsigned char *const plane[PLANES_WIDTH_MAX], const void *reference,
                                       size_t count)
{
    const unsigned width = layout->width;
    unsigned char last[BLOCK_BYTES] = {0};
    const unsigned char *at[PLANES_WIDTH_MAX] = {0};
    block b, r;

    for (size_t first = 0; first < count; first += BLOCK_ELEMENTS) {
        const size_t n = count - first < BLOCK_ELEMENTS ? count - first : BLOCK_ELEMENTS;

        for (unsigned p = 0; p < width; p++) {
            at[p] = plane[p] + first;
            if (n < BLOCK_ELEMENTS)
                at[p] = memcpy(last + p * BLOCK_ELEMENTS, at[p], n);
        }
        block_join(&b, at, width);
        if (layout->delta != PLANE_DELTA_NONE)
            block_load(&r, reference, first, n, width);
        block_to_elements(&b, &r, layout);
        memcpy((unsigned char *)dst + first * width, b.bytes, n * width);
    }
}

#endif
