/* What makes repacking safe:
 *
 *   intent names the packs that are read
 *     new pack: written, named in the intent, committed, decoded against the SHA-256 of all files
 *     lease `prune`: the snapshot is replaced by one that names the new pack, if it is as it was
 *   intent closed
 *   packs that no checkpoint needs any more go, as after any prune
 *
 * It may be stopped anywhere: a checkpoint has its old pack or its new one, a new pack without a snapshot is waste that
 * the next gc finds, and the next repacking goes on from what this one has moved. */
#include "repack.h"

#include "prune.h"
#include "setting.h"
#include "usage.h"

#include "fail.h"
#include "lease.h"
#include "units.h"

#include <stdlib.h>
#include <string.h>

#define REPACK_LEASE "repack.lease"

typedef struct repack {
    ckpt_store *store;
    ckpt_gc_result *result;
    repack_plan plan;
} repack;

/* ---- One checkpoint --------------------------------------------------------------------------------------------- */

/* Names the new pack in the snapshot. A snapshot that was removed meanwhile stays so. */
static int checkpoint_point(ckpt_store *store, struct intent *in, const snapshot_name *id, const sha256 *from,
                            const sha256 *to, uint64_t pack_bytes, ckpt_error *err)
{
    int rc = 0;
    bool moved;
    lease *exclusive = NULL;

    TRY(prune_lease_take(&exclusive, store, INTENT_WAIT_MS, err));
    TRY(intent_check(in, err)); /* no snapshot may name a pack that is gone */
    TRY(lease_check(exclusive, err));
    TRY(snapshot_move(&moved, store->snapshots_dir, store->tmp_dir, id, from, to, pack_bytes, err));
out:
    lease_release(exclusive);
    return rc;
}

static int checkpoint_move(repack *r, repack_places *places, const live_checkpoint *c, ckpt_error *err)
{
    int rc = 0;
    char hex[SHA256_HEX_SIZE];
    snapshot snap = {0};
    struct intent *in = NULL;
    sha256 name;
    uint64_t bytes = 0;

    sha256_hex(hex, &c->name.id);
    TRY(intent_open(&in, r->store, err));
    TRY(snapshot_read(&snap, r->store->snapshots_dir, &c->name, err));
    TRY(repack_pack(&name, &bytes, places, r->store, in, &c->name, &snap, err));
    TRY(checkpoint_point(r->store, in, &c->name, &snap.pack, &name, bytes, err));
    r->result->repacked_checkpoints++;
    r->result->written_bytes += bytes;
out:
    if (rc)
        error_prefix(err, "repack %.8s", hex);
    if (rc == CKPT_ENOTFOUND) /* a prune was quicker: what it needs is not what the plan says */
        rc = error_recode(err, CKPT_EBUSY);
    snapshot_clear(&snap);
    intent_close(in);
    return rc;
}

/* ---- One unit --------------------------------------------------------------------------------------------------- */

static int unneeded_remove(repack *r, ckpt_error *err)
{
    int rc = 0;
    ckpt_prune_result removed = {0};

    TRY(prune_unreachable(&removed, r->store, false, err));
    r->result->removed_packs += removed.removed_packs;
    r->result->freed_bytes += removed.freed_bytes;
out:
    ckpt_prune_result_clear(&removed);
    return rc;
}

/* Does some pack become free once this checkpoint has moved? */
static bool frees_any(const repack_plan *plan, uint32_t checkpoint)
{
    for (uint32_t i = 0; i < plan->map.reach.count; i++)
        if (plan->gone[i] && plan->last_user[i] == checkpoint)
            return true;
    return false;
}

static int unit_run(repack *r, const repack_unit *unit, ckpt_error *err)
{
    int rc = 0;
    repack_places *places = NULL;

    TRY(repack_places_new(&places, &r->plan.map, r->plan.gone, err));
    for (size_t i = 0; i < unit->checkpoint_count; i++) {
        TRY(checkpoint_move(r, places, &r->plan.map.checkpoints[unit->checkpoints[i]], err));
        if (frees_any(&r->plan, unit->checkpoints[i]))
            TRY(unneeded_remove(r, err));
    }
out:
    repack_places_free(places);
    return rc;
}

static void unit_expect(repack *r, const repack_unit *unit)
{
    r->result->repacked_checkpoints += unit->checkpoint_count;
    r->result->written_bytes += unit->written_bytes;
    r->result->freed_bytes += unit->freed_bytes;
    for (uint32_t i = 0; i < r->plan.map.reach.count; i++)
        for (size_t k = 0; k < unit->checkpoint_count; k++)
            r->result->removed_packs += r->plan.gone[i] && r->plan.last_user[i] == unit->checkpoints[k];
}

/* ---- All of them ------------------------------------------------------------------------------------------------ */

/* The error of the unit that needed least of what there was no room for. */
static int refuse(uint64_t needed_bytes, uint64_t free_bytes, ckpt_error *err)
{
    char needed[UNITS_TEXT_SIZE], there[UNITS_TEXT_SIZE];

    format_size(needed, needed_bytes);
    format_size(there, free_bytes);
    error_set(err, CKPT_ENOSPC, "repacking needs %s at a time, %s are free", needed, there);
    error_hint(err, "make room elsewhere, or let `ckpt prune` remove more");
    return CKPT_ENOSPC;
}

static int units_run(repack *r, bool dry_run, ckpt_error *err)
{
    int rc = 0;
    uint64_t lacking = 0, lacking_room = 0;
    double parity;
    ckpt_usage u;

    TRY(setting_parity(&parity, r->store, err));
    for (size_t i = 0; i < r->plan.unit_count; i++) {
        const repack_unit *const unit = &r->plan.units[i];
        const uint64_t scratch = unit->scratch_bytes + (uint64_t)(parity * (double)unit->scratch_bytes);
        TRY(usage_limits(&u, r->store, err));
        if (scratch > usage_room(&u)) {
            if (!lacking || scratch < lacking) {
                lacking = scratch;
                lacking_room = usage_room(&u);
            }
            continue;
        }
        if (scratch > r->result->scratch_bytes)
            r->result->scratch_bytes = scratch;
        if (dry_run)
            unit_expect(r, unit);
        else
            TRY(unit_run(r, unit, err));
    }
    if (lacking)
        TRY(refuse(lacking, lacking_room, err));
out:
    return rc;
}

int repack_run(ckpt_gc_result *result, ckpt_store *store, bool dry_run, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    lease *alone = NULL;
    repack r = {.store = store, .result = result};

    if (!dry_run) { /* two would do the same work */
        TRY(path_join(path, store->intents_dir, REPACK_LEASE, err));
        TRY(lease_acquire(&alone, path, NULL, err));
    }
    TRY(repack_plan_new(&r.plan, store, err));
    TRY(units_run(&r, dry_run, err));
out:
    repack_plan_clear(&r.plan);
    lease_release(alone);
    return rc;
}
