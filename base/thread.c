#define _GNU_SOURCE /* syscall */
#include "thread.h"

#include "fail.h"

#include <errno.h>
#include <signal.h>

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About a thirtieth of the time that a thread of usual priority gets, and all that is left over. */
#define GIVE_WAY_NICE 15
#endif

int thread_start(pthread_t *thread, void *(*run)(void *payload), void *payload, ckpt_error *err)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a thread begins with the mask of the one that starts it */
    const int failed = pthread_create(thread, NULL, run, payload);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? error_errno(err, failed, "start a thread") : 0;
}

void thread_give_way(void)
{
#ifdef __linux__
    /* POSIX has one nice value for a process; Linux has one for each thread, and new ones take it over. */
    const id_t self = (id_t)syscall(SYS_gettid);

    errno = 0;
    const int before = getpriority(PRIO_PROCESS, self);
    if (errno == 0)
        (void)setpriority(PRIO_PROCESS, self, before + GIVE_WAY_NICE); /* the kernel knows the highest */
#endif
}
