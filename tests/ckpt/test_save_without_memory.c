/* Memory that runs out at any allocation of a save or a restore, in our code and in the libraries below it: an error
 * that says so, or success; the store is unharmed either way. */
#include "file_tree.h"

#include "alloc_fail.h"
#include "weights.h"

#define ALLOCATIONS_MAX 20000

static void make_files(const fixture *f, char in[FILE_PATH_MAX])
{
    static unsigned char data[80000];
    char link[FILE_PATH_MAX];
    join(in, f->root, "in");
    make_dir(in, "empty");
    fill_weights(data, sizeof data, 1);
    write_in(in, "large.bin", data, sizeof data);
    write_in(in, "small.bin", data, 3000);
    join(link, in, "tensors.pt");
    file_copy(link, GOLDEN_DIR "/cases/views.pt");
    join(link, in, "link");
    assert_int_equal(symlink("small.bin", link), 0);
}

static void assert_unharmed(fixture *f)
{
    ckpt_verify_result verified;
    fixture_reopen(f);
    assert_nothing_left(f);
    MUST(ckpt_verify(&verified, f->store, &VERIFY_FULL, ERR));
    assert_int_equal(verified.fault_count, 0);
    ckpt_verify_result_clear(&verified);
}

/* The JSON library loses pieces of a text when it has no memory, and then a snapshot looks damaged. */
static void check_code(int rc, const ckpt_error *err, long at)
{
    const bool lost_pieces = rc == CKPT_EDATA && strstr(err->message, ": snapshot ");
    if (rc != 0 && rc != CKPT_ENOMEM && !lost_pieces)
        fail_msg("allocation %ld: code %d: %s", at, rc, err->message);
    assert_int_equal(err->code, rc);
}

static void save_survives_each_allocation_that_fails(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], out[FILE_PATH_MAX], restored[FILE_PATH_MAX];
    const char *const paths[] = {in};
    if (!ALLOC_FAIL_WORKS)
        skip();
    make_files(f, in);
    save_path(f, in);
    size_t saved = 1, failed = 0;
    for (long at = 1; at < ALLOCATIONS_MAX; at++) {
        ckpt_error err = {0};
        char path[FILE_PATH_MAX], byte = (char)at;
        join(path, in, "small.bin");
        write_bytes(path, &byte, 1); /* something new each time */
        fixture_reopen(f);
        alloc_fail_arm(at);
        const int rc = ckpt_save_files(NULL, f->store, paths, 1, NULL, &err);
        const bool happened = alloc_fail_disarm();
        check_code(rc, &err, at);
        saved += rc == 0;
        failed += rc != 0;
        assert_int_equal(count_files(f->store->snapshots_dir), saved);
        assert_nothing_left(f);
        if (!happened)
            break;
        assert_true(at + 1 < ALLOCATIONS_MAX);
    }
    assert_true(failed > 100);
    assert_unharmed(f);
    join(out, f->root, "out");
    join(restored, out, "in");
    restore_to(f, "latest", out);
    assert_same_tree(in, restored);
}

static void restore_survives_each_allocation_that_fails(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], out[FILE_PATH_MAX], restored[FILE_PATH_MAX];
    if (!ALLOC_FAIL_WORKS)
        skip();
    make_files(f, in);
    const ckpt_save_result saved = save_path(f, in);
    join(out, f->root, "out");
    join(restored, out, "in");
    size_t failed = 0;
    for (long at = 1; at < ALLOCATIONS_MAX; at++) {
        ckpt_error err = {0};
        const ckpt_restore_options options = {.size = sizeof options, .dir = out};
        fixture_reopen(f);
        alloc_fail_arm(at);
        const int rc = ckpt_restore_files(NULL, f->store, saved.id, &options, &err);
        const bool happened = alloc_fail_disarm();
        check_code(rc, &err, at);
        failed += rc != 0;
        if (rc == 0)
            assert_same_tree(in, restored);
        if (exists(out))
            assert_int_equal(temp_dir_remove(out), 0);
        if (!happened)
            break;
        assert_true(at + 1 < ALLOCATIONS_MAX);
    }
    assert_true(failed > 30);
    assert_unharmed(f);
}

#define MEMORY_TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEMORY_TEST(save_survives_each_allocation_that_fails),
        MEMORY_TEST(restore_survives_each_allocation_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
