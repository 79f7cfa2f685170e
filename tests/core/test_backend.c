#include "backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const backend_options ONE_THREAD = {.threads = 1};

static void backends_are_made_by_name(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"reference", "cpu"};
    for (size_t i = 0; i < 2; i++) {
        backend *b = NULL;
        assert_int_equal(backend_new(&b, NAMES[i], &ONE_THREAD, NULL), 0);
        assert_string_equal(b->name, NAMES[i]);
        backend_free(b);
    }
}

static void other_names_are_refused(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"", "CPU", "cuda", "cpu "};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        backend *b = NULL;
        ckpt_error err = {0};
        assert_int_equal(backend_new(&b, NAMES[i], &ONE_THREAD, &err), CKPT_EUSAGE);
        assert_non_null(strstr(err.message, NAMES[i]));
        assert_string_equal(err.hint, "backends: cpu, reference");
        assert_null(b);
    }
}

static void none_is_freed(void **state)
{
    (void)state;
    backend_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backends_are_made_by_name),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(none_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
