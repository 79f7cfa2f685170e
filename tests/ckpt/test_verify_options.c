/* A sample, a begin, and going on where a verify was stopped. */
#include "repair_fixture.h"

static int verify_with(ckpt_verify_result *result, fixture *f, const ckpt_verify_options *options)
{
    ckpt_error err = {0};
    fixture_reopen(f);
    const int rc = ckpt_verify(result, f->store, options, &err);
    if (rc && rc != CKPT_EDATA)
        fail_msg("%s", err.message);
    return rc;
}

/* ---- Samples ---- */

static void a_sample_of_all_finds_what_full_finds(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    const ckpt_verify_options all = {.size = sizeof all, .sample = 1};
    const ckpt_save_result saved = noise_saved(file, f, 1, 0);
    assert_int_equal(verify_with(&result, f, &all), 0);
    assert_true(result.chunks >= 1);
    ckpt_verify_result_clear(&result);
    own_pack_file(path, f, "latest");
    flip_bit(path, PACK_HEADER_SIZE + 100);
    assert_int_equal(verify_with(&result, f, &all), CKPT_EDATA);
    assert_true(result.fault_count >= 2); /* the chunk, and the file that it hurts */
    bool named = false;
    for (size_t i = 0; i < result.fault_count; i++)
        named |= strcmp(result.faults[i].checkpoint, saved.id) == 0;
    assert_true(named);
    ckpt_verify_result_clear(&result);
}

static void the_same_seed_chooses_the_same_chunks(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    uint64_t found = 0, seeds = 0;
    for (uint64_t i = 0; i < 6; i++)
        noise_saved(file, f, i, 0);
    own_pack_file(path, f, "latest~2");
    flip_bit(path, PACK_HEADER_SIZE + 100);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const ckpt_verify_options options = {.size = sizeof options, .sample = 0.3, .seed = seed};
        const int first = verify_with(&result, f, &options);
        const uint64_t chunks = result.chunks;
        ckpt_verify_result_clear(&result);
        assert_int_equal(verify_with(&result, f, &options), first);
        assert_int_equal(result.chunks, chunks);
        assert_int_equal(result.seed, seed);
        ckpt_verify_result_clear(&result);
        found += first == CKPT_EDATA;
        seeds++;
    }
    assert_true(found > 0 && found < seeds); /* some seeds choose the damaged chunk, some do not */
}

static void a_seed_of_its_own_is_told(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX];
    ckpt_verify_result result;
    const ckpt_verify_options options = {.size = sizeof options, .sample = 0.0001};
    noise_saved(file, f, 1, 0);
    assert_int_equal(verify_with(&result, f, &options), 0);
    assert_int_not_equal(result.seed, 0);
    assert_int_equal(result.chunks, 1); /* at least */
    ckpt_verify_result_clear(&result);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    fixture *const f = *state;
    static const ckpt_verify_options BAD[] = {
        {.size = sizeof BAD[0], .sample = -0.1},
        {.size = sizeof BAD[0], .sample = 1.5},
        {.size = sizeof BAD[0], .level = (ckpt_verify_level)3},
        {.size = sizeof BAD[0], .proceed = true},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_int_equal(ckpt_verify(NULL, f->store, &BAD[i], NULL), CKPT_EUSAGE);
    const ckpt_verify_options unknown = {.size = sizeof unknown, .since = "nobody"};
    assert_int_equal(ckpt_verify(NULL, f->store, &unknown, NULL), CKPT_ENOTFOUND);
}

/* ---- A begin ---- */

static void only_checkpoints_since_are_looked_at_with_what_they_need(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    const ckpt_save_result first = noise_saved(file, f, 1, 0), second = noise_saved(file, f, 2, 0);
    noise_saved(file, f, 3, 0);
    own_pack_file(path, f, first.id);
    flip_bit(path, PACK_HEADER_SIZE + 100);
    const ckpt_verify_options since = {.size = sizeof since, .level = CKPT_VERIFY_FULL, .since = second.id};
    assert_int_equal(verify_with(&result, f, &since), 0);
    assert_int_equal(result.checkpoints, 2);
    assert_int_equal(result.packs, 2);
    ckpt_verify_result_clear(&result);
    const ckpt_verify_options from_first = {.size = sizeof since, .level = CKPT_VERIFY_FULL, .since = first.id};
    assert_int_equal(verify_with(&result, f, &from_first), CKPT_EDATA);
    assert_int_equal(result.checkpoints, 3);
    ckpt_verify_result_clear(&result);
    const ckpt_verify_options later = {.size = sizeof later, .since_time = INT64_MAX};
    assert_int_equal(verify_with(&result, f, &later), 0);
    assert_int_equal(result.checkpoints, 0);
    ckpt_verify_result_clear(&result);
}

/* ---- Going on ---- */

typedef struct stopper {
    uint64_t left; /* calls of the progress until it stops */
} stopper;

static int stop_after(void *payload, uint64_t done, uint64_t total)
{
    stopper *const s = payload;
    (void)done;
    (void)total;
    return s->left-- == 0;
}

static int verify_stopped(ckpt_verify_result *result, const fixture *f, uint64_t calls, bool proceed)
{
    stopper s = {calls};
    ckpt_store *store = NULL;
    const ckpt_open_options open_options = {
        .size = sizeof open_options, .threads = 1, .progress = stop_after, .payload = &s};
    const ckpt_verify_options options = {.size = sizeof options, .level = CKPT_VERIFY_FULL, .proceed = proceed};
    MUST(ckpt_store_open(&store, f->root, &open_options, ERR));
    const int rc = ckpt_verify(result, store, &options, NULL);
    ckpt_store_close(store);
    return rc;
}

static void a_verify_that_was_stopped_goes_on_and_leaves_out_what_was_good(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX];
    ckpt_verify_result result;
    uint64_t files = 0;
    for (uint64_t i = 0; i < 4; i++)
        noise_saved(file, f, i, 0);
    /* Each goes some way, until one comes to the end. */
    int rc = CKPT_EINTERRUPTED;
    for (int i = 0; i < 40 && rc == CKPT_EINTERRUPTED; i++) {
        rc = verify_stopped(&result, f, 7, true);
        assert_true(rc == 0 || rc == CKPT_EINTERRUPTED);
        assert_true(result.skipped_packs + result.packs_read <= 4);
        assert_true(result.skipped_files >= files || rc);
        files = result.skipped_files + result.files_decoded;
        ckpt_verify_result_clear(&result);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(files, 4);
    const ckpt_verify_options again = {.size = sizeof again, .level = CKPT_VERIFY_FULL, .proceed = true};
    assert_int_equal(verify_with(&result, f, &again), 0); /* one that ended leaves nothing to go on from */
    assert_int_equal(result.skipped_packs, 0);
    assert_int_equal(result.packs_read, 4);
    ckpt_verify_result_clear(&result);
}

/* Stops after the packs were read and some files decoded. */
static void stop_late(fixture *f)
{
    ckpt_verify_result result;
    int rc = 0;
    for (uint64_t calls = 40; calls > 0; calls--) {
        rc = verify_stopped(&result, f, calls, false);
        const bool late = rc == CKPT_EINTERRUPTED && result.packs_read == 4;
        ckpt_verify_result_clear(&result);
        if (late)
            return;
    }
    fail_msg("it was never stopped late");
}

static void packs_that_changed_since_are_read_again(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    const ckpt_verify_options options = {.size = sizeof options, .level = CKPT_VERIFY_READ, .proceed = true};
    for (uint64_t i = 0; i < 4; i++)
        noise_saved(file, f, i, 0);
    stop_late(f);
    assert_int_equal(verify_with(&result, f, &options), 0);
    assert_int_equal(result.skipped_packs, 4);
    ckpt_verify_result_clear(&result);

    stop_late(f);
    own_pack_file(path, f, "latest~1");
    flip_bit(path, PACK_HEADER_SIZE + 100);
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}}; /* of another time than before */
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(verify_with(&result, f, &options), CKPT_EDATA);
    assert_int_equal(result.skipped_packs, 3);
    assert_int_equal(result.packs_read, 0);
    ckpt_verify_result_clear(&result);
}

static void a_damaged_state_is_ignored(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    const ckpt_verify_options options = {.size = sizeof options, .level = CKPT_VERIFY_READ, .proceed = true};
    for (uint64_t i = 0; i < 4; i++)
        noise_saved(file, f, i, 0);
    join(path, f->store->cache_dir, "verify.state");
    stop_late(f);
    const off_t size = size_of(path);
    for (off_t at = 0; at < size; at += 43) {
        if (!exists(path))
            stop_late(f);
        flip_bit(path, at);
        assert_int_equal(verify_with(&result, f, &options), 0);
        assert_int_equal(result.skipped_packs, 0);
        assert_int_equal(result.packs_read, 4);
        ckpt_verify_result_clear(&result);
    }
    stop_late(f);
    for (off_t left = 0; left < 40; left += 8) {
        write_text(path, "");
        assert_int_equal(truncate(path, left), 0);
        assert_int_equal(verify_with(&result, f, &options), 0);
        assert_int_equal(result.skipped_packs, 0);
        ckpt_verify_result_clear(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sample_of_all_finds_what_full_finds, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(the_same_seed_chooses_the_same_chunks, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_seed_of_its_own_is_told, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(options_that_make_no_sense_are_refused, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(only_checkpoints_since_are_looked_at_with_what_they_need, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(a_verify_that_was_stopped_goes_on_and_leaves_out_what_was_good, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(packs_that_changed_since_are_read_again, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_state_is_ignored, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
