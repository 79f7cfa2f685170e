/* The context kernel of every machine. */
#define CONTEXT_TARGET
#include "context_block.h"

static size_t sums_of_vectors(uint8_t *value, const uint8_t *place, int row, const int8_t *column,
                              const context_sums *sums, size_t count)
{
    (void)value;
    (void)place;
    (void)row;
    (void)column;
    (void)sums;
    (void)count;
    return 0;
}

const context_kernel CONTEXT_KERNEL_SCALAR = {
    .name = "scalar", CONTEXT_KERNEL_SHARED, .translate = kernel_translate, .join = kernel_join};
