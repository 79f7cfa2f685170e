/* Mark: what tells one state of a file or folder from another without reading it. */
#ifndef RUN_WATCH_MARK_H
#define RUN_WATCH_MARK_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stdint.h>

#define WATCH_FOLDER_FILES_MAX 20000u /* of one watched folder, with all below it */

typedef struct watch_mark {
    uint64_t size, inode; /* of a folder: the bytes of all files, and its own inode */
    int64_t mtime_ns;     /* of a folder: the newest of all that is in it */
    uint64_t names;       /* of a folder: a hash of names, sizes, inodes and times; 0 of a file */
} watch_mark;

static inline bool watch_mark_equal(const watch_mark *a, const watch_mark *b)
{
    return a->size == b->size && a->inode == b->inode && a->mtime_ns == b->mtime_ns && a->names == b->names;
}

/* Looks at what is there. `folder` (may be NULL) is called for the folder and each one in it. CKPT_ENOTFOUND: nothing
 * is there any more. CKPT_EUSAGE: more files than the limit. What goes away during the look is passed over. */
typedef int (*watch_folder_fn)(void *payload, const char *path, ckpt_error *err);
int watch_mark_take(watch_mark *out, bool *is_folder, const char *path, watch_folder_fn folder, void *payload,
                    ckpt_error *err);

#endif
