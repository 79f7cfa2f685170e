#include "store_fixture.h"

#include <ckpt/stats.h>

#include "lease.h"
#include "live.h"
#include "repack.h"

#define FLOATS 40000
#define FROZEN 10000
#define STEPS  8

/* A training: each step moves the weights a little, but for a layer that is frozen. */
typedef struct training {
    float weight[FLOATS], frozen[FROZEN];
    uint64_t x;
} training;

static float noise(training *t)
{
    t->x = t->x * 6364136223846793005u + 1442695040888963407u;
    return (float)(t->x >> 40) / (1 << 24) - 0.5f;
}

static training *training_new(void)
{
    training *const t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->x = 1;
    for (size_t i = 0; i < FLOATS; i++)
        t->weight[i] = noise(t);
    for (size_t i = 0; i < FROZEN; i++)
        t->frozen[i] = noise(t);
    return t;
}

static void training_save(char id[CKPT_ID_SIZE], fixture *f, training *t, int64_t step)
{
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    ckpt_save_result saved;
    const ckpt_tensor tensors[] = {{"weight", CKPT_F32, 1, {FLOATS}, t->weight},
                                   {"frozen", CKPT_F32, 1, {FROZEN}, t->frozen}};
    for (size_t i = 0; i < FLOATS; i++)
        t->weight[i] += noise(t) * 1e-5f;
    options.step = step;
    MUST(ckpt_save_tensors(&saved, f->store, NULL, tensors, 2, NULL, 0, &options, ERR));
    memcpy(id, saved.id, CKPT_ID_SIZE);
}

/* STEPS saves, of which the last `kept` stay. */
static void train_and_prune(char ids[STEPS][CKPT_ID_SIZE], fixture *f, size_t kept)
{
    training *const t = training_new();
    char keep[32];
    snprintf(keep, sizeof keep, "last %zu", kept);
    const ckpt_prune_options options = {.size = sizeof options, .keep = keep};
    for (int64_t i = 0; i < STEPS; i++)
        training_save(ids[i], f, t, i);
    MUST(ckpt_prune(NULL, f->store, &options, ERR));
    free(t);
}

static uint64_t pack_bytes(fixture *f)
{
    ckpt_stats stats;
    MUST(ckpt_stats_get(&stats, f->store, NULL, ERR));
    const uint64_t bytes = stats.pack_bytes;
    ckpt_stats_clear(&stats);
    return bytes;
}

static uint64_t held_bytes(fixture *f)
{
    ckpt_stats stats;
    MUST(ckpt_stats_get(&stats, f->store, NULL, ERR));
    const uint64_t bytes = stats.held_bytes;
    ckpt_stats_clear(&stats);
    return bytes;
}

static void repack(ckpt_gc_result *result, fixture *f, bool dry_run)
{
    const ckpt_gc_options options = {.size = sizeof options, .dry_run = dry_run, .repack = true};
    MUST(ckpt_gc(result, f->store, &options, ERR));
}

static void assert_all_good(fixture *f)
{
    fixture_reopen(f);
    MUST(ckpt_verify(NULL, f->store, &VERIFY_FULL, ERR));
}

static void read_weight(float out[FLOATS], fixture *f, const char *name)
{
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FLOATS}, out};
    MUST(ckpt_restore_tensors(f->store, name, &tensor, 1, ERR));
}

/* ---- What it frees ---- */

static void a_chain_that_removed_checkpoints_hold_is_freed(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    ckpt_gc_result result;
    train_and_prune(ids, f, 2);
    const uint64_t before = pack_bytes(f);
    assert_true(held_bytes(f) > 0);
    repack(&result, f, false);
    assert_int_equal(result.repacked_checkpoints, 2);
    assert_int_equal(held_bytes(f), 0);
    assert_true(pack_bytes(f) < before);
    assert_int_equal(before - pack_bytes(f), result.freed_bytes - result.written_bytes);
    assert_all_good(f);
}

static void every_checkpoint_keeps_id_and_bytes(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    static float before[FLOATS], after[FLOATS];
    char id[CKPT_ID_SIZE];
    ckpt_gc_result result;
    train_and_prune(ids, f, 3);
    read_weight(before, f, ids[5]);
    repack(&result, f, false);
    fixture_reopen(f);
    MUST(ckpt_find(id, f->store, "step:5", ERR));
    assert_string_equal(id, ids[5]);
    read_weight(after, f, ids[5]);
    assert_memory_equal(before, after, sizeof before);
}

static void a_second_time_there_is_nothing_to_do(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    ckpt_gc_result result;
    train_and_prune(ids, f, 3);
    repack(&result, f, false);
    assert_true(result.repacked_checkpoints > 0);
    repack(&result, f, false);
    assert_int_equal(result.repacked_checkpoints, 0);
    assert_int_equal(result.freed_bytes, 0);
}

static void a_store_without_waste_stays_as_it_is(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    ckpt_gc_result result;
    train_and_prune(ids, f, STEPS);
    repack(&result, f, false);
    assert_int_equal(result.repacked_checkpoints, 0);
    assert_int_equal(count_files(f->store->packs_dir), STEPS);
}

static void a_dry_run_changes_nothing_and_expects_about_what_comes(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    ckpt_gc_result dry, wet;
    train_and_prune(ids, f, 2);
    const size_t packs = count_files(f->store->packs_dir);
    repack(&dry, f, true);
    assert_int_equal(count_files(f->store->packs_dir), packs);
    repack(&wet, f, false);
    assert_int_equal(dry.repacked_checkpoints, wet.repacked_checkpoints);
    assert_int_equal(dry.removed_packs, wet.removed_packs);
    assert_int_equal(dry.freed_bytes, wet.freed_bytes);
    assert_true(dry.written_bytes > wet.written_bytes / 2 && dry.written_bytes < wet.written_bytes * 2);
    assert_true(dry.scratch_bytes > 0 && dry.scratch_bytes <= dry.written_bytes);
}

/* Two files, of which the second save shares the first: of the first pack half a megabyte is left, two megabytes not.
 */
static void frames_that_nobody_needs_go_with_their_pack(void **state)
{
    fixture *const f = *state;
    enum { SMALL = 100000, LARGE = 400000 };
    static uint8_t large[LARGE], small[SMALL], after[SMALL];
    uint64_t x = 7;
    ckpt_save_result first, second;
    ckpt_gc_result result;
    for (size_t i = 0; i < LARGE; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        large[i] = (uint8_t)(x >> 56);
        small[i % SMALL] = (uint8_t)(x >> 48);
    }
    const ckpt_tensor tensors[] = {{"small", CKPT_U8, 1, {SMALL}, small}, {"large", CKPT_U8, 1, {LARGE}, large}};
    MUST(ckpt_save_tensors(&first, f->store, "a.safetensors", tensors, 2, NULL, 0, NULL, ERR));
    MUST(ckpt_save_tensors(&second, f->store, "b.safetensors", tensors, 1, NULL, 0, NULL, ERR));
    MUST(ckpt_remove(f->store, first.id, false, ERR));
    repack(&result, f, false);
    assert_int_equal(result.repacked_checkpoints, 1);
    assert_int_equal(count_files(f->store->packs_dir), 1);
    assert_true(pack_bytes(f) < LARGE);
    assert_all_good(f);
    const ckpt_tensor back = {"small", CKPT_U8, 1, {SMALL}, after};
    MUST(ckpt_restore_tensors(f->store, second.id, &back, 1, ERR));
    assert_memory_equal(small, after, SMALL);
}

static void later_saves_find_what_was_moved(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    char id[CKPT_ID_SIZE];
    ckpt_gc_result result;
    training *const t = training_new();
    train_and_prune(ids, f, 1);
    repack(&result, f, false);
    fixture_reopen(f);
    /* The layer that was in another pack than its checkpoint's tables, which only its hash tells; then all of it. */
    const ckpt_tensor frozen = {"renamed", CKPT_F32, 1, {FROZEN}, t->frozen};
    ckpt_save_result saved;
    MUST(ckpt_save_tensors(&saved, f->store, "other.safetensors", &frozen, 1, NULL, 0, NULL, ERR));
    assert_true(saved.shared_bytes >= sizeof t->frozen);
    for (int64_t i = 0; i < STEPS; i++) /* the same training again, up to the state that was moved */
        training_save(id, f, t, 100 + i);
    free(t);
    snapshot_name name;
    snapshot s;
    MUST(name_resolve(&name, f->store, "latest", ERR));
    MUST(snapshot_read(&s, f->store->snapshots_dir, &name, ERR));
    assert_true(s.stored_bytes < FLOATS); /* both tensors are shared */
    snapshot_clear(&s);
    assert_all_good(f);
}

/* ---- What it leaves alone ---- */

static void what_a_live_writer_names_stays(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    char path[FILE_PATH_MAX];
    sha256 old;
    intent *in;
    ckpt_gc_result result;
    train_and_prune(ids, f, 2);
    own_pack(&old, f, "latest");
    MUST(intent_open(&in, f->store, ERR));
    MUST(intent_take(in, &old, 1, ERR));
    repack(&result, f, false);
    MUST(intent_check(in, ERR));
    MUST(pack_path(path, f->store->packs_dir, &old, ERR));
    assert_true(exists(path));
    intent_close(in);
    repack(&result, f, false);
    assert_false(exists(path));
    assert_all_good(f);
}

static void a_content_that_is_open_can_be_read_to_its_end(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    static float before[FLOATS], after[FLOATS];
    ckpt_store *reader = NULL;
    ckpt_content *content = NULL;
    ckpt_gc_result result;
    train_and_prune(ids, f, 2);
    read_weight(before, f, "latest");
    MUST(ckpt_store_open(&reader, f->root, NULL, ERR));
    MUST(ckpt_content_open(&content, reader, "latest", ERR));
    repack(&result, f, false);
    assert_true(result.removed_packs > 0);
    for (size_t i = 0; i < ckpt_content_tensor_count(content); i++)
        if (strcmp(ckpt_content_tensor(content, i)->name, "weight") == 0)
            MUST(ckpt_content_read(after, content, i, 0, FLOATS, ERR));
    assert_memory_equal(before, after, sizeof before);
    ckpt_content_close(content);
    MUST(ckpt_content_open(&content, reader, "latest", ERR)); /* where it is now */
    ckpt_content_close(content);
    ckpt_store_close(reader);
}

static void two_at_once_are_one_too_many(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    char path[FILE_PATH_MAX];
    lease *other = NULL;
    ckpt_gc_result result;
    const ckpt_gc_options options = {.size = sizeof options, .repack = true};
    train_and_prune(ids, f, 2);
    MUST(path_join(path, f->store->intents_dir, "repack.lease", ERR));
    MUST(lease_acquire(&other, path, NULL, ERR));
    assert_int_equal(ckpt_gc(&result, f->store, &options, NULL), CKPT_EBUSY);
    lease_release(other);
    repack(&result, f, false);
}

static void a_damaged_checkpoint_keeps_all_as_it_is(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    char path[FILE_PATH_MAX];
    ckpt_gc_result result;
    const ckpt_gc_options options = {.size = sizeof options, .repack = true};
    train_and_prune(ids, f, 2);
    own_pack_file(path, f, ids[STEPS - 2]);
    flip_bit(path, 100); /* among its chunks, which tables do not show */
    fixture_reopen(f);
    assert_int_equal(ckpt_gc(&result, f->store, &options, NULL), CKPT_EDATA);
    assert_true(exists(path));
    assert_int_equal(count_files(f->store->snapshots_dir), 2);
    flip_bit(path, 100); /* and back: nothing else was hurt */
    assert_all_good(f);
}

/* What another program does meanwhile, once. */
typedef struct meanwhile {
    ckpt_store *store;
    const char *remove; /* or NULL */
    training *save;     /* or NULL */
    char saved[CKPT_ID_SIZE];
} meanwhile;

static int do_meanwhile(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    meanwhile *const m = payload;
    fixture other = {.store = m->store};
    (void)done_bytes;
    (void)total_bytes;
    if (m->remove)
        MUST(ckpt_remove(m->store, m->remove, false, ERR));
    if (m->save)
        training_save(m->saved, &other, m->save, 99);
    m->remove = NULL;
    m->save = NULL;
    return 0;
}

static void repack_beside(ckpt_gc_result *result, fixture *f, meanwhile *m)
{
    MUST(ckpt_store_open(&m->store, f->root, NULL, ERR));
    f->store->progress = do_meanwhile;
    f->store->payload = m;
    f->store->note = NULL;
    repack(result, f, false);
    ckpt_store_close(m->store);
    fixture_reopen(f);
}

static void a_checkpoint_that_is_removed_meanwhile_stays_removed(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    char id[CKPT_ID_SIZE];
    ckpt_gc_result result;
    train_and_prune(ids, f, 3);
    meanwhile m = {.remove = ids[STEPS - 3]};
    repack_beside(&result, f, &m);
    assert_int_equal(ckpt_find(id, f->store, ids[STEPS - 3], NULL), CKPT_ENOTFOUND);
    assert_int_equal(count_files(f->store->snapshots_dir), 2);
    assert_all_good(f);
}

static void saves_go_on_beside_it(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    char id[CKPT_ID_SIZE];
    ckpt_gc_result result;
    train_and_prune(ids, f, 3);
    training *const t = training_new();
    meanwhile m = {.save = t};
    repack_beside(&result, f, &m);
    free(t);
    MUST(ckpt_find(id, f->store, "step:99", ERR));
    assert_string_equal(id, m.saved);
    assert_int_equal(count_files(f->store->snapshots_dir), 4);
    assert_all_good(f);
    repack(&result, f, false); /* what the new one is stored as a difference from is gone after that */
    assert_int_equal(held_bytes(f), 0);
    assert_all_good(f);
}

static int stop_later(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    int *const left = payload;
    (void)done_bytes;
    (void)total_bytes;
    return --*left <= 0;
}

static void stopped_anywhere_it_goes_on_later(void **state)
{
    fixture *const f = *state;
    static char ids[STEPS][CKPT_ID_SIZE];
    const ckpt_gc_options options = {.size = sizeof options, .repack = true};
    ckpt_gc_result result;
    int left, stopped = 0, rc = CKPT_EINTERRUPTED;
    train_and_prune(ids, f, 3);
    for (int at = 1; rc == CKPT_EINTERRUPTED && at < 200; at++) {
        left = at;
        fixture_reopen(f);
        f->store->progress = stop_later;
        f->store->payload = &left;
        rc = ckpt_gc(&result, f->store, &options, NULL);
        stopped += rc == CKPT_EINTERRUPTED;
        f->store->payload = f;
        assert_all_good(f);
    }
    assert_int_equal(rc, 0);
    assert_true(stopped > 5);
    assert_int_equal(held_bytes(f), 0);
    assert_int_equal(count_files(f->store->packs_dir), 3);
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_chain_that_removed_checkpoints_hold_is_freed),
        STORE_TEST(every_checkpoint_keeps_id_and_bytes),
        STORE_TEST(a_second_time_there_is_nothing_to_do),
        STORE_TEST(a_store_without_waste_stays_as_it_is),
        STORE_TEST(a_dry_run_changes_nothing_and_expects_about_what_comes),
        STORE_TEST(frames_that_nobody_needs_go_with_their_pack),
        STORE_TEST(later_saves_find_what_was_moved),
        STORE_TEST(what_a_live_writer_names_stays),
        STORE_TEST(a_content_that_is_open_can_be_read_to_its_end),
        STORE_TEST(two_at_once_are_one_too_many),
        STORE_TEST(a_damaged_checkpoint_keeps_all_as_it_is),
        STORE_TEST(a_checkpoint_that_is_removed_meanwhile_stays_removed),
        STORE_TEST(saves_go_on_beside_it),
        STORE_TEST(stopped_anywhere_it_goes_on_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
