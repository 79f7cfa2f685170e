/* What the machine can do at most, for profiles to be compared with. */
#include "clock.h"
#include "passes.h"
#include "team.h"

#include "fail.h"
#include "pool.h"

#include <ckpt/train.h>

#include <stdlib.h>
#include <string.h>

#define MEASURE_SECONDS 0.25                /* each of the two */
#define COPY_BYTES      ((size_t)128 << 20) /* from and to each so many: more than caches hold */
#define ROUNDS          ((size_t)1 << 20)

typedef struct copy_job {
    char *to;
    const char *from;
} copy_job;

static void copy_range(void *job, size_t begin, size_t end)
{
    const copy_job *const j = job;
    memcpy(j->to + begin, j->from + begin, end - begin);
}

/* Calls per second of a job of `units`, the best of those that fit into the time: others may disturb it, nobody makes
 * it faster than it is. */
static double rate_measure(unsigned threads, team_fn run, void *job, size_t units, size_t grain)
{
    const double start = clock_seconds();
    double best = 0, now = start;

    team_run(threads, run, job, units, grain); /* wakes the threads and touches the memory */
    while (now - start < MEASURE_SECONDS) {
        const double before = clock_seconds();
        team_run(threads, run, job, units, grain);
        now = clock_seconds();
        if (now > before && 1 / (now - before) > best)
            best = 1 / (now - before);
    }
    return best;
}

int ckpt_machine_limits_measure(ckpt_machine_limits *out, unsigned threads, ckpt_error *err)
{
    int rc = 0;
    const pass_table *const passes = passes_best("");
    multiply_add_job work = {.rounds = ROUNDS};
    char *const from = malloc(COPY_BYTES), *const to = malloc(COPY_BYTES);

    FAIL_IF_NULL(from, err);
    FAIL_IF_NULL(to, err);
    TRY(team_threads(&threads, threads, err));
    memset(from, 1, COPY_BYTES); /* memory that was never written is one page of zeros */
    *out = (ckpt_machine_limits){
        .threads = threads,
        .flops_per_s = rate_measure(threads, passes->multiply_add, &work, threads, 1) * (double)ROUNDS *
                       (double)passes->flops_per_round * threads,
        .bytes_per_s =
            rate_measure(threads, copy_range, &(copy_job){to, from}, COPY_BYTES, COPY_BYTES / POOL_THREADS_MAX) * 2 *
            (double)COPY_BYTES,
    };
out:
    free(from);
    free(to);
    return rc;
}
