#include "watch_events.h"

#include "file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "temp_dir.h"

#define LIST_SIZE 4096

static char dir[TEMP_PATH_MAX];
static watch_events *events;

static int setup(void **state)
{
    (void)state;
    if (temp_dir_make(dir) || chdir(dir) || mkdir("f", 0777) || watch_events_new(&events, NULL))
        return -1;
    return watch_events_add(events, "f", NULL) || watch_events_add(events, ".", NULL);
}

static int teardown(void **state)
{
    (void)state;
    watch_events_free(events);
    return chdir("/") || temp_dir_remove(dir);
}

static void on_event(void *payload, watch_event event, const char *path)
{
    static const char *const NAMES[] = {"closed", "written", "changed", "folder", "lost"};
    char *const list = payload;
    const size_t used = strlen(list);
    char one[256];
    snprintf(one, sizeof one, "%s %s\n", NAMES[event], path);
    const size_t last = strlen(one);
    if (used < last || strcmp(list + used - last, one) != 0) /* each once, however often the kernel says it */
        snprintf(list + used, LIST_SIZE - used, "%s", one);
}

static const char *take(char list[LIST_SIZE])
{
    list[0] = 0;
    MUST(watch_events_take(events, on_event, list, ERR));
    return list;
}

static void a_file_is_written_then_closed(void **state)
{
    (void)state;
    char list[LIST_SIZE];
    const int fd = open("f/a", O_WRONLY | O_CREAT, 0666);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_string_equal(take(list), "changed f/a\nwritten f/a\n");
    close(fd);
    assert_string_equal(take(list), "closed f/a\n");
}

static void reading_is_no_event(void **state)
{
    (void)state;
    char list[LIST_SIZE], byte;
    const int fd = open("f/a", O_RDONLY);
    assert_int_equal(read(fd, &byte, 1), 1);
    close(fd);
    assert_string_equal(take(list), "");
}

static void a_file_that_is_moved_to_a_name_is_closed_there(void **state)
{
    (void)state;
    char list[LIST_SIZE];
    assert_int_equal(rename("f/a", "f/b"), 0);
    assert_string_equal(take(list), "changed f/a\nclosed f/b\n");
}

static void paths_in_the_current_folder_have_no_dot(void **state)
{
    (void)state;
    char list[LIST_SIZE];
    assert_int_equal(rename("f/b", "c"), 0);
    assert_string_equal(take(list), "changed f/b\nclosed c\n");
}

static void a_new_folder_is_told_of_the_one_it_is_in(void **state)
{
    (void)state;
    char list[LIST_SIZE];
    assert_int_equal(mkdir("f/new", 0777), 0);
    assert_string_equal(take(list), "folder f\nchanged f/new\n");
}

static void a_folder_that_is_renamed_keeps_its_events(void **state)
{
    (void)state;
    char list[LIST_SIZE];
    MUST(watch_events_add(events, "f/new", ERR));
    assert_int_equal(rename("f/new", "f/other"), 0);
    MUST(watch_events_add(events, "f/other", ERR));
    (void)take(list);
    const int fd = open("f/other/x", O_WRONLY | O_CREAT, 0666);
    close(fd);
    assert_non_null(strstr(take(list), "closed f/other/x\n"));
}

static void a_folder_that_is_not_there_cannot_be_watched(void **state)
{
    (void)state;
    ckpt_error err = {0};
    assert_int_equal(watch_events_add(events, "nothing", &err), CKPT_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_written_then_closed),
        cmocka_unit_test(reading_is_no_event),
        cmocka_unit_test(a_file_that_is_moved_to_a_name_is_closed_there),
        cmocka_unit_test(paths_in_the_current_folder_have_no_dot),
        cmocka_unit_test(a_new_folder_is_told_of_the_one_it_is_in),
        cmocka_unit_test(a_folder_that_is_renamed_keeps_its_events),
        cmocka_unit_test(a_folder_that_is_not_there_cannot_be_watched),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
