/* What must hold in the tables of a pack before anything relies on them; the list stands in pack.h. Work and memory
 * grow with the tables only, whatever they say. */
#include "pack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "fail.h"

#define MODE_MAX        07777u
#define FRAME_KIND_LAST FRAME_GROUP
#define DTYPE_LAST      CKPT_F8_E5M2

/* ---- Strings and paths ---- */

static int strings_check(const pack_index *index, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(index->string_bytes == 0, err, CKPT_EDATA, "index has no strings");
    FAIL_IF(index->strings[0] != 0, err, CKPT_EDATA, "the first string is not empty");
    FAIL_IF(index->strings[index->string_bytes - 1] != 0, err, CKPT_EDATA, "the last string does not end");
out:
    return rc;
}

static bool has_string(const pack_index *index, uint32_t offset)
{
    return offset < index->string_bytes;
}

/* Relative, without empty, `.` and `..` components, and short enough to be a path at all. */
static bool path_is_safe(const char *path)
{
    if (strlen(path) >= FILE_PATH_MAX)
        return false;
    for (const char *part = path;; part++) {
        const size_t length = strcspn(part, "/");
        if (length == 0 || (length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += length;
        if (*part == 0)
            return true;
    }
}

typedef struct path_row {
    const char *path;
    uint8_t kind;
} path_row;

/* In byte order with `/` before all else, so that what lies below a path follows it at once. */
static int path_row_compare(const void *a, const void *b)
{
    const unsigned char *x = (const unsigned char *)((const path_row *)a)->path;
    const unsigned char *y = (const unsigned char *)((const path_row *)b)->path;
    while (*x && *x == *y) {
        x++;
        y++;
    }
    const int left = *x == '/' ? 1 : *x ? *x + 1 : 0;
    const int right = *y == '/' ? 1 : *y ? *y + 1 : 0;
    return left - right;
}

/* Each path once, and none below something that is not a folder: a link there would lead the restore elsewhere. */
static int paths_check(const pack_index *index, ckpt_error *err)
{
    int rc = 0;
    path_row *rows = malloc(((size_t)index->file_count + 1) * sizeof *rows);

    FAIL_IF_NULL(rows, err);
    for (uint32_t i = 0; i < index->file_count; i++)
        rows[i] = (path_row){pack_string(index, index->files[i].path), index->files[i].kind};
    qsort(rows, index->file_count, sizeof *rows, path_row_compare);
    for (uint32_t i = 1; i < index->file_count; i++) {
        const path_row *above = &rows[i - 1];
        const char *path = rows[i].path;
        const size_t length = strlen(above->path);
        if (strncmp(path, above->path, length) != 0)
            continue;
        FAIL_IF(path[length] == 0, err, CKPT_EDATA, "path %s appears twice", path);
        FAIL_IF(path[length] == '/' && above->kind != CKPT_FOLDER, err, CKPT_EDATA,
                "path %s lies below something that is not a folder", path);
    }
out:
    free(rows);
    return rc;
}

/* ---- Frames ---- */

static int frame_reference_check(const pack_index *index, uint32_t i, ckpt_error *err)
{
    static const sha256 NO_HASH;
    int rc = 0;
    const pack_frame *frame = &index->frames[i];

    if (frame->reference_pack == PACK_NONE) {
        FAIL_IF(frame->depth != 0 || frame->reference_frame != 0 ||
                    sha256_compare(&frame->reference_hash, &NO_HASH) != 0,
                err, CKPT_EDATA, "frame %" PRIu32 " has a depth without a reference", i);
        goto out;
    }
    FAIL_IF(frame->reference_pack > index->pack_count, err, CKPT_EDATA, "frame %" PRIu32 " refers to an unnamed pack",
            i);
    FAIL_IF(frame->depth == 0 || frame->depth > PACK_DEPTH_READ_MAX, err, CKPT_EDATA,
            "frame %" PRIu32 " has depth %u, readers accept 1 to %d", i, frame->depth, PACK_DEPTH_READ_MAX);
    if (frame->reference_pack == 0)
        FAIL_IF(frame->reference_frame >= i || frame->depth <= index->frames[frame->reference_frame].depth, err,
                CKPT_EDATA, "frame %" PRIu32 " refers to a later or deeper frame", i);
out:
    return rc;
}

static int frame_check(uint64_t *chunks, const pack_index *index, uint32_t i, ckpt_error *err)
{
    int rc = 0;
    const pack_frame *frame = &index->frames[i];

    FAIL_IF(frame->transform > TRANSFORM_BF16, err, CKPT_EVERSION,
            "frame %" PRIu32 " needs transform %u of a newer version", i, frame->transform);
    FAIL_IF(frame->size == 0 || frame->size > PACK_FRAME_BYTES_MAX, err, CKPT_EDATA,
            "frame %" PRIu32 " has %" PRIu64 " bytes", i, frame->size);
    FAIL_IF(frame->kind > FRAME_KIND_LAST || frame->dtype > DTYPE_LAST || !has_string(index, frame->class_name), err,
            CKPT_EDATA, "frame %" PRIu32 " has an unknown kind, dtype or class", i);
    FAIL_IF(frame->offset < PACK_HEADER_SIZE, err, CKPT_EDATA, "frame %" PRIu32 " begins before the first frame", i);
    FAIL_IF(!checked_range(frame->chunk_first, pack_frame_chunks(frame), index->chunk_count), err, CKPT_EDATA,
            "frame %" PRIu32 " has chunks that do not exist", i);
    *chunks += pack_frame_chunks(frame);
    TRY(frame_reference_check(index, i, err));
out:
    return rc;
}

static int frames_check(const pack_index *index, ckpt_error *err)
{
    int rc = 0;
    uint64_t chunks = 0;

    for (uint32_t i = 0; i < index->frame_count; i++)
        TRY(frame_check(&chunks, index, i, err));
    FAIL_IF(chunks > index->chunk_count, err, CKPT_EDATA, "frames share chunks");
    for (uint32_t i = 0; i < index->chunk_count; i++)
        FAIL_IF(index->chunks[i].coded_size == 0 || index->chunks[i].coded_size > CODEC_CHUNK_CODED_MAX, err,
                CKPT_EDATA, "chunk %" PRIu32 " has %" PRIu32 " coded bytes", i, index->chunks[i].coded_size);
out:
    return rc;
}

/* ---- Files: how many rows of each table the files so far have taken, one range behind the other ---- */

typedef struct file_rows {
    uint64_t extents, tensors, values;
} file_rows;

static int extents_check(const pack_index *index, ckpt_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < index->extent_count; i++) {
        const pack_extent *extent = &index->extents[i];
        FAIL_IF(extent->size == 0 || extent->pack > index->pack_count, err, CKPT_EDATA,
                "extent %" PRIu32 " is empty or in an unnamed pack", i);
        if (extent->pack == 0)
            FAIL_IF(extent->frame >= index->frame_count ||
                        !checked_range(extent->frame_offset, extent->size, index->frames[extent->frame].size),
                    err, CKPT_EDATA, "extent %" PRIu32 " lies outside its frame", i);
        FAIL_IF(!checked_range(extent->frame_offset, extent->size, PACK_FRAME_BYTES_MAX), err, CKPT_EDATA,
                "extent %" PRIu32 " is larger than a frame", i);
    }
out:
    return rc;
}

static int file_extents_check(const pack_index *index, const pack_file *file, ckpt_error *err)
{
    int rc = 0;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < file->extent_count; i++)
        FAIL_IF(!checked_add(&sum, sum, index->extents[file->extent_first + i].size), err, CKPT_EDATA,
                "file %s is larger than any file", pack_string(index, file->path));
    FAIL_IF(sum != file->size, err, CKPT_EDATA, "file %s has %" PRIu64 " bytes, its extents %" PRIu64,
            pack_string(index, file->path), file->size, sum);
out:
    return rc;
}

/* The bytes from the first element to the end of the last, and whether elements and bytes fit 64 bits at all. */
static bool tensor_span(uint64_t *span, const pack_index *index, const pack_tensor *tensor)
{
    const uint64_t *shape = tensor->rank ? index->dims + tensor->dim_first : NULL; /* there may be no dims at all */
    const uint64_t *stride = tensor->flags & PACK_TENSOR_STRIDED && tensor->rank ? shape + tensor->rank : NULL;
    const uint64_t element = ckpt_dtype_size((ckpt_dtype)tensor->dtype);
    uint64_t bytes = element, last = 0;

    for (unsigned d = 0; d < tensor->rank; d++)
        if (shape[d] == 0) {
            *span = 0;
            return true;
        }
    for (unsigned d = 0; d < tensor->rank; d++) {
        uint64_t step = 0;
        if (!checked_mul(&bytes, bytes, shape[d]))
            return false;
        if (stride &&
            (stride[d] > INT64_MAX || !checked_mul(&step, shape[d] - 1, stride[d]) || !checked_add(&last, last, step)))
            return false;
    }
    *span = bytes;
    return !stride || (checked_add(&last, last, 1) && checked_mul(span, last, element));
}

static int tensor_check(const pack_index *index, uint32_t i, uint64_t file_size, ckpt_error *err)
{
    int rc = 0;
    const pack_tensor *tensor = &index->tensors[i];
    uint64_t span = 0;

    FAIL_IF(!has_string(index, tensor->name), err, CKPT_EDATA, "tensor %" PRIu32 " has no name", i);
    FAIL_IF(tensor->dtype > DTYPE_LAST || tensor->rank > CKPT_RANK_MAX || (tensor->flags & ~PACK_TENSOR_STRIDED), err,
            CKPT_EDATA, "tensor %" PRIu32 " has an unknown dtype, rank or flag", i);
    const uint32_t dims = tensor->rank * (tensor->flags & PACK_TENSOR_STRIDED ? 2u : 1u);
    FAIL_IF(!checked_range(tensor->dim_first, dims, index->dim_count), err, CKPT_EDATA,
            "tensor %" PRIu32 " has a shape that does not exist", i);
    FAIL_IF(!tensor_span(&span, index, tensor) || span != tensor->span_bytes, err, CKPT_EDATA,
            "tensor %" PRIu32 " has a span that does not follow from its shape", i);
    FAIL_IF(!checked_range(tensor->offset, span, file_size), err, CKPT_EDATA,
            "tensor %" PRIu32 " lies outside its file", i);
out:
    return rc;
}

/* Takes the next `count` rows of a table; an empty range may stand anywhere. */
static bool range_follows(uint64_t *taken, uint32_t first, uint32_t count, uint32_t rows)
{
    if (count == 0)
        return true;
    if (first != *taken || count > rows - first)
        return false;
    *taken += count;
    return true;
}

static int file_ranges_check(file_rows *rows, const pack_index *index, const pack_file *file, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(!range_follows(&rows->extents, file->extent_first, file->extent_count, index->extent_count) ||
                !range_follows(&rows->tensors, file->tensor_first, file->tensor_count, index->tensor_count) ||
                !range_follows(&rows->values, file->value_first, file->value_count, index->value_count),
            err, CKPT_EDATA, "file %s has rows that do not exist, or not those behind the last file's",
            pack_string(index, file->path));
out:
    return rc;
}

static int file_check(file_rows *rows, const pack_index *index, uint32_t i, ckpt_error *err)
{
    int rc = 0;
    const pack_file *file = &index->files[i];

    FAIL_IF(!has_string(index, file->path) || !has_string(index, file->link) || !has_string(index, file->format), err,
            CKPT_EDATA, "file %" PRIu32 " has a name that does not exist", i);
    const char *path = pack_string(index, file->path);
    FAIL_IF(!path_is_safe(path), err, CKPT_EDATA, "path \"%s\" is not a plain relative path", path);
    FAIL_IF(file->kind > CKPT_LINK || file->mode > MODE_MAX, err, CKPT_EDATA, "file %s has an unknown kind or mode",
            path);
    FAIL_IF((file->kind == CKPT_LINK) != (*pack_string(index, file->link) != 0), err, CKPT_EDATA,
            "file %s has a target and is no link, or the reverse", path);
    FAIL_IF(file->kind != CKPT_FILE && (file->size || file->extent_count || file->tensor_count || file->value_count),
            err, CKPT_EDATA, "folder or link %s has bytes", path);
    TRY(file_ranges_check(rows, index, file, err));
    TRY(file_extents_check(index, file, err));
    for (uint32_t t = 0; t < file->tensor_count; t++)
        TRY(tensor_check(index, file->tensor_first + t, file->size, err));
out:
    return rc;
}

static int files_check(const pack_index *index, ckpt_error *err)
{
    int rc = 0;
    file_rows rows = {0};

    for (uint32_t i = 0; i < index->file_count; i++)
        TRY(file_check(&rows, index, i, err));
    FAIL_IF(rows.extents != index->extent_count || rows.tensors != index->tensor_count ||
                rows.values != index->value_count,
            err, CKPT_EDATA, "an extent, tensor or value belongs to no file");
    for (uint32_t i = 0; i < index->value_count; i++)
        FAIL_IF(!has_string(index, index->values[i].key) || !has_string(index, index->values[i].value), err, CKPT_EDATA,
                "value %" PRIu32 " has no key or no string", i);
    TRY(paths_check(index, err));
out:
    return rc;
}

int pack_index_check(const pack_index *index, ckpt_error *err)
{
    int rc = 0;

    TRY(strings_check(index, err));
    TRY(frames_check(index, err));
    TRY(extents_check(index, err));
    TRY(files_check(index, err));
out:
    return rc;
}
