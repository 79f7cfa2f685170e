#include "usage.h"

#include "fail.h"
#include "setting.h"

#include <sys/stat.h>

typedef struct folder_size {
    const char *dir;
    uint64_t bytes;
} folder_size;

static int add_size(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    folder_size *const folder = payload;
    char path[FILE_PATH_MAX];
    struct stat st;

    TRY(path_join(path, folder->dir, name, err));
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) /* what has gone meanwhile takes no room */
        folder->bytes += (uint64_t)st.st_size;
out:
    return rc;
}

int usage_of_folder(uint64_t *bytes, const char *dir, ckpt_error *err)
{
    folder_size folder = {.dir = dir};
    const int rc = dir_each(dir, add_size, &folder, err);

    *bytes = folder.bytes;
    return rc == CKPT_ENOTFOUND ? error_clear(err) : rc; /* some come when they are needed, and some may be deleted */
}

/* tmp/ first: what moves from there to its place meanwhile is counted twice rather than not at all. */
static int usage_of_store(uint64_t *bytes, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    uint64_t of_folder;
    const char *const folders[] = {store->tmp_dir,   store->packs_dir,  store->snapshots_dir,
                                   store->cache_dir, store->parity_dir, store->damaged_dir};

    *bytes = 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        TRY(usage_of_folder(&of_folder, folders[i], err));
        *bytes += of_folder;
    }
out:
    return rc;
}

int usage_limits(ckpt_usage *out, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;

    *out = (ckpt_usage){0};
    TRY(setting_quota(&out->quota_bytes, store, err));
    if (out->quota_bytes)
        TRY(usage_of_store(&out->store_bytes, store, err));
    TRY(file_space_free(&out->disk_free_bytes, store->path, err));
out:
    return rc;
}

int ckpt_usage_get(ckpt_usage *out, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;

    TRY(usage_limits(out, store, err));
    TRY(usage_of_store(&out->store_bytes, store, err));
out:
    return rc;
}

uint64_t usage_room(const ckpt_usage *u)
{
    const uint64_t left = u->quota_bytes > u->store_bytes ? u->quota_bytes - u->store_bytes : 0;

    return u->quota_bytes && left < u->disk_free_bytes ? left : u->disk_free_bytes;
}
