/* Saves and prunes in several processes at once: every save succeeds, and nothing that was saved and is to be kept is
 * lost. */
#include "store_fixture.h"

#include <sys/wait.h>

#define SAVERS 3
#define SAVES  20 /* of each; every fourth is tagged */

/* Pairs of savers meet in equal bytes, so that one refers to packs of the other that are just being pruned. */
static void saver_run(const char *root, int number)
{
    static float values[FIXTURE_TENSOR_FLOATS];
    ckpt_store *store = NULL;
    ckpt_error err = {0};
    int rc = ckpt_store_open(&store, root, NULL, &err);

    for (int i = 0; i < SAVES && rc == 0; i++) {
        char tag[32];
        ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
        const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FIXTURE_TENSOR_FLOATS}, values};
        uint64_t x = (uint64_t)(i / 2 + 1) * 0x9e3779b97f4a7c15u;
        for (size_t k = 0; k < FIXTURE_TENSOR_FLOATS; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            values[k] = (float)(x >> 40);
        }
        snprintf(tag, sizeof tag, "saver %d save %d", number, i);
        options.message = tag; /* else two savers could make the very same checkpoint in the same second */
        if (i % 4 == 0)
            options.tag = tag;
        rc = ckpt_save_tensors(NULL, store, NULL, &tensor, 1, NULL, 0, &options, &err);
    }
    if (rc)
        fprintf(stderr, "saver %d: %s\n", number, err.message);
    ckpt_store_close(store);
    _exit(rc ? 1 : 0);
}

static void saves_and_prunes_at_the_same_time_lose_nothing(void **state)
{
    fixture *const f = *state;
    const ckpt_prune_options options = {.size = sizeof options, .keep = "last 2, tagged"};
    int alive = SAVERS, failed = 0;
    for (int i = 0; i < SAVERS; i++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            saver_run(f->root, i);
    }
    while (alive > 0) {
        int status;
        const pid_t done = waitpid(-1, &status, WNOHANG);
        alive -= done > 0;
        failed += done > 0 && status != 0;
        ckpt_error err = {0};
        const int rc = ckpt_prune(NULL, f->store, &options, &err);
        if (rc != 0 && rc != CKPT_EBUSY)
            fail_msg("prune: %s", err.message);
    }
    assert_int_equal(failed, 0);
    fixture_reopen(f);
    MUST(ckpt_verify(NULL, f->store, &VERIFY_FULL, ERR));
    assert_int_equal(count_files(f->store->tags_dir), SAVERS * SAVES / 4);
    MUST(ckpt_prune(NULL, f->store, &options, ERR));
    assert_in_range(count_files(f->store->snapshots_dir), SAVERS * SAVES / 4, SAVERS * SAVES / 4 + 2);
    assert_int_equal(count_files(f->store->intents_dir), 0);
    assert_int_equal(count_files(f->store->tmp_dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(saves_and_prunes_at_the_same_time_lose_nothing, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
