/* A thread pool for independent pieces of work.
 *
 * Size: -j or the caller, else CKPT_THREADS, else the CPUs this process may run on (affinity and cgroup quota), at most
 * POOL_THREADS_MAX. A pool of size 1 still has one worker thread, so that reading and coding overlap. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>

#define POOL_THREADS_MAX 64

typedef struct pool pool;

/* A piece of work, embedded in the caller's struct. `run` may not submit to the same pool and wait for it. */
typedef struct pool_task {
    void (*run)(struct pool_task *task,
                unsigned worker); /* worker: 0 .. pool_size - 1, for per-worker scratch memory */
    struct pool_task *next;
    int state; /* private */
} pool_task;

/* From CKPT_THREADS, affinity and cgroup limits; at least 1. CKPT_EUSAGE when CKPT_THREADS is set to something else
 * than a number from 1 to POOL_THREADS_MAX. */
int pool_threads_default(unsigned *threads, ckpt_error *err);

int pool_new(pool **out, unsigned threads /* 0: default */, ckpt_error *err);
unsigned pool_size(const pool *p);
void pool_submit(pool *p, pool_task *task);
void pool_wait(pool *p, pool_task *task);       /* until this task has run; a task that was never submitted is done */
bool pool_done(pool *p, const pool_task *task); /* has it run? does not block */
void pool_free(pool *p);                        /* waits for everything submitted; NULL is fine */

#endif
