#include "watch_mark.h"

#include "file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "temp_dir.h"

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

static void write_file(const char *path, const char *text)
{
    FILE *const f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* As if it had been written at that second. */
static void set_time(const char *path, time_t seconds)
{
    const struct timespec times[] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static watch_mark take(const char *path)
{
    watch_mark mark;
    bool folder;
    MUST(watch_mark_take(&mark, &folder, path, NULL, NULL, ERR));
    return mark;
}

static bool same(watch_mark a, watch_mark b)
{
    return watch_mark_equal(&a, &b);
}

static void a_file_is_told_by_size_time_and_inode(void **state)
{
    (void)state;
    write_file("a", "one");
    set_time("a", 1000);
    const watch_mark first = take("a");
    assert_int_equal(first.size, 3);
    assert_int_equal(first.mtime_ns, INT64_C(1000000000000));
    assert_true(same(first, take("a")));
    set_time("a", 1001);
    assert_false(same(first, take("a")));
    write_file("a", "four");
    set_time("a", 1000);
    assert_false(same(first, take("a")));
    write_file("b", "one"); /* another file under the name */
    set_time("b", 1000);
    assert_int_equal(rename("b", "a"), 0);
    assert_false(same(first, take("a")));
}

static void a_folder_is_told_by_all_below_it(void **state)
{
    (void)state;
    MUST(dir_make_all("f/sub", ERR));
    write_file("f/sub/x", "one");
    set_time("f/sub/x", 1000);
    const watch_mark first = take("f");
    assert_int_equal(first.size, 3);
    assert_true(same(first, take("f")));
    set_time("f/sub/x", 999); /* older: not even the newest time changes */
    assert_false(same(first, take("f")));
    set_time("f/sub/x", 1000);
    assert_true(same(first, take("f")));
    assert_int_equal(rename("f/sub/x", "f/sub/y"), 0);
    assert_false(same(first, take("f")));
}

static int list_folder(void *payload, const char *path, ckpt_error *err)
{
    char *const list = payload;
    (void)err;
    strncat(list, path, 200 - strlen(list));
    strncat(list, " ", 200 - strlen(list));
    return 0;
}

static void folders_in_a_folder_are_told(void **state)
{
    (void)state;
    watch_mark mark;
    bool folder;
    char list[256] = "";
    MUST(dir_make_all("g/one/two", ERR));
    MUST(watch_mark_take(&mark, &folder, "g", list_folder, list, ERR));
    assert_true(folder);
    assert_string_equal(list, "g g/one g/one/two ");
}

static void what_is_not_there_is_not_found(void **state)
{
    (void)state;
    watch_mark mark;
    bool folder;
    ckpt_error err = {0};
    assert_int_equal(watch_mark_take(&mark, &folder, "nothing", NULL, NULL, &err), CKPT_ENOTFOUND);
}

static void only_folders_are_told(void **state)
{
    (void)state;
    watch_mark mark;
    bool folder;
    char list[256] = "";
    MUST(dir_make_all("h/sub", ERR));
    write_file("h/file", "one");
    MUST(watch_mark_take(&mark, &folder, "h", list_folder, list, ERR));
    assert_string_equal(list, "h h/sub ");
}

static int remove_folder(void *payload, const char *path, ckpt_error *err)
{
    (void)payload;
    (void)err;
    if (strcmp(path, "i/sub") == 0)
        assert_int_equal(rmdir(path), 0);
    return 0;
}

static void a_folder_that_goes_away_meanwhile_is_passed_over(void **state)
{
    (void)state;
    watch_mark mark;
    bool folder;
    MUST(dir_make_all("i/sub", ERR));
    MUST(watch_mark_take(&mark, &folder, "i", remove_folder, NULL, ERR));
    assert_true(folder);
}

static void a_change_thirty_folders_down_is_seen(void **state)
{
    (void)state;
    char path[256] = "j";
    for (size_t i = 0; i < 30; i++)
        snprintf(path + 1 + 2 * i, sizeof path - 1 - 2 * i, "/d");
    MUST(dir_make_all(path, ERR));
    const watch_mark first = take("j");
    snprintf(path + strlen(path), sizeof path - strlen(path), "/new");
    write_file(path, "one");
    assert_false(same(first, take("j")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_told_by_size_time_and_inode),
        cmocka_unit_test(a_folder_is_told_by_all_below_it),
        cmocka_unit_test(folders_in_a_folder_are_told),
        cmocka_unit_test(what_is_not_there_is_not_found),
        cmocka_unit_test(only_folders_are_told),
        cmocka_unit_test(a_folder_that_goes_away_meanwhile_is_passed_over),
        cmocka_unit_test(a_change_thirty_folders_down_is_seen),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
