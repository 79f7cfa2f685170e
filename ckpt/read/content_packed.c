#include "content.h"

#include "checked.h"
#include "fail.h"
#include "hdf5.h"
#include "hdf5_chunks.h"
#include "keras.h"
#include "npy.h"
#include "zip_member.h"

#include <stdlib.h>
#include <string.h>

#define SUFFIX      ".npy"
#define SUFFIX_SIZE 4

/* The bytes of a file of the content, for the reader of archives. */
typedef struct content_source {
    byte_source bytes; /* first, so that one is found from the other */
    ckpt_content *content;
    size_t file;
} content_source;

static int read_content(const byte_source *source, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    const content_source *const s = (const content_source *)source;

    if (!checked_range(offset, size, source->size))
        return error_set(err, CKPT_EDATA, "%s: ends too early", source->path);
    return size ? content_read_bytes(dst, s->content, s->file, offset, size, err) : 0;
}

static content_source source_of(ckpt_content *c, size_t file)
{
    const ckpt_file_info *const info = &c->files[file].info;
    return (content_source){{.size = info->size, .read = read_content, .path = info->path, .fd = -1}, c, file};
}

/* ---- The list --------------------------------------------------------------------------------------------------- */

/* The tensors as they will be, in the order of the files. */
typedef struct packed_list {
    ckpt_content *content;
    size_t count, capacity;
    ckpt_tensor_info *tensors;
    uint64_t *offsets;
    content_packed **packed;
} packed_list;

static int list_room(packed_list *l, ckpt_error *err)
{
    int rc = 0;
    const size_t capacity = l->capacity ? 2 * l->capacity : l->content->tensor_count + 16;

    if (l->count < l->capacity)
        goto out;
    ckpt_tensor_info *const tensors = realloc(l->tensors, capacity * sizeof *tensors);
    FAIL_IF_NULL(tensors, err);
    l->tensors = tensors;
    uint64_t *const offsets = realloc(l->offsets, capacity * sizeof *offsets);
    FAIL_IF_NULL(offsets, err);
    l->offsets = offsets;
    content_packed **const packed = realloc(l->packed, capacity * sizeof *packed);
    FAIL_IF_NULL(packed, err);
    l->packed = packed;
    l->capacity = capacity;
out:
    return rc;
}

static void list_clear(packed_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->packed[i]) {
            free(l->packed[i]->name);
            free(l->packed[i]);
        }
    free(l->tensors);
    free(l->offsets);
    free(l->packed);
}

static bool is_packed_array(const zip_entry *entry)
{
    return entry->method == ZIP_METHOD_DEFLATE && entry->name_size > SUFFIX_SIZE &&
           memcmp(entry->name + entry->name_size - SUFFIX_SIZE, SUFFIX, SUFFIX_SIZE) == 0;
}

/* Appends the tensor, taking `packed` over. */
static int packed_add(packed_list *l, size_t file, content_packed *packed, const tensor_view *view, ckpt_error *err)
{
    int rc = 0;
    ckpt_tensor_info info = {.dtype = view->dtype, .rank = view->rank, .contiguous = view->contiguous, .file = file};

    FAIL_IF_NULL(packed, err);
    FAIL_IF_NULL(packed->name, err);
    if (!tensor_name_valid(packed->name) || !tensor_view_bytes(&info.bytes, view))
        goto out;
    memcpy(info.shape, view->shape, sizeof info.shape);
    memcpy(info.stride, view->stride, sizeof info.stride);
    info.name = packed->name;
    TRY(list_room(l, err));
    l->tensors[l->count] = info;
    l->offsets[l->count] = view->offset;
    l->packed[l->count++] = packed;
    packed = NULL;
out:
    if (packed)
        free(packed->name);
    free(packed);
    return rc;
}

/* ---- Members of archives ---------------------------------------------------------------------------------------- */

static content_packed *packed_member(const zip_entry *entry)
{
    content_packed *const packed = calloc(1, sizeof *packed);

    if (packed) {
        packed->name = strndup(entry->name, entry->name_size - SUFFIX_SIZE);
        packed->entry = *entry;
        packed->entry.name = NULL;
    }
    return packed;
}

/* A member that is damaged, too large, or no array of plain numbers is left out. */
static int member_add(packed_list *l, size_t file, const zip_entry *entry, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    ckpt_error why = {0};
    unsigned char *data = NULL;
    byte_source member;
    tensor_view view = {0};

    rc = zip_member_unpack(&data, entry, source, &why);
    if (rc == 0) {
        byte_source_memory(&member, data, entry->size, source->path);
        rc = npy_view(&view, &member, 0, entry->size, &why);
    }
    if (rc == 0)
        rc = packed_add(l, file, packed_member(entry), &view, err);
    else if (rc == CKPT_EFORMAT)
        rc = 0;
    else if (err)
        *err = why;
    free(data);
    return rc;
}

static int archive_add(packed_list *l, size_t file, ckpt_error *err)
{
    int rc = 0;
    content_source source = source_of(l->content, file);
    zip_dir dir = {0};
    tensor_file ignored = {0};

    TRY(zip_member_directory(&dir, &ignored, &source.bytes, err));
    for (size_t i = 0; i < dir.count; i++)
        if (is_packed_array(&dir.entries[i]))
            TRY(member_add(l, file, &dir.entries[i], &source.bytes, err));
out:
    zip_dir_clear(&dir);
    return rc;
}

/* ---- Datasets in chunks ----------------------------------------------------------------------------------------- */

#define CHUNK_ROWS_MAX (UINT64_C(1) << 22) /* looked at for one file */

typedef struct chunked_list {
    packed_list *list;
    const byte_source *source; /* the HDF5 file */
    size_t file;
    uint64_t first;
    hdf5_budget left;
} chunked_list;

static int dataset_add(void *payload, const char *name, const hdf5_object *object, ckpt_error *err)
{
    int rc = 0;
    chunked_list *const c = payload;
    content_packed *packed = NULL;

    if (!object->chunked)
        return 0;
    rc = hdf5_chunks_check(&c->left, c->source, object, err);
    if (rc == CKPT_EFORMAT)
        return error_clear(err);
    TRY(rc);
    packed = calloc(1, sizeof *packed);
    FAIL_IF_NULL(packed, err);
    *packed = (content_packed){
        .name = strdup(name), .chunked = true, .first = c->first, .size = c->source->size, .object = *object};
    rc = packed_add(c->list, c->file, packed, &object->view, err);
out:
    return rc;
}

static int datasets_add(packed_list *l, size_t file, ckpt_error *err)
{
    int rc = 0;
    content_source source = source_of(l->content, file);
    byte_source part;
    uint64_t first = 0, size = source.bytes.size;

    if (strcmp(l->content->files[file].info.format, "keras") == 0)
        TRY(keras_weights(&first, &size, &source.bytes, err));
    byte_source_part(&part, &source.bytes, first, size);
    chunked_list c = {l, &part, file, first, {CHUNK_ROWS_MAX, size}};
    TRY(hdf5_datasets(&part, dataset_add, &c, err));
out:
    return rc;
}

/* ---- Files ------------------------------------------------------------------------------------------------------ */

typedef int (*packed_fn)(packed_list *l, size_t file, ckpt_error *err);

/* How to find what is packed in a file; NULL for formats in which nothing is. */
static packed_fn packed_of(const ckpt_file_info *info)
{
    if (info->kind != CKPT_FILE)
        return NULL;
    if (strcmp(info->format, "npz") == 0)
        return archive_add;
    if (strcmp(info->format, "hdf5") == 0 || strcmp(info->format, "keras") == 0)
        return datasets_add;
    return NULL;
}

static int file_add(packed_list *l, size_t file, size_t *first, ckpt_error *err)
{
    int rc = 0;
    const ckpt_content *const c = l->content;
    const ckpt_file_info *const info = &c->files[file].info;
    const packed_fn add = packed_of(info);

    *first = l->count;
    for (size_t i = 0; i < info->tensor_count; i++) {
        TRY(list_room(l, err));
        l->tensors[l->count] = c->tensors[info->tensor_first + i];
        l->offsets[l->count] = c->tensor_offsets[info->tensor_first + i];
        l->packed[l->count++] = NULL;
    }
    if (add)
        rc = add(l, file, err);
    if (rc == CKPT_EFORMAT)
        rc = error_clear(err); /* another version of the reader had another idea of the file */
out:
    return rc;
}

int content_add_packed(ckpt_content *c, ckpt_error *err)
{
    int rc = 0;
    size_t candidates = 0;
    packed_list l = {.content = c};
    size_t *firsts = NULL;

    for (size_t i = 0; i < c->file_count; i++)
        candidates += packed_of(&c->files[i].info) != NULL;
    if (candidates == 0)
        return 0;
    firsts = calloc(c->file_count + 1, sizeof *firsts);
    FAIL_IF_NULL(firsts, err);
    TRY(list_room(&l, err));
    for (size_t i = 0; i < c->file_count; i++)
        TRY(file_add(&l, i, &firsts[i], err));
    firsts[c->file_count] = l.count;
    for (size_t i = 0; i < c->file_count; i++) {
        c->files[i].info.tensor_first = firsts[i];
        c->files[i].info.tensor_count = firsts[i + 1] - firsts[i];
    }
    free(c->tensors);
    free(c->tensor_offsets);
    c->tensors = l.tensors;
    c->tensor_offsets = l.offsets;
    c->packed = l.packed;
    c->tensor_count = l.count;
    l = (packed_list){0};
out:
    free(firsts);
    list_clear(&l);
    return rc;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static int member_unpack(ckpt_content *c, const content_packed *packed, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    zip_entry entry = packed->entry;
    char member[TENSOR_FILE_NAME_MAX + SUFFIX_SIZE + 1];

    memcpy(member, packed->name, strlen(packed->name));
    memcpy(member + strlen(packed->name), SUFFIX, SUFFIX_SIZE + 1);
    entry.name = member;
    TRY(zip_member_unpack(&c->unpacked, &entry, source, err));
    c->unpacked_size = entry.size;
out:
    return rc;
}

static int chunks_unpack(ckpt_content *c, const content_packed *packed, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    byte_source part;

    byte_source_part(&part, source, packed->first, packed->size);
    TRY(hdf5_chunks_read(&c->unpacked, &part, &packed->object, err));
    c->unpacked_size = packed->object.view.span_bytes;
out:
    if (rc)
        error_prefix(err, "%.200s", packed->name);
    return rc;
}

int content_read_packed(void *dst, ckpt_content *c, size_t tensor, uint64_t offset, size_t size, ckpt_error *err)
{
    int rc = 0;
    const content_packed *const packed = c->packed[tensor];

    if (!c->unpacked || c->unpacked_tensor != tensor) {
        content_source source = source_of(c, c->tensors[tensor].file);
        free(c->unpacked);
        c->unpacked = NULL;
        TRY(packed->chunked ? chunks_unpack(c, packed, &source.bytes, err)
                            : member_unpack(c, packed, &source.bytes, err));
        c->unpacked_tensor = tensor;
    }
    FAIL_IF(!checked_range(offset, size, c->unpacked_size), err, CKPT_EDATA, "%s: a member ends too early",
            packed->name);
    memcpy(dst, c->unpacked + offset, size);
out:
    return rc;
}

void content_packed_clear(ckpt_content *c)
{
    for (size_t i = 0; c->packed && i < c->tensor_count; i++)
        if (c->packed[i]) {
            free(c->packed[i]->name);
            free(c->packed[i]);
        }
    free(c->packed);
    free(c->unpacked);
    c->packed = NULL;
    c->unpacked = NULL;
}
