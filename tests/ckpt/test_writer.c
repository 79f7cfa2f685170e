#include "file_tree.h"
#include "writer_fixture.h"

#include "alloc_fail.h"

#include <signal.h>

/* ---- Copies ---- */

static void what_the_caller_changes_after_submit_is_not_saved(void **state)
{
    writing *const w = *state;
    float data[] = {1, 2, 3}, got[3];
    char name[] = "weight", key[] = "epoch", value[] = "7", message[] = "hello", tag[] = "mine", meta_key[] = "loss",
         meta_value[] = "0.5", file_name[] = "a.safetensors";
    const ckpt_tensor tensor = {name, CKPT_F32, 1, {3}, data};
    const ckpt_value values[] = {{key, value}}, meta[] = {{meta_key, meta_value}};
    const ckpt_save_options options = {
        .size = sizeof options, .message = message, .step = 5, .meta = meta, .meta_count = 1, .tag = tag};

    submit_in_flight(w, 1); /* so that the other one has to wait */
    MUST(ckpt_writer_submit(w->writer, file_name, &tensor, 1, values, 1, &options, CKPT_KEEP, ERR));
    memset(data, 0xee, sizeof data);
    char *const texts[] = {name, key, value, message, tag, meta_key, meta_value, file_name};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        memset(texts[i], 'x', strlen(texts[i]));
    open_gate_and_wait(w);

    const ckpt_tensor wanted = {"weight", CKPT_F32, 1, {3}, got};
    MUST(ckpt_restore_tensors(w->f->store, "mine", &wanted, 1, ERR));
    assert_true(got[0] == 1 && got[1] == 2 && got[2] == 3);
    ckpt_content *content = NULL;
    ckpt_value found;
    MUST(ckpt_content_open(&content, w->f->store, "mine", ERR));
    const ckpt_info *const info = ckpt_content_info(content);
    assert_string_equal(info->message, "hello");
    assert_int_equal(info->step, 5);
    assert_string_equal(info->meta[0].key, "loss");
    assert_string_equal(info->meta[0].value, "0.5");
    assert_string_equal(ckpt_content_file(content, 0)->path, "a.safetensors");
    MUST(ckpt_content_value(&found, content, 0, 0));
    assert_string_equal(found.key, "epoch");
    assert_string_equal(found.value, "7");
    ckpt_content_close(content);
}

static void the_state_in_flight_and_the_staged_one_have_a_buffer_each(void **state)
{
    writing *const w = *state;
    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_ORDINARY, ERR));
    MUST(submit(w, 3, CKPT_ORDINARY, ERR)); /* into the buffer of 2, not that of 1 */
    open_gate_and_wait(w);
    assert_true(is_saved(w, 1));
    assert_true(is_saved(w, 3));
}

static void defaults_are_used_without_options_and_name(void **state)
{
    writing *const w = *state;
    ckpt_content *content = NULL;
    gate_set(&w->gate, true, false);
    MUST(ckpt_writer_submit(w->writer, NULL, NULL, 0, NULL, 0, NULL, CKPT_ORDINARY, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    MUST(ckpt_content_open(&content, w->f->store, "latest", ERR));
    assert_string_equal(ckpt_content_file(content, 0)->path, "state.safetensors");
    assert_int_equal(ckpt_content_info(content)->step, CKPT_STEP_NONE);
    assert_string_equal(stats_of(w).last.id, ckpt_content_info(content)->id);
    ckpt_content_close(content);
}

/* ---- Which save goes when one is staged ---- */

static void a_newer_save_of_any_importance_replaces_a_staged_ordinary_one(void **state)
{
    writing *const w = *state;
    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_ORDINARY, ERR));
    MUST(submit(w, 3, CKPT_ORDINARY, ERR));
    MUST(submit(w, 4, CKPT_BEST, ERR));
    open_gate_and_wait(w);
    gate_set(&w->gate, false, false);
    w->gate.arrived = 0;
    submit_in_flight(w, 5);
    MUST(submit(w, 6, CKPT_ORDINARY, ERR));
    MUST(submit(w, 7, CKPT_KEEP, ERR));
    open_gate_and_wait(w);

    const ckpt_writer_stats stats = stats_of(w);
    assert_int_equal(stats.submitted, 7);
    assert_int_equal(stats.committed, 4);
    assert_int_equal(stats.replaced, 3);
    assert_int_equal(stats.dropped, 0);
    assert_true(is_saved(w, 1) && is_saved(w, 4) && is_saved(w, 5) && is_saved(w, 7));
    assert_false(is_saved(w, 2) || is_saved(w, 3) || is_saved(w, 6));
}

/* What the listing says of each checkpoint, added up. */
static void the_bytes_of_all_committed_saves_are_added_up(void **state)
{
    writing *const w = *state;
    ckpt_list *list = NULL;
    uint64_t raw_bytes = 0, stored_bytes = 0;
    gate_set(&w->gate, true, false);
    MUST(submit(w, 1, CKPT_KEEP, ERR));
    MUST(submit(w, 2, CKPT_KEEP, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    MUST(ckpt_list_new(&list, w->f->store, ERR));
    assert_int_equal(ckpt_list_count(list), 2);
    for (size_t i = 0; i < 2; i++) {
        raw_bytes += ckpt_list_get(list, i)->raw_bytes;
        stored_bytes += ckpt_list_get(list, i)->stored_bytes;
    }
    ckpt_list_free(list);
    assert_int_equal(stats_of(w).raw_bytes, raw_bytes);
    assert_int_equal(stats_of(w).stored_bytes, stored_bytes);
}

static void an_ordinary_save_is_dropped_while_a_best_one_is_staged(void **state)
{
    writing *const w = *state;
    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_BEST, ERR));
    MUST(submit(w, 3, CKPT_ORDINARY, ERR));
    open_gate_and_wait(w);
    assert_int_equal(stats_of(w).dropped, 1);
    assert_int_equal(stats_of(w).replaced, 0);
    assert_true(is_saved(w, 2));
    assert_false(is_saved(w, 3));
}

static void an_ordinary_save_is_dropped_while_one_to_keep_is_staged(void **state)
{
    writing *const w = *state;
    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_KEEP, ERR));
    MUST(submit(w, 3, CKPT_ORDINARY, ERR));
    open_gate_and_wait(w);
    assert_int_equal(stats_of(w).dropped, 1);
    assert_true(is_saved(w, 2));
    assert_false(is_saved(w, 3));
}

static void a_newer_best_save_replaces_a_staged_best_one(void **state)
{
    writing *const w = *state;
    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_BEST, ERR));
    MUST(submit(w, 3, CKPT_BEST, ERR));
    open_gate_and_wait(w);
    assert_int_equal(stats_of(w).replaced, 1);
    assert_true(is_saved(w, 3));
    assert_false(is_saved(w, 2));
}

/* Opens the gate when a third save has been submitted, which it is before it waits for its turn. */
static void *open_gate_at_the_third(void *payload)
{
    writing *const w = payload;
    while (stats_of(w).submitted < 3)
        usleep(1000);
    gate_set(&w->gate, true, false);
    return NULL;
}

static void third_save_waits(writing *w, ckpt_importance second, ckpt_importance third)
{
    pthread_t opener;
    submit_in_flight(w, 1);
    MUST(submit(w, 2, second, ERR));
    assert_int_equal(pthread_create(&opener, NULL, open_gate_at_the_third, w), 0);
    MUST(submit(w, 3, third, ERR));
    assert_int_equal(pthread_join(opener, NULL), 0);
    MUST(ckpt_writer_wait(w->writer, ERR));
    assert_int_equal(stats_of(w).committed, 3);
    assert_true(is_saved(w, 1) && is_saved(w, 2) && is_saved(w, 3));
}

static void a_second_save_to_keep_waits_for_the_first(void **state)
{
    third_save_waits(*state, CKPT_KEEP, CKPT_KEEP);
}

static void a_save_to_keep_waits_for_a_staged_best_one(void **state)
{
    third_save_waits(*state, CKPT_BEST, CKPT_KEEP);
}

static void a_best_save_waits_for_a_staged_one_to_keep(void **state)
{
    third_save_waits(*state, CKPT_KEEP, CKPT_BEST);
}

static void close_writes_what_is_staged(void **state)
{
    writing *const w = *state;
    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_ORDINARY, ERR));
    gate_set(&w->gate, true, false);
    MUST(ckpt_writer_close(w->writer, ERR));
    w->writer = NULL;
    assert_true(is_saved(w, 1) && is_saved(w, 2));
}

/* ---- Errors ---- */

/* Two saves that fail in the background. */
static void fail_two(writing *w)
{
    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_ORDINARY, ERR));
    gate_set(&w->gate, true, true);
    while (stats_of(w).failed < 2)
        usleep(1000);
    gate_set(&w->gate, true, false);
}

static void a_failure_is_told_by_the_next_submit_which_is_saved_all_the_same(void **state)
{
    writing *const w = *state;
    ckpt_error err = {0};
    fail_two(w);
    assert_int_equal(submit(w, 3, CKPT_ORDINARY, &err), CKPT_EINTERRUPTED);
    assert_int_equal(err.code, CKPT_EINTERRUPTED);
    assert_int_equal(strncmp(err.message, "an earlier save failed: ", 24), 0);
    MUST(ckpt_writer_wait(w->writer, ERR)); /* it is told once */
    assert_true(is_saved(w, 3));
    assert_false(is_saved(w, 1) || is_saved(w, 2));
}

static void a_failure_is_told_by_wait(void **state)
{
    writing *const w = *state;
    ckpt_error err = {0};
    fail_two(w);
    assert_int_equal(ckpt_writer_wait(w->writer, &err), CKPT_EINTERRUPTED);
    assert_int_equal(err.code, CKPT_EINTERRUPTED);
    MUST(ckpt_writer_wait(w->writer, ERR));
}

static void a_failure_is_told_by_close(void **state)
{
    writing *const w = *state;
    ckpt_error err = {0};
    fail_two(w);
    assert_int_equal(ckpt_writer_close(w->writer, &err), CKPT_EINTERRUPTED);
    assert_int_equal(err.code, CKPT_EINTERRUPTED);
    w->writer = NULL;
}

static void every_failure_is_counted(void **state)
{
    writing *const w = *state;
    fail_two(w);
    const ckpt_writer_stats stats = stats_of(w);
    assert_int_equal(stats.submitted, 2);
    assert_int_equal(stats.failed, 2);
    assert_int_equal(stats.committed, 0);
    (void)ckpt_writer_wait(w->writer, NULL);
}

/* A file stands where the store has its folder for temporary files. */
static void spoil_store(writing *w)
{
    char tmp[FILE_PATH_MAX], away[FILE_PATH_MAX];
    join(tmp, ckpt_store_path(w->f->store), "tmp");
    join(away, ckpt_store_path(w->f->store), "away");
    assert_int_equal(rename(tmp, away), 0);
    write_bytes(tmp, "", 0);
}

static void of_several_failures_the_first_is_told(void **state)
{
    writing *const w = *state;
    ckpt_error err = {0};
    submit_in_flight(w, 1);
    spoil_store(w);
    MUST(submit(w, 2, CKPT_ORDINARY, ERR));
    gate_set(&w->gate, true, true);
    while (stats_of(w).failed < 2)
        usleep(1000);
    assert_int_equal(ckpt_writer_wait(w->writer, &err), CKPT_EINTERRUPTED); /* not the CKPT_EIO of the second */
}

static void what_makes_no_sense_is_refused_at_once_and_replaces_nothing(void **state)
{
    writing *const w = *state;
    float x = 1;
    const ckpt_tensor good = {"x", CKPT_F32, 0, {0}, &x}, nameless = {NULL, CKPT_F32, 0, {0}, &x},
                      not_utf8 = {"\xff", CKPT_F32, 0, {0}, &x}, typeless = {"x", (ckpt_dtype)99, 0, {0}, &x},
                      opaque = {"x", CKPT_OPAQUE, 0, {0}, &x}, deep = {"x", CKPT_F32, CKPT_RANK_MAX + 1, {1}, &x},
                      huge = {"x", CKPT_F32, 2, {UINT64_MAX, UINT64_MAX}, &x}, no_data = {"x", CKPT_F32, 0, {0}, NULL};
    ckpt_save_options bad_tag = CKPT_SAVE_OPTIONS_INIT, bad_step = CKPT_SAVE_OPTIONS_INIT;
    bad_tag.tag = "a/b";
    bad_step.step = -7;
    const struct {
        const char *file_name;
        const ckpt_tensor *tensor;
        const ckpt_save_options *options;
    } BAD[] = {{"a/../b", &good, NULL},
               {"..", &good, NULL},
               {"", &good, NULL},
               {NULL, &nameless, NULL},
               {NULL, &not_utf8, NULL},
               {NULL, &typeless, NULL},
               {NULL, &opaque, NULL},
               {NULL, &deep, NULL},
               {NULL, &huge, NULL},
               {NULL, &no_data, NULL},
               {NULL, &good, &bad_tag},
               {NULL, &good, &bad_step},
               {NULL, &good, &(ckpt_save_options){.size = 1}}};

    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_ORDINARY, ERR));
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_int_equal(ckpt_writer_submit(w->writer, BAD[i].file_name, BAD[i].tensor, 1, NULL, 0, BAD[i].options,
                                            CKPT_ORDINARY, NULL),
                         CKPT_EUSAGE);
    const ckpt_tensor twins[] = {good, good};
    const ckpt_value textless = {"epoch", NULL};
    assert_int_equal(ckpt_writer_submit(w->writer, NULL, twins, 2, NULL, 0, NULL, CKPT_ORDINARY, NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_writer_submit(w->writer, NULL, &good, 1, &textless, 1, NULL, CKPT_ORDINARY, NULL),
                     CKPT_EUSAGE);
    open_gate_and_wait(w);
    assert_true(is_saved(w, 2));
    assert_int_equal(stats_of(w).submitted, 2);
    assert_int_equal(stats_of(w).replaced, 0);
}

static void a_tensor_without_elements_needs_no_data(void **state)
{
    writing *const w = *state;
    float x[] = {1, 2}, got[2];
    const ckpt_tensor tensors[] = {
        {"a", CKPT_F32, 0, {0}, &x[0]}, {"empty", CKPT_F32, 2, {3, 0}, NULL}, {"z", CKPT_F32, 0, {0}, &x[1]}};
    const ckpt_tensor wanted[] = {{"a", CKPT_F32, 0, {0}, &got[0]}, {"z", CKPT_F32, 0, {0}, &got[1]}};
    gate_set(&w->gate, true, false);
    MUST(ckpt_save_tensors(NULL, w->f->store, NULL, tensors, 3, NULL, 0, NULL, ERR));
    MUST(ckpt_writer_submit(w->writer, NULL, &tensors[1], 1, NULL, 0, NULL, CKPT_KEEP, ERR));
    MUST(ckpt_writer_submit(w->writer, NULL, tensors, 3, NULL, 0, NULL, CKPT_KEEP, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    assert_int_equal(stats_of(w).committed, 2);
    for (unsigned back = 0; back < 3; back += 2) {
        memset(got, 0, sizeof got);
        MUST(ckpt_restore_tensors(w->f->store, back ? "latest~2" : "latest", wanted, 2, ERR));
        assert_memory_equal(got, x, sizeof x);
    }
}

static void what_is_staged_survives_a_newer_save_that_finds_no_memory(void **state)
{
    writing *const w = *state;
    const long never = 1000000;
    if (!ALLOC_FAIL_WORKS)
        skip();
    submit_in_flight(w, 1); /* the writer's thread stands at the gate and allocates nothing */
    alloc_fail_arm(never);
    MUST(submit_floats(w, 2, STATE_FLOATS, CKPT_ORDINARY, ERR));
    const long count = alloc_fail_count;
    assert_true(count > 0);
    for (long at = 1; at <= count; at++) {
        alloc_fail_arm(at);
        const int rc = submit_floats(w, 3, STATE_FLOATS_MAX, CKPT_ORDINARY, NULL);
        assert_true(alloc_fail_disarm());
        assert_int_equal(rc, CKPT_ENOMEM);
    }
    open_gate_and_wait(w);
    assert_true(is_saved(w, 2));
    assert_false(is_saved_floats(w, 3, STATE_FLOATS_MAX));
    assert_int_equal(stats_of(w).replaced, 0);
}

/* Allocations of a submit while another state is in flight. */
static long allocations_of_submit(writing *w)
{
    const long never = 1000000;
    submit_in_flight(w, 1);
    alloc_fail_arm(never);
    MUST(submit(w, 2, CKPT_ORDINARY, ERR));
    (void)alloc_fail_disarm();
    return alloc_fail_count;
}

static void reserved_memory_is_what_states_are_copied_into(void **state)
{
    writing *const w = *state;
    if (!ALLOC_FAIL_WORKS)
        skip();
    const long without = allocations_of_submit(w);
    open_gate_and_wait(w);
    MUST(ckpt_writer_close(w->writer, ERR));
    writer_open(w);
    MUST(ckpt_writer_reserve(w->writer, STATE_FLOATS * sizeof(float), ERR));
    assert_int_equal(allocations_of_submit(w), without - 1);
    open_gate_and_wait(w);
    assert_true(is_saved(w, 1) && is_saved(w, 2));
}

static void memory_is_reserved_before_the_first_submit(void **state)
{
    writing *const w = *state;
    gate_set(&w->gate, true, false);
    assert_int_equal(ckpt_writer_reserve(w->writer, UINT64_MAX, NULL), CKPT_ENOMEM);
    MUST(submit(w, 1, CKPT_ORDINARY, ERR));
    assert_int_equal(ckpt_writer_reserve(w->writer, 1, NULL), CKPT_EUSAGE);
    MUST(ckpt_writer_wait(w->writer, ERR));
}

/* ---- Several threads ---- */

#define SUBMITTERS  3
#define SUBMISSIONS 4 /* of each */

typedef struct submitter {
    writing *w;
    pthread_t thread;
    unsigned first_step;
    int rc;
} submitter;

static void *submit_several(void *payload)
{
    submitter *const s = payload;
    for (unsigned i = 0; i < SUBMISSIONS && !s->rc; i++)
        s->rc = submit(s->w, s->first_step + i, CKPT_KEEP, NULL);
    return NULL;
}

static void threads_may_submit_at_once(void **state)
{
    writing *const w = *state;
    submitter submitters[SUBMITTERS] = {0};
    gate_set(&w->gate, true, false);
    for (unsigned i = 0; i < SUBMITTERS; i++) {
        submitters[i] = (submitter){.w = w, .first_step = i * SUBMISSIONS};
        assert_int_equal(pthread_create(&submitters[i].thread, NULL, submit_several, &submitters[i]), 0);
    }
    for (unsigned i = 0; i < SUBMITTERS; i++) {
        assert_int_equal(pthread_join(submitters[i].thread, NULL), 0);
        assert_int_equal(submitters[i].rc, 0);
    }
    MUST(ckpt_writer_wait(w->writer, ERR));
    assert_int_equal(stats_of(w).committed, SUBMITTERS * SUBMISSIONS);
    for (unsigned step = 0; step < SUBMITTERS * SUBMISSIONS; step++)
        assert_true(is_saved(w, step));
}

static void a_writer_needs_a_store(void **state)
{
    writing *const w = *state;
    ckpt_writer *writer = NULL;
    char elsewhere[TEMP_PATH_MAX];
    (void)w;
    assert_int_equal(temp_dir_make(elsewhere), 0);
    assert_int_equal(ckpt_writer_open(&writer, elsewhere, NULL, NULL), CKPT_ENOSTORE);
    assert_null(writer);
    assert_int_equal(temp_dir_remove(elsewhere), 0);
}

/* ---- Signals ---- */

static volatile sig_atomic_t signals_handled;

static void count_signal(int number)
{
    (void)number;
    signals_handled++;
}

static void signals_are_left_to_the_threads_of_the_program(void **state)
{
    writing *const w = *state;
    const struct sigaction counting = {.sa_handler = count_signal};
    struct sigaction before;
    sigset_t usr1, pending;

    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    assert_int_equal(sigaction(SIGUSR1, &counting, &before), 0);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    kill(getpid(), SIGUSR1);
    gate_set(&w->gate, true, false);
    MUST(submit(w, 1, CKPT_ORDINARY, ERR)); /* wakes the writer's thread, which would take the signal */
    MUST(ckpt_writer_wait(w->writer, ERR));
    assert_int_equal(signals_handled, 0);
    assert_int_equal(sigpending(&pending), 0);
    assert_true(sigismember(&pending, SIGUSR1));
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    assert_int_equal(signals_handled, 1);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, writing_setup, writing_teardown)
    const struct CMUnitTest tests[] = {
        CASE(what_the_caller_changes_after_submit_is_not_saved),
        CASE(the_state_in_flight_and_the_staged_one_have_a_buffer_each),
        CASE(defaults_are_used_without_options_and_name),
        CASE(a_newer_save_of_any_importance_replaces_a_staged_ordinary_one),
        CASE(the_bytes_of_all_committed_saves_are_added_up),
        CASE(an_ordinary_save_is_dropped_while_a_best_one_is_staged),
        CASE(an_ordinary_save_is_dropped_while_one_to_keep_is_staged),
        CASE(a_newer_best_save_replaces_a_staged_best_one),
        CASE(a_second_save_to_keep_waits_for_the_first),
        CASE(a_save_to_keep_waits_for_a_staged_best_one),
        CASE(a_best_save_waits_for_a_staged_one_to_keep),
        CASE(close_writes_what_is_staged),
        CASE(a_failure_is_told_by_the_next_submit_which_is_saved_all_the_same),
        CASE(a_failure_is_told_by_wait),
        CASE(a_failure_is_told_by_close),
        CASE(every_failure_is_counted),
        CASE(of_several_failures_the_first_is_told),
        CASE(what_makes_no_sense_is_refused_at_once_and_replaces_nothing),
        CASE(a_tensor_without_elements_needs_no_data),
        CASE(what_is_staged_survives_a_newer_save_that_finds_no_memory),
        CASE(reserved_memory_is_what_states_are_copied_into),
        CASE(memory_is_reserved_before_the_first_submit),
        CASE(threads_may_submit_at_once),
        CASE(a_writer_needs_a_store),
        CASE(signals_are_left_to_the_threads_of_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
