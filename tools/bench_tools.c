#define _GNU_SOURCE /* nftw, wait4 */
#include "bench.h"

#include "clock.h"
#include "fail.h"
#include "print.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int double_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int bench_check(ckpt_error *err)
{
    return session_stopped() ? error_set(err, CKPT_EINTERRUPTED, "bench: interrupted") : 0;
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, double_compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

double bench_cpu(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *place)
{
    (void)st;
    (void)flag;
    (void)place;
    return remove(path);
}

int bench_remove_tree(const bench *b, const char *path, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(!b->scratch[0] || strncmp(path, b->scratch, strlen(b->scratch)) != 0, err, CKPT_EBUG,
            "%s is not in the scratch folder", path);
    if (access(path, F_OK) == 0 && nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS)) {
        rc = error_errno(err, errno, "remove %s", path);
        goto out;
    }
out:
    return rc;
}

static int on_progress(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    (void)payload;
    (void)done_bytes;
    (void)total_bytes;
    return session_stopped();
}

int bench_store_new(ckpt_store **out, bench *b, const char *name, ckpt_error *err)
{
    int rc = 0;
    bool existed = false;
    char path[FILE_PATH_MAX];
    const ckpt_open_options options = {.size = sizeof options, .threads = b->s->threads, .progress = on_progress};

    TRY(path_join(path, b->scratch, name, err));
    TRY(bench_remove_tree(b, path, err));
    TRY(dir_make_all(path, err));
    TRY(ckpt_store_init(&existed, path, err));
    TRY(ckpt_store_open(out, path, &options, err));
out:
    return rc;
}

/* In the child: never returns. */
static _Noreturn void command_become(const bench_command *c)
{
    const int out = open(c->output ? c->output : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (out >= 0 && (!c->dir || chdir(c->dir) == 0) && dup2(out, STDOUT_FILENO) >= 0)
        execvp(c->program ? c->program : "/proc/self/exe", (char *const *)(uintptr_t)c->words);
    _exit(127);
}

int bench_command_run(bench_run_result *out, const bench_command *c, ckpt_error *err)
{
    int rc = 0, status = 0;
    struct rusage usage;
    const double start = clock_seconds();
    const pid_t pid = fork();

    if (pid < 0) {
        rc = error_errno(err, errno, "start a process");
        goto out;
    }
    if (pid == 0)
        command_become(c);
    while (wait4(pid, &status, 0, &usage) < 0) {
        if (errno != EINTR) {
            rc = error_errno(err, errno, "wait for a process");
            goto out;
        }
        if (session_stopped())
            kill(pid, SIGTERM);
    }
    out->wall = clock_seconds() - start;
    out->cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    out->rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    TRY(bench_check(err));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        rc = error_set(err, CKPT_EIO, "a run of %s failed", c->words[0]);
        error_hint(err, "it says why above");
    }
out:
    return rc;
}

int bench_run(bench_run_result *out, const char *dir, const char *const *words, ckpt_error *err)
{
    return bench_command_run(out, &(bench_command){.dir = dir, .words = words}, err);
}
