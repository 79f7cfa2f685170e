#include "tensor_file.h"

#include "checked.h"
#include "fail.h"
#include "file.h"
#include "utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Tried in this order. */
static const tensor_format *const FORMATS[] = {
    &FORMAT_SAFETENSORS, &FORMAT_NPY,  &FORMAT_DISTCP,       &FORMAT_TORCH, &FORMAT_KERAS,
    &FORMAT_NPZ,         &FORMAT_HDF5, &FORMAT_TORCH_LEGACY, &FORMAT_LFS,
};

#define FORMAT_COUNT (sizeof FORMATS / sizeof FORMATS[0])
#define HEAD_SIZE    64
#define GROWTH_FIRST 16
#define WHY_SIZE     256

/* ---- Sources ---------------------------------------------------------------------------------------------------- */

static int read_fd(const byte_source *source, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    return file_read_at(dst, source->fd, offset, size, source->path, err);
}

static int read_memory(const byte_source *source, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    if (!checked_range(offset, size, source->size))
        return error_set(err, CKPT_EDATA, "%s: ends before byte %llu", source->path,
                         (unsigned long long)(offset + size));
    if (size)
        memcpy(dst, (const unsigned char *)source->data + offset, size);
    return 0;
}

static int beside_path(const byte_source *source, char **data, size_t *size, const char *name, size_t size_max,
                       ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    TRY(path_parent(path, source->path, err));
    TRY(path_join(path, path, name, err));
    TRY(file_read_all(data, size, path, size_max, err));
out:
    return rc;
}

static int read_part(const byte_source *source, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    if (!checked_range(offset, size, source->size))
        return error_set(err, CKPT_EDATA, "%s: a part ends too early", source->path);
    return source->whole->read(source->whole, dst, source->first + offset, size, err);
}

void byte_source_fd(byte_source *source, int fd, uint64_t size, const char *path)
{
    *source = (byte_source){.size = size, .read = read_fd, .beside = beside_path, .path = path, .fd = fd};
}

void byte_source_memory(byte_source *source, const void *data, uint64_t size, const char *path)
{
    *source = (byte_source){.size = size, .read = read_memory, .path = path, .fd = -1, .data = data};
}

void byte_source_part(byte_source *source, const byte_source *whole, uint64_t offset, uint64_t size)
{
    assert(checked_range(offset, size, whole->size));
    *source =
        (byte_source){.size = size, .read = read_part, .path = whole->path, .fd = -1, .whole = whole, .first = offset};
}

/* ---- Views ------------------------------------------------------------------------------------------------------ */

bool tensor_view_bytes(uint64_t *bytes, const tensor_view *view)
{
    *bytes = 0;
    for (unsigned i = 0; i < view->rank; i++)
        if (view->shape[i] == 0)
            return true; /* makes any other dimension legal */
    *bytes = ckpt_dtype_size(view->dtype);
    for (unsigned i = 0; i < view->rank; i++)
        if (!checked_mul(bytes, *bytes, view->shape[i]))
            return false;
    return true;
}

int tensor_view_row_major(tensor_view *view, ckpt_error *err)
{
    uint64_t step = 1;
    for (unsigned i = view->rank; i-- > 0;) {
        if (step > INT64_MAX)
            return error_set(err, CKPT_EFORMAT, "a shape overflows");
        view->stride[i] = (int64_t)step;
        /* A dimension of 0 leaves the strides of those before it as if it were 1, as other programs do. */
        if (!checked_mul(&step, step, view->shape[i] ? view->shape[i] : 1))
            return error_set(err, CKPT_EFORMAT, "a shape overflows");
    }
    return tensor_view_measure(view, err);
}

int tensor_view_measure(tensor_view *view, ckpt_error *err)
{
    const uint64_t width = ckpt_dtype_size(view->dtype);
    uint64_t bytes, last = 0, row = 1;

    if (!tensor_view_bytes(&bytes, view))
        return error_set(err, CKPT_EFORMAT, "a shape overflows");
    view->contiguous = true;
    view->span_bytes = 0;
    if (bytes == 0)
        return 0;
    for (unsigned i = view->rank; i-- > 0;) {
        uint64_t reach;
        if (view->stride[i] < 0)
            return error_set(err, CKPT_EFORMAT, "a stride is negative");
        if (!checked_mul(&reach, view->shape[i] - 1, (uint64_t)view->stride[i]) || !checked_add(&last, last, reach))
            return error_set(err, CKPT_EFORMAT, "a stride overflows");
        if (view->shape[i] != 1 && (uint64_t)view->stride[i] != row)
            view->contiguous = false;
        row *= view->shape[i];
    }
    if (!checked_add(&last, last, 1) || !checked_mul(&view->span_bytes, last, width))
        return error_set(err, CKPT_EFORMAT, "a stride overflows");
    return 0;
}

/* ---- Lists ------------------------------------------------------------------------------------------------------ */

/* Makes room for one more item; the capacity is the power of two that `count` has reached. */
static int list_grow(void **items, size_t count, size_t item_size, ckpt_error *err)
{
    size_t capacity = GROWTH_FIRST;
    if (count >= GROWTH_FIRST) {
        if ((count & (count - 1)) != 0)
            return 0;
        capacity = 2 * count;
    } else if (count > 0) {
        return 0;
    }
    void *larger = realloc(*items, capacity * item_size);
    if (!larger)
        return error_memory(err);
    *items = larger;
    return 0;
}

int tensor_file_add(tensor_file *file, tensor_view *view, uint64_t file_size, ckpt_error *err)
{
    int rc = 0;
    uint64_t bytes;
    void *items = file->tensors;

    FAIL_IF(file->count >= TENSOR_FILE_TENSORS_MAX, err, CKPT_EFORMAT, "more than %u tensors", TENSOR_FILE_TENSORS_MAX);
    FAIL_IF(!tensor_name_valid(view->name), err, CKPT_EFORMAT, "a tensor's name is not text of 1 to %d bytes",
            TENSOR_FILE_NAME_MAX);
    FAIL_IF(!checked_range(view->offset, view->span_bytes, file_size), err, CKPT_EFORMAT,
            "%.200s: lies outside of the file", view->name);
    /* A stride of 0 makes few bytes look like many; work on a tensor has to stay in proportion to the file. */
    FAIL_IF(!tensor_view_bytes(&bytes, view) || bytes > file_size, err, CKPT_EFORMAT,
            "%.200s: has more elements than the file", view->name);
    const uint64_t most = file_size > (UINT64_MAX - TENSOR_FILE_BYTES_FREE) / TENSOR_FILE_TIMES_MAX
                              ? UINT64_MAX
                              : file_size * TENSOR_FILE_TIMES_MAX + TENSOR_FILE_BYTES_FREE;
    FAIL_IF(bytes > most - file->bytes, err, CKPT_EFORMAT, "tensors share their bytes too often");
    file->bytes += bytes;
    TRY(list_grow(&items, file->count, sizeof *view, err));
    file->tensors = items;
    file->tensors[file->count++] = *view;
    view->name = NULL;
out:
    free(view->name);
    view->name = NULL;
    return rc;
}

/* A view of the part as one of the file. */
static int part_view(tensor_view *view, uint64_t offset, const char *prefix, ckpt_error *err)
{
    int rc = 0;
    const bool alone = strcmp(view->name, TENSOR_NAME_ALONE) == 0;
    const size_t prefix_size = strlen(prefix), name_size = strlen(view->name);
    char *name = NULL;

    view->offset += offset;
    if (!prefix_size)
        goto out;
    name = malloc(prefix_size + 1 + name_size + 1);
    FAIL_IF_NULL(name, err);
    memcpy(name, prefix, prefix_size + 1);
    if (!alone) {
        name[prefix_size] = '.';
        memcpy(name + prefix_size + 1, view->name, name_size + 1);
    }
    free(view->name);
    view->name = name;
out:
    return rc;
}

int tensor_file_add_part(tensor_file *file, const tensor_format *format, const byte_source *source, uint64_t offset,
                         uint64_t size, const char *prefix, ckpt_error *err)
{
    int rc = 0;
    byte_source part;
    tensor_file found = {0};
    ckpt_error refusal = {0};

    byte_source_part(&part, source, offset, size);
    rc = format->parse(&found, &part, &refusal);
    if (rc == CKPT_EFORMAT || rc == CKPT_ENOTFOUND) {
        rc = 0;
        goto out;
    }
    if (rc && err)
        *err = refusal;
    TRY(rc);
    for (size_t i = 0; i < found.count; i++) {
        TRY(part_view(&found.tensors[i], offset, prefix, err));
        if (tensor_name_valid(found.tensors[i].name))
            TRY(tensor_file_add(file, &found.tensors[i], source->size, err));
    }
out:
    tensor_file_clear(&found);
    return rc;
}

static void value_clear(ckpt_value *value)
{
    free((void *)(uintptr_t)value->key); /* const for readers; ours to free */
    free((void *)(uintptr_t)value->value);
}

int tensor_file_add_value(tensor_file *file, const char *key, const char *value, ckpt_error *err)
{
    int rc = 0;
    ckpt_value added = {.key = strdup(key), .value = strdup(value)};
    void *items = file->values;

    FAIL_IF_NULL(added.key, err);
    FAIL_IF_NULL(added.value, err);
    TRY(list_grow(&items, file->value_count, sizeof added, err));
    file->values = items;
    file->values[file->value_count++] = added;
    added = (ckpt_value){0};
out:
    value_clear(&added);
    return rc;
}

int tensor_file_add_check(tensor_file *file, const char *name, uint64_t offset, uint64_t size, uint32_t crc32,
                          ckpt_error *err)
{
    int rc = 0;
    tensor_check added = {strdup(name), offset, size, crc32};
    void *items = file->checks;

    FAIL_IF_NULL(added.name, err);
    TRY(list_grow(&items, file->check_count, sizeof added, err));
    file->checks = items;
    file->checks[file->check_count++] = added;
    added.name = NULL;
out:
    free(added.name);
    return rc;
}

void tensor_file_clear(tensor_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        free(file->tensors[i].name);
    for (size_t i = 0; i < file->value_count; i++)
        value_clear(&file->values[i]);
    for (size_t i = 0; i < file->check_count; i++)
        free(file->checks[i].name);
    free(file->tensors);
    free(file->values);
    free(file->checks);
    *file = (tensor_file){.format = "opaque"};
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

int tensor_file_read(tensor_file *out, char why[WHY_SIZE], const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    unsigned char head[HEAD_SIZE];
    const size_t head_size = source->size < HEAD_SIZE ? (size_t)source->size : HEAD_SIZE;
    ckpt_error refusal = {0};

    *out = (tensor_file){.format = "opaque"};
    why[0] = 0;
    TRY(source->read(source, head, 0, head_size, err));
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        if (!FORMATS[i]->probe(head, head_size, source->size))
            continue;
        refusal = (ckpt_error){0};
        rc = FORMATS[i]->parse(out, source, &refusal);
        if (rc == 0) {
            out->format = FORMATS[i]->name;
            return 0;
        }
        const bool cut_off = out->cut_off;
        tensor_file_clear(out);
        out->cut_off = cut_off && rc == CKPT_EFORMAT;
        if (rc != CKPT_ENOTFOUND)
            break;
        rc = 0;
    }
    if (rc == CKPT_EIO || rc == CKPT_ENOMEM || rc == CKPT_EINTERRUPTED) {
        if (err)
            *err = refusal;
    } else if (rc) {
        const size_t size = utf8_cut(refusal.message, strlen(refusal.message), WHY_SIZE - 1);
        memcpy(why, refusal.message, size);
        why[size] = 0;
        rc = 0;
    }
out:
    return rc;
}

const char *tensor_file_refusal(const char *why, const char *path)
{
    const size_t prefix = strlen(path);

    return strncmp(why, path, prefix) == 0 && strncmp(why + prefix, ": ", 2) == 0 ? why + prefix + 2 : why;
}
