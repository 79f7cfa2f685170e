/* The pool: one queue, one mutex. Pieces of work are long (a chunk of a tensor), so nothing finer pays. */
#include "pool.h"

#include "fail.h"
#include "thread.h"

#include <assert.h>
#include <stdlib.h>

enum { TASK_NEW, TASK_QUEUED, TASK_DONE }; /* a zeroed task is new */

struct worker {
    pool *pool;
    unsigned index;
    pthread_t thread;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work; /* something was queued, or the pool closes */
    pthread_cond_t done; /* something has run */
    pool_task *first, **last;
    bool closing;
    unsigned size;
    struct worker workers[POOL_THREADS_MAX];
};

static void *worker_run(void *payload)
{
    const struct worker *const worker = payload;
    pool *const p = worker->pool;

    pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (!p->first && !p->closing)
            pthread_cond_wait(&p->work, &p->mutex);
        pool_task *const task = p->first;
        if (!task)
            break; /* closing, and everything has run */
        p->first = task->next;
        if (!p->first)
            p->last = &p->first;

        pthread_mutex_unlock(&p->mutex);
        task->run(task, worker->index);
        pthread_mutex_lock(&p->mutex);

        task->state = TASK_DONE; /* from here on it is the caller's again, who may free it */
        pthread_cond_broadcast(&p->done);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

static int worker_start(pool *p, ckpt_error *err)
{
    int rc = 0;
    struct worker *const worker = &p->workers[p->size];

    *worker = (struct worker){.pool = p, .index = p->size};
    TRY(thread_start(&worker->thread, worker_run, worker, err));
    p->size++;
out:
    return rc;
}

int pool_new(pool **out, unsigned threads, ckpt_error *err)
{
    int rc = 0;
    pool *p = NULL;

    if (threads == 0)
        TRY(pool_threads_default(&threads, err));
    if (threads > POOL_THREADS_MAX)
        threads = POOL_THREADS_MAX;

    p = calloc(1, sizeof *p);
    FAIL_IF_NULL(p, err);
    p->last = &p->first;
    pthread_mutex_init(&p->mutex, NULL); /* cannot fail with default attributes on Linux, nor can the next two */
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);

    TRY(worker_start(p, err));
    /* Fewer threads than wanted (a limit on processes) are slower, not wrong. */
    while (p->size < threads && worker_start(p, NULL) == 0)
        ;
    *out = p;
    p = NULL;
out:
    pool_free(p);
    return rc;
}

unsigned pool_size(const pool *p)
{
    return p->size;
}

void pool_submit(pool *p, pool_task *task)
{
    pthread_mutex_lock(&p->mutex);
    assert(task->state != TASK_QUEUED && !p->closing);
    task->state = TASK_QUEUED;
    task->next = NULL;
    *p->last = task;
    p->last = &task->next;
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->mutex);
}

void pool_wait(pool *p, pool_task *task)
{
    pthread_mutex_lock(&p->mutex);
    while (task->state == TASK_QUEUED)
        pthread_cond_wait(&p->done, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

bool pool_done(pool *p, const pool_task *task)
{
    pthread_mutex_lock(&p->mutex);
    const bool done = task->state != TASK_QUEUED;
    pthread_mutex_unlock(&p->mutex);
    return done;
}

void pool_free(pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->mutex);
    p->closing = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->mutex);
    for (unsigned i = 0; i < p->size; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}
