/* Host shim: a library for LD_PRELOAD that makes a process believe that it runs on another machine, so that two of them
 * on one folder are two hosts that share it.
 *
 *   CKPT_HOST_ROOT     what lies below is a network file system, where locks do not reach the other host
 *   CKPT_HOST_NAME     the name of this host
 *   CKPT_HOST_AHEAD_S  its wall clock is so many seconds ahead (negative: behind), and files that it writes get their
 *                      time from it, as on file systems whose clients set it
 *   CKPT_HOST_RATE     its monotonic clocks run so many times as quickly, so that a test does not wait
 *   CKPT_HOST_SYNC_MS  fsync takes so long, as it may over a network
 *
 * Monotonic clocks of two hosts have nothing to do with each other: each process has its own beginning. Processes of
 * other hosts cannot be asked whether they live: kill(pid, 0) knows only this process. */
#undef _FILE_OFFSET_BITS /* else the two names of fstatfs are one */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define NFS_MAGIC   0x6969
#define NANOSECONDS 1000000000LL

static struct {
    const char *root, *name;
    size_t root_size;
    long ahead_s, rate, sync_ms;
    int64_t begin_ns; /* of the monotonic clock of this host */
} host = {.rate = 1};

static long number_of(const char *name, long otherwise)
{
    const char *const text = getenv(name);

    return text ? strtol(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void host_start(void)
{
    host.root = getenv("CKPT_HOST_ROOT");
    host.root_size = host.root ? strlen(host.root) : 0;
    host.name = getenv("CKPT_HOST_NAME");
    host.ahead_s = number_of("CKPT_HOST_AHEAD_S", 0);
    host.rate = number_of("CKPT_HOST_RATE", 1);
    host.sync_ms = number_of("CKPT_HOST_SYNC_MS", 0);
    host.begin_ns = getpid() % 100000 * NANOSECONDS;
}

static bool is_shared(int fd)
{
    char self[64], path[PATH_MAX];

    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(self, path, sizeof path - 1);
    if (!host.root || size < 0)
        return false;
    path[size] = 0;
    return strncmp(path, host.root, host.root_size) == 0;
}

/* ---- Clocks ---- */

static int real_clock(clockid_t clock, struct timespec *out)
{
    return (int)syscall(SYS_clock_gettime, clock, out);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    const int rc = real_clock(clock, out);

    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += host.ahead_s;
    if (rc == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME)) {
        const int64_t now = (out->tv_sec * NANOSECONDS + out->tv_nsec) * host.rate + host.begin_ns;
        *out = (struct timespec){now / NANOSECONDS, now % NANOSECONDS};
    }
    return rc;
}

time_t time(time_t *out)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

/* All timed waits of ckpt are by the monotonic clock. */
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    const int64_t end = (until->tv_sec * NANOSECONDS + until->tv_nsec - host.begin_ns) / host.rate;
    const struct timespec real = {end / NANOSECONDS, end % NANOSECONDS};

    return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &real);
}

/* ---- Files ---- */

int fstatfs(int fd, struct statfs *out)
{
    const int rc = (int)syscall(SYS_fstatfs, fd, out);

    if (rc == 0 && is_shared(fd))
        out->f_type = NFS_MAGIC;
    return rc;
}

int fstatfs64(int fd, struct statfs64 *out) __attribute__((alias("fstatfs")));

int close(int fd)
{
    struct timespec now;

    if (host.ahead_s && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY && is_shared(fd)) {
        clock_gettime(CLOCK_REALTIME, &now);
        const struct timespec times[2] = {now, now};
        (void)futimens(fd, times);
    }
    return (int)syscall(SYS_close, fd);
}

int fsync(int fd)
{
    const struct timespec span = {host.sync_ms / 1000, host.sync_ms % 1000 * 1000000};

    if (is_shared(fd))
        nanosleep(&span, NULL);
    return (int)syscall(SYS_fsync, fd);
}

/* ---- Who we are ---- */

int gethostname(char *name, size_t size)
{
    snprintf(name, size, "%s", host.name ? host.name : "host");
    return 0;
}

int kill(pid_t pid, int number)
{
    if (number == 0 && pid != getpid()) {
        errno = ESRCH;
        return -1;
    }
    return (int)syscall(SYS_kill, pid, number);
}
