#include "store_fixture.h"

#include "lease.h"

#include <sys/wait.h>

static void prune(ckpt_prune_result *result, fixture *f, const char *keep, bool dry_run)
{
    const ckpt_prune_options options = {.size = sizeof options, .dry_run = dry_run, .keep = keep};
    MUST(ckpt_prune(result, f->store, &options, ERR));
}

static void assert_all_good(fixture *f)
{
    fixture_reopen(f);
    MUST(ckpt_verify(NULL, f->store, &VERIFY_FULL, ERR));
}

static size_t checkpoints(fixture *f)
{
    return count_files(f->store->snapshots_dir);
}

static size_t packs(fixture *f)
{
    return count_files(f->store->packs_dir);
}

/* ---- The policy ---- */

static void rows_tell_what_stays_and_why(void **state)
{
    fixture *const f = *state;
    char ids[4][CKPT_ID_SIZE];
    ckpt_prune_result result;
    for (uint64_t i = 0; i < 4; i++)
        save_step(ids[i], f, i, (int64_t)i + 1);
    MUST(ckpt_tag_set(f->store, "x", ids[0], false, ERR));
    prune(&result, f, "last 1, tagged", false);
    assert_int_equal(result.row_count, 4);
    assert_int_equal(result.removed_checkpoints, 2);
    assert_string_equal(result.rows[0].id, ids[3]);
    assert_string_equal(result.rows[0].reason, "last 1");
    assert_string_equal(result.rows[1].id, ids[2]);
    assert_false(result.rows[1].keep);
    assert_string_equal(result.rows[1].reason, "2nd of last 1");
    assert_string_equal(result.rows[3].reason, "tagged");
    assert_true(result.rows[3].keep);
    ckpt_prune_result_clear(&result);
    assert_int_equal(checkpoints(f), 2);
    assert_all_good(f);
}

static void tags_of_a_checkpoint_that_no_rule_keeps_go_with_it(void **state)
{
    fixture *const f = *state;
    char ids[3][CKPT_ID_SIZE];
    ckpt_prune_result result;
    for (uint64_t i = 0; i < 3; i++)
        save_step(ids[i], f, i, 1);
    MUST(ckpt_tag_set(f->store, "one", ids[0], false, ERR));
    MUST(ckpt_tag_set(f->store, "two", ids[0], false, ERR));
    MUST(ckpt_tag_set(f->store, "newest", ids[2], false, ERR));
    prune(&result, f, "last 1", true);
    ckpt_prune_result_clear(&result);
    assert_int_equal(count_files(f->store->tags_dir), 3);
    prune(&result, f, "last 1", false);
    assert_string_equal(result.rows[1].reason, "2nd of last 1");
    assert_string_equal(result.rows[2].reason, "3rd of last 1; its tags go too");
    ckpt_prune_result_clear(&result);
    assert_int_equal(count_files(f->store->tags_dir), 1);
    assert_all_good(f);
}

static void the_policy_of_the_config_counts_when_none_is_given(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_prune_result result;
    for (uint64_t i = 0; i < 7; i++)
        save_step(id, f, i, 1);
    MUST(ckpt_prune(&result, f->store, NULL, ERR));
    assert_int_equal(result.removed_checkpoints, 2); /* last 5 */
    assert_string_equal(result.rows[0].reason, "last 5");
    ckpt_prune_result_clear(&result);
}

static void without_any_policy_all_checkpoints_stay(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_prune_result result;
    char *const config = read_text(f->store->config_path);
    *strstr(config, "keep = ") = '#';
    write_text(f->store->config_path, config);
    free(config);
    for (uint64_t i = 0; i < 7; i++)
        save_step(id, f, i, 1);
    MUST(ckpt_prune(&result, f->store, NULL, ERR));
    assert_int_equal(result.removed_checkpoints, 0);
    assert_string_equal(result.rows[6].reason, "no policy is set");
    ckpt_prune_result_clear(&result);
}

static void a_policy_with_a_mistake_removes_nothing(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    const ckpt_prune_options options = {.size = sizeof options, .keep = "last x"};
    save_step(id, f, 1, 1);
    save_step(id, f, 2, 2);
    assert_int_equal(ckpt_prune(NULL, f->store, &options, NULL), CKPT_EUSAGE);
    assert_int_equal(checkpoints(f), 2);
    assert_int_equal(count_files(f->store->intents_dir), 0);
}

/* Saves a checkpoint of a run, or without one that of a stranger. */
static void save_of_run(char id[CKPT_ID_SIZE], fixture *f, uint64_t seed, const char *run)
{
    const ckpt_value pair = {"run", run};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.meta = &pair;
    options.meta_count = run ? 1 : 0;
    save_seed(id, f, seed, &options);
}

static void a_policy_for_one_run_counts_and_removes_no_others(void **state)
{
    fixture *const f = *state;
    static const char *const RUNS[] = {"a", "b", NULL, "a", "b", NULL, "a", "b", "ab"};
    const ckpt_value own = {"run", "a"};
    const ckpt_prune_options options = {.size = sizeof options, .keep = "last 1", .among = &own};
    char id[CKPT_ID_SIZE];
    ckpt_prune_result result;
    for (size_t i = 0; i < sizeof RUNS / sizeof *RUNS; i++)
        save_of_run(id, f, i, RUNS[i]);
    MUST(ckpt_prune(&result, f->store, &options, ERR));
    assert_int_equal(result.removed_checkpoints, 2);
    assert_string_equal(result.rows[0].reason, "the policy is not about it");
    assert_string_equal(result.rows[2].reason, "last 1"); /* a, the seventh of nine */
    assert_false(result.rows[5].keep || result.rows[8].keep);
    ckpt_prune_result_clear(&result);
    assert_int_equal(checkpoints(f), 7);
    assert_all_good(f);
}

static void the_newest_good_one_of_a_run_stays_whatever_its_policy_says(void **state)
{
    fixture *const f = *state;
    const ckpt_value own = {"run", "a"};
    const ckpt_prune_options options = {.size = sizeof options, .keep = "tagged", .among = &own};
    char id[CKPT_ID_SIZE];
    ckpt_prune_result result;
    save_of_run(id, f, 0, "a");
    save_of_run(id, f, 1, "a");
    save_of_run(id, f, 2, "b");
    MUST(ckpt_prune(&result, f->store, &options, ERR));
    assert_string_equal(result.rows[1].reason, "the newest good one");
    assert_false(result.rows[2].keep);
    ckpt_prune_result_clear(&result);
    assert_int_equal(checkpoints(f), 2);
}

static void a_run_that_has_no_best_yet_is_no_matter_for_a_note(void **state)
{
    fixture *const f = *state;
    const ckpt_value own = {"run", "a"};
    ckpt_prune_options options = {.size = sizeof options, .keep = "last 1, best 2", .among = &own, .dry_run = true};
    char id[CKPT_ID_SIZE];
    ckpt_prune_result result;
    save_of_run(id, f, 0, "a");
    MUST(ckpt_prune(&result, f->store, &options, ERR));
    ckpt_prune_result_clear(&result);
    assert_string_equal(f->note, "");
    options.among = NULL;
    MUST(ckpt_prune(&result, f->store, &options, ERR));
    ckpt_prune_result_clear(&result);
    assert_non_null(strstr(f->note, "keeps nothing"));
}

static void a_dry_run_tells_the_same_and_changes_nothing(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_prune_result dry, wet;
    for (uint64_t i = 0; i < 3; i++)
        save_step(id, f, i, 1);
    const size_t before = packs(f);
    prune(&dry, f, "last 1", true);
    assert_int_equal(checkpoints(f), 3);
    assert_int_equal(packs(f), before);
    assert_int_equal(count_files(f->store->intents_dir), 0);
    prune(&wet, f, "last 1", false);
    assert_int_equal(dry.removed_checkpoints, 2);
    assert_int_equal(wet.removed_checkpoints, dry.removed_checkpoints);
    assert_int_equal(wet.removed_packs, dry.removed_packs);
    assert_int_equal(wet.freed_bytes, dry.freed_bytes);
    assert_int_equal(before - packs(f), wet.removed_packs);
    ckpt_prune_result_clear(&dry);
    ckpt_prune_result_clear(&wet);
}

static void freed_bytes_are_those_of_the_files_that_went(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    struct stat snapshot_st, pack_st;
    ckpt_prune_result result;
    save_step(id, f, 1, 1);
    snapshot_file(path, f, "latest");
    assert_int_equal(stat(path, &snapshot_st), 0);
    own_pack_file(path, f, "latest");
    assert_int_equal(stat(path, &pack_st), 0);
    MUST(ckpt_remove(f->store, "latest", false, ERR));
    prune(&result, f, "last 5", false);
    assert_int_equal(result.freed_bytes, pack_st.st_size);
    assert_int_equal(result.removed_packs, 1);
    assert_int_equal(packs(f), 0);
    ckpt_prune_result_clear(&result);
}

/* ---- Packs ---- */

static void packs_that_a_remaining_checkpoint_refers_to_stay(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], again[CKPT_ID_SIZE];
    sha256 first_pack, second_pack;
    char path[FILE_PATH_MAX];
    ckpt_prune_result result;
    save_step(first, f, 1, 1);
    own_pack(&first_pack, f, "latest");
    save_step(again, f, 1, 2); /* the same bytes: they stay in the first pack */
    own_pack(&second_pack, f, "latest");
    assert_true(sha256_compare(&first_pack, &second_pack) != 0);
    prune(&result, f, "last 1", false);
    assert_int_equal(result.removed_checkpoints, 1);
    assert_int_equal(result.removed_packs, 0);
    MUST(pack_path(path, f->store->packs_dir, &first_pack, ERR));
    assert_true(exists(path));
    ckpt_prune_result_clear(&result);
    assert_all_good(f);
}

static void a_pack_that_a_live_writer_names_stays_until_it_is_done(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    sha256 name;
    intent *in;
    ckpt_prune_result result;
    save_step(id, f, 1, 1);
    own_pack(&name, f, "latest");
    MUST(ckpt_remove(f->store, "latest", false, ERR));
    MUST(intent_open(&in, f->store, ERR));
    MUST(intent_add(in, &name, 1, ERR));
    prune(&result, f, "last 1", false);
    assert_int_equal(result.removed_packs, 0);
    ckpt_prune_result_clear(&result);
    MUST(intent_check(in, ERR));
    intent_close(in);
    prune(&result, f, "last 1", false);
    assert_int_equal(result.removed_packs, 1);
    ckpt_prune_result_clear(&result);
}

static void a_checkpoint_stays_until_its_save_is_done(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE];
    sha256 id;
    intent *in;
    ckpt_prune_result result;
    save_step(first, f, 1, 1);
    save_step(second, f, 2, 2);
    MUST(sha256_parse(&id, first, ERR));
    MUST(intent_open(&in, f->store, ERR));
    MUST(intent_keep(in, &id, ERR));
    prune(&result, f, "last 1", false);
    assert_true(result.rows[1].keep);
    assert_string_equal(result.rows[1].reason, "its save is not done yet");
    ckpt_prune_result_clear(&result);
    intent_close(in);
    prune(&result, f, "last 1", false);
    assert_int_equal(result.removed_checkpoints, 1);
    ckpt_prune_result_clear(&result);
}

/* ---- Damage ---- */

static void the_last_good_checkpoint_stays_whatever_the_policy_says(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_prune_result result;
    save_step(first, f, 1, 1);
    save_step(second, f, 2, 2);
    own_pack_file(path, f, "latest");
    assert_int_equal(truncate(path, 100), 0);
    fixture_reopen(f);
    prune(&result, f, "tagged", false);
    assert_string_equal(result.rows[1].id, first);
    assert_true(result.rows[1].keep);
    assert_string_equal(result.rows[1].reason, "the newest good one");
    assert_int_equal(result.removed_checkpoints, 0);
    ckpt_prune_result_clear(&result);
}

static void damaged_checkpoints_do_not_count_as_the_last(void **state)
{
    fixture *const f = *state;
    char ids[3][CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_prune_result result;
    for (uint64_t i = 0; i < 3; i++)
        save_step(ids[i], f, i, 1);
    snapshot_file(path, f, "latest");
    write_text(path, "{}");
    prune(&result, f, "last 1", false);
    assert_string_equal(result.rows[0].reason, "damaged; see `ckpt verify`");
    assert_true(result.rows[0].keep);
    assert_string_equal(result.rows[1].reason, "last 1");
    assert_false(result.rows[2].keep);
    ckpt_prune_result_clear(&result);
}

static void no_pack_goes_while_a_checkpoint_cannot_tell_what_it_needs(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_prune_result result;
    save_noise(first, f, 1);
    save_noise(second, f, 2);
    snapshot_file(path, f, "latest~1");
    write_text(path, "{}");
    const size_t before = packs(f);
    prune(&result, f, "last 1", false);
    assert_int_equal(result.removed_packs, 0);
    assert_int_equal(packs(f), before);
    assert_non_null(strstr(f->note, "no packs are removed"));
    ckpt_prune_result_clear(&result);
    MUST(ckpt_remove(f->store, first, false, ERR)); /* given up */
    prune(&result, f, "last 1", false);
    assert_int_equal(packs(f), 1);
    ckpt_prune_result_clear(&result);
    assert_all_good(f);
}

/* Turns a bit over among the coded chunks of the own pack, which its tables do not show. */
static void damage_chunks(fixture *f, const char *name)
{
    char path[FILE_PATH_MAX];
    own_pack_file(path, f, name);
    flip_bit(path, 100);
}

static void a_newest_checkpoint_of_damaged_bytes_does_not_cost_the_good_one(void **state)
{
    fixture *const f = *state;
    char ids[3][CKPT_ID_SIZE];
    ckpt_prune_result dry, result;
    for (uint64_t i = 0; i < 3; i++)
        save_noise(ids[i], f, i);
    damage_chunks(f, "latest");
    fixture_reopen(f);
    prune(&dry, f, "last 1", true);
    prune(&result, f, "last 1", false);
    assert_string_equal(result.rows[0].reason, "damaged; see `ckpt verify`");
    assert_true(result.rows[0].keep);
    assert_string_equal(result.rows[1].id, ids[1]);
    assert_string_equal(result.rows[1].reason, "last 1");
    assert_true(result.rows[1].keep);
    assert_false(result.rows[2].keep);
    assert_int_equal(result.removed_checkpoints, 1);
    assert_int_equal(dry.removed_checkpoints, 1);
    assert_memory_equal(dry.rows, result.rows, 3 * sizeof *dry.rows);
    ckpt_prune_result_clear(&dry);
    ckpt_prune_result_clear(&result);
    assert_int_equal(ckpt_verify(NULL, f->store, &VERIFY_FULL, NULL), CKPT_EDATA);
    MUST(ckpt_remove(f->store, ids[2], false, ERR));
    prune(&result, f, "last 1", false);
    ckpt_prune_result_clear(&result);
    assert_int_equal(checkpoints(f), 1);
    assert_all_good(f);
}

static void the_oldest_stays_when_all_younger_ones_have_damaged_bytes(void **state)
{
    fixture *const f = *state;
    char ids[3][CKPT_ID_SIZE];
    ckpt_prune_result result;
    for (uint64_t i = 0; i < 3; i++)
        save_noise(ids[i], f, i);
    damage_chunks(f, ids[2]);
    damage_chunks(f, ids[1]);
    fixture_reopen(f);
    prune(&result, f, "last 1", false);
    assert_int_equal(result.removed_checkpoints, 0);
    assert_string_equal(result.rows[2].reason, "last 1");
    ckpt_prune_result_clear(&result);
    assert_int_equal(checkpoints(f), 3);
}

static int stop_at_once(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    (void)payload;
    (void)done_bytes;
    (void)total_bytes;
    return 1;
}

static void an_interruption_while_decoding_removes_nothing(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    const ckpt_prune_options options = {.size = sizeof options, .keep = "last 1"};
    save_noise(id, f, 1);
    save_noise(id, f, 2);
    f->store->progress = stop_at_once;
    assert_int_equal(ckpt_prune(NULL, f->store, &options, NULL), CKPT_EINTERRUPTED);
    assert_int_equal(checkpoints(f), 2);
    assert_int_equal(count_files(f->store->intents_dir), 0);
}

/* ---- Leftovers and interruptions ---- */

static void what_a_killed_save_left_goes(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX], name[128];
    ckpt_prune_result result;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    save_step(id, f, 1, 1);
    snprintf(name, sizeof name, "pack.%ld.0123456789abcdef.tmp", (long)pid);
    MUST(path_join(path, f->store->tmp_dir, name, ERR));
    write_text(path, "12345");
    prune(&result, f, "last 1", false);
    assert_false(exists(path));
    assert_int_equal(result.freed_bytes, 5);
    ckpt_prune_result_clear(&result);
    assert_all_good(f);
}

static void packs_whose_snapshot_went_before_a_crash_go_next_time(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_prune_result result;
    save_noise(id, f, 1);
    save_noise(id, f, 2);
    snapshot_file(path, f, "latest~1");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(packs(f), 2);
    prune(&result, f, "last 5", false);
    assert_int_equal(result.removed_checkpoints, 0);
    assert_int_equal(packs(f), 1);
    ckpt_prune_result_clear(&result);
    assert_all_good(f);
}

static void strangers_in_the_folders_are_left_alone(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_prune_result result;
    save_step(id, f, 1, 1);
    MUST(path_join(path, f->store->packs_dir, "README", ERR));
    write_text(path, "mine");
    prune(&result, f, "last 1", false);
    assert_true(exists(path));
    assert_int_equal(result.removed_packs, 0);
    ckpt_prune_result_clear(&result);
}

static void an_empty_store_prunes_to_nothing(void **state)
{
    fixture *const f = *state;
    ckpt_prune_result result;
    MUST(ckpt_prune(&result, f->store, NULL, ERR));
    assert_int_equal(result.row_count, 0);
    ckpt_prune_result_clear(&result);
    MUST(ckpt_prune(NULL, f->store, NULL, ERR));
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(rows_tell_what_stays_and_why),
        STORE_TEST(tags_of_a_checkpoint_that_no_rule_keeps_go_with_it),
        STORE_TEST(the_policy_of_the_config_counts_when_none_is_given),
        STORE_TEST(without_any_policy_all_checkpoints_stay),
        STORE_TEST(a_policy_with_a_mistake_removes_nothing),
        STORE_TEST(a_policy_for_one_run_counts_and_removes_no_others),
        STORE_TEST(the_newest_good_one_of_a_run_stays_whatever_its_policy_says),
        STORE_TEST(a_run_that_has_no_best_yet_is_no_matter_for_a_note),
        STORE_TEST(a_dry_run_tells_the_same_and_changes_nothing),
        STORE_TEST(freed_bytes_are_those_of_the_files_that_went),
        STORE_TEST(packs_that_a_remaining_checkpoint_refers_to_stay),
        STORE_TEST(a_pack_that_a_live_writer_names_stays_until_it_is_done),
        STORE_TEST(a_checkpoint_stays_until_its_save_is_done),
        STORE_TEST(the_last_good_checkpoint_stays_whatever_the_policy_says),
        STORE_TEST(damaged_checkpoints_do_not_count_as_the_last),
        STORE_TEST(no_pack_goes_while_a_checkpoint_cannot_tell_what_it_needs),
        STORE_TEST(a_newest_checkpoint_of_damaged_bytes_does_not_cost_the_good_one),
        STORE_TEST(the_oldest_stays_when_all_younger_ones_have_damaged_bytes),
        STORE_TEST(an_interruption_while_decoding_removes_nothing),
        STORE_TEST(what_a_killed_save_left_goes),
        STORE_TEST(packs_whose_snapshot_went_before_a_crash_go_next_time),
        STORE_TEST(strangers_in_the_folders_are_left_alone),
        STORE_TEST(an_empty_store_prunes_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
