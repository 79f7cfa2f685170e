/* Writers, a background writer, a pruner, a repacker, readers and a verifier on one store at the same time, in one
 * process, so that the thread sanitizer sees them. tests/crash/stress.py does the same across processes, and kills
 * them. */
#include "store_fixture.h"

#include <math.h>
#include <pthread.h>

#define WRITERS         2
#define READERS         2
#define ROUNDS          10
#define ELEMENTS        30000 /* more than a group takes, so that it has frames of its own */
#define ELEMENTS_SMALL  500
#define THREADS_MAX     9
#define POLICY          "last 4, tagged"
#define SEED_BACKGROUND 100 /* seeds of writer i are below 10 * (i + 1) */

/* ---- A state that tells by itself whether it is whole: element 0 is its seed, all others follow from that ---- */

typedef struct weights {
    float large[ELEMENTS], small[ELEMENTS_SMALL];
} weights;

static float element(unsigned seed, size_t i)
{
    return i == 0 ? (float)seed : sinf((float)i) * (1.0f + (float)seed / 4096.0f);
}

static void weights_fill(weights *s, unsigned seed)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        s->large[i] = element(seed, i);
    for (size_t i = 0; i < ELEMENTS_SMALL; i++)
        s->small[i] = element(seed, i);
}

static bool weights_is_whole(const weights *s)
{
    const unsigned seed = (unsigned)s->large[0];
    bool whole = true;

    for (size_t i = 0; i < ELEMENTS; i++)
        whole = whole && s->large[i] == element(seed, i);
    for (size_t i = 0; i < ELEMENTS_SMALL; i++)
        whole = whole && s->small[i] == element(seed, i);
    return whole;
}

static void weights_tensors(ckpt_tensor out[2], weights *s)
{
    out[0] = (ckpt_tensor){"large", CKPT_F32, 1, {ELEMENTS}, s->large};
    out[1] = (ckpt_tensor){"small", CKPT_F32, 1, {ELEMENTS_SMALL}, s->small};
}

/* ---- The threads: each has a store of its own, and says what went wrong, as cmocka works in the main thread only ----
 */

typedef struct actor {
    const char *root;
    unsigned number;
    pthread_t thread;
    char wrong[1200];           /* "": nothing */
    char last_id[CKPT_ID_SIZE]; /* of a writer: its last save, which it has tagged */
} actor;

static bool went_wrong(actor *a, const char *what, int rc, const ckpt_error *err)
{
    if (rc && !a->wrong[0])
        snprintf(a->wrong, sizeof a->wrong, "%s: %d: %s", what, rc, err->message);
    return rc != 0;
}

static ckpt_store *open_own(actor *a)
{
    const ckpt_open_options options = {.size = sizeof options, .threads = 2};
    ckpt_store *store = NULL;
    ckpt_error err = {0};

    went_wrong(a, "open", ckpt_store_open(&store, a->root, &options, &err), &err);
    return store;
}

static void *writer_run(void *payload)
{
    actor *const a = payload;
    ckpt_store *const store = open_own(a);
    weights *const s = calloc(1, sizeof *s);
    char tag[32];
    ckpt_tensor tensors[2];

    snprintf(tag, sizeof tag, "last-of-%u", a->number);
    weights_tensors(tensors, s);
    for (unsigned round = 0; store && round < ROUNDS && !a->wrong[0]; round++) {
        ckpt_error err = {0};
        ckpt_save_result saved;
        ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
        options.tag = tag;
        weights_fill(s, 10 * a->number + round);
        if (!went_wrong(a, "save", ckpt_save_tensors(&saved, store, NULL, tensors, 2, NULL, 0, &options, &err), &err))
            memcpy(a->last_id, saved.id, sizeof saved.id);
    }
    free(s);
    ckpt_store_close(store);
    return NULL;
}

static void *background_run(void *payload)
{
    actor *const a = payload;
    const ckpt_open_options options = {.size = sizeof options, .threads = 2};
    weights *const s = calloc(1, sizeof *s);
    ckpt_writer *writer = NULL;
    ckpt_tensor tensors[2];
    ckpt_error err = {0};

    weights_tensors(tensors, s);
    if (!went_wrong(a, "open", ckpt_writer_open(&writer, a->root, &options, &err), &err)) {
        for (unsigned round = 0; round < 2 * ROUNDS; round++) {
            weights_fill(s, SEED_BACKGROUND + round);
            went_wrong(a, "submit",
                       ckpt_writer_submit(writer, NULL, tensors, 2, NULL, 0, NULL,
                                          round % 3 ? CKPT_ORDINARY : CKPT_KEEP, &err),
                       &err);
        }
        went_wrong(a, "close", ckpt_writer_close(writer, &err), &err);
    }
    free(s);
    return NULL;
}

static void *pruner_run(void *payload)
{
    actor *const a = payload;
    ckpt_store *const store = open_own(a);
    const ckpt_prune_options options = {.size = sizeof options, .keep = POLICY};

    for (unsigned round = 0; store && round < 2 * ROUNDS && !a->wrong[0]; round++) {
        ckpt_error err = {0};
        const int rc = ckpt_prune(NULL, store, &options, &err);
        if (rc != CKPT_EBUSY) /* the repacker has the store */
            went_wrong(a, "prune", rc, &err);
        usleep(5000);
    }
    ckpt_store_close(store);
    return NULL;
}

/* Repacking moves the bytes of checkpoints under who reads them. */
static void *repacker_run(void *payload)
{
    actor *const a = payload;
    ckpt_store *const store = open_own(a);
    const ckpt_gc_options options = {.size = sizeof options, .repack = true};

    for (unsigned round = 0; store && round < ROUNDS && !a->wrong[0]; round++) {
        ckpt_error err = {0};
        const int rc = ckpt_gc(NULL, store, &options, &err);
        if (rc != CKPT_EBUSY) /* the pruner has the store */
            went_wrong(a, "repack", rc, &err);
        usleep(5000);
    }
    ckpt_store_close(store);
    return NULL;
}

static void *reader_run(void *payload)
{
    actor *const a = payload;
    ckpt_store *const store = open_own(a);
    weights *const s = calloc(1, sizeof *s);
    ckpt_tensor tensors[2];

    weights_tensors(tensors, s);
    for (unsigned round = 0; store && round < 2 * ROUNDS && !a->wrong[0]; round++) {
        ckpt_error err = {0};
        ckpt_list *list = NULL;
        if (went_wrong(a, "restore", ckpt_restore_tensors(store, "latest", tensors, 2, &err), &err))
            break;
        if (!weights_is_whole(s))
            snprintf(a->wrong, sizeof a->wrong, "restore gave a state that is not whole");
        went_wrong(a, "list", ckpt_list_new(&list, store, &err), &err);
        if (list && ckpt_list_count(list) == 0)
            snprintf(a->wrong, sizeof a->wrong, "the list is empty");
        ckpt_list_free(list);
    }
    free(s);
    ckpt_store_close(store);
    return NULL;
}

/* Takes the checkpoint that the policy will take first: it is restored whole, or not found. */
static void *late_reader_run(void *payload)
{
    actor *const a = payload;
    ckpt_store *const store = open_own(a);
    weights *const s = calloc(1, sizeof *s);
    ckpt_tensor tensors[2];

    weights_tensors(tensors, s);
    for (unsigned round = 0; store && round < 4 * ROUNDS && !a->wrong[0]; round++) {
        ckpt_error err = {0};
        ckpt_list *list = NULL;
        if (went_wrong(a, "list", ckpt_list_new(&list, store, &err), &err))
            break;
        const char *const oldest = ckpt_list_get(list, ckpt_list_count(list) - 1)->id;
        const int rc = ckpt_restore_tensors(store, oldest, tensors, 2, &err);
        if (rc == 0 && !weights_is_whole(s))
            snprintf(a->wrong, sizeof a->wrong, "restore gave a state that is not whole");
        if (rc != CKPT_ENOTFOUND)
            went_wrong(a, "restore of the oldest", rc, &err);
        ckpt_list_free(list);
    }
    free(s);
    ckpt_store_close(store);
    return NULL;
}

static void *verifier_run(void *payload)
{
    actor *const a = payload;
    ckpt_store *const store = open_own(a);

    for (unsigned round = 0; store && round < ROUNDS && !a->wrong[0]; round++) {
        ckpt_error err = {0};
        ckpt_verify_result result = {0};
        went_wrong(a, "verify", ckpt_verify(&result, store, &VERIFY_FULL, &err), &err);
        ckpt_verify_result_clear(&result);
    }
    ckpt_store_close(store);
    return NULL;
}

/* ---- */

static void start(actor *a, const fixture *f, unsigned number, void *(*run)(void *))
{
    *a = (actor){.root = f->root, .number = number};
    assert_int_equal(pthread_create(&a->thread, NULL, run, a), 0);
}

static void first_save(const fixture *f)
{
    weights *const s = calloc(1, sizeof *s);
    ckpt_tensor tensors[2];

    assert_non_null(s);
    weights_fill(s, 0);
    weights_tensors(tensors, s);
    MUST(ckpt_save_tensors(NULL, f->store, NULL, tensors, 2, NULL, 0, NULL, ERR));
    free(s);
}

static void assert_restores_whole(const fixture *f, const char *name)
{
    weights *const s = calloc(1, sizeof *s);
    ckpt_tensor tensors[2];

    assert_non_null(s);
    weights_tensors(tensors, s);
    MUST(ckpt_restore_tensors(f->store, name, tensors, 2, ERR));
    assert_true(weights_is_whole(s));
    free(s);
}

static void nothing_is_lost_when_all_work_at_once(void **state)
{
    fixture *const f = *state;
    actor actors[THREADS_MAX];
    unsigned count = 0;
    ckpt_verify_result verified = {0};
    ckpt_list *list = NULL;

    first_save(f);
    for (unsigned i = 0; i < WRITERS; i++)
        start(&actors[count++], f, i, writer_run);
    start(&actors[count++], f, 0, background_run);
    start(&actors[count++], f, 0, pruner_run);
    start(&actors[count++], f, 0, repacker_run);
    for (unsigned i = 0; i < READERS; i++)
        start(&actors[count++], f, i, reader_run);
    start(&actors[count++], f, 0, late_reader_run);
    start(&actors[count++], f, 0, verifier_run);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_join(actors[i].thread, NULL), 0);

    for (unsigned i = 0; i < count; i++)
        assert_string_equal(actors[i].wrong, "");
    for (unsigned i = 0; i < WRITERS; i++)
        assert_restores_whole(f, actors[i].last_id); /* tagged, so no prune may have taken it */
    MUST(ckpt_list_new(&list, f->store, ERR));
    for (size_t i = 0; i < ckpt_list_count(list); i++)
        assert_restores_whole(f, ckpt_list_get(list, i)->id);
    MUST(ckpt_verify(&verified, f->store, &VERIFY_FULL, ERR));
    ckpt_verify_result_clear(&verified);
    ckpt_list_free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_lost_when_all_work_at_once, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
