/* Snapshot: the root of one checkpoint, written last. What no snapshot names does not exist.
 *
 *   snapshots/<sequence, 8 digits>-<id>.json, at most 4 KiB:
 *   {"ckpt":1,
 *    "content":{"files":2,"message":"...","meta":{"val_acc":"0.93"},"raw_bytes":841092,"sequence":3,"step":500,
 *               "time":1700000000,"tree":"<sha256>"},
 *    "data":{"pack":"<sha256>","stored_bytes":612345}}
 *
 * id is the SHA-256 of the content written as JSON with sorted keys, no blanks, UTF-8 (json.dumps(content,
 * sort_keys=True, separators=(",", ":"), ensure_ascii=False) in Python). "step" is null when there is none. "tree" is
 * pack_index_tree() of the pack's files. "data" says where the bytes lie and may be replaced without changing the id.
 */
#ifndef CKPT_SNAPSHOT_H
#define CKPT_SNAPSHOT_H

#include "pack.h"

#define SNAPSHOT_BYTES_MAX 4096
#define SNAPSHOT_COUNT_MAX 1000000

typedef struct snapshot {
    uint64_t sequence, files, raw_bytes, stored_bytes;
    int64_t time, step;
    sha256 id, tree, pack;
    char *message;
    ckpt_value *meta; /* sorted by key */
    size_t meta_count;
} snapshot;

/* Checks UTF-8, absence of control characters (but tab and newline), keys, sizes: CKPT_EUSAGE. */
int snapshot_set_meta(snapshot *s, const char *message, const ckpt_value *meta, size_t meta_count, ckpt_error *err);
/* The file's text; computes s->id. */
int snapshot_encode(char **text, size_t *size, snapshot *s, ckpt_error *err);
/* Reads and checks: JSON, limits, that id is the hash of content. CKPT_EDATA, CKPT_EVERSION. */
int snapshot_decode(snapshot *s, const char *text, size_t size, ckpt_error *err);
void snapshot_clear(snapshot *s);
/* The text of a snapshot with the part `data` about another pack of `pack_bytes`; all else, also what this version does
 * not know, stays, and so does the id. */
int snapshot_repoint(char **out, size_t *out_size, const char *text, size_t size, const sha256 *pack_name,
                     uint64_t pack_bytes, ckpt_error *err);

/* Names of the snapshot files, from one listing; newest first (sequence, then id, descending). */
typedef struct snapshot_name {
    uint64_t sequence;
    sha256 id;
} snapshot_name;
int snapshot_names(snapshot_name **out, size_t *count, const char *snapshots_dir, ckpt_error *err);
/* The first of those names alone, without sorting the others; *any is false in an empty store. */
int snapshot_newest(bool *any, snapshot_name *out, const char *snapshots_dir, ckpt_error *err);
int snapshot_path(char out[FILE_PATH_MAX], const char *snapshots_dir, const snapshot_name *name, ckpt_error *err);
/* Reads one; CKPT_EDATA also when the file's name does not agree with its content. */
int snapshot_read(snapshot *s, const char *snapshots_dir, const snapshot_name *name, ckpt_error *err);
/* Lets a snapshot name the pack `to` of `pack_bytes` in place of `from`. Only under the lease `prune`, which keeps
 * what `to` needs and the snapshot where they are. *moved is false when it was removed meanwhile; CKPT_EBUSY when it
 * does not name `from` any more. */
int snapshot_move(bool *moved, const char *snapshots_dir, const char *tmp_dir, const snapshot_name *id,
                  const sha256 *from, const sha256 *to, uint64_t pack_bytes, ckpt_error *err);
/* The sequence number for a new one, given all names: that of the newest readable one, and then up to the first that no
 * file has. A damaged one says nothing, as its name may be what is damaged. */
int snapshot_next_sequence(uint64_t *out, const snapshot_name *names, size_t count, const char *snapshots_dir,
                           ckpt_error *err);

#endif
