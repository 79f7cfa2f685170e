#include "cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Does the kernel list all of these flags of the CPU? It knows CPUID and which registers it saves. */
static bool kernel_lists(const char *const *flags)
{
    char line[8192] = "";
    FILE *const file = fopen("/proc/cpuinfo", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && strncmp(line, "flags", 5) != 0)
        ;
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    for (; *flags; flags++) {
        char word[32];
        bool found = false;
        snprintf(word, sizeof word, " %s", *flags);
        for (const char *at = line; (at = strstr(at, word)) && !found; at++)
            found = at[strlen(word)] == ' ' || at[strlen(word)] == '\0';
        if (!found)
            return false;
    }
    return strncmp(line, "flags", 5) == 0;
}

static void features_are_those_that_the_kernel_lists(void **state)
{
    (void)state;
    unsetenv("CKPT_CPU");
    assert_int_equal(cpu_has(CPU_AVX2), kernel_lists((const char *const[]){"avx2", "bmi2", "fma", NULL}));
    assert_int_equal(cpu_has(CPU_AVX512),
                     kernel_lists((const char *const[]){"avx512f", "avx512bw", "avx512dq", "avx512vl", NULL}));
    assert_int_equal(cpu_has(CPU_AVX512_VBMI), kernel_lists((const char *const[]){"avx512vbmi", NULL}));
    assert_int_equal(cpu_has(CPU_AVX512_BF16), kernel_lists((const char *const[]){"avx512_bf16", NULL}));
    assert_int_equal(cpu_has(CPU_SHA), kernel_lists((const char *const[]){"sha_ni", NULL}));
}

static void scalar_switches_everything_off(void **state)
{
    (void)state;
    setenv("CKPT_CPU", "scalar", 1);
    for (int i = 0; i < CPU_FEATURES; i++)
        assert_false(cpu_has((cpu_feature)i));
    unsetenv("CKPT_CPU");
}

static void avx2_leaves_avx2_and_nothing_newer(void **state)
{
    (void)state;
    unsetenv("CKPT_CPU");
    const bool there = cpu_has(CPU_AVX2);
    setenv("CKPT_CPU", "avx2", 1);
    assert_int_equal(cpu_has(CPU_AVX2), there);
    assert_false(cpu_has(CPU_AVX512));
    assert_false(cpu_has(CPU_AVX512_VBMI));
    assert_false(cpu_has(CPU_AVX512_BF16));
    unsetenv("CKPT_CPU");
}

static void avx512_leaves_its_base(void **state)
{
    (void)state;
    unsetenv("CKPT_CPU");
    const bool there = cpu_has(CPU_AVX512);
    setenv("CKPT_CPU", "avx512", 1);
    assert_int_equal(cpu_has(CPU_AVX512), there);
    assert_false(cpu_has(CPU_AVX512_VBMI));
    unsetenv("CKPT_CPU");
}

static void description_is_one_line_and_follows_the_limit(void **state)
{
    (void)state;
    char text[CPU_TEXT_SIZE];
    unsetenv("CKPT_CPU");
    cpu_describe(text);
    print_message("%s\n", text); /* which paths the other tests ran on */
    assert_null(strchr(text, '\n'));
    setenv("CKPT_CPU", "scalar", 1);
    cpu_describe(text);
    assert_string_equal(text + strlen(text) - strlen(": scalar"), ": scalar");
    unsetenv("CKPT_CPU");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_that_the_kernel_lists),
        cmocka_unit_test(scalar_switches_everything_off),
        cmocka_unit_test(avx2_leaves_avx2_and_nothing_newer),
        cmocka_unit_test(avx512_leaves_its_base),
        cmocka_unit_test(description_is_one_line_and_follows_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
