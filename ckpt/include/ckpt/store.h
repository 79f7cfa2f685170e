/* <ckpt/store.h>: a store that keeps every checkpoint of a training in a fraction of the space, bit-exact.
 *
 * Simple use
 *
 *     const char *paths[] = {"runs/exp1"};
 *     const ckpt_restore_options elsewhere = {.size = sizeof elsewhere, .dir = "out"};
 *     ckpt_store *store = NULL;
 *     ckpt_save_result saved;
 *     ckpt_error err;
 *     int rc = ckpt_store_open(&store, NULL, NULL, &err);     // the nearest .ckpt upwards
 *     if (!rc)
 *         rc = ckpt_save_files(&saved, store, paths, 1, NULL, &err);
 *     if (!rc)
 *         rc = ckpt_restore_files(NULL, store, "latest", &elsewhere, &err);
 *     if (rc)
 *         fprintf(stderr, "%s\n", err.message);
 *     ckpt_store_close(store);
 *
 * Rules that hold everywhere
 *
 * - Functions return 0 or a code of <ckpt/error.h>. `err` may be NULL.
 * - Out parameters come first, the object next, options after. An options pointer may be NULL for all defaults; else
 *   its first member `size` must be sizeof the struct, so that a newer library understands older callers.
 * - What a function hands out through a pointer to a pointer belongs to the caller and has a `_free` or `_close`, which
 *   takes NULL. ckpt_store_open and ckpt_list_new begin by setting it to NULL; the others leave it as it was when they
 *   fail. So a pointer that starts as NULL may be freed whatever happened.
 *   `const char *` members of such an object live as long as the object.
 * - A `ckpt_store`, and what was opened from it, may be used by one thread at a time; several stores, also on one
 *   folder, by several threads. A `ckpt_writer` may be used by several threads until it is closed.
 * - Names of checkpoints: a tag, `latest`, `best`, `step:1500`, a prefix of an id; each with `~N` for N before it. */
#ifndef CKPT_STORE_H
#define CKPT_STORE_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CKPT_ID_SIZE        65   /* 64 hexadecimal digits and the final 0 */
#define CKPT_RANK_MAX       16   /* dimensions of a tensor */
#define CKPT_META_BYTES_MAX 2048 /* message, keys and values of one checkpoint together */
#define CKPT_META_PAIRS_MAX 64
#define CKPT_TAG_BYTES_MAX  200
#define CKPT_STEP_NONE      (-1)
#define CKPT_META_LOSSY     "lossy" /* key of the value that says what a lossy save did to the tensors */
#define CKPT_LOSSY_SIZE     512

CKPT_API const char *ckpt_version(void); /* "0.1.0" */

/* ---- Tensors ---------------------------------------------------------------------------------------------------- */

/* Numbers are part of the store's format (docs/format.md) and never change. */
typedef enum ckpt_dtype {
    CKPT_OPAQUE = 0, /* bytes of unknown meaning */
    CKPT_BOOL = 1,
    CKPT_U8 = 2,
    CKPT_I8 = 3,
    CKPT_U16 = 4,
    CKPT_I16 = 5,
    CKPT_U32 = 6,
    CKPT_I32 = 7,
    CKPT_U64 = 8,
    CKPT_I64 = 9,
    CKPT_F16 = 10,
    CKPT_BF16 = 11,
    CKPT_F32 = 12,
    CKPT_F64 = 13,
    CKPT_C64 = 14,  /* two F32 */
    CKPT_C128 = 15, /* two F64 */
    CKPT_F8_E4M3 = 16,
    CKPT_F8_E5M2 = 17
} ckpt_dtype;

CKPT_API const char *ckpt_dtype_name(ckpt_dtype dtype); /* "f32"; "opaque" for 0; NULL for a number not in the list */
CKPT_API size_t ckpt_dtype_size(ckpt_dtype dtype);      /* bytes of an element; 1 for CKPT_OPAQUE */

/* A tensor in the caller's memory: dense, in row-major order, little-endian. */
typedef struct ckpt_tensor {
    const char *name;
    ckpt_dtype dtype;
    unsigned rank;
    uint64_t shape[CKPT_RANK_MAX];
    void *data; /* read by saving, written by restoring; product of shape times ckpt_dtype_size bytes */
} ckpt_tensor;

/* A string beside the tensors. Other kinds of values are the caller's to spell (exact floats as hexadecimal). */
typedef struct ckpt_value {
    const char *key, *value;
} ckpt_value;

/* ---- Opening ---------------------------------------------------------------------------------------------------- */

typedef struct ckpt_store ckpt_store;

/* Called now and then during long work with bytes done and in all; a non-zero return stops the work with
 * CKPT_EINTERRUPTED, leaving the store as it was. */
typedef int (*ckpt_progress_fn)(void *payload, uint64_t done_bytes, uint64_t total_bytes);
/* Receives one line about something that is not an error (a file saved as opaque bytes and why, a fallback). */
typedef void (*ckpt_note_fn)(void *payload, const char *note);

typedef struct ckpt_open_options {
    size_t size;
    unsigned threads; /* 0: as many as the machine allows this process */
    ckpt_progress_fn progress;
    ckpt_note_fn note;
    void *payload;        /* for all of them */
    ckpt_note_fn warning; /* instead of `note` for what is trouble already: a file that looks cut off; NULL: `note` */
} ckpt_open_options;

/* Creates `dir`/.ckpt with its folders and a config.ini whose retention fits a 5 GB disk. An existing complete store is
 * left as it is and CKPT_OK returned with *existed true; one whose creation was cut short is completed. */
CKPT_API int ckpt_store_init(bool *existed, const char *dir, ckpt_error *err);
/* Sets what config.ini says from now on: "parity" of new packs ("5%", "0%": none), "quota" of the store ("4G", "0":
 * none), "keep" (a policy) and "best" ("val_acc max") of the retention. CKPT_EUSAGE: no such key, or value of it. */
CKPT_API int ckpt_setting_set(ckpt_store *store, const char *key, const char *value, ckpt_error *err);

/* Opens the store at `path`: a .ckpt folder, its parent, or (with path NULL) CKPT_STORE, else the nearest .ckpt upwards
 * from the current folder. Errors: CKPT_ENOSTORE, CKPT_EVERSION, CKPT_EIO. */
CKPT_API int ckpt_store_open(ckpt_store **out, const char *path, const ckpt_open_options *options, ckpt_error *err);
CKPT_API void ckpt_store_close(ckpt_store *store);             /* NULL is fine */
CKPT_API const char *ckpt_store_path(const ckpt_store *store); /* absolute path of the .ckpt folder */

/* ---- Saving ----------------------------------------------------------------------------------------------------- */

/* What stat(2) says of one state of a file. */
typedef struct ckpt_file_mark {
    uint64_t size, inode;
    int64_t mtime_ns;
} ckpt_file_mark;

/* How much time a save may take to make its bytes fewer. Whatever it is, restoring gives the same bytes. */
typedef enum ckpt_level {
    CKPT_LEVEL_DEFAULT = 0, /* looks for references and repeats where samples say that they pay */
    CKPT_LEVEL_FAST = 1,    /* a keyframe, beside bytes that the store has already; near the speed of the disk */
    CKPT_LEVEL_MAX = 2      /* tries all that may pay on each chunk; several times as slow, and restored half as fast */
} ckpt_level;

CKPT_API const char *ckpt_level_name(ckpt_level level); /* "fast"; NULL for a number not in the list */

typedef struct ckpt_save_options {
    size_t size;
    const char *message;    /* NULL: none */
    int64_t step;           /* CKPT_STEP_NONE: none */
    const ckpt_value *meta; /* val_acc=0.93 ...; keys of letters, digits, `_ . -` */
    size_t meta_count;
    const char *tag; /* also tag it, moving a tag of that name; NULL: no */
    ckpt_level level;
    /* Lossy, before the save; only of safetensors files and memory. Weights are what no optimizer keeps. */
    bool optimizer_bf16; /* f32 of an optimizer are rounded to the nearest bf16, with zeros below */
    bool weights_only;   /* only weights are kept */
    const char *const *drop;
    size_t drop_count; /* tensors whose names fit one of these patterns are left out: `*` any text, `?` one character */
    /* For files that another program overwrites again and again. */
    bool from_copy;  /* each is copied within the store first, where it has to stand still for the shortest time */
    bool whole_only; /* one that looks cut off is CKPT_EFORMAT instead of a warning */
    double parity;   /* write so large a share of parity, 0.05 for 5 %, for ckpt_repair; 0: as config.ini says */
    const ckpt_file_mark *expected; /* NULL, or one for each path: a file in another state is CKPT_ECHANGED. Of folders
                                     * nothing is compared. */
} ckpt_save_options;

#define CKPT_SAVE_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(ckpt_save_options), NULL, CKPT_STEP_NONE, NULL, 0, NULL, CKPT_LEVEL_DEFAULT, false, false, NULL, 0,     \
            false, false, 0, NULL                                                                                      \
    }

typedef struct ckpt_save_result {
    char id[CKPT_ID_SIZE];
    uint64_t sequence;
    uint64_t files, tensors; /* folders and links are not counted */
    uint64_t raw_bytes;      /* of all files */
    uint64_t stored_bytes;   /* what this save added to the store: pack and snapshot */
    uint64_t coded_bytes;    /* of these, coded chunks */
    uint64_t shared_bytes;   /* raw bytes that were in the store already */
    /* What was rounded and left out, as the meta says too: "optimizer bf16: 62 tensors, largest relative error ..." */
    char lossy[CKPT_LOSSY_SIZE];
} ckpt_save_result;

/* Saves files and folders as one checkpoint, durable when it returns. A path under the current folder keeps its
 * relative path, any other its last component; two paths with one name are CKPT_EUSAGE. A store is never part of a
 * save. Errors: CKPT_ENOTFOUND (no such file), CKPT_ECHANGED (a file kept changing), CKPT_ENOSPC, CKPT_EIO, CKPT_EBUSY.
 * Where quota or disk leave too little room, the policy of the config is applied if that makes enough (a note tells);
 * else nothing is removed, and CKPT_EQUOTA or CKPT_ENOSPC tell how much is needed, free, and could be freed.
 *
 * `result` may be NULL. The tag comes last: when it alone fails, its error is returned, but the checkpoint is saved,
 * and result->id names it. After any other failure result->id is "". */
CKPT_API int ckpt_save_files(ckpt_save_result *result, ckpt_store *store, const char *const *paths, size_t count,
                             const ckpt_save_options *options, ckpt_error *err);

/* Saves tensors from memory as the file `file_name` (NULL: "state.safetensors"; folders may stand in front, as in
 * "run1/state.safetensors") in the safetensors format, `values` in its metadata. Names must be unique. The memory must
 * not change until the call returns; see ckpt_writer otherwise. Result and errors as for ckpt_save_files. */
CKPT_API int ckpt_save_tensors(ckpt_save_result *result, ckpt_store *store, const char *file_name,
                               const ckpt_tensor *tensors, size_t count, const ckpt_value *values, size_t value_count,
                               const ckpt_save_options *options, ckpt_error *err);

/* Background writer: one save in flight and one staged.
 *
 *   submit ── copies the state into pre-faulted memory and returns
 *   thread ── in flight ──> committed        a newer ordinary save replaces the staged one (counted)
 *              staged                        tagged and final saves are never replaced
 *
 * The state committed last stays in memory too, since the next one is coded against it: up to three copies of the state
 * are held, two where no save is slower than the rhythm they come in, and the memory that a save works with.
 *
 * An error of the background is returned once, by the next submit, wait or close; it is never swallowed. Of several
 * that nobody has asked for yet the first is kept, and all are counted. The writer opens the store a second time, so
 * the caller's own handle stays free. */
typedef struct ckpt_writer ckpt_writer;

typedef enum ckpt_importance {
    CKPT_ORDINARY = 0, /* may be replaced by a newer one before it is written */
    CKPT_BEST = 1,     /* replaced by a newer best only */
    CKPT_KEEP = 2      /* tagged, final, on a signal: never replaced; a second one waits */
} ckpt_importance;

typedef struct ckpt_writer_stats {
    uint64_t submitted; /* each of these becomes one of the next four */
    uint64_t committed, replaced, dropped, failed;
    double blocked_seconds; /* time spent inside submit, in all */
    ckpt_save_result last;
    uint64_t pruned_checkpoints, pruned_bytes; /* removed by ckpt_writer_prune */
    uint64_t raw_bytes, stored_bytes;          /* of all that were committed */
} ckpt_writer_stats;

/* Opens the store (`store_path` and errors as for ckpt_store_open) and starts the thread, which runs with all signals
 * blocked, calls the callbacks of `options` and, on Linux, gives way to the threads of the program. */
CKPT_API int ckpt_writer_open(ckpt_writer **out, const char *store_path, const ckpt_open_options *options,
                              ckpt_error *err);
/* Makes ready for states of so many bytes, so that not even the first submits have to wait for fresh memory. Before the
 * first submit; CKPT_EUSAGE afterwards, CKPT_ENOMEM. */
CKPT_API int ckpt_writer_reserve(ckpt_writer *writer, uint64_t bytes, ckpt_error *err);
/* Copies the state, which the thread saves as ckpt_save_tensors does, and returns. What makes no sense is refused here,
 * with nothing staged or replaced, and so is what there is no memory for. With "an earlier save failed: ..." or "an
 * earlier prune failed: ..." this one is staged all the same. */
CKPT_API int ckpt_writer_submit(ckpt_writer *writer, const char *file_name, const ckpt_tensor *tensors, size_t count,
                                const ckpt_value *values, size_t value_count, const ckpt_save_options *options,
                                ckpt_importance importance, ckpt_error *err);
/* Asks the thread to apply a retention policy, as ckpt_prune does with `keep` (NULL: that of the config) and `among`,
 * which is copied, when what is staged or in flight now has been written; returns at once. Of requests that wait for
 * the same save only the newest is carried out.
 * A failure is told like that of a save, as "an earlier prune failed: ..." by submit and "a prune failed: ..." by wait
 * and close; but CKPT_EBUSY is none: another prune does the work. CKPT_EUSAGE: `keep` is not a policy, and nothing was
 * asked for. */
CKPT_API int ckpt_writer_prune(ckpt_writer *writer, const char *keep, const ckpt_value *among, ckpt_error *err);
CKPT_API int ckpt_writer_wait(ckpt_writer *writer, ckpt_error *err); /* until all that was asked for is done */
CKPT_API void ckpt_writer_stats_get(ckpt_writer_stats *out, ckpt_writer *writer);
CKPT_API int ckpt_writer_close(ckpt_writer *writer, ckpt_error *err); /* waits, then frees, also when it fails */

/* ---- Listing ---------------------------------------------------------------------------------------------------- */

typedef struct ckpt_info {
    char id[CKPT_ID_SIZE];
    uint64_t sequence;
    int64_t time;   /* seconds since 1970, UTC */
    int64_t step;   /* or CKPT_STEP_NONE */
    uint64_t files; /* with folders and links */
    uint64_t raw_bytes, stored_bytes;
    const char *message; /* "" when none */
    size_t meta_count;
    const ckpt_value *meta;
    size_t tag_count;
    const char *const *tags;
} ckpt_info;

/* All checkpoints, newest first. */
typedef struct ckpt_list ckpt_list;
CKPT_API int ckpt_list_new(ckpt_list **out, ckpt_store *store, ckpt_error *err);
CKPT_API size_t ckpt_list_count(const ckpt_list *list);
CKPT_API const ckpt_info *ckpt_list_get(const ckpt_list *list, size_t i);
CKPT_API void ckpt_list_free(ckpt_list *list);

/* Resolves a name and writes the full id; CKPT_ENOTFOUND with a hint (near names, what exists), CKPT_EUSAGE when an id
 * prefix fits several. */
CKPT_API int ckpt_find(char id[CKPT_ID_SIZE], ckpt_store *store, const char *name, ckpt_error *err);

/* Files and tensors of one checkpoint, or of a plain file on disk. */
typedef enum ckpt_file_kind { CKPT_FILE = 0, CKPT_FOLDER = 1, CKPT_LINK = 2 } ckpt_file_kind;

typedef struct ckpt_file_info {
    const char *path;
    ckpt_file_kind kind;
    unsigned mode; /* permission bits */
    uint64_t size;
    char sha256[CKPT_ID_SIZE]; /* "" for folders and links, and for a plain file that cannot be read */
    const char *link_target;   /* "" but for links */
    const char *format;        /* "torch", "safetensors", "npy", "npz", "distcp", "hdf5", "keras", "opaque"; "" for
                                  folders and links */
    size_t tensor_first, tensor_count;
    const char *level;   /* at which its bytes were saved: "fast", "default", "max", "mixed"; "" when it is not known */
    const char *refusal; /* of a plain file: why it is "opaque", though it looks like one of a format; else "" */
} ckpt_file_info;

typedef struct ckpt_tensor_info {
    const char *name;
    ckpt_dtype dtype;
    unsigned rank;
    uint64_t shape[CKPT_RANK_MAX];
    int64_t stride[CKPT_RANK_MAX]; /* in elements, as stored; row-major when the tensor is contiguous */
    bool contiguous;               /* row-major without gaps */
    size_t file;                   /* which file holds it */
    uint64_t bytes;                /* elements times size of an element */
} ckpt_tensor_info;

typedef struct ckpt_content ckpt_content;
/* `name` as for ckpt_find. With `latest` and a damaged newest checkpoint the newest good one is opened and a note
 * given. */
CKPT_API int ckpt_content_open(ckpt_content **out, ckpt_store *store, const char *name, ckpt_error *err);
/* Opens a checkpoint, calls `use` with it, and closes it. Not all damage shows when it is opened: with `latest`, when
 * `use` returns CKPT_EDATA (because a read did), the next older one is opened and `use` called again, until one is
 * good; a note then tells which. Returns what `use` returned last, which also fills `err`. */
typedef int (*ckpt_content_fn)(void *payload, ckpt_content *content, ckpt_error *err);
CKPT_API int ckpt_content_use(ckpt_store *store, const char *name, ckpt_content_fn use, void *payload, ckpt_error *err);
/* A plain file of any format that ckpt reads, or a folder of files, whose paths are then those below it; needs no
 * store. */
CKPT_API int ckpt_content_open_file(ckpt_content **out, const char *path, ckpt_error *err);
CKPT_API const ckpt_info *ckpt_content_info(const ckpt_content *content); /* NULL for a plain file */
CKPT_API size_t ckpt_content_file_count(const ckpt_content *content);
/* Of a plain file the first call reads all bytes for their SHA-256. */
CKPT_API const ckpt_file_info *ckpt_content_file(const ckpt_content *content, size_t i);
CKPT_API size_t ckpt_content_tensor_count(const ckpt_content *content);
CKPT_API const ckpt_tensor_info *ckpt_content_tensor(const ckpt_content *content, size_t i);
CKPT_API size_t ckpt_content_value_count(const ckpt_content *content, size_t file); /* safetensors metadata */
CKPT_API int ckpt_content_value(ckpt_value *out, const ckpt_content *content, size_t file,
                                size_t i); /* CKPT_ENOTFOUND beyond the last */
/* Copies elements [first, first + count) of tensor i, in row-major order of its shape whatever its strides, to dst. */
CKPT_API int ckpt_content_read(void *dst, ckpt_content *content, size_t tensor, uint64_t first, uint64_t count,
                               ckpt_error *err);
/* How a tensor of a checkpoint is stored. */
typedef struct ckpt_stored_tensor {
    const char *mode;     /* "planes", "sub", ...: of most of its bytes; "" when it is in no frame */
    uint64_t coded_bytes; /* its share of what small tensors have together */
    unsigned depth;       /* references that follow one another behind it */
} ckpt_stored_tensor;
CKPT_API int ckpt_content_stored(ckpt_stored_tensor *out, ckpt_content *content, size_t tensor, ckpt_error *err);
CKPT_API void ckpt_content_close(ckpt_content *content);

/* Has the program that writes a file or folder come to its end with it? */
#define CKPT_WHY_SIZE 256
typedef enum ckpt_file_state {
    CKPT_FILE_UNKNOWN = 0, /* of a format that does not tell, or malformed in another way */
    CKPT_FILE_WHOLE = 1,
    CKPT_FILE_CUT_OFF = 2 /* ends before what its beginning promises, is empty, or lacks a part */
} ckpt_file_state;

/* Judges a file by its own structure; needs no store, and takes no time into account. A folder is whole when no file in
 * it is cut off, one at least is whole, and all parts are there: the shards of each *.index.json, what `.metadata` of
 * distributed checkpoints names, trainer_state.json in checkpoint-N. `why`, which may be NULL, says in one line what is
 * missing or wrong, "" otherwise. Errors: CKPT_ENOTFOUND, CKPT_EIO, CKPT_ENOMEM. */
CKPT_API int ckpt_file_check(ckpt_file_state *state, char why[CKPT_WHY_SIZE], const char *path, ckpt_error *err);

/* ---- Restoring -------------------------------------------------------------------------------------------------- */

typedef struct ckpt_restore_options {
    size_t size;
    const char *dir; /* where to; NULL: the current folder, at the saved relative paths */
    bool overwrite;  /* without it a differing existing file is CKPT_ECONFIRM, before anything is written */
    bool dry_run;    /* only check what would be overwritten */
    const char *const *only;
    size_t only_count; /* files that fit one of these patterns, or are in a folder that does; others are left alone */
} ckpt_restore_options;

typedef struct ckpt_restore_result {
    char id[CKPT_ID_SIZE]; /* what was restored; not the newest when that one is damaged */
    uint64_t files, bytes;
    uint64_t unchanged_files; /* were there already, byte for byte */
    bool fell_back;
} ckpt_restore_result;

/* Every file appears under its name only when its SHA-256 is right. `result` may be NULL. With `latest` and a damaged
 * newest checkpoint the newest good one is restored and a note given; so it is with tensors. */
CKPT_API int ckpt_restore_files(ckpt_restore_result *result, ckpt_store *store, const char *name,
                                const ckpt_restore_options *options, ckpt_error *err);

/* Restores tensors by name into the caller's buffers (dtype and shape must match, else CKPT_EUSAGE names the tensor).
 * A name that several files have is CKPT_EUSAGE: ckpt_content_read tells them apart. Chunk checks are made, the file's
 * SHA-256 is not. After an error anything may stand in the buffers. */
CKPT_API int ckpt_restore_tensors(ckpt_store *store, const char *name, const ckpt_tensor *tensors, size_t count,
                                  ckpt_error *err);

/* ---- Names, removal, retention ---------------------------------------------------------------------------------- */

/* Gives the checkpoint `name` the tag. One that names another checkpoint already is moved here with `move`; without it
 * that is CKPT_ECONFIRM. CKPT_EUSAGE when `tag` cannot be one, CKPT_ENOTFOUND when there is no such checkpoint. */
CKPT_API int ckpt_tag_set(ckpt_store *store, const char *tag, const char *name, bool move, ckpt_error *err);
/* Removes the tag; its checkpoint stays, but loses the protection of the rule "tagged". CKPT_ENOTFOUND without one. */
CKPT_API int ckpt_tag_remove(ckpt_store *store, const char *tag, ckpt_error *err);

/* Forgets a checkpoint. Its bytes go with the next prune. CKPT_ECONFIRM when it is tagged and `force` is false. */
CKPT_API int ckpt_remove(ckpt_store *store, const char *name, bool force, ckpt_error *err);

typedef struct ckpt_prune_row {
    char id[CKPT_ID_SIZE];
    bool keep;
    char reason[200];     /* "last 5, best 2 (val_acc 0.93)"; "7th of last 5; val_acc 0.91 is 4th of best 2" */
    uint64_t freed_bytes; /* that go with it; packs of several that go count for the newest of them */
} ckpt_prune_row;

typedef struct ckpt_prune_result {
    size_t row_count;
    ckpt_prune_row *rows; /* newest first */
    uint64_t removed_checkpoints, removed_packs, freed_bytes;
    uint64_t held_bytes; /* packs of removed checkpoints that stay, as kept ones are stored as differences from them */
} ckpt_prune_result;

typedef struct ckpt_prune_options {
    size_t size;
    bool dry_run;
    const char *keep;        /* a policy instead of the config's: "last 5, best 2 by loss min, within 7d, tagged" */
    const ckpt_value *among; /* count and remove only checkpoints whose meta has this pair; NULL: all */
} ckpt_prune_options;

/* Is `keep` a retention policy, such as "last 5, best 2, every 10000 steps, tagged"? CKPT_EUSAGE names the place where
 * it is none. */
CKPT_API int ckpt_policy_check(const char *keep, ckpt_error *err);

/* Applies the retention policy and removes what no checkpoint needs. Never removes the last good checkpoint:
 * before any goes, also in a dry run, all files of the newest that stays are decoded and compared with their SHA-256.
 * When that shows damage it is kept as damaged and the next one is decoded, until one is good. Of all others only
 * names, sizes and tables are looked at.
 *
 * Noted are a rule `best N` that finds values, but none of its key (not with `among`: those may have none yet), and a
 * damaged checkpoint because of which packs stay. CKPT_EBUSY when another prune runs. */
CKPT_API int ckpt_prune(ckpt_prune_result *result, ckpt_store *store, const ckpt_prune_options *options,
                        ckpt_error *err);
CKPT_API void ckpt_prune_result_clear(ckpt_prune_result *result);

typedef struct ckpt_gc_options {
    size_t size;
    bool dry_run;
    bool repack; /* also write checkpoints anew, where that frees packs of which little is needed */
} ckpt_gc_options;

typedef struct ckpt_gc_result {
    uint64_t removed_packs, removed_segments; /* segments of the cache */
    uint64_t freed_bytes;
    uint64_t repacked_checkpoints, written_bytes; /* of new packs; a dry run estimates all that has to do with them */
    uint64_t scratch_bytes;                       /* room that repacking needs at a time */
} ckpt_gc_result;

/* Removes what no checkpoint needs, and no checkpoint: packs that are left of removed ones, temporary files of saves
 * that were killed, and parts of the cache that tell of no pack. Needs no policy. CKPT_EBUSY when a prune runs.
 *
 * With `repack`, where over half of a pack is needed by no checkpoint, or all of it only because kept checkpoints are
 * stored as differences from it, those that hold on to it get new packs; their ids stay. Each is decoded and compared
 * with the SHA-256 of its files before its old pack goes. CKPT_ENOSPC with the numbers when there is no room for that;
 * what there was room for is done. */
CKPT_API int ckpt_gc(ckpt_gc_result *result, ckpt_store *store, const ckpt_gc_options *options, ckpt_error *err);

/* ---- Checking and counting -------------------------------------------------------------------------------------- */

typedef enum ckpt_verify_level {
    CKPT_VERIFY_NAMES = 0, /* names, sizes, indexes: seconds */
    CKPT_VERIFY_READ = 1,  /* and the SHA-256 of every pack */
    CKPT_VERIFY_FULL = 2   /* and every file decoded against its SHA-256 */
} ckpt_verify_level;

typedef struct ckpt_verify_fault {
    char pack[CKPT_ID_SIZE];       /* "" when it is not about one pack */
    char checkpoint[CKPT_ID_SIZE]; /* "" when it is not about one checkpoint */
    char what[320];                /* "model.conv1.weight of epoch_2.pt: chunk 3 fails its check" */
} ckpt_verify_fault;

typedef struct ckpt_verify_options {
    size_t size;
    ckpt_verify_level level;
    double sample;      /* also decode this share of all chunks, 0.05 for 5 %, chosen at random; 0: none */
    uint64_t seed;      /* that chooses them, so that a fault is found again; 0: a new one, told in the result */
    const char *since;  /* only this checkpoint and those after it, with the packs that they need; NULL: all */
    int64_t since_time; /* only those saved at this time, in seconds since 1970, or later; 0: all */
    bool proceed;       /* leave out what the last one found good, if that was stopped */
} ckpt_verify_options;

typedef struct ckpt_verify_result {
    uint64_t checkpoints, packs, bytes_read;
    size_t fault_count;
    ckpt_verify_fault *faults;
    uint64_t seed, chunks;                 /* of the sample */
    uint64_t packs_read, files_decoded;    /* and found good */
    uint64_t skipped_packs, skipped_files; /* because they were found good before */
} ckpt_verify_result;

/* Returns CKPT_EDATA when faults were found, all of them listed in the result. When the progress callback stops it with
 * CKPT_EINTERRUPTED the result says how far it came; above CKPT_VERIFY_NAMES a later one can `proceed` from there. */
CKPT_API int ckpt_verify(ckpt_verify_result *result, ckpt_store *store, const ckpt_verify_options *options,
                         ckpt_error *err);
CKPT_API void ckpt_verify_result_clear(ckpt_verify_result *result);

/* One thing that is damaged, or that was made anew. */
typedef struct ckpt_repair_row {
    char kind[16];           /* "pack", "parity", "snapshot", "tag", "cache" */
    char name[CKPT_ID_SIZE]; /* of the pack, the checkpoint or the tag, its end cut off */
    char state[320];         /* "11 of 240 blocks are damaged" */
    char action[320];        /* what was done, or would be, or why nothing can be */
    bool mended;             /* or would be */
    size_t hurt_count;       /* checkpoints that need it, newest first */
    char (*hurt)[CKPT_ID_SIZE];
} ckpt_repair_row;

typedef struct ckpt_repair_result {
    uint64_t packs, checkpoints;         /* looked at */
    uint64_t damaged, mended;            /* rows that tell of damage, and of these mended */
    uint64_t parity_packs, parity_bytes; /* added by `parity` */
    uint64_t kept_files, kept_bytes;     /* that lie in damaged/ now */
    size_t row_count;
    ckpt_repair_row *rows;
} ckpt_repair_result;

typedef struct ckpt_repair_options {
    size_t size;
    bool dry_run;
    const char *from; /* a second store, which may have what this one lost; NULL: none */
    bool adopt;       /* also make checkpoints of packs with files that no checkpoint names */
    double parity;    /* also give parity of this share to packs that have none; 0: no */
} ckpt_repair_options;

/* Reads all of the store and mends what can be: packs from their parity, from the other store, from equal frames, or
 * because only what says where things are is damaged; snapshots, as far as their packs tell (a checkpoint made anew has
 * another id, and a message that says so); tags; the cache. What is replaced is kept in damaged/. Stopped anywhere, the
 * store is no worse than before. CKPT_EDATA when damage remains, with all rows; CKPT_ENOSPC before anything is done;
 * CKPT_EBUSY when a prune runs. */
CKPT_API int ckpt_repair(ckpt_repair_result *result, ckpt_store *store, const ckpt_repair_options *options,
                         ckpt_error *err);
CKPT_API void ckpt_repair_result_clear(ckpt_repair_result *result);

/* ---- Differences ------------------------------------------------------------------------------------------------ */

typedef enum ckpt_change {
    CKPT_SAME = 0,
    CKPT_CHANGED = 1,
    CKPT_ADDED = 2,
    CKPT_REMOVED = 3,
    CKPT_RESHAPED = 4
} ckpt_change;

typedef struct ckpt_diff_tensor {
    const char *name;
    ckpt_change change;
    ckpt_dtype dtype_a, dtype_b;
    unsigned rank_a, rank_b;
    uint64_t shape_a[CKPT_RANK_MAX], shape_b[CKPT_RANK_MAX];
    uint64_t elements, changed; /* changed: elements whose bits differ (values, where the dtypes differ) */
    double max_abs, mean_abs;   /* of b - a, over elements finite on both sides */
    double relative_l2;         /* |b - a| / |a|; 0 when equal, infinity when only a is 0 */
    double cosine;              /* NaN when a side is 0 */
    uint64_t nan_a, nan_b, inf_a, inf_b;
} ckpt_diff_tensor;

typedef struct ckpt_diff_file {
    const char *path;
    ckpt_change change;
    uint64_t size_a, size_b, changed_bytes;
} ckpt_diff_file;

typedef struct ckpt_diff {
    size_t tensor_count;
    ckpt_diff_tensor *tensors;
    size_t file_count; /* files without tensors */
    ckpt_diff_file *files;
    bool equal; /* nothing differs */
    void *owned;
} ckpt_diff;

typedef struct ckpt_diff_options {
    size_t size;
    const char *const *only;
    size_t only_count; /* tensors whose name on either side fits a pattern, and other files whose path does; 0: all */
} ckpt_diff_options;

/* Compares two contents in memory that does not grow with them. A plain file beside a checkpoint of many files is
 * compared with the file of its path there, or with the only one of its name. Tensors are paired by name, across file
 * names and formats; see docs/format.md, "Names". The contents must stay open as long as the result. */
CKPT_API int ckpt_diff_new(ckpt_diff **out, ckpt_content *a, ckpt_content *b, const ckpt_diff_options *options,
                           ckpt_error *err);
CKPT_API void ckpt_diff_free(ckpt_diff *diff);

#ifdef __cplusplus
}
#endif
#endif
