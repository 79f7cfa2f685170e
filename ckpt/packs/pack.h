/* Pack: an immutable file of coded frames, and the tables of the one checkpoint whose save wrote it.
 *
 *   pack   := header frame* index footer
 *   header := "CKPTPACK" version:u16 chunk_log2:u8 0:u8*5                                              16 bytes
 *   frame  := chunk*                       a tensor, a part of a large one, small tensors of one class, or other bytes
 *   index  := zstd(tables)                 see below and docs/format.md
 *   footer := index_offset:u64 index_coded_size:u64 index_size:u64 index_xxh64:u64 pack_size:u64 "CKPTFOOT"   48 bytes
 *             index_xxh64 is XXH3-64 of the index as it stands in the file: a damaged one never reaches zstd
 *
 * The index stands at the end so that a pack is written as a stream; the footer is found from the end of the file. The
 * name of a pack is the SHA-256 of its bytes: `sha256sum` verifies a store without us. All integers are little-endian.
 *
 *   tables := head packs frames chunks files extents tensors values dims strings
 *   head   := "CKIX" version:u32 features:u32 pack_count:u32 frame_count:u32 chunk_count:u32 file_count:u32
 *             extent_count:u32 tensor_count:u32 value_count:u32 dim_count:u32 string_bytes:u32 0:u32*4   64 bytes
 *   packs  := sha256:32                                   every other pack on the chains of the frames and extents here
 *   frames := offset:u64 size:u64 chunk_first:u32 reference_pack:u32 reference_frame:u32 class:u32
 *             dtype:u8 depth:u8 kind:u8 transform:u8 level:u8 0:u8*3 sha256:32 reference_sha256:32      104 bytes
 *   chunks := coded_size:u32 xxh64:u64                                                                   12 bytes
 *   files  := path:u32 link:u32 format:u32 mode:u16 kind:u8 0:u8 size:u64 extent_first:u32 extent_count:u32
 *             tensor_first:u32 tensor_count:u32 value_first:u32 value_count:u32 sha256:32                80 bytes
 *   extents:= size:u64 frame_offset:u64 pack:u32 frame:u32 hash:u64*2                                    40 bytes
 *   tensors:= name:u32 dim_first:u32 dtype:u8 rank:u8 flags:u8 0:u8 0:u32 offset:u64 span_bytes:u64      32 bytes
 *   values := key:u32 value:u32
 *   dims   := u64*            shape of a tensor, then (flags & 1) its strides in elements
 *   strings:= bytes ending in 0; offset 0 is the empty string
 *
 * A pack number is 0 for this pack, i for packs[i - 1], PACK_NONE for none. The extents of a file, in order, are its
 * bytes: extent sizes add up to the file's size. Reserved bytes are 0; a reader refuses others as of a newer version.
 */
#ifndef CKPT_PACK_H
#define CKPT_PACK_H

#include "codec.h"

#include "file.h"
#include "hash.h"

#define PACK_VERSION          1
#define PACK_HEADER_SIZE      16
#define PACK_FOOTER_SIZE      48
#define PACK_INDEX_MAX        ((uint64_t)1 << 30) /* decoded */
#define PACK_NONE             UINT32_MAX
#define PACK_FRAME_BYTES_MAX  ((uint64_t)64 << 20) /* larger extents are cut into several frames */
#define PACK_DEPTH_READ_MAX   8                    /* readers accept */
#define PACK_DEPTH_WRITE_MAX  4                    /* the writer's default */
#define PACK_FILES_MAX        (1u << 20)
#define PACK_TENSORS_MAX      (1u << 22)
#define PACK_PACKS_MAX        (1u << 20)
#define PACK_FRAMES_MAX       (1u << 22)
#define PACK_CHUNKS_MAX       (1u << 25)
#define PACK_EXTENTS_MAX      (1u << 24)
#define PACK_VALUES_MAX       (1u << 20)
#define PACK_DIMS_MAX         (1u << 26)
#define PACK_STRING_BYTES_MAX (1u << 29)
#define PACK_SET_OPEN_MAX     384                  /* descriptors; two stores stay below the usual limit of 1024 */
#define PACK_SET_KEPT_MAX     64                   /* packs that outlive their borrowers */
#define PACK_SET_KEPT_BYTES   ((uint64_t)32 << 20) /* and bytes of their indexes, but for the last pack */

typedef enum pack_frame_kind { FRAME_OTHER = 0, FRAME_TENSOR = 1, FRAME_GROUP = 2 } pack_frame_kind;

/* Bits of `features` of the tables: what is in the pack that version 1 by itself does not know. */
#define PACK_FEATURE_CONTEXT    1u
#define PACK_FEATURE_PALETTE    2u
#define PACK_FEATURE_TRANSFORMS 4u
#define PACK_FEATURES_KNOWN     (PACK_FEATURE_CONTEXT | PACK_FEATURE_PALETTE | PACK_FEATURE_TRANSFORMS)

/* What was done to the values of a frame before they were saved, by choice of the person. */
typedef enum pack_transform { TRANSFORM_NONE = 0, TRANSFORM_BF16 = 1 /* f32 rounded to bf16 */ } pack_transform;

typedef struct pack_frame {
    uint64_t offset;      /* of its first chunk in the pack */
    uint64_t size;        /* decoded */
    uint32_t chunk_first; /* of ceil(size / CODEC_CHUNK_BYTES) chunks, which lie one behind the other */
    uint32_t reference_pack, reference_frame; /* PACK_NONE, 0: none */
    uint32_t class_name;                      /* string: "weights", "exp_avg_sq", ... for stats */
    uint8_t dtype, depth, kind, transform, level;
    sha256 hash, reference_hash; /* of the decoded bytes; the second is 0 without a reference */
} pack_frame;

typedef struct pack_chunk {
    uint32_t coded_size;
    uint64_t xxh64; /* of the decoded bytes */
} pack_chunk;

typedef struct pack_file {
    uint32_t path, link, format; /* strings */
    uint16_t mode;
    uint8_t kind; /* ckpt_file_kind */
    uint64_t size;
    uint32_t extent_first, extent_count, tensor_first, tensor_count, value_first, value_count;
    sha256 hash;
} pack_file;

typedef struct pack_extent {
    uint64_t size, frame_offset;
    uint32_t pack, frame;
    hash128 hash; /* XXH3-128 of the bytes; 0 where they are in another pack, whose own extent has it */
} pack_extent;

#define PACK_TENSOR_STRIDED 1u /* strides follow the shape in dims; the only flag */
typedef struct pack_tensor {
    uint32_t name, dim_first;
    uint8_t dtype, rank, flags; /* PACK_TENSOR_ */
    uint64_t offset, span_bytes;
} pack_tensor;

typedef struct pack_value {
    uint32_t key, value;
} pack_value;

/* The tables in memory, for the writer as growing arrays and for the reader as checked facts. */
typedef struct pack_index {
    uint32_t pack_count, frame_count, chunk_count, file_count, extent_count, tensor_count, value_count, dim_count;
    uint32_t string_bytes;
    uint32_t features; /* PACK_FEATURE_; the writer adds those that the frames show */
    sha256 *packs;
    pack_frame *frames;
    pack_chunk *chunks;
    pack_file *files;
    pack_extent *extents;
    pack_tensor *tensors;
    pack_value *values;
    uint64_t *dims;
    char *strings;
    void *capacity; /* private to the writer */
} pack_index;

/* Byte `level` of a frame: zstd's in the lower six bits, above them that of the save plus one; 0 there: not told. */
static inline uint8_t pack_level(int zstd_level, ckpt_level level)
{
    return (uint8_t)((zstd_level & 0x3f) | ((int)level + 1) << 6);
}

/* The name of the level that a frame was saved at; "" when it is not told. */
static inline const char *pack_frame_level(const pack_frame *frame)
{
    return frame->level >> 6 ? ckpt_level_name((ckpt_level)((frame->level >> 6) - 1)) : "";
}

static inline const char *pack_string(const pack_index *index, uint32_t offset)
{
    return index->strings + offset;
}

/* ---- Tables (pack_index.c) ---- */

/* Each appends one row and returns its number in *at; CKPT_ENOMEM, or CKPT_EUSAGE beyond the limits above. */
int pack_index_add_pack(uint32_t *number, pack_index *index, const sha256 *name, ckpt_error *err); /* 1.., once each */
int pack_index_add_frame(uint32_t *at, pack_index *index, const pack_frame *frame, ckpt_error *err);
int pack_index_add_chunk(uint32_t *at, pack_index *index, const pack_chunk *chunk, ckpt_error *err);
int pack_index_add_file(uint32_t *at, pack_index *index, const pack_file *file, ckpt_error *err);
int pack_index_add_extent(uint32_t *at, pack_index *index, const pack_extent *extent, ckpt_error *err);
int pack_index_add_tensor(uint32_t *at, pack_index *index, const pack_tensor *tensor, ckpt_error *err);
int pack_index_add_value(uint32_t *at, pack_index *index, const pack_value *value, ckpt_error *err);
int pack_index_add_dim(uint32_t *at, pack_index *index, uint64_t dim, ckpt_error *err);
int pack_index_add_string(uint32_t *offset, pack_index *index, const char *string,
                          ckpt_error *err); /* equal ones once */
void pack_index_clear(pack_index *index);

/* SHA-256 that names the files of a checkpoint, apart from where their bytes lie. One record a file, sorted by path as
 * bytes; link and path may hold any byte but 0, so a 0 ends each. In Python:
 *   h.update(b"%c %o %d %s %s\0%s\0" % (kind, mode, size, sha256_hex, link, path))
 * kind is F, D (folder) or L (link); mode octal and size decimal without leading zeros; the SHA-256 64 lower-case
 * digits, all 0 for a folder or a link; link is the target of a link, else empty. */
int pack_index_tree(sha256 *out, const pack_index *index, ckpt_error *err);

/* ---- Tables as bytes (pack_index_code.c, pack_index_check.c) ---- */

/* The tables before zstd, and back. Both ways pass pack_index_check: what is wrong is CKPT_EBUG when it was to be
 * written, CKPT_EDATA when it was read, CKPT_EVERSION for features and transforms of a newer version. */
int pack_index_encode(unsigned char **bytes, size_t *size, const pack_index *index, ckpt_error *err);
int pack_index_decode(pack_index *index, const unsigned char *bytes, size_t size, ckpt_error *err);

/* All features of the tables: those in `features` and those that follow from the frames. */
uint32_t pack_index_features(const pack_index *index);

/* Everything that can be known without the pack's file:
 *   frames    1 to PACK_FRAME_BYTES_MAX bytes, chunks there and of legal size, referring to earlier frames or other
 *             packs, depth 0 without a reference, at most PACK_DEPTH_READ_MAX and above that of a reference in here
 *   files     relative paths without empty, `.` and `..` components, each once and never below another file or link;
 *             folders and links without bytes; extents not empty, adding up to the size, inside frames of this pack
 *   tensors   inside their file, with a span that follows from shape, strides and dtype
 *   ranges    of files follow one another and cover extents, tensors and values exactly; frames have no more chunks in
 *             all than there are, so that work grows with the tables only
 *   strings   begin with the empty one and end in 0 */
int pack_index_check(const pack_index *index, ckpt_error *err);

/* ---- Writing (pack_writer.c) ---- */

typedef struct pack_writer {
    file_tmp tmp;
    pack_index index;
    sha256_stream *stream;  /* over all bytes of the pack */
    uint64_t coded_bytes;   /* of all chunks so far */
    uint64_t flushed_bytes; /* of the file, which the kernel was asked to write already */
} pack_writer;

int pack_writer_open(pack_writer *w, const char *tmp_dir, ckpt_error *err);
/* Starts a frame at the current end; sets offset and chunk_first. The hash may still be 0; set it in index.frames[*at].
 */
int pack_writer_frame(uint32_t *at, pack_writer *w, pack_frame *frame, ckpt_error *err);
int pack_writer_chunk(pack_writer *w, const void *coded, size_t coded_size, uint64_t xxh64, ckpt_error *err);
/* The same for who hashes the frame: its stream takes the decoded bytes `data`, in one go with the pack's, which is
 * quicker than one after the other. */
int pack_writer_chunk_of(pack_writer *w, const void *coded, size_t coded_size, uint64_t xxh64,
                         sha256_stream *frame_stream, const void *data, size_t size, ckpt_error *err);
/* Writes index and footer, hints the kernel to start writing, and tells the name. The file is then for file_commit_add.
 */
int pack_writer_finish(sha256 *name, pack_writer *w, ckpt_error *err);
void pack_writer_discard(pack_writer *w); /* frees all; removes the temporary file unless it was taken over */

/* ---- Reading (pack.c) ---- */

typedef struct pack {
    int fd; /* -1 while its set has closed it */
    sha256 name;
    uint64_t size, index_size; /* of the file; of its tables, decoded */
    pack_index index;
    struct pack_slot *slot; /* its place in a pack_set, or NULL */
} pack;

/* A pack is the file <64 digits of its name>.pack; is `file` one? */
#define PACK_SUFFIX ".pack"
bool pack_name_parse(sha256 *name, const char *file);
/* Writes packs_dir/<name>.pack. */
int pack_path(char out[FILE_PATH_MAX], const char *packs_dir, const sha256 *name, ckpt_error *err);
/* Looks at a file of packs/. *there is false where nothing stands, or a link that leads nowhere. */
int pack_file_look(bool *there, struct stat *st, const char *path, ckpt_error *err);
/* Opens packs_dir/<name>.pack and reads its index. CKPT_ENOTFOUND, CKPT_EDATA, CKPT_EVERSION, CKPT_EIO. */
int pack_open(pack **out, const char *packs_dir, const sha256 *name, ckpt_error *err);
/* The same of a file anywhere, which errors call `label`. */
int pack_open_file(pack **out, const char *path, const char *label, const sha256 *name, ckpt_error *err);
void pack_close(pack *p);
/* Bytes of the file, as they are. */
int pack_read_bytes(void *dst, const pack *p, uint64_t offset, size_t size, ckpt_error *err);
/* The coded bytes of chunk i of a frame into dst (CODEC_CHUNK_CODED_MAX bytes). */
int pack_read_chunk(size_t *coded_size, void *dst, const pack *p, const pack_frame *frame, uint32_t i, ckpt_error *err);
static inline uint32_t pack_frame_chunks(const pack_frame *frame)
{
    return (uint32_t)((frame->size + CODEC_CHUNK_BYTES - 1) / CODEC_CHUNK_BYTES);
}
/* Reads all bytes and compares their SHA-256 with the name: CKPT_EDATA. */
int pack_check(const pack *p, ckpt_error *err);
/* SHA-256 of all bytes of an open file, which would be its name as a pack. */
int pack_bytes_hash(sha256 *out, int fd, uint64_t size, ckpt_error *err);

/* ---- A set of open packs (pack_set.c) ---- */

/* Packs opened once and kept, with their indexes, until the set is trimmed or freed. Beyond PACK_SET_OPEN_MAX
 * descriptors the one not read for longest is closed and opened again when it is needed; a pack that prune removed
 * meanwhile is then CKPT_ENOTFOUND. */
typedef struct pack_set pack_set;
int pack_set_new(pack_set **out, const char *packs_dir, ckpt_error *err);
void pack_set_free(pack_set *set);
/* For when nobody borrows any of its packs: closes all files, so that removed ones give their space back, and forgets
 * all packs but those asked for last, PACK_SET_KEPT_MAX of them and PACK_SET_KEPT_BYTES of their indexes. */
void pack_set_trim(pack_set *set);
/* Borrowed until the set is trimmed or freed; its file is open. Safe from several threads, as is reading the pack. */
int pack_set_get(pack **out, pack_set *set, const sha256 *name, ckpt_error *err);

/* A place of decoded bytes. */
typedef struct frame_at {
    pack *pack;
    uint32_t frame;
} frame_at;

/* For pack.c: the descriptor of a pack, kept open until it is given back. */
int pack_slot_pin(int *fd, struct pack_slot *slot, ckpt_error *err);
void pack_slot_unpin(struct pack_slot *slot);

/* Follows a pack number of p's index ("0 is p itself"). */
int pack_set_follow(frame_at *out, pack_set *set, pack *p, uint32_t pack_number, uint32_t frame, ckpt_error *err);

/* ---- Decoding (frame_reader.c) ---- */

/* Scratch of one worker: codec, the coded chunks of a chain, decoded chunks. For one thread at a time. */
typedef struct frame_reader frame_reader;
int frame_reader_new(frame_reader **out, pack_set *set, ckpt_error *err);
void frame_reader_free(frame_reader *r);
void frame_reader_forget(frame_reader *r); /* before packs it has read from go: the set is trimmed, say */
codec *frame_reader_codec(frame_reader *r);

/* Decodes chunk i of a frame (its whole chain, at most PACK_DEPTH_READ_MAX deep) into dst, which has room for the
 * chunk; every chunk of the chain that is decoded is checked. CKPT_EDATA names pack, frame and chunk. */
int frame_read_chunk(void *dst, frame_reader *r, frame_at at, uint32_t i, ckpt_error *err);
/* Any range of the decoded frame; beyond its end zeros (the rule for references of another size). */
int frame_read(void *dst, frame_reader *r, frame_at at, uint64_t offset, size_t size, ckpt_error *err);

#endif
