#include "lease.h"

#include "clock.h"
#include "fail.h"
#include "file.h"
#include "file_lock.h"
#include "lease_record.h"
#include "thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS_MAX 100 /* between two looks at a file that another one holds */

struct lease {
    int fd;
    dev_t device; /* of the file behind fd */
    ino_t inode;
    uint32_t interval_ms, stale_ms;
    lease_record record;
    char path[FILE_PATH_MAX];

    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t mutex; /* for all below, and record */
    pthread_cond_t stop_cond;
    bool stop, lost;
    uint64_t advanced_ms; /* when the counter was last advanced, by the clock that does not stop in suspend */
};

static lease_options options_complete(const lease_options *options)
{
    lease_options full = options ? *options : (lease_options){0};
    if (!full.interval_ms)
        full.interval_ms = LEASE_INTERVAL_MS;
    if (!full.stale_ms)
        full.stale_ms = LEASE_STALE_MS;
    return full;
}

static void sleep_ms(uint64_t ms)
{
    const struct timespec span = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&span, NULL); /* shorter after a signal is fine: callers look again */
}

static void sleep_poll(const lease_options *options)
{
    const uint32_t ms = options->interval_ms / 4;
    sleep_ms(ms < 1 ? 1 : ms > POLL_MS_MAX ? POLL_MS_MAX : ms);
}

/* ---- looking at a lease of others ---- */

/* Does a file on which nobody has a lock belong to nobody? Then its holder used a lock, or was stopped before it could
 * write its record. */
static bool record_needs_lock(const lease_record *record)
{
    return record->by_lock || !record->token[0];
}

static int busy(ckpt_error *err, const char *path, const lease_record *record)
{
    const int rc = record->token[0] ? error_set(err, CKPT_EBUSY, "%s: held by process %" PRIu64 " on %s", path,
                                                record->pid, record->host[0] ? record->host : "an unknown host")
                                    : error_set(err, CKPT_EBUSY, "%s: held by another process", path);
    error_hint(err, "wait until it has ended");
    return rc;
}

/* One look. Not *sure: a file is there, and only watching its counter can tell whether its holder lives. */
static int lease_look(lease_status *status, bool *sure, lease_record *record, const char *path, bool use_locks,
                      ckpt_error *err)
{
    int rc = 0, fd = -1;

    *status = LEASE_FREE;
    *sure = true;
    rc = file_open(&fd, NULL, path, err);
    if (rc) {
        if (rc == CKPT_ENOTFOUND)
            rc = error_clear(err);
        goto out;
    }
    TRY(lease_record_read(record, fd, path, err));
    const file_lock_answer lock = use_locks ? file_lock_look(fd) : FILE_LOCK_UNSUPPORTED;
    *status = lock == FILE_LOCK_FREE && record_needs_lock(record) ? LEASE_STALE : LEASE_HELD;
    *sure = lock == FILE_LOCK_HELD || *status == LEASE_STALE;
out:
    file_close(&fd);
    return rc;
}

static lease_state state_of(lease_status status, const lease_record *record)
{
    lease_state state = {.status = status, .pid = record->pid};

    memcpy(state.host, record->host, sizeof state.host);
    return state;
}

typedef struct probe {
    bool decided;
    lease_watch watch;
} probe;

static int probe_step(lease_state *state, probe *p, const char *path, const lease_options *options, ckpt_error *err)
{
    int rc = 0;
    lease_record record = {0};
    bool sure;

    TRY(lease_look(&state->status, &sure, &record, path, !options->force_counter, err));
    *state = state_of(state->status, &record);
    if (!sure && lease_watch_stale(&p->watch, &record, options->stale_ms)) {
        state->status = LEASE_STALE;
        sure = true;
    }
    p->decided = sure || p->watch.changed;
out:
    return rc;
}

int lease_probe(lease_state *states, const char *const *paths, size_t count, const lease_options *options,
                ckpt_error *err)
{
    int rc = 0;
    const lease_options full = options_complete(options);
    probe *const probes = calloc(count ? count : 1, sizeof *probes);

    FAIL_IF_NULL(probes, err);
    for (size_t undecided = count; undecided > 0;) {
        const lease_state *doubtful = NULL;
        undecided = 0;
        for (size_t i = 0; i < count; i++) {
            if (!probes[i].decided)
                TRY(probe_step(&states[i], &probes[i], paths[i], &full, err));
            if (!probes[i].decided) {
                undecided++;
                doubtful = &states[i];
            }
        }
        if (!doubtful)
            break;
        if (full.waiting)
            TRY(full.waiting(full.payload, doubtful, err));
        sleep_poll(&full);
    }
out:
    free(probes);
    return rc;
}

/* ---- holding ---- */

/* Goes on in suspend, unlike the monotonic clock: others did not wait for us. */
static uint64_t now_awake_or_not_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

typedef enum ownership { OURS, LOST, UNKNOWN } ownership;

/* Is the file under our path the one that we have open? With the counter that cannot be asked: some FUSE number inodes
 * anew at each look. */
static ownership lease_file_ownership(const lease *l)
{
    struct stat st;

    if (stat(l->path, &st))
        return errno == ENOENT ? LOST : UNKNOWN;
    return !l->record.by_lock || (st.st_dev == l->device && st.st_ino == l->inode) ? OURS : LOST;
}

/* ... and does it name us? It is opened again, which is what makes NFS show the present bytes. */
static ownership lease_ownership(const lease *l)
{
    lease_status status;
    lease_record now = {0};
    bool sure;

    const ownership file = lease_file_ownership(l);
    if (file != OURS)
        return file;
    if (lease_look(&status, &sure, &now, l->path, false, NULL))
        return UNKNOWN;
    if (l->record.by_lock && now.size == 0)
        return OURS; /* the disk was full, see lease_write */
    return strcmp(now.token, l->record.token) == 0 ? OURS : LOST;
}

/* Writes the record; returns errno or 0. */
static int record_store(const lease *l)
{
    ssize_t n;
    do
        n = pwrite(l->fd, l->record.text, l->record.size, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno;
    if ((size_t)n != l->record.size)
        return ENOSPC;
    /* Other machines see what the server has. */
    return !l->record.by_lock && fsync(l->fd) && errno != EINVAL && errno != ENOTSUP ? errno : 0;
}

static void lease_advance(lease *l)
{
    const ownership owner = lease_ownership(l);
    if (owner == LOST)
        l->lost = true;
    if (owner != OURS)
        return;
    l->record.counter++;
    lease_record_format(&l->record);
    if (record_store(l) == 0)
        l->advanced_ms = now_awake_or_not_ms(); /* else again next time; lease_check sees how long it has been */
}

static void *lease_run(void *payload)
{
    lease *const l = payload;

    pthread_mutex_lock(&l->mutex);
    while (!l->stop && !l->lost) {
        const uint64_t next_ms = clock_ms() + l->interval_ms;
        const struct timespec next = {.tv_sec = (time_t)(next_ms / 1000), .tv_nsec = (long)(next_ms % 1000) * 1000000};
        while (!l->stop && pthread_cond_timedwait(&l->stop_cond, &l->mutex, &next) == 0)
            ;
        if (!l->stop)
            lease_advance(l);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static int lease_start(lease *l, ckpt_error *err)
{
    int rc = 0;

    TRY(thread_start(&l->thread, lease_run, l, err));
    l->thread_runs = true;
out:
    return rc;
}

/* ---- taking ---- */

static int open_retry(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* Opens the file, new or not; *fd is -1 when it vanished in between. */
static int open_or_create(int *fd, bool *created, const char *path, ckpt_error *err)
{
    int rc = 0;

    *fd = open_retry(path, O_CREAT | O_EXCL);
    *created = *fd >= 0;
    if (*fd < 0 && errno == EEXIST) {
        *fd = open_retry(path, 0);
        if (*fd < 0 && errno == ENOENT)
            goto out;
    }
    if (*fd < 0)
        rc = error_errno(err, errno, "open %s", path);
out:
    return rc;
}

/* What is known about the others while we try. */
typedef struct contest {
    bool alive; /* somebody has been seen alive */
    lease_record holder;
    lease_watch watch;
} contest;

/* One attempt to have the file for us, without writing to it. */
static int lease_try(bool *taken, lease *l, contest *c, const lease_options *options, ckpt_error *err)
{
    int rc = 0;
    bool created;
    struct stat st;

    *taken = false;
    TRY(open_or_create(&l->fd, &created, l->path, err));
    if (l->fd < 0)
        goto out;
    if (fstat(l->fd, &st)) {
        rc = error_errno(err, errno, "stat %s", l->path);
        goto out;
    }
    l->device = st.st_dev;
    l->inode = st.st_ino;
    if (!created)
        TRY(lease_record_read(&c->holder, l->fd, l->path, err));

    /* On any but a local file system the counter decides, which is right everywhere and only slower. */
    const file_lock_answer lock = options->force_counter ? FILE_LOCK_UNSUPPORTED : file_lock_take(l->fd);
    l->record.by_lock = lock == FILE_LOCK_FREE;
    if (lock == FILE_LOCK_HELD) {
        c->alive = true;
        goto out;
    }
    /* Its holder may have removed it between our open and our lock, which is then on a file without a name. */
    const ownership file = lease_file_ownership(l);
    FAIL_IF(file == UNKNOWN, err, CKPT_EIO, "%s: cannot be looked at", l->path);
    if (file == LOST)
        goto out;
    if (!created && !(l->record.by_lock && record_needs_lock(&c->holder))) {
        if (lease_watch_stale(&c->watch, &c->holder, options->stale_ms))
            TRY(lease_record_break(l->path, &c->watch.seen, err));
        c->alive = c->alive || c->watch.changed;
        goto out;
    }
    *taken = true;
out:
    if (!*taken)
        file_close(&l->fd);
    return rc;
}

/* Empties the file; returns errno or 0. */
static int record_clear(const lease *l)
{
    int failed;
    do
        failed = ftruncate(l->fd, 0) ? errno : 0;
    while (failed == EINTR);
    return failed;
}

/* Puts our record into the file that we took. *taken becomes false when others took it from us meanwhile. */
static int lease_write(bool *taken, lease *l, ckpt_error *err)
{
    int rc = 0;

    TRY(lease_record_new(&l->record, l->record.by_lock, l->stale_ms, err));
    int failed = record_clear(l);
    if (!failed)
        failed = record_store(l);
    /* On a full disk the lock alone does, or prune could not make room. */
    if ((failed == ENOSPC || failed == EDQUOT) && l->record.by_lock)
        failed = record_clear(l);
    if (failed) {
        rc = error_errno(err, failed, "write %s", l->path);
        (void)unlink(l->path); /* nobody else can have judged it dead so soon */
        goto out;
    }
    l->advanced_ms = now_awake_or_not_ms();
    const ownership now = lease_ownership(l);
    FAIL_IF(now == UNKNOWN, err, CKPT_EIO, "%s: cannot be read back", l->path);
    *taken = now == OURS;
out:
    if (rc || !*taken)
        file_close(&l->fd);
    return rc;
}

static int lease_contend(lease *l, const lease_options *options, ckpt_error *err)
{
    int rc = 0;
    bool taken = false;
    const uint64_t start_ms = clock_ms();
    contest *const c = calloc(1, sizeof *c);

    FAIL_IF_NULL(c, err);
    for (;;) {
        TRY(lease_try(&taken, l, c, options, err));
        if (taken)
            TRY(lease_write(&taken, l, err));
        if (taken)
            break;
        if (c->alive && clock_ms() - start_ms >= options->wait_ms) {
            rc = busy(err, l->path, &c->holder);
            goto out;
        }
        if (options->waiting) {
            const lease_state holder = state_of(LEASE_HELD, &c->holder);
            TRY(options->waiting(options->payload, &holder, err));
        }
        sleep_poll(options);
    }
out:
    free(c);
    return rc;
}

static int lease_new(lease **out, const char *path, const lease_options *options, ckpt_error *err)
{
    int rc = 0;
    pthread_condattr_t attributes;

    lease *const l = calloc(1, sizeof *l);
    FAIL_IF_NULL(l, err);
    l->fd = -1;
    l->interval_ms = options->interval_ms;
    l->stale_ms = options->stale_ms;
    pthread_mutex_init(&l->mutex, NULL); /* none of these can fail on Linux */
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&l->stop_cond, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = l;
    TRY(path_join(l->path, "", path, err));
out:
    return rc;
}

int lease_acquire(lease **out, const char *path, const lease_options *options, ckpt_error *err)
{
    int rc = 0;
    lease *l = NULL;
    const lease_options full = options_complete(options);

    TRY(lease_new(&l, path, &full, err));
    TRY(lease_contend(l, &full, err));
    TRY(lease_start(l, err));
    *out = l;
    l = NULL;
out:
    lease_release(l);
    return rc;
}

int lease_check(lease *l, ckpt_error *err)
{
    pthread_mutex_lock(&l->mutex);
    if (!l->lost)
        l->lost = lease_ownership(l) == LOST ||
                  (!l->record.by_lock && now_awake_or_not_ms() - l->advanced_ms > l->stale_ms / 2);
    const bool lost = l->lost;
    pthread_mutex_unlock(&l->mutex);
    return lost ? error_set(err, CKPT_EBUSY, "%s: lost to another process, or out of reach for too long", l->path) : 0;
}

void lease_release(lease *l)
{
    if (!l)
        return;
    if (l->thread_runs) {
        pthread_mutex_lock(&l->mutex);
        l->stop = true;
        pthread_cond_signal(&l->stop_cond);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->thread, NULL);
    }
    if (l->fd >= 0 && lease_ownership(l) == OURS)
        (void)unlink(l->path); /* before the lock goes, so that nobody locks what we remove */
    file_close(&l->fd);
    pthread_cond_destroy(&l->stop_cond);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}
