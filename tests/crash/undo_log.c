#define _GNU_SOURCE
#include "undo_log.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES_MAX   1024
#define NAMES_MAX   8192
#define TORN_BLOCK  512
#define KEPT_FD_MIN 512 /* our own descriptors stand above those of the program */

/* Everything below goes past the shim: straight to the kernel. */
#define RAW_OPEN(path, flags)   ((int)syscall(SYS_openat, AT_FDCWD, (path), (flags), 0600))
#define RAW_CLOSE(fd)           ((void)syscall(SYS_close, (fd)))
#define RAW_LINK(from, to)      ((int)syscall(SYS_linkat, AT_FDCWD, (from), AT_FDCWD, (to), 0))
#define RAW_REMOVE(path, flags) ((void)syscall(SYS_unlinkat, AT_FDCWD, (path), (flags)))

typedef struct inode_id {
    dev_t device;
    ino_t inode;
} inode_id;

/* A file that was opened for writing. */
typedef struct data_record {
    inode_id id;
    int fd; /* our own */
    off_t synced_size;
} data_record;

/* A name that appeared or went, in a folder not synced since. */
typedef struct name_record {
    char *path;
    inode_id folder;
    bool appeared, is_folder;
    undo_change change;
} name_record;

static struct {
    char scratch[PATH_MAX];
    data_record files[FILES_MAX];
    size_t file_count;
    name_record names[NAMES_MAX]; /* in the order of time */
    size_t name_count;
    unsigned long kept_count;
} undo;

/* A model that forgets would pass tests that it should fail. */
static void give_up(const char *why, const char *path)
{
    dprintf(STDERR_FILENO, "crash shim: %s: %s (%s)\n", why, path, strerror(errno));
    abort();
}

void undo_start(const char *scratch)
{
    snprintf(undo.scratch, sizeof undo.scratch, "%s", scratch);
}

static void kept_path(char out[PATH_MAX], const char *name)
{
    if (snprintf(out, PATH_MAX, "%s/%s", undo.scratch, name) >= PATH_MAX)
        give_up("path too long", name);
}

static bool same_inode(inode_id a, inode_id b)
{
    return a.device == b.device && a.inode == b.inode;
}

static inode_id parent_of(const char *path)
{
    char parent[PATH_MAX];
    struct stat st;
    char *slash;

    snprintf(parent, sizeof parent, "%s", path);
    slash = strrchr(parent, '/');
    if (!slash)
        give_up("not an absolute path", path);
    slash[slash == parent ? 1 : 0] = 0;
    if (stat(parent, &st))
        give_up("no parent", path);
    return (inode_id){st.st_dev, st.st_ino};
}

/* ---- Data ---- */

void undo_opened(int fd)
{
    struct stat st;
    char self[64];

    if (fstat(fd, &st))
        give_up("cannot look at a file", "descriptor");
    const inode_id id = {st.st_dev, st.st_ino};
    for (size_t i = 0; i < undo.file_count; i++)
        if (same_inode(undo.files[i].id, id))
            return;
    if (undo.file_count == FILES_MAX)
        give_up("too many files", "log");
    /* Opened anew, not duplicated: a duplicate would share locks and keep them alive. */
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    const int low = RAW_OPEN(self, O_RDWR | O_CLOEXEC);
    if (low < 0)
        give_up("cannot open a file again", self);
    const int own = fcntl(low, F_DUPFD_CLOEXEC, KEPT_FD_MIN);
    RAW_CLOSE(low);
    if (own < 0)
        give_up("no descriptor", self);
    undo.files[undo.file_count++] = (data_record){id, own, st.st_size};
}

static void data_undo(const data_record *file, bool torn)
{
    static const char ZEROS[TORN_BLOCK];
    struct stat st;

    if (fstat(file->fd, &st) || st.st_size <= file->synced_size)
        return;
    if (!torn) {
        if (syscall(SYS_ftruncate, file->fd, file->synced_size))
            give_up("cannot truncate", "file");
        return;
    }
    for (off_t at = file->synced_size; at < st.st_size; at += 2 * (off_t)TORN_BLOCK) {
        const off_t left = st.st_size - at;
        if (syscall(SYS_pwrite64, file->fd, ZEROS, left < TORN_BLOCK ? left : TORN_BLOCK, at) < 0)
            give_up("cannot tear", "file");
    }
}

/* ---- Names ---- */

void undo_keep(undo_change *change, const char *path)
{
    struct stat st;
    char kept[PATH_MAX];

    *change = (undo_change){0};
    if (lstat(path, &st))
        return;
    if (S_ISDIR(st.st_mode)) {
        change->was_folder = true;
        change->folder_mode = st.st_mode & 07777;
        return;
    }
    snprintf(change->kept, sizeof change->kept, "%ld.%lu", (long)getpid(), undo.kept_count++);
    kept_path(kept, change->kept);
    if (RAW_LINK(path, kept))
        give_up("cannot keep a second name", path);
}

void undo_forget(const undo_change *change)
{
    char kept[PATH_MAX];

    if (!change->kept[0])
        return;
    kept_path(kept, change->kept);
    RAW_REMOVE(kept, 0);
}

static void name_add(const undo_change *change, const char *path, bool appeared, bool is_folder)
{
    if (undo.name_count == NAMES_MAX)
        give_up("too many names", path);
    name_record *const record = &undo.names[undo.name_count++];
    *record = (name_record){strdup(path), parent_of(path), appeared, is_folder, *change};
    if (!record->path)
        give_up("no memory", path);
}

void undo_appeared(const undo_change *change, const char *path, bool is_folder)
{
    name_add(change, path, true, is_folder);
}

void undo_gone(const undo_change *change, const char *path)
{
    name_add(change, path, false, false);
}

static void folder_synced(inode_id folder)
{
    size_t left = 0;

    for (size_t i = 0; i < undo.name_count; i++) {
        if (same_inode(undo.names[i].folder, folder)) {
            undo_forget(&undo.names[i].change);
            free(undo.names[i].path);
        } else {
            undo.names[left++] = undo.names[i];
        }
    }
    undo.name_count = left;
}

void undo_synced(int fd)
{
    struct stat st;

    if (fstat(fd, &st))
        give_up("cannot look at a file", "descriptor");
    const inode_id id = {st.st_dev, st.st_ino};
    if (S_ISDIR(st.st_mode)) {
        folder_synced(id);
        return;
    }
    for (size_t i = 0; i < undo.file_count; i++)
        if (same_inode(undo.files[i].id, id))
            undo.files[i].synced_size = st.st_size;
}

static int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    RAW_REMOVE(path, type == FTW_DP ? AT_REMOVEDIR : 0);
    return 0;
}

static void name_undo(const name_record *record)
{
    char kept[PATH_MAX];

    if (record->appeared) {
        if (record->is_folder)
            nftw(record->path, tree_remove_one, 8, FTW_DEPTH | FTW_PHYS);
        else
            RAW_REMOVE(record->path, 0);
    }
    if (record->change.kept[0]) {
        kept_path(kept, record->change.kept);
        /* Its folder may be one that was never durable itself. */
        if (RAW_LINK(kept, record->path) && errno != ENOENT && errno != EEXIST)
            give_up("cannot bring back", record->path);
        RAW_REMOVE(kept, 0);
    } else if (!record->appeared && record->change.was_folder) {
        (void)syscall(SYS_mkdirat, AT_FDCWD, record->path, record->change.folder_mode);
    }
}

void undo_all(bool torn)
{
    for (size_t i = 0; i < undo.file_count; i++) {
        data_undo(&undo.files[i], torn);
        RAW_CLOSE(undo.files[i].fd);
    }
    undo.file_count = 0;
    while (undo.name_count > 0) {
        name_record *const last = &undo.names[--undo.name_count];
        name_undo(last);
        free(last->path);
    }
}
