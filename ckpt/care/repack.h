/* Repack: checkpoints written anew, so that packs go of which little or nothing is needed but as references.
 *
 *   repack.c        the order of the work, and what makes it safe
 *   repack_plan.c   which packs shall go, which checkpoints hold on to them, what that takes and gives: by tables alone
 *   repack_pack.c   the new own pack of one checkpoint: frames copied as they are coded, or coded anew
 *
 * A pack refers to frames of others by pack and number, and is named by its bytes: what refers to a pack that goes is
 * written anew too, and what refers to that. Such packs and their checkpoints are a unit. Frames of a unit that hold
 * bytes of files move; those that were references only do not, and what was coded against them is coded anew, against
 * the newest frame moved of the same family or by itself. */
#ifndef CKPT_REPACK_H
#define CKPT_REPACK_H

#include "live.h"

typedef struct repack_unit {
    uint32_t *checkpoints; /* rows of live_map.checkpoints, oldest first */
    size_t checkpoint_count;
    uint64_t freed_bytes, written_bytes; /* expected */
    uint64_t scratch_bytes;              /* most that it takes at a time before it gives something back */
} repack_unit;

typedef struct repack_plan {
    live_map map;
    bool *gone;          /* by rows of packs: shall go, or has to */
    uint32_t *last_user; /* by rows of packs that go: the row of the youngest checkpoint that needs it */
    repack_unit *units;  /* that free more than they write */
    size_t unit_count;
} repack_plan;

/* Finds what is worth the work. CKPT_EDATA when a checkpoint is damaged: what it needs is not known then. `out` is for
 * repack_plan_clear, also after a failure. */
int repack_plan_new(repack_plan *out, const ckpt_store *store, ckpt_error *err);
void repack_plan_clear(repack_plan *plan);

/* Where frames are that checkpoints written anew can use. */
typedef struct repack_places repack_places;
int repack_places_new(repack_places **out, const live_map *map, const bool *gone, ckpt_error *err);
void repack_places_free(repack_places *places);

/* Writes the pack that holds the tables of a checkpoint, and those of its frames that have no place yet, and decodes
 * all its files against their SHA-256. *name is that of the new pack, which is durable, in the store and in the intent.
 * CKPT_ENOTFOUND: what it needs was removed meanwhile. */
int repack_pack(sha256 *name, uint64_t *size_bytes, repack_places *places, ckpt_store *store, struct intent *in,
                const snapshot_name *id, const snapshot *snap, ckpt_error *err);

/* Writes anew what is worth it. The numbers are added to `result`; in a dry run they are what is expected. */
int repack_run(ckpt_gc_result *result, ckpt_store *store, bool dry_run, ckpt_error *err);

#endif
