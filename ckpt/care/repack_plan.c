#include "hash_set.h"
#include "repack.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

#define FRAME_ROW_BYTES 80 /* of a frame in tables, which are mostly hashes */
#define LOOKS_MAX       5

/* ---- What goes -------------------------------------------------------------------------------------------------- */

/* In over half of its bytes there are no bytes of any checkpoint's files: nobody needs them, or as references only. */
static bool is_dying(const reach_pack *listed, const live_pack *p)
{
    return listed->needed && p->frame_bytes - p->direct_bytes > p->frame_bytes / 2;
}

/* Does a frame that checkpoints need refer to a pack that goes? */
static bool refers_to_gone(const repack_plan *plan, const live_pack *p)
{
    for (uint32_t i = 0; i < p->frame_count; i++) {
        const live_frame *const frame = &p->frames[i];
        if (frame->live && frame->reference.pack != PACK_NONE && plan->gone[frame->reference.pack])
            return true;
    }
    return false;
}

static bool needs_gone(const repack_plan *plan, uint32_t own)
{
    const reach_pack *const p = &plan->map.reach.packs[own];

    if (plan->gone[own])
        return true;
    for (uint32_t i = 0; i < p->need_count; i++)
        if (plan->gone[p->needs[i]])
            return true;
    return false;
}

/* From the packs that shall go to all that have to, as they refer to them. */
static void gone_close(repack_plan *plan)
{
    live_map *const map = &plan->map;
    bool changed = true;

    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < map->reach.count; i++)
            if (!plan->gone[i] && map->reach.packs[i].needed && refers_to_gone(plan, &map->packs[i]))
                plan->gone[i] = changed = true;
        for (size_t i = 0; i < map->checkpoint_count; i++) {
            const uint32_t own = map->checkpoints[i].own;
            if (!plan->gone[own] && needs_gone(plan, own))
                plan->gone[own] = changed = true;
        }
    }
}

/* ---- Units ------------------------------------------------------------------------------------------------------ */

/* Sets of packs that hang together: parents[i] leads to the one that stands for the set. */
static uint32_t set_of(uint32_t *parents, uint32_t pack_row)
{
    while (parents[pack_row] != pack_row)
        pack_row = parents[pack_row] = parents[parents[pack_row]];
    return pack_row;
}

static void packs_unite(uint32_t *parents, const repack_plan *plan)
{
    const live_map *const map = &plan->map;

    for (uint32_t i = 0; i < map->reach.count; i++)
        parents[i] = i;
    for (size_t i = 0; i < map->checkpoint_count; i++) {
        const uint32_t own = map->checkpoints[i].own;
        const reach_pack *const p = &map->reach.packs[own];
        for (uint32_t k = 0; plan->gone[own] && k < p->need_count; k++)
            if (plan->gone[p->needs[k]])
                parents[set_of(parents, p->needs[k])] = set_of(parents, own);
    }
}

static void last_users_find(repack_plan *plan)
{
    const live_map *const map = &plan->map;

    for (size_t i = map->checkpoint_count; i-- > 0;) { /* oldest first */
        const uint32_t own = map->checkpoints[i].own;
        const reach_pack *const p = &map->reach.packs[own];
        plan->last_user[own] = (uint32_t)i;
        for (uint32_t k = 0; k < p->need_count; k++)
            plan->last_user[p->needs[k]] = (uint32_t)i;
    }
}

/* What the work on one unit knows. */
typedef struct forecast {
    const repack_plan *plan;
    hash_set present;  /* frames that have a place */
    hash_set families; /* ends of chains of which a frame was moved */
} forecast;

/* Bytes that a frame will take where it is moved to; one coded anew without a reference about as many as what its chain
 * began with. */
static int frame_forecast(uint64_t *bytes, forecast *f, live_at at, ckpt_error *err)
{
    int rc = 0;
    const live_map *const map = &f->plan->map;
    const live_frame *const frame = live_frame_at(map, at), *const root = live_frame_at(map, live_root(map, at));
    const live_frame *const reference =
        frame->reference.pack == PACK_NONE ? NULL : live_frame_at(map, frame->reference);

    *bytes = 0;
    if (hash_set_has(&f->present, &frame->hash))
        goto out;
    const bool copied = !reference || hash_set_has(&f->present, &reference->hash);
    *bytes =
        FRAME_ROW_BYTES + (copied || hash_set_has(&f->families, &root->hash) ? frame->coded_bytes : root->coded_bytes);
    TRY(hash_set_add(&f->present, &frame->hash, err));
    TRY(hash_set_add(&f->families, &root->hash, err));
out:
    return rc;
}

static int checkpoint_forecast(uint64_t *bytes, forecast *f, const live_checkpoint *c, ckpt_error *err)
{
    int rc = 0;
    const live_map *const map = &f->plan->map;
    const live_pack *const own = &map->packs[c->own];

    *bytes = map->reach.packs[c->own].size - own->frame_bytes; /* its tables */
    for (uint32_t i = 0; i < own->use_count; i++) {
        const live_at at = map->uses[own->use_first + i];
        uint64_t frame_bytes = 0;
        if (f->plan->gone[at.pack])
            TRY(frame_forecast(&frame_bytes, f, at, err));
        *bytes += frame_bytes;
    }
out:
    return rc;
}

/* Goes through the work as it will be done: each checkpoint takes room, and frees the packs that none after it needs.
 */
static int unit_forecast(repack_unit *unit, const repack_plan *plan, const uint32_t *parents, uint32_t set,
                         ckpt_error *err)
{
    int rc = 0;
    const live_map *const map = &plan->map;
    forecast f = {.plan = plan};

    for (uint32_t i = 0; i < map->reach.count; i++)
        for (uint32_t k = 0; !plan->gone[i] && k < map->packs[i].frame_count; k++)
            if (map->packs[i].frames[k].live)
                TRY(hash_set_add(&f.present, &map->packs[i].frames[k].hash, err));
    for (size_t n = 0; n < unit->checkpoint_count; n++) {
        uint64_t bytes;
        TRY(checkpoint_forecast(&bytes, &f, &map->checkpoints[unit->checkpoints[n]], err));
        unit->written_bytes += bytes;
        if (unit->written_bytes > unit->freed_bytes + unit->scratch_bytes)
            unit->scratch_bytes = unit->written_bytes - unit->freed_bytes;
        for (uint32_t i = 0; i < map->reach.count; i++)
            if (plan->gone[i] && parents[i] == set && plan->last_user[i] == unit->checkpoints[n])
                unit->freed_bytes += map->reach.packs[i].size;
    }
out:
    hash_set_clear(&f.present);
    hash_set_clear(&f.families);
    return rc;
}

/* The unit of one set; one that would not free more than it writes is dropped, and its packs stay. */
static int unit_add(repack_plan *plan, uint32_t *parents, uint32_t set, ckpt_error *err)
{
    int rc = 0;
    const live_map *const map = &plan->map;
    repack_unit *const unit = &plan->units[plan->unit_count++];

    *unit = (repack_unit){0};
    unit->checkpoints = calloc(map->checkpoint_count, sizeof *unit->checkpoints);
    FAIL_IF_NULL(unit->checkpoints, err);
    for (size_t i = map->checkpoint_count; i-- > 0;)
        if (plan->gone[map->checkpoints[i].own] && parents[map->checkpoints[i].own] == set)
            unit->checkpoints[unit->checkpoint_count++] = (uint32_t)i;
    TRY(unit_forecast(unit, plan, parents, set, err));
    if (unit->freed_bytes > unit->written_bytes)
        goto out;
    free(unit->checkpoints);
    plan->unit_count--;
    for (uint32_t i = 0; i < map->reach.count; i++)
        if (parents[i] == set)
            plan->gone[i] = false;
out:
    return rc;
}

static int units_find(repack_plan *plan, ckpt_error *err)
{
    int rc = 0;
    const uint32_t count = plan->map.reach.count;
    uint32_t *const parents = calloc((size_t)count + 1, sizeof *parents);

    plan->units = calloc((size_t)count + 1, sizeof *plan->units);
    FAIL_IF_NULL(plan->units && parents, err);
    packs_unite(parents, plan);
    for (uint32_t i = 0; i < count; i++)
        parents[i] = set_of(parents, i);
    for (uint32_t i = 0; i < count; i++)
        if (plan->gone[i] && parents[i] == i)
            TRY(unit_add(plan, parents, i, err));
out:
    free(parents);
    return rc;
}

/* ---- The plan --------------------------------------------------------------------------------------------------- */

/* Damage shows at each look; a checkpoint that others removed, moved or made while it was looked for does not. */
static int map_read(live_map *map, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;

    for (unsigned looks = 0; looks < LOOKS_MAX; looks++) {
        live_map_clear(map);
        TRY(live_map_new(map, store, false, NULL, NULL, err));
        if (!map->why[0])
            break;
    }
out:
    return rc;
}

int repack_plan_new(repack_plan *out, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    live_map *const map = &out->map;

    *out = (repack_plan){0};
    TRY(map_read(map, store, err));
    if (map->why[0]) {
        rc = error_set(err, CKPT_EDATA, "repacking needs to know what all checkpoints need, and one is damaged: %s",
                       map->why);
        error_hint(err, "`ckpt verify` tells more, `ckpt repair` may help");
        goto out;
    }
    out->gone = calloc((size_t)map->reach.count + 1, sizeof *out->gone);
    out->last_user = calloc((size_t)map->reach.count + 1, sizeof *out->last_user);
    FAIL_IF_NULL(out->gone && out->last_user, err);
    for (uint32_t i = 0; i < map->reach.count; i++)
        out->gone[i] = is_dying(&map->reach.packs[i], &map->packs[i]);
    gone_close(out);
    last_users_find(out);
    TRY(units_find(out, err));
out:
    return rc;
}

void repack_plan_clear(repack_plan *plan)
{
    for (size_t i = 0; i < plan->unit_count; i++)
        free(plan->units[i].checkpoints);
    free(plan->units);
    free(plan->last_user);
    free(plan->gone);
    live_map_clear(&plan->map);
    *plan = (repack_plan){0};
}
