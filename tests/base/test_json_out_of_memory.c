/* JSON when memory is exhausted: each allocation of the writer fails once, and it says so or writes the whole value.
 * Linked with --wrap for the allocation functions (tests/CMakeLists.txt). */
#include "json_out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static size_t allocations;              /* since the count was set to 0 */
static size_t failing_index = SIZE_MAX; /* the allocation that fails; SIZE_MAX for none */

void *__wrap_malloc(size_t size)
{
    return allocations++ == failing_index ? NULL : __real_malloc(size);
}

typedef int writer(FILE *out, const json_t *value, ckpt_error *err);

/* The text that is written with the allocation of that index failing; to be freed. */
static char *written(int *rc, writer *write, const json_t *value, size_t index)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    allocations = 0;
    failing_index = index;
    *rc = write(out, value, NULL);
    failing_index = SIZE_MAX;
    assert_int_equal(fclose(out), 0);
    return text;
}

static void assert_whole_or_nothing(writer *write)
{
    static char word[5000]; /* as a key, so that a buffer that grows has to do so there */
    int rc = CKPT_ENOMEM;
    memset(word, 'a', sizeof word - 1);
    json_t *value = json_pack("{s:s, s:[i, i, {s:s}]}", word, "first", "list", 1, 2, word, "last");
    assert_non_null(value);
    char *const whole = written(&rc, write, value, SIZE_MAX);
    assert_int_equal(rc, 0);
    const size_t count = allocations;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        char *const text = written(&rc, write, value, i);
        assert_int_equal(rc, CKPT_ENOMEM);
        assert_string_equal(text, "");
        free(text);
    }
    free(whole);
    json_decref(value);
}

static void a_value_is_written_whole_or_not_at_all(void **state)
{
    (void)state;
    assert_whole_or_nothing(json_out_value);
}

static void a_line_is_written_whole_or_not_at_all(void **state)
{
    (void)state;
    assert_whole_or_nothing(json_out_line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_written_whole_or_not_at_all),
        cmocka_unit_test(a_line_is_written_whole_or_not_at_all),
    };
    json_set_alloc_funcs(__wrap_malloc, free); /* the library's own calls are not wrapped */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
