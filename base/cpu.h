/* What the CPU can do, found at run time; and how many of them we may use is pool_threads_default.
 *
 * The environment variable CKPT_CPU keeps tests and doubters from the newer instructions: `scalar`, `avx2` or `avx512`
 * allow what that word includes. Nothing is cached: a job asks once and keeps the answer. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>

typedef enum cpu_feature {
    CPU_AVX2,   /* with BMI2 and FMA, which all such CPUs have */
    CPU_AVX512, /* F, BW, DQ and VL */
    CPU_AVX512_VBMI,
    CPU_AVX512_BF16,
    CPU_SHA, /* OpenSSL decides about it for itself; here to be shown */
    CPU_FEATURES
} cpu_feature;

/* Has the CPU it, does the system save its registers, and does CKPT_CPU allow it? Always false but on x86_64. */
bool cpu_has(cpu_feature feature);

#define CPU_TEXT_SIZE 128
/* One line for people: "AMD EPYC 9B14: avx2 avx512 avx512_vbmi avx512_bf16 sha". */
void cpu_describe(char out[CPU_TEXT_SIZE]);

#endif
