#include "repair.h"

#include "fail.h"
#include "feature.h"
#include "pack_parity.h"
#include "setting.h"
#include "units.h"
#include "usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PARITY_SHARE_USUAL 0.05 /* where its damaged head does not tell */

/* Opens a pack that was sound a moment ago. *fd is -1 when it was pruned since. */
static int pack_look(int *fd, uint64_t *size, const repairer *r, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    TRY(pack_path(path, r->store->packs_dir, name, err));
    rc = file_open(fd, size, path, err);
    if (rc == CKPT_ENOTFOUND) {
        *fd = -1;
        rc = error_clear(err);
    }
out:
    return rc;
}

/* What is new has to keep the quota too; what takes the place of a damaged one does not grow the store. */
static int room_check(const repairer *r, uint64_t bytes, bool is_new, ckpt_error *err)
{
    int rc = 0;
    char needed[UNITS_TEXT_SIZE], left[UNITS_TEXT_SIZE];
    ckpt_usage u = {0};

    TRY(is_new ? usage_limits(&u, r->store, err) : file_space_free(&u.disk_free_bytes, r->store->path, err));
    const uint64_t room = usage_room(&u);
    if (bytes <= room)
        goto out;
    format_size(needed, bytes);
    format_size(left, room);
    rc = error_set(err, room < u.disk_free_bytes ? CKPT_EQUOTA : CKPT_ENOSPC,
                   "the parity of a pack needs %s, %s are free%s", needed, left,
                   room < u.disk_free_bytes ? " of the quota" : "");
    if (room < u.disk_free_bytes)
        error_hint(err, "`ckpt init --quota SIZE` gives more, `ckpt prune` makes room; packs done before keep theirs");
out:
    return rc;
}

/* Makes the parity of a sound pack: none, and 0 *bytes, when it was pruned since. */
static int parity_write(uint64_t *bytes, repairer *r, const sha256 *name, double share, bool is_new, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    char path[FILE_PATH_MAX];
    file_tmp tmp = {.fd = -1};

    *bytes = 0;
    TRY(pack_look(&fd, &size, r, name, err));
    if (fd < 0)
        goto out;
    TRY(pack_parity_size(bytes, size, share, err));
    if (r->dry_run)
        goto out;
    TRY(room_check(r, *bytes, is_new, err));
    TRY(dir_make(r->store->parity_dir, err));
    TRY(pack_parity_make(&tmp, r->store->tmp_dir, fd, size, name, share, err));
    *bytes = tmp.size_bytes;
    TRY(pack_parity_path(path, r->store->parity_dir, name, err));
    TRY(repair_commit(r, &tmp, path, err));
out:
    file_tmp_discard(&tmp);
    file_close(&fd);
    return rc;
}

/* What is wrong with the parity of a sound pack; "" when nothing is. *share is what it was made with. */
static int parity_look(char state[320], double *share, const repairer *r, const sha256 *name, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    pack_parity parity = {.fd = -1};
    pack_loss loss = {0};
    ckpt_error why = {0};

    state[0] = 0;
    *share = PARITY_SHARE_USUAL;
    if (pack_parity_open(&parity, r->store->parity_dir, name, &why)) {
        TRY(error_pass_own(err, &why));
        if (why.code != CKPT_ENOTFOUND && why.code != CKPT_EVERSION)
            repair_say(state, 320, "%s", why.message);
        goto out;
    }
    TRY(pack_look(&fd, &size, r, name, err));
    if (fd < 0)
        goto out;
    TRY(pack_parity_survey(&loss, &parity, fd, size, err));
    const parity_layout *const l = &parity.layout;
    /* As many blocks again: a layout has two more than its share, which is rounded down. */
    if (l->parity_blocks > 2)
        *share = ((double)l->parity_blocks - 1.5) / (double)l->data_blocks;
    if (*share > PARITY_SHARE_MAX)
        *share = PARITY_SHARE_MAX;
    if (loss.lost_data + loss.lost_parity > 0)
        repair_say(state, 320, "%" PRIu64 " of %" PRIu64 " parity blocks are damaged",
                   loss.lost_data + loss.lost_parity, l->parity_blocks);
    else if (!parity.whole)
        repair_say(state, 320, "one of its ends is damaged");
out:
    pack_loss_clear(&loss);
    pack_parity_close(&parity);
    file_close(&fd);
    return rc;
}

static int parity_mend(repairer *r, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    char state[320], hex[SHA256_HEX_SIZE];
    double share;
    uint64_t bytes;
    ckpt_repair_row *row;

    TRY(parity_look(state, &share, r, name, err));
    if (!state[0])
        goto out;
    TRY(parity_write(&bytes, r, name, share, false, err));
    if (bytes == 0)
        goto out;
    sha256_hex(hex, name);
    TRY(repair_row(&row, r, "parity", hex, err));
    REPAIR_SAY(row->state, "%s", state);
    REPAIR_SAY(row->action, "made anew from its pack, which is whole");
    row->mended = true;
out:
    return rc;
}

static int parity_add(repairer *r, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;
    uint64_t bytes;

    TRY(pack_parity_path(path, r->store->parity_dir, name, err));
    if (lstat(path, &st) == 0)
        goto out;
    TRY(parity_write(&bytes, r, name, r->parity, true, err));
    r->result->parity_packs += bytes > 0;
    r->result->parity_bytes += bytes;
out:
    return rc;
}

int repair_parities(repairer *r, ckpt_error *err)
{
    int rc = 0;

    if (r->parity > 0 && !r->dry_run)
        TRY(feature_compatible_add(r->store, SETTING_PARITY, err));
    for (uint32_t i = 0; i < r->reach.count; i++) {
        const sha256 *const name = &r->reach.packs[i].name;
        if (!hash_set_has(&r->sound, name))
            continue;
        TRY(parity_mend(r, name, err));
        if (r->parity > 0)
            TRY(parity_add(r, name, err));
    }
out:
    return rc;
}
