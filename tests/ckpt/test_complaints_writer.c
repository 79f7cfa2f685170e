/* What users of other programs complained about when they saved in the background: a test for each, named after project
 * and number of the issue there. docs/testing.md has the list. */
#include "writer_fixture.h"

#define LEAK_FLOATS       (256u << 10) /* 1 MiB */
#define LEAK_SAVES        60
#define LEAK_BYTES_MAX    (16u << 20)
#define STAGED_FLOATS     (16u << 20) /* 64 MiB */
#define STAGED_COPIES_MAX 3
#define WORK_BYTES_MAX    (48u << 20) /* of a save in one thread */

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define MEMORY_IS_THE_SANITIZERS 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEMORY_IS_THE_SANITIZERS 1
#endif
#endif

static void skip_under_sanitizers(void)
{
#ifdef MEMORY_IS_THE_SANITIZERS
    print_message("left out: a sanitizer keeps memory of its own\n");
    skip();
#endif
}

/* A line of /proc/self/status, in bytes. */
static size_t memory_of(const char *key)
{
    char line[256];
    unsigned long kib = 0;
    FILE *const file = fopen("/proc/self/status", "r");

    assert_non_null(file);
    while (kib == 0 && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtoul(line + strlen(key), NULL, 10);
    fclose(file);
    assert_true(kib > 0);
    return (size_t)kib << 10;
}

static void submit_large(writing *w, float *data, size_t count, unsigned value)
{
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {count}, data};

    for (size_t i = 0; i < count; i++)
        data[i] = (float)value;
    MUST(ckpt_writer_submit(w->writer, NULL, &tensor, 1, NULL, 0, NULL, CKPT_KEEP, ERR));
}

/* Tensors on the CPU were saved with the values of later steps. */
static void complaint_pytorch_144657_a_snapshot_is_a_copy(void **state)
{
    writing *const w = *state;
    submit_in_flight(w, 1);
    MUST(submit(w, 2, CKPT_KEEP, ERR)); /* staged; both have overwritten their memory since */
    open_gate_and_wait(w);
    assert_true(is_saved(w, 1));
    assert_true(is_saved(w, 2));
}

/* Each background save took memory that never came back. */
static void complaint_pytorch_170163_many_saves_take_no_more_memory_than_some(void **state)
{
    writing *const w = *state;
    skip_under_sanitizers();
    float *const data = calloc(LEAK_FLOATS, sizeof *data);
    size_t some = 0;
    assert_non_null(data);
    gate_set(&w->gate, true, false);
    for (unsigned value = 1; value <= 3 * LEAK_SAVES; value++) {
        submit_large(w, data, LEAK_FLOATS, value);
        if (value == LEAK_SAVES)
            some = memory_of("VmRSS:");
    }
    MUST(ckpt_writer_wait(w->writer, ERR));
    const size_t many = memory_of("VmRSS:");
    assert_in_range(many, 0, some + LEAK_BYTES_MAX);
    free(data);
}

/* A load that met a save in the background read a mixture. */
static void complaint_torchtitan_930_who_reads_during_a_save_gets_a_whole_state(void **state)
{
    writing *const w = *state;
    float data[STATE_FLOATS];
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {STATE_FLOATS}, data};
    float newest = 1;
    gate_set(&w->gate, true, false);
    MUST(submit(w, 1, CKPT_KEEP, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    for (unsigned value = 2; value < 40; value++) {
        MUST(submit(w, value, CKPT_KEEP, ERR));
        MUST(ckpt_restore_tensors(w->f->store, "latest", &tensor, 1, ERR));
        for (size_t i = 1; i < STATE_FLOATS; i++)
            assert_true(data[i] == data[0]);
        assert_true(data[0] >= newest && data[0] <= (float)value);
        newest = data[0];
    }
}

/* The whole state was staged once more for each save, until the machine killed the training. */
static void complaint_megatron_61_at_most_three_states_are_in_memory(void **state)
{
    writing *const w = *state;
    skip_under_sanitizers();
    float *const data = calloc(STAGED_FLOATS, sizeof *data);
    assert_non_null(data);
    memset(data, 1, STAGED_FLOATS * sizeof *data);
    const size_t before = memory_of("VmRSS:");
    gate_set(&w->gate, true, false);
    for (unsigned value = 1; value < 6; value++)
        submit_large(w, data, STAGED_FLOATS, value);
    MUST(ckpt_writer_wait(w->writer, ERR));
    const size_t peak = memory_of("VmHWM:");
    assert_in_range(peak, before, before + STAGED_COPIES_MAX * STAGED_FLOATS * sizeof *data + WORK_BYTES_MAX);
    free(data);
}

/* The save failed in the background, and the training went on for days without a checkpoint. */
static void complaint_orbax_605_a_failure_in_the_background_is_told_at_the_next_save(void **state)
{
    writing *const w = *state;
    char away[FILE_PATH_MAX];
    ckpt_error err = {0};
    MUST(path_join(away, w->f->root, "away", ERR));
    gate_set(&w->gate, true, false);
    MUST(submit(w, 1, CKPT_KEEP, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    assert_int_equal(rename(w->f->store->tmp_dir, away), 0);
    write_text(w->f->store->tmp_dir, "no folder");
    MUST(submit(w, 2, CKPT_KEEP, ERR));
    while (stats_of(w).failed == 0)
        usleep(1000);
    assert_int_not_equal(submit(w, 3, CKPT_KEEP, &err), 0);
    assert_int_equal(strncmp(err.message, "an earlier save failed: ", 24), 0);
    assert_int_not_equal(ckpt_writer_wait(w->writer, &err), 0);
    assert_int_equal(stats_of(w).failed, 2);
    assert_int_equal(unlink(w->f->store->tmp_dir), 0);
    assert_int_equal(rename(away, w->f->store->tmp_dir), 0);
    MUST(submit(w, 4, CKPT_KEEP, ERR));
    MUST(ckpt_writer_wait(w->writer, ERR));
    assert_true(is_saved(w, 1) && is_saved(w, 4));
    assert_false(is_saved(w, 2) || is_saved(w, 3));
}

#define WRITER_TEST(test) cmocka_unit_test_setup_teardown(test, writing_setup, writing_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WRITER_TEST(complaint_megatron_61_at_most_three_states_are_in_memory), /* first: it is about the peak */
        WRITER_TEST(complaint_pytorch_144657_a_snapshot_is_a_copy),
        WRITER_TEST(complaint_pytorch_170163_many_saves_take_no_more_memory_than_some),
        WRITER_TEST(complaint_torchtitan_930_who_reads_during_a_save_gets_a_whole_state),
        WRITER_TEST(complaint_orbax_605_a_failure_in_the_background_is_told_at_the_next_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
