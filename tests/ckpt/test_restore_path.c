#include "file_tree.h"

#include "restore_path.h"
#include "store_internal.h"

#include <ckpt/export.h>

#include <sys/wait.h>

/* root/in/x/f saved; root/victim/f is not to be touched. */
static void save_folder(fixture *f, char in[FILE_PATH_MAX], char victim[FILE_PATH_MAX])
{
    const char *const paths[] = {in};
    join(in, f->root, "in");
    join(victim, f->root, "victim");
    make_dir(in, "x");
    make_dir(f->root, "victim");
    write_in(in, "x/f", "saved", 5);
    write_in(victim, "f", "keep", 4);
    MUST(ckpt_save_files(NULL, f->store, paths, 1, NULL, ERR));
}

static int restore_over(fixture *f, const char *dir, bool overwrite, ckpt_error *err)
{
    const ckpt_restore_options options = {.size = sizeof options, .dir = dir, .overwrite = overwrite};
    return ckpt_restore_files(NULL, f->store, "latest", &options, err);
}

static off_t size_of(const char *dir, const char *name)
{
    char path[FILE_PATH_MAX];
    struct stat st;
    join(path, dir, name);
    return stat(path, &st) ? -1 : st.st_size;
}

static void nothing_is_written_through_a_link_below_the_target(void **state)
{
    fixture *const f = *state;
    static const char *const LINKS[] = {"in", "in/x"};
    char in[FILE_PATH_MAX], victim[FILE_PATH_MAX], out[FILE_PATH_MAX], link[FILE_PATH_MAX];
    save_folder(f, in, victim);
    for (int overwrite = 0; overwrite < 2; overwrite++)
        for (size_t i = 0; i < 2; i++) {
            ckpt_error err = {0};
            char name[16];
            snprintf(name, sizeof name, "out%d%zu", overwrite, i);
            join(out, f->root, name);
            make_dir(out, i ? "in" : "");
            join(link, out, LINKS[i]);
            assert_int_equal(symlink(victim, link), 0);
            assert_int_equal(restore_over(f, out, overwrite, &err), CKPT_EUSAGE);
            assert_non_null(strstr(err.message, LINKS[i]));
            assert_string_not_equal(err.hint, "");
            assert_int_equal(size_of(victim, "f"), 4);
            assert_int_equal(count_files(victim), 1);
        }
}

static void in_place_a_link_of_ones_own_is_followed_when_that_is_agreed_to(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], victim[FILE_PATH_MAX], work[FILE_PATH_MAX];
    save_folder(f, in, victim);
    join(work, f->root, "work");
    make_dir(work, "");
    const pid_t child = fork(); /* whose current folder nobody else has */
    assert_true(child >= 0);
    if (child == 0) {
        if (chdir(work) || symlink(victim, "in"))
            _exit(1);
        if (restore_over(f, NULL, false, NULL) != CKPT_ECONFIRM || size_of(victim, "x/f") != -1)
            _exit(2);
        _exit(restore_over(f, NULL, true, NULL) == 0 && size_of(victim, "x/f") == 5 ? 0 : 3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A process that is gone, and one that lives: this one. */
static void restore_removes_what_killed_restores_left(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], victim[FILE_PATH_MAX], out[FILE_PATH_MAX], name[64], living[64];
    save_folder(f, in, victim);
    const pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    join(out, f->root, "out");
    make_dir(out, "in/x");
    snprintf(name, sizeof name, "in/x/f.%ld.0123456789abcdef.tmp", (long)gone);
    snprintf(living, sizeof living, "in/x/f.%ld.0123456789abcdef.tmp", (long)getpid());
    write_in(out, name, "half", 4);
    write_in(out, living, "half", 4);
    write_in(out, "in/x/mine.tmp", "mine", 4);
    MUST(restore_over(f, out, false, ERR));
    assert_int_equal(size_of(out, name), -1);
    assert_int_equal(size_of(out, living), 4);
    assert_int_equal(size_of(out, "in/x/mine.tmp"), 4);
    assert_int_equal(size_of(out, "in/x/f"), 5);
}

static void nothing_is_written_into_a_store(void **state)
{
    fixture *const f = *state;
    static const char *const INSIDE[] = {"", "packs", "new/deeper"};
    char in[FILE_PATH_MAX], victim[FILE_PATH_MAX], out[FILE_PATH_MAX];
    save_folder(f, in, victim);
    char *const before = read_text(f->store->config_path);
    for (size_t i = 0; i < 3; i++) {
        ckpt_error err = {0};
        join(out, f->store->path, INSIDE[i]);
        assert_int_equal(restore_over(f, out, true, &err), CKPT_EUSAGE);
        assert_non_null(strstr(err.message, "lies in a store"));
    }
    assert_int_equal(restore_target_check(f->store->config_path, true, NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_bundle_write(NULL, f->store, "latest", f->store->config_path, true, NULL), CKPT_EUSAGE);
    char *const after = read_text(f->store->config_path);
    assert_string_equal(after, before);
    free(before);
    free(after);
}

static void a_checkpoint_with_files_for_a_store_does_not_get_into_one(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], tags[FILE_PATH_MAX], out[FILE_PATH_MAX];
    const char *const paths[] = {in};
    ckpt_error err = {0};
    join(in, f->root, "in");
    make_dir(in, ".ckpt/tags"); /* no store, as it has no config.ini */
    write_in(in, ".ckpt/tags/mine", "x", 1);
    MUST(ckpt_save_files(NULL, f->store, paths, 1, NULL, ERR));
    join(out, f->root, "out");
    make_dir(out, "in");
    join(in, out, "in");
    MUST(ckpt_store_init(NULL, in, ERR));
    assert_int_equal(restore_over(f, out, true, &err), CKPT_EUSAGE);
    assert_non_null(strstr(err.message, "lies in a store"));
    join(tags, in, ".ckpt/tags");
    assert_int_equal(count_files(tags), 0);
}

/* As /dev/null does not become a file when root exports there. */
static void what_is_no_ordinary_file_keeps_its_place(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], victim[FILE_PATH_MAX], out[FILE_PATH_MAX], pipe_path[FILE_PATH_MAX], link[FILE_PATH_MAX];
    struct stat st;
    ckpt_error err = {0};
    save_folder(f, in, victim);
    join(out, f->root, "out");
    make_dir(out, "in/x");
    join(pipe_path, out, "in/x/f");
    join(link, out, "link");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(symlink(pipe_path, link), 0);
    assert_int_equal(restore_over(f, out, true, &err), CKPT_EUSAGE);
    assert_non_null(strstr(err.message, "is a device, pipe or socket"));
    assert_int_equal(restore_target_check(pipe_path, true, NULL), CKPT_EUSAGE);
    assert_int_equal(restore_target_check(link, true, NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_bundle_write(NULL, f->store, "latest", pipe_path, true, NULL), CKPT_EUSAGE);
    assert_int_equal(lstat(pipe_path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
}

#define PATH_TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PATH_TEST(nothing_is_written_through_a_link_below_the_target),
        PATH_TEST(in_place_a_link_of_ones_own_is_followed_when_that_is_agreed_to),
        PATH_TEST(nothing_is_written_into_a_store),
        PATH_TEST(a_checkpoint_with_files_for_a_store_does_not_get_into_one),
        PATH_TEST(what_is_no_ordinary_file_keeps_its_place),
        PATH_TEST(restore_removes_what_killed_restores_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
