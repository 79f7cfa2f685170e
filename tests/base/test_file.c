#include "file_fixture.h"

#include <errno.h>
#include <fcntl.h>

static void join_puts_one_slash_between(void **state)
{
    (void)state;
    char out[FILE_PATH_MAX];
    assert_int_equal(path_join(out, "a", "b", NULL), 0);
    assert_string_equal(out, "a/b");
    assert_int_equal(path_join(out, "/", "b", NULL), 0);
    assert_string_equal(out, "/b");
    assert_int_equal(path_join(out, "", "b", NULL), 0);
    assert_string_equal(out, "b");
    assert_int_equal(path_join(out, out, "c", NULL), 0);
    assert_string_equal(out, "b/c");
}

static void join_refuses_what_does_not_fit(void **state)
{
    (void)state;
    char out[FILE_PATH_MAX], name[FILE_PATH_MAX];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(path_join(out, "a", name, NULL), CKPT_EUSAGE);
    name[sizeof name - 1 - 2] = '\0'; /* "a/" and this are exactly FILE_PATH_MAX - 1 */
    assert_int_equal(path_join(out, "a", name, NULL), 0);
}

static void base_is_the_last_component(void **state)
{
    (void)state;
    assert_string_equal(path_base("a/b"), "b");
    assert_string_equal(path_base("b"), "b");
    assert_string_equal(path_base("a/b/"), "b/");
    assert_string_equal(path_base("/"), "");
    assert_string_equal(path_base(""), "");
}

static void assert_parent(const char *path, const char *expected)
{
    char out[FILE_PATH_MAX];
    assert_int_equal(path_parent(out, path, NULL), 0);
    assert_string_equal(out, expected);
}

static void parent_is_the_folder_as_dirname_says(void **state)
{
    (void)state;
    assert_parent("a/b", "a"); /* expected: what dirname(1) prints */
    assert_parent("a/b/", "a");
    assert_parent("a//b", "a");
    assert_parent("b", ".");
    assert_parent("/b", "/");
    assert_parent("/", "/");
}

/* ---- reading ---- */

static void open_refuses_what_is_not_a_regular_file(void **state)
{
    (void)state;
    int fd = 7;
    assert_int_equal(file_open(&fd, NULL, dir, NULL), CKPT_EUSAGE);
    assert_int_equal(fd, -1);
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    assert_int_equal(file_open(&fd, NULL, in_dir("fifo"), NULL), CKPT_EUSAGE); /* and does not wait for a writer */
    assert_int_equal(file_open(&fd, NULL, "/dev/null", NULL), CKPT_EUSAGE);
    assert_int_equal(file_open(&fd, NULL, in_dir("none"), NULL), CKPT_ENOTFOUND);
}

static void read_at_gives_exactly_the_range(void **state)
{
    (void)state;
    int fd = -1;
    uint64_t size = 0;
    char bytes[4] = {0};
    put("a", "0123456789");
    assert_int_equal(file_open(&fd, &size, in_dir("a"), NULL), 0);
    assert_int_equal(size, 10);
    assert_int_equal(file_read_at(bytes, fd, 6, 4, "a", NULL), 0);
    assert_memory_equal(bytes, "6789", 4);
    file_close(&fd);
    assert_int_equal(fd, -1);
}

static void read_behind_the_end_is_damage(void **state)
{
    (void)state;
    int fd = -1;
    char bytes[4];
    ckpt_error err = {0};
    put("a", "0123456789");
    assert_int_equal(file_open(&fd, NULL, in_dir("a"), NULL), 0);
    assert_int_equal(file_read_at(bytes, fd, 7, 4, "a", &err), CKPT_EDATA);
    assert_string_equal(err.message, "read a: ends after 10 bytes, 11 expected");
    assert_int_equal(file_read_at(bytes, fd, UINT64_MAX - 1, 4, "a", NULL), CKPT_EDATA);
    assert_int_equal(file_read_at(bytes, fd, 10, 0, "a", NULL), 0);
    file_close(&fd);
}

static void read_all_takes_a_file_as_long_as_the_limit(void **state)
{
    (void)state;
    char *data = NULL;
    size_t size = 0;
    put("a", "0123456789");
    assert_int_equal(file_read_all(&data, &size, in_dir("a"), 10, NULL), 0);
    assert_int_equal(size, 10);
    assert_string_equal(data, "0123456789");
    free(data);
}

static void read_all_refuses_a_longer_file(void **state)
{
    (void)state;
    char *data = NULL;
    size_t size = 0;
    put("a", "0123456789");
    assert_int_equal(file_read_all(&data, &size, in_dir("a"), 9, NULL), CKPT_EDATA);
    assert_null(data);
}

static void read_all_gives_an_empty_file_its_zero_byte(void **state)
{
    (void)state;
    char *data = NULL;
    size_t size = 1;
    put("a", "");
    assert_int_equal(file_read_all(&data, &size, in_dir("a"), 10, NULL), 0);
    assert_int_equal(size, 0);
    assert_string_equal(data, "");
    free(data);
}

static void read_all_does_not_trust_the_size_that_stat_tells(void **state)
{
    (void)state;
    char *data = NULL;
    size_t size = 0;
    /* Files of /proc say 0. */
    assert_int_equal(file_read_all(&data, &size, "/proc/version", 1 << 20, NULL), 0);
    assert_true(size > strlen("Linux version \n"));
    assert_int_equal(data[size - 1], '\n');
    free(data);
}

/* ---- folders ---- */

static void write_at_changes_exactly_the_range(void **state)
{
    (void)state;
    put("a", "0123456789");
    const int fd = open(in_dir("a"), O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(file_write_at(fd, 3, "abc", 3, "a", NULL), 0);
    assert_int_equal(file_write_at(fd, 12, "z", 1, "a", NULL), 0);
    close(fd);
    const int read_only = open(in_dir("a"), O_RDONLY);
    assert_int_equal(file_write_at(read_only, 0, "x", 1, "a", NULL), CKPT_EIO);
    char bytes[13];
    assert_int_equal(file_read_at(bytes, read_only, 0, sizeof bytes, "a", NULL), 0);
    assert_memory_equal(bytes, "012abc6789\0\0z", sizeof bytes);
    close(read_only);
}

static void make_all_makes_parents_and_accepts_what_is_there(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(dir_make_all(in_dir("xx/y//z/"), NULL), 0);
    assert_int_equal(stat(in_dir("xx/y/z"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0755);
    assert_int_equal(dir_make_all(in_dir("xx/y/z"), NULL), 0);
    assert_int_equal(dir_make(in_dir("xx"), NULL), 0);
    assert_int_equal(entries(), 1);
}

static void make_refuses_a_file_in_the_place_of_a_folder(void **state)
{
    (void)state;
    ckpt_error err = {0};
    put("a", "");
    assert_int_equal(dir_make(in_dir("a"), &err), CKPT_EIO);
    assert_int_equal(err.sys_errno, ENOTDIR);
    assert_int_equal(dir_make(in_dir("none/b"), NULL), CKPT_ENOTFOUND);
}

static int stop_at_first(void *payload, const char *name, ckpt_error *err)
{
    (void)name, (void)err;
    ++*(int *)payload;
    return CKPT_EDIFFER;
}

static void each_stops_when_told(void **state)
{
    (void)state;
    int calls = 0;
    put("a", "");
    put("b", "");
    assert_int_equal(entries(), 2);
    assert_int_equal(dir_each(dir, stop_at_first, &calls, NULL), CKPT_EDIFFER);
    assert_int_equal(calls, 1);
}

static void sync_of_a_missing_folder_fails(void **state)
{
    (void)state;
    bool unsupported = false;
    assert_int_equal(dir_sync(in_dir("none"), &unsupported, NULL), CKPT_ENOTFOUND);
    assert_int_equal(dir_sync(dir, &unsupported, NULL), 0);
    assert_false(unsupported);
}

static void sync_that_the_file_cannot_do_is_noted_not_fatal(void **state)
{
    (void)state;
    bool unsupported = false;
    int ends[2];
    assert_int_equal(pipe(ends), 0); /* Linux: EINVAL, as some FUSE answer for folders */
    assert_int_equal(file_sync(ends[1], &unsupported, "pipe", NULL), 0);
    assert_true(unsupported);
    close(ends[0]);
    close(ends[1]);
}

static void sync_that_fails_is_an_error(void **state)
{
    (void)state;
    bool unsupported = false;
    ckpt_error err = {0};
    assert_int_equal(file_sync(-1, &unsupported, "a", &err), CKPT_EIO);
    assert_int_equal(err.sys_errno, EBADF);
    assert_false(unsupported);
}

/* ---- temporary files ---- */

static void free_space_is_told(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    assert_int_equal(file_space_free(&bytes, dir, NULL), 0);
    assert_int_equal(file_space_free(&bytes, in_dir("none"), NULL), CKPT_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join_puts_one_slash_between),
        cmocka_unit_test(join_refuses_what_does_not_fit),
        cmocka_unit_test(base_is_the_last_component),
        cmocka_unit_test(parent_is_the_folder_as_dirname_says),
        IN_DIR(open_refuses_what_is_not_a_regular_file),
        IN_DIR(read_at_gives_exactly_the_range),
        IN_DIR(read_behind_the_end_is_damage),
        IN_DIR(read_all_takes_a_file_as_long_as_the_limit),
        IN_DIR(read_all_refuses_a_longer_file),
        IN_DIR(read_all_gives_an_empty_file_its_zero_byte),
        IN_DIR(read_all_does_not_trust_the_size_that_stat_tells),
        IN_DIR(write_at_changes_exactly_the_range),
        IN_DIR(make_all_makes_parents_and_accepts_what_is_there),
        IN_DIR(make_refuses_a_file_in_the_place_of_a_folder),
        IN_DIR(each_stops_when_told),
        IN_DIR(sync_of_a_missing_folder_fails),
        IN_DIR(sync_that_the_file_cannot_do_is_noted_not_fatal),
        IN_DIR(sync_that_fails_is_an_error),
        IN_DIR(free_space_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
