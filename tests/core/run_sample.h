/* A run that saves the state of state_sample.h and remembers what was told. Included by one test each. */
#ifndef TESTS_RUN_SAMPLE_H
#define TESTS_RUN_SAMPLE_H

#include "state_sample.h"

#include "run_finder.h"
#include "run_saver.h"

#include <time.h>

#define TOLD_SIZE   512
#define SETTLE_MS   20000
#define ROOT_PATH   (TEMP_PATH_MAX + 300)
#define DATA_FOLDER "/usr/share/data"

typedef struct run_sample {
    sample *s;
    char store_path[TEMP_PATH_MAX + 16];
    backend backend;
    unsigned waits; /* for the backend */
    report report;
    unsigned warnings, notes;
    char warning[TOLD_SIZE], note[TOLD_SIZE]; /* the last ones */
    run_saver *saver;
} run_sample;

static int run_event(void *payload, const ckpt_training_event *event)
{
    run_sample *const r = payload;
    if (event->kind == CKPT_TRAINING_WARNING) {
        r->warnings++;
        snprintf(r->warning, sizeof r->warning, "%s", event->text);
    } else if (event->kind == CKPT_TRAINING_NOTE) {
        r->notes++;
        snprintf(r->note, sizeof r->note, "%s", event->text);
    }
    return 0;
}

static int host_wait(backend *b, ckpt_error *err)
{
    (void)b;
    (void)err;
    return 0;
}

static inline void run_open(run_sample *r, const char *data_path)
{
    MUST(run_saver_open(&r->saver, r->store_path, &r->s->state, r->s->net, &r->backend, data_path, &r->report, ERR));
}

static inline void run_close(run_sample *r)
{
    run_saver *const saver = r->saver;
    r->saver = NULL;
    MUST(run_saver_close(saver, ERR));
}

static inline int run_setup(void **out)
{
    run_sample *const r = calloc(1, sizeof *r);
    void *s = NULL;
    if (!r || sample_setup(&s))
        return -1;
    r->s = s;
    snprintf(r->store_path, sizeof r->store_path, "%s", ckpt_store_path(r->s->store));
    r->backend = (backend){.name = "none", .threads = 1, .memory_is_host = true, .wait = host_wait};
    r->report = (report){.event = run_event, .payload = r};
    report_start(&r->report, &r->s->state, 1000);
    *out = r;
    return 0;
}

static inline int run_teardown(void **out)
{
    run_sample *const r = *out;
    void *s = r->s;
    (void)run_saver_close(r->saver, NULL);
    const int rc = sample_teardown(&s);
    free(r);
    return rc;
}

/* Moves the state on, so that no two saves are of the same bytes. */
static inline void run_advance(run_sample *r)
{
    state *const s = &r->s->state;
    s->step++;
    for (size_t i = 0; i < 3 * r->s->net->weight_count; i++)
        s->weights[i] = (float)s->step + (float)i / 128;
}

static inline void run_save(run_sample *r, save_reason reason)
{
    MUST(run_saver_save(r->saver, reason, 0.9375, 0.875, ERR));
}

/* Saves of this sample are ordinary and may be dropped: waits until the writer has decided about `count` of them. */
static inline void run_settle(run_sample *r, uint64_t count)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    ckpt_training_result result;
    for (int i = 0; i < SETTLE_MS; i++) {
        run_saver_result(&result, r->saver);
        if (result.saves + result.saves_failed + result.saves_skipped >= count)
            return;
        nanosleep(&pause, NULL);
    }
    fail_msg("the writer did not come to an end");
}

#endif
