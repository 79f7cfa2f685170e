#include "cpu.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[CPU_FEATURES] = {"avx2", "avx512", "avx512_vbmi", "avx512_bf16", "sha"};

#define BIT(feature) (1u << (feature))

#if defined(__x86_64__)

#include <cpuid.h>

/* Bits of CPUID, from the Intel 64 manual, volume 2A, "CPUID". */
#define LEAF1_ECX_FMA          (1u << 12)
#define LEAF1_ECX_OSXSAVE      (1u << 27)
#define LEAF7_EBX_AVX2         (1u << 5)
#define LEAF7_EBX_BMI2         (1u << 8)
#define LEAF7_EBX_AVX512F      (1u << 16)
#define LEAF7_EBX_AVX512DQ     (1u << 17)
#define LEAF7_EBX_SHA          (1u << 29)
#define LEAF7_EBX_AVX512BW     (1u << 30)
#define LEAF7_EBX_AVX512VL     (1u << 31)
#define LEAF7_ECX_AVX512VBMI   (1u << 1)
#define LEAF7_1_EAX_AVX512BF16 (1u << 5)
/* Bits of XCR0: which registers the system saves when it switches threads. */
#define XCR0_YMM 0x06u
#define XCR0_ZMM 0xE6u

static bool all_of(uint32_t value, uint32_t bits)
{
    return (value & bits) == bits;
}

static uint32_t xcr0_read(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static unsigned features_detect(void)
{
    uint32_t eax, ebx, ecx, edx, leaf7_eax_max, leaf1_ecx;
    unsigned found = 0;

    if (!__get_cpuid(1, &eax, &ebx, &leaf1_ecx, &edx))
        return 0;
    if (!__get_cpuid_count(7, 0, &leaf7_eax_max, &ebx, &ecx, &edx))
        return 0;
    if (all_of(ebx, LEAF7_EBX_SHA))
        found |= BIT(CPU_SHA);

    const uint32_t xcr0 = all_of(leaf1_ecx, LEAF1_ECX_OSXSAVE) ? xcr0_read() : 0;
    if (!all_of(xcr0, XCR0_YMM) || !all_of(ebx, LEAF7_EBX_AVX2 | LEAF7_EBX_BMI2) || !all_of(leaf1_ecx, LEAF1_ECX_FMA))
        return found;
    found |= BIT(CPU_AVX2);

    const uint32_t avx512 = LEAF7_EBX_AVX512F | LEAF7_EBX_AVX512BW | LEAF7_EBX_AVX512DQ | LEAF7_EBX_AVX512VL;
    if (!all_of(xcr0, XCR0_ZMM) || !all_of(ebx, avx512))
        return found;
    found |= BIT(CPU_AVX512);
    if (all_of(ecx, LEAF7_ECX_AVX512VBMI))
        found |= BIT(CPU_AVX512_VBMI);
    if (leaf7_eax_max >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && all_of(eax, LEAF7_1_EAX_AVX512BF16))
        found |= BIT(CPU_AVX512_BF16);
    return found;
}

#define BRAND_SIZE 49
static void brand_read(char brand[BRAND_SIZE])
{
    uint32_t words[12] = {0}, eax, ebx, ecx, edx;

    if (__get_cpuid(0x80000000u, &eax, &ebx, &ecx, &edx) && eax >= 0x80000004u)
        for (uint32_t i = 0; i < 3; i++)
            __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    memcpy(brand, words, sizeof words);
    brand[sizeof words] = '\0';
    for (size_t size = strlen(brand); size > 0 && brand[size - 1] == ' '; size--)
        brand[size - 1] = '\0';
    if (!brand[0])
        snprintf(brand, BRAND_SIZE, "x86_64");
}

#else

static unsigned features_detect(void)
{
    return 0;
}

#define BRAND_SIZE 49
static void brand_read(char brand[BRAND_SIZE])
{
#if defined(__aarch64__)
    snprintf(brand, BRAND_SIZE, "aarch64");
#else
    snprintf(brand, BRAND_SIZE, "CPU");
#endif
}

#endif

/* What CKPT_CPU leaves; a word that it does not know leaves all. */
static unsigned features_allowed(void)
{
    const char *const limit = getenv("CKPT_CPU");
    if (!limit)
        return ~0u;
    if (strcmp(limit, "scalar") == 0)
        return 0;
    if (strcmp(limit, "avx2") == 0)
        return BIT(CPU_AVX2) | BIT(CPU_SHA);
    if (strcmp(limit, "avx512") == 0)
        return BIT(CPU_AVX2) | BIT(CPU_SHA) | BIT(CPU_AVX512);
    return ~0u;
}

bool cpu_has(cpu_feature feature)
{
    return (features_detect() & features_allowed() & BIT(feature)) != 0;
}

void cpu_describe(char out[CPU_TEXT_SIZE])
{
    char brand[BRAND_SIZE];
    const unsigned features = features_detect() & features_allowed();

    brand_read(brand);
    size_t size = (size_t)snprintf(out, CPU_TEXT_SIZE, "%s:", brand);
    for (int i = 0; i < CPU_FEATURES; i++)
        if (features & BIT(i))
            size += (size_t)snprintf(out + size, CPU_TEXT_SIZE - size, " %s", NAMES[i]);
    if (!features)
        snprintf(out + size, CPU_TEXT_SIZE - size, " scalar");
}
