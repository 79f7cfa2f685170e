/* Paths and folders. */
#include "file.h"

#include "fail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int path_join(char out[FILE_PATH_MAX], const char *dir, const char *name, ckpt_error *err)
{
    int rc = 0;
    const size_t dir_size = strlen(dir), name_size = strlen(name);
    const bool slash = dir_size > 0 && dir[dir_size - 1] != '/';

    FAIL_IF(dir_size + slash + name_size >= FILE_PATH_MAX, err, CKPT_EUSAGE, "%s: path is longer than %d bytes", name,
            FILE_PATH_MAX - 1);
    memmove(out, dir, dir_size); /* out may be dir, to go down one folder */
    if (slash)
        out[dir_size] = '/';
    memcpy(out + dir_size + slash, name, name_size + 1);
out:
    return rc;
}

/* Length of a path without the slashes at its end; "/" stays. */
static size_t path_size(const char *path)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    return size;
}

const char *path_base(const char *path)
{
    size_t start = path_size(path);
    while (start > 0 && path[start - 1] != '/')
        start--;
    return path + start;
}

int path_parent(char out[FILE_PATH_MAX], const char *path, ckpt_error *err)
{
    int rc = 0;
    size_t size = (size_t)(path_base(path) - path);

    FAIL_IF(size >= FILE_PATH_MAX, err, CKPT_EUSAGE, "path is longer than %d bytes", FILE_PATH_MAX - 1);
    if (size == 0) {
        memcpy(out, ".", sizeof ".");
        goto out;
    }
    memmove(out, path, size);
    out[size] = '\0';
    out[path_size(out)] = '\0';
out:
    return rc;
}

/* mkdir, and a check that what was there before is a folder. */
static int dir_create(bool *made, const char *path, ckpt_error *err)
{
    int rc = 0, failed;
    struct stat st;

    do
        failed = mkdir(path, 0777) ? errno : 0;
    while (failed == EINTR);
    *made = !failed;
    /* For a folder that exists some file systems say EROFS or EACCES. */
    if (!failed || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
        goto out;
    rc = error_errno(err, failed == EEXIST ? ENOTDIR : failed, "create folder %s", path);
out:
    return rc;
}

int dir_make(const char *path, ckpt_error *err)
{
    int rc = 0;
    bool made = false;
    char parent[FILE_PATH_MAX];

    TRY(dir_create(&made, path, err));
    if (!made)
        goto out;
    TRY(path_parent(parent, path, err));
    TRY(dir_sync(parent, NULL, err));
out:
    return rc;
}

int dir_make_all(const char *path, ckpt_error *err)
{
    int rc = 0;
    char part[FILE_PATH_MAX];
    const size_t size = path_size(path);

    FAIL_IF(size >= FILE_PATH_MAX, err, CKPT_EUSAGE, "path is longer than %d bytes", FILE_PATH_MAX - 1);
    for (size_t end = 1; end <= size; end++) {
        if (end < size && (path[end] != '/' || path[end - 1] == '/'))
            continue;
        memcpy(part, path, end);
        part[end] = '\0';
        TRY(dir_make(part, err));
    }
out:
    return rc;
}

int dir_sync(const char *path, bool *unsupported, ckpt_error *err)
{
    int rc = 0, fd = -1;

    do
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        rc = error_errno(err, errno, "open folder %s", path);
        goto out;
    }
    TRY(file_sync(fd, unsupported, path, err));
out:
    file_close(&fd);
    return rc;
}

int dir_each(const char *path, dir_each_fn each, void *payload, ckpt_error *err)
{
    int rc = 0;
    DIR *dir = NULL;

    do
        dir = opendir(path);
    while (!dir && errno == EINTR);
    if (!dir) {
        rc = error_errno(err, errno, "open folder %s", path);
        goto out;
    }
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry && errno == EINTR)
            continue;
        if (!entry && errno) {
            rc = error_errno(err, errno, "read folder %s", path);
            goto out;
        }
        if (!entry)
            break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            TRY(each(payload, entry->d_name, err));
    }
out:
    if (dir)
        closedir(dir);
    return rc;
}
