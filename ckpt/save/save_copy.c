#define _GNU_SOURCE /* copy_file_range */
#include "save_internal.h"

#include "fail.h"
#include "units.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define COPY_BUFFER_BYTES ((size_t)1 << 20)
#define COPY_CALL_BYTES   ((size_t)1 << 30) /* of one call to the kernel */

/* The kernel copies, on some file systems without moving a byte. *done: how much; less than `size` where it cannot. */
static int copy_in_kernel(uint64_t *done, const file_tmp *copy, int fd, uint64_t size, ckpt_error *err)
{
    off_t in = 0, out = 0;
    ssize_t n;

    do {
        const uint64_t left = size - (uint64_t)in;
        n = copy_file_range(fd, &in, copy->fd, &out, left < COPY_CALL_BYTES ? (size_t)left : COPY_CALL_BYTES, 0);
    } while ((n > 0 && (uint64_t)in < size) || (n < 0 && errno == EINTR));
    *done = (uint64_t)in;
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO))
        return error_errno(err, errno, "%s", copy->path);
    return 0;
}

int save_copy(file_tmp *copy, const saver *s, int fd, uint64_t size, const char *source, ckpt_error *err)
{
    int rc = 0;
    uint64_t done = 0, free_bytes = 0;
    char *buffer = NULL, need[UNITS_TEXT_SIZE], there[UNITS_TEXT_SIZE];

    TRY(file_space_free(&free_bytes, s->store->tmp_dir, err));
    format_size(need, size);
    format_size(there, free_bytes);
    FAIL_IF(free_bytes < size, err, CKPT_ENOSPC, "a copy of %s needs %s, %s are free", source, need, there);
    TRY(file_tmp_open(copy, s->store->tmp_dir, "copy", err));
    TRY(copy_in_kernel(&done, copy, fd, size, err));
    if (done == size)
        goto out;
    buffer = malloc(COPY_BUFFER_BYTES);
    FAIL_IF_NULL(buffer, err);
    if (lseek(copy->fd, (off_t)done, SEEK_SET) < 0) {
        rc = error_errno(err, errno, "%s", copy->path);
        goto out;
    }
    while (done < size) {
        const size_t n = size - done < COPY_BUFFER_BYTES ? (size_t)(size - done) : COPY_BUFFER_BYTES;
        TRY(file_read_at(buffer, fd, done, n, source, err));
        TRY(file_tmp_write(copy, buffer, n, err));
        done += n;
    }
out:
    free(buffer);
    return rc;
}
