/* How much of the floats of a store has no pattern, measured on some chunks. */
#ifndef CKPT_STATS_RANDOM_H
#define CKPT_STATS_RANDOM_H

#include "store_internal.h"

#define STATS_RANDOM_CHUNKS 32

typedef struct stats_random_chunk {
    sha256 pack;
    uint32_t frame, chunk;
} stats_random_chunk;

/* Some of all chunks that were shown, each as likely as any other; the same ones for the same store. Zeroed it is
 * empty. */
typedef struct stats_random {
    stats_random_chunk chunks[STATS_RANDOM_CHUNKS];
    uint64_t shown, state;
} stats_random;

/* Shows the chunks of the tensors of a pack that are floats. */
void stats_random_show(stats_random *r, const pack *p);
/* Decodes the chosen ones; those that cannot be are left out. */
int stats_random_measure(double *share, uint64_t *chunks, const stats_random *r, ckpt_store *store, ckpt_error *err);

#endif
