/* What the meta of a run's checkpoints says, and how it is read back. */
#include "run_meta.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define NONE ((double)NAN)

static void assert_pairs(const run_facts *facts, const ckpt_value *want, size_t count)
{
    run_meta m;
    run_meta_fill(&m, facts);
    assert_int_equal(m.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(m.pairs[i].key, want[i].key);
        assert_string_equal(m.pairs[i].value, want[i].value);
    }
}

static void all_facts_are_said(void **state)
{
    (void)state;
    static const ckpt_value WANT[RUN_META_PAIRS] = {
        {"run", "exp-1"},   {"epoch", "2"},          {"data", "/data"},
        {"host", "node7"},  {"seconds", "12.5"},     {"images_per_s", "3000.0"},
        {"reason", "best"}, {"val_acc", "0.937500"}, {"test_acc", "0.875000"}};
    const run_facts facts = {"exp-1", "node7", "best", "/data", 2, 12.5, 3000, 0.9375, 0.875};
    assert_pairs(&facts, WANT, RUN_META_PAIRS);
}

static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    static const ckpt_value WANT[] = {
        {"run", "exp-1"}, {"epoch", "18446744073709551615"}, {"host", ""}, {"seconds", "0.0"}, {"reason", "rhythm"}};
    const run_facts facts = {"exp-1", "", "rhythm", NULL, UINT64_MAX, 0, NONE, NONE, NONE};
    assert_pairs(&facts, WANT, sizeof WANT / sizeof WANT[0]);
}

static void the_longest_meta_is_one_that_a_checkpoint_may_have(void **state)
{
    (void)state;
    char run[64], host[65], data[RUN_META_VALUE_MAX + 1];
    size_t bytes = 0;
    run_meta m;
    memset(run, 'r', sizeof run - 1), run[sizeof run - 1] = '\0';
    memset(host, 'h', sizeof host - 1), host[sizeof host - 1] = '\0';
    memset(data, 'd', sizeof data - 1), data[sizeof data - 1] = '\0';
    const run_facts facts = {run, host, "stopped", data, UINT64_MAX, 1e14, 1e14, 0.5, 0.5};
    run_meta_fill(&m, &facts);
    for (size_t i = 0; i < m.count; i++)
        bytes += strlen(m.pairs[i].key) + strlen(m.pairs[i].value);
    assert_true(bytes <= CKPT_META_BYTES_MAX);
}

static void short_clean_utf8_is_plain(void **state)
{
    (void)state;
    char text[RUN_META_VALUE_MAX + 2] = "";
    static const char *const PLAIN[] = {"", "/data/mnist", "/\xe6\x95\xb0\xe6\x8d\xae", "a b"};
    static const char *const OTHER[] = {"a\nb", "\x1b[0m", "\x7f", "\xc2\x85", "\xff", "\xe6\x95"};
    for (size_t i = 0; i < sizeof PLAIN / sizeof PLAIN[0]; i++)
        assert_true(run_meta_is_plain(PLAIN[i]));
    for (size_t i = 0; i < sizeof OTHER / sizeof OTHER[0]; i++)
        assert_false(run_meta_is_plain(OTHER[i]));
    memset(text, 'x', RUN_META_VALUE_MAX);
    assert_true(run_meta_is_plain(text));
    text[RUN_META_VALUE_MAX] = 'x';
    assert_false(run_meta_is_plain(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_facts_are_said),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(the_longest_meta_is_one_that_a_checkpoint_may_have),
        cmocka_unit_test(short_clean_utf8_is_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
