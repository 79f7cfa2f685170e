#include "utf8.h"
#include "visible.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_visible(const char *text, size_t size, const char *expected, size_t columns)
{
    size_t found = 0;
    char *visible = visible_text(&found, text, size);
    assert_non_null(visible);
    assert_string_equal(visible, expected);
    assert_int_equal(found, columns);
    assert_int_equal(visible_columns(visible, strlen(visible)), columns);
    free(visible);
}

#define ASSERT_VISIBLE(literal, expected, columns) assert_visible(literal, sizeof literal - 1, expected, columns)

static void plain_text_stays_as_it_is(void **state)
{
    (void)state;
    ASSERT_VISIBLE("", "", 0);
    ASSERT_VISIBLE("model.layer1.0.conv1.weight", "model.layer1.0.conv1.weight", 27);
    ASSERT_VISIBLE("C:\\dir", "C:\\dir", 6);
}

static void control_characters_are_escaped(void **state)
{
    (void)state;
    ASSERT_VISIBLE("a\x1b[2Jb", "a\\x1b[2Jb", 9);
    ASSERT_VISIBLE("a\nb\tc\rd", "a\\nb\\tc\\rd", 10);
    ASSERT_VISIBLE("\0\x7f", "\\x00\\x7f", 8);
    ASSERT_VISIBLE("\xc2\x9b"
                   "31m",
                   "\\u009b31m", 9); /* the one-character form of ESC [ */
}

static void reordering_and_invisible_characters_are_escaped(void **state)
{
    (void)state;
    ASSERT_VISIBLE("\xe2\x80\xae"
                   "gpj",
                   "\\u202egpj", 9);
    ASSERT_VISIBLE("\xe2\x81\xa6\xef\xbb\xbf\xe2\x80\xa8", "\\u2066\\ufeff\\u2028", 18);
    ASSERT_VISIBLE("\xf3\xa0\x80\x81", "\\U000e0001", 10);
}

static void bytes_that_are_no_utf8_are_escaped(void **state)
{
    (void)state;
    ASSERT_VISIBLE("\xff", "\\xff", 4);
    ASSERT_VISIBLE("\xc3", "\\xc3", 4);
    ASSERT_VISIBLE("\xc0\x80", "\\xc0\\x80", 8);                    /* overlong */
    ASSERT_VISIBLE("\xe0\x9f\xbf", "\\xe0\\x9f\\xbf", 12);          /* overlong */
    ASSERT_VISIBLE("\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf", 16); /* overlong */
    ASSERT_VISIBLE("\xed\xa0\x80", "\\xed\\xa0\\x80", 12);          /* surrogate */
    ASSERT_VISIBLE("\xe2\x82z", "\\xe2\\x82z", 9);                  /* cut */
    ASSERT_VISIBLE("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", 16); /* above 0x10FFFF */
}

static void wide_and_combining_characters_take_their_columns(void **state)
{
    (void)state;
    ASSERT_VISIBLE("gr\xc3\xbcn", "gr\xc3\xbcn", 4);
    ASSERT_VISIBLE("e\xcc\x81", "e\xcc\x81", 1);                               /* e, U+0301 */
    ASSERT_VISIBLE("\xe6\xa8\xa1\xe5\x9e\x8b", "\xe6\xa8\xa1\xe5\x9e\x8b", 4); /* two Chinese characters */
    ASSERT_VISIBLE("\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 2);                 /* U+1F600 */
}

/* East Asian width of the Unicode character data, as Python's unicodedata.east_asian_width and category give it. */
static void columns_follow_the_character_data(void **state)
{
    (void)state;
    static const uint32_t NONE[] = {0x300, 0x36F, 0x5BF, 0x200D, 0x20D0, 0xFE0F, 0x1160, 0xE0100};
    static const uint32_t ONE[] = {0x20, 0x2FF, 0x370, 0x3A9, 0x5BE, 0x2500, 0x303F, 0xFF61, 0x1D400, 0x10FFFD};
    static const uint32_t TWO[] = {0x1100, 0x231A, 0x3000, 0x4E00, 0x9FFF, 0xAC00, 0xFF01, 0xFFE6, 0x1F680, 0x20000};
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++)
        assert_int_equal(utf8_columns(NONE[i]), 0);
    for (size_t i = 0; i < sizeof ONE / sizeof *ONE; i++)
        assert_int_equal(utf8_columns(ONE[i]), 1);
    for (size_t i = 0; i < sizeof TWO / sizeof *TWO; i++)
        assert_int_equal(utf8_columns(TWO[i]), 2);
}

static void text_is_cut_between_characters(void **state)
{
    (void)state;
    assert_int_equal(visible_cut("abc", 2), 2);
    assert_int_equal(visible_cut("abc", 9), 3);
    assert_int_equal(visible_cut("\xe6\xa8\xa1\xe5\x9e\x8b", 3), 3); /* half of a wide character is none */
    assert_int_equal(visible_cut("e\xcc\x81x", 1), 3);               /* a combining one goes with its letter */
}

/* Encodes every code by the definition of UTF-8 and reads it back. */
static void every_code_is_read(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char b[4];
        size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        static const unsigned char LEAD[] = {0, 0, 0xC0, 0xE0, 0xF0};
        for (size_t i = 0; i < length; i++) {
            unsigned bits = code >> 6 * (length - 1 - i);
            b[i] = (char)(length == 1 ? bits : i == 0 ? LEAD[length] | bits : 0x80u | (bits & 0x3F));
        }
        uint32_t found = 0;
        bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        assert_int_equal(utf8_next(&found, b, length), surrogate ? 0 : length);
        assert_int_equal(found, surrogate ? 0 : code);
        assert_int_equal(utf8_next(&found, b, length - 1), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_stays_as_it_is),
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(reordering_and_invisible_characters_are_escaped),
        cmocka_unit_test(bytes_that_are_no_utf8_are_escaped),
        cmocka_unit_test(wide_and_combining_characters_take_their_columns),
        cmocka_unit_test(columns_follow_the_character_data),
        cmocka_unit_test(text_is_cut_between_characters),
        cmocka_unit_test(every_code_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
