#define _GNU_SOURCE /* memrchr */
#include "runlog.h"

#include "clock.h"
#include "fail.h"
#include "file.h"
#include "host.h"
#include "json_out.h"
#include "lease.h"
#include "units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RUNLOG_FOLDER    "runs"
#define RUNLOG_TAIL_SIZE (64u << 10) /* bytes at the end that are looked through for the last line */
#define RUNLOG_NAME_MAX  200

struct runlog {
    lease *lease;
    int fd;    /* -1: it could not be opened */
    bool torn; /* the last line has no end */
    double begin, seconds_before;
    bool failed;
    ckpt_error failure;
    char path[FILE_PATH_MAX];
};

/* ---- What earlier trainings left ---- */

/* The member "seconds" of a line, if it is a whole one. */
static bool line_seconds(double *out, const char *line, size_t size)
{
    json_t *const object = json_loadb(line, size, 0, NULL);
    const json_t *const seconds = json_object_get(object, "seconds");
    const bool found = json_is_number(seconds);

    if (found)
        *out = json_number_value(seconds);
    json_decref(object);
    return found;
}

/* Looks through the end of the file for the last line that tells seconds. */
static void tail_look(runlog *l, const char *tail, size_t size)
{
    l->torn = size > 0 && tail[size - 1] != '\n';
    while (size > 0) {
        const char *const before = size > 1 ? memrchr(tail, '\n', size - 1) : NULL;
        const size_t begin = before ? (size_t)(before - tail) + 1 : 0;
        if (line_seconds(&l->seconds_before, tail + begin, size - begin))
            return;
        size = begin;
    }
}

static int tail_read(runlog *l, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    char *tail = NULL;

    TRY(file_open(&fd, &size, l->path, err));
    const size_t tail_size = size < RUNLOG_TAIL_SIZE ? (size_t)size : RUNLOG_TAIL_SIZE;
    tail = malloc(tail_size + 1);
    FAIL_IF_NULL(tail, err);
    TRY(file_read_at(tail, fd, size - tail_size, tail_size, l->path, err));
    tail_look(l, tail, tail_size);
out:
    free(tail);
    file_close(&fd);
    return rc;
}

/* Keeps the first failure. */
static void failure_keep(runlog *l, int rc, const ckpt_error *err)
{
    if (rc && !l->failed) {
        l->failed = true;
        l->failure = *err;
    }
}

static int log_open(runlog *l, ckpt_error *err)
{
    int rc = 0;

    l->fd = open(l->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (l->fd < 0)
        TRY(error_errno(err, errno, "log of the run %s", l->path));
    TRY(tail_read(l, err));
out:
    return rc;
}

int runlog_open(runlog **out, const char *store_path, const char *run, ckpt_error *err)
{
    int rc = 0;
    char folder[FILE_PATH_MAX], path[FILE_PATH_MAX], name[RUNLOG_NAME_MAX + sizeof ".jsonl"];
    ckpt_error why = {0};
    runlog *l = calloc(1, sizeof *l);

    FAIL_IF_NULL(l, err);
    l->fd = -1;
    FAIL_IF(!*run || *run == '.' || strchr(run, '/') || strlen(run) > RUNLOG_NAME_MAX, err, CKPT_EUSAGE,
            "`%.64s` cannot be the name of a run", run);
    TRY(path_join(folder, store_path, RUNLOG_FOLDER, err));
    TRY(dir_make(folder, err));
    snprintf(name, sizeof name, "%s.lease", run);
    TRY(path_join(path, folder, name, err));
    rc = lease_acquire(&l->lease, path, NULL, err);
    if (rc)
        error_prefix(err, "run %s", run);
    TRY(rc);
    snprintf(name, sizeof name, "%s.jsonl", run);
    TRY(path_join(l->path, folder, name, err));
    failure_keep(l, log_open(l, &why), &why);
    l->begin = clock_seconds();
    *out = l;
    l = NULL;
out:
    runlog_close(l);
    return rc;
}

/* ---- Lines ---- */

/* Only what the event has: zeros of others would look like measurements. */
static int event_numbers(json_t *line, const ckpt_training_event *e, ckpt_error *err)
{
    int rc = 0;
    const bool epoch = e->kind == CKPT_TRAINING_EPOCH;

    if (e->kind == CKPT_TRAINING_STEPS || epoch) {
        TRY(json_out_set(line, "loss", json_out_real(e->loss), err));
        TRY(json_out_set(line, "accuracy", json_out_real(e->accuracy), err));
        TRY(json_out_set(line, "images_per_s", json_out_real(e->images_per_s), err));
    }
    if (epoch) {
        TRY(json_out_set(line, "val_loss", json_out_real(e->val_loss), err));
        TRY(json_out_set(line, "val_accuracy", json_out_real(e->val_accuracy), err));
        TRY(json_out_set(line, "best", json_boolean(e->best), err));
    }
    if (e->kind == CKPT_TRAINING_FINISHED) {
        TRY(json_out_set(line, "test_loss", json_out_real(e->test_loss), err));
        TRY(json_out_set(line, "test_accuracy", json_out_real(e->test_accuracy), err));
    }
out:
    return rc;
}

static int event_line(json_t *line, const runlog *l, const ckpt_training_event *e, ckpt_error *err)
{
    static const char *const NAMES[] = {
        [CKPT_TRAINING_BATCH] = "batch",      [CKPT_TRAINING_STEPS] = "steps", [CKPT_TRAINING_EPOCH] = "epoch",
        [CKPT_TRAINING_STARTED] = "started",  [CKPT_TRAINING_NOTE] = "note",   [CKPT_TRAINING_WARNING] = "warning",
        [CKPT_TRAINING_FINISHED] = "finished"};
    int rc = 0;
    char text[UNITS_TEXT_SIZE], host[HOST_TEXT_SIZE];

    format_time_iso(text, (int64_t)time(NULL));
    TRY(json_out_set(line, "time", json_string(text), err));
    TRY(json_out_set(line, "event", json_string(NAMES[e->kind]), err));
    TRY(json_out_set(line, "epoch", json_out_count(e->epoch), err));
    TRY(json_out_set(line, "step", json_out_count(e->step), err));
    TRY(event_numbers(line, e, err));
    TRY(json_out_set(line, "seconds", json_out_real(l->seconds_before + clock_seconds() - l->begin), err));
    if (e->kind == CKPT_TRAINING_STARTED) {
        host_name(host);
        TRY(json_out_set(line, "host", json_out_text(host, strlen(host)), err));
        TRY(json_out_set(line, "pid", json_out_count((uint64_t)getpid()), err));
    }
    if (e->text)
        TRY(json_out_set(line, "text", json_out_text(e->text, strlen(e->text)), err));
out:
    return rc;
}

/* With one call, so that a kill leaves a whole line or the beginning of one. */
static int line_append(runlog *l, const json_t *line, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;
    size_t size = 0;
    FILE *const memory = open_memstream(&text, &size);

    FAIL_IF_NULL(memory, err);
    if (l->torn)
        fputc('\n', memory);
    rc = json_out_line(memory, line, err);
    if (fclose(memory) && !rc)
        rc = error_memory(err);
    TRY(rc);
    const off_t end = lseek(l->fd, 0, SEEK_END);
    rc = file_write(l->fd, text, size, l->path, err);
    l->torn = rc && (l->torn || lseek(l->fd, 0, SEEK_END) != end);
out:
    free(text);
    return rc;
}

void runlog_event(runlog *l, const ckpt_training_event *event)
{
    int rc = 0;
    ckpt_error why = {0};
    json_t *line = NULL;

    if (event->kind == CKPT_TRAINING_BATCH || l->fd < 0)
        return;
    line = json_object();
    FAIL_IF_NULL(line, &why);
    TRY(event_line(line, l, event, &why));
    TRY(line_append(l, line, &why));
out:
    failure_keep(l, rc, &why);
    json_decref(line);
}

const char *runlog_failure(const runlog *l)
{
    return l->failed ? l->failure.message : NULL;
}

double runlog_seconds_before(const runlog *l)
{
    return l->seconds_before;
}

void runlog_close(runlog *l)
{
    if (!l)
        return;
    if (l->fd >= 0)
        (void)close(l->fd);
    lease_release(l->lease);
    free(l);
}
