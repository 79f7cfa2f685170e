/* Reading files, and the calls on a descriptor that everything else is made of. */
#include "file.h"

#include "checked.h"
#include "fail.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

int file_open(int *fd, uint64_t *size, const char *path, ckpt_error *err)
{
    int rc = 0;
    struct stat st;

    /* O_NONBLOCK: a FIFO without a writer would wait for ever; on regular files it means nothing. */
    do
        *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0) {
        rc = error_errno(err, errno, "open %s", path);
        goto out;
    }
    if (fstat(*fd, &st)) {
        rc = error_errno(err, errno, "stat %s", path);
        goto out;
    }
    FAIL_IF(S_ISDIR(st.st_mode), err, CKPT_EUSAGE, "open %s: is a folder, not a file", path);
    FAIL_IF(!S_ISREG(st.st_mode), err, CKPT_EUSAGE, "open %s: is not a regular file", path);
    if (size)
        *size = (uint64_t)st.st_size;
out:
    if (rc)
        file_close(fd);
    return rc;
}

void file_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* also after EINTR the descriptor is gone, on Linux */
    *fd = -1;
}

/* Reads until `size` bytes are there or the file ends. */
static int read_at_most(size_t *got, void *dst, int fd, uint64_t offset, size_t size, const char *path, ckpt_error *err)
{
    int rc = 0;

    *got = 0;
    while (*got < size) {
        const ssize_t n = pread(fd, (char *)dst + *got, size - *got, (off_t)(offset + *got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = error_errno(err, errno, "read %s", path);
            goto out;
        }
        if (n == 0)
            break;
        *got += (size_t)n;
    }
out:
    return rc;
}

int file_read_at(void *dst, int fd, uint64_t offset, size_t size, const char *path, ckpt_error *err)
{
    int rc = 0;
    size_t got = 0;

    FAIL_IF(!checked_range(offset, size, INT64_MAX), err, CKPT_EDATA, "read %s: no file is that long", path);
    TRY(read_at_most(&got, dst, fd, offset, size, path, err));
    FAIL_IF(got < size, err, CKPT_EDATA, "read %s: ends after %llu bytes, %llu expected", path,
            (unsigned long long)(offset + got), (unsigned long long)(offset + size));
out:
    return rc;
}

int file_read_all(char **data, size_t *size, const char *path, size_t size_max, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size_told = 0;
    size_t capacity, used = 0;
    char *buffer = NULL;

    assert(size_max < SIZE_MAX / 4);
    TRY(file_open(&fd, &size_told, path, err));

    /* The size is only a first guess: files of /proc have none, and others may grow meanwhile. One byte more than it
     * shows in the first read that this is the end. */
    capacity = size_told < size_max ? (size_t)size_told + 1 : size_max + 1;
    for (;;) {
        char *const grown = realloc(buffer, capacity + 1);
        FAIL_IF_NULL(grown, err);
        buffer = grown;
        size_t got;
        TRY(read_at_most(&got, buffer + used, fd, used, capacity - used, path, err));
        used += got;
        FAIL_IF(used > size_max, err, CKPT_EDATA, "read %s: longer than %zu bytes", path, size_max);
        if (used < capacity)
            break;
        capacity = capacity < size_max / 2 ? 2 * capacity + 4096 : size_max + 1;
    }
    buffer[used] = '\0';
    *data = buffer;
    *size = used;
    buffer = NULL;
out:
    free(buffer);
    file_close(&fd);
    return rc;
}

int file_write(int fd, const void *data, size_t size, const char *path, ckpt_error *err)
{
    int rc = 0;
    size_t done = 0;

    while (done < size) {
        const ssize_t n = write(fd, (const char *)data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            /* A file system that takes nothing and gives no reason would otherwise hold us here for ever. */
            rc = error_errno(err, n < 0 ? errno : EIO, "write %s", path);
            goto out;
        }
        done += (size_t)n;
    }
out:
    return rc;
}

int file_write_at(int fd, uint64_t offset, const void *data, size_t size, const char *path, ckpt_error *err)
{
    const unsigned char *bytes = data;

    while (size > 0) {
        const ssize_t n = pwrite(fd, bytes, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_errno(err, n < 0 ? errno : EIO, "write %s", path);
        bytes += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return 0;
}

int file_sync(int fd, bool *unsupported, const char *path, ckpt_error *err)
{
    int rc = 0, failed;

    do
        failed = fsync(fd) ? errno : 0;
    while (failed == EINTR);
    if (failed == EINVAL || failed == ENOTSUP || failed == ENOSYS) {
        if (unsupported)
            *unsupported = true;
        goto out;
    }
    /* Never tried again: the kernel may have dropped the pages that it could not write, and then says 0. */
    if (failed)
        rc = error_errno(err, failed, "fsync %s", path);
out:
    return rc;
}

int file_space_free(uint64_t *bytes, const char *path, ckpt_error *err)
{
    int rc = 0, failed;
    struct statvfs fs;

    do
        failed = statvfs(path, &fs) ? errno : 0;
    while (failed == EINTR);
    if (failed) {
        rc = error_errno(err, failed, "free space of %s", path);
        goto out;
    }
    if (!checked_mul(bytes, fs.f_bavail, fs.f_frsize))
        *bytes = UINT64_MAX;
out:
    return rc;
}
