/* Live: which frames of which packs the checkpoints need, told by tables alone.
 *
 *   snapshot -> own pack: extents -> frames (direct) -> references of those, and theirs (live, not direct)
 *
 * Packs are immutable, so a pack stays whole as long as one frame of it is live. */
#ifndef CKPT_LIVE_H
#define CKPT_LIVE_H

#include "reach.h"

/* A frame by the row of its pack in reach.packs. */
typedef struct live_at {
    uint32_t pack, frame; /* pack is PACK_NONE: none */
} live_at;

typedef struct live_frame {
    sha256 hash; /* of the decoded bytes */
    live_at reference;
    uint32_t coded_bytes;
    bool live;   /* a checkpoint needs it */
    bool direct; /* bytes of a checkpoint's file lie in it; else it is needed as a reference only */
} live_frame;

typedef struct live_pack {
    live_frame *frames;
    uint32_t frame_count;
    uint32_t use_first,
        use_count; /* of the own pack of a checkpoint: its frames in live_map.uses, each once in a row */
    uint64_t frame_bytes, live_bytes, direct_bytes; /* coded bytes of all frames, and of those */
} live_pack;

typedef struct live_checkpoint {
    snapshot_name name;
    uint32_t own;              /* row of its own pack, which is readable; PACK_NONE: it cannot tell what it needs */
    uint64_t bytes, raw_bytes; /* of the snapshot's file; of the checkpoint's */
} live_checkpoint;

typedef struct live_map {
    reach reach;
    live_pack *packs; /* by the rows of reach.packs */
    size_t checkpoint_count;
    live_checkpoint *checkpoints; /* newest first */
    live_at *uses;
    size_t use_count, use_capacity;
    char why[REACH_WHY_SIZE]; /* why not everything is known, that is, which checkpoint is damaged; "" */
} live_map;

/* Reads all snapshots and the tables of the packs that they need, or of `all`. Damage is no error, but leaves a `why`.
 * `out` is for live_map_clear, also after a failure. `visit`, which may be NULL, is called with each pack whose tables
 * are read. */
int live_map_new(live_map *out, const ckpt_store *store, bool all,
                 int (*visit)(void *payload, const pack *p, ckpt_error *err), void *payload, ckpt_error *err);
void live_map_clear(live_map *map);

static inline live_frame *live_frame_at(const live_map *map, live_at at)
{
    return &map->packs[at.pack].frames[at.frame];
}

/* The end of a frame's chain of references: what began the family of deltas that it belongs to. */
live_at live_root(const live_map *map, live_at at);

#endif
