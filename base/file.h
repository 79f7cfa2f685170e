/* Files: reading whole, reading at an offset, and the one way in which ckpt makes a file durable.
 *
 *   temporary file in tmp/ -> write -> fsync -> close -> rename -> fsync of both folders
 *
 * Nothing else in the program renames a file into place. Every call is retried on EINTR and on a short count. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define FILE_PATH_MAX 4096

/* Writes "dir/name" into out; CKPT_EUSAGE when it does not fit. */
int path_join(char out[FILE_PATH_MAX], const char *dir, const char *name, ckpt_error *err);
/* The last component of a path: "b" of "a/b", "b/" of "a/b/" (it points into path); empty for "/". */
const char *path_base(const char *path);

/* The folder that a path is in: "a" of "a/b" and "a/b/", "." of "b", "/" of "/b"; out may be path. */
int path_parent(char out[FILE_PATH_MAX], const char *path, ckpt_error *err);

/* Opens for reading, with O_CLOEXEC, a regular file only (never a FIFO or device that would block).
 * *size is its length in bytes and may be NULL. */
int file_open(int *fd, uint64_t *size, const char *path, ckpt_error *err);
void file_close(int *fd); /* closes and sets to -1; for descriptors that were only read */

/* Reads exactly `size` bytes at `offset`; CKPT_EDATA when the file ends before. `path` is for the message. */
int file_read_at(void *dst, int fd, uint64_t offset, size_t size, const char *path, ckpt_error *err);

/* Reads a whole file into malloc'ed memory with a 0 byte behind it; CKPT_EDATA when it is larger than size_max. */
int file_read_all(char **data, size_t *size, const char *path, size_t size_max, ckpt_error *err);

/* Writes all of data at the place where fd stands. */
int file_write(int fd, const void *data, size_t size, const char *path, ckpt_error *err);
/* Writes all of data at an offset. */
int file_write_at(int fd, uint64_t offset, const void *data, size_t size, const char *path, ckpt_error *err);
/* fsync. Returns 0 too where the file system cannot do it (EINVAL, ENOTSUP, ENOSYS), and then sets *unsupported, which
 * may be NULL. Any other failure means that data are lost; it is not tried again. */
int file_sync(int fd, bool *unsupported, const char *path, ckpt_error *err);

/* Creates one folder, mode 0777 less umask, and fsyncs its parent; an existing folder is no error. */
int dir_make(const char *path, ckpt_error *err);
/* Creates a folder and its parents, the same way. */
int dir_make_all(const char *path, ckpt_error *err);
/* fsync of a folder, with the answers of file_sync. */
int dir_sync(const char *path, bool *unsupported, ckpt_error *err);

/* Calls `each` for every entry but "." and ".." in no particular order, until it returns non-zero, which is returned.
 */
typedef int (*dir_each_fn)(void *payload, const char *name, ckpt_error *err);
int dir_each(const char *path, dir_each_fn each, void *payload, ckpt_error *err);

/* Free bytes for an ordinary user on the file system of path. */
int file_space_free(uint64_t *bytes, const char *path, ckpt_error *err);

/* A file being written under a temporary name. */
typedef struct file_tmp {
    int fd;              /* -1: not open */
    uint64_t size_bytes; /* written so far */
    char path[FILE_PATH_MAX];
} file_tmp;

/* Creates "dir/<stem>.<pid>.<random>.tmp", exclusively, open for writing and reading, mode 0666 less umask. A long stem
 * is cut. While it is open a lock on it (file_lock.h) shows that its writer lives. */
int file_tmp_open(file_tmp *tmp, const char *dir, const char *stem, ckpt_error *err);
/* The process that made a temporary file of this name, or 0: another name. */
pid_t file_tmp_owner(const char *name);
int file_tmp_write(file_tmp *tmp, const void *data, size_t size, ckpt_error *err);
/* Asks the kernel to begin writing what stands from offset `from` on (file_flush.c); does not wait, cannot fail. */
void file_tmp_flush_hint(const file_tmp *tmp, uint64_t from);
/* fsyncs and closes, so that many files can wait for their commit without holding a descriptor each. */
int file_tmp_seal(file_tmp *tmp, ckpt_error *err);
/* Closes and unlinks what was not committed; safe on a zeroed or committed one. */
void file_tmp_discard(file_tmp *tmp);

/* Several files that become visible in the order in which they were added, or at once. */
#define FILE_COMMIT_MAX (1 << 20)
typedef struct file_commit_plan {
    struct file_commit_item *items;
    size_t count;
    bool any_order;        /* set by the caller: see file_commit */
    bool sync_unsupported; /* set by file_commit: a folder could not be fsynced (some FUSE) */
} file_commit_plan;

/* Takes the open or sealed temporary file over (tmp becomes empty; on an error it stays the caller's). An open one
 * keeps its descriptor until file_commit. `name` is the final path. With `replace` an existing file is replaced;
 * without, an existing file of that name is kept and the temporary one dropped (content-named files). */
int file_commit_add(file_commit_plan *plan, file_tmp *tmp, const char *name, bool replace, ckpt_error *err);
/* For each item in order: fsync, close, rename; then fsync of its folder before the next item, and of the temporary
 * file's folder. When one fails, those before it are in place, and the rest are discarded. The plan is empty afterwards
 * but for sync_unsupported.
 *
 * With `any_order` each folder is fsynced once, after all renames: for many files that do not need each other, with
 * their temporary files in the folders where they go. All are durable when it returns. */
int file_commit(file_commit_plan *plan, ckpt_error *err);
void file_commit_discard(file_commit_plan *plan);

/* The simple case: small data under one name, durable when it returns. The mode of a file that was there is kept. */
int file_replace(const char *name, const char *tmp_dir, const void *data, size_t size, ckpt_error *err);

/* Makes a symbolic link under its name, in one step in place of the file or link that stands there, durable when it
 * returns. */
int file_link(const char *path, const char *target, ckpt_error *err);

/* Moves a file away from its name, to "<path>.<random>.tmp", which is written to `aside`. Of several processes that try
 * this at the same time one has it; the others get CKPT_ENOTFOUND. */
int file_move_aside(char aside[FILE_PATH_MAX], const char *path, ckpt_error *err);

/* Gives a file the second name `kept` too, durably, so that it stays when another file takes the place of the first.
 * On a file system without hard links it is moved there. *exists: something has that name already, and nothing was
 * done. */
int file_keep(bool *exists, const char *kept, const char *path, ckpt_error *err);

/* Removes a file and fsyncs its folder; a missing file is no error. */
int file_remove(const char *path, ckpt_error *err);

#endif
