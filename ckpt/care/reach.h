/* Reach: which packs the store holds, and which of them its checkpoints need.
 *
 *   snapshot -> own pack (its index has the checkpoint's tables) -> every other pack that decoding needs
 *
 * The own pack's table of packs is complete (pack.h), so that two steps reach everything. Indexes are read once, when
 * first asked for. */
#ifndef CKPT_REACH_H
#define CKPT_REACH_H

#include "store_internal.h"

#define REACH_PACKS_MAX 4000000

typedef struct reach_pack {
    sha256 name;
    uint64_t size;
    int64_t mtime;
    bool read;   /* its index was asked for */
    bool needed; /* by a checkpoint for which reach_need() was called */
    bool own;    /* and it is that checkpoint's own */
    char *why;   /* why its index cannot be used; NULL: it can, or was not read yet */
    uint32_t *needs;
    uint32_t need_count;
    bool lacks; /* it names a pack that is not here */
    sha256 lacking;
} reach_pack;

typedef struct reach {
    const ckpt_store *store;
    reach_pack *packs; /* sorted by name */
    uint32_t count;
    size_t capacity;
    /* Called with each pack whose index is read; its non-zero return ends the reading. NULL: nobody looks. */
    int (*visit)(void *payload, const pack *p, ckpt_error *err);
    void *payload;
} reach;

/* Lists packs/. */
int reach_new(reach *out, const ckpt_store *store, ckpt_error *err);
void reach_clear(reach *r);
/* NULL when the store has no such pack. */
reach_pack *reach_find(const reach *r, const sha256 *name);
/* Reads the index of a pack. A damaged or missing pack is not an error but has a `why`. */
int reach_read(reach *r, reach_pack *p, ckpt_error *err);

/* Bytes of the packs that are needed and nobody's own. */
uint64_t reach_held_bytes(const reach *r);

#define REACH_WHY_SIZE 320
/* Is everything there that the checkpoint with this own pack needs, as far as names, sizes and indexes tell? `why` says
 * what is wrong and *at_fault (which may be NULL) with which pack; "" when nothing is. */
int reach_check(char why[REACH_WHY_SIZE], sha256 *at_fault, reach *r, const sha256 *own_pack, ckpt_error *err);
/* Marks what the checkpoint needs. *known is false when that cannot be told, because its own pack is missing or
 * damaged. */
int reach_need(bool *known, reach *r, const sha256 *own_pack, ckpt_error *err);

#endif
