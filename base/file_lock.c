#define _GNU_SOURCE /* F_OFD_SETLK */
#include "file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/vfs.h>

/* File systems of one machine, where an OFD lock reaches everyone who can see the file. Numbers from statfs(2) and
 * linux/magic.h. */
static bool filesystem_is_local(int fd)
{
    static const uint32_t LOCAL[] = {
        0xEF53,     /* ext2, ext3, ext4 */
        0x58465342, /* XFS */
        0x9123683E, /* btrfs */
        0x01021994, /* tmpfs */
        0x858458F6, /* ramfs */
        0x794C7630, /* overlayfs */
        0x2FC12FC1, /* ZFS */
        0xF2F52010, /* F2FS */
        0xCA451A4E, /* bcachefs */
    };
    struct statfs fs;

    if (fstatfs(fd, &fs))
        return false;
    for (size_t i = 0; i < sizeof LOCAL / sizeof LOCAL[0]; i++)
        if ((uint32_t)fs.f_type == LOCAL[i])
            return true;
    return false;
}

static file_lock_answer lock_call(int fd, int command)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int failed;

    if (!filesystem_is_local(fd))
        return FILE_LOCK_UNSUPPORTED;
    do
        failed = fcntl(fd, command, &whole) ? errno : 0;
    while (failed == EINTR);
    if (failed == EAGAIN || failed == EACCES)
        return FILE_LOCK_HELD;
    if (failed)
        return FILE_LOCK_UNSUPPORTED; /* EINVAL, ENOLCK, ENOTSUP, ENOSYS, ... */
    return command == F_OFD_GETLK && whole.l_type != F_UNLCK ? FILE_LOCK_HELD : FILE_LOCK_FREE;
}

file_lock_answer file_lock_take(int fd)
{
    return lock_call(fd, F_OFD_SETLK);
}

file_lock_answer file_lock_look(int fd)
{
    return lock_call(fd, F_OFD_GETLK);
}
