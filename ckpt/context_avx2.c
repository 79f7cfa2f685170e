/* The context kernel for x86 machines with AVX2. */
#include "context.h"

#include "cpu.h"

#if defined(__x86_64__)

#define CONTEXT_TARGET __attribute__((target("avx2,bmi2")))
#include "context_block.h"

static const context_kernel KERNEL = {.name = "avx2",
                                      .numbers = kernel_numbers,
                                      .elements = kernel_elements,
                                      .places = kernel_places,
                                      .sums = kernel_sums,
                                      .growths = kernel_growths,
                                      .grow = kernel_grow,
                                      .predict = kernel_predict,
                                      .approach = kernel_approach,
                                      .values = kernel_values,
                                      .join = kernel_join};

const context_kernel *context_kernel_avx2(void)
{
    return cpu_has(CPU_AVX2) ? &KERNEL : NULL;
}

#else

const context_kernel *context_kernel_avx2(void)
{
    return NULL;
}

#endif
