#include "damaged.h"

#include "fail.h"

#include <stdio.h>
#include <string.h>

#define NAMESAKES_MAX 1000

/* damaged/<name>, or <name>.1, .2, ... where that is taken. */
int damaged_path(char out[FILE_PATH_MAX], const ckpt_store *store, const char *name, unsigned number, ckpt_error *err)
{
    char numbered[FILE_PATH_MAX];

    if (number == 0)
        return path_join(out, store->damaged_dir, name, err);
    snprintf(numbered, sizeof numbered, "%.*s.%u", FILE_PATH_MAX - 16, name, number);
    return path_join(out, store->damaged_dir, numbered, err);
}

static bool is_same(const char *a, const char *b)
{
    struct stat x, y;

    return lstat(a, &x) == 0 && lstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int damaged_keep(const ckpt_store *store, const char *path, ckpt_error *err)
{
    int rc = 0;
    char kept[FILE_PATH_MAX];
    bool exists = true;

    TRY(dir_make(store->damaged_dir, err));
    for (unsigned i = 0; exists; i++) {
        FAIL_IF(i == NAMESAKES_MAX, err, CKPT_EUSAGE, "%s holds too many files of one name", store->damaged_dir);
        TRY(damaged_path(kept, store, path_base(path), i, err));
        if (is_same(kept, path)) /* one that was stopped before it came further */
            break;
        TRY(file_keep(&exists, kept, path, err));
    }
out:
    return rc;
}

int damaged_move(const ckpt_store *store, const char *path, ckpt_error *err)
{
    int rc = 0;

    TRY(damaged_keep(store, path, err));
    TRY(file_remove(path, err));
out:
    return rc;
}

typedef struct damaged_listing {
    const char *dir;
    damaged_count *count;
} damaged_listing;

static int damaged_visit(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    const damaged_listing *const list = payload;
    char path[FILE_PATH_MAX];
    struct stat st;

    TRY(path_join(path, list->dir, name, err));
    if (lstat(path, &st) == 0) {
        list->count->files++;
        list->count->bytes += (uint64_t)st.st_size;
    }
out:
    return rc;
}

int damaged_look(damaged_count *out, const ckpt_store *store, ckpt_error *err)
{
    damaged_listing list = {store->damaged_dir, out};

    *out = (damaged_count){0};
    const int rc = dir_each(store->damaged_dir, damaged_visit, &list, err);
    return rc == CKPT_ENOTFOUND ? error_clear(err) : rc;
}
