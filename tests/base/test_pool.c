#include "pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASKS 1000

typedef struct job {
    pool_task task;
    pool *pool;
    int runs;
    int order;
    unsigned worker;
} job;

static int next_order; /* written by the one worker of a pool of size 1 only */

static void job_run(pool_task *task, unsigned worker)
{
    job *const j = (job *)(void *)task;
    j->runs++;
    j->worker = worker;
}

static void job_run_in_order(pool_task *task, unsigned worker)
{
    job_run(task, worker);
    ((job *)(void *)task)->order = next_order++;
}

static void every_task_runs_once(void **state)
{
    (void)state;
    static job jobs[TASKS];
    pool *p = NULL;
    memset(jobs, 0, sizeof jobs);
    assert_int_equal(pool_new(&p, 4, NULL), 0);
    for (size_t i = 0; i < TASKS; i++) {
        jobs[i].task.run = job_run;
        pool_submit(p, &jobs[i].task);
    }
    for (size_t i = 0; i < TASKS; i++) {
        pool_wait(p, &jobs[i].task);
        assert_int_equal(jobs[i].runs, 1);
        assert_true(jobs[i].worker < pool_size(p));
    }
    pool_free(p);
}

static void one_worker_takes_tasks_in_the_order_of_submission(void **state)
{
    (void)state;
    job jobs[100];
    pool *p = NULL;
    memset(jobs, 0, sizeof jobs);
    next_order = 0;
    assert_int_equal(pool_new(&p, 1, NULL), 0);
    for (size_t i = 0; i < 100; i++) {
        jobs[i].task.run = job_run_in_order;
        pool_submit(p, &jobs[i].task);
    }
    pool_free(p);
    for (int i = 0; i < 100; i++)
        assert_int_equal(jobs[i].order, i);
}

static void free_waits_for_everything_submitted(void **state)
{
    (void)state;
    static job jobs[TASKS];
    pool *p = NULL;
    memset(jobs, 0, sizeof jobs);
    assert_int_equal(pool_new(&p, 3, NULL), 0);
    for (size_t i = 0; i < TASKS; i++) {
        jobs[i].task.run = job_run;
        pool_submit(p, &jobs[i].task);
    }
    pool_free(p);
    for (size_t i = 0; i < TASKS; i++)
        assert_int_equal(jobs[i].runs, 1);
}

static void a_task_can_be_submitted_again(void **state)
{
    (void)state;
    job j = {.task = {.run = job_run}};
    pool *p = NULL;
    assert_int_equal(pool_new(&p, 2, NULL), 0);
    for (int i = 0; i < 100; i++) {
        pool_submit(p, &j.task);
        pool_wait(p, &j.task);
    }
    pool_free(p);
    assert_int_equal(j.runs, 100);
}

static void waiting_for_what_was_never_submitted_returns(void **state)
{
    (void)state;
    job j = {.task = {.run = job_run}};
    pool *p = NULL;
    assert_int_equal(pool_new(&p, 1, NULL), 0);
    pool_wait(p, &j.task);
    assert_true(pool_done(p, &j.task));
    pool_free(p);
    assert_int_equal(j.runs, 0);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void job_run_through_gate(pool_task *task, unsigned worker)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    job_run(task, worker);
}

static void done_tells_without_blocking(void **state)
{
    (void)state;
    job j = {.task = {.run = job_run_through_gate}};
    pool *p = NULL;
    assert_int_equal(pool_new(&p, 1, NULL), 0);
    pthread_mutex_lock(&gate);
    pool_submit(p, &j.task);
    assert_false(pool_done(p, &j.task));
    pthread_mutex_unlock(&gate);
    pool_wait(p, &j.task);
    assert_true(pool_done(p, &j.task));
    pool_free(p);
}

static void job_run_and_submit(pool_task *task, unsigned worker)
{
    job *const j = (job *)(void *)task;
    job_run(task, worker);
    pool_submit(j->pool, &j[1].task);
}

static void a_task_may_submit_another(void **state)
{
    (void)state;
    pool *p = NULL;
    assert_int_equal(pool_new(&p, 1, NULL), 0);
    job jobs[2] = {{.task = {.run = job_run_and_submit}, .pool = p}, {.task = {.run = job_run}}};
    pool_submit(p, &jobs[0].task);
    pool_wait(p, &jobs[0].task);
    pool_wait(p, &jobs[1].task);
    pool_free(p);
    assert_int_equal(jobs[1].runs, 1);
}

static void job_run_signal_mask(pool_task *task, unsigned worker)
{
    sigset_t blocked;
    job_run(task, worker);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    ((job *)(void *)task)->order = sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT);
}

static void workers_leave_signals_to_the_program(void **state)
{
    (void)state;
    job j = {.task = {.run = job_run_signal_mask}};
    pool *p = NULL;
    sigset_t mine;
    assert_int_equal(pool_new(&p, 1, NULL), 0);
    pool_submit(p, &j.task);
    pool_wait(p, &j.task);
    pool_free(p);
    assert_int_equal(j.order, 1);
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_false(sigismember(&mine, SIGTERM));
}

static unsigned size_of_new(unsigned threads)
{
    pool *p = NULL;
    assert_int_equal(pool_new(&p, threads, NULL), 0);
    const unsigned size = pool_size(p);
    pool_free(p);
    return size;
}

static void size_is_what_was_asked_up_to_the_limit(void **state)
{
    (void)state;
    assert_int_equal(size_of_new(1), 1);
    assert_int_equal(size_of_new(5), 5);
    assert_int_equal(size_of_new(POOL_THREADS_MAX + 1), POOL_THREADS_MAX);
}

static unsigned threads_default(void)
{
    unsigned threads = 0;
    assert_int_equal(pool_threads_default(&threads, NULL), 0);
    return threads;
}

static void size_comes_from_the_environment_when_nobody_asks(void **state)
{
    (void)state;
    setenv("CKPT_THREADS", "3", 1);
    assert_int_equal(threads_default(), 3);
    assert_int_equal(size_of_new(0), 3);
    setenv("CKPT_THREADS", "64", 1);
    assert_int_equal(threads_default(), 64);
    unsetenv("CKPT_THREADS");
    const unsigned expected = threads_default();
    assert_true(expected >= 1 && expected <= POOL_THREADS_MAX);
    setenv("CKPT_THREADS", "", 1);
    assert_int_equal(threads_default(), expected);
    unsetenv("CKPT_THREADS");
}

static void nonsense_in_the_environment_is_refused(void **state)
{
    (void)state;
    static const char *const NONSENSE[] = {"0", "-2", " 7", "7x", "0x7", "many", "65", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof NONSENSE / sizeof NONSENSE[0]; i++) {
        unsigned threads;
        pool *p = NULL;
        ckpt_error err = {0};
        setenv("CKPT_THREADS", NONSENSE[i], 1);
        assert_int_equal(pool_threads_default(&threads, &err), CKPT_EUSAGE);
        assert_non_null(strstr(err.message, NONSENSE[i]));
        assert_int_equal(pool_new(&p, 0, NULL), CKPT_EUSAGE);
        assert_null(p);
        assert_int_equal(size_of_new(2), 2);
    }
    unsetenv("CKPT_THREADS");
}

static void freeing_nothing_is_fine(void **state)
{
    (void)state;
    pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(one_worker_takes_tasks_in_the_order_of_submission),
        cmocka_unit_test(free_waits_for_everything_submitted),
        cmocka_unit_test(a_task_can_be_submitted_again),
        cmocka_unit_test(waiting_for_what_was_never_submitted_returns),
        cmocka_unit_test(done_tells_without_blocking),
        cmocka_unit_test(a_task_may_submit_another),
        cmocka_unit_test(workers_leave_signals_to_the_program),
        cmocka_unit_test(size_is_what_was_asked_up_to_the_limit),
        cmocka_unit_test(size_comes_from_the_environment_when_nobody_asks),
        cmocka_unit_test(nonsense_in_the_environment_is_refused),
        cmocka_unit_test(freeing_nothing_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
