#include "ini.h"

#include "alloc_fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ini *parse(const char *text)
{
    ini *file = NULL;
    ckpt_error err = {0};
    if (ini_parse(&file, text, strlen(text), "config.ini", &err))
        fail_msg("%s", err.message);
    return file;
}

static void assert_text(const ini *file, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    assert_int_equal(ini_write(&text, &size, file, NULL), 0);
    assert_string_equal(text, expected);
    assert_int_equal(size, strlen(expected));
    free(text);
}

static void assert_refused(const char *text, const char *message)
{
    ini *file = NULL;
    ckpt_error err = {0};
    assert_int_equal(ini_parse(&file, text, strlen(text), "config.ini", &err), CKPT_EFORMAT);
    assert_null(file);
    assert_string_equal(err.message, message);
}

static void assert_value(const char *line, const char *expected)
{
    ini *file = parse(line);
    assert_string_equal(ini_get(file, "", NULL, "k"), expected);
    ini_free(file);
}

static void values_are_found_by_section_and_key(void **state)
{
    (void)state;
    ini *file = parse("top = 0\n[core]\nformat = 1\n[remote \"origin\"]\nurl=s3://b/p\n[remote]\nurl = none\n");
    assert_string_equal(ini_get(file, "", NULL, "top"), "0");
    assert_string_equal(ini_get(file, "core", NULL, "format"), "1");
    assert_string_equal(ini_get(file, "remote", "origin", "url"), "s3://b/p");
    assert_string_equal(ini_get(file, "remote", NULL, "url"), "none");
    assert_null(ini_get(file, "remote", "other", "url"));
    assert_null(ini_get(file, "core", NULL, "url"));
    assert_null(ini_get(file, "Core", NULL, "format"));
    ini_free(file);
}

static void comments_stand_at_line_start_or_after_a_blank_and_hash(void **state)
{
    (void)state;
    assert_value("# k = 1\n; k = 2\n  # k = 3\nk = 4\n", "4");
    assert_value("k = v # comment", "v");
    assert_value("k = v\t# comment", "v");
    assert_value("k = v ; data", "v ; data");
    assert_value("k = v#data", "v#data");
    assert_value("k =#data", "#data");
    assert_value("k = # comment", "");
    assert_value("k =", "");
}

static void quotes_and_backslashes_are_data_outside_quotes(void **state)
{
    (void)state;
    assert_value("k = C:\\data\\", "C:\\data\\");
    assert_value("k = say \"hi\"", "say \"hi\"");
    assert_value("k = \" a # b \" # comment", " a # b ");
    assert_value("k = \"a\\\"b\\\\c\\d\"", "a\"b\\c\\d");
    assert_value("k = \"\"", "");
}

static void session_tokens_survive(void **state)
{
    (void)state;
    char line[INI_VALUE_MAX + 16];
    char token[INI_VALUE_MAX + 1];
    for (size_t i = 0; i < INI_VALUE_MAX; i++)
        token[i] = "IQoJb3JpZ2luX2VjE/+=#;\"'\\"[i % 25];
    token[INI_VALUE_MAX] = 0;
    snprintf(line, sizeof line, "k = %s\n", token);
    assert_value(line, token);
}

static void crlf_and_a_byte_order_mark_are_no_part_of_values(void **state)
{
    (void)state;
    ini *file = parse("\xef\xbb\xbf[a]\r\nk = v\r\nq = \"w\"\r\n");
    assert_string_equal(ini_get(file, "a", NULL, "k"), "v");
    assert_string_equal(ini_get(file, "a", NULL, "q"), "w");
    assert_int_equal(ini_set(file, "a", NULL, "n", "1", NULL), 0);
    assert_int_equal(ini_set(file, "", NULL, "top", "1", NULL), 0);
    assert_text(file, "\xef\xbb\xbftop = 1\r\n[a]\r\nk = v\r\nq = \"w\"\r\nn = 1\r\n");
    ini_free(file);
}

static void of_duplicate_keys_the_last_counts_and_all_are_visited_in_order(void **state)
{
    (void)state;
    ini *file = parse("[a]\nk = 1\n\n[b \"s\"]\n[a]\n# c\nk = 2\n");
    static const ini_entry EXPECTED[] = {
        {"a", NULL, NULL, NULL, 1}, {"a", NULL, "k", "1", 2}, {"b", "s", NULL, NULL, 4},
        {"a", NULL, NULL, NULL, 5}, {"a", NULL, "k", "2", 7},
    };
    ini_entry entry;
    size_t cursor = 0;
    for (size_t i = 0; i < sizeof EXPECTED / sizeof *EXPECTED; i++) {
        assert_true(ini_next(&entry, &cursor, file));
        assert_string_equal(entry.section, EXPECTED[i].section);
        assert_int_equal(!entry.sub, !EXPECTED[i].sub);
        assert_int_equal(!entry.key, !EXPECTED[i].key);
        if (entry.key)
            assert_string_equal(entry.value, EXPECTED[i].value);
        assert_int_equal(entry.line, EXPECTED[i].line);
    }
    assert_false(ini_next(&entry, &cursor, file));
    assert_string_equal(ini_get(file, "a", NULL, "k"), "2");
    ini_free(file);
}

static void errors_name_the_line(void **state)
{
    (void)state;
    assert_refused("[a]\nk = 1\nnonsense\n", "config.ini:3: \"=\" expected after \"nonsense\"");
    assert_refused("[a\n", "config.ini:1: \"]\" expected");
    assert_refused("\n[]\n", "config.ini:2: section name expected");
    assert_refused("= 1\n", "config.ini:1: \"[section]\" or \"key = value\" expected");
    assert_refused("[a]x\n", "config.ini:1: unexpected text at the end of the line");
    assert_refused("[a]#x\n", "config.ini:1: unexpected text at the end of the line");
    assert_refused("k = \"a\" b\n", "config.ini:1: unexpected text at the end of the line");
    assert_refused("k = \"a\\\"\n", "config.ini:1: closing quote is missing");
    assert_refused("k = a\x1b[2J\n", "config.ini:1: control character 0x1b");
    assert_refused("k = a\rb\n", "config.ini:1: control character 0x0d");
    assert_refused("[a \"\"]\n", "config.ini:1: empty name in quotes");
}

static void a_zero_byte_is_refused(void **state)
{
    (void)state;
    ini *file = NULL;
    ckpt_error err = {0};
    assert_int_equal(ini_parse(&file, "# \0\n", 4, "config.ini", &err), CKPT_EFORMAT);
    assert_string_equal(err.message, "config.ini:1: control character 0x00");
}

/* A malloc'ed text of `size` times `c`. */
static char *text_of(char c, size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, c, size);
    text[size] = 0;
    return text;
}

static int parse_status(const char *text, size_t size)
{
    ini *file = NULL;
    int rc = ini_parse(&file, text, size, "config.ini", NULL);
    ini_free(file);
    return rc;
}

static void files_and_lines_are_limited(void **state)
{
    (void)state;
    char *comment = text_of('#', INI_SIZE_MAX + 1);
    char *lines = text_of('\n', INI_LINES_MAX + 1);
    assert_int_equal(parse_status(comment, INI_SIZE_MAX), 0);
    assert_int_equal(parse_status(comment, INI_SIZE_MAX + 1), CKPT_EFORMAT);
    assert_int_equal(parse_status(lines, INI_LINES_MAX), 0);
    assert_int_equal(parse_status(lines, INI_LINES_MAX + 1), CKPT_EFORMAT);
    free(comment);
    free(lines);
}

static void edits_cannot_grow_a_file_over_its_limits(void **state)
{
    (void)state;
    char *comment = text_of('#', INI_SIZE_MAX - 8);
    char *lines = text_of('\n', INI_LINES_MAX);
    memcpy(comment, "k=1\n", 4);
    ini *large = parse(comment);
    ini *long_one = parse(lines);
    assert_int_equal(ini_set(large, "", NULL, "k", "123456789", NULL), CKPT_EFORMAT);
    assert_int_equal(ini_set(large, "", NULL, "new", "1", NULL), CKPT_EFORMAT);
    assert_text(large, comment);
    assert_int_equal(ini_set(long_one, "", NULL, "k", "1", NULL), CKPT_EFORMAT);
    assert_text(long_one, lines);
    ini_free(large);
    ini_free(long_one);
    free(comment);
    free(lines);
}

static void values_and_names_are_limited(void **state)
{
    (void)state;
    char *value = text_of('x', INI_VALUE_MAX + 1);
    char *name = text_of('n', INI_NAME_MAX + 1);
    char line[2 * INI_VALUE_MAX];
    ini *file = parse("");
    assert_int_equal(ini_set(file, "a", NULL, "k", value, NULL), CKPT_EUSAGE);
    assert_int_equal(ini_set(file, "a", NULL, "k", value + 1, NULL), 0);
    assert_int_equal(ini_set(file, "a", NULL, name, "v", NULL), CKPT_EUSAGE);
    assert_int_equal(ini_set(file, name, NULL, "k", "v", NULL), CKPT_EUSAGE);
    assert_int_equal(ini_set(file, "a", name, "k", "v", NULL), CKPT_EUSAGE);
    assert_int_equal(ini_set(file, name + 1, name + 1, name + 1, "v", NULL), 0);
    ini_free(file);

    const struct {
        const char *before, *longest, *behind;
    } CASES[] = {{"k = ", value + 1, ""},
                 {"k = \"", value + 1, "\""},
                 {"[", name + 1, "]"},
                 {"[a \"", name + 1, "\"]"},
                 {"", name + 1, " = 1"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int size = snprintf(line, sizeof line, "%s%s%s", CASES[i].before, CASES[i].longest, CASES[i].behind);
        assert_int_equal(parse_status(line, (size_t)size), 0);
        size = snprintf(line, sizeof line, "%s%s%s", CASES[i].before, CASES[i].longest - 1, CASES[i].behind);
        assert_int_equal(parse_status(line, (size_t)size), CKPT_EFORMAT);
    }
    free(value);
    free(name);
}

static void distinct_sections_are_limited(void **state)
{
    (void)state;
    char text[16 * 1025];
    size_t size = 0;
    for (unsigned i = 0; i < 1024; i++) /* "" is one more */
        size += (size_t)snprintf(text + size, sizeof text - size, "[s%u]\n", i);
    assert_int_equal(parse_status(text, size), CKPT_EFORMAT);
    assert_int_equal(parse_status(text, size - strlen("[s1023]\n")), 0);
}

/* The example file of the edit tests; tabs, odd spacing and comments must all stay. */
#define CONFIG                                                                                                         \
    "# top comment\n"                                                                                                  \
    "\n"                                                                                                               \
    "[core]\n"                                                                                                         \
    "\tformat=1   # written once\n"                                                                                    \
    "\n"                                                                                                               \
    "; about the remote\n"                                                                                             \
    "[remote \"origin\"]\n"                                                                                            \
    "  url   =   s3://bucket/p   # the \"big\" one\n"                                                                  \
    "  # token = old\n"                                                                                                \
    "\n"

static void set_changes_only_the_value(void **state)
{
    (void)state;
    ini *file = parse(CONFIG);
    assert_int_equal(ini_set(file, "remote", "origin", "url", "oss://b # x", NULL), 0);
    assert_int_equal(ini_set(file, "core", NULL, "format", "2", NULL), 0);
    assert_text(file, "# top comment\n\n[core]\n\tformat=2   # written once\n\n; about the remote\n"
                      "[remote \"origin\"]\n  url   =   \"oss://b # x\"   # the \"big\" one\n  # token = old\n\n");
    ini_free(file);
}

static void set_of_a_new_key_goes_behind_the_last_entry_with_its_indentation(void **state)
{
    (void)state;
    ini *file = parse(CONFIG);
    assert_int_equal(ini_set(file, "core", NULL, "id", "5f", NULL), 0);
    assert_int_equal(ini_set(file, "quota", NULL, "size", "5g", NULL), 0);
    assert_int_equal(ini_set(file, "remote", "a\"b\\", "url", "x", NULL), 0);
    assert_text(file, "# top comment\n\n[core]\n\tformat=1   # written once\n\tid = 5f\n\n; about the remote\n"
                      "[remote \"origin\"]\n  url   =   s3://bucket/p   # the \"big\" one\n  # token = old\n\n"
                      "[quota]\nsize = 5g\n\n[remote \"a\\\"b\\\\\"]\nurl = x\n");
    ini_free(file);
}

static void empty_values_can_be_set_and_filled(void **state)
{
    (void)state;
    ini *file = parse("a =\nb=\nc = # note\nd = x # note\n");
    assert_int_equal(ini_set(file, "", NULL, "a", "1", NULL), 0);
    assert_int_equal(ini_set(file, "", NULL, "b", "2", NULL), 0);
    assert_int_equal(ini_set(file, "", NULL, "c", "3", NULL), 0);
    assert_int_equal(ini_set(file, "", NULL, "d", "", NULL), 0);
    assert_text(file, "a = 1\nb=2\nc = 3 # note\nd =  # note\n");
    assert_string_equal(ini_get(file, "", NULL, "d"), "");
    ini_free(file);
}

static void a_last_line_without_end_gets_one_when_lines_follow(void **state)
{
    (void)state;
    ini *file = parse("[a]\r\nk = 1");
    assert_int_equal(ini_add(file, "a", NULL, "k", "2", NULL), 0);
    assert_text(file, "[a]\r\nk = 1\r\nk = 2\r\n");
    ini_free(file);
}

static void unset_removes_all_entries_of_the_key(void **state)
{
    (void)state;
    ini *file = parse("[a]\nk = 1\n# note\nj = 2\nk = 3\n[b]\nk = 4\n");
    assert_int_equal(ini_unset(file, "a", NULL, "k"), 2);
    assert_int_equal(ini_unset(file, "a", NULL, "k"), 0);
    assert_text(file, "[a]\n# note\nj = 2\n[b]\nk = 4\n");
    ini_free(file);
}

static void removing_a_section_keeps_what_is_said_about_the_next(void **state)
{
    (void)state;
    ini *file = parse("[a]\nk = 1\n# in a\nj = 2\n\n# about b\n[b]\nk = 1\n[a]\n\n\n[c]\n");
    assert_int_equal(ini_remove_section(file, "a", NULL), 2);
    assert_false(ini_has_section(file, "a", NULL));
    assert_text(file, "# about b\n[b]\nk = 1\n[c]\n");
    assert_int_equal(ini_remove_section(file, "a", NULL), 0);
    ini_free(file);
}

static void adding_and_removing_a_section_gives_the_same_bytes(void **state)
{
    (void)state;
    const char *text = "[core]\nk = 1\n";
    ini *file = parse(text);
    assert_int_equal(ini_add(file, "remote", "origin", "url", "x", NULL), 0);
    assert_int_equal(ini_add(file, "remote", "origin", "region", "y", NULL), 0);
    assert_text(file, "[core]\nk = 1\n\n[remote \"origin\"]\nurl = x\nregion = y\n");
    assert_int_equal(ini_remove_section(file, "remote", "origin"), 1);
    assert_text(file, text);
    ini_free(file);
}

static void what_the_format_cannot_hold_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    ini *file = parse(CONFIG);
    assert_int_equal(ini_set(file, "core", NULL, "k", "a\nb", NULL), CKPT_EUSAGE);
    assert_int_equal(ini_set(file, "core", NULL, "k k", "a", NULL), CKPT_EUSAGE);
    assert_int_equal(ini_set(file, "core", NULL, "", "a", NULL), CKPT_EUSAGE);
    assert_int_equal(ini_set(file, "co]re", NULL, "k", "a", NULL), CKPT_EUSAGE);
    assert_int_equal(ini_set(file, "core", "", "k", "a", NULL), CKPT_EUSAGE);
    assert_int_equal(ini_set(file, "core", "a\nb", "k", "a", NULL), CKPT_EUSAGE);
    assert_text(file, CONFIG);
    ini_free(file);
}

/* All strings of up to 4 characters that mean something to the parser: what set accepts, a reread returns. */
static void every_short_value_comes_back_after_a_reread(void **state)
{
    (void)state;
    static const char ALPHABET[] = " \t#;=\"\\a[]";
    enum { LETTERS = sizeof ALPHABET - 1, LENGTH_MAX = 4 };
    ini *file = parse("[s]\nk = 1 # note\n");
    for (size_t length = 0, total = 1; length <= LENGTH_MAX; length++, total *= LETTERS) {
        for (size_t number = 0; number < total; number++) {
            char value[LENGTH_MAX + 1] = "";
            for (size_t i = 0, rest = number; i < length; i++, rest /= LETTERS)
                value[i] = ALPHABET[rest % LETTERS];
            char *text = NULL;
            size_t size = 0;
            ini *again = NULL;
            assert_int_equal(ini_set(file, "s", NULL, "k", value, NULL), 0);
            assert_int_equal(ini_set(file, "s", NULL, "key2", value, NULL), 0);
            assert_int_equal(ini_write(&text, &size, file, NULL), 0);
            assert_int_equal(ini_parse(&again, text, size, "again", NULL), 0);
            assert_string_equal(ini_get(again, "s", NULL, "k"), value);
            assert_string_equal(ini_get(again, "s", NULL, "key2"), value);
            ini_free(again);
            free(text);
        }
    }
    ini_free(file);
}

/* One job with every kind of allocation: a parse, a changed value, a new section. */
static int parse_and_edit(ini **file, const char *text)
{
    int rc = ini_parse(file, text, strlen(text), "config.ini", NULL);
    if (!rc)
        rc = ini_set(*file, "a", NULL, "k", "2", NULL);
    if (!rc)
        rc = ini_add(*file, "remote", "origin", "url", "x", NULL);
    return rc;
}

static void every_failed_allocation_is_out_of_memory_and_leaves_a_whole_file(void **state)
{
    (void)state;
    static const char TEXT[] = "[a]\nk = 1";
    bool failed = ALLOC_FAIL_WORKS;
    if (!failed)
        skip();
    for (long at = 1; failed; at++) {
        ini *file = NULL;
        alloc_fail_arm(at);
        int rc = parse_and_edit(&file, TEXT);
        failed = alloc_fail_disarm();
        assert_int_equal(rc, failed ? CKPT_ENOMEM : 0);
        if (failed && file)
            assert_text(file, strcmp(ini_get(file, "a", NULL, "k"), "1") == 0 ? TEXT : "[a]\nk = 2");
        ini_free(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_by_section_and_key),
        cmocka_unit_test(comments_stand_at_line_start_or_after_a_blank_and_hash),
        cmocka_unit_test(quotes_and_backslashes_are_data_outside_quotes),
        cmocka_unit_test(session_tokens_survive),
        cmocka_unit_test(crlf_and_a_byte_order_mark_are_no_part_of_values),
        cmocka_unit_test(of_duplicate_keys_the_last_counts_and_all_are_visited_in_order),
        cmocka_unit_test(errors_name_the_line),
        cmocka_unit_test(a_zero_byte_is_refused),
        cmocka_unit_test(files_and_lines_are_limited),
        cmocka_unit_test(edits_cannot_grow_a_file_over_its_limits),
        cmocka_unit_test(values_and_names_are_limited),
        cmocka_unit_test(distinct_sections_are_limited),
        cmocka_unit_test(set_changes_only_the_value),
        cmocka_unit_test(set_of_a_new_key_goes_behind_the_last_entry_with_its_indentation),
        cmocka_unit_test(empty_values_can_be_set_and_filled),
        cmocka_unit_test(a_last_line_without_end_gets_one_when_lines_follow),
        cmocka_unit_test(unset_removes_all_entries_of_the_key),
        cmocka_unit_test(removing_a_section_keeps_what_is_said_about_the_next),
        cmocka_unit_test(adding_and_removing_a_section_gives_the_same_bytes),
        cmocka_unit_test(what_the_format_cannot_hold_is_refused_and_changes_nothing),
        cmocka_unit_test(every_short_value_comes_back_after_a_reread),
        cmocka_unit_test(every_failed_allocation_is_out_of_memory_and_leaves_a_whole_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
