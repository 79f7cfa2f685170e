/* The tables of a pack in memory: growing arrays for the writer, and the hash that names a checkpoint's files. */
#include "pack.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "bytes.h"
#include "fail.h"

#define SLOTS_FIRST 64u

/* Rows found by content: open addressing over row numbers plus one, 0 for a free slot. The size is a power of two, and
 * at most half of the slots are taken. */
typedef struct row_set {
    uint32_t *slots;
    uint32_t size, used;
} row_set;

typedef struct index_capacity {
    size_t packs, frames, chunks, files, extents, tensors, values, dims, strings;
    row_set pack_rows, string_rows;
} index_capacity;

static int capacity_get(index_capacity **out, pack_index *index, ckpt_error *err)
{
    if (!index->capacity)
        index->capacity = calloc(1, sizeof(index_capacity));
    *out = index->capacity;
    return *out ? 0 : error_memory(err);
}

/* Makes room for `more` rows behind `count`; *rows is the array, which may move. */
static int rows_reserve(void **rows, size_t *capacity, uint32_t count, uint32_t more, uint32_t max, size_t row_size,
                        const char *what, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(more > max - count, err, CKPT_EUSAGE, "a checkpoint may hold at most %" PRIu32 " %s", max, what);
    void *grown = array_room(*rows, capacity, (size_t)count + more, row_size);
    FAIL_IF_NULL(grown, err);
    *rows = grown;
out:
    return rc;
}

/* One function a table: they differ in type, limit and word only. */
#define DEFINE_ADD(function, type, rows, row_count, rows_max, what)                                                    \
    int function(uint32_t *at, pack_index *index, const type *row, ckpt_error *err)                                    \
    {                                                                                                                  \
        int rc = 0;                                                                                                    \
        index_capacity *capacity = NULL;                                                                               \
        TRY(capacity_get(&capacity, index, err));                                                                      \
        void *grown = index->rows;                                                                                     \
        TRY(rows_reserve(&grown, &capacity->rows, index->row_count, 1, rows_max, sizeof *row, what, err));             \
        index->rows = grown;                                                                                           \
        index->rows[index->row_count] = *row;                                                                          \
        *at = index->row_count++;                                                                                      \
    out:                                                                                                               \
        return rc;                                                                                                     \
    }

DEFINE_ADD(pack_index_add_frame, pack_frame, frames, frame_count, PACK_FRAMES_MAX, "frames")
DEFINE_ADD(pack_index_add_chunk, pack_chunk, chunks, chunk_count, PACK_CHUNKS_MAX, "chunks")
DEFINE_ADD(pack_index_add_file, pack_file, files, file_count, PACK_FILES_MAX, "files")
DEFINE_ADD(pack_index_add_extent, pack_extent, extents, extent_count, PACK_EXTENTS_MAX, "extents")
DEFINE_ADD(pack_index_add_tensor, pack_tensor, tensors, tensor_count, PACK_TENSORS_MAX, "tensors")
DEFINE_ADD(pack_index_add_value, pack_value, values, value_count, PACK_VALUES_MAX, "values")
static DEFINE_ADD(dims_append, uint64_t, dims, dim_count, PACK_DIMS_MAX,
                  "dimensions") static DEFINE_ADD(packs_append, sha256, packs, pack_count, PACK_PACKS_MAX,
                                                  "other packs")

    int pack_index_add_dim(uint32_t *at, pack_index *index, uint64_t dim, ckpt_error *err)
{
    return dims_append(at, index, &dim, err);
}

/* ---- Rows kept once ---- */

typedef uint64_t (*row_hash_fn)(const pack_index *index, uint32_t row);

static uint64_t pack_row_hash(const pack_index *index, uint32_t row)
{
    return load_u64(index->packs[row].bytes);
}

static uint64_t string_row_hash(const pack_index *index, uint32_t row)
{
    return xxh64_of(index->strings + row, strlen(index->strings + row));
}

static void row_set_put(row_set *set, uint64_t hash, uint32_t row)
{
    uint32_t slot = (uint32_t)hash & (set->size - 1);
    while (set->slots[slot])
        slot = (slot + 1) & (set->size - 1);
    set->slots[slot] = row + 1;
    set->used++;
}

/* Makes room for one more row. */
static int row_set_reserve(row_set *set, const pack_index *index, row_hash_fn hash, ckpt_error *err)
{
    int rc = 0;

    if (set->used < set->size / 2)
        goto out;
    row_set larger = {.size = set->size ? set->size * 2 : SLOTS_FIRST};
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    FAIL_IF_NULL(larger.slots, err);
    for (uint32_t i = 0; i < set->size; i++)
        if (set->slots[i])
            row_set_put(&larger, hash(index, set->slots[i] - 1), set->slots[i] - 1);
    free(set->slots);
    *set = larger;
out:
    return rc;
}

int pack_index_add_pack(uint32_t *number, pack_index *index, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    index_capacity *capacity = NULL;
    const uint64_t hash = load_u64(name->bytes);

    TRY(capacity_get(&capacity, index, err));
    row_set *set = &capacity->pack_rows;
    TRY(row_set_reserve(set, index, pack_row_hash, err));
    for (uint32_t slot = (uint32_t)hash & (set->size - 1); set->slots[slot]; slot = (slot + 1) & (set->size - 1)) {
        *number = set->slots[slot]; /* a row plus one, which is the pack's number */
        if (sha256_compare(&index->packs[*number - 1], name) == 0)
            goto out;
    }

    uint32_t row = 0;
    TRY(packs_append(&row, index, name, err));
    row_set_put(set, hash, row);
    *number = row + 1;
out:
    return rc;
}

/* Appends without looking for an equal one. */
static int strings_append(uint32_t *offset, pack_index *index, index_capacity *capacity, const char *string,
                          size_t length, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(length >= PACK_STRING_BYTES_MAX, err, CKPT_EUSAGE, "a name is too long");
    void *grown = index->strings;
    TRY(rows_reserve(&grown, &capacity->strings, index->string_bytes, (uint32_t)length + 1, PACK_STRING_BYTES_MAX, 1,
                     "bytes of names", err));
    index->strings = grown;
    memcpy(index->strings + index->string_bytes, string, length + 1);
    *offset = index->string_bytes;
    index->string_bytes += (uint32_t)length + 1;
out:
    return rc;
}

int pack_index_add_string(uint32_t *offset, pack_index *index, const char *string, ckpt_error *err)
{
    int rc = 0;
    index_capacity *capacity = NULL;
    const size_t length = strlen(string);
    const uint64_t hash = xxh64_of(string, length);

    TRY(capacity_get(&capacity, index, err));
    if (index->string_bytes == 0)
        TRY(strings_append(offset, index, capacity, "", 0, err));
    *offset = 0;
    if (length == 0)
        goto out;

    row_set *set = &capacity->string_rows;
    TRY(row_set_reserve(set, index, string_row_hash, err));
    for (uint32_t slot = (uint32_t)hash & (set->size - 1); set->slots[slot]; slot = (slot + 1) & (set->size - 1)) {
        *offset = set->slots[slot] - 1;
        if (strcmp(index->strings + *offset, string) == 0)
            goto out;
    }
    TRY(strings_append(offset, index, capacity, string, length, err));
    row_set_put(set, hash, *offset);
out:
    return rc;
}

void pack_index_clear(pack_index *index)
{
    index_capacity *capacity = index->capacity;
    if (capacity) {
        free(capacity->pack_rows.slots);
        free(capacity->string_rows.slots);
        free(capacity);
    }
    free(index->packs);
    free(index->frames);
    free(index->chunks);
    free(index->files);
    free(index->extents);
    free(index->tensors);
    free(index->values);
    free(index->dims);
    free(index->strings);
    *index = (pack_index){0};
}

/* ---- The name of the files ---- */

typedef struct tree_row {
    const char *path;
    const pack_file *file;
} tree_row;

static int tree_row_compare(const void *a, const void *b)
{
    return strcmp(((const tree_row *)a)->path, ((const tree_row *)b)->path); /* as unsigned bytes */
}

static void tree_row_hash(sha256_stream *stream, const pack_index *index, const tree_row *row)
{
    static const char KINDS[] = {[CKPT_FILE] = 'F', [CKPT_FOLDER] = 'D', [CKPT_LINK] = 'L'};
    const pack_file *file = row->file;
    const char *link = pack_string(index, file->link);
    char hex[SHA256_HEX_SIZE];
    char head[128]; /* letter, mode, size and digits take at most 1 + 6 + 20 + 64 and four blanks */

    assert(file->kind < sizeof KINDS);
    sha256_hex(hex, &file->hash);
    const int length =
        snprintf(head, sizeof head, "%c %o %" PRIu64 " %s ", KINDS[file->kind], (unsigned)file->mode, file->size, hex);
    assert(length > 0 && (size_t)length < sizeof head);
    sha256_update(stream, head, (size_t)length);
    sha256_update(stream, link, strlen(link) + 1);
    sha256_update(stream, row->path, strlen(row->path) + 1);
}

int pack_index_tree(sha256 *out, const pack_index *index, ckpt_error *err)
{
    int rc = 0;
    tree_row *rows = NULL;
    sha256_stream *stream = sha256_new();

    FAIL_IF_NULL(stream, err);
    rows = malloc(((size_t)index->file_count + 1) * sizeof *rows);
    FAIL_IF_NULL(rows, err);
    for (uint32_t i = 0; i < index->file_count; i++)
        rows[i] = (tree_row){pack_string(index, index->files[i].path), &index->files[i]};
    qsort(rows, index->file_count, sizeof *rows, tree_row_compare);
    for (uint32_t i = 0; i < index->file_count; i++)
        tree_row_hash(stream, index, &rows[i]);
    sha256_finish(out, stream);
out:
    free(rows);
    sha256_free(stream);
    return rc;
}
