/* A pack that a save has finished takes its name, and its parity goes with it. */
#include "save_internal.h"

#include "damaged.h"
#include "fail.h"
#include "feature.h"
#include "pack_parity.h"
#include "setting.h"

/* Packs of one name are the same bytes, so that a file which has it already stays; unless it is damaged. That happens
 * where the very bytes are saved again that a damage took: what is there must not take their place. */
static int namesake_check(bool *replace, const ckpt_store *store, const sha256 *name, const char *path, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    sha256 hash;
    char hex[SHA256_HEX_SIZE];
    ckpt_error why;

    *replace = false;
    int failed = file_open(&fd, &size, path, &why);
    if (failed == CKPT_ENOTFOUND)
        goto out;
    if (!failed)
        failed = pack_bytes_hash(&hash, fd, size, &why);
    if (failed)
        TRY(error_pass_own(err, &why));
    *replace = failed || sha256_compare(&hash, name) != 0;
    if (!*replace)
        goto out;
    sha256_hex(hex, name);
    TRY(damaged_keep(store, path, err));
    store_warn(store,
               "the pack %.8s was damaged, and this save has its very bytes: it is whole again; what was there "
               "is in %s",
               hex, store->damaged_dir);
out:
    file_close(&fd);
    return rc;
}

void save_tell_faults(const ckpt_store *store, size_t faults)
{
    if (faults > 0)
        store_warn(
            store,
            "%zu chunks did not come back as they had been coded, and were coded in another way: a fault of ckpt, "
            "please report it; see what `verify --full` says",
            faults);
}

int save_place_pack(file_commit_plan *plan, uint64_t *bytes, ckpt_store *store, file_tmp *written, const sha256 *name,
                    double share, ckpt_error *err)
{
    int rc = 0;
    bool replace = false;
    char path[FILE_PATH_MAX], parity_path[FILE_PATH_MAX];
    file_tmp parity = {.fd = -1};

    *bytes = written->size_bytes;
    TRY(pack_path(path, store->packs_dir, name, err));
    TRY(namesake_check(&replace, store, name, path, err));
    if (share > 0) {
        TRY(feature_compatible_add(store, SETTING_PARITY, err));
        TRY(dir_make(store->parity_dir, err));
        TRY(pack_parity_path(parity_path, store->parity_dir, name, err));
        TRY(pack_parity_make(&parity, store->tmp_dir, written->fd, written->size_bytes, name, share, err));
        *bytes += parity.size_bytes;
    }
    TRY(file_commit_add(plan, written, path, replace, err));
    if (share > 0)
        TRY(file_commit_add(plan, &parity, parity_path, true, err));
out:
    file_tmp_discard(&parity);
    return rc;
}
