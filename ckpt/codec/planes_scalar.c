/* The plane kernel of every machine. */
#define PLANES_TARGET
#include "planes_block.h"

static void block_cut(unsigned char *const plane[PLANES_WIDTH_MAX], const block *b, unsigned width)
{
    for (unsigned p = 0; p < width; p++)
        for (size_t i = 0; i < BLOCK_ELEMENTS; i++)
            plane[p][i] = b->bytes[i * width + p];
}

static void block_join(block *b, const unsigned char *const plane[PLANES_WIDTH_MAX], unsigned width)
{
    for (unsigned p = 0; p < width; p++)
        for (size_t i = 0; i < BLOCK_ELEMENTS; i++)
            b->bytes[i * width + p] = plane[p][i];
}

const plane_kernel PLANE_KERNEL_SCALAR = {.name = "scalar", .split = kernel_split, .merge = kernel_merge};
