#include "segment.h"

#include "fail.h"
#include "file_lock.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define TMP_AGE_UNLOCKED_S 60                 /* a writer takes its lock at once */
#define TMP_AGE_MAX_S      (7 * 24 * 60 * 60) /* a process of that number is another one by now */

typedef struct sweep {
    const char *dir;
    int64_t now;
    bool alone, dry_run;
    uint64_t bytes;
} sweep;

static bool is_leftover(const sweep *s, const char *path, pid_t owner, int64_t age)
{
    int fd = -1;
    file_lock_answer lock = FILE_LOCK_UNSUPPORTED;

    if (file_open(&fd, NULL, path, NULL) == 0)
        lock = file_lock_look(fd);
    file_close(&fd);
    if (lock == FILE_LOCK_HELD)
        return false;
    if (lock == FILE_LOCK_FREE && age >= TMP_AGE_UNLOCKED_S)
        return true;
    /* Neither the number of a process nor the time of a file says anything about writers on other machines, whose
     * clocks may be a day off. */
    const bool gone = kill(owner, 0) && errno == ESRCH;
    return s->alone && (gone || age > TMP_AGE_MAX_S);
}

static int tmp_visit(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    sweep *const s = payload;
    const pid_t owner = file_tmp_owner(name);
    char path[FILE_PATH_MAX];
    struct stat st;

    if (owner <= 0)
        goto out;
    TRY(path_join(path, s->dir, name, err));
    if (lstat(path, &st))
        goto out; /* its owner has just finished with it */
    if (is_leftover(s, path, owner, s->now - st.st_mtime)) {
        s->bytes += (uint64_t)st.st_size;
        if (!s->dry_run)
            TRY(file_remove(path, err));
    }
out:
    return rc;
}

int sweep_tmp(uint64_t *bytes, const ckpt_store *store, bool alone, bool dry_run, ckpt_error *err)
{
    int rc = 0;
    sweep s = {.dir = store->tmp_dir, .now = time(NULL), .alone = alone, .dry_run = dry_run};

    rc = dir_each(store->tmp_dir, tmp_visit, &s, err);
    if (rc == CKPT_ENOTFOUND) /* a copy of a store may have lost its empty folders */
        rc = 0;
    if (bytes)
        *bytes = s.bytes;
    return rc;
}

static int restored_visit(void *payload, const char *name, ckpt_error *err)
{
    const sweep *const s = payload;
    const pid_t owner = file_tmp_owner(name);
    char path[FILE_PATH_MAX];
    int fd = -1;

    (void)err;
    if (owner <= 0 || path_join(path, s->dir, name, NULL) || file_open(&fd, NULL, path, NULL))
        return 0;
    /* Both must say that it is left over: a restore that waits for its commit has closed its files. */
    const bool left = file_lock_look(fd) == FILE_LOCK_FREE && kill(owner, 0) && errno == ESRCH;
    file_close(&fd);
    if (left)
        (void)unlink(path);
    return 0;
}

void sweep_restored(const char *dir)
{
    sweep s = {.dir = dir};

    (void)dir_each(dir, restored_visit, &s, NULL);
}

static int cache_visit(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    const sweep *const s = payload;
    char path[FILE_PATH_MAX];

    TRY(path_join(path, s->dir, name, err));
    (void)unlink(path); /* no fsync: it may come back after a crash */
out:
    return rc;
}

int sweep_cache(const ckpt_store *store, ckpt_error *err)
{
    sweep s = {.dir = store->cache_dir};
    const int rc = dir_each(s.dir, cache_visit, &s, err);

    return rc == CKPT_ENOTFOUND ? 0 : rc;
}

typedef struct segment_sweep {
    const ckpt_store *store;
    bool dry_run;
    uint64_t count, bytes;
} segment_sweep;

/* Is one of the packs there that a segment tells of? */
static int segment_lives(bool *lives, const segment *s, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    sha256 name;
    char path[FILE_PATH_MAX];
    struct stat st;

    *lives = false;
    for (uint32_t i = 0; i < s->pack_count && !*lives; i++) {
        segment_pack(&name, s, i);
        TRY(pack_path(path, store->packs_dir, &name, err));
        *lives = stat(path, &st) == 0 || errno != ENOENT;
    }
out:
    return rc;
}

static int segment_visit(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    segment_sweep *const w = payload;
    segment s = {.fd = -1};
    char path[FILE_PATH_MAX];
    bool lives;

    if (segment_open(&s, w->store->cache_dir, name, NULL))
        goto out; /* no segment, or a damaged one, which the next save removes */
    TRY(segment_lives(&lives, &s, w->store, err));
    if (lives)
        goto out;
    w->count++;
    w->bytes += s.size;
    TRY(path_join(path, w->store->cache_dir, name, err));
    if (!w->dry_run)
        (void)unlink(path); /* no fsync: it may come back after a crash */
out:
    segment_close(&s);
    return rc;
}

int sweep_segments(uint64_t *count, uint64_t *bytes, const ckpt_store *store, bool dry_run, ckpt_error *err)
{
    segment_sweep w = {.store = store, .dry_run = dry_run};
    const int rc = dir_each(store->cache_dir, segment_visit, &w, err);

    *count = w.count;
    *bytes = w.bytes;
    return rc == CKPT_ENOTFOUND ? error_clear(err) : rc;
}
