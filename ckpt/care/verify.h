/* Verify: what its parts share.
 *
 *   verify.c        names, sizes, indexes, tags; the order of the work; the list of faults
 *   verify_pack.c   the SHA-256 of packs, by all cores
 *   verify_file.c   files decoded against their SHA-256, by all cores; which tensors a damage hurts
 *   verify_sample.c some chunks of all, by all cores
 *   verify_parity.c the parity of packs
 *   verify_state.c  what was found good before it was stopped */
#ifndef CKPT_VERIFY_H
#define CKPT_VERIFY_H

#include "hash_set.h"
#include "reach.h"
#include "store_internal.h"

#define VERIFY_FAULTS_MAX 10000

typedef struct verifier {
    ckpt_store *store;
    ckpt_verify_result *result;
    size_t fault_capacity;
    reach reach;
    uint64_t done_bytes, total_bytes;
    hash_set decoded;     /* files found good: hash over their SHA-256 and the places of their bytes */
    hash_set read;        /* packs whose bytes were found good */
    hash_set before;      /* of `decoded`, what an earlier verify found */
    bool keeps_state;     /* what was found good is written now and then */
    uint64_t state_bytes; /* done when it was written last */
    bool needed_only;     /* packs that none of the chosen checkpoints needs are left out */
} verifier;

/* Adds a fault to the result. `name` (of a pack) and `id` (of a checkpoint) may be NULL. What prune removed since it
 * was listed is no fault. */
int verify_fault(verifier *v, const sha256 *name, const snapshot_name *id, ckpt_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Counts work and tells the caller of it: CKPT_EINTERRUPTED. */
int verify_progress(verifier *v, uint64_t bytes, ckpt_error *err);

/* Is this pack among those that are looked at? */
static inline bool verify_wants(const verifier *v, const reach_pack *p)
{
    return !v->needed_only || p->needed;
}

/* Reads all packs whose index is good; those whose bytes are not those of their name get a `why` and a fault. */
int verify_packs(verifier *v, ckpt_error *err);

/* Decodes a share of all chunks of the packs whose index is good; packs with a fault get a `why`. Seed 0: a new one. */
int verify_sample(verifier *v, double share, uint64_t seed, ckpt_error *err);
int verify_parity(verifier *v, ckpt_error *err);

/* Decodes all files of a checkpoint that were not found good before. `found` counts the faults added. */
typedef struct file_verifier file_verifier;
int file_verifier_new(file_verifier **out, verifier *v, ckpt_error *err);
int file_verifier_run(size_t *found, file_verifier *f, const snapshot_name *id, const snapshot *s, ckpt_error *err);
void file_verifier_free(file_verifier *f);

/* Decodes all files of one checkpoint. `why` says what is damaged or missing; "" when all is as it was saved. */
int verify_checkpoint(char why[REACH_WHY_SIZE], ckpt_store *store, const snapshot_name *id, ckpt_error *err);
/* The same as if `s` were its snapshot. */
int verify_snapshot(char why[REACH_WHY_SIZE], ckpt_store *store, const snapshot_name *id, const snapshot *s,
                    ckpt_error *err);

#endif
