/* Distances of words, counted by hand. */
#include "word.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void each_letter_inserted_removed_or_replaced_counts(void **state)
{
    (void)state;
    assert_int_equal(word_distance("", ""), 0);
    assert_int_equal(word_distance("save", "save"), 0);
    assert_int_equal(word_distance("", "save"), 4);
    assert_int_equal(word_distance("save", ""), 4);
    assert_int_equal(word_distance("sav", "save"), 1);
    assert_int_equal(word_distance("ssave", "save"), 1);
    assert_int_equal(word_distance("sawe", "save"), 1);
    assert_int_equal(word_distance("kitten", "sitting"), 3);
}

static void neighbours_exchanged_count_once(void **state)
{
    (void)state;
    assert_int_equal(word_distance("svae", "save"), 1);
    assert_int_equal(word_distance("asev", "save"), 2);
    assert_int_equal(word_distance("ca", "abc"), 3); /* no letter is exchanged and changed */
}

static void words_that_are_too_long_are_far_away(void **state)
{
    char longest[WORD_SIZE_MAX + 1], longer[WORD_SIZE_MAX + 2];
    (void)state;
    memset(longest, 'a', sizeof longest);
    longest[WORD_SIZE_MAX] = 0;
    memset(longer, 'a', sizeof longer);
    longer[WORD_SIZE_MAX + 1] = 0;
    assert_int_equal(word_distance(longest, longest), 0);
    assert_int_equal(word_distance(longest, ""), WORD_SIZE_MAX);
    assert_true(word_distance(longest, longer) == SIZE_MAX);
    assert_true(word_distance(longer, longest) == SIZE_MAX);
}

static void the_nearest_word_is_what_was_meant(void **state)
{
    static const char *const WORDS[] = {"restore", "resume", "save", NULL};
    (void)state;
    assert_string_equal(word_nearest("resotre", WORDS), "restore");
    assert_string_equal(word_nearest("sve", WORDS), "save");
    assert_string_equal(word_nearest("resu", WORDS), "resume"); /* an abbreviation */
    assert_null(word_nearest("train", WORDS));
    assert_null(word_nearest("x", WORDS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_letter_inserted_removed_or_replaced_counts),
        cmocka_unit_test(neighbours_exchanged_count_once),
        cmocka_unit_test(words_that_are_too_long_are_far_away),
        cmocka_unit_test(the_nearest_word_is_what_was_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
