/* Threads of the libraries. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <ckpt/error.h>
#include <pthread.h>

/* Starts a thread that all signals are blocked in: they are for the program's own threads. The errors of
 * pthread_create, where a limit on threads is CKPT_EIO. */
int thread_start(pthread_t *thread, void *(*run)(void *payload), void *payload, ckpt_error *err);

/* From now on the calling thread, and those that it starts, give way to all others: work in the background must not
 * hold up a team of threads that computes, all of whom wait for the slowest. Where the system knows no priority of a
 * single thread nothing happens. */
void thread_give_way(void);

#endif
