#include "watch_glob.h"

#include "file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "temp_dir.h"

#define LIST_SIZE 4096

static char dir[TEMP_PATH_MAX];

static int setup(void **state)
{
    (void)state;
    return temp_dir_make(dir) || chdir(dir);
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") || temp_dir_remove(dir);
}

static void make_file(const char *path)
{
    char parent[FILE_PATH_MAX];
    MUST(path_parent(parent, path, ERR));
    MUST(dir_make_all(parent, ERR));
    FILE *const f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

typedef struct lists {
    char found[LIST_SIZE], folders[LIST_SIZE];
} lists;

static void list_add(char *list, const char *path)
{
    const size_t used = strlen(list);
    snprintf(list + used, LIST_SIZE - used, "%s%s", used ? " " : "", path);
}

static int on_found(void *payload, const char *path, const struct stat *st, ckpt_error *err)
{
    (void)st;
    (void)err;
    list_add(((lists *)payload)->found, path);
    return 0;
}

static int on_folder(void *payload, const char *path, ckpt_error *err)
{
    (void)err;
    list_add(((lists *)payload)->folders, path);
    return 0;
}

static int word_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Words of a list in the order of their bytes: folders list their entries in any. */
static void sort_words(char *list)
{
    char *words[256], copy[LIST_SIZE];
    size_t count = 0;
    memcpy(copy, list, LIST_SIZE);
    for (char *at = copy; *at && count < 256;) {
        words[count++] = at;
        at += strcspn(at, " ");
        if (*at)
            *at++ = 0;
    }
    qsort(words, count, sizeof *words, word_compare);
    list[0] = 0;
    for (size_t i = 0; i < count; i++)
        list_add(list, words[i]);
}

static lists scan(const char *pattern)
{
    lists l = {0};
    watch_glob *g = NULL;
    const watch_scan s = {.found = on_found, .folder = on_folder, .payload = &l};
    MUST(watch_glob_new(&g, pattern, ERR));
    MUST(watch_glob_scan(g, &s, ERR));
    watch_glob_free(g);
    sort_words(l.found);
    sort_words(l.folders);
    return l;
}

static void expect_found(const char *pattern, const char *found)
{
    const lists l = scan(pattern);
    if (strcmp(l.found, found) != 0)
        fail_msg("%s finds \"%s\", not \"%s\"", pattern, l.found, found);
}

static bool fits(const char *pattern, const char *path)
{
    watch_glob *g = NULL;
    MUST(watch_glob_new(&g, pattern, ERR));
    const bool is = watch_glob_fits(g, path);
    watch_glob_free(g);
    return is;
}

static void names_within_one_folder(void **state)
{
    (void)state;
    make_file("epoch_1.pt");
    make_file("epoch_12.pt");
    make_file("epoch_x.txt");
    make_file(".epoch_3.pt");
    expect_found("epoch_*.pt", "epoch_1.pt epoch_12.pt");
    expect_found("epoch_?.pt", "epoch_1.pt");
    expect_found("epoch_[x].*", "epoch_x.txt");
    expect_found("./epoch_1.pt", "epoch_1.pt");
}

static void folders_by_pattern_are_found_and_not_what_is_in_them(void **state)
{
    (void)state;
    make_file("runs/a/checkpoint-5/model.bin");
    make_file("runs/a/checkpoint-10/model.bin");
    make_file("runs/b/checkpoint-5/model.bin");
    make_file("runs/b/other/model.bin");
    expect_found("runs/*/checkpoint-*", "runs/a/checkpoint-10 runs/a/checkpoint-5 runs/b/checkpoint-5");
}

static void two_stars_stand_for_any_number_of_folders(void **state)
{
    (void)state;
    make_file("deep/a.pt");
    make_file("deep/1/b.pt");
    make_file("deep/1/2/c.pt");
    make_file("deep/.hidden/d.pt");
    expect_found("deep/**/*.pt", "deep/1/2/c.pt deep/1/b.pt deep/a.pt");
    expect_found("deep/**", "deep/1/2/c.pt deep/1/b.pt deep/a.pt");
}

static void a_name_that_exists_is_no_pattern(void **state)
{
    (void)state;
    make_file("a[1].pt");
    make_file("a1.pt");
    expect_found("a[1].pt", "a[1].pt");
}

static void links_are_followed_only_where_they_are_written_out(void **state)
{
    (void)state;
    make_file("real/one.ckpt");
    assert_int_equal(symlink("one.ckpt", "real/last.ckpt"), 0);
    assert_int_equal(symlink("real", "link"), 0);
    expect_found("real/*.ckpt", "real/one.ckpt");
    expect_found("link/*.ckpt", "link/one.ckpt");
    expect_found("real/last.ckpt", "real/last.ckpt");
}

static void stores_and_temporary_files_are_never_found(void **state)
{
    (void)state;
    make_file("s/.ckpt/config.ini");
    make_file("s/.ckpt/packs/x.pack");
    make_file("s/model.pt");
    make_file("s/model.pt.4711.0123456789abcdef.tmp");
    expect_found("s/.*", "");
    expect_found("s/.*/packs/*", "");
    expect_found("s/**", "s/model.pt");
}

static void where_nothing_is_yet_the_deepest_folder_is_told(void **state)
{
    (void)state;
    MUST(dir_make_all("later", ERR));
    assert_string_equal(scan("later/runs/x/checkpoint-*").folders, "later");
    assert_string_equal(scan("later/runs/x/checkpoint-*").found, "");
    make_file("later/runs/x/checkpoint-1/a");
    assert_string_equal(scan("later/runs/x/checkpoint-*").folders, "later/runs/x");
}

static void paths_fit_as_the_scan_finds_them(void **state)
{
    (void)state;
    assert_true(fits("runs/*/checkpoint-*", "runs/a/checkpoint-5"));
    assert_false(fits("runs/*/checkpoint-*", "runs/a/b/checkpoint-5"));
    assert_false(fits("runs/*/checkpoint-*", "runs/a/checkpoint-5/model.bin"));
    assert_true(fits("runs/**/*.pt", "runs/x.pt"));
    assert_true(fits("runs/**/*.pt", "runs/1/2/3/x.pt"));
    assert_false(fits("runs/**/*.pt", "runs/.hidden/x.pt"));
    assert_true(fits("./**", "a/b"));
    assert_false(fits("/a/*", "a/b"));
}

static void what_is_no_pattern_is_refused(void **state)
{
    (void)state;
    static const char *const WRONG[] = {"", ".", "/", "**/a/**/b/**/c/**/d/**/e"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        watch_glob *g = NULL;
        ckpt_error err = {0};
        assert_int_equal(watch_glob_new(&g, WRONG[i], &err), CKPT_EUSAGE);
        assert_null(g);
    }
}

static void a_path_fits_itself_alone(void **state)
{
    (void)state;
    assert_true(fits("runs/last.pt", "runs/last.pt"));
    assert_false(fits("runs/last.pt", "runs/lost.pt"));
    assert_false(fits("runs/last.pt", "last.pt"));
}

static void what_lies_thirty_folders_down_is_found(void **state)
{
    (void)state;
    char path[256] = "down", pattern[256] = "down";
    for (size_t i = 0; i < 29; i++) {
        snprintf(path + 4 + 2 * i, sizeof path - 4 - 2 * i, "/d");
        snprintf(pattern + 4 + 2 * i, sizeof pattern - 4 - 2 * i, "/?");
    }
    strncat(path, "/x.pt", sizeof path - strlen(path) - 1);
    strncat(pattern, "/*.pt", sizeof pattern - strlen(pattern) - 1);
    make_file(path);
    expect_found(pattern, path);
    expect_found("down/**/*.pt", path);
    assert_true(fits(pattern, path));
    assert_true(fits("down/**/*.pt", path));
}

static void patterns_up_to_their_limits_are_taken(void **state)
{
    (void)state;
    char text[WATCH_GLOB_MAX + 2];
    watch_glob *g = NULL;
    memset(text, 'x', sizeof text);
    text[WATCH_GLOB_MAX + 1] = 0;
    assert_int_equal(watch_glob_new(&g, text, NULL), CKPT_EUSAGE);
    text[WATCH_GLOB_MAX] = 0;
    MUST(watch_glob_new(&g, text, ERR));
    watch_glob_free(g);
    MUST(watch_glob_new(&g, "**/a/**/b/**/c/**", ERR));
    watch_glob_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_within_one_folder),
        cmocka_unit_test(folders_by_pattern_are_found_and_not_what_is_in_them),
        cmocka_unit_test(two_stars_stand_for_any_number_of_folders),
        cmocka_unit_test(a_name_that_exists_is_no_pattern),
        cmocka_unit_test(links_are_followed_only_where_they_are_written_out),
        cmocka_unit_test(stores_and_temporary_files_are_never_found),
        cmocka_unit_test(where_nothing_is_yet_the_deepest_folder_is_told),
        cmocka_unit_test(paths_fit_as_the_scan_finds_them),
        cmocka_unit_test(what_is_no_pattern_is_refused),
        cmocka_unit_test(a_path_fits_itself_alone),
        cmocka_unit_test(what_lies_thirty_folders_down_is_found),
        cmocka_unit_test(patterns_up_to_their_limits_are_taken),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
