#include "team.h"

#include "fail.h"
#include "pool.h"

#include <omp.h>

/* How many threads OpenMP gives to who asks for so many. */
static unsigned team_given(unsigned threads)
{
    unsigned given = 1;
    const team_settings before = team_enter(threads);

#pragma omp parallel num_threads(threads)
#pragma omp single
    given = (unsigned)omp_get_num_threads();
    team_leave(before);
    return given;
}

int team_threads(unsigned *threads, unsigned asked, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(asked > POOL_THREADS_MAX, err, CKPT_EUSAGE, "%u threads are more than %d", asked, POOL_THREADS_MAX);
    *threads = asked;
    if (!asked)
        TRY(pool_threads_default(threads, err));
    *threads = team_given(*threads);
out:
    return rc;
}

void team_run(unsigned threads, team_fn run, void *job, size_t count, size_t grain)
{
    const size_t grains = (count + grain - 1) / grain;

    if (threads == 1 || grains <= 1) {
        run(job, 0, count);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        const size_t self = (size_t)omp_get_thread_num(), team = (size_t)omp_get_num_threads();
        const size_t begin = grains / team * self + grains % team * self / team;
        const size_t end = grains / team * (self + 1) + grains % team * (self + 1) / team;
        if (begin < end)
            run(job, begin * grain, end == grains ? count : end * grain);
    }
}

team_settings team_enter(unsigned threads)
{
    const team_settings before = {omp_get_max_threads(), omp_get_dynamic()};

    omp_set_dynamic(0); /* else the system's load decides how many there are, and with it the bits */
    omp_set_num_threads((int)threads);
    return before;
}

void team_leave(team_settings before)
{
    omp_set_num_threads(before.threads);
    omp_set_dynamic(before.dynamic);
}
