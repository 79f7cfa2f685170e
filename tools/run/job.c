#include "job.h"

#include "fail.h"
#include "job_status.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STOP_LOOK_MS 20 /* between two looks at a process that is to end */

struct job {
    job_status status;
    char folder[FILE_PATH_MAX];
    lease *lease;
};

static void host_name(char out[LEASE_HOST_MAX])
{
    if (gethostname(out, LEASE_HOST_MAX))
        out[0] = 0;
    out[LEASE_HOST_MAX - 1] = 0;
}

int job_open(job **out, const char *kind, const char *subject, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    job *const j = calloc(1, sizeof *j);

    FAIL_IF_NULL(j, err);
    TRY(job_status_folder(j->folder, kind, subject, err));
    TRY(job_status_folder_make(j->folder, err));
    TRY(path_join(path, j->folder, "lease", err));
    rc = lease_acquire(&j->lease, path, NULL, err);
    if (rc == CKPT_EBUSY && job_status_read(&j->status, j->folder, NULL) == 0) {
        error_clear(err);
        rc =
            error_set(err, CKPT_EBUSY, "a %s of %s is at work already, process %" PRIu64, kind, subject, j->status.pid);
    }
    TRY(rc);
    snprintf(j->status.kind, sizeof j->status.kind, "%s", kind);
    snprintf(j->status.subject, sizeof j->status.subject, "%s", subject);
    if (!getcwd(j->status.folder, sizeof j->status.folder))
        j->status.folder[0] = 0;
    host_name(j->status.host);
    j->status.state = JOB_RUNNING;
    j->status.pid = (uint64_t)getpid();
    j->status.pid_start = process_start(j->status.pid);
    j->status.since = (int64_t)time(NULL);
    TRY(job_publish(j, err));
    *out = j;
out:
    if (rc && j) {
        lease_release(j->lease);
        free(j);
    }
    return rc;
}

void job_close(job *j, int rc, const ckpt_error *err)
{
    if (!j)
        return;
    j->status.state = rc ? JOB_FAILED : JOB_ENDED;
    j->status.next_round = 0;
    if (rc)
        job_failure(j, err && err->message[0] ? err->message : ckpt_error_name(rc));
    if (lease_check(j->lease, NULL) == 0)
        (void)job_publish(j, NULL); /* a disk that is full by now: its process is gone, which tells the same */
    lease_release(j->lease);
    free(j);
}

job_status *job_of(job *j)
{
    return &j->status;
}

const char *job_folder(const job *j)
{
    return j->folder;
}

int job_publish(job *j, ckpt_error *err)
{
    return job_status_write(&j->status, j->folder, err);
}

int job_check(job *j, ckpt_error *err)
{
    return lease_check(j->lease, err);
}

void job_count(job *j, const char *name, uint64_t more)
{
    job_status *const s = &j->status;
    size_t i = 0;

    while (i < s->counter_count && strcmp(s->counters[i].name, name) != 0)
        i++;
    if (i == JOB_COUNTERS_MAX)
        return;
    if (i == s->counter_count)
        snprintf(s->counters[s->counter_count++].name, JOB_WORD_SIZE, "%s", name);
    s->counters[i].value += more;
}

uint64_t job_counter_of(const job_status *status, const char *name)
{
    for (size_t i = 0; i < status->counter_count; i++)
        if (strcmp(status->counters[i].name, name) == 0)
            return status->counters[i].value;
    return 0;
}

void job_failure(job *j, const char *message)
{
    snprintf(j->status.last_error, sizeof j->status.last_error, "%s", message);
    j->status.last_error_time = (int64_t)time(NULL);
}

/* ---- Log ---- */

int job_log_path(char out[FILE_PATH_MAX], const char *kind, const char *subject, ckpt_error *err)
{
    int rc = 0;
    char folder[FILE_PATH_MAX];

    TRY(job_status_folder(folder, kind, subject, err));
    TRY(path_join(out, folder, "log", err));
out:
    return rc;
}

/* The file stays the same one, as standard output is open on it: its text is copied away, then it is emptied. */
int job_log_trim(const job *j, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], older[FILE_PATH_MAX], *text = NULL;
    struct stat st;

    TRY(path_join(path, j->folder, "log", err));
    if (stat(path, &st) || st.st_size <= (off_t)JOB_LOG_BYTES_MAX)
        goto out;
    TRY(path_join(older, j->folder, "log.1", err));
    const size_t keep = JOB_LOG_BYTES_MAX;
    int fd = -1;
    text = malloc(keep);
    FAIL_IF_NULL(text, err);
    TRY(file_open(&fd, NULL, path, err));
    rc = file_read_at(text, fd, (uint64_t)st.st_size - keep, keep, path, err);
    file_close(&fd);
    TRY(rc);
    TRY(file_replace(older, j->folder, text, keep, err));
    if (truncate(path, 0))
        rc = error_errno(err, errno, "%s", path);
out:
    free(text);
    return rc;
}

/* ---- Others look at it ---- */

static bool is_here(const job_status *status)
{
    char host[LEASE_HOST_MAX];

    host_name(host);
    return !status->host[0] || strcmp(host, status->host) == 0;
}

static bool is_alive(const job_status *status)
{
    return status->pid && status->pid_start && process_start(status->pid) == status->pid_start;
}

int job_read(job_status *out, const char *kind, const char *subject, ckpt_error *err)
{
    int rc = 0;
    char folder[FILE_PATH_MAX];

    TRY(job_status_folder(folder, kind, subject, err));
    rc = job_status_read(out, folder, err);
    if (rc == CKPT_ENOTFOUND) {
        error_clear(err);
        rc = error_set(err, CKPT_ENOTFOUND, "no %s has run on %s", kind, subject);
    }
    TRY(rc);
    if (out->state == JOB_RUNNING && is_here(out) && !is_alive(out))
        out->state = JOB_KILLED;
out:
    return rc;
}

int job_stop(const char *kind, const char *subject, uint32_t wait_ms, ckpt_error *err)
{
    int rc = 0;
    job_status status;
    const struct timespec look = {.tv_nsec = STOP_LOOK_MS * 1000000L};

    TRY(job_read(&status, kind, subject, err));
    FAIL_IF(status.state != JOB_RUNNING, err, CKPT_ENOTFOUND, "no %s runs on %s", kind, subject);
    FAIL_IF(!is_here(&status), err, CKPT_EBUSY, "the %s of %s runs on %s, process %" PRIu64 "; stop it there", kind,
            subject, status.host, status.pid);
    if (kill((pid_t)status.pid, SIGTERM) && errno != ESRCH) {
        rc = error_errno(err, errno, "stop process %" PRIu64, status.pid);
        goto out;
    }
    for (uint64_t waited = 0; is_alive(&status) && waited < wait_ms; waited += STOP_LOOK_MS)
        nanosleep(&look, NULL);
    FAIL_IF(is_alive(&status), err, CKPT_EBUSY, "the %s of %s, process %" PRIu64 ", has not ended yet", kind, subject,
            status.pid);
out:
    return rc;
}
