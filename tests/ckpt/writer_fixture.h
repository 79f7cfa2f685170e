/* A background writer on a store in a temporary folder, whose saves stand at a gate. Included by one test each. */
#ifndef TESTS_CKPT_WRITER_FIXTURE_H
#define TESTS_CKPT_WRITER_FIXTURE_H

#include "store_fixture.h"

#include "gate.h"

#define STATE_FLOATS     5000
#define STATE_FLOATS_MAX 15000

typedef struct writing {
    fixture *f;
    ckpt_writer *writer;
    gate gate;
} writing;

/* A writer whose gate is closed. */
static inline void writer_open(writing *w)
{
    const ckpt_open_options options = {
        .size = sizeof options, .threads = 1, .progress = gate_pass, .payload = &w->gate};
    gate_set(&w->gate, false, false);
    w->gate.arrived = 0;
    MUST(ckpt_writer_open(&w->writer, w->f->root, &options, ERR));
}

static inline int writing_setup(void **state)
{
    writing *const w = calloc(1, sizeof *w);
    if (!w || fixture_setup((void **)&w->f))
        return -1;
    pthread_mutex_init(&w->gate.lock, NULL);
    pthread_cond_init(&w->gate.changed, NULL);
    writer_open(w);
    *state = w;
    return 0;
}

static inline int writing_teardown(void **state)
{
    writing *const w = *state;
    void *f = w->f;
    gate_set(&w->gate, true, false);
    (void)ckpt_writer_close(w->writer, NULL);
    const int rc = fixture_teardown(&f);
    pthread_cond_destroy(&w->gate.changed);
    pthread_mutex_destroy(&w->gate.lock);
    free(w);
    return rc;
}

/* Submits a state of so many elements, each of them `value`, under the step of that number. */
static inline int submit_floats(writing *w, unsigned value, size_t count, ckpt_importance importance, ckpt_error *err)
{
    float data[STATE_FLOATS_MAX];
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {count}, data};
    for (size_t i = 0; i < count; i++)
        data[i] = (float)value;
    options.step = value;
    const int rc = ckpt_writer_submit(w->writer, NULL, &tensor, 1, NULL, 0, &options, importance, err);
    memset(data, 0xee, sizeof data);
    return rc;
}

static inline int submit(writing *w, unsigned value, ckpt_importance importance, ckpt_error *err)
{
    return submit_floats(w, value, STATE_FLOATS, importance, err);
}

/* Submits a first state and returns when its save is in flight, standing at the gate. */
static inline void submit_in_flight(writing *w, unsigned value)
{
    MUST(submit(w, value, CKPT_ORDINARY, ERR));
    gate_await_arrival(&w->gate);
}

static inline void open_gate_and_wait(writing *w)
{
    gate_set(&w->gate, true, false);
    MUST(ckpt_writer_wait(w->writer, ERR));
}

static inline ckpt_writer_stats stats_of(writing *w)
{
    ckpt_writer_stats stats;
    ckpt_writer_stats_get(&stats, w->writer);
    return stats;
}

/* Is there a checkpoint of this step, and does it hold the state submitted for it? */
static inline bool is_saved_floats(writing *w, unsigned value, size_t count)
{
    char name[32];
    float data[STATE_FLOATS_MAX];
    ckpt_error err = {0};
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {count}, data};
    snprintf(name, sizeof name, "step:%u", value);
    const int rc = ckpt_restore_tensors(w->f->store, name, &tensor, 1, &err);
    if (rc == CKPT_ENOTFOUND)
        return false;
    assert_int_equal(rc, 0);
    for (size_t i = 0; i < count; i++)
        assert_true(data[i] == (float)value);
    return true;
}

static inline bool is_saved(writing *w, unsigned value)
{
    return is_saved_floats(w, value, STATE_FLOATS);
}

#endif
