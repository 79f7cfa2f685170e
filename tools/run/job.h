/* Job: work that goes on for long, by itself, while nobody looks on.
 *
 * Whatever such a job does, it is one kind of thing: it has a lease, so that there is one of a kind for each subject (a
 * store, a path); a log, for what it says when no terminal is there; and a status file, from which any later session
 * learns how it goes.
 *
 *   $XDG_STATE_HOME/ckpt/jobs/KIND-<16 digits>/     or ~/.local/state/ckpt/jobs/...; the digits tell subjects apart
 *     lease          base/lease.h
 *     status.json    job_status, replaced as a whole at each change
 *     log  log.1     the older part is log.1; each at most JOB_LOG_BYTES_MAX and a line
 *     ...            what its kind keeps there
 *
 *     job *j = NULL;
 *     TRY(job_open(&j, "watch", store_path, err));      CKPT_EBUSY: one is at work
 *     job_of(j)->next_round = ...;
 *     TRY(job_publish(j, err));
 * out:
 *     job_close(j, rc, err);
 *
 * The folder is on this machine and never in a store: it may be deleted when no job runs. */
#ifndef RUN_JOB_H
#define RUN_JOB_H

#include "file.h"
#include "lease.h"

#include <jansson.h>

#define JOB_KIND_SIZE        32
#define JOB_WORD_SIZE        32
#define JOB_ERROR_SIZE       640
#define JOB_COUNTERS_MAX     16
#define JOB_LOG_BYTES_MAX    (1u << 20)
#define JOB_STATUS_BYTES_MAX (64u << 10)

typedef enum job_state {
    JOB_RUNNING,
    JOB_ENDED,
    JOB_FAILED,
    JOB_KILLED /* only read, never written: its process is gone and has not said that it ended */
} job_state;
const char *job_state_name(job_state state);

typedef struct job_counter {
    char name[JOB_WORD_SIZE]; /* letters and `_`: "saved" */
    uint64_t value;
} job_counter;

/* All times in seconds since 1970, 0 for "never". */
typedef struct job_status {
    char kind[JOB_KIND_SIZE];
    char subject[FILE_PATH_MAX]; /* what it is about: a store, a path */
    char what[FILE_PATH_MAX];    /* what it was told, in words: its patterns */
    char folder[FILE_PATH_MAX];  /* the current folder of its process */
    job_state state;
    char host[LEASE_HOST_MAX];
    uint64_t pid, pid_start; /* see process.h; 0: not known */
    int64_t since, last_success, next_round;
    int64_t last_error_time;
    char last_error[JOB_ERROR_SIZE]; /* "" when there was none */
    job_counter counters[JOB_COUNTERS_MAX];
    size_t counter_count;
} job_status;

/* ---- The job itself ---- */

typedef struct job job;

/* Makes the folder, takes the lease and publishes that the job runs. CKPT_EBUSY says who runs already. */
int job_open(job **out, const char *kind, const char *subject, ckpt_error *err);
/* Publishes how the job ended, 0 or a code with its message, and lets go of the lease. NULL is fine. */
void job_close(job *j, int rc, const ckpt_error *err);

job_status *job_of(job *j);           /* to be changed, then published */
const char *job_folder(const job *j); /* for files of its kind */
int job_publish(job *j, ckpt_error *err);
/* Is the lease still ours? CKPT_EBUSY when this process was stopped for so long that another one began. */
int job_check(job *j, ckpt_error *err);

/* Adds to the counter of that name, which begins with the first call. */
void job_count(job *j, const char *name, uint64_t more);
/* Remembers a failure, which does not end the job. */
void job_failure(job *j, const char *message);
/* Once the log is full its text becomes log.1, and it begins anew. What prints into it must have been flushed. */
int job_log_trim(const job *j, ckpt_error *err);

/* ---- Others look at it ---- */

/* CKPT_ENOTFOUND: there has been none. `state` tells whether its process lives; that of another machine is believed. */
int job_read(job_status *out, const char *kind, const char *subject, ckpt_error *err);
uint64_t job_counter_of(const job_status *status, const char *name);
int job_log_path(char out[FILE_PATH_MAX], const char *kind, const char *subject, ckpt_error *err);
/* An object with all of it, raw seconds; NULL when memory is exhausted. */
json_t *job_status_json(const job_status *status);

/* Tells the job to stop (SIGTERM) and waits until its process is gone. CKPT_ENOTFOUND: none runs; CKPT_EBUSY: it did
 * not end in time, or runs on another machine. */
int job_stop(const char *kind, const char *subject, uint32_t wait_ms, ckpt_error *err);

/* ---- Leaving the terminal ---- */

typedef struct job_birth {
    int64_t pid; /* in the caller: of the new process; in that: 0 */
    int report;  /* where that process says how its start went; -1: said */
} job_birth;

/* Goes on in a new process with a session of its own, which neither a closed terminal nor a logout ends; its output
 * goes to the log of the job. In the new process this returns at once, and job_report has to be called when the job has
 * begun, or why not. In the caller it returns then: 0, or the error that was reported.
 * Before: no thread of this process may run, and its output must be flushed. */
int job_detach(job_birth *birth, const char *kind, const char *subject, ckpt_error *err);
/* Only the first call says something; none where `report` is -1. */
void job_report(job_birth *birth, int rc, const ckpt_error *err);

#endif
