/* Room for a save: enough by the quota and on the disk, if need be by what the retention policy lets go. Nothing is
 * removed that would not make enough. */
#include "save_internal.h"

#include "fail.h"
#include "prune.h"
#include "units.h"
#include "usage.h"

#include <inttypes.h>
#include <stdlib.h>

#define ESTIMATE_PIECES    24  /* of a file that are sampled */
#define ESTIMATE_ROW_BYTES 160 /* of a tensor in tables */
#define ESTIMATE_ABOVE     32  /* samples may say one part in so many too little */
#define ESTIMATE_BELOW     16  /* or too much */
#define UNSAMPLED_BYTES    SAVE_GROUP_PIECE_MAX

/* What a save will add: about `likely`, hardly less than `low` or more than `high`. */
typedef struct needed_bytes {
    uint64_t low, likely, high;
} needed_bytes;

static uint64_t bytes_with_parity(const saver *s, uint64_t bytes)
{
    return bytes + (uint64_t)(s->parity * (double)bytes);
}

/* No save adds more. */
static uint64_t bytes_max(const saver *s, uint64_t raw_bytes, uint64_t files)
{
    return bytes_with_parity(s, raw_bytes + raw_bytes / 1000 + files * SNAPSHOT_BYTES_MAX) + SNAPSHOT_BYTES_MAX;
}

/* Share of its raw bytes that a piece will take. */
static int piece_estimate(double *share, saver *s, const piece *p, ckpt_error *err)
{
    int rc = 0;
    codec_plan plan = {0};
    frame_at reference;
    save_candidates candidates = {.count = 0};
    char class_name[TENSOR_CLASS_SIZE];

    save_class_of(class_name, s, p);
    if (p->size > SAVE_GROUP_PIECE_MAX && (s->level != CKPT_LEVEL_FAST || p->dtype == CKPT_OPAQUE))
        save_candidates_for_piece(&candidates, s, p);
    TRY(save_plan_choose(&plan, &reference, share, s, &candidates, class_name, p->dtype, p->offset, p->size, NULL,
                         err));
out:
    return rc;
}

int save_pieces_estimate(uint64_t *bytes, saver *s, ckpt_error *err)
{
    int rc = 0;
    uint64_t passed = 0, next = 0;
    double share = 1, sum = 0;

    for (size_t i = 0; i < s->piece_count; i++) {
        const piece *const p = &s->pieces[i];
        const bool large = p->size > SAVE_GROUP_PIECE_MAX || s->source->size <= SAVE_BATCH_BYTES_MAX;
        passed += p->size;
        if (large && passed >= next) { /* those not sampled take as much as the one before them */
            TRY(piece_estimate(&share, s, p, err));
            next = passed + s->source->size / ESTIMATE_PIECES;
        }
        sum += share * (double)p->size;
    }
    *bytes = (uint64_t)sum + (s->file.count + s->piece_count) * ESTIMATE_ROW_BYTES;
out:
    return rc;
}

/* A file that cannot be looked at now is counted whole; saving it will say why. */
static int entry_estimate(uint64_t *bytes, saver *s, const walk_entry *entry, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    byte_source source;
    ckpt_error why;

    *bytes = entry->size;
    if (entry->size <= UNSAMPLED_BYTES)
        goto out;
    rc = file_open(&fd, &size, entry->source, &why);
    if (!rc) {
        byte_source_fd(&source, fd, size, entry->source);
        s->source = &source;
        rc = save_file_estimate(bytes, s, entry->path, &why);
        s->source = NULL;
    }
    if (rc)
        TRY(error_pass_own(err, &why));
out:
    file_close(&fd);
    return rc;
}

static int entries_estimate(uint64_t *bytes, saver *s, const walk *w, ckpt_error *err)
{
    int rc = 0;

    *bytes = 0;
    for (size_t i = 0; i < w->count; i++) {
        uint64_t of_entry = 0;
        if (w->entries[i].kind == CKPT_FILE)
            TRY(entry_estimate(&of_entry, s, &w->entries[i], err));
        *bytes += of_entry;
    }
out:
    return rc;
}

static int save_estimate(needed_bytes *out, saver *s, const walk *w, const char *path, ckpt_error *err)
{
    int rc = 0;
    uint64_t bytes = 0;
    const uint64_t files = w ? w->count : 1;

    if (w)
        TRY(entries_estimate(&bytes, s, w, err));
    else
        TRY(save_file_estimate(&bytes, s, path, err));
    bytes = bytes_with_parity(s, bytes);
    *out = (needed_bytes){bytes - bytes / ESTIMATE_BELOW, bytes + files * ESTIMATE_ROW_BYTES,
                          bytes + bytes / ESTIMATE_ABOVE + files * ESTIMATE_ROW_BYTES + SNAPSHOT_BYTES_MAX};
out:
    return rc;
}

/* "the save needs about 80 MiB, 12 MiB are free of the quota of 4 GiB, and the policy could free 3 MiB" */
static int refuse(uint64_t bytes, const ckpt_usage *u, uint64_t policy_bytes, ckpt_error *err)
{
    char needed[UNITS_TEXT_SIZE], room[UNITS_TEXT_SIZE], quota[UNITS_TEXT_SIZE], policy[UNITS_TEXT_SIZE];
    const bool by_quota = usage_room(u) < u->disk_free_bytes;

    format_size(needed, bytes);
    format_size(room, usage_room(u));
    format_size(quota, u->quota_bytes);
    format_size(policy, policy_bytes);
    if (by_quota)
        error_set(err, CKPT_EQUOTA,
                  "the save needs about %s, %s are free of the quota of %s, and the policy could free %s", needed, room,
                  quota, policy);
    else
        error_set(err, CKPT_ENOSPC, "the save needs about %s, %s are free on the disk, and the policy could free %s",
                  needed, room, policy);
    error_hint(err, "`ckpt prune --keep POLICY` or `ckpt gc --repack` make room%s",
               by_quota ? "; `ckpt init --quota SIZE` gives more" : "");
    return by_quota ? CKPT_EQUOTA : CKPT_ENOSPC;
}

/* Lets the policy of the config make room. The saver is closed then, as what it refers to must be free to go. */
static int policy_apply(saver *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_store *const store = s->store;
    ckpt_prune_result result = {0};
    char freed[UNITS_TEXT_SIZE];

    saver_close(s);
    *s = (saver){.writer.tmp.fd = -1};
    rc = ckpt_prune(&result, store, NULL, err);
    if (rc == CKPT_EBUSY) { /* another one makes room meanwhile */
        rc = error_clear(err);
        goto out;
    }
    TRY(rc);
    format_size(freed, result.freed_bytes);
    store_note(store, "to make room the policy removed %" PRIu64 " checkpoint%s, %s", result.removed_checkpoints,
               result.removed_checkpoints == 1 ? "" : "s", freed);
out:
    ckpt_prune_result_clear(&result);
    return rc;
}

/* Bytes that the policy would free. */
static int policy_ask(uint64_t *bytes, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    const ckpt_prune_options dry = {.size = sizeof dry, .dry_run = true};
    ckpt_prune_result result = {0};

    TRY(ckpt_prune(&result, store, &dry, err));
    *bytes = result.freed_bytes;
out:
    ckpt_prune_result_clear(&result);
    return rc;
}

int save_room(bool *again, saver *s, const walk *w, const char *path, bool last_try, ckpt_error *err)
{
    int rc = 0;
    uint64_t policy_bytes = 0;
    needed_bytes needed;
    ckpt_usage u;

    *again = false;
    TRY(usage_limits(&u, s->store, err));
    if (bytes_max(s, s->total_bytes, w ? w->count : 1) <= usage_room(&u))
        goto out;
    TRY(save_estimate(&needed, s, w, path, err));
    if (needed.high <= usage_room(&u))
        goto out;
    if (!last_try)
        TRY(policy_ask(&policy_bytes, s->store, err));
    if (policy_bytes > 0 && needed.likely <= usage_room(&u) + policy_bytes) {
        TRY(policy_apply(s, err));
        *again = true;
    } else if (needed.low > usage_room(&u)) /* else it may fit: its true size decides */
        TRY(refuse(needed.likely, &u, policy_bytes, err));
out:
    return rc;
}

int save_room_again(bool *again, int rc, saver *s, bool last_try, ckpt_error *err)
{
    uint64_t policy_bytes = 0;
    ckpt_usage u;

    if (rc != CKPT_EQUOTA || last_try)
        return rc;
    /* Packs that this save has closed are among what the policy frees: no checkpoint needs them. */
    if (usage_limits(&u, s->store, NULL) || policy_ask(&policy_bytes, s->store, NULL) ||
        usage_room(&u) + policy_bytes < s->packs_bytes + SNAPSHOT_BYTES_MAX)
        return rc;
    *again = true;
    (void)error_clear(err);
    return policy_apply(s, err);
}

int save_quota_check(const saver *s, uint64_t more_bytes, ckpt_error *err)
{
    int rc = 0;
    char taken[UNITS_TEXT_SIZE], quota[UNITS_TEXT_SIZE];
    ckpt_usage u;

    TRY(usage_limits(&u, s->store, err));
    if (!u.quota_bytes || u.store_bytes + more_bytes <= u.quota_bytes)
        goto out;
    format_size(taken, u.store_bytes + more_bytes);
    format_size(quota, u.quota_bytes);
    rc = error_set(err, CKPT_EQUOTA, "with this save the store would take %s, and its quota is %s", taken, quota);
    error_hint(err, "`ckpt prune --keep POLICY` or `ckpt gc --repack` make room; `ckpt init --quota SIZE` gives more");
out:
    return rc;
}

void save_room_leave(ckpt_store *store)
{
    ckpt_prune_result removed = {0};

    (void)prune_unreachable(&removed, store, false, NULL);
    ckpt_prune_result_clear(&removed);
}
