/* How a file becomes durable. Nothing else in the program renames one into place. */
#define _GNU_SOURCE /* renameat2 */
#include "file.h"

#include "fail.h"
#include "file_lock.h"
#include "random.h"
#include "utf8.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TMP_SUFFIX      ".tmp"
#define TMP_RANDOM_SIZE 16 /* hexadecimal digits */
#define TMP_PID_DIGITS  10
#define TMP_STEM_MAX    64 /* bytes of the final name that a temporary name shows */
#define TMP_TRIES       16

struct file_commit_item {
    int fd; /* -1: closed, and durable */
    bool replace;
    char *tmp; /* NULL: renamed or removed */
    char *name;
};

/* "dir/<stem>.<pid>.<random>.tmp", see file_tmp_open. */
static int tmp_path(char out[FILE_PATH_MAX], const char *dir, const char *stem, ckpt_error *err)
{
    int rc = 0;
    uint64_t random;
    char name[TMP_STEM_MAX + 64];

    TRY(random_u64(&random, err));
    snprintf(name, sizeof name, "%.*s.%ld.%016" PRIx64 ".tmp", (int)utf8_cut(stem, strlen(stem), TMP_STEM_MAX), stem,
             (long)getpid(), random);
    TRY(path_join(out, dir, name, err));
out:
    return rc;
}

int file_tmp_open(file_tmp *tmp, const char *dir, const char *stem, ckpt_error *err)
{
    int rc = 0;

    *tmp = (file_tmp){.fd = -1};
    for (int tries = 0; tmp->fd < 0; tries++) {
        TRY(tmp_path(tmp->path, dir, stem, err));
        /* O_EXCL and O_NOFOLLOW: in a shared folder nobody may lead us elsewhere. 0666: who may read a store or a
         * restored file is for the umask to say. */
        tmp->fd = open(tmp->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (tmp->fd < 0 && ((errno != EEXIST && errno != EINTR) || tries == TMP_TRIES)) {
            rc = error_errno(err, errno, "create %s", tmp->path);
            goto out;
        }
    }
    (void)file_lock_take(tmp->fd); /* tells others that its writer lives, where locks can */
out:
    if (rc)
        *tmp = (file_tmp){.fd = -1};
    return rc;
}

pid_t file_tmp_owner(const char *name)
{
    static const size_t TAIL = 1 + TMP_RANDOM_SIZE + sizeof TMP_SUFFIX - 1; /* ".<random>.tmp" */
    const size_t length = strlen(name);
    size_t digits = 0;

    if (length <= TAIL || strcmp(name + length - strlen(TMP_SUFFIX), TMP_SUFFIX) != 0 || name[length - TAIL] != '.')
        return 0;
    const char *const end = name + length - TAIL;
    while (end - digits > name && isdigit((unsigned char)end[-(ptrdiff_t)digits - 1]))
        digits++;
    if (digits == 0 || digits > TMP_PID_DIGITS || end - digits == name || end[-(ptrdiff_t)digits - 1] != '.')
        return 0;
    return (pid_t)strtol(end - digits, NULL, 10);
}

int file_tmp_write(file_tmp *tmp, const void *data, size_t size, ckpt_error *err)
{
    int rc = 0;
    TRY(file_write(tmp->fd, data, size, tmp->path, err));
    tmp->size_bytes += size;
out:
    return rc;
}

void file_tmp_discard(file_tmp *tmp)
{
    if (tmp->path[0]) { /* else zeroed or committed, and fd 0 is not ours */
        file_close(&tmp->fd);
        (void)unlink(tmp->path);
    }
    *tmp = (file_tmp){.fd = -1};
}

int file_commit_add(file_commit_plan *plan, file_tmp *tmp, const char *name, bool replace, ckpt_error *err)
{
    int rc = 0;
    struct file_commit_item item = {.fd = -1, .replace = replace};

    FAIL_IF(plan->count >= FILE_COMMIT_MAX, err, CKPT_EUSAGE, "more than %d files in one commit", FILE_COMMIT_MAX);
    struct file_commit_item *const grown = realloc(plan->items, (plan->count + 1) * sizeof *grown);
    FAIL_IF_NULL(grown, err);
    plan->items = grown;
    item.tmp = strdup(tmp->path);
    item.name = strdup(name);
    FAIL_IF_NULL(item.tmp && item.name, err);

    item.fd = tmp->fd;
    plan->items[plan->count++] = item;
    *tmp = (file_tmp){.fd = -1};
out:
    if (rc) {
        free(item.tmp);
        free(item.name);
    }
    return rc;
}

/* Renames unless `to` exists; then errno is EEXIST. */
static int rename_new(const char *from, const char *to)
{
    struct stat st;

    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* This file system (NFS, some FUSE) cannot do it in one step. Two writers that meet between these two calls have
     * the same bytes under the same name. */
    if (lstat(to, &st) == 0) {
        errno = EEXIST;
        return -1;
    }
    return errno == ENOENT ? rename(from, to) : -1;
}

static int item_rename(struct file_commit_item *item, ckpt_error *err)
{
    int rc = 0, failed;

    do
        failed = (item->replace ? rename(item->tmp, item->name) : rename_new(item->tmp, item->name)) ? errno : 0;
    while (failed == EINTR);
    if (failed == EEXIST && !item->replace)
        failed = unlink(item->tmp) ? errno : 0;
    if (failed) {
        rc = error_errno(err, failed, "rename to %s", item->name);
        goto out;
    }
out:
    return rc;
}

static int sync_and_close(int *fd, bool *sync_unsupported, const char *path, ckpt_error *err)
{
    int rc = 0;
    const int closing = *fd;

    TRY(file_sync(closing, sync_unsupported, path, err));
    *fd = -1;
    if (close(closing) && errno != EINTR) { /* network file systems report here what they could not store */
        rc = error_errno(err, errno, "close %s", path);
        goto out;
    }
out:
    return rc;
}

int file_tmp_seal(file_tmp *tmp, ckpt_error *err)
{
    bool ignored = false; /* of files only, where it has no meaning */

    return sync_and_close(&tmp->fd, &ignored, tmp->path, err);
}

static int item_place(struct file_commit_item *item, bool *sync_unsupported, ckpt_error *err)
{
    int rc = 0;

    if (item->fd >= 0)
        TRY(sync_and_close(&item->fd, sync_unsupported, item->name, err));
    TRY(item_rename(item, err));
    free(item->tmp);
    item->tmp = NULL;
out:
    return rc;
}

static int item_commit(struct file_commit_item *item, bool *sync_unsupported, ckpt_error *err)
{
    int rc = 0;
    char dir[FILE_PATH_MAX], tmp_dir[FILE_PATH_MAX];

    TRY(path_parent(dir, item->name, err));
    TRY(path_parent(tmp_dir, item->tmp, err));
    TRY(item_place(item, sync_unsupported, err));
    /* Also when the file was there already: its writer may have been stopped before its own fsync of the folder. */
    TRY(dir_sync(dir, sync_unsupported, err));
    if (strcmp(dir, tmp_dir) != 0)
        TRY(dir_sync(tmp_dir, sync_unsupported, err));
out:
    return rc;
}

static int compare_by_folder(const void *a, const void *b)
{
    const char *const x = ((const struct file_commit_item *)a)->name, *const y =
                                                                          ((const struct file_commit_item *)b)->name;
    const size_t x_size = (size_t)(path_base(x) - x), y_size = (size_t)(path_base(y) - y);
    const int order = memcmp(x, y, x_size < y_size ? x_size : y_size);

    return order ? order : (x_size > y_size) - (x_size < y_size);
}

/* fsyncs the folders of all items, each once. */
static int folders_sync(file_commit_plan *plan, ckpt_error *err)
{
    int rc = 0;
    char dir[FILE_PATH_MAX];

    if (plan->count > 0)
        qsort(plan->items, plan->count, sizeof *plan->items, compare_by_folder);
    for (size_t i = 0; i < plan->count; i++) {
        if (i > 0 && compare_by_folder(&plan->items[i - 1], &plan->items[i]) == 0)
            continue;
        TRY(path_parent(dir, plan->items[i].name, err));
        TRY(dir_sync(dir, &plan->sync_unsupported, err));
    }
out:
    return rc;
}

int file_commit(file_commit_plan *plan, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < plan->count; i++)
        if (plan->any_order)
            TRY(item_place(&plan->items[i], &plan->sync_unsupported, err));
        else
            TRY(item_commit(&plan->items[i], &plan->sync_unsupported, err));
    if (plan->any_order)
        TRY(folders_sync(plan, err));
out:
    file_commit_discard(plan);
    return rc;
}

void file_commit_discard(file_commit_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct file_commit_item *const item = &plan->items[i];
        file_close(&item->fd);
        if (item->tmp)
            (void)unlink(item->tmp);
        free(item->tmp);
        free(item->name);
    }
    free(plan->items);
    plan->items = NULL;
    plan->count = 0; /* sync_unsupported stays for the caller to see */
}

/* A file that its owner closed to others stays so in its next version. */
static int mode_keep(const file_tmp *tmp, const char *name, ckpt_error *err)
{
    int rc = 0;
    struct stat before, now;

    if (stat(name, &before) || !S_ISREG(before.st_mode))
        goto out;
    if (fstat(tmp->fd, &now) || (((before.st_mode ^ now.st_mode) & 0777) && fchmod(tmp->fd, before.st_mode & 0777))) {
        rc = error_errno(err, errno, "keep the mode of %s", name);
        goto out;
    }
out:
    return rc;
}

int file_replace(const char *name, const char *tmp_dir, const void *data, size_t size, ckpt_error *err)
{
    int rc = 0;
    file_tmp tmp = {.fd = -1};
    file_commit_plan plan = {0};

    TRY(file_tmp_open(&tmp, tmp_dir, path_base(name), err));
    TRY(mode_keep(&tmp, name, err));
    TRY(file_tmp_write(&tmp, data, size, err));
    TRY(file_commit_add(&plan, &tmp, name, true, err));
    TRY(file_commit(&plan, err));
out:
    file_commit_discard(&plan);
    file_tmp_discard(&tmp);
    return rc;
}

int file_link(const char *path, const char *target, ckpt_error *err)
{
    int rc = 0, failed = EEXIST;
    char dir[FILE_PATH_MAX], tmp[FILE_PATH_MAX];

    TRY(path_parent(dir, path, err));
    for (int tries = 0; failed == EINTR || (failed == EEXIST && tries < TMP_TRIES); tries++) {
        TRY(tmp_path(tmp, dir, path_base(path), err));
        failed = symlink(target, tmp) ? errno : 0;
    }
    if (failed) {
        rc = error_errno(err, failed, "make link %s", path);
        goto out;
    }
    do
        failed = rename(tmp, path) ? errno : 0;
    while (failed == EINTR);
    if (failed) {
        (void)unlink(tmp);
        rc = error_errno(err, failed, "rename to %s", path);
        goto out;
    }
    TRY(dir_sync(dir, NULL, err));
out:
    return rc;
}

int file_move_aside(char aside[FILE_PATH_MAX], const char *path, ckpt_error *err)
{
    int rc = 0, failed;
    uint64_t random;

    TRY(random_u64(&random, err));
    const int size = snprintf(aside, FILE_PATH_MAX, "%s.%016" PRIx64 ".tmp", path, random);
    FAIL_IF(size < 0 || size >= FILE_PATH_MAX, err, CKPT_EUSAGE, "%s: path is too long", path);
    do
        failed = rename(path, aside) ? errno : 0;
    while (failed == EINTR);
    if (failed)
        rc = error_errno(err, failed, "move %s aside", path);
out:
    return rc;
}

int file_keep(bool *exists, const char *kept, const char *path, ckpt_error *err)
{
    int rc = 0, failed;
    char dir[FILE_PATH_MAX];

    do
        failed = link(path, kept) ? errno : 0;
    while (failed == EINTR);
    *exists = failed == EEXIST;
    if (*exists)
        goto out;
    if (failed == EPERM || failed == ENOTSUP || failed == ENOSYS || failed == EMLINK)
        do
            failed = rename(path, kept) ? errno : 0;
        while (failed == EINTR);
    if (failed) {
        rc = error_errno(err, failed, "keep %s as %s", path, kept);
        goto out;
    }
    TRY(path_parent(dir, kept, err));
    TRY(dir_sync(dir, NULL, err));
out:
    return rc;
}

int file_remove(const char *path, ckpt_error *err)
{
    int rc = 0, failed;
    char dir[FILE_PATH_MAX];

    do
        failed = unlink(path) ? errno : 0;
    while (failed == EINTR);
    if (failed == ENOENT)
        goto out;
    if (failed) {
        rc = error_errno(err, failed, "remove %s", path);
        goto out;
    }
    TRY(path_parent(dir, path, err));
    TRY(dir_sync(dir, NULL, err));
out:
    return rc;
}
