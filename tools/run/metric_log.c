#include "metric_log.h"

#include "clock.h"
#include "fail.h"
#include "file.h"
#include "metric_history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE (64u << 10)

typedef struct followed {
    char *path;
    int fd; /* -1: not open */
    uint64_t offset;
    bool skipping;               /* in a line that is too long, or that began before what is read */
    size_t columns[METRICS_MAX]; /* of CSV; SIZE_MAX: none */
    size_t used;
    char line[METRIC_LINE_MAX + 1]; /* so far */
} followed;

struct metric_log {
    metric metrics[METRICS_MAX];
    size_t metric_count;
    followed *logs[METRIC_LOGS_MAX];
    size_t log_count;
    char *buffer;
    uint64_t hurry_ms;
};

int metric_log_new(metric_log **out, const char *const *metrics, size_t metric_count, const char *const *logs,
                   size_t log_count, ckpt_error *err)
{
    int rc = 0;
    metric_log *const m = calloc(1, sizeof *m);

    FAIL_IF_NULL(m, err);
    FAIL_IF(metric_count > METRICS_MAX, err, CKPT_EUSAGE, "more than %d metrics", METRICS_MAX);
    FAIL_IF(log_count > METRIC_LOGS_MAX, err, CKPT_EUSAGE, "more than %d logs", METRIC_LOGS_MAX);
    m->buffer = malloc(READ_SIZE);
    FAIL_IF_NULL(m->buffer, err);
    for (; m->metric_count < metric_count; m->metric_count++)
        TRY(metric_line_parse(&m->metrics[m->metric_count], metrics[m->metric_count], err));
    for (size_t i = 0; i < log_count; i++) {
        followed *const log = calloc(1, sizeof *log);
        FAIL_IF_NULL(log, err);
        m->logs[m->log_count++] = log;
        log->fd = -1;
        log->path = strdup(logs[i]);
        FAIL_IF_NULL(log->path, err);
    }
    *out = m;
out:
    if (rc)
        metric_log_free(m);
    return rc;
}

void metric_log_free(metric_log *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < METRICS_MAX; i++)
        metric_line_clear(&m->metrics[i]);
    for (size_t i = 0; i < m->log_count; i++) {
        file_close(&m->logs[i]->fd);
        free(m->logs[i]->path);
        free(m->logs[i]);
    }
    free(m->buffer);
    free(m);
}

/* ---- Lines ---- */

/* A line that names a column: the first of a file, or a later one, as a program that was started again repeats it. */
static bool header_take(metric_log *m, followed *log)
{
    bool found = false;

    for (size_t i = 0; i < m->metric_count; i++) {
        const size_t column = m->metrics[i].plain ? metric_line_column(log->line, m->metrics[i].key) : SIZE_MAX;
        if (column == SIZE_MAX)
            continue;
        log->columns[i] = column;
        found = true;
    }
    return found;
}

static void line_take(metric_log *m, followed *log)
{
    log->line[log->used] = 0;
    log->used = 0;
    if (header_take(m, log))
        return;
    for (size_t i = 0; i < m->metric_count; i++)
        metric_line_take(&m->metrics[i], log->line, log->columns[i]);
}

static void bytes_take(metric_log *m, followed *log, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const char c = bytes[i];
        if (c == '\n' || c == '\r') { /* progress bars end their lines with the second */
            if (!log->skipping && log->used)
                line_take(m, log);
            log->skipping = false;
            log->used = 0;
        } else if (log->used == METRIC_LINE_MAX) {
            log->skipping = true;
        } else if (!log->skipping) {
            log->line[log->used++] = c ? c : '?';
        }
    }
}

/* ---- Files ---- */

static int read_some(ssize_t *size, metric_log *m, const followed *log, uint64_t offset)
{
    do
        *size = pread(log->fd, m->buffer, READ_SIZE, (off_t)offset);
    while (*size < 0 && errno == EINTR);
    return *size > 0;
}

static void leave_but(followed *log, uint64_t end, uint64_t size)
{
    if (log->offset + size >= end)
        return;
    log->offset = end - size;
    log->used = 0;
    log->skipping = true;
}

/* What has come until now, and no more: whoever writes faster than this reads would never let it end. Of very much only
 * the end is read. */
static void read_until(metric_log *m, followed *log, uint64_t end)
{
    ssize_t size;

    leave_but(log, end, METRIC_LOG_TAIL_MAX);
    while (log->offset < end && read_some(&size, m, log, log->offset)) {
        bytes_take(m, log, m->buffer, (size_t)size);
        log->offset += (uint64_t)size;
        if (clock_ms() >= m->hurry_ms) /* an expression such as .*x looks at each line once from each of its places */
            leave_but(log, end, READ_SIZE);
    }
}

/* From the beginning, or of a long log its first line, which may be a header, and its end. */
static void begin(metric_log *m, followed *log, uint64_t size)
{
    ssize_t got;

    log->offset = 0;
    log->used = 0;
    log->skipping = false;
    for (size_t i = 0; i < METRICS_MAX; i++)
        log->columns[i] = SIZE_MAX;
    if (size > METRIC_LOG_TAIL_MAX && read_some(&got, m, log, 0)) {
        const char *const end = memchr(m->buffer, '\n', (size_t)got);
        if (end)
            bytes_take(m, log, m->buffer, (size_t)(end + 1 - m->buffer));
    }
}

static int log_open(metric_log *m, followed *log, ckpt_error *err)
{
    uint64_t size = 0;
    ckpt_error own = {0};
    const int rc = file_open(&log->fd, &size, log->path, &own);

    if (rc == CKPT_ENOTFOUND)
        return 0;
    if (rc) {
        log->fd = -1;
        if (err)
            *err = own;
        return rc;
    }
    begin(m, log, size);
    read_until(m, log, size);
    return 0;
}

static int log_read(metric_log *m, followed *log, ckpt_error *err)
{
    int rc = 0;
    struct stat open, named;
    /* Before the size: what is rotated away has all that will come, or nearly so. */
    const bool there = stat(log->path, &named) == 0;

    if (log->fd >= 0 && fstat(log->fd, &open))
        file_close(&log->fd); /* as on a network file system that was away */
    if (log->fd >= 0) {
        const uint64_t size = (uint64_t)open.st_size;
        if (size < log->offset)
            begin(m, log, size);
        read_until(m, log, size);
        if (there && (named.st_ino != open.st_ino || named.st_dev != open.st_dev))
            file_close(&log->fd); /* rotated: the rest of the old one was read just now */
    }
    if (log->fd < 0)
        TRY(log_open(m, log, err));
out:
    return rc;
}

int metric_log_read(metric_log *m, ckpt_error *err)
{
    int rc = 0;

    m->hurry_ms = clock_ms() + METRIC_READ_MS;
    for (size_t i = 0; i < m->log_count; i++)
        TRY(log_read(m, m->logs[i], err));
out:
    return rc;
}

void metric_log_history(metric_log *m, const char *folder)
{
    metric_history_take(m->metrics, m->metric_count, folder);
}

size_t metric_log_count(const metric_log *m)
{
    return m->metric_count;
}

const char *metric_log_key(const metric_log *m, size_t i)
{
    return m->metrics[i].key;
}

const char *metric_log_value(const metric_log *m, size_t i)
{
    return m->metrics[i].value[0] ? m->metrics[i].value : NULL;
}
