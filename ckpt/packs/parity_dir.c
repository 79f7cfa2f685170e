#include "parity_dir.h"

#include "fail.h"
#include "pack_parity.h"

#include <errno.h>
#include <unistd.h>

int parity_drop(uint64_t *bytes, const ckpt_store *store, const sha256 *name, bool dry_run, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;

    TRY(pack_parity_path(path, store->parity_dir, name, err));
    if (lstat(path, &st))
        goto out;
    if (!dry_run && unlink(path) && errno != ENOENT) { /* no fsync: one that comes back is swept */
        rc = error_errno(err, errno, "remove %s", path);
        goto out;
    }
    *bytes += (uint64_t)st.st_size;
out:
    return rc;
}

typedef struct parity_sweeper {
    const ckpt_store *store;
    bool dry_run;
    uint64_t *bytes;
} parity_sweeper;

static int parity_visit(void *payload, const char *file, ckpt_error *err)
{
    int rc = 0;
    const parity_sweeper *const s = payload;
    sha256 name;
    char path[FILE_PATH_MAX];
    struct stat st;

    if (!pack_parity_name_parse(&name, file))
        goto out;
    TRY(pack_path(path, s->store->packs_dir, &name, err));
    if (lstat(path, &st) && errno == ENOENT)
        TRY(parity_drop(s->bytes, s->store, &name, s->dry_run, err));
out:
    return rc;
}

int parity_sweep(uint64_t *bytes, const ckpt_store *store, bool dry_run, ckpt_error *err)
{
    parity_sweeper s = {store, dry_run, bytes};
    const int rc = dir_each(store->parity_dir, parity_visit, &s, err);

    return rc == CKPT_ENOTFOUND ? error_clear(err) : rc;
}
