#include "store_internal.h"

#include "fail.h"
#include "lease.h"

#include <stdlib.h>
#include <string.h>

int tags_release(ckpt_store *store, const sha256 *id, bool force, ckpt_error *err)
{
    int rc = 0;
    tag_row *tags = NULL;
    size_t count = 0;
    char hex[SHA256_HEX_SIZE];

    TRY(tag_rows(&tags, &count, store, err));
    for (size_t i = 0; i < count; i++) {
        if (sha256_compare(&tags[i].id, id) != 0)
            continue;
        if (!force) {
            sha256_hex(hex, id);
            rc = error_set(err, CKPT_ECONFIRM, "the checkpoint %.8s has the tag `%s`", hex, tags[i].name);
            goto out;
        }
        TRY(ckpt_tag_remove(store, tags[i].name, err));
    }
out:
    tag_rows_free(tags, count);
    return rc;
}

int ckpt_remove(ckpt_store *store, const char *name, bool force, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    snapshot_name found;
    lease *exclusive = NULL;

    TRY(store_writable(store, err));
    /* No tag may be set while we look for tags. */
    TRY(prune_lease_take(&exclusive, store, INTENT_WAIT_MS, err));
    TRY(name_resolve(&found, store, name, err));
    TRY(tags_release(store, &found.id, force, err));
    TRY(snapshot_path(path, store->snapshots_dir, &found, err));
    TRY(file_remove(path, err));
out:
    lease_release(exclusive);
    return rc;
}
