/* Files that change while they are read: saved as they are once they rest, or refused. */
#include "file_tree.h"

#include "weights.h"

#include <signal.h>
#include <sys/wait.h>

/* Changes a file while it is read, the first `times` times, through the progress callback. */
typedef struct changer {
    char path[FILE_PATH_MAX];
    int times;
    uint64_t last_done;
    off_t truncate_to; /* -1: rewrite the whole file instead */
    bool replace;      /* by another file under the same name */
    unsigned char generation;
} changer;

#define CHANGING_BYTES ((size_t)3 << 20)

static void write_generation(const char *path, unsigned char generation)
{
    unsigned char *const data = malloc(CHANGING_BYTES);
    memset(data, generation, CHANGING_BYTES);
    const int fd = open(path, O_WRONLY | O_CREAT, 0644); /* in place, as a careless program does it */
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, CHANGING_BYTES), CHANGING_BYTES);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000 + generation}};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
    free(data);
}

static int change_once_a_try(void *payload, uint64_t done, uint64_t total)
{
    changer *const c = payload;
    (void)total;
    const bool new_try = done <= c->last_done;
    c->last_done = done;
    if (!new_try || c->times == 0)
        return 0;
    c->times--;
    c->generation++;
    if (c->truncate_to >= 0)
        assert_int_equal(truncate(c->path, c->truncate_to), 0);
    else if (c->replace)
        assert_int_equal(unlink(c->path), 0), write_generation(c->path, c->generation);
    else
        write_generation(c->path, c->generation);
    return 0;
}

static int save_changing(fixture *f, changer *c, ckpt_error *err)
{
    const char *const paths[] = {c->path};
    c->last_done = UINT64_MAX;
    join(c->path, f->root, "changing.bin");
    write_generation(c->path, 0);
    f->store->progress = change_once_a_try;
    f->store->payload = c;
    const int rc = ckpt_save_files(NULL, f->store, paths, 1, NULL, err);
    f->store->progress = NULL;
    f->store->payload = f;
    return rc;
}

static void file_that_comes_to_rest_is_saved_as_it_is_then(void **state)
{
    fixture *const f = *state;
    changer c = {.times = 2, .truncate_to = -1};
    MUST(save_changing(f, &c, ERR));
    assert_int_equal(c.times, 0);
    assert_restores(f, "latest", c.path);
}

static void file_that_is_replaced_while_it_is_read_is_saved_anew(void **state)
{
    fixture *const f = *state;
    changer c = {.times = 1, .truncate_to = -1, .replace = true};
    MUST(save_changing(f, &c, ERR));
    assert_int_equal(c.times, 0);
    assert_restores(f, "latest", c.path);
}

static void file_that_is_cut_while_it_is_read_is_saved_as_it_is_then(void **state)
{
    fixture *const f = *state;
    changer c = {.times = 1, .truncate_to = 1000};
    MUST(save_changing(f, &c, ERR));
    assert_int_equal(c.times, 0);
    assert_restores(f, "latest", c.path);
}

static void file_that_never_rests_is_refused_with_a_hint(void **state)
{
    fixture *const f = *state;
    changer c = {.times = 1000, .truncate_to = -1};
    ckpt_error err = {0};
    assert_int_equal(save_changing(f, &c, &err), CKPT_ECHANGED);
    assert_non_null(strstr(err.message, "changing.bin"));
    assert_string_not_equal(err.hint, "");
    assert_int_equal(count_files(f->store->snapshots_dir), 0);
    assert_nothing_left(f);
}

static void changed_file_does_not_hurt_the_others_of_its_save(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], out[FILE_PATH_MAX], restored[FILE_PATH_MAX];
    const char *const paths[] = {in};
    changer c = {.times = 2, .truncate_to = -1, .last_done = UINT64_MAX};
    join(in, f->root, "in");
    make_dir(f->root, "in");
    write_in(in, "after.bin", "after", 5);
    unsigned char *const data = malloc(CHANGING_BYTES);
    fill_noise(data, CHANGING_BYTES, 3);
    write_in(in, "changing_copy.bin", data, CHANGING_BYTES);
    free(data);
    join(c.path, in, "a_changing.bin");
    write_generation(c.path, 0);
    f->store->progress = change_once_a_try;
    f->store->payload = &c;
    MUST(ckpt_save_files(NULL, f->store, paths, 1, NULL, ERR));
    f->store->progress = NULL;
    f->store->payload = f;
    assert_int_equal(c.times, 0);
    join(out, f->root, "out");
    join(restored, out, "in");
    restore_to(f, "latest", out);
    assert_same_tree(in, restored);
}

static void assert_one_generation(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    MUST(file_read_all(&data, &size, path, 2 * CHANGING_BYTES, ERR));
    assert_int_equal(size, CHANGING_BYTES);
    for (size_t i = 1; i < size; i++)
        if (data[i] != data[0])
            fail_msg("byte %zu is of another generation", i);
    free(data);
}

/* Another process writes the file anew, in place, as fast as it can. */
static void file_that_another_process_rewrites_is_one_reading_or_refused(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX], out[FILE_PATH_MAX];
    const char *const paths[] = {path};
    ckpt_error err = {0};
    join(path, f->root, "changing.bin");
    write_generation(path, 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        for (unsigned char generation = 1;; generation++)
            write_generation(path, generation);
    const int rc = ckpt_save_files(NULL, f->store, paths, 1, NULL, &err);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    if (rc == CKPT_ECHANGED) {
        assert_string_not_equal(err.hint, "");
        assert_int_equal(count_files(f->store->snapshots_dir), 0);
        assert_nothing_left(f);
    } else {
        assert_int_equal(rc, 0);
        join(out, f->root, "out");
        restore_to(f, "latest", out); /* compares its SHA-256 */
        join(path, out, "changing.bin");
        assert_one_generation(path);
    }
}

#define CHANGE_TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHANGE_TEST(file_that_comes_to_rest_is_saved_as_it_is_then),
        CHANGE_TEST(file_that_is_replaced_while_it_is_read_is_saved_anew),
        CHANGE_TEST(file_that_is_cut_while_it_is_read_is_saved_as_it_is_then),
        CHANGE_TEST(file_that_never_rests_is_refused_with_a_hint),
        CHANGE_TEST(changed_file_does_not_hurt_the_others_of_its_save),
        CHANGE_TEST(file_that_another_process_rewrites_is_one_reading_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
