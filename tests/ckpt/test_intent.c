/* Writers and prune at the same time: two processes, one of which dies or waits. */
#include "store_fixture.h"

#include "lease.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static const sha256 PACK_A = {{0xaa}}, PACK_B = {{0xbb}};
#define OLD 1000 /* seconds since 1970: long before any intent of these tests */

static void put_pack(fixture *f, const sha256 *name)
{
    char path[FILE_PATH_MAX];
    MUST(pack_path(path, f->store->packs_dir, name, ERR));
    write_text(path, "pack");
}

static void remove_pack(fixture *f, const sha256 *name)
{
    char path[FILE_PATH_MAX];
    MUST(pack_path(path, f->store->packs_dir, name, ERR));
    assert_int_equal(unlink(path), 0);
}

/* A child that opens an intent, names `name` (NULL: nothing), tells so, and lives until it is killed. */
typedef struct writer {
    pid_t pid;
} writer;

static void writer_child(const char *root, const sha256 *name, int ready)
{
    ckpt_store *store = NULL;
    intent *in = NULL;
    const bool good = !ckpt_store_open(&store, root, NULL, NULL) && !intent_open(&in, store, NULL) &&
                      (!name || !intent_add(in, name, 1, NULL));
    if (write(ready, good ? "y" : "n", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void writer_start(writer *w, fixture *f, const sha256 *name)
{
    int ends[2];
    char answer = 0;
    assert_int_equal(pipe(ends), 0);
    w->pid = fork();
    assert_true(w->pid >= 0);
    if (w->pid == 0)
        writer_child(f->root, name, ends[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], &answer, 1), 1);
    close(ends[0]);
    assert_int_equal(answer, 'y');
}

static void writer_kill(writer *w)
{
    assert_int_equal(kill(w->pid, SIGKILL), 0);
    assert_int_equal(waitpid(w->pid, NULL, 0), w->pid);
}

/* ---- What prune sees ---- */

static void without_writers_nothing_is_protected(void **state)
{
    fixture *const f = *state;
    prune_guard *guard;
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_int_equal(prune_guard_writers(guard), 0);
    assert_false(prune_guard_protects(guard, &PACK_A, OLD));
    assert_false(prune_guard_protects(guard, &PACK_A, INT64_MAX));
    MUST(prune_guard_check(guard, ERR));
    prune_guard_close(guard);
    assert_int_equal(count_files(f->store->intents_dir), 0);
}

static void a_live_writer_protects_what_it_names(void **state)
{
    fixture *const f = *state;
    writer w;
    prune_guard *guard;
    writer_start(&w, f, &PACK_A);
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_int_equal(prune_guard_writers(guard), 1);
    assert_true(prune_guard_protects(guard, &PACK_A, OLD));
    assert_false(prune_guard_protects(guard, &PACK_B, OLD));
    prune_guard_close(guard);
    writer_kill(&w);
}

static void a_live_writer_protects_packs_younger_than_its_names(void **state)
{
    fixture *const f = *state;
    writer w;
    prune_guard *guard;
    writer_start(&w, f, &PACK_A);
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_true(prune_guard_protects(guard, &PACK_B, (int64_t)time(NULL) + 1));
    prune_guard_close(guard);
    writer_kill(&w);
}

static void a_live_writer_that_names_nothing_yet_protects_all(void **state)
{
    fixture *const f = *state;
    writer silent, named;
    prune_guard *guard;
    writer_start(&silent, f, NULL);
    writer_start(&named, f, &PACK_A);
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_int_equal(prune_guard_writers(guard), 2);
    assert_true(prune_guard_protects(guard, &PACK_A, OLD));
    assert_true(prune_guard_protects(guard, &PACK_B, OLD));
    prune_guard_close(guard);
    writer_kill(&silent);
    writer_kill(&named);
}

static void a_writer_that_needs_no_packs_says_so(void **state)
{
    fixture *const f = *state;
    intent *in;
    prune_guard *guard;
    MUST(intent_open(&in, f->store, ERR));
    MUST(intent_add(in, NULL, 0, ERR));
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_int_equal(prune_guard_writers(guard), 1);
    assert_false(prune_guard_protects(guard, &PACK_A, OLD));
    prune_guard_close(guard);
    intent_close(in);
}

static void a_dead_writer_protects_nothing_and_is_cleared_away(void **state)
{
    fixture *const f = *state;
    writer named, silent;
    prune_guard *guard;
    writer_start(&named, f, &PACK_A);
    writer_start(&silent, f, NULL);
    writer_kill(&named);
    writer_kill(&silent);
    assert_int_equal(count_files(f->store->intents_dir), 3);
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_int_equal(prune_guard_writers(guard), 0);
    assert_false(prune_guard_protects(guard, &PACK_A, OLD));
    prune_guard_close(guard);
    assert_int_equal(count_files(f->store->intents_dir), 0);
}

static void names_without_a_lease_are_cleared_away(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    prune_guard *guard;
    MUST(path_join(path, f->store->intents_dir, "0123456789abcdef.packs", ERR));
    write_text(path, "");
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_false(prune_guard_protects(guard, &PACK_A, OLD));
    prune_guard_close(guard);
    assert_false(exists(path));
}

static int find_names(void *payload, const char *name, ckpt_error *err)
{
    (void)err;
    if (strstr(name, ".packs"))
        snprintf(payload, 64, "%.60s", name);
    return 0;
}

/* Clocks of two machines, or of a client and its server, may be a day apart. */
static void times_of_files_take_no_protection_away(void **state)
{
    static const time_t DAYS[] = {-86400, 86400};
    fixture *const f = *state;
    for (size_t i = 0; i < 2; i++) {
        char path[FILE_PATH_MAX], file[64] = "";
        writer w;
        prune_guard *guard;
        writer_start(&w, f, &PACK_A);
        MUST(dir_each(f->store->intents_dir, find_names, file, ERR));
        MUST(path_join(path, f->store->intents_dir, file, ERR));
        const struct timespec off = {.tv_sec = time(NULL) + DAYS[i]}, times[2] = {off, off};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        MUST(prune_guard_open(&guard, f->store, ERR));
        assert_true(prune_guard_protects(guard, &PACK_A, OLD));
        assert_true(prune_guard_protects(guard, &PACK_A, (int64_t)off.tv_sec - 1));
        prune_guard_close(guard);
        writer_kill(&w);
    }
}

/* A write that a crash or a full disk cut in two. */
static void half_a_name_is_passed_over(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX], file[64] = "";
    writer w;
    prune_guard *guard;
    writer_start(&w, f, &PACK_A);
    MUST(dir_each(f->store->intents_dir, find_names, file, ERR));
    MUST(path_join(path, f->store->intents_dir, file, ERR));
    FILE *const names = fopen(path, "a");
    fputs("bbbb", names);
    fclose(names);
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_true(prune_guard_protects(guard, &PACK_A, OLD));
    assert_false(prune_guard_protects(guard, &PACK_B, OLD));
    prune_guard_close(guard);
    writer_kill(&w);
}

/* ---- What a writer sees ---- */

static void a_closed_intent_leaves_nothing(void **state)
{
    fixture *const f = *state;
    intent *in;
    MUST(intent_open(&in, f->store, ERR));
    MUST(intent_add(in, &PACK_A, 1, ERR));
    MUST(intent_add(in, &PACK_B, 1, ERR));
    assert_int_equal(count_files(f->store->intents_dir), 2);
    intent_close(in);
    intent_close(NULL);
    assert_int_equal(count_files(f->store->intents_dir), 0);
}

static void names_given_in_several_calls_are_all_protected(void **state)
{
    fixture *const f = *state;
    const sha256 both[] = {PACK_B, PACK_A};
    intent *in;
    prune_guard *guard;
    MUST(intent_open(&in, f->store, ERR));
    MUST(intent_add(in, &PACK_B, 1, ERR));
    MUST(intent_add(in, both, 2, ERR));
    MUST(intent_add(in, both, 2, ERR));
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_true(prune_guard_protects(guard, &PACK_A, OLD));
    assert_true(prune_guard_protects(guard, &PACK_B, OLD));
    prune_guard_close(guard);
    intent_close(in);
}

static void a_check_names_the_pack_that_went_missing(void **state)
{
    fixture *const f = *state;
    intent *in;
    ckpt_error err = {0};
    put_pack(f, &PACK_A);
    put_pack(f, &PACK_B);
    MUST(intent_open(&in, f->store, ERR));
    MUST(intent_add(in, &PACK_A, 1, ERR));
    MUST(intent_add(in, &PACK_B, 1, ERR));
    MUST(intent_check(in, ERR));
    remove_pack(f, &PACK_B);
    assert_int_equal(intent_check(in, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, "bb00"));
    intent_close(in);
}

static void a_pack_that_is_gone_cannot_be_taken(void **state)
{
    fixture *const f = *state;
    const sha256 both[] = {PACK_A, PACK_B};
    intent *in;
    ckpt_error err = {0};
    put_pack(f, &PACK_A);
    MUST(intent_open(&in, f->store, ERR));
    MUST(intent_take(in, &PACK_A, 1, ERR));
    assert_int_equal(intent_take(in, both, 2, &err), CKPT_ENOTFOUND);
    assert_non_null(strstr(err.message, "pack bb000000 "));
    MUST(intent_check(in, ERR)); /* what was not taken is not missed */
    put_pack(f, &PACK_B);
    MUST(intent_take(in, both, 2, ERR));
    remove_pack(f, &PACK_B);
    assert_int_equal(intent_check(in, NULL), CKPT_EDATA);
    intent_close(in);
}

static void a_snapshot_that_is_named_is_kept_and_not_looked_for(void **state)
{
    fixture *const f = *state;
    intent *in;
    prune_guard *guard;
    MUST(intent_open(&in, f->store, ERR));
    MUST(intent_keep(in, &PACK_A, ERR));
    MUST(intent_check(in, ERR));
    MUST(prune_guard_open(&guard, f->store, ERR));
    assert_true(prune_guard_keeps(guard, &PACK_A));
    assert_false(prune_guard_keeps(guard, &PACK_B));
    prune_guard_close(guard);
    intent_close(in);
}

/* A child holds the lease `prune` until this process, waiting in intent_open, has been seen to wait. */
static void a_writer_waits_until_prune_is_done(void **state)
{
    fixture *const f = *state;
    int ready[2];
    char answer = 0, marker[FILE_PATH_MAX];
    const struct timespec pause_time = {.tv_nsec = 300000000};
    intent *in;
    MUST(path_join(marker, f->root, "released", ERR));
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        ckpt_store *store = NULL;
        prune_guard *guard = NULL;
        if (ckpt_store_open(&store, f->root, NULL, NULL) || prune_guard_open(&guard, store, NULL) ||
            write(ready[1], "y", 1) != 1)
            _exit(1);
        nanosleep(&pause_time, NULL);
        write_text(marker, "");
        prune_guard_close(guard);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &answer, 1), 1);
    MUST(intent_open(&in, f->store, ERR));
    assert_true(exists(marker));
    intent_close(in);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
}

static void a_dead_prune_does_not_keep_writers_waiting(void **state)
{
    fixture *const f = *state;
    intent *in;
    const pid_t pid = fork();
    if (pid == 0) {
        ckpt_store *store = NULL;
        prune_guard *guard = NULL;
        if (ckpt_store_open(&store, f->root, NULL, NULL) || prune_guard_open(&guard, store, NULL))
            _exit(1);
        _exit(0); /* without releasing */
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(count_files(f->store->intents_dir), 1);
    MUST(intent_open(&in, f->store, ERR));
    intent_close(in);
}

/* A holder of whom nobody can tell for ten minutes whether it lives. */
static void put_doubtful_prune(fixture *f)
{
    char path[FILE_PATH_MAX];
    MUST(path_join(path, f->store->intents_dir, "prune.lease", ERR));
    write_text(path, "ckpt lease 1\ncounter 00000000000000a7\nkind counter\ntoken 00000000000000000000000000000000\n"
                     "stale_ms 600000\npid 4711\nhost elsewhere\n");
}

static int stop_when_told(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    const fixture *const f = payload;
    (void)done_bytes;
    (void)total_bytes;
    return f->note[0] != 0;
}

static void who_waits_for_a_prune_is_told_and_can_be_stopped(void **state)
{
    fixture *const f = *state;
    intent *in;
    put_doubtful_prune(f);
    f->store->progress = stop_when_told;
    assert_int_equal(intent_open(&in, f->store, NULL), CKPT_EINTERRUPTED);
    assert_null(in);
    assert_string_equal(f->note, "waiting for process 4711 of elsewhere, which holds the store");
    assert_int_equal(count_files(f->store->intents_dir), 1);
}

static void who_waits_for_the_lease_of_prune_can_be_stopped(void **state)
{
    fixture *const f = *state;
    struct lease *exclusive = NULL;
    put_doubtful_prune(f);
    f->store->progress = stop_when_told;
    assert_int_equal(prune_lease_take(&exclusive, f->store, 0, NULL), CKPT_EINTERRUPTED);
    assert_null(exclusive);
}

static void a_second_prune_is_told_that_the_store_is_busy(void **state)
{
    fixture *const f = *state;
    prune_guard *first, *second;
    ckpt_error err = {0};
    MUST(prune_guard_open(&first, f->store, ERR));
    assert_int_equal(prune_guard_open(&second, f->store, &err), CKPT_EBUSY);
    assert_null(second);
    assert_int_equal(ckpt_prune(NULL, f->store, NULL, &err), CKPT_EBUSY);
    prune_guard_close(first);
    MUST(prune_guard_open(&second, f->store, ERR));
    prune_guard_close(second);
}

/* ---- What is left in tmp/ ---- */

static void put_tmp(fixture *f, const char *name)
{
    char path[FILE_PATH_MAX];
    MUST(path_join(path, f->store->tmp_dir, name, ERR));
    write_text(path, "12345");
}

static void temporary_files_of_dead_processes_are_swept(void **state)
{
    fixture *const f = *state;
    char own[128], dead[128], path[FILE_PATH_MAX];
    uint64_t bytes;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    snprintf(own, sizeof own, "pack.%ld.0123456789abcdef.tmp", (long)getpid());
    snprintf(dead, sizeof dead, "pack.%ld.0123456789abcdef.tmp", (long)pid);
    put_tmp(f, own);
    put_tmp(f, dead);
    put_tmp(f, "notes.txt");
    put_tmp(f, ".1.0123456789abcdef.tmp");
    put_tmp(f, "99999999.0123456789abcdef.tmp");
    MUST(sweep_tmp(&bytes, f->store, false, false, ERR)); /* too young */
    assert_int_equal(bytes, 0);
    MUST(sweep_tmp(&bytes, f->store, true, true, ERR));
    assert_int_equal(bytes, 5);
    assert_int_equal(count_files(f->store->tmp_dir), 5);
    MUST(sweep_tmp(&bytes, f->store, true, false, ERR));
    assert_int_equal(bytes, 5);
    MUST(path_join(path, f->store->tmp_dir, dead, ERR));
    assert_false(exists(path));
    assert_int_equal(count_files(f->store->tmp_dir), 4);
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(without_writers_nothing_is_protected),
        STORE_TEST(a_live_writer_protects_what_it_names),
        STORE_TEST(a_live_writer_protects_packs_younger_than_its_names),
        STORE_TEST(a_live_writer_that_names_nothing_yet_protects_all),
        STORE_TEST(a_writer_that_needs_no_packs_says_so),
        STORE_TEST(a_dead_writer_protects_nothing_and_is_cleared_away),
        STORE_TEST(names_without_a_lease_are_cleared_away),
        STORE_TEST(times_of_files_take_no_protection_away),
        STORE_TEST(half_a_name_is_passed_over),
        STORE_TEST(a_closed_intent_leaves_nothing),
        STORE_TEST(names_given_in_several_calls_are_all_protected),
        STORE_TEST(a_check_names_the_pack_that_went_missing),
        STORE_TEST(a_pack_that_is_gone_cannot_be_taken),
        STORE_TEST(a_snapshot_that_is_named_is_kept_and_not_looked_for),
        STORE_TEST(a_writer_waits_until_prune_is_done),
        STORE_TEST(a_dead_prune_does_not_keep_writers_waiting),
        STORE_TEST(who_waits_for_a_prune_is_told_and_can_be_stopped),
        STORE_TEST(who_waits_for_the_lease_of_prune_can_be_stopped),
        STORE_TEST(a_second_prune_is_told_that_the_store_is_busy),
        STORE_TEST(temporary_files_of_dead_processes_are_swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
