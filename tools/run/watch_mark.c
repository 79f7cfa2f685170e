#include "watch_mark.h"

#include "fail.h"
#include "file.h"
#include "hash.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER_DEPTH_MAX 32 /* what lies deeper is saved, but a change there is not seen */

typedef struct folder_look {
    watch_mark *mark;
    watch_folder_fn folder;
    void *payload;
    uint64_t files;
    const char *path;
    unsigned depth;
} folder_look;

static int64_t mtime_of(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static int look_into(folder_look *look, const char *path, unsigned depth, ckpt_error *err);

/* The hashes of entries are added up: the order in which a folder lists them says nothing. */
static int look_at_entry(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    folder_look *const look = payload;
    watch_mark *const mark = look->mark;
    char path[FILE_PATH_MAX];
    struct stat st;

    if (path_join(path, look->path, name, NULL) || lstat(path, &st))
        goto out;
    FAIL_IF(look->files++ >= WATCH_FOLDER_FILES_MAX, err, CKPT_EUSAGE, "%s: more than %u files to watch", look->path,
            WATCH_FOLDER_FILES_MAX);
    const int64_t mtime = mtime_of(&st);
    const uint64_t row[] = {xxh64_of(path, strlen(path)), (uint64_t)st.st_size, (uint64_t)st.st_ino, (uint64_t)mtime};
    mark->names += xxh64_of(row, sizeof row);
    if (S_ISREG(st.st_mode))
        mark->size += (uint64_t)st.st_size;
    if (mtime > mark->mtime_ns)
        mark->mtime_ns = mtime;
    if (S_ISDIR(st.st_mode) && look->depth < FOLDER_DEPTH_MAX)
        TRY(look_into(look, path, look->depth + 1, err));
out:
    return rc;
}

static int look_into(folder_look *look, const char *path, unsigned depth, ckpt_error *err)
{
    int rc = 0;
    const char *const before = look->path;
    const unsigned depth_before = look->depth;

    look->path = path;
    look->depth = depth;
    if (look->folder)
        TRY(look->folder(look->payload, path, err));
    rc = dir_each(path, look_at_entry, look, err);
    if (rc == CKPT_ENOTFOUND || rc == CKPT_EIO) /* gone, or not for us to read: the save will say so */
        rc = error_clear(err);
out:
    look->path = before;
    look->depth = depth_before;
    return rc;
}

int watch_mark_take(watch_mark *out, bool *is_folder, const char *path, watch_folder_fn folder, void *payload,
                    ckpt_error *err)
{
    int rc = 0;
    struct stat st;

    if (stat(path, &st)) {
        rc = error_errno(err, errno, "%s", path);
        goto out;
    }
    *is_folder = S_ISDIR(st.st_mode);
    *out = (watch_mark){.inode = (uint64_t)st.st_ino, .mtime_ns = mtime_of(&st)};
    if (*is_folder) {
        folder_look look = {.mark = out, .folder = folder, .payload = payload};
        TRY(look_into(&look, path, 0, err));
    } else {
        out->size = (uint64_t)st.st_size;
    }
out:
    return rc;
}
