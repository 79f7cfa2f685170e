/* How many threads a pool has when nobody says so. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cpu_quota.h"
#include "pool.h"

#include "fail.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* CKPT_THREADS, or 0 when it is not set or empty. */
static int threads_wanted(unsigned *out, ckpt_error *err)
{
    int rc = 0;
    const char *const text = getenv("CKPT_THREADS");

    *out = 0;
    if (!text || !*text)
        goto out;
    const unsigned long value = strtoul(text, NULL, 10); /* saturates */
    FAIL_IF(text[strspn(text, "0123456789")] || value < 1 || value > POOL_THREADS_MAX, err, CKPT_EUSAGE,
            "CKPT_THREADS=%.32s: not a number from 1 to %d", text, POOL_THREADS_MAX);
    *out = (unsigned)value;
out:
    return rc;
}

static unsigned cpus_allowed(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t has bits */
    return online > 0 ? (unsigned)online : 1;
}

int pool_threads_default(unsigned *threads, ckpt_error *err)
{
    int rc = 0;

    TRY(threads_wanted(threads, err));
    if (*threads)
        goto out;
    *threads = cpus_allowed();
    const unsigned quota = cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota && quota < *threads)
        *threads = quota;
    if (*threads > POOL_THREADS_MAX)
        *threads = POOL_THREADS_MAX;
    if (*threads == 0)
        *threads = 1;
out:
    return rc;
}
