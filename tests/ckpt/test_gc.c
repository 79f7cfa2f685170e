#include "store_fixture.h"

#include "segment.h"

#include "lease.h"

static void gc(ckpt_gc_result *result, fixture *f, bool dry_run)
{
    const ckpt_gc_options options = {.size = sizeof options, .dry_run = dry_run};
    MUST(ckpt_gc(result, f->store, &options, ERR));
}

static void assert_all_good(fixture *f)
{
    fixture_reopen(f);
    MUST(ckpt_verify(NULL, f->store, &VERIFY_FULL, ERR));
}

static void packs_of_removed_checkpoints_go(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    struct stat st;
    ckpt_gc_result result;
    save_noise(first, f, 1);
    save_noise(second, f, 2);
    own_pack_file(path, f, first);
    assert_int_equal(stat(path, &st), 0);
    MUST(ckpt_remove(f->store, first, false, ERR));
    gc(&result, f, false);
    assert_int_equal(result.removed_packs, 1);
    assert_int_equal(result.freed_bytes, st.st_size);
    assert_false(exists(path));
    assert_all_good(f);
}

static void no_checkpoint_goes_whatever_the_policy_says(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_gc_result result;
    for (uint64_t i = 0; i < 7; i++)
        save_noise(id, f, i);
    gc(&result, f, false);
    assert_int_equal(result.removed_packs, 0);
    assert_int_equal(count_files(f->store->snapshots_dir), 7);
    assert_int_equal(count_files(f->store->packs_dir), 7);
}

static void a_dry_run_tells_the_same_and_changes_nothing(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_gc_result dry, wet;
    save_noise(id, f, 1);
    MUST(ckpt_remove(f->store, id, false, ERR));
    gc(&dry, f, true);
    assert_int_equal(count_files(f->store->packs_dir), 1);
    gc(&wet, f, false);
    assert_int_equal(dry.removed_packs, 1);
    assert_memory_equal(&dry, &wet, sizeof dry);
}

static void a_pack_that_a_live_writer_names_stays(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    sha256 name;
    intent *in;
    ckpt_gc_result result;
    save_noise(id, f, 1);
    own_pack(&name, f, "latest");
    MUST(ckpt_remove(f->store, "latest", false, ERR));
    MUST(intent_open(&in, f->store, ERR));
    MUST(intent_add(in, &name, 1, ERR));
    gc(&result, f, false);
    assert_int_equal(result.removed_packs, 0);
    intent_close(in);
    gc(&result, f, false);
    assert_int_equal(result.removed_packs, 1);
}

/* A prune that was stopped behind the pack. */
static void parity_whose_pack_is_gone_goes(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_gc_result result;
    MUST(ckpt_setting_set(f->store, "parity", "10%", ERR));
    save_noise(id, f, 1);
    save_noise(id, f, 2);
    own_pack_file(path, f, "latest");
    MUST(ckpt_remove(f->store, "latest", false, ERR));
    assert_int_equal(unlink(path), 0);
    gc(&result, f, true);
    assert_true(result.freed_bytes > 0);
    assert_int_equal(count_files(f->store->parity_dir), 2);
    const uint64_t expected = result.freed_bytes;
    gc(&result, f, false);
    assert_int_equal(result.freed_bytes, expected);
    assert_int_equal(count_files(f->store->parity_dir), 1);
    assert_all_good(f);
}

static void it_is_busy_while_a_prune_runs(void **state)
{
    fixture *const f = *state;
    prune_guard *guard;
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_int_equal(ckpt_gc(NULL, f->store, NULL, NULL), CKPT_EBUSY);
    prune_guard_close(guard);
    MUST(ckpt_gc(NULL, f->store, NULL, ERR));
}

/* A part of the cache that tells of one pack. */
static void segment_of(fixture *f, const sha256 *name)
{
    segment_builder b = {0};
    segment s = {0};
    const pack_index nothing = {0};
    MUST(segment_add_pack(&b, name, &nothing, ERR));
    MUST(segment_build(&s, &b, ERR));
    MUST(segment_write(&s, f->store->cache_dir, f->store->tmp_dir, ERR));
    segment_close(&s);
    segment_builder_clear(&b);
}

static void parts_of_the_cache_go_that_tell_of_no_pack(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    sha256 there, gone;
    ckpt_gc_result result;
    save_noise(id, f, 1);
    own_pack(&there, f, "latest");
    sha256_of(&gone, "gone", 4);
    segment_of(f, &there);
    segment_of(f, &gone);
    gc(&result, f, false);
    assert_int_equal(result.removed_segments, 1);
    assert_int_equal(count_files(f->store->cache_dir), 1);
    gc(&result, f, false);
    assert_int_equal(result.removed_segments, 0);
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(packs_of_removed_checkpoints_go),
        STORE_TEST(no_checkpoint_goes_whatever_the_policy_says),
        STORE_TEST(a_dry_run_tells_the_same_and_changes_nothing),
        STORE_TEST(a_pack_that_a_live_writer_names_stays),
        STORE_TEST(parity_whose_pack_is_gone_goes),
        STORE_TEST(it_is_busy_while_a_prune_runs),
        STORE_TEST(parts_of_the_cache_go_that_tell_of_no_pack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
