#define _GNU_SOURCE /* pipe2, dup3, syscall */
#include "job.h"

#include "fail.h"
#include "job_status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOG_MODE 0600 /* it names paths of its owner */

/* One write, which a pipe takes whole. */
typedef struct report {
    int rc;
    ckpt_error err;
} report;
_Static_assert(sizeof(report) <= PIPE_BUF, "a report is written in one piece");

static int log_open(int *fd, const char *kind, const char *subject, ckpt_error *err)
{
    int rc = 0;
    char folder[FILE_PATH_MAX], path[FILE_PATH_MAX];

    TRY(job_status_folder(folder, kind, subject, err));
    TRY(job_status_folder_make(folder, err));
    TRY(path_join(path, folder, "log", err));
    /* O_NONBLOCK: a FIFO in its place fails, and is not waited for. Of a file it says nothing. */
    *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, LOG_MODE);
    if (*fd < 0)
        rc = error_errno(err, errno, "%s", path);
out:
    return rc;
}

/* Closes all that the caller happened to have open, so that nobody waits for the end of a pipe of which a copy came
 * here. *kept is not. Where the kernel cannot do that, they stay. */
static void leave_files(int *kept)
{
    const int first = STDERR_FILENO + 1;

    if (*kept != first && dup3(*kept, first, O_CLOEXEC) == first)
        *kept = first;
#ifdef SYS_close_range
    if (*kept == first)
        (void)syscall(SYS_close_range, (unsigned)first + 1, UINT_MAX, 0);
#endif
}

/* Of the new process: nothing ties it to the terminal any more. */
static int leave_terminal(int log_fd, ckpt_error *err)
{
    int rc = 0;
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (null < 0 || setsid() < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
        dup2(log_fd, STDERR_FILENO) < 0)
        rc = error_errno(err, errno, "leave the terminal");
    if (null > STDERR_FILENO)
        close(null);
    return rc;
}

/* Of the caller: waits until the new process has said how its start went, or is gone. */
static int report_read(int fd, const char *kind, ckpt_error *err)
{
    report told;
    ssize_t size;

    do
        size = read(fd, &told, sizeof told);
    while (size < 0 && errno == EINTR);
    if (size != (ssize_t)sizeof told)
        return error_set(err, CKPT_EBUG, "the new process of the %s ended before it had begun", kind);
    if (told.rc && err)
        *err = told.err;
    return told.rc;
}

int job_detach(job_birth *birth, const char *kind, const char *subject, ckpt_error *err)
{
    int rc = 0, ends[2] = {-1, -1}, log_fd = -1;

    *birth = (job_birth){.report = -1};
    TRY(log_open(&log_fd, kind, subject, err));
    if (pipe2(ends, O_CLOEXEC)) {
        rc = error_errno(err, errno, "start a process");
        goto out;
    }
    const pid_t pid = fork();
    if (pid < 0) {
        rc = error_errno(err, errno, "start a process");
        goto out;
    }
    birth->pid = pid;
    if (pid == 0) {
        birth->report = ends[1];
        rc = leave_terminal(log_fd, err);
        leave_files(&birth->report);
        ends[0] = ends[1] = log_fd = -1;
        TRY(rc);
    } else {
        close(ends[1]); /* so that the end of that process is the end of the pipe */
        ends[1] = -1;
        TRY(report_read(ends[0], kind, err));
    }
out:
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    file_close(&log_fd);
    if (rc)
        job_report(birth, rc, err);
    return rc;
}

void job_report(job_birth *birth, int rc, const ckpt_error *err)
{
    report told = {.rc = rc};

    if (birth->report < 0)
        return;
    if (err)
        told.err = *err;
    ssize_t size;
    do
        size = write(birth->report, &told, sizeof told);
    while (size < 0 && errno == EINTR);
    close(birth->report);
    birth->report = -1;
}
