/* How long a training stands still for a save: ckpt_writer_submit beside a plain copy of the same state. */
#include "bench.h"

#include "clock.h"
#include "fail.h"
#include "print.h"

#include <stdlib.h>
#include <string.h>

#define WARM_UPS    3                   /* saves that fault the writer's memory in */
#define CACHE_BYTES ((size_t)128 << 20) /* more than caches hold */

typedef struct blocking {
    bench_state state;
    ckpt_store *store;
    ckpt_writer *writer;
    unsigned char *copy;  /* of the state, faulted in */
    unsigned char *cache; /* CACHE_BYTES */
} blocking;

/* A training's step leaves little of the state in the caches; so both sides begin without. */
static void caches_fill(const blocking *t, int value)
{
    memset(t->cache, value, CACHE_BYTES);
}

static double copy_seconds(const blocking *t)
{
    unsigned char *to = t->copy;
    const double start = clock_seconds();

    for (size_t i = 0; i < t->state.count; i++) {
        const ckpt_tensor *const tensor = &t->state.tensors[i];
        const size_t bytes = bench_tensor_bytes(tensor);
        memcpy(to, tensor->data, bytes);
        to += bytes;
    }
    return clock_seconds() - start;
}

static int submit_seconds(double *out, const blocking *t, ckpt_error *err)
{
    int rc = 0;
    ckpt_writer_stats before, after;

    ckpt_writer_stats_get(&before, t->writer);
    TRY(ckpt_writer_submit(t->writer, NULL, t->state.tensors, t->state.count, NULL, 0, NULL, CKPT_KEEP, err));
    ckpt_writer_stats_get(&after, t->writer);
    *out = after.blocked_seconds - before.blocked_seconds;
    TRY(ckpt_writer_wait(t->writer, err));
out:
    return rc;
}

static int blocking_open(blocking *t, bench *b, const char *path, ckpt_error *err)
{
    int rc = 0;
    const ckpt_open_options options = {.size = sizeof options, .threads = b->s->threads};

    TRY(bench_state_load(&t->state, path, err));
    TRY(bench_store_new(&t->store, b, "blocking", err));
    TRY(ckpt_writer_open(&t->writer, ckpt_store_path(t->store), &options, err));
    t->copy = calloc(1, t->state.bytes + 1);
    t->cache = calloc(1, CACHE_BYTES);
    FAIL_IF_NULL(t->copy && t->cache, err);
    memset(t->copy, 1, t->state.bytes); /* what calloc gives is not there before it is written to */
out:
    return rc;
}

static int blocking_close(blocking *t, ckpt_error *err)
{
    const int rc = ckpt_writer_close(t->writer, err);

    ckpt_store_close(t->store);
    bench_state_clear(&t->state);
    free(t->copy);
    free(t->cache);
    return rc;
}

int bench_blocking(double *copy, bench *b, const char *path, const char *what, const char *bar, ckpt_error *err)
{
    int rc = 0;
    blocking t = {0};
    double ours[BENCH_ROUNDS_MAX], plain[BENCH_ROUNDS_MAX], unused;

    TRY(blocking_open(&t, b, path, err));
    for (unsigned i = 0; i < WARM_UPS; i++)
        TRY(submit_seconds(&unused, &t, err));
    for (unsigned i = 0; i < b->rounds; i++) {
        caches_fill(&t, (int)i);
        plain[i] = copy_seconds(&t);
        caches_fill(&t, ~(int)i);
        TRY(submit_seconds(&ours[i], &t, err));
    }
    *copy = bench_median(plain, b->rounds);
    TRY(bench_row(b, what, "ms", bench_median(ours, b->rounds) * 1e3, "memcpy into faulted memory", *copy * 1e3, bar,
                  err));
out:;
    const int closed = blocking_close(&t, rc ? NULL : err);
    return rc ? rc : closed;
}
