#include "store_fixture.h"

#include <ckpt/stats.h>

#include "thread.h"
#include "usage.h"

static uint64_t store_bytes(fixture *f)
{
    ckpt_usage u;
    MUST(ckpt_usage_get(&u, f->store, ERR));
    return u.store_bytes;
}

static void quota_set(fixture *f, uint64_t bytes)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    MUST(ckpt_setting_set(f->store, "quota", text, ERR));
}

/* Bytes without any pattern: what is saved takes as much as it is. */
static void noise_fill(uint8_t *bytes, size_t size, uint64_t seed)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < size; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(x >> 56);
    }
}

#define NOISE_BYTES 200000

static int noise_save(char id[CKPT_ID_SIZE], ckpt_store *store, uint64_t seed, const char *tag, ckpt_error *err)
{
    uint8_t *const bytes = malloc(NOISE_BYTES);
    assert_non_null(bytes);
    noise_fill(bytes, NOISE_BYTES, seed);
    const ckpt_tensor tensor = {"noise", CKPT_U8, 1, {NOISE_BYTES}, bytes};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    ckpt_save_result saved;
    options.tag = tag;
    const int rc = ckpt_save_tensors(&saved, store, NULL, &tensor, 1, NULL, 0, &options, err);
    memcpy(id, saved.id, CKPT_ID_SIZE);
    free(bytes);
    return rc;
}

static void assert_all_good(fixture *f)
{
    fixture_reopen(f);
    MUST(ckpt_verify(NULL, f->store, &VERIFY_FULL, ERR));
}

static void policy_set(fixture *f, const char *keep)
{
    MUST(ckpt_setting_set(f->store, "keep", keep, ERR));
}

static void room_is_what_quota_and_disk_both_allow(void **state)
{
    const ckpt_usage no_quota = {.store_bytes = 10, .disk_free_bytes = 50};
    const ckpt_usage by_quota = {.store_bytes = 10, .disk_free_bytes = 50, .quota_bytes = 40};
    const ckpt_usage by_disk = {.store_bytes = 10, .disk_free_bytes = 50, .quota_bytes = 100};
    const ckpt_usage beyond = {.store_bytes = 110, .disk_free_bytes = 50, .quota_bytes = 100};
    (void)state;
    assert_int_equal(usage_room(&no_quota), 50);
    assert_int_equal(usage_room(&by_quota), 30);
    assert_int_equal(usage_room(&by_disk), 50);
    assert_int_equal(usage_room(&beyond), 0);
}

/* ---- Refusing ---- */

static void what_does_not_fit_is_refused_with_the_numbers(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], id[CKPT_ID_SIZE];
    ckpt_error err = {0};
    MUST(noise_save(first, f->store, 1, NULL, ERR));
    const uint64_t before = store_bytes(f);
    quota_set(f, before + NOISE_BYTES / 2);
    assert_int_equal(noise_save(id, f->store, 2, NULL, &err), CKPT_EQUOTA);
    assert_string_equal(id, "");
    assert_non_null(strstr(err.message, "needs about 196."));
    assert_non_null(strstr(err.message, "97.7 KiB are free of the quota of 293.7 KiB"));
    assert_non_null(strstr(err.message, "the policy could free 0 B"));
    assert_non_null(strstr(err.hint, "--quota"));
    assert_int_equal(store_bytes(f), before);
    MUST(ckpt_find(id, f->store, "latest", ERR));
    assert_string_equal(id, first);
    assert_all_good(f);
}

static void no_checkpoint_goes_when_that_would_not_be_enough(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_error err = {0};
    policy_set(f, "last 1");
    save_noise(id, f, 1); /* 3 kB, which the policy could free */
    MUST(noise_save(id, f->store, 2, NULL, ERR));
    quota_set(f, store_bytes(f) + 1000);
    assert_int_equal(noise_save(id, f->store, 3, NULL, &err), CKPT_EQUOTA);
    assert_non_null(strstr(err.message, "the policy could free 3."));
    assert_int_equal(count_files(f->store->snapshots_dir), 2);
    assert_all_good(f);
}

static void tagged_checkpoints_stay_though_a_save_is_refused(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    policy_set(f, "last 1, tagged");
    MUST(noise_save(id, f->store, 1, "a", ERR));
    MUST(noise_save(id, f->store, 2, "b", ERR));
    quota_set(f, store_bytes(f) + 1000);
    assert_int_equal(noise_save(id, f->store, 3, NULL, NULL), CKPT_EQUOTA);
    assert_int_equal(count_files(f->store->snapshots_dir), 2);
}

static void a_wrong_quota_is_no_quota_that_is_passed_over(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_error err = {0};
    assert_int_equal(ckpt_setting_set(f->store, "quota", "much", NULL), CKPT_EUSAGE);
    char *const config = read_text(f->store->config_path);
    memcpy(strstr(config, "quota ="), "quota =4X\n#", 11);
    write_text(f->store->config_path, config);
    free(config);
    assert_int_equal(noise_save(id, f->store, 1, NULL, &err), CKPT_EUSAGE);
    assert_non_null(strstr(err.message, "quota"));
}

/* ---- Making room ---- */

static void the_policy_makes_room_when_it_is_enough(void **state)
{
    fixture *const f = *state;
    char ids[4][CKPT_ID_SIZE], id[CKPT_ID_SIZE];
    policy_set(f, "last 1");
    for (uint64_t i = 0; i < 3; i++)
        MUST(noise_save(ids[i], f->store, i, NULL, ERR));
    const uint64_t limit = store_bytes(f) + 1000;
    quota_set(f, limit);
    MUST(noise_save(ids[3], f->store, 3, NULL, ERR));
    assert_non_null(strstr(f->note, "to make room the policy removed 2 checkpoints"));
    assert_int_equal(count_files(f->store->snapshots_dir), 2);
    assert_true(store_bytes(f) <= limit);
    MUST(ckpt_find(id, f->store, "latest~1", ERR));
    assert_string_equal(id, ids[2]); /* the newest of then */
    assert_all_good(f);
}

static void what_no_checkpoint_needs_makes_room_too(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    MUST(noise_save(id, f->store, 1, NULL, ERR));
    MUST(ckpt_remove(f->store, id, false, ERR));
    MUST(noise_save(id, f->store, 2, NULL, ERR));
    quota_set(f, store_bytes(f) + 1000);
    MUST(noise_save(id, f->store, 3, NULL, ERR));
    assert_int_equal(count_files(f->store->packs_dir), 2);
    assert_all_good(f);
}

static void a_save_larger_than_samples_promised_lets_the_policy_make_room_too(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_save_result saved;
    static uint8_t bytes[NOISE_BYTES];
    const ckpt_tensor tensor = {"noise", CKPT_U8, 1, {NOISE_BYTES}, bytes};
    noise_fill(bytes, NOISE_BYTES, 9);
    memset(bytes + NOISE_BYTES / 3, 0, 40000); /* where a tensor is sampled */
    memset(bytes + NOISE_BYTES / 3 * 2, 0, 40000);
    policy_set(f, "last 1");
    for (uint64_t i = 0; i < 3; i++)
        MUST(noise_save(id, f->store, i, NULL, ERR));
    const uint64_t limit = store_bytes(f) + 60000;
    quota_set(f, limit);
    MUST(ckpt_save_tensors(&saved, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    assert_true(saved.stored_bytes > 100000);
    assert_non_null(strstr(f->note, "to make room the policy removed 2"));
    assert_true(store_bytes(f) <= limit);
    assert_int_equal(count_files(f->store->snapshots_dir), 2);
    assert_all_good(f);
}

static void within_the_quota_the_policy_is_not_applied(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    policy_set(f, "last 1");
    quota_set(f, 10 * NOISE_BYTES);
    for (uint64_t i = 0; i < 5; i++)
        MUST(noise_save(id, f->store, i, NULL, ERR));
    assert_int_equal(count_files(f->store->snapshots_dir), 5);
}

/* ---- At the limit ---- */

/* Bytes of a store with the saves 1 and 2, and in *first with the first alone. */
static uint64_t bytes_of_two(uint64_t *first)
{
    void *state = NULL;
    char id[CKPT_ID_SIZE];
    assert_int_equal(fixture_setup(&state), 0);
    fixture *const f = state;
    MUST(noise_save(id, f->store, 1, NULL, ERR));
    *first = store_bytes(f);
    MUST(noise_save(id, f->store, 2, NULL, ERR));
    const uint64_t bytes = store_bytes(f);
    assert_int_equal(fixture_teardown(&state), 0);
    return bytes;
}

static void a_save_that_fits_to_the_byte_is_done(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    uint64_t first;
    quota_set(f, bytes_of_two(&first));
    MUST(noise_save(id, f->store, 1, NULL, ERR));
    MUST(noise_save(id, f->store, 2, NULL, ERR));
    assert_all_good(f);
}

static void one_byte_too_many_fails_before_anything_is_committed(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_error err = {0};
    uint64_t first;
    quota_set(f, bytes_of_two(&first) - 1);
    MUST(noise_save(id, f->store, 1, NULL, ERR));
    assert_int_equal(noise_save(id, f->store, 2, NULL, &err), CKPT_EQUOTA);
    assert_non_null(strstr(err.message, "with this save the store would take"));
    assert_int_equal(store_bytes(f), first);
    assert_int_equal(count_files(f->store->tmp_dir), 0);
    assert_all_good(f);
}

static void samples_tell_a_delta_from_a_whole(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    MUST(noise_save(id, f->store, 1, NULL, ERR));
    quota_set(f, store_bytes(f) + 20000);
    MUST(noise_save(id, f->store, 1, NULL, ERR)); /* the same again takes next to nothing */
    assert_int_equal(count_files(f->store->snapshots_dir), 2);
}

/* Two large files, each of which gets a pack; the second does not fit. */
static void packs_closed_on_the_way_are_given_back(void **state)
{
    fixture *const f = *state;
    enum { SIZE = 400000 };
    char paths[3][FILE_PATH_MAX];
    const char *const given[] = {paths[0], paths[1], paths[2]};
    static uint8_t bytes[SIZE];
    for (size_t i = 0; i < 3; i++) { /* half of each is zeros, so that samples promise less than there is */
        char name[16];
        snprintf(name, sizeof name, "%zu.bin", i);
        MUST(path_join(paths[i], f->root, name, ERR));
        noise_fill(bytes, SIZE, i);
        memset(bytes + SIZE / 3, 0, SIZE / 3);
        FILE *const file = fopen(paths[i], "w");
        assert_int_equal(fwrite(bytes, 1, SIZE, file), SIZE);
        assert_int_equal(fclose(file), 0);
    }
    quota_set(f, 500000);
    assert_int_equal(ckpt_save_files(NULL, f->store, given, 3, NULL, NULL), CKPT_EQUOTA);
    assert_int_equal(count_files(f->store->packs_dir), 0);
    assert_int_equal(count_files(f->store->tmp_dir), 0);
}

/* ---- Others ---- */

static void the_background_writer_tells_of_the_quota(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_writer *writer = NULL;
    ckpt_error err = {0};
    ckpt_writer_stats stats;
    static uint8_t bytes[NOISE_BYTES];
    const ckpt_tensor tensor = {"noise", CKPT_U8, 1, {NOISE_BYTES}, bytes};
    MUST(noise_save(id, f->store, 1, NULL, ERR));
    quota_set(f, store_bytes(f) + 1000);
    noise_fill(bytes, NOISE_BYTES, 2);
    MUST(ckpt_writer_open(&writer, f->root, NULL, ERR));
    MUST(ckpt_writer_submit(writer, NULL, &tensor, 1, NULL, 0, NULL, CKPT_ORDINARY, ERR));
    assert_int_equal(ckpt_writer_wait(writer, &err), CKPT_EQUOTA);
    assert_non_null(strstr(err.message, "of the quota"));
    MUST(ckpt_setting_set(f->store, "quota", "0", ERR)); /* none: the next one fits */
    MUST(ckpt_writer_submit(writer, NULL, &tensor, 1, NULL, 0, NULL, CKPT_ORDINARY, ERR));
    MUST(ckpt_writer_wait(writer, ERR));
    ckpt_writer_stats_get(&stats, writer);
    assert_int_equal(stats.failed, 1);
    assert_int_equal(stats.committed, 1);
    MUST(ckpt_writer_close(writer, ERR));
    assert_all_good(f);
}

typedef struct competitor {
    const char *root;
    uint64_t seed;
    int saved, refused, other;
} competitor;

static void *compete(void *payload)
{
    competitor *const c = payload;
    ckpt_store *store = NULL;
    char id[CKPT_ID_SIZE];
    if (ckpt_store_open(&store, c->root, NULL, NULL)) {
        c->other++;
        return NULL;
    }
    for (uint64_t i = 0; i < 6; i++) {
        const int rc = noise_save(id, store, c->seed + i, NULL, NULL);
        c->saved += rc == 0;
        c->refused += rc == CKPT_EQUOTA;
        c->other += rc != 0 && rc != CKPT_EQUOTA && rc != CKPT_EBUSY;
    }
    ckpt_store_close(store);
    return NULL;
}

static void saves_at_the_same_time_stay_within_the_quota_together(void **state)
{
    fixture *const f = *state;
    const uint64_t limit = 5 * NOISE_BYTES + NOISE_BYTES / 2;
    competitor c[2] = {{.root = f->root, .seed = 100}, {.root = f->root, .seed = 200}};
    pthread_t threads[2];
    policy_set(f, "last 99");
    quota_set(f, limit);
    for (size_t i = 0; i < 2; i++)
        MUST(thread_start(&threads[i], compete, &c[i], ERR));
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(c[0].other + c[1].other, 0);
    assert_true(c[0].saved + c[1].saved <= 5);
    assert_true(c[0].refused + c[1].refused >= 7);
    assert_true(store_bytes(f) <= limit + 2 * SNAPSHOT_BYTES_MAX);
    assert_int_equal(count_files(f->store->snapshots_dir), c[0].saved + c[1].saved);
    assert_all_good(f);
}

static void a_full_quota_refuses_repacking_with_the_numbers(void **state)
{
    fixture *const f = *state;
    enum { FLOATS = 40000 };
    static float weight[FLOATS];
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FLOATS}, weight};
    const ckpt_gc_options options = {.size = sizeof options, .repack = true};
    ckpt_save_result first, second;
    ckpt_error err = {0};
    noise_fill((uint8_t *)weight, sizeof weight / 2, 1);
    for (size_t i = 0; i < FLOATS; i++)
        weight[i] = (float)i / FLOATS + (float)((i * 2654435761u) >> 20 & 0xfff) * 1e-5f;
    MUST(ckpt_save_tensors(&first, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    for (size_t i = 0; i < FLOATS; i++)
        weight[i] += (float)((i * 2246822519u) >> 20 & 0xff) * 1e-8f;
    MUST(ckpt_save_tensors(&second, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    MUST(ckpt_remove(f->store, first.id, false, ERR));
    quota_set(f, store_bytes(f) + 100);
    assert_int_equal(ckpt_gc(NULL, f->store, &options, &err), CKPT_ENOSPC);
    assert_non_null(strstr(err.message, "repacking needs "));
    assert_non_null(strstr(err.message, "100 B are free"));
    MUST(ckpt_setting_set(f->store, "quota", "0", ERR));
    MUST(ckpt_gc(NULL, f->store, &options, ERR));
    assert_int_equal(count_files(f->store->packs_dir), 1);
    assert_all_good(f);
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(room_is_what_quota_and_disk_both_allow),
        STORE_TEST(what_does_not_fit_is_refused_with_the_numbers),
        STORE_TEST(no_checkpoint_goes_when_that_would_not_be_enough),
        STORE_TEST(tagged_checkpoints_stay_though_a_save_is_refused),
        STORE_TEST(a_wrong_quota_is_no_quota_that_is_passed_over),
        STORE_TEST(the_policy_makes_room_when_it_is_enough),
        STORE_TEST(what_no_checkpoint_needs_makes_room_too),
        STORE_TEST(a_save_larger_than_samples_promised_lets_the_policy_make_room_too),
        STORE_TEST(within_the_quota_the_policy_is_not_applied),
        STORE_TEST(a_save_that_fits_to_the_byte_is_done),
        STORE_TEST(one_byte_too_many_fails_before_anything_is_committed),
        STORE_TEST(samples_tell_a_delta_from_a_whole),
        STORE_TEST(packs_closed_on_the_way_are_given_back),
        STORE_TEST(the_background_writer_tells_of_the_quota),
        STORE_TEST(saves_at_the_same_time_stay_within_the_quota_together),
        STORE_TEST(a_full_quota_refuses_repacking_with_the_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
