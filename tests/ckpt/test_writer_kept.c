/* Of the state that the writer keeps in memory as the reference of the next. */
#include "writer_fixture.h"

#include <sys/resource.h>
#include <sys/syscall.h>

#define FLOATS 300000 /* more than a chunk, and frames of their own */

/* A training whose weights move a little at each step, and whose embedding is frozen. */
typedef struct model {
    float *weight, *frozen;
} model;

static model model_new(void)
{
    const model m = {malloc(FLOATS * sizeof(float)), malloc(FLOATS * sizeof(float))};
    uint64_t x = 1;
    for (size_t i = 0; i < FLOATS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        m.weight[i] = (float)(x >> 40) / (1 << 24);
        m.frozen[i] = (float)(x >> 32 & 0xffffff) / (1 << 24);
    }
    return m;
}

static void model_free(model m)
{
    free(m.weight);
    free(m.frozen);
}

/* The weights at a step. */
static void model_move(model m, unsigned step)
{
    for (size_t i = 0; i < FLOATS; i++)
        m.weight[i] += (float)((i * 2654435761u + step) % 1000) * 1e-9f;
}

static void submit_model(writing *w, model m, unsigned step)
{
    const ckpt_tensor tensors[] = {{"weight", CKPT_F32, 1, {FLOATS}, m.weight},
                                   {"frozen", CKPT_F32, 1, {FLOATS}, m.frozen}};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.step = step;
    MUST(ckpt_writer_submit(w->writer, NULL, tensors, 2, NULL, 0, &options, CKPT_KEEP, ERR));
}

static void save_model(writing *w, model m, unsigned step)
{
    submit_model(w, m, step);
    MUST(ckpt_writer_wait(w->writer, ERR));
}

static void assert_model(writing *w, const char *name, model m)
{
    const model got = {malloc(FLOATS * sizeof(float)), malloc(FLOATS * sizeof(float))};
    const ckpt_tensor tensors[] = {{"weight", CKPT_F32, 1, {FLOATS}, got.weight},
                                   {"frozen", CKPT_F32, 1, {FLOATS}, got.frozen}};
    MUST(ckpt_restore_tensors(w->f->store, name, tensors, 2, ERR));
    assert_memory_equal(got.weight, m.weight, FLOATS * sizeof(float));
    assert_memory_equal(got.frozen, m.frozen, FLOATS * sizeof(float));
    model_free(got);
}

/* Turns a bit over in the first tensor of the newest checkpoint, or back. */
static void flip_newest(writing *w)
{
    char path[FILE_PATH_MAX];
    own_pack_file(path, w->f, "latest");
    flip_bit(path, 1000);
}

static void each_of_many_states_comes_back_exactly(void **state)
{
    writing *const w = *state;
    const model m = model_new();
    gate_set(&w->gate, true, false);
    for (unsigned step = 1; step <= 7; step++) { /* so that chains of references end, too */
        model_move(m, step);
        submit_model(w, m, step); /* waits for the one before only where it must */
    }
    MUST(ckpt_writer_wait(w->writer, ERR));
    const model again = model_new();
    for (unsigned step = 1; step <= 7; step++) {
        char name[16];
        model_move(again, step);
        snprintf(name, sizeof name, "step:%u", step);
        assert_model(w, name, again);
    }
    model_free(m);
    model_free(again);
}

static void the_last_state_is_the_reference_without_being_read_again(void **state)
{
    writing *const w = *state;
    const model m = model_new();
    gate_set(&w->gate, true, false);
    save_model(w, m, 1);
    const uint64_t alone = stats_of(w).last.stored_bytes;
    flip_newest(w); /* who decodes it would find it damaged and do without */
    char damaged[FILE_PATH_MAX];
    own_pack_file(damaged, w->f, "latest");
    model_move(m, 2);
    save_model(w, m, 2);
    assert_true(stats_of(w).last.stored_bytes < alone / 4); /* by itself the weights are half of that state */
    flip_bit(damaged, 1000);
    assert_model(w, "step:2", m);
    model_free(m);
}

static void what_is_shared_is_compared_with_the_bytes_on_disk(void **state)
{
    writing *const w = *state;
    const model m = model_new();
    gate_set(&w->gate, true, false);
    save_model(w, m, 1);
    flip_newest(w);
    save_model(w, m, 2); /* the same bytes, of which some are damaged in the store */
    assert_model(w, "step:2", m);
    model_free(m);
}

static void a_state_whose_save_failed_is_no_reference(void **state)
{
    writing *const w = *state;
    const model m = model_new();
    gate_set(&w->gate, true, false);
    save_model(w, m, 1);
    model_move(m, 2);
    gate_set(&w->gate, true, true);
    submit_model(w, m, 2);
    assert_int_equal(ckpt_writer_wait(w->writer, NULL), CKPT_EINTERRUPTED);
    gate_set(&w->gate, true, false);
    model_move(m, 3);
    save_model(w, m, 3);
    assert_model(w, "step:3", m);
    model_free(m);
}

/* A callback of the writer's thread notes its priority. */
static int note_nice(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    (void)done_bytes;
    (void)total_bytes;
    *(int *)payload = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
    return 0;
}

static void the_thread_gives_way_to_those_of_the_program(void **state)
{
    writing *const w = *state;
    ckpt_writer *writer = NULL;
    int nice = 0;
    const int own = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
    const ckpt_open_options options = {.size = sizeof options, .threads = 1, .progress = note_nice, .payload = &nice};
    float x = 1;
    const ckpt_tensor tensor = {"x", CKPT_F32, 0, {0}, &x};
    if (own == 19)
        skip(); /* nothing is below */
    MUST(ckpt_writer_open(&writer, w->f->root, &options, ERR));
    MUST(ckpt_writer_submit(writer, NULL, &tensor, 1, NULL, 0, NULL, CKPT_KEEP, ERR));
    MUST(ckpt_writer_close(writer, ERR));
    assert_true(nice > own);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, writing_setup, writing_teardown)
    const struct CMUnitTest tests[] = {
        CASE(each_of_many_states_comes_back_exactly),
        CASE(the_last_state_is_the_reference_without_being_read_again),
        CASE(what_is_shared_is_compared_with_the_bytes_on_disk),
        CASE(a_state_whose_save_failed_is_no_reference),
        CASE(the_thread_gives_way_to_those_of_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
