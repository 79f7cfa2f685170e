/* Verify: what its parts share.
 *
 *   verify.c        names, sizes, indexes, tags; the order of the work; the list of faults
 *   verify_pack.c   the SHA-256 of packs, by all cores
 *   verify_file.c   files decoded against their SHA-256, by all cores; which tensors a damage hurts */
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
    hash_set decoded; /* files found good: hash over their SHA-256 and the places of their bytes */
} verifier;

/* Adds a fault to the result. `name` (of a pack) and `id` (of a checkpoint) may be NULL. What prune removed since it
 * was listed is no fault. */
int verify_fault(verifier *v, const sha256 *name, const snapshot_name *id, ckpt_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Counts work and tells the caller of it: CKPT_EINTERRUPTED. */
int verify_progress(verifier *v, uint64_t bytes, ckpt_error *err);

/* Reads all packs whose index is good; those whose bytes are not those of their name get a `why` and a fault. */
int verify_packs(verifier *v, ckpt_error *err);

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
