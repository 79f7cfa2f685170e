#include "restore_path.h"

#include "fail.h"
#include "walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int refuse_link(const char *path, bool in_place, ckpt_error *err)
{
    const int rc =
        error_set(err, in_place ? CKPT_ECONFIRM : CKPT_EUSAGE, "%s is a link, and files would go behind it", path);

    error_where(err, path);
    error_hint(err, in_place ? "agree to follow it, or restore into another folder"
                             : "remove the link, or restore into an empty folder");
    return rc;
}

int restore_path_check(const char *dir, const char *path, bool is_folder, bool in_place, bool overwrite,
                       ckpt_error *err)
{
    int rc = 0;
    char prefix[FILE_PATH_MAX], full[FILE_PATH_MAX];
    struct stat st;

    if (in_place && overwrite)
        goto out;
    for (const char *end = strchr(path, '/'); end || is_folder; end = strchr(end + 1, '/')) {
        const size_t length = end ? (size_t)(end - path) : strlen(path);
        memcpy(prefix, path, length);
        prefix[length] = 0;
        TRY(path_join(full, dir, prefix, err));
        if (lstat(full, &st) == 0 && S_ISLNK(st.st_mode)) {
            rc = refuse_link(full, in_place, err);
            goto out;
        }
        if (!end)
            break;
    }
out:
    return rc;
}

/* The folder without links, or the nearest above it that there is; NULL: none. */
static char *real_folder(const char *dir)
{
    char nearest[FILE_PATH_MAX];
    char *real = realpath(dir, NULL);

    for (const char *below = dir; !real && errno == ENOENT && strcmp(below, ".") != 0; below = nearest) {
        if (path_parent(nearest, below, NULL))
            break;
        real = realpath(nearest, NULL);
    }
    return real;
}

int restore_folder_check(const char *dir, ckpt_error *err)
{
    int rc = 0;
    char *const real = real_folder(dir);

    for (char *slash = real ? real + 1 : NULL; slash; *slash = '/') {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = 0;
        FAIL_IF(walk_is_store(real), err, CKPT_EUSAGE, "%s lies in a store, where only ckpt writes", dir);
        if (!slash)
            break;
    }
out:
    free(real);
    return rc;
}

int restore_target_check(const char *path, bool overwrite, ckpt_error *err)
{
    int rc = 0;
    struct stat st, through;
    char folder[FILE_PATH_MAX];

    TRY(path_parent(folder, path, err));
    TRY(restore_folder_check(folder, err));
    if (lstat(path, &st)) {
        if (errno != ENOENT)
            rc = error_errno(err, errno, "%s", path);
        goto out;
    }
    FAIL_IF(S_ISDIR(st.st_mode), err, CKPT_EUSAGE, "%s is a folder", path);
    FAIL_IF(stat(path, &through) == 0 && !S_ISREG(through.st_mode), err, CKPT_EUSAGE, "%s is no ordinary file", path);
    if (!overwrite) {
        rc = error_set(err, CKPT_ECONFIRM, "%s exists", path);
        error_hint(err, "--yes overwrites it");
    }
out:
    return rc;
}
