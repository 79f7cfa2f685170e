#include "thread.h"

#include "fail.h"

#include <signal.h>

int thread_start(pthread_t *thread, void *(*run)(void *payload), void *payload, ckpt_error *err)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a thread begins with the mask of the one that starts it */
    const int failed = pthread_create(thread, NULL, run, payload);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? error_errno(err, failed, "start a thread") : 0;
}
