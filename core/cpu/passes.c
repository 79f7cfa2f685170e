#include "passes.h"

#include "cpu.h"

#include <string.h>

const pass_table *passes_best(const char *isa)
{
#if defined(__x86_64__)
    const bool wide = !isa[0] || strncmp(isa, "avx512", strlen("avx512")) == 0;
    const bool middle = wide || strncmp(isa, "avx2", strlen("avx2")) == 0;

    if (wide && cpu_has(CPU_AVX512))
        return &PASSES_AVX512;
    if (middle && cpu_has(CPU_AVX2))
        return &PASSES_AVX2;
#else
    (void)isa;
#endif
    return &PASSES_SCALAR;
}
