/* How many threads a pool has when nobody says so. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cpu_quota.h"
#include "pool.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* CKPT_THREADS, or 0 when it is not set or not a number above 0. */
static unsigned threads_wanted(void)
{
    const char *const text = getenv("CKPT_THREADS");
    char *end;

    if (!text || text[0] < '0' || text[0] > '9')
        return 0;
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    if (*end)
        return 0;
    return errno || value > POOL_THREADS_MAX ? POOL_THREADS_MAX : (unsigned)value;
}

static unsigned cpus_allowed(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t has bits */
    return online > 0 ? (unsigned)online : 1;
}

unsigned pool_threads_default(void)
{
    const unsigned wanted = threads_wanted();
    if (wanted)
        return wanted;

    unsigned threads = cpus_allowed();
    const unsigned quota = cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota && quota < threads)
        threads = quota;
    if (threads > POOL_THREADS_MAX)
        threads = POOL_THREADS_MAX;
    return threads ? threads : 1;
}
