/* A gate for tests of the background writer. */
#ifndef TESTS_CKPT_GATE_H
#define TESTS_CKPT_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A save stands still at this gate, inside the writer's thread, until it is opened; while `fails` is set it is stopped
 * there with CKPT_EINTERRUPTED. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open, fails;
    unsigned arrived; /* calls so far */
} gate;

static inline int gate_pass(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    gate *const g = payload;
    (void)done_bytes;
    (void)total_bytes;
    pthread_mutex_lock(&g->lock);
    g->arrived++;
    pthread_cond_broadcast(&g->changed);
    while (!g->open)
        pthread_cond_wait(&g->changed, &g->lock);
    const int stop = g->fails;
    pthread_mutex_unlock(&g->lock);
    return stop;
}

static inline void gate_set(gate *g, bool open, bool fails)
{
    pthread_mutex_lock(&g->lock);
    g->open = open;
    g->fails = fails;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static inline void gate_await_arrival(gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (g->arrived == 0)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

#endif
