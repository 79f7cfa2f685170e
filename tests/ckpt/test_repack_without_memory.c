/* Memory that runs out while a store is repacked: an error that says so, or success; no checkpoint is hurt. */
#include "store_fixture.h"

#include "alloc_fail.h"

#define FLOATS          20000
#define ALLOCATIONS_MAX 100000

/* Three states of a training, of which the last stays, stored as differences from the others. */
static void last_of_three(fixture *f, float weight[FLOATS])
{
    const ckpt_prune_options options = {.size = sizeof options, .keep = "last 1"};
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FLOATS}, weight};
    uint64_t x = 1;
    for (int step = 0; step < 3; step++) {
        for (size_t i = 0; i < FLOATS; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            weight[i] += (float)(x >> 40) * (step ? 1e-13f : 1e-7f);
        }
        MUST(ckpt_save_tensors(NULL, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    }
    MUST(ckpt_prune(NULL, f->store, &options, ERR));
    assert_true(count_files(f->store->packs_dir) > 1);
}

/* The JSON library loses pieces of a text when it has no memory, and then a snapshot looks damaged. */
static bool is_expected(int rc, const ckpt_error *err)
{
    return rc == 0 || rc == CKPT_ENOMEM || (rc == CKPT_EDATA && strstr(err->message, "snapshot"));
}

/* True when there was no such allocation any more. */
static bool repack_with_failure(long at)
{
    void *state = NULL;
    static float weight[FLOATS], after[FLOATS];
    const ckpt_gc_options options = {.size = sizeof options, .repack = true};
    const ckpt_tensor back = {"weight", CKPT_F32, 1, {FLOATS}, after};
    ckpt_error err = {0};
    memset(weight, 0, sizeof weight);
    assert_int_equal(fixture_setup(&state), 0);
    fixture *const f = state;
    last_of_three(f, weight);
    fixture_reopen(f);
    alloc_fail_arm(at);
    const int rc = ckpt_gc(NULL, f->store, &options, &err);
    const bool happened = alloc_fail_disarm();
    if (!is_expected(rc, &err))
        fail_msg("allocation %ld: code %d: %s", at, rc, err.message);
    fixture_reopen(f);
    MUST(ckpt_verify(NULL, f->store, &VERIFY_FULL, ERR));
    MUST(ckpt_restore_tensors(f->store, "latest", &back, 1, ERR));
    assert_memory_equal(weight, after, sizeof weight);
    MUST(ckpt_gc(NULL, f->store, &options, ERR));
    assert_int_equal(count_files(f->store->packs_dir), 1);
    assert_int_equal(count_files(f->store->tmp_dir), 0);
    assert_int_equal(fixture_teardown(&state), 0);
    return !happened;
}

/* Each of the first ones, then fewer and fewer of those that are alike. */
static void repacking_survives_allocations_that_fail(void **state)
{
    (void)state;
    long at = 1;
    if (!ALLOC_FAIL_WORKS)
        skip();
    while (!repack_with_failure(at) && at < ALLOCATIONS_MAX)
        at += 1 + at / 8;
    assert_true(at > 200 && at < ALLOCATIONS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(repacking_survives_allocations_that_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
