#include "text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void utf8_of_all_lengths_is_clean(void **state)
{
    (void)state;
    assert_true(text_is_clean("", false));
    assert_true(text_is_clean("plain ~!", false));
    assert_true(text_is_clean("\xc2\xa0\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf", false));
}

static void control_characters_are_not(void **state)
{
    (void)state;
    assert_false(text_is_clean("\x1b[31m", true));
    assert_false(text_is_clean("a\x7f", true));
    assert_false(text_is_clean("\r\n", true));
    assert_false(text_is_clean("\xc2\x9b"
                               "31m",
                               true)); /* CSI as one character of C1 */
}

static void tab_and_newline_are_clean_where_lines_are_let_in(void **state)
{
    (void)state;
    assert_true(text_is_clean("a\tb\n", true));
    assert_false(text_is_clean("a\tb", false));
    assert_false(text_is_clean("a\nb", false));
}

/* From the table of RFC 3629, section 4, what lies just outside each row. */
static void what_is_no_utf8_is_not_clean(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xc3",
        "\xc3(",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xe2\x82",
        "\xe2(\xa1",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xf0\x9f\x98",
        "\xff",
        "\xfe",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_false(text_is_clean(BAD[i], true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_of_all_lengths_is_clean),
        cmocka_unit_test(control_characters_are_not),
        cmocka_unit_test(tab_and_newline_are_clean_where_lines_are_let_in),
        cmocka_unit_test(what_is_no_utf8_is_not_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
