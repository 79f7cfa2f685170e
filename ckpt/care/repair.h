/* Repair: what its parts share.
 *
 *   repair.c           the order of the work, the rows that tell of it
 *   repair_survey.c    which packs there are, which of them are damaged or missing, whom that hurts
 *   repair_cure.c      one pack from whatever has it: its own ends, parity, a second store, a file of another name
 *   repair_frames.c    one pack whose damaged frames stand elsewhere with equal bytes
 *   repair_snapshot.c  snapshots that cannot be read, and packs that no snapshot names
 *   repair_parity.c    parity that is damaged, or that is to be added
 *
 * Nothing takes the place of a damaged file before that is kept (damaged.h), and a pack takes its place only when its
 * bytes have the SHA-256 of its name. Long work is done without the lease `prune`; each step that changes what others
 * see holds it. */
#ifndef CKPT_REPAIR_H
#define CKPT_REPAIR_H

#include "hash_set.h"
#include "reach.h"
#include "store_internal.h"

#define REPAIR_ROUNDS_MAX 8 /* a mended pack may tell of others that are missing */
#define REPAIR_ROWS_MAX   10000

/* A snapshot of the listing. */
typedef struct repair_entry {
    snapshot_name name;
    snapshot snap;
    bool readable;
} repair_entry;

/* A file in packs/ that has not the bytes of its name: they may be another pack's. */
typedef struct repair_stray {
    sha256 name, bytes; /* SHA-256 of both */
} repair_stray;

/* A checkpoint needs a pack that is missing. */
typedef struct repair_want {
    sha256 id, pack;
} repair_want;

/* A pack that is damaged or missing. */
typedef struct repair_patient {
    sha256 name;
    bool missing; /* no file has its name */
    bool needed;  /* by a readable checkpoint, or perhaps by one that cannot be read */
    bool indexed; /* its tables can be read */
    char why[REACH_WHY_SIZE];
} repair_patient;

typedef struct repairer {
    ckpt_store *store, *other; /* the other one may be NULL */
    bool dry_run, adopt;
    double parity;
    ckpt_repair_result *result;
    size_t row_capacity;
    uint64_t done_bytes, total_bytes;
    bool changed; /* something was mended, so that the cache may tell of what is gone */

    /* The survey. */
    reach reach;
    size_t entry_count;
    repair_entry *entries; /* newest first */
    bool unknown;          /* a checkpoint cannot tell what it needs */
    hash_set sound;        /* packs whose bytes were read and are right */
    size_t patient_count, patient_capacity;
    repair_patient *patients;
    size_t stray_count, stray_capacity;
    repair_stray *strays;
    size_t want_count, want_capacity;
    repair_want *wants;
} repairer;

/* ---- repair.c ---- */
/* The row of a thing, new or from an earlier round, without state and action; it lives until the next call. */
int repair_row(ckpt_repair_row **out, repairer *r, const char *kind, const char *name, ckpt_error *err);
void repair_say(char *field, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define REPAIR_SAY(field, ...) repair_say((field), sizeof(field), __VA_ARGS__)
int repair_progress(repairer *r, uint64_t bytes, ckpt_error *err);
/* Puts a finished file in the place of `path`; what stands there is kept. */
int repair_commit(repairer *r, file_tmp *tmp, const char *path, ckpt_error *err);
/* Moves a pack to damaged/, unless a checkpoint needs it, also one that came meanwhile, or a running save may: *moved.
 */
int repair_set_aside(bool *moved, repairer *r, const sha256 *pack, ckpt_error *err);

/* ---- repair_survey.c ---- */
/* Lists and reads anew; packs found sound before are not read again. */
int repair_survey(repairer *r, ckpt_error *err);
void repair_survey_clear(repairer *r);
int repair_entries_read(repairer *r, ckpt_error *err); /* the snapshots alone */
bool repair_needs(const repairer *r, const repair_entry *e, const sha256 *pack);
/* Does a checkpoint need the pack, or may one that cannot be read, as the store is now? Under the lease `prune` the
 * answer stays true. */
int repair_needs_now(bool *needed, const repairer *r, const sha256 *pack, ckpt_error *err);

/* ---- repair_cure.c ---- */
typedef enum cure_kind { CURE_NONE = 0, CURE_ENDS, CURE_COPY, CURE_PARITY, CURE_FRAMES } cure_kind;
typedef struct cure {
    cure_kind kind;
    char from[FILE_PATH_MAX]; /* CURE_COPY */
    uint64_t size;            /* of the pack that it gives */
    char state[320], action[320];
} cure;
/* Looks for what gives the pack back, without writing. */
int cure_find(cure *out, repairer *r, const repair_patient *p, ckpt_error *err);
/* Makes the pack and puts it in its place. What turns out not to have its bytes becomes CURE_NONE, with a `state`. */
int cure_apply(cure *c, repairer *r, const repair_patient *p, ckpt_error *err);

/* ---- repair_frames.c ---- */
/* Where a pack cannot be had as it was, but each of its damaged frames stands elsewhere: writes it, and the packs that
 * name it, anew under other names, and lets their snapshots point there. *mended: that was (or, in a dry run, would be)
 * done. */
int frames_cure(bool *mended, char state[320], char action[320], repairer *r, const repair_patient *p, ckpt_error *err);

/* ---- repair_snapshot.c ---- */
int repair_snapshots(repairer *r, ckpt_error *err);

/* ---- repair_parity.c ---- */
int repair_parities(repairer *r, ckpt_error *err);

#endif
