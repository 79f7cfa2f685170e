/* The store as its own modules see it: paths, the open packs, and the protocol that lets writers, readers and prune
 * work at the same time. One noun a file; the rooms of the house, each a folder of its own, from the inside out:
 *
 *   codec      codec*.c, planes*.c, context*.c, rans*.c, bit_coder.c, plan_shape.c, zstd_frame.c: chunks as fewer bytes
 *   packs      pack*.c, frame_*.c, tables.c, extents.c, kept.c, parity_dir.c: coded chunks as files, and where they are
 *   formats    tensor_file.c and file_*.c, on pickle*.c, torch_*.c, hdf5*.c, dcp.c, zip_*.c, shard_index.c: what of a
 *              file is tensors; tensor_name.c, dtype.c, numbers.c; whole*.c: has its program come to its end with it;
 *              json_bounded.c
 *   (here)     store.c, setting.c and feature.c: config.ini; snapshot.c; tag.c, name.c, list.c; fallback.c: `latest`
 *              when the newest is damaged
 *   (here)     intent.c: what a writer is about to refer to, and what prune sees of it
 *   save       walk.c: paths -> what is to be saved; save*.c: files -> extents -> frames -> pack -> snapshot;
 *              transform.c: lossy choices before it; reference.c: what new frames could be deltas of; level.c;
 *              lookup.c and segment.c: hash of bytes -> where; usage.c: the quota; writer.c: in the background
 *   read       content*.c: a checkpoint's files and tensors; restore*.c, diff.c, export*.c, bundle_*.c
 *   care       retention.c, metric.c: the policy as a pure function; prune.c, remove.c, gc.c, repack*.c, sweep.c: what
 *              goes; verify*.c, repair*.c, damaged.c: what is damaged; reach.c, live.c: which packs and
 *              frames a checkpoint needs; stats*.c
 *   (here)     text.c, pattern.c, hash_set.c, version.c */
#ifndef CKPT_STORE_INTERNAL_H
#define CKPT_STORE_INTERNAL_H

#include "snapshot.h"

#include "pool.h"

/* Threads of a store's pool, whatever -j says: each keeps up to 9 MiB (a chain of references on its way, its scratch,
 * and two chunks before and behind it), and saving, restoring and verifying stay below 96 MiB. */
#define STORE_WORKERS_MAX 8

struct ckpt_store {
    char path[FILE_PATH_MAX];      /* .../.ckpt */
    char packs_dir[FILE_PATH_MAX]; /* and so on */
    char snapshots_dir[FILE_PATH_MAX], tags_dir[FILE_PATH_MAX], intents_dir[FILE_PATH_MAX], tmp_dir[FILE_PATH_MAX],
        cache_dir[FILE_PATH_MAX], parity_dir[FILE_PATH_MAX], damaged_dir[FILE_PATH_MAX], config_path[FILE_PATH_MAX];
    pack_set *packs;
    unsigned pack_borrowers; /* saves and open contents */
    pool *pool;              /* NULL until store_pool() */
    unsigned threads;
    bool read_only; /* a read-only compatible feature bit is unknown, or the file system is read-only */
    ckpt_progress_fn progress;
    ckpt_note_fn note, warning;
    void *payload;
};

/* store.c */
int store_pool(pool **out, ckpt_store *store, ckpt_error *err); /* made on first use, of STORE_WORKERS_MAX at most */
int store_writable(const ckpt_store *store, ckpt_error *err);   /* CKPT_EVERSION or CKPT_EIO with a hint */
/* Who takes packs from store->packs borrows them until it returns them. When nobody does any more most are forgotten
 * and all are closed: a store may be open for days. */
void store_packs_borrow(ckpt_store *store);
void store_packs_return(ckpt_store *store);
void store_note(const ckpt_store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
void store_warn(const ckpt_store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes the caller's options over the defaults in `own`; both begin with their size, and the caller's may be that of an
 * older or newer library. NULL: the defaults stay. CKPT_EUSAGE when the size is not set. */
int store_options(void *own, size_t own_size, const void *given, ckpt_error *err);
struct ini;
int store_config_read(struct ini **out, const ckpt_store *store, ckpt_error *err); /* config.ini as it is now */
int store_config_new(char **text, ckpt_error *err); /* that of a new store, with an id of its own; malloc'ed */
/* May this program read a store with this config.ini? CKPT_EDATA, CKPT_EVERSION. `path` is for messages. */
int store_config_check(const struct ini *config, const char *path, ckpt_error *err);
/* Value of a key of config.ini ("retention", "keep"); *value is malloc'ed, NULL when it is not set. */
int store_config_get(char **value, const ckpt_store *store, const char *section, const char *key, ckpt_error *err);

#define NAME_PREFIX_MIN 4 /* digits of an id prefix */
/* name.c: resolves a name of a checkpoint to a snapshot name by one listing and as few reads as the form needs. */
int name_resolve(snapshot_name *out, ckpt_store *store, const char *name, ckpt_error *err);
/* May this be a tag? CKPT_EUSAGE says why not. */
int tag_check(const char *tag, ckpt_error *err);
/* tag.c: id of a tag; CKPT_ENOTFOUND. tags/NAME holds "<id>\n". */
int tag_read(sha256 *id, const ckpt_store *store, const char *tag, ckpt_error *err);
/* All tags, sorted by name. */
typedef struct tag_row {
    char *name;
    sha256 id;
} tag_row;
int tag_rows(tag_row **out, size_t *count, const ckpt_store *store, ckpt_error *err);
void tag_rows_free(tag_row *rows, size_t count);
/* remove.c: removes the tags of a checkpoint that is about to go, under the lease `prune`; without `force` one that has
 * any is CKPT_ECONFIRM. */
int tags_release(ckpt_store *store, const sha256 *id, bool force, ckpt_error *err);

/* intent.c
 *
 * A writer                                         Prune
 *   publishes intents/<random>.lease                 takes the lease intents/prune.lease (exclusive)
 *   waits while prune.lease is held                  lists intents; removes stale ones, keeps what live ones name, and
 *   lists snapshots, opens packs, takes those          removes no pack at all while a live one names none yet
 *     that are still there (intent_take)             removes snapshots, then packs
 *   ... writes the pack ...                          releases
 *   names it (intent_add), then commits it
 *   checks that all are there (intent_check)
 *   names its snapshot (intent_keep), commits it,
 *     tags it
 *   removes the intent
 *
 * Names stand in intents/<random>.packs. As whoever adds one then waits while prune.lease is held, either the writer
 * sees the lease or prune sees the name; what is there after that stays until the intent is closed. The new pack is
 * named because its bytes may be those of a pack that exists already, and that only a checkpoint about to be pruned
 * needs; the snapshot, so that it cannot go before it has its tag. */
#define INTENT_PACKS_MAX (1u << 16)
#define INTENT_WAIT_MS   60000

typedef struct intent intent;
/* CKPT_EBUSY when prune does not end in time. All waiting for others calls the store's progress, and tells a note when
 * it takes long. */
int intent_open(intent **out, ckpt_store *store, ckpt_error *err);
/* Names packs that exist and are about to be used. CKPT_ENOTFOUND when one was pruned just before; then none counts as
 * taken, and the writer goes on without. */
int intent_take(intent *in, const sha256 *packs, size_t count, ckpt_error *err);
/* Names packs whether they exist or not. A writer that uses none says so with a count of 0. */
int intent_add(intent *in, const sha256 *packs, size_t count, ckpt_error *err);
/* Names a snapshot that is about to be committed. */
int intent_keep(intent *in, const sha256 *snapshot_id, ckpt_error *err);
/* Do all packs taken and added still exist, and do others still believe us alive? CKPT_EDATA names the missing one;
 * CKPT_EBUSY. */
int intent_check(intent *in, ckpt_error *err);
void intent_close(intent *in); /* removes it; NULL is fine */

/* The lease `prune` alone, for what must not happen during a prune and is quickly done: tags and removals. */
struct lease;
int prune_lease_take(struct lease **out, const ckpt_store *store, uint32_t wait_ms, ckpt_error *err);

/* For prune: takes the lease, and afterwards tells whether a pack is protected by a live intent: because it names the
 * pack, or because the pack was written after it last named any. */
typedef struct prune_guard prune_guard;
int prune_guard_open(prune_guard **out, ckpt_store *store, ckpt_error *err); /* CKPT_EBUSY */
bool prune_guard_protects(const prune_guard *guard, const sha256 *name, int64_t pack_mtime);
bool prune_guard_keeps(const prune_guard *guard, const sha256 *snapshot_id);
size_t prune_guard_writers(const prune_guard *guard);             /* live intents */
int prune_guard_check(const prune_guard *guard, ckpt_error *err); /* is the lease still ours? CKPT_EBUSY */
void prune_guard_close(prune_guard *guard);

/* list.c: what callers see of a snapshot, whose strings it borrows; without tags. */
void info_fill(ckpt_info *out, const snapshot *s);

/* sweep.c: removes temporary files that no process holds any more. Where locks cannot tell, and of files made a moment
 * ago, only who knows that no writer is at work, `alone`, removes those of processes that are gone from this machine.
 * With `dry_run` it only counts. *bytes may be NULL. */
int sweep_tmp(uint64_t *bytes, const ckpt_store *store, bool alone, bool dry_run, ckpt_error *err);
/* Removes what killed restores left in a folder they restored into. */
void sweep_restored(const char *dir);
/* Removes the cache, which is derived: for a disk so full that not even a lease fits. */
int sweep_cache(const ckpt_store *store, ckpt_error *err);
/* Removes the segments of the cache none of whose packs is there any more. */
int sweep_segments(uint64_t *count, uint64_t *bytes, const ckpt_store *store, bool dry_run, ckpt_error *err);

/* lookup.c: cache/ maps the XXH3-128 of an extent to where such bytes lie. Only a hint: what it says is compared before
 * it is believed, so a stale or broken cache costs space, never data. Segments are immutable and sorted; each
 * names the packs it covers; small ones are merged; packs that none covers are read and added on open. */
#define LOOKUP_BYTES_MIN 1024 /* smaller extents are not worth a look-up, and none is kept */
typedef struct lookup lookup;
typedef struct lookup_hit {
    sha256 pack;
    uint32_t frame;
    uint64_t frame_offset;
} lookup_hit;
int lookup_open(lookup **out, ckpt_store *store, ckpt_error *err);
/* Up to `max` places of an extent with this hash and size; returns their number. */
size_t lookup_find(lookup_hit *hits, size_t max, lookup *l, hash128 hash, uint64_t size);
/* Adds the extents of a pack just written; a small one is left to the next lookup_open, which reads it for less than an
 * fsync costs. Failure to write the cache is no error: only CKPT_ENOMEM. */
int lookup_add(ckpt_store *store, const sha256 *name, const pack_index *index, ckpt_error *err);
void lookup_close(lookup *l);

#endif
