#include "file_fixture.h"

#include <errno.h>
#include <fcntl.h>

/* In the place of that of the C library, for file systems that have no hard links. */
static int link_errno;

int link(const char *path, const char *name)
{
    errno = link_errno;
    return link_errno ? -1 : linkat(AT_FDCWD, path, AT_FDCWD, name, 0);
}

static unsigned mode_of(const char *name)
{
    struct stat st;
    assert_int_equal(stat(in_dir(name), &st), 0);
    return st.st_mode & 07777;
}

/* ---- paths ---- */

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

static void keep_gives_a_second_name_that_outlives_the_first(void **state)
{
    (void)state;
    bool exists = true;
    put("a", "damaged");
    assert_int_equal(file_keep(&exists, in_dir("kept"), in_dir("a"), NULL), 0);
    assert_false(exists);
    assert_int_equal(file_replace(in_dir("a"), dir, "good", 4, NULL), 0);
    assert_holds("a", "good");
    assert_holds("kept", "damaged");
    assert_int_equal(file_keep(&exists, in_dir("kept"), in_dir("a"), NULL), 0);
    assert_true(exists);
    assert_holds("kept", "damaged");
    assert_int_equal(file_keep(&exists, in_dir("other"), in_dir("none"), NULL), CKPT_ENOTFOUND);
}

static void keep_moves_the_file_where_there_are_no_hard_links(void **state)
{
    (void)state;
    static const int ERRORS[] = {EPERM, ENOTSUP, ENOSYS, EMLINK};
    bool exists = true;
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++) {
        put("a", "damaged");
        link_errno = ERRORS[i];
        assert_int_equal(file_keep(&exists, in_dir("kept"), in_dir("a"), NULL), 0);
        assert_false(exists);
        assert_holds("kept", "damaged");
        assert_int_equal(entries(), 1);
        assert_int_equal(remove(in_dir("kept")), 0);
    }
    put("a", "damaged");
    link_errno = EIO;
    assert_int_equal(file_keep(&exists, in_dir("kept"), in_dir("a"), NULL), CKPT_EIO);
    link_errno = 0;
    assert_holds("a", "damaged");
}

static void remove_of_a_missing_file_is_no_error(void **state)
{
    (void)state;
    put("a", "old");
    assert_int_equal(file_remove(in_dir("a"), NULL), 0);
    assert_int_equal(entries(), 0);
    assert_int_equal(file_remove(in_dir("a"), NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        IN_DIR(keep_gives_a_second_name_that_outlives_the_first),
        IN_DIR(keep_moves_the_file_where_there_are_no_hard_links),
        IN_DIR(remove_of_a_missing_file_is_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
