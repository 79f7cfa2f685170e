/* The tables of a pack as bytes, and back; the layout stands in pack.h. */
#include "pack.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "fail.h"

#define INDEX_MAGIC   "CKIX"
#define INDEX_VERSION 1u

#define HEAD_SIZE     64u
#define HEAD_RESERVED 48u /* where the reserved bytes of the head begin */
#define PACK_SIZE     SHA256_SIZE
#define FRAME_SIZE    104u
#define CHUNK_SIZE    12u
#define FILE_SIZE     80u
#define EXTENT_SIZE   40u
#define TENSOR_SIZE   32u
#define VALUE_SIZE    8u
#define DIM_SIZE      8u

/* Counts have 32 bits and rows less than 128 bytes: the sum cannot leave 64 bits. */
static uint64_t tables_size(const pack_index *index)
{
    return HEAD_SIZE + (uint64_t)index->pack_count * PACK_SIZE + (uint64_t)index->frame_count * FRAME_SIZE +
           (uint64_t)index->chunk_count * CHUNK_SIZE + (uint64_t)index->file_count * FILE_SIZE +
           (uint64_t)index->extent_count * EXTENT_SIZE + (uint64_t)index->tensor_count * TENSOR_SIZE +
           (uint64_t)index->value_count * VALUE_SIZE + (uint64_t)index->dim_count * DIM_SIZE + index->string_bytes;
}

/* ---- Rows to bytes: each writes one row into zeroed memory ---- */

uint32_t pack_index_features(const pack_index *index)
{
    uint32_t features = index->features;

    for (uint32_t i = 0; i < index->frame_count; i++)
        if (index->frames[i].transform)
            features |= PACK_FEATURE_TRANSFORMS;
    return features;
}

static void head_store(unsigned char *to, const pack_index *index)
{
    memcpy(to, INDEX_MAGIC, 4);
    store_u32(to + 4, INDEX_VERSION);
    store_u32(to + 8, pack_index_features(index));
    store_u32(to + 12, index->pack_count);
    store_u32(to + 16, index->frame_count);
    store_u32(to + 20, index->chunk_count);
    store_u32(to + 24, index->file_count);
    store_u32(to + 28, index->extent_count);
    store_u32(to + 32, index->tensor_count);
    store_u32(to + 36, index->value_count);
    store_u32(to + 40, index->dim_count);
    store_u32(to + 44, index->string_bytes);
}

static void frame_store(unsigned char *to, const pack_frame *frame)
{
    store_u64(to, frame->offset);
    store_u64(to + 8, frame->size);
    store_u32(to + 16, frame->chunk_first);
    store_u32(to + 20, frame->reference_pack);
    store_u32(to + 24, frame->reference_frame);
    store_u32(to + 28, frame->class_name);
    to[32] = frame->dtype;
    to[33] = frame->depth;
    to[34] = frame->kind;
    to[35] = frame->transform;
    to[36] = frame->level;
    memcpy(to + 40, frame->hash.bytes, SHA256_SIZE);
    memcpy(to + 72, frame->reference_hash.bytes, SHA256_SIZE);
}

static void chunk_store(unsigned char *to, const pack_chunk *chunk)
{
    store_u32(to, chunk->coded_size);
    store_u64(to + 4, chunk->xxh64);
}

static void file_store(unsigned char *to, const pack_file *file)
{
    store_u32(to, file->path);
    store_u32(to + 4, file->link);
    store_u32(to + 8, file->format);
    store_u16(to + 12, file->mode);
    to[14] = file->kind;
    store_u64(to + 16, file->size);
    store_u32(to + 24, file->extent_first);
    store_u32(to + 28, file->extent_count);
    store_u32(to + 32, file->tensor_first);
    store_u32(to + 36, file->tensor_count);
    store_u32(to + 40, file->value_first);
    store_u32(to + 44, file->value_count);
    memcpy(to + 48, file->hash.bytes, SHA256_SIZE);
}

static void extent_store(unsigned char *to, const pack_extent *extent)
{
    store_u64(to, extent->size);
    store_u64(to + 8, extent->frame_offset);
    store_u32(to + 16, extent->pack);
    store_u32(to + 20, extent->frame);
    store_u64(to + 24, extent->hash.low);
    store_u64(to + 32, extent->hash.high);
}

static void tensor_store(unsigned char *to, const pack_tensor *tensor)
{
    store_u32(to, tensor->name);
    store_u32(to + 4, tensor->dim_first);
    to[8] = tensor->dtype;
    to[9] = tensor->rank;
    to[10] = tensor->flags;
    store_u64(to + 16, tensor->offset);
    store_u64(to + 24, tensor->span_bytes);
}

static void value_store(unsigned char *to, const pack_value *value)
{
    store_u32(to, value->key);
    store_u32(to + 4, value->value);
}

/* Rows of one table, one behind the other; `at` moves on. */
#define STORE_ROWS(at, row_size, rows, count, store_row)                                                               \
    for (uint32_t row = 0; row < (count); row++, (at) += (row_size))                                                   \
    store_row((at), &(rows)[row])

static void sha256_store(unsigned char *to, const sha256 *hash)
{
    memcpy(to, hash->bytes, SHA256_SIZE);
}

static void dim_store(unsigned char *to, const uint64_t *dim)
{
    store_u64(to, *dim);
}

int pack_index_encode(unsigned char **bytes, size_t *size, const pack_index *index, ckpt_error *err)
{
    int rc = 0;
    char no_strings[1] = "";
    pack_index tables = *index;

    *bytes = NULL;
    if (tables.string_bytes == 0) { /* offset 0 is the empty string, also where no string was added */
        tables.strings = no_strings;
        tables.string_bytes = sizeof no_strings;
    }
    rc = pack_index_check(&tables, err);
    if (rc == CKPT_EDATA || rc == CKPT_EVERSION) {
        error_prefix(err, "tables of a new pack contradict themselves");
        rc = CKPT_EBUG;
        if (err)
            err->code = rc;
    }
    TRY(rc);
    const uint64_t total = tables_size(&tables);
    FAIL_IF(total > PACK_INDEX_MAX, err, CKPT_EUSAGE, "the tables of this checkpoint are larger than %" PRIu64 " bytes",
            PACK_INDEX_MAX);
    *bytes = calloc(1, (size_t)total);
    FAIL_IF_NULL(*bytes, err);
    *size = (size_t)total;

    unsigned char *at = *bytes;
    head_store(at, &tables);
    at += HEAD_SIZE;
    STORE_ROWS(at, PACK_SIZE, tables.packs, tables.pack_count, sha256_store);
    STORE_ROWS(at, FRAME_SIZE, tables.frames, tables.frame_count, frame_store);
    STORE_ROWS(at, CHUNK_SIZE, tables.chunks, tables.chunk_count, chunk_store);
    STORE_ROWS(at, FILE_SIZE, tables.files, tables.file_count, file_store);
    STORE_ROWS(at, EXTENT_SIZE, tables.extents, tables.extent_count, extent_store);
    STORE_ROWS(at, TENSOR_SIZE, tables.tensors, tables.tensor_count, tensor_store);
    STORE_ROWS(at, VALUE_SIZE, tables.values, tables.value_count, value_store);
    STORE_ROWS(at, DIM_SIZE, tables.dims, tables.dim_count, dim_store);
    memcpy(at, tables.strings, tables.string_bytes);
    assert(at + tables.string_bytes == *bytes + *size);
out:
    return rc;
}

/* ---- Bytes to rows: each returns false where reserved bytes are in use ---- */

static bool is_zero(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

static bool sha256_load(sha256 *hash, const unsigned char *from)
{
    memcpy(hash->bytes, from, SHA256_SIZE);
    return true;
}

static bool frame_load(pack_frame *frame, const unsigned char *from)
{
    frame->offset = load_u64(from);
    frame->size = load_u64(from + 8);
    frame->chunk_first = load_u32(from + 16);
    frame->reference_pack = load_u32(from + 20);
    frame->reference_frame = load_u32(from + 24);
    frame->class_name = load_u32(from + 28);
    frame->dtype = from[32];
    frame->depth = from[33];
    frame->kind = from[34];
    frame->transform = from[35];
    frame->level = from[36];
    memcpy(frame->hash.bytes, from + 40, SHA256_SIZE);
    memcpy(frame->reference_hash.bytes, from + 72, SHA256_SIZE);
    return is_zero(from + 37, 3);
}

static bool chunk_load(pack_chunk *chunk, const unsigned char *from)
{
    chunk->coded_size = load_u32(from);
    chunk->xxh64 = load_u64(from + 4);
    return true;
}

static bool file_load(pack_file *file, const unsigned char *from)
{
    file->path = load_u32(from);
    file->link = load_u32(from + 4);
    file->format = load_u32(from + 8);
    file->mode = load_u16(from + 12);
    file->kind = from[14];
    file->size = load_u64(from + 16);
    file->extent_first = load_u32(from + 24);
    file->extent_count = load_u32(from + 28);
    file->tensor_first = load_u32(from + 32);
    file->tensor_count = load_u32(from + 36);
    file->value_first = load_u32(from + 40);
    file->value_count = load_u32(from + 44);
    memcpy(file->hash.bytes, from + 48, SHA256_SIZE);
    return is_zero(from + 15, 1);
}

static bool extent_load(pack_extent *extent, const unsigned char *from)
{
    extent->size = load_u64(from);
    extent->frame_offset = load_u64(from + 8);
    extent->pack = load_u32(from + 16);
    extent->frame = load_u32(from + 20);
    extent->hash.low = load_u64(from + 24);
    extent->hash.high = load_u64(from + 32);
    return true;
}

static bool tensor_load(pack_tensor *tensor, const unsigned char *from)
{
    tensor->name = load_u32(from);
    tensor->dim_first = load_u32(from + 4);
    tensor->dtype = from[8];
    tensor->rank = from[9];
    tensor->flags = from[10];
    tensor->offset = load_u64(from + 16);
    tensor->span_bytes = load_u64(from + 24);
    return is_zero(from + 11, 5);
}

static bool value_load(pack_value *value, const unsigned char *from)
{
    value->key = load_u32(from);
    value->value = load_u32(from + 4);
    return true;
}

static bool dim_load(uint64_t *dim, const unsigned char *from)
{
    *dim = load_u64(from);
    return true;
}

/* Allocates one table and fills it; `at` moves on. The sizes were checked against the input before. */
#define LOAD_ROWS(rows, at, row_size, count, load_row)                                                                 \
    do {                                                                                                               \
        if (count)                                                                                                     \
            FAIL_IF_NULL((rows) = calloc((count), sizeof *(rows)), err);                                               \
        for (uint32_t row = 0; row < (count); row++, (at) += (row_size))                                               \
            FAIL_IF(!load_row(&(rows)[row], (at)), err, CKPT_EVERSION, "index uses fields of a newer version");        \
    } while (0)

/* The counts of the head, within their limits and together exactly as large as the input. */
static int head_load(pack_index *index, const unsigned char *bytes, size_t size, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(size < HEAD_SIZE || memcmp(bytes, INDEX_MAGIC, 4) != 0, err, CKPT_EDATA, "index has no head");
    const uint32_t version = load_u32(bytes + 4), features = load_u32(bytes + 8);
    FAIL_IF(version != INDEX_VERSION, err, CKPT_EVERSION, "index is of version %" PRIu32 ", this program reads %u",
            version, INDEX_VERSION);
    FAIL_IF(features & ~PACK_FEATURES_KNOWN, err, CKPT_EVERSION, "index needs features %#" PRIx32 " of a newer version",
            features);
    FAIL_IF(!is_zero(bytes + HEAD_RESERVED, HEAD_SIZE - HEAD_RESERVED), err, CKPT_EVERSION,
            "index uses fields of a newer version");

    index->features = features;
    index->pack_count = load_u32(bytes + 12);
    index->frame_count = load_u32(bytes + 16);
    index->chunk_count = load_u32(bytes + 20);
    index->file_count = load_u32(bytes + 24);
    index->extent_count = load_u32(bytes + 28);
    index->tensor_count = load_u32(bytes + 32);
    index->value_count = load_u32(bytes + 36);
    index->dim_count = load_u32(bytes + 40);
    index->string_bytes = load_u32(bytes + 44);
    FAIL_IF(index->pack_count > PACK_PACKS_MAX || index->frame_count > PACK_FRAMES_MAX ||
                index->chunk_count > PACK_CHUNKS_MAX || index->file_count > PACK_FILES_MAX ||
                index->extent_count > PACK_EXTENTS_MAX || index->tensor_count > PACK_TENSORS_MAX ||
                index->value_count > PACK_VALUES_MAX || index->dim_count > PACK_DIMS_MAX ||
                index->string_bytes > PACK_STRING_BYTES_MAX,
            err, CKPT_EDATA, "index has a count beyond its limit");
    FAIL_IF(tables_size(index) != size, err, CKPT_EDATA, "index has %zu bytes, its counts say %" PRIu64, size,
            tables_size(index));
out:
    return rc;
}

int pack_index_decode(pack_index *index, const unsigned char *bytes, size_t size, ckpt_error *err)
{
    int rc = 0;

    *index = (pack_index){0};
    TRY(head_load(index, bytes, size, err));
    const unsigned char *at = bytes + HEAD_SIZE;
    LOAD_ROWS(index->packs, at, PACK_SIZE, index->pack_count, sha256_load);
    LOAD_ROWS(index->frames, at, FRAME_SIZE, index->frame_count, frame_load);
    LOAD_ROWS(index->chunks, at, CHUNK_SIZE, index->chunk_count, chunk_load);
    LOAD_ROWS(index->files, at, FILE_SIZE, index->file_count, file_load);
    LOAD_ROWS(index->extents, at, EXTENT_SIZE, index->extent_count, extent_load);
    LOAD_ROWS(index->tensors, at, TENSOR_SIZE, index->tensor_count, tensor_load);
    LOAD_ROWS(index->values, at, VALUE_SIZE, index->value_count, value_load);
    LOAD_ROWS(index->dims, at, DIM_SIZE, index->dim_count, dim_load);
    FAIL_IF_NULL(index->strings = malloc((size_t)index->string_bytes + 1), err);
    memcpy(index->strings, at, index->string_bytes);
    assert(at + index->string_bytes == bytes + size);
    TRY(pack_index_check(index, err));
out:
    if (rc)
        pack_index_clear(index);
    return rc;
}
