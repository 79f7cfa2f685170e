/* Crash shim: a library for LD_PRELOAD that counts the calls with which a program changes files, also those of the
 * libraries it uses, and stops it at the N-th, or lets that one fail.
 *
 *   CKPT_SHIM_ROOT     only calls on paths below this folder count (absolute, without links)
 *   CKPT_SHIM_AT       N, from 1; without it nothing is stopped
 *   CKPT_SHIM_MODE     kill             SIGKILL before the call
 *                      fail:NAME        the call fails with ENOSPC, EIO or EINTR
 *                      fail-from:NAME   it and all later ones do
 *                      short            counts writes only: this one takes half of its bytes, and says so
 *                      drop, torn       power cut before the call, or, without N, when the program ends
 *                      trace            nothing is stopped, and each call is told in CKPT_SHIM_HIT
 *   CKPT_SHIM_HIT      this file is made, with the name of the call and its path, when the N-th call was reached
 *   CKPT_SHIM_NO_SYNC  set: what is synced only counts as such, so that thousands of trials do not wait for a disk
 *   CKPT_SHIM_SCRATCH  for drop and torn: an empty folder on the same file system, outside of the root
 *
 * Counted are open, openat and creat for writing, write, pwrite, writev, fsync, fdatasync, sync_file_range, ftruncate,
 * fallocate, rename, link, symlink, unlink, remove, mkdir, rmdir, chmod, fchmod, their *at and 64-bit forms, and close
 * of what was open for writing. Not seen are stdio, mmap, and calls that glibc makes within itself.
 *
 * How true is the power cut? It is the worst that POSIX allows and that one machine can show:
 *
 * - What was written since the last fsync of a file is gone: the file is cut to the size it had then. With `torn` it
 *   keeps its size, and of each two blocks of 512 unsynced bytes the first is zeros.
 * - Names that appeared, went or were replaced in a folder without an fsync of that folder since are as they were, as
 *   whole and in the order of time. The two sides of a rename between folders are two changes, so a file may be found
 *   under both names, or under none. fsync of a file does not make its name durable.
 * - Not undone: bytes overwritten or cut below the size last synced, and modes. Other processes keep what they did.
 * What existed when the program began counts as durable. Between nothing and everything unsynced lost there are other
 * outcomes; these two extremes and `torn` stand for them.
 *
 * Works with programs that were built without sanitizers, which wrap the same calls. */
#undef _FILE_OFFSET_BITS /* else `open` is compiled as open64, and so on */
#undef _FORTIFY_SOURCE   /* else the headers define some of these */
#define _GNU_SOURCE
#include "undo_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

typedef enum shim_mode { MODE_OFF, MODE_TRACE, MODE_KILL, MODE_FAIL, MODE_SHORT, MODE_DROP, MODE_TORN } shim_mode;
typedef enum verdict { PASS, FAILS, SHORTENED } verdict;

static struct {
    pthread_mutex_t lock;
    shim_mode mode;
    bool from; /* all from the N-th on */
    bool no_sync;
    int failure;
    unsigned long at, count;
    const char *root, *hit;
    size_t root_size;
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int failure_of(const char *name)
{
    static const struct {
        const char *name;
        int value;
    } NAMES[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EINTR", EINTR}};

    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strcmp(NAMES[i].name, name) == 0)
            return NAMES[i].value;
    dprintf(STDERR_FILENO, "crash shim: no failure %s\n", name);
    abort();
}

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

__attribute__((constructor)) static void shim_start(void)
{
    const char *const mode = getenv("CKPT_SHIM_MODE"), *const at = getenv("CKPT_SHIM_AT");
    const char *const scratch = getenv("CKPT_SHIM_SCRATCH");

    shim.root = getenv("CKPT_SHIM_ROOT");
    shim.hit = getenv("CKPT_SHIM_HIT");
    shim.no_sync = getenv("CKPT_SHIM_NO_SYNC") != NULL;
    if (!mode || !shim.root)
        return;
    shim.root_size = strlen(shim.root);
    shim.at = at ? strtoul(at, NULL, 10) : 0;
    if (strcmp(mode, "trace") == 0)
        shim.mode = MODE_TRACE;
    else if (strcmp(mode, "kill") == 0)
        shim.mode = MODE_KILL;
    else if (strcmp(mode, "short") == 0)
        shim.mode = MODE_SHORT;
    else if (strcmp(mode, "drop") == 0 || strcmp(mode, "torn") == 0)
        shim.mode = mode[0] == 'd' ? MODE_DROP : MODE_TORN;
    else if (has_prefix(mode, "fail:") || has_prefix(mode, "fail-from:")) {
        shim.mode = MODE_FAIL;
        shim.from = has_prefix(mode, "fail-from:");
        shim.failure = failure_of(strchr(mode, ':') + 1);
    } else {
        dprintf(STDERR_FILENO, "crash shim: no mode %s\n", mode);
        abort();
    }
    if (shim.mode >= MODE_DROP) {
        if (!scratch)
            abort();
        undo_start(scratch);
    }
}

/* The power goes when all is said and done: what the program promised must be there. */
__attribute__((destructor)) static void shim_end(void)
{
    if (shim.mode >= MODE_DROP && shim.at == 0) {
        pthread_mutex_lock(&shim.lock);
        undo_all(shim.mode == MODE_TORN);
    }
}

/* ---- Which calls count ---- */

/* The absolute path of a descriptor; false when it is none of a file. */
static bool path_of_fd(char out[PATH_MAX], int fd)
{
    char self[64];

    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(self, out, PATH_MAX - 1);
    if (size < 0)
        return false;
    out[size] = 0;
    return true;
}

static bool is_watched(const char *path)
{
    return strncmp(path, shim.root, shim.root_size) == 0 && (path[shim.root_size] == '/' || !path[shim.root_size]);
}

static bool watched_fd(char out[PATH_MAX], int fd)
{
    return shim.mode != MODE_OFF && path_of_fd(out, fd) && is_watched(out);
}

static bool watched_fd_for_writing(char out[PATH_MAX], int fd)
{
    return watched_fd(out, fd) && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

static bool watched_path(char out[PATH_MAX], int dirfd, const char *path)
{
    if (shim.mode == MODE_OFF)
        return false;
    out[0] = 0;
    if (path[0] != '/' && !(dirfd == AT_FDCWD ? getcwd(out, PATH_MAX) != NULL : path_of_fd(out, dirfd)))
        return false;
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    const size_t used = strlen(out);
    const int size = snprintf(out + used, PATH_MAX - used, "%s%s", used ? "/" : "", path);
    return size >= 0 && (size_t)size < PATH_MAX - used && is_watched(out);
}

static void hit_record(const char *call, const char *path)
{
    if (!shim.hit)
        return;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, shim.hit, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dprintf(fd, "%s %s\n", call, path); /* glibc writes this within itself */
    syscall(SYS_close, fd);
}

/* Counts a call, with the lock held. Does not come back when it is the last. */
static verdict count_call(const char *call, const char *path, bool is_write)
{
    if (shim.mode == MODE_SHORT && !is_write)
        return PASS;
    shim.count++;
    if (shim.mode == MODE_TRACE)
        hit_record(call, path);
    if (shim.at == 0 || shim.count < shim.at || (shim.count > shim.at && !shim.from))
        return PASS;
    if (shim.count == shim.at)
        hit_record(call, path);
    if (shim.mode == MODE_FAIL) {
        errno = shim.failure;
        return FAILS;
    }
    if (shim.mode == MODE_SHORT)
        return SHORTENED;
    if (shim.mode >= MODE_DROP)
        undo_all(shim.mode == MODE_TORN);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void shim_lock(void)
{
    pthread_mutex_lock(&shim.lock);
}

/* errno is that of the call, not of what the shim did around it. */
static long shim_unlock(long result, int failure)
{
    pthread_mutex_unlock(&shim.lock);
    errno = failure;
    return result;
}

static bool keeps_log(void)
{
    return shim.mode >= MODE_DROP;
}

/* ---- Opening and closing ---- */

static int open_watched(const char *call, const char *full, int dirfd, const char *path, int flags, mode_t mode)
{
    struct stat st;
    int fd = -1;

    shim_lock();
    const bool is_new = lstat(full, &st) != 0;
    if (count_call(call, full, false) == PASS) {
        fd = (int)syscall(SYS_openat, dirfd, path, flags, mode);
        const int failure = errno;
        if (fd >= 0 && keeps_log() && !(flags & O_DIRECTORY)) {
            undo_opened(fd);
            if (is_new)
                undo_appeared(&(undo_change){0}, full, false);
        }
        errno = failure;
    }
    return (int)shim_unlock(fd, errno);
}

static int open_any(const char *call, int dirfd, const char *path, int flags, mode_t mode)
{
    char full[PATH_MAX];
    const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));

    if (!writes || !watched_path(full, dirfd, path))
        return (int)syscall(SYS_openat, dirfd, path, flags, mode);
    return open_watched(call, full, dirfd, path, flags, mode);
}

#define MODE_ARGUMENT(mode, flags)                                                                                     \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                                           \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        mode = va_arg(args, mode_t);                                                                                   \
        va_end(args);                                                                                                  \
    }

int open(const char *path, int flags, ...)
{
    MODE_ARGUMENT(mode, flags)
    return open_any("open", AT_FDCWD, path, flags, mode);
}

int openat(int dirfd, const char *path, int flags, ...)
{
    MODE_ARGUMENT(mode, flags)
    return open_any("openat", dirfd, path, flags, mode);
}

int creat(const char *path, mode_t mode)
{
    return open_any("creat", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* What programs built with _FORTIFY_SOURCE call. */
int __open_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __open_2(const char *path, int flags)
{
    return open_any("open", AT_FDCWD, path, flags, 0);
}

int __openat_2(int dirfd, const char *path, int flags)
{
    return open_any("openat", dirfd, path, flags, 0);
}

int close(int fd)
{
    char path[PATH_MAX];

    if (!watched_fd_for_writing(path, fd))
        return (int)syscall(SYS_close, fd);
    shim_lock();
    const verdict v = count_call("close", path, false);
    const int failure = errno;
    const int rc = (int)syscall(SYS_close, fd); /* on Linux the descriptor is gone whatever close says */
    return (int)shim_unlock(v == FAILS ? -1 : rc, v == FAILS ? failure : errno);
}

/* ---- Data ---- */

/* One body for all calls on a descriptor: `real` is the system call that is made when it may pass. */
#define FD_CALL(result_type, name, fd, real)                                                                           \
    char path[PATH_MAX];                                                                                               \
    long result = -1;                                                                                                  \
    if (!watched_fd(path, fd))                                                                                         \
        return (result_type)(real);                                                                                    \
    shim_lock();                                                                                                       \
    if (count_call(name, path, false) == PASS)                                                                         \
        result = (real);                                                                                               \
    return (result_type)shim_unlock(result, errno);

static ssize_t write_watched(const char *call, const char *path, int fd, const void *data, size_t size, bool at_offset,
                             off_t offset)
{
    long result = -1;

    shim_lock();
    const verdict v = count_call(call, path, true);
    if (v != FAILS) {
        const size_t taken = v == SHORTENED && size > 1 ? size / 2 : size;
        result = at_offset ? syscall(SYS_pwrite64, fd, data, taken, offset) : syscall(SYS_write, fd, data, taken);
    }
    return shim_unlock(result, errno);
}

ssize_t write(int fd, const void *data, size_t size)
{
    char path[PATH_MAX];

    if (!watched_fd(path, fd))
        return syscall(SYS_write, fd, data, size);
    return write_watched("write", path, fd, data, size, false, 0);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    char path[PATH_MAX];

    if (!watched_fd(path, fd))
        return syscall(SYS_pwrite64, fd, data, size, offset);
    return write_watched("pwrite", path, fd, data, size, true, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    char path[PATH_MAX];
    long result = -1;

    if (!watched_fd(path, fd))
        return syscall(SYS_writev, fd, parts, count);
    shim_lock();
    const verdict v = count_call("writev", path, true);
    if (v == SHORTENED && count > 0)
        result = syscall(SYS_write, fd, parts[0].iov_base, (parts[0].iov_len + 1) / 2);
    else if (v == PASS)
        result = syscall(SYS_writev, fd, parts, count);
    return shim_unlock(result, errno);
}

int ftruncate(int fd, off_t size)
{
    FD_CALL(int, "ftruncate", fd, syscall(SYS_ftruncate, fd, size))
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    FD_CALL(int, "fallocate", fd, syscall(SYS_fallocate, fd, mode, offset, size))
}

int sync_file_range(int fd, off_t offset, off_t size, unsigned flags)
{
    FD_CALL(int, "sync_file_range", fd, shim.no_sync ? 0 : syscall(SYS_sync_file_range, fd, offset, size, flags))
}

int fchmod(int fd, mode_t mode)
{
    FD_CALL(int, "fchmod", fd, syscall(SYS_fchmod, fd, mode))
}

static int sync_any(const char *call, int fd, long number)
{
    char path[PATH_MAX];
    long result = -1;

    if (!watched_fd(path, fd))
        return shim.no_sync ? 0 : (int)syscall(number, fd);
    shim_lock();
    if (count_call(call, path, false) == PASS) {
        result = shim.no_sync ? 0 : syscall(number, fd);
        if (result == 0 && keeps_log())
            undo_synced(fd);
    }
    return (int)shim_unlock(result, errno);
}

int fsync(int fd)
{
    return sync_any("fsync", fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return sync_any("fdatasync", fd, SYS_fdatasync);
}

/* ---- Names ---- */

static int rename_any(const char *call, int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    char full_from[PATH_MAX], full_to[PATH_MAX];
    undo_change source = {0}, target = {0};
    long result = -1;

    const bool watched = watched_path(full_to, to_fd, to);
    if (!watched_path(full_from, from_fd, from) || !watched)
        return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
    shim_lock();
    if (count_call(call, full_to, false) == PASS) {
        if (keeps_log()) {
            undo_keep(&source, full_from);
            undo_keep(&target, full_to);
        }
        result = syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
        const int failure = errno;
        if (keeps_log() && result == 0) {
            undo_appeared(&target, full_to, false);
            undo_gone(&source, full_from);
        } else if (keeps_log()) {
            undo_forget(&source);
            undo_forget(&target);
        }
        errno = failure;
    }
    return (int)shim_unlock(result, errno);
}

int rename(const char *from, const char *to)
{
    return rename_any("rename", AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return rename_any("renameat", from_fd, from, to_fd, to, 0);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    return rename_any("renameat2", from_fd, from, to_fd, to, flags);
}

/* A call that makes the name `full`; `real` as above. */
#define APPEARS(name, full, is_folder, real)                                                                           \
    long result = -1;                                                                                                  \
    shim_lock();                                                                                                       \
    if (count_call(name, full, false) == PASS) {                                                                       \
        result = (real);                                                                                               \
        const int failure = errno;                                                                                     \
        if (result == 0 && keeps_log())                                                                                \
            undo_appeared(&(undo_change){0}, full, is_folder);                                                         \
        errno = failure;                                                                                               \
    }                                                                                                                  \
    return (int)shim_unlock(result, errno);

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    char full[PATH_MAX];

    if (!watched_path(full, to_fd, to))
        return (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags);
    APPEARS("link", full, false, syscall(SYS_linkat, from_fd, from, to_fd, to, flags))
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int symlinkat(const char *target, int dirfd, const char *path)
{
    char full[PATH_MAX];

    if (!watched_path(full, dirfd, path))
        return (int)syscall(SYS_symlinkat, target, dirfd, path);
    APPEARS("symlink", full, false, syscall(SYS_symlinkat, target, dirfd, path))
}

int symlink(const char *target, const char *path)
{
    return symlinkat(target, AT_FDCWD, path);
}

int mkdirat(int dirfd, const char *path, mode_t mode)
{
    char full[PATH_MAX];

    if (!watched_path(full, dirfd, path))
        return (int)syscall(SYS_mkdirat, dirfd, path, mode);
    APPEARS("mkdir", full, true, syscall(SYS_mkdirat, dirfd, path, mode))
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

static int remove_any(const char *call, int dirfd, const char *path, int flags, bool either)
{
    char full[PATH_MAX];
    undo_change change = {0};
    long result = -1;

    const bool watched = watched_path(full, dirfd, path);
    if (watched) {
        shim_lock();
        if (count_call(call, full, false) != PASS)
            return (int)shim_unlock(-1, errno);
        if (keeps_log())
            undo_keep(&change, full);
    }
    result = syscall(SYS_unlinkat, dirfd, path, flags);
    if (either && result && errno == EISDIR)
        result = syscall(SYS_unlinkat, dirfd, path, AT_REMOVEDIR);
    const int failure = errno;
    if (!watched)
        return (int)result;
    if (keeps_log() && result == 0)
        undo_gone(&change, full);
    else if (keeps_log())
        undo_forget(&change);
    return (int)shim_unlock(result, failure);
}

int unlink(const char *path)
{
    return remove_any("unlink", AT_FDCWD, path, 0, false);
}

int unlinkat(int dirfd, const char *path, int flags)
{
    return remove_any("unlinkat", dirfd, path, flags, false);
}

int rmdir(const char *path)
{
    return remove_any("rmdir", AT_FDCWD, path, AT_REMOVEDIR, false);
}

int remove(const char *path)
{
    return remove_any("remove", AT_FDCWD, path, 0, true);
}

int fchmodat(int dirfd, const char *path, mode_t mode, int flags)
{
    char full[PATH_MAX];
    long result = -1;

    (void)flags; /* the system call has none */
    if (!watched_path(full, dirfd, path))
        return (int)syscall(SYS_fchmodat, dirfd, path, mode);
    shim_lock();
    if (count_call("chmod", full, false) == PASS)
        result = syscall(SYS_fchmodat, dirfd, path, mode);
    return (int)shim_unlock(result, errno);
}

int chmod(const char *path, mode_t mode)
{
    return fchmodat(AT_FDCWD, path, mode, 0);
}

/* ---- The same under their 64-bit names ---- */

#define SAME_AS(name) __attribute__((alias(name)))
int open64(const char *path, int flags, ...) SAME_AS("open");
int openat64(int dirfd, const char *path, int flags, ...) SAME_AS("openat");
int creat64(const char *path, mode_t mode) SAME_AS("creat");
int __open64_2(const char *path, int flags) SAME_AS("__open_2");
int __openat64_2(int dirfd, const char *path, int flags) SAME_AS("__openat_2");
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) SAME_AS("pwrite");
int ftruncate64(int fd, off64_t size) SAME_AS("ftruncate");
int fallocate64(int fd, int mode, off64_t offset, off64_t size) SAME_AS("fallocate");
