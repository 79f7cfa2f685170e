#include "lease_record.h"

#include "file.h"
#include "temp_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char dir[TEMP_PATH_MAX];
static char path[FILE_PATH_MAX];

static int setup(void **state)
{
    (void)state;
    return temp_dir_make(dir) || path_join(path, dir, "job", NULL);
}

static int teardown(void **state)
{
    (void)state;
    return temp_dir_remove(dir);
}

/* What a reader makes of a file with this text. */
static lease_record read_text(const char *text)
{
    lease_record record;
    int fd = -1;
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(file_open(&fd, NULL, path, NULL), 0);
    assert_int_equal(lease_record_read(&record, fd, path, NULL), 0);
    file_close(&fd);
    return record;
}

static void a_record_is_read_as_the_header_shows_it(void **state)
{
    (void)state;
    const lease_record r = read_text("ckpt lease 1\ncounter 00000000000000a7\nkind lock\ntoken 6e0f\nstale_ms 20000\n"
                                     "pid 4711\nhost gpu-7\n");
    assert_true(r.by_lock);
    assert_string_equal(r.token, "6e0f");
    assert_int_equal(r.stale_ms, 20000);
    assert_int_equal(r.pid, 4711);
    assert_string_equal(r.host, "gpu-7");
}

static void a_written_record_is_read_back(void **state)
{
    (void)state;
    lease_record mine;
    assert_int_equal(lease_record_new(&mine, false, 1234, NULL), 0);
    const lease_record r = read_text(mine.text);
    assert_false(r.by_lock);
    assert_string_equal(r.token, mine.token);
    assert_int_equal(strlen(r.token), 32);
    assert_int_equal(r.stale_ms, 1234);
    assert_int_equal(r.pid, getpid());
}

static void the_size_does_not_depend_on_the_counter(void **state)
{
    (void)state;
    lease_record mine;
    assert_int_equal(lease_record_new(&mine, true, 1234, NULL), 0);
    const size_t size = mine.size;
    mine.counter = UINT64_MAX;
    lease_record_format(&mine);
    assert_int_equal(mine.size, size);
}

static void tokens_differ(void **state)
{
    (void)state;
    lease_record one, two;
    assert_int_equal(lease_record_new(&one, true, 1, NULL), 0);
    assert_int_equal(lease_record_new(&two, true, 1, NULL), 0);
    assert_string_not_equal(one.token, two.token);
}

static void something_else_has_no_token(void **state)
{
    (void)state;
    assert_string_equal(read_text("").token, "");
    assert_string_equal(read_text("ckpt lease 2\ntoken 6e0f\n").token, "");
    assert_string_equal(read_text("hello\ntoken 6e0f\n").token, "");
}

static void a_hostile_record_stays_within_its_limits(void **state)
{
    (void)state;
    char text[2 * LEASE_RECORD_SIZE_MAX];
    const lease_record r = read_text("ckpt lease 1\ntoken 0123456789abcdef0123456789abcdef0\n"
                                     "stale_ms 4294967295\npid 99999999999999999999999\n");
    assert_string_equal(r.token, ""); /* too long */
    assert_int_equal(r.stale_ms, LEASE_STALE_MS_MAX);
    assert_int_equal(r.pid, 0);
    assert_int_equal(read_text("ckpt lease 1\nstale_ms -1\n").stale_ms, 0);

    memset(text, 'h', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text, "ckpt lease 1\nhost ", 18);
    const lease_record endless = read_text(text);
    assert_int_equal(endless.size, LEASE_RECORD_SIZE_MAX);
    assert_string_equal(endless.host, "");
}

static void a_change_is_a_sign_of_life(void **state)
{
    (void)state;
    static lease_watch watch;
    lease_record r = read_text("ckpt lease 1\ncounter 1\n");
    assert_false(lease_watch_stale(&watch, &r, 0)); /* the first look */
    assert_false(watch.changed);
    assert_true(lease_watch_stale(&watch, &r, 0)); /* stood still for 0 ms */
    r = read_text("ckpt lease 1\ncounter 2\n");
    assert_false(lease_watch_stale(&watch, &r, 0));
    assert_true(watch.changed);
    assert_false(lease_watch_stale(&watch, &r, 60000));
}

static void the_file_of_the_dead_is_taken_away(void **state)
{
    (void)state;
    const lease_record dead = read_text("ckpt lease 1\ncounter 1\n");
    assert_int_equal(lease_record_break(path, &dead, NULL), 0);
    assert_int_equal(rmdir(dir), 0); /* nothing is left */
    assert_int_equal(mkdir(dir, 0700), 0);
}

static void a_file_that_is_already_gone_is_no_error(void **state)
{
    (void)state;
    const lease_record dead = read_text("ckpt lease 1\ncounter 1\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(lease_record_break(path, &dead, NULL), 0);
}

static void the_file_of_a_quicker_watcher_is_put_back(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size;
    const lease_record dead = read_text("ckpt lease 1\ncounter 1\n");
    read_text("ckpt lease 1\ncounter 2\n");
    assert_int_equal(lease_record_break(path, &dead, NULL), 0);
    assert_int_equal(file_read_all(&text, &size, path, 100, NULL), 0);
    assert_string_equal(text, "ckpt lease 1\ncounter 2\n");
    free(text);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0); /* nothing is left beside it */
    assert_int_equal(mkdir(dir, 0700), 0);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(a_record_is_read_as_the_header_shows_it),
        IN_DIR(a_written_record_is_read_back),
        IN_DIR(the_size_does_not_depend_on_the_counter),
        IN_DIR(tokens_differ),
        IN_DIR(something_else_has_no_token),
        IN_DIR(a_hostile_record_stays_within_its_limits),
        IN_DIR(a_change_is_a_sign_of_life),
        IN_DIR(the_file_of_the_dead_is_taken_away),
        IN_DIR(a_file_that_is_already_gone_is_no_error),
        IN_DIR(the_file_of_a_quicker_watcher_is_put_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
