/* Saving, as its parts see it:
 *
 *   save.c          paths -> files -> pack and snapshot, committed
 *   save_tensors.c  tensors from memory, as a file that exists only as its parts
 *   save_copy.c     a file that does not stand still for long -> a copy of it
 *   save_file.c     one file -> pieces: large ones become frames of their own as they are read
 *   save_group.c    small pieces, collected, become one frame for each class
 *   save_plan.c     which mode and which reference, by coding samples
 *   save_share.c    bytes that the store has already
 *   save_pack.c     the finished pack and its parity
 *   save_room.c     what the quota and the disk allow
 *   kept.c          references that are in memory and need no decoding
 *
 * A save writes one pack. It closes that pack and opens another (saver_roll) when later files may become deltas of
 * frames just written, or share bytes with them; the last pack holds the tables of the whole checkpoint. */
#ifndef CKPT_SAVE_INTERNAL_H
#define CKPT_SAVE_INTERNAL_H

#include "frame_coder.h"
#include "kept.h"
#include "reference.h"
#include "store_internal.h"
#include "transform.h"
#include "walk.h"

#define SAVE_GROUP_PIECE_MAX     ((uint64_t)64 << 10)  /* smaller pieces are collected in groups */
#define SAVE_GROUP_BYTES_MAX     CODEC_CHUNK_BYTES     /* a group is one chunk */
#define SAVE_BATCH_BYTES_MAX     ((uint64_t)16 << 20)  /* small pieces held in memory at a time */
#define SAVE_ROLL_FILE_BYTES_MIN ((uint64_t)256 << 10) /* files from this size on get a pack of their own */
#define SAVE_ROLLS_MAX           256
#define SAVE_SETTLE_NS           INT64_C(20000000) /* age from which a file's time stamp tells of each later write */
#define SAVE_SETTLE_LOOKS        3
#define SAVE_READ_TRIES          4 /* of a file that changes */

/* A run of bytes of the file being saved and where they lie in the store. */
typedef struct piece {
    uint64_t offset, size;
    int64_t tensor; /* index of the view that stands for it, -1: bytes between */
    ckpt_dtype dtype;
    uint32_t number; /* 0 for the first piece of its extent, 1 for the next 64 MiB, ... */
    /* set when it is stored: */
    uint32_t pack, frame; /* pack number in the saver's tables; 0: the open pack */
    uint64_t frame_offset;
    hash128 hash;
    bool placed;
} piece;

/* What sampling found for one class of tensors of a file, reused for its next small members. */
typedef struct plan_memory {
    char class_name[TENSOR_CLASS_SIZE];
    ckpt_dtype dtype;
    codec_plan plan;
    int rank;            /* which of the candidate files; -1: no reference */
    unsigned candidates; /* among so many */
    uint64_t bytes_since;
} plan_memory;
#define SAVE_PLANS_MAX 32

/* Pieces stored by this save, by hash. */
typedef struct placed_row {
    hash128 hash;
    uint64_t size, frame_offset;
    uint32_t pack, frame; /* as in piece */
    uint32_t extent;      /* its row in the tables; PACK_NONE until its file is complete */
    bool used;
} placed_row;

/* Memory and threads that a save works with. */
typedef struct save_scratch {
    frame_coder *coder; /* NULL: not made yet */
    frame_reader *reader;
    unsigned char *buffer;                     /* CODEC_CHUNK_BYTES */
    unsigned char *sample, *sample_references; /* CODEC_SAMPLES_MAX windows, and as many for each candidate */
    unsigned char *decoded;                    /* one decoded chunk, of saver.decoded_at */
} save_scratch;
void save_scratch_clear(save_scratch *m);

/* What a background writer carries from save to save, so that the next one neither decodes the state before it nor
 * faults in as much memory again. Zeroed it is empty. */
typedef struct save_carry {
    kept_frames kept;     /* of the last state committed, in the tensors it was saved from */
    save_scratch scratch; /* of the last save that went well */
} save_carry;

typedef struct saver {
    ckpt_store *store;
    ckpt_level level;
    transform_rules rules; /* set by saver_start */
    transform_account account;
    bool from_copy, whole_only; /* these three: see ckpt_save_options */
    const ckpt_file_mark *expected;
    const kept_frames *kept;    /* or NULL */
    save_scratch scratch;
    intent *intent;
    lookup *lookup;
    reference_library *library;
    pack_writer writer;
    double parity;        /* share of the packs that this save writes; 0: none */
    pack_index tables;    /* of the checkpoint; pack number 0 is the open pack */
    uint32_t open_extent; /* first row of tables.extents that may lie in the open pack */
    uint32_t open_file;   /* first row of tables.files that the open pack describes */
    uint64_t open_bytes;  /* decoded size of the frames in the open pack */
    unsigned rolls;
    size_t faults_before; /* of the coder, before this save */

    /* the file in work */
    const char *path;
    const byte_source *source;
    tensor_file file;
    transform above; /* what is saved in the place of the file; below is NULL: the file itself */
    const reference_file *candidates[REFERENCE_FILES_MAX];
    size_t candidate_count;
    piece *pieces;
    size_t piece_count;
    sha256_stream *file_stream;
    size_t crc_next, crc_wrong; /* of file.checks */
    uint32_t crc;               /* of the part of it that was read */
    const char *crc_first;      /* name of the first wrong one */
    plan_memory plans[SAVE_PLANS_MAX];
    size_t plan_count;

    placed_row *placed; /* hash table, a power of two of rows */
    size_t placed_count, placed_rows;

    frame_at decoded_at; /* what scratch.decoded holds; pack NULL: nothing */
    uint32_t decoded_chunk;

    uint64_t done_bytes, total_bytes, shared_bytes, tensor_count, packs_bytes, coded_bytes;
} saver;

/* ---- save_copy.c ---- */
/* Copies the `size` bytes behind fd, whose name is `source`, to a temporary file of the store; `copy`, whose fd is -1,
 * is for file_tmp_discard, also after a failure. CKPT_ENOSPC before a byte is written where there is no room. */
int save_copy(file_tmp *copy, const saver *s, int fd, uint64_t size, const char *source, ckpt_error *err);

/* ---- save_file.c ---- */
/* Saves s->source under `path`; appends its rows to the tables. */
int save_file(saver *s, const char *path, unsigned mode, ckpt_error *err);
/* About how many bytes saving s->source under `path` would add; nothing is stored, and nothing is said. */
int save_file_estimate(uint64_t *bytes, saver *s, const char *path, ckpt_error *err);
/* Reads bytes of the file in work and passes them to its SHA-256. */
int save_read(saver *s, void *dst, uint64_t offset, size_t size, ckpt_error *err);
/* Where bytes of the file in work stand in memory, until it is saved; NULL: they have to be read. */
const void *save_view(const saver *s, uint64_t offset, size_t size);
/* Passes bytes of a view to the SHA-256 of the file, as save_read does. */
int save_take(saver *s, const void *bytes, uint64_t offset, size_t size, ckpt_error *err);
/* save_crc.c: checks the CRCs that the file itself tells while it is read from its beginning to its end. */
void save_crc_start(saver *s);
void save_crc_feed(saver *s, uint64_t offset, const void *data, size_t size);
void save_crc_tell(const saver *s); /* a warning when some are wrong */
/* What was done to the bytes of a piece before they came here. */
pack_transform save_transform_of(const saver *s, const piece *p);
/* A class name for stats and plans. */
void save_class_of(char out[TENSOR_CLASS_SIZE], const saver *s, const piece *p);

/* ---- save_group.c ---- */
/* Reads, in file order, pieces [first, last), which hold at most SAVE_BATCH_BYTES_MAX of small ones, and stores them.
 */
int save_batch(saver *s, size_t first, size_t last, ckpt_error *err);
/* A file of at most SAVE_GROUP_PIECE_MAX bytes: in groups or as one piece, whichever is smaller. */
int save_small_file(saver *s, ckpt_error *err);

/* ---- save_plan.c ---- */
typedef struct save_candidates {
    frame_at at[CODEC_REFERENCES_MAX];
    int rank[CODEC_REFERENCES_MAX]; /* of the file in s->candidates */
    unsigned count;
} save_candidates;
void save_candidates_for_piece(save_candidates *out, const saver *s, const piece *p);
void save_candidates_for_group(save_candidates *out, const saver *s, const piece *p);
/* The exact frames of the group's paired tensors, whatever their depth, for sharing. */
size_t save_group_twins(frame_at out[REFERENCE_FILES_MAX], const saver *s, const piece *p);
/* Chooses for a frame whose bytes are read by `read` (data NULL) or stand at `data`. *reference is NULL-packed for
 * none. */
int save_plan_choose(codec_plan *plan, frame_at *reference, double *estimate, saver *s, const save_candidates *c,
                     const char *class_name, ckpt_dtype dtype, uint64_t offset, uint64_t size,
                     const unsigned char *data, ckpt_error *err);

/* What stands in the row of a frame and does not follow from its bytes. */
typedef struct save_frame {
    pack_frame_kind kind;
    ckpt_dtype dtype;
    const char *class_name;
    pack_transform transform;
} save_frame;
/* Starts a frame in the open pack, with reference numbers and depth. */
int save_frame_begin(uint32_t *number, saver *s, const save_frame *frame, uint64_t size, const codec_plan *plan,
                     frame_at reference, ckpt_error *err);

/* ---- save_share.c ---- */
/* Is this piece's content in the store? Then it is placed. `data` holds its bytes, or NULL: they are read from the
 * file. `may_roll`: the open pack may be closed to compare with it. */
int save_share(bool *shared, saver *s, piece *p, const unsigned char *data, bool may_roll, ckpt_error *err);
/* Has a whole file of these bytes been stored by this save? The open pack cannot be read yet, so SHA-256 decides. */
bool save_share_twin(saver *s, piece *p, const unsigned char *data);
/* Remembers a piece just stored in the open pack, so that equal ones can share it. */
int save_remember(saver *s, const piece *p, ckpt_error *err);
/* Its row in the tables is known now. */
void save_remember_extent(saver *s, uint32_t extent);
/* The open pack was closed and is `number` from now on. */
void save_remember_roll(saver *s, uint32_t number);
/* Takes a pack, and all that it refers to, for its frames to be references. CKPT_ENOTFOUND: a prune was quicker, go on
 * without. */
int save_take_pack(saver *s, const pack *p, ckpt_error *err);
/* Takes the packs that decoding a stored frame touches and lists them in the tables; *number is its own pack's. */
int save_use_frame(uint32_t *number, saver *s, frame_at at, ckpt_error *err);
/* Lists a pack that this save has closed, with all that its frames need. */
int save_use_closed_pack(uint32_t *number, saver *s, const pack *p, ckpt_error *err);
/* Does the frame's range hold exactly these bytes? */
bool save_equal(saver *s, frame_at at, uint64_t frame_offset, const unsigned char *data, size_t size);

/* ---- save_room.c ---- */
/* Is there room for what is about to be saved: the files of `w`, or without one s->source under the name `path`? What
 * does not fit by its raw size is estimated by samples. If the policy has to make room it is applied, the saver is
 * closed and *again set: open it again and ask once more, with `last_try`. CKPT_EQUOTA and CKPT_ENOSPC tell the
 * numbers. */
int save_room(bool *again, saver *s, const walk *w, const char *path, bool last_try, ckpt_error *err);
/* After a save, which returned `rc`: when it turned out too large for the quota, and the policy makes room for its true
 * size, that is applied, the saver is closed and *again set. Returns 0 then, else `rc`. */
int save_room_again(bool *again, int rc, saver *s, bool last_try, ckpt_error *err);
/* About how many bytes the pieces of the file in work will take. */
int save_pieces_estimate(uint64_t *bytes, saver *s, ckpt_error *err);
/* Is the store within its quota with the packs written so far and `more_bytes`? CKPT_EQUOTA. */
int save_quota_check(const saver *s, uint64_t more_bytes, ckpt_error *err);
/* After a save that did not fit: packs that it had closed go. */
void save_room_leave(ckpt_store *store);

/* ---- save_pack.c ---- */
/* Warns of chunks that the codec did not bring back when it checked them. */
void save_tell_faults(const ckpt_store *store, size_t faults);
/* Puts a finished pack, and so large a share of parity, into `plan` under their names; *bytes is what both take. */
int save_place_pack(file_commit_plan *plan, uint64_t *bytes, ckpt_store *store, file_tmp *written, const sha256 *name,
                    double share, ckpt_error *err);

/* ---- save.c ---- */
/* As the options of a save say. Takes the scratch out of `carry`, which may be NULL. */
int saver_start(saver *s, uint64_t *sequence, ckpt_store *store, const ckpt_save_options *options, save_carry *carry,
                ckpt_error *err);
/* Opens the pack that frames go to; once it is known that there is room. */
int saver_pack_open(saver *s, ckpt_error *err);
int saver_commit(ckpt_save_result *result, saver *s, uint64_t sequence, const ckpt_save_options *options,
                 ckpt_error *err);
void saver_close(saver *s);
/* Closes the open pack durably and opens another. */
int saver_roll(saver *s, ckpt_error *err);
int saver_progress(saver *s, uint64_t bytes, ckpt_error *err);
int save_options_check(const ckpt_save_options *options, ckpt_error *err);
/* save_parts.c: warns of files that an index of shards or a distributed checkpoint names, and that are not saved. */
int save_check_parts(const ckpt_store *store, const walk *w, ckpt_error *err);

/* ---- save_tensors.c ---- */
#define SAVE_FILE_NAME "state.safetensors" /* of tensors from memory, when the caller has no other */
/* What can be refused of a save from memory before anything is read. */
int save_request_check(const char *file_name, const ckpt_save_options *options, ckpt_error *err);
/* ckpt_save_tensors with what the save before left and this one leaves; the tensors' bytes must stay as they are until
 * the carry is given to another save that succeeds, or cleared. */
int save_tensors(ckpt_save_result *result, ckpt_store *store, const char *file_name, const ckpt_tensor *tensors,
                 size_t count, const ckpt_value *values, size_t value_count, const ckpt_save_options *options,
                 save_carry *carry, ckpt_error *err);
void save_carry_clear(save_carry *carry);

#endif
