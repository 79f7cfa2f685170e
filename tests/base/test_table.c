#include "table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ELLIPSIS "\xe2\x80\xa6"

static const table_column COLUMNS[] = {{"NAME", TABLE_LEFT}, {"SIZE", TABLE_RIGHT}, {"MESSAGE", TABLE_LEFT}};

static table *table_of(const char *const *cells, size_t count)
{
    table *t = NULL;
    assert_int_equal(table_new(&t, COLUMNS, 3, NULL), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(table_add(t, cells[i], TABLE_PLAIN, NULL), 0);
    return t;
}

static void assert_written(const table *t, size_t width, bool color, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(table_write(out, t, width, color, NULL), 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void columns_are_aligned_without_trailing_blanks(void **state)
{
    (void)state;
    static const char *const CELLS[] = {"a.pt", "12.3 MiB", "first", "epoch_10.pt", "1 B", ""};
    table *t = table_of(CELLS, 6);
    assert_written(t, 0, false,
                   "NAME             SIZE  MESSAGE\n"
                   "a.pt         12.3 MiB  first\n"
                   "epoch_10.pt       1 B\n");
    table_free(t);
}

static void a_table_without_rows_is_its_header(void **state)
{
    (void)state;
    table *t = table_of(NULL, 0);
    assert_written(t, 80, false, "NAME  SIZE  MESSAGE\n");
    table_free(t);
}

static void a_table_may_have_no_header(void **state)
{
    (void)state;
    static const table_column PLAIN[] = {{NULL, TABLE_LEFT}, {NULL, TABLE_RIGHT}};
    table *t = NULL;
    assert_int_equal(table_new(&t, PLAIN, 2, NULL), 0);
    assert_int_equal(table_add(t, "files", TABLE_PLAIN, NULL), 0);
    assert_int_equal(table_add(t, "3", TABLE_PLAIN, NULL), 0);
    assert_written(t, 0, false, "files  3\n");
    table_free(t);
}

static void wide_and_combining_characters_keep_the_columns_straight(void **state)
{
    (void)state;
    static const char *const CELLS[] = {"\xe6\xa8\xa1\xe5\x9e\x8b.pt", "1 B", "x", "e\xcc\x81", "2 B", "y"};
    table *t = table_of(CELLS, 6);
    assert_written(t, 0, false,
                   "NAME     SIZE  MESSAGE\n"
                   "\xe6\xa8\xa1\xe5\x9e\x8b.pt   1 B  x\n"
                   "e\xcc\x81         2 B  y\n");
    table_free(t);
}

static void the_widest_text_is_cut_to_the_terminal(void **state)
{
    (void)state;
    static const char *const CELLS[] = {"model.layer1.0.conv1.weight", "12.3 MiB", "short"};
    table *t = table_of(CELLS, 3);
    /* 27 + 2 + 8 + 2 + 7 = 46 columns made 36. */
    assert_written(t, 36, false,
                   "NAME                   SIZE  MESSAGE\n"
                   "model.layer1.0.c" ELLIPSIS "  12.3 MiB  short\n");
    table_free(t);
}

static void a_cut_wide_character_leaves_a_blank(void **state)
{
    (void)state;
    static const char *const CELLS[] = {"\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1",
                                        "1 B", "x"};
    table *t = table_of(CELLS, 3);
    assert_written(t, 25, false,
                   "NAME        SIZE  MESSAGE\n"
                   "\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1" ELLIPSIS "    1 B  x\n");
    table_free(t);
}

static void a_name_is_cut_in_its_middle(void **state)
{
    (void)state;
    static const table_column NAMES[] = {{NULL, TABLE_NAME}, {NULL, TABLE_NAME}};
    static const char *const CELLS[] = {"optimizer.state.0.exp_avg",
                                        "\xe6\xa8\xa1\xe5\x9e\x8b\xe6\xa8\xa1\xe5\x9e\x8b.pt"};
    table *t = NULL;
    assert_int_equal(table_new(&t, NAMES, 2, NULL), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(table_add(t, CELLS[i], TABLE_PLAIN, NULL), 0);
    /* 13 + 2 + 8: of 12 columns 4 and 8; of 7 columns 3 and 4, where one of 3 stays blank. */
    assert_written(t, 0, false, "optimizer.state.0.exp_avg  \xe6\xa8\xa1\xe5\x9e\x8b\xe6\xa8\xa1\xe5\x9e\x8b.pt\n");
    assert_written(t, 26, false, "opti" ELLIPSIS ".exp_avg  \xe6\xa8\xa1\xe5\x9e\x8b\xe6\xa8\xa1\xe5\x9e\x8b.pt\n");
    assert_written(t, 18, false,
                   "opt" ELLIPSIS "_avg  "
                   "\xe6\xa8\xa1" ELLIPSIS ".pt\n");
    table_free(t);
}

static void empty_cells_at_the_end_leave_no_blanks(void **state)
{
    (void)state;
    static const char *const CELLS[] = {"a", "", "", "", "1 B", ""};
    table *t = table_of(CELLS, 6);
    assert_written(t, 0, false,
                   "NAME  SIZE  MESSAGE\n"
                   "a\n"
                   "       1 B\n");
    table_free(t);
}

static void numbers_are_never_cut_and_texts_keep_eight_columns(void **state)
{
    (void)state;
    static const char *const CELLS[] = {"abcdefghijkl", "123456789 MiB", "mnopqrstuvwx"};
    table *t = table_of(CELLS, 3);
    assert_written(t, 10, false,
                   "NAME               SIZE  MESSAGE\n"
                   "abcdefg" ELLIPSIS "  123456789 MiB  mnopqrs" ELLIPSIS "\n");
    table_free(t);
}

static void hostile_cells_cannot_reach_the_terminal(void **state)
{
    (void)state;
    static const char *const CELLS[] = {"a\x1b]0;x\x07\n", "1 B", "\xff"};
    table *t = table_of(CELLS, 3);
    assert_written(t, 0, true,
                   "\x1b[1mNAME\x1b[0m             \x1b[1mSIZE\x1b[0m  \x1b[1mMESSAGE\x1b[0m\n"
                   "a\\x1b]0;x\\x07\\n   1 B  \\xff\n");
    table_free(t);
}

static void colours_are_written_only_when_asked_for(void **state)
{
    (void)state;
    static const table_column PLAIN[] = {{NULL, TABLE_LEFT}, {NULL, TABLE_RIGHT}};
    table *t = NULL;
    assert_int_equal(table_new(&t, PLAIN, 2, NULL), 0);
    assert_int_equal(table_add(t, "a", TABLE_RED, NULL), 0);
    assert_int_equal(table_add(t, "1", TABLE_PLAIN, NULL), 0);
    assert_written(t, 0, false, "a  1\n");
    assert_written(t, 0, true, "\x1b[31ma\x1b[0m  1\n");
    table_free(t);
}

static void a_failed_write_is_an_error(void **state)
{
    (void)state;
    ckpt_error err = {0};
    table *t = table_of(NULL, 0);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    setvbuf(full, NULL, _IONBF, 0);
    assert_int_equal(table_write(full, t, 0, false, &err), CKPT_ENOSPC);
    fclose(full);
    table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned_without_trailing_blanks),
        cmocka_unit_test(a_table_without_rows_is_its_header),
        cmocka_unit_test(a_table_may_have_no_header),
        cmocka_unit_test(wide_and_combining_characters_keep_the_columns_straight),
        cmocka_unit_test(the_widest_text_is_cut_to_the_terminal),
        cmocka_unit_test(a_cut_wide_character_leaves_a_blank),
        cmocka_unit_test(a_name_is_cut_in_its_middle),
        cmocka_unit_test(empty_cells_at_the_end_leave_no_blanks),
        cmocka_unit_test(numbers_are_never_cut_and_texts_keep_eight_columns),
        cmocka_unit_test(hostile_cells_cannot_reach_the_terminal),
        cmocka_unit_test(colours_are_written_only_when_asked_for),
        cmocka_unit_test(a_failed_write_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
