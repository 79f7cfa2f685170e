#include "writer_fixture.h"

#include <ckpt/stats.h>

#include "lease.h"

/* Saves so many states, of the steps 1, 2, ... */
static void save_states(writing *w, unsigned count)
{
    gate_set(&w->gate, true, false);
    for (unsigned step = 1; step <= count; step++) {
        MUST(submit(w, step, CKPT_KEEP, ERR));
        MUST(ckpt_writer_wait(w->writer, ERR));
    }
}

/* Submits a state whose save stands at the gate, which was open. */
static void submit_at_closed_gate(writing *w, unsigned step)
{
    gate_set(&w->gate, false, false);
    w->gate.arrived = 0;
    submit_in_flight(w, step);
}

/* Puts a line behind the config, at the end of its section [retention]. */
static void add_to_config(writing *w, const char *line)
{
    const int fd = open(w->f->store->config_path, O_WRONLY | O_APPEND);
    assert_true(fd >= 0);
    assert_int_equal(dprintf(fd, "\n[retention]\n%s\n", line), strlen(line) + 14);
    close(fd);
}

static void a_prune_removes_what_its_policy_does_not_keep_and_counts_it(void **state)
{
    writing *const w = *state;
    save_states(w, 4);
    ckpt_stats before, after;
    MUST(ckpt_stats_get(&before, w->f->store, NULL, ERR));
    MUST(ckpt_writer_prune(w->writer, "last 1", NULL, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    MUST(ckpt_stats_get(&after, w->f->store, NULL, ERR));
    assert_true(is_saved(w, 4));
    assert_false(is_saved(w, 1) || is_saved(w, 2) || is_saved(w, 3));
    assert_int_equal(stats_of(w).pruned_checkpoints, 3);
    assert_int_equal(stats_of(w).pruned_bytes,
                     before.pack_bytes + before.snapshot_bytes - after.pack_bytes - after.snapshot_bytes);
    ckpt_stats_clear(&before);
    ckpt_stats_clear(&after);
}

static void what_several_prunes_remove_is_added_up(void **state)
{
    writing *const w = *state;
    save_states(w, 4);
    MUST(ckpt_writer_prune(w->writer, "last 3", NULL, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    const uint64_t bytes = stats_of(w).pruned_bytes;
    MUST(ckpt_writer_prune(w->writer, "last 1", NULL, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    assert_int_equal(stats_of(w).pruned_checkpoints, 3);
    assert_true(stats_of(w).pruned_bytes > bytes);
}

static void a_prune_without_a_policy_applies_that_of_the_config(void **state)
{
    writing *const w = *state;
    save_states(w, 3);
    add_to_config(w, "keep = last 2");
    MUST(ckpt_writer_prune(w->writer, NULL, NULL, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    assert_true(is_saved(w, 3) && is_saved(w, 2));
    assert_false(is_saved(w, 1));
}

static void a_prune_waits_for_the_save_in_flight(void **state)
{
    writing *const w = *state;
    save_states(w, 2);
    submit_at_closed_gate(w, 3);
    MUST(ckpt_writer_prune(w->writer, "last 1", NULL, ERR));
    assert_int_equal(stats_of(w).pruned_checkpoints, 0);
    open_gate_and_wait(w);
    assert_true(is_saved(w, 3));
    assert_false(is_saved(w, 1) || is_saved(w, 2));
}

static void a_prune_waits_for_the_staged_save(void **state)
{
    writing *const w = *state;
    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_ORDINARY, ERR));
    MUST(ckpt_writer_prune(w->writer, "last 1", NULL, ERR));
    MUST(submit(w, 3, CKPT_ORDINARY, ERR)); /* in the place of 2 */
    open_gate_and_wait(w);
    assert_true(is_saved(w, 3));
    assert_false(is_saved(w, 1));
    assert_int_equal(stats_of(w).pruned_checkpoints, 1);
}

static void a_prune_is_not_put_off_by_one_that_waits_for_a_later_save(void **state)
{
    writing *const w = *state;
    save_states(w, 2);
    submit_at_closed_gate(w, 3);
    MUST(ckpt_writer_prune(w->writer, "last 1", NULL, ERR));
    MUST(submit(w, 4, CKPT_ORDINARY, ERR));
    MUST(ckpt_writer_prune(w->writer, "last 5", NULL, ERR));
    open_gate_and_wait(w);
    assert_true(is_saved(w, 3) && is_saved(w, 4));
    assert_false(is_saved(w, 1) || is_saved(w, 2));
}

static void of_two_prunes_that_wait_for_one_save_the_newer_is_carried_out(void **state)
{
    writing *const w = *state;
    save_states(w, 2);
    submit_at_closed_gate(w, 3);
    MUST(ckpt_writer_prune(w->writer, "last 1", NULL, ERR));
    MUST(ckpt_writer_prune(w->writer, "last 2", NULL, ERR));
    open_gate_and_wait(w);
    assert_true(is_saved(w, 3) && is_saved(w, 2));
    assert_false(is_saved(w, 1));
}

static void close_carries_out_a_prune(void **state)
{
    writing *const w = *state;
    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_KEEP, ERR));
    MUST(ckpt_writer_prune(w->writer, "last 1", NULL, ERR));
    gate_set(&w->gate, true, false);
    MUST(ckpt_writer_close(w->writer, ERR));
    w->writer = NULL;
    assert_true(is_saved(w, 2));
    assert_false(is_saved(w, 1));
}

static void a_bad_policy_is_refused_at_once_and_replaces_no_request(void **state)
{
    writing *const w = *state;
    ckpt_error err = {0};
    save_states(w, 2);
    submit_at_closed_gate(w, 3);
    MUST(ckpt_writer_prune(w->writer, "last 1", NULL, ERR));
    assert_int_equal(ckpt_writer_prune(w->writer, "last five", NULL, &err), CKPT_EUSAGE);
    assert_non_null(strstr(err.message, "last five"));
    open_gate_and_wait(w);
    assert_int_equal(stats_of(w).pruned_checkpoints, 2);
}

static void a_prune_that_failed_is_told_once_and_is_no_failed_save(void **state)
{
    writing *const w = *state;
    ckpt_error err = {0};
    add_to_config(w, "keep = nonsense");
    submit_in_flight(w, 1);
    MUST(ckpt_writer_prune(w->writer, NULL, NULL, ERR));
    MUST(submit(w, 2, CKPT_ORDINARY, ERR)); /* after the prune */
    gate_set(&w->gate, true, false);
    while (stats_of(w).committed < 2)
        usleep(1000);
    assert_int_equal(submit(w, 3, CKPT_ORDINARY, &err), CKPT_EUSAGE);
    assert_int_equal(strncmp(err.message, "an earlier prune failed: ", 25), 0);
    assert_non_null(strstr(err.message, "nonsense"));
    MUST(ckpt_writer_wait(w->writer, ERR));
    assert_int_equal(stats_of(w).failed, 0);
    assert_int_equal(stats_of(w).committed, 3);
}

static void who_waits_is_told_that_it_was_a_prune_that_failed(void **state)
{
    writing *const w = *state;
    ckpt_error err = {0};
    add_to_config(w, "keep = nonsense");
    gate_set(&w->gate, true, false);
    MUST(ckpt_writer_prune(w->writer, NULL, NULL, ERR));
    assert_int_equal(ckpt_writer_wait(w->writer, &err), CKPT_EUSAGE);
    assert_int_equal(strncmp(err.message, "a prune failed: ", 16), 0);
}

static void a_prune_that_another_one_keeps_out_is_no_failure(void **state)
{
    writing *const w = *state;
    lease *held = NULL;
    save_states(w, 2);
    MUST(prune_lease_take(&held, w->f->store, 0, ERR));
    MUST(ckpt_writer_prune(w->writer, "last 1", NULL, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    lease_release(held);
    assert_int_equal(stats_of(w).pruned_checkpoints, 0);
    assert_true(is_saved(w, 1) && is_saved(w, 2));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, writing_setup, writing_teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_prune_removes_what_its_policy_does_not_keep_and_counts_it),
        CASE(what_several_prunes_remove_is_added_up),
        CASE(a_prune_without_a_policy_applies_that_of_the_config),
        CASE(a_prune_waits_for_the_save_in_flight),
        CASE(a_prune_waits_for_the_staged_save),
        CASE(a_prune_is_not_put_off_by_one_that_waits_for_a_later_save),
        CASE(of_two_prunes_that_wait_for_one_save_the_newer_is_carried_out),
        CASE(close_carries_out_a_prune),
        CASE(a_bad_policy_is_refused_at_once_and_replaces_no_request),
        CASE(a_prune_that_failed_is_told_once_and_is_no_failed_save),
        CASE(who_waits_is_told_that_it_was_a_prune_that_failed),
        CASE(a_prune_that_another_one_keeps_out_is_no_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
