/* What the bits of a training depend on. */
#include "environment.h"

#include "cpu.h"

#include <ckpt/train.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WHY_SIZE 512

static const environment RECORDED = {
    .threads = 2, .isa = "avx512_core", .library = "oneDNN 2.6.3", .cpu = "AMD EPYC 9B14", .version = "0.1.0"};

static void the_same_environment_says_nothing(void **test)
{
    (void)test;
    char why[WHY_SIZE] = "x";
    const environment now = RECORDED;
    assert_true(environment_same(why, sizeof why, &RECORDED, &now));
    assert_string_equal(why, "");
}

static void assert_differs(const environment *now, const char *words)
{
    char why[WHY_SIZE];
    assert_false(environment_same(why, sizeof why, &RECORDED, now));
    assert_string_equal(why, words);
}

static void other_threads_are_told(void **test)
{
    (void)test;
    environment now = RECORDED;
    now.threads = 4;
    assert_differs(&now, "threads 4 instead of 2");
}

static void another_instruction_set_is_told(void **test)
{
    (void)test;
    environment now = RECORDED;
    memcpy(now.isa, "avx2", sizeof "avx2");
    assert_differs(&now, "instruction set avx2 instead of avx512_core");
}

static void another_library_is_told(void **test)
{
    (void)test;
    environment now = RECORDED;
    memcpy(now.library, "oneDNN 3.5.0", sizeof "oneDNN 3.5.0");
    assert_differs(&now, "library oneDNN 3.5.0 instead of oneDNN 2.6.3");
}

static void another_cpu_is_told(void **test)
{
    (void)test;
    environment now = RECORDED;
    memcpy(now.cpu, "other", sizeof "other");
    assert_differs(&now, "CPU other instead of AMD EPYC 9B14");
}

static void another_version_is_told(void **test)
{
    (void)test;
    environment now = RECORDED;
    memcpy(now.version, "0.2.0", sizeof "0.2.0");
    assert_differs(&now, "ckpt 0.2.0 instead of 0.1.0");
}

static void all_that_differs_is_told_in_one_line(void **test)
{
    (void)test;
    environment now = RECORDED;
    now.threads = 1;
    now.isa[0] = '\0';
    assert_differs(&now, "threads 1 instead of 2, instruction set none instead of avx512_core");
}

static void a_line_that_does_not_fit_is_cut_and_still_a_difference(void **test)
{
    (void)test;
    char why[12 + 1];
    environment now = RECORDED;
    now.threads = 4;
    now.version[0] = 'x';
    why[12] = '!';
    assert_false(environment_same(why, 12, &RECORDED, &now));
    assert_string_equal(why, "threads 4 i");
    assert_int_equal(why[12], '!');
}

static void it_is_taken_from_backend_machine_and_program(void **test)
{
    (void)test;
    environment e;
    char cpu[CPU_TEXT_SIZE];
    const backend b = {.threads = 3, .isa = "avx2", .library = "oneDNN 2.6.3"};
    cpu_describe(cpu);
    environment_get(&e, &b);
    assert_int_equal(e.threads, 3);
    assert_string_equal(e.isa, "avx2");
    assert_true(strncmp(e.library, "oneDNN 2.6.3", strlen("oneDNN 2.6.3")) == 0);
    assert_string_equal(e.version, ckpt_train_version());
    assert_true(e.cpu[0] && strncmp(cpu, e.cpu, strlen(e.cpu)) == 0);
    assert_int_equal(cpu[strlen(e.cpu)], ':');
}

#if defined(_CS_GNU_LIBC_VERSION)
/* "glibc 2.36", as `getconf GNU_LIBC_VERSION` prints it. */
static void the_c_library_is_part_of_it(void **test)
{
    (void)test;
    environment e;
    char libc[64], both[128];
    assert_true(confstr(_CS_GNU_LIBC_VERSION, libc, sizeof libc) > 0);
    environment_get(&e, &(backend){.threads = 1});
    assert_string_equal(e.library, libc);
    environment_get(&e, &(backend){.threads = 1, .library = "oneDNN 2.6.3"});
    snprintf(both, sizeof both, "oneDNN 2.6.3, %s", libc);
    assert_string_equal(e.library, both);
}
#endif

static void the_cpu_is_the_same_whatever_instructions_are_allowed(void **test)
{
    (void)test;
    environment all, few;
    const backend b = {.threads = 1};
    environment_get(&all, &b);
    setenv("CKPT_CPU", "scalar", 1);
    environment_get(&few, &b);
    unsetenv("CKPT_CPU");
    assert_string_equal(all.cpu, few.cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_environment_says_nothing),
        cmocka_unit_test(other_threads_are_told),
        cmocka_unit_test(another_instruction_set_is_told),
        cmocka_unit_test(another_library_is_told),
        cmocka_unit_test(another_cpu_is_told),
        cmocka_unit_test(another_version_is_told),
        cmocka_unit_test(all_that_differs_is_told_in_one_line),
        cmocka_unit_test(a_line_that_does_not_fit_is_cut_and_still_a_difference),
        cmocka_unit_test(it_is_taken_from_backend_machine_and_program),
#if defined(_CS_GNU_LIBC_VERSION)
        cmocka_unit_test(the_c_library_is_part_of_it),
#endif
        cmocka_unit_test(the_cpu_is_the_same_whatever_instructions_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
