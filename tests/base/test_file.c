#include "file.h"
#include "temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char dir[TEMP_PATH_MAX];

static int setup(void **state)
{
    (void)state;
    umask(022);
    return temp_dir_make(dir);
}

static int teardown(void **state)
{
    (void)state;
    return temp_dir_remove(dir);
}

/* A path in the folder of this test. Two at a time. */
static const char *in_dir(const char *name)
{
    static char paths[2][FILE_PATH_MAX];
    static unsigned turn;
    char *const path = paths[turn++ % 2];
    assert_int_equal(path_join(path, dir, name, NULL), 0);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *const file = fopen(in_dir(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void assert_holds(const char *name, const char *text)
{
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(file_read_all(&data, &size, in_dir(name), 1000, NULL), 0);
    assert_int_equal(size, strlen(text));
    assert_string_equal(data, text);
    free(data);
}

static int count_one(void *payload, const char *name, ckpt_error *err)
{
    (void)name, (void)err;
    ++*(int *)payload;
    return 0;
}

static int entries(void)
{
    int count = 0;
    assert_int_equal(dir_each(dir, count_one, &count, NULL), 0);
    return count;
}

static unsigned mode_of(const char *name)
{
    struct stat st;
    assert_int_equal(stat(in_dir(name), &st), 0);
    return st.st_mode & 07777;
}

/* ---- paths ---- */

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

static void tmp_is_discarded_without_a_trace(void **state)
{
    (void)state;
    file_tmp tmp = {0};
    assert_int_equal(file_tmp_open(&tmp, dir, "a.pack", NULL), 0);
    assert_int_equal(file_tmp_write(&tmp, "abc", 3, NULL), 0);
    assert_int_equal(tmp.size_bytes, 3);
    assert_int_equal(entries(), 1);
    file_tmp_discard(&tmp);
    assert_int_equal(entries(), 0);
}

static void tmp_discard_of_a_zeroed_one_closes_nothing(void **state)
{
    (void)state;
    file_tmp tmp = {0};
    const int before = fcntl(0, F_GETFD);
    file_tmp_discard(&tmp);
    assert_int_equal(fcntl(0, F_GETFD), before);
}

static void tmp_name_shows_stem_and_ends_in_tmp(void **state)
{
    (void)state;
    file_tmp tmp = {0};
    char expected[64];
    snprintf(expected, sizeof expected, "model.pt.%ld.", (long)getpid());
    assert_int_equal(file_tmp_open(&tmp, dir, "model.pt", NULL), 0);
    assert_memory_equal(path_base(tmp.path), expected, strlen(expected));
    assert_string_equal(tmp.path + strlen(tmp.path) - 4, ".tmp");
    file_tmp_discard(&tmp);
}

static void tmp_takes_a_stem_as_long_as_a_name_can_be(void **state)
{
    (void)state;
    file_tmp tmp = {0};
    char stem[256];
    for (size_t i = 0; i < 255; i += 3)
        memcpy(stem + i, "\xe4\xb8\x96", 3);
    stem[255] = '\0';
    assert_int_equal(file_tmp_open(&tmp, dir, stem, NULL), 0);
    assert_int_equal(path_base(tmp.path)[63], '.'); /* 21 whole characters */
    file_tmp_discard(&tmp);
}

static void tmp_in_a_missing_folder_is_not_found(void **state)
{
    (void)state;
    file_tmp tmp = {0};
    assert_int_equal(file_tmp_open(&tmp, in_dir("none"), "a", NULL), CKPT_ENOTFOUND);
    assert_int_equal(tmp.fd, -1);
    file_tmp_discard(&tmp);
}

/* ---- commit ---- */

static void add(file_commit_plan *plan, const char *text, const char *name, bool replace)
{
    file_tmp tmp = {0};
    assert_int_equal(file_tmp_open(&tmp, dir, "t", NULL), 0);
    assert_int_equal(file_tmp_write(&tmp, text, strlen(text), NULL), 0);
    assert_int_equal(file_commit_add(plan, &tmp, in_dir(name), replace, NULL), 0);
    assert_int_equal(tmp.fd, -1);
    file_tmp_discard(&tmp);
}

static void commit_puts_all_files_in_place(void **state)
{
    (void)state;
    file_commit_plan plan = {0};
    assert_int_equal(dir_make(in_dir("packs"), NULL), 0);
    add(&plan, "one", "packs/a", false);
    add(&plan, "two", "b", false);
    assert_int_equal(file_commit(&plan, NULL), 0);
    assert_holds("packs/a", "one");
    assert_holds("b", "two");
    assert_int_equal(entries(), 2); /* the folder and b: no temporary file is left */
    assert_false(plan.sync_unsupported);
    file_commit_discard(&plan);
    assert_holds("b", "two");
}

static void commit_keeps_a_content_named_file_that_exists(void **state)
{
    (void)state;
    file_commit_plan plan = {0};
    put("a", "old");
    add(&plan, "new", "a", false);
    assert_int_equal(file_commit(&plan, NULL), 0);
    assert_holds("a", "old");
    assert_int_equal(entries(), 1);
}

static void commit_replaces_when_told(void **state)
{
    (void)state;
    file_commit_plan plan = {0};
    put("a", "old");
    add(&plan, "new", "a", true);
    assert_int_equal(file_commit(&plan, NULL), 0);
    assert_holds("a", "new");
    assert_int_equal(entries(), 1);
}

static void commit_that_fails_leaves_earlier_files_and_no_rest(void **state)
{
    (void)state;
    file_commit_plan plan = {0};
    add(&plan, "one", "a", false);
    add(&plan, "two", "none/b", false);
    add(&plan, "three", "c", false);
    assert_int_equal(file_commit(&plan, NULL), CKPT_ENOTFOUND);
    assert_holds("a", "one");
    assert_int_equal(entries(), 1);
}

static void commit_in_any_order_puts_all_files_in_place(void **state)
{
    (void)state;
    file_commit_plan plan = {.any_order = true};
    assert_int_equal(dir_make(in_dir("sub"), NULL), 0);
    add(&plan, "one", "b", true);
    add(&plan, "two", "sub/a", true);
    add(&plan, "three", "a", true);
    assert_int_equal(file_commit(&plan, NULL), 0);
    assert_holds("b", "one");
    assert_holds("sub/a", "two");
    assert_holds("a", "three");
    assert_int_equal(entries(), 3);
}

static void commit_discarded_leaves_nothing(void **state)
{
    (void)state;
    file_commit_plan plan = {0};
    add(&plan, "one", "a", false);
    file_commit_discard(&plan);
    assert_int_equal(entries(), 0);
    file_commit_discard(&plan);
}

static void commit_takes_sealed_files(void **state)
{
    (void)state;
    file_commit_plan plan = {0};
    file_tmp tmp = {0};
    assert_int_equal(file_tmp_open(&tmp, dir, "t", NULL), 0);
    assert_int_equal(file_tmp_write(&tmp, "one", 3, NULL), 0);
    assert_int_equal(file_tmp_seal(&tmp, NULL), 0);
    assert_int_equal(tmp.fd, -1);
    assert_int_equal(file_commit_add(&plan, &tmp, in_dir("a"), false, NULL), 0);
    assert_int_equal(file_commit(&plan, NULL), 0);
    assert_holds("a", "one");
}

static void new_files_have_the_mode_that_the_umask_leaves(void **state)
{
    (void)state;
    umask(002); /* a group that works in one folder */
    assert_int_equal(file_replace(in_dir("a"), dir, "x", 1, NULL), 0);
    assert_int_equal(mode_of("a"), 0664);
    umask(077);
    assert_int_equal(file_replace(in_dir("b"), dir, "x", 1, NULL), 0);
    assert_int_equal(mode_of("b"), 0600);
}

static void replace_keeps_the_mode_of_the_file_before(void **state)
{
    (void)state;
    put("a", "secret");
    assert_int_equal(chmod(in_dir("a"), 0600), 0);
    assert_int_equal(file_replace(in_dir("a"), dir, "new", 3, NULL), 0);
    assert_holds("a", "new");
    assert_int_equal(mode_of("a"), 0600);
}

static void replace_of_a_link_leaves_its_target_alone(void **state)
{
    (void)state;
    put("target", "old");
    assert_int_equal(symlink("target", in_dir("a")), 0);
    assert_int_equal(file_replace(in_dir("a"), dir, "new", 3, NULL), 0);
    assert_holds("target", "old");
    assert_holds("a", "new");
}

static void link_takes_the_place_of_a_file(void **state)
{
    (void)state;
    char target[16] = {0};
    put("a", "old");
    assert_int_equal(file_link(in_dir("a"), "elsewhere", NULL), 0);
    assert_int_equal(readlink(in_dir("a"), target, sizeof target - 1), strlen("elsewhere"));
    assert_string_equal(target, "elsewhere");
    assert_int_equal(entries(), 1);
}

static void link_that_fails_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir("a"), 0777), 0);
    assert_int_equal(file_link(in_dir("a"), "elsewhere", NULL), CKPT_EIO);
    assert_int_equal(entries(), 1);
}

static void move_aside_can_be_done_once(void **state)
{
    (void)state;
    char aside[FILE_PATH_MAX];
    put("a", "old");
    assert_int_equal(file_move_aside(aside, in_dir("a"), NULL), 0);
    assert_holds(path_base(aside), "old");
    assert_int_equal(file_move_aside(aside, in_dir("a"), NULL), CKPT_ENOTFOUND);
}

static void remove_of_a_missing_file_is_no_error(void **state)
{
    (void)state;
    put("a", "old");
    assert_int_equal(file_remove(in_dir("a"), NULL), 0);
    assert_int_equal(entries(), 0);
    assert_int_equal(file_remove(in_dir("a"), NULL), 0);
}

static void free_space_is_told(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    assert_int_equal(file_space_free(&bytes, dir, NULL), 0);
    assert_int_equal(file_space_free(&bytes, in_dir("none"), NULL), CKPT_ENOTFOUND);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

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
        IN_DIR(make_all_makes_parents_and_accepts_what_is_there),
        IN_DIR(make_refuses_a_file_in_the_place_of_a_folder),
        IN_DIR(each_stops_when_told),
        IN_DIR(sync_of_a_missing_folder_fails),
        IN_DIR(sync_that_the_file_cannot_do_is_noted_not_fatal),
        IN_DIR(sync_that_fails_is_an_error),
        IN_DIR(tmp_is_discarded_without_a_trace),
        IN_DIR(tmp_discard_of_a_zeroed_one_closes_nothing),
        IN_DIR(tmp_name_shows_stem_and_ends_in_tmp),
        IN_DIR(tmp_takes_a_stem_as_long_as_a_name_can_be),
        IN_DIR(tmp_in_a_missing_folder_is_not_found),
        IN_DIR(commit_puts_all_files_in_place),
        IN_DIR(commit_keeps_a_content_named_file_that_exists),
        IN_DIR(commit_replaces_when_told),
        IN_DIR(commit_that_fails_leaves_earlier_files_and_no_rest),
        IN_DIR(commit_discarded_leaves_nothing),
        IN_DIR(commit_in_any_order_puts_all_files_in_place),
        IN_DIR(commit_takes_sealed_files),
        IN_DIR(new_files_have_the_mode_that_the_umask_leaves),
        IN_DIR(replace_keeps_the_mode_of_the_file_before),
        IN_DIR(replace_of_a_link_leaves_its_target_alone),
        IN_DIR(link_takes_the_place_of_a_file),
        IN_DIR(link_that_fails_leaves_nothing),
        IN_DIR(move_aside_can_be_done_once),
        IN_DIR(remove_of_a_missing_file_is_no_error),
        IN_DIR(free_space_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
