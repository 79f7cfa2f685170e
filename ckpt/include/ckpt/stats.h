/* <ckpt/stats.h>: what a store takes, what it may, and what of it is for what.
 *
 *     ckpt_store *store = NULL;
 *     ckpt_stats stats;
 *     ckpt_error err;
 *     int rc = ckpt_store_open(&store, NULL, NULL, &err);
 *     if (!rc)
 *         rc = ckpt_stats_get(&stats, store, NULL, &err);
 *     if (!rc) {
 *         printf("%.1f MB\n", (double)(stats.pack_bytes + stats.snapshot_bytes) / 1e6);
 *         ckpt_stats_clear(&stats);
 *     } else
 *         fprintf(stderr, "%s\n", err.message);
 *     ckpt_store_close(store);
 *
 * The rules of <ckpt/store.h> hold. */
#ifndef CKPT_STATS_H
#define CKPT_STATS_H

#include <ckpt/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the store takes now, and what it may: from listings alone. */
typedef struct ckpt_usage {
    uint64_t store_bytes, disk_free_bytes;
    uint64_t quota_bytes; /* 0: none */
} ckpt_usage;
CKPT_API int ckpt_usage_get(ckpt_usage *out, ckpt_store *store, ckpt_error *err);

/* Frames, or their chunks, of one kind. */
typedef struct ckpt_stats_row {
    char name[64];
    uint64_t count, raw_bytes, coded_bytes;
} ckpt_stats_row;

typedef struct ckpt_stats_checkpoint {
    char id[CKPT_ID_SIZE];
    uint64_t raw_bytes;  /* of its files */
    uint64_t own_bytes;  /* of the pack that its save wrote, and the snapshot */
    uint64_t only_bytes; /* that no other checkpoint needs: what removing it alone would free */
} ckpt_stats_checkpoint;

typedef struct ckpt_stats {
    uint64_t checkpoints, packs, pack_bytes, snapshot_bytes, cache_bytes;
    uint64_t raw_bytes;         /* of all checkpoints, as if each were kept whole */
    uint64_t unreachable_bytes; /* packs that gc would remove */
    uint64_t held_bytes;        /* packs kept mostly since checkpoints are stored as differences from what is in them */
    uint64_t dead_bytes;        /* frames that no checkpoint needs, in packs that some do */
    uint64_t leftover_bytes;    /* temporary files of saves that were killed; gc removes them too */
    uint64_t disk_free_bytes;
    size_t class_count, level_count, mode_count;
    ckpt_stats_row *classes;     /* "weights", "exp_avg", "other bytes", ...: tensors; each frame counts once */
    ckpt_stats_row *levels;      /* "fast", "default", "max", "not told": frames */
    ckpt_stats_row *modes;       /* with ckpt_stats_options.modes, "planes", "sub", ...: chunks */
    ckpt_stats_checkpoint *rows; /* `checkpoints` of them, newest first; damaged ones have only an id */
    double random_share;         /* with modes: of the bytes of floats that were looked at, those without any pattern */
    uint64_t random_chunks;      /* chunks that were looked at for that */
    uint64_t parity_bytes;       /* from which ckpt_repair rebuilds packs */
    uint64_t damaged_bytes;      /* that ckpt_repair replaced; nothing but a person removes them */
} ckpt_stats;

typedef struct ckpt_stats_options {
    size_t size;
    bool modes; /* look at the coded chunks too, at one byte of each, and decode some */
} ckpt_stats_options;

/* What the store holds, counted from the tables of its packs. A pack that cannot be read is in `packs` and `pack_bytes`
 * only. *out is for ckpt_stats_clear, also after a failure.
 *
 * random_share: a byte plane of a chunk (the n-th bytes of all its values, or of their differences from the reference
 * where the frame has one) whose order-0 entropy is above 7.9 bits a byte counts as without a pattern. What is left
 * when all else is gone is about what lossless coding can reach at best. */
CKPT_API int ckpt_stats_get(ckpt_stats *out, ckpt_store *store, const ckpt_stats_options *options, ckpt_error *err);
CKPT_API void ckpt_stats_clear(ckpt_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
