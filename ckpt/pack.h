/* Pack: an immutable file of coded frames, and the tables of the one checkpoint whose save wrote it.
 *
 *   pack   := header frame* index footer
 *   header := "CKPTPACK" version:u16 chunk_log2:u8 0:u8*5                                              16 bytes
 *   frame  := chunk*                       a tensor, a part of a large one, small tensors of one class, or other bytes
 *   index  := zstd(tables)                 see below and docs/format.md
 *   footer := index_offset:u64 index_coded_size:u64 index_size:u64 index_xxh64:u64 pack_size:u64 "CKPTFOOT"   48 bytes
 *
 * The index stands at the end so that a pack is written as a stream; the footer is found from the end of the file. The
 * name of a pack is the SHA-256 of its bytes: `sha256sum` verifies a store without us. All integers are little-endian.
 *
 *   tables := head packs frames chunks files extents tensors values dims strings
 *   head   := "CKIX" version:u32 features:u32 pack_count:u32 frame_count:u32 chunk_count:u32 file_count:u32
 *             extent_count:u32 tensor_count:u32 value_count:u32 dim_count:u32 string_bytes:u32 0:u32*4   64 bytes
 *   packs  := sha256:32                                    every other pack needed to decode, directly or not
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
 * bytes: extent sizes add up to the file's size. */
#ifndef CKPT_PACK_H
#define CKPT_PACK_H

#include "codec.h"

#include "file.h"
#include "hash.h"

#define PACK_VERSION         1
#define PACK_HEADER_SIZE     16
#define PACK_FOOTER_SIZE     48
#define PACK_INDEX_MAX       ((uint64_t)1 << 30) /* decoded */
#define PACK_NONE            UINT32_MAX
#define PACK_FRAME_BYTES_MAX ((uint64_t)64 << 20) /* larger extents are cut into several frames */
#define PACK_DEPTH_READ_MAX  8                    /* readers accept */
#define PACK_DEPTH_WRITE_MAX 4                    /* the writer's default */
#define PACK_FILES_MAX       (1u << 20)
#define PACK_TENSORS_MAX     (1u << 22)

typedef enum pack_frame_kind { FRAME_OTHER = 0, FRAME_TENSOR = 1, FRAME_GROUP = 2 } pack_frame_kind;

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

typedef struct pack_tensor {
    uint32_t name, dim_first;
    uint8_t dtype, rank, flags; /* 1: strides follow the shape in dims */
    uint64_t offset, span_bytes;
} pack_tensor;

typedef struct pack_value {
    uint32_t key, value;
} pack_value;

/* The tables in memory, for the writer as growing arrays and for the reader as checked facts. */
typedef struct pack_index {
    uint32_t pack_count, frame_count, chunk_count, file_count, extent_count, tensor_count, value_count, dim_count;
    uint32_t string_bytes;
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

static inline const char *pack_string(const pack_index *index, uint32_t offset)
{
    return index->strings + offset;
}

/* ---- Tables (pack_index.c) ---- */

/* Each appends one row and returns its number in *at; CKPT_ENOMEM, or CKPT_EUSAGE beyond the limits above. */
int pack_index_add_pack(uint32_t *number, pack_index *index, const sha256 *pack, ckpt_error *err); /* 1.., once each */
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

/* The tables as bytes (before zstd), and back. Reading checks everything: counts, ranges, that extents add up to files
 * and lie inside frames of this pack, chunk numbers, depths, dtypes, ranks, that strings end, that this pack's frames
 * refer only to earlier frames or other packs. CKPT_EDATA otherwise; CKPT_EVERSION for unknown features. */
int pack_index_encode(unsigned char **bytes, size_t *size, const pack_index *index, ckpt_error *err);
int pack_index_decode(pack_index *index, const unsigned char *bytes, size_t size, ckpt_error *err);

/* SHA-256 that names the files of a checkpoint, apart from where their bytes lie: over the lines
 *   kind mode size sha256 link 0x00 path 0x00     ("F 644 4096 <64 digits> " ... ; see docs/format.md)
 * sorted by path as bytes. */
int pack_index_tree(sha256 *out, const pack_index *index, ckpt_error *err);

/* ---- Writing (pack_writer.c) ---- */

typedef struct pack_writer {
    file_tmp tmp;
    pack_index index;
    sha256_stream *stream; /* over all bytes of the pack */
    uint64_t coded_bytes;  /* of all chunks so far */
} pack_writer;

int pack_writer_open(pack_writer *w, const char *tmp_dir, ckpt_error *err);
/* Starts a frame at the current end; sets offset and chunk_first. The hash may still be 0; set it in index.frames[*at].
 */
int pack_writer_frame(uint32_t *at, pack_writer *w, pack_frame *frame, ckpt_error *err);
int pack_writer_chunk(pack_writer *w, const void *coded, size_t coded_size, uint64_t xxh64, ckpt_error *err);
/* Writes index and footer, hints the kernel to start writing, and tells the name. The file is then for file_commit_add.
 */
int pack_writer_finish(sha256 *name, pack_writer *w, ckpt_error *err);
void pack_writer_discard(pack_writer *w); /* frees all; removes the temporary file unless it was taken over */

/* ---- Reading (pack.c) ---- */

typedef struct pack {
    int fd;
    sha256 name;
    uint64_t size;
    pack_index index;
} pack;

/* Opens packs_dir/<name>.pack and reads its index. CKPT_ENOTFOUND, CKPT_EDATA, CKPT_EVERSION, CKPT_EIO. */
int pack_open(pack **out, const char *packs_dir, const sha256 *name, ckpt_error *err);
void pack_close(pack *p);
/* The coded bytes of chunk i of a frame into dst (CODEC_CHUNK_CODED_MAX bytes). */
int pack_read_chunk(size_t *coded_size, void *dst, const pack *p, const pack_frame *frame, uint32_t i, ckpt_error *err);
static inline uint32_t pack_frame_chunks(const pack_frame *frame)
{
    return (uint32_t)((frame->size + CODEC_CHUNK_BYTES - 1) / CODEC_CHUNK_BYTES);
}
/* Reads all bytes and compares their SHA-256 with the name: CKPT_EDATA. */
int pack_check(const pack *p, ckpt_error *err);

/* ---- A set of open packs (pack_set.c) ---- */

/* Packs opened once and kept while they are in use; at most PACK_SET_OPEN_MAX at a time per store. */
typedef struct pack_set pack_set;
int pack_set_new(pack_set **out, const char *packs_dir, ckpt_error *err);
void pack_set_free(pack_set *set);
/* Borrowed until the set is freed. Safe from several threads. */
int pack_set_get(pack **out, pack_set *set, const sha256 *name, ckpt_error *err);

/* A place of decoded bytes. */
typedef struct frame_at {
    pack *pack;
    uint32_t frame;
} frame_at;

/* Follows a pack number of p's index ("0 is p itself"). */
int pack_set_follow(frame_at *out, pack_set *set, pack *p, uint32_t pack_number, uint32_t frame, ckpt_error *err);

/* Scratch of one worker: codec, a coded chunk, two decoded chunks. */
typedef struct frame_reader frame_reader;
int frame_reader_new(frame_reader **out, pack_set *set, ckpt_error *err);
void frame_reader_free(frame_reader *r);
codec *frame_reader_codec(frame_reader *r);

/* Decodes chunk i of a frame (its whole chain, at most PACK_DEPTH_READ_MAX deep) into dst, which has room for the
 * chunk; every chunk of the chain that is decoded is checked. CKPT_EDATA names pack, frame and chunk. */
int frame_read_chunk(void *dst, frame_reader *r, frame_at at, uint32_t i, ckpt_error *err);
/* Any range of the decoded frame; beyond its end zeros (the rule for references of another size). */
int frame_read(void *dst, frame_reader *r, frame_at at, uint64_t offset, size_t size, ckpt_error *err);

#endif
