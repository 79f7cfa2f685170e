/* safetensors: a JSON header in front of one buffer without holes.
 *
 *   file   := size (8 bytes, little-endian) header (size bytes) buffer
 *   header := {"__metadata__": {text: text ...}, name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} ...}
 *
 * Offsets count from the begin of the buffer. Readers agree less than the description says: it wants `{` first and
 * blanks last, the reference reader takes any JSON white space; we follow the reader. Double keys, holes and overlaps
 * are refused, since other readers would see other tensors. */
#include "tensor_file.h"

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "json_bounded.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX_SIZE  8
#define HEADER_MAX   100000000u /* as the reference reader */
#define METADATA_KEY "__metadata__"

static const struct {
    const char *name;
    ckpt_dtype dtype;
} DTYPES[] = {
    {"BOOL", CKPT_BOOL}, {"U8", CKPT_U8},   {"I8", CKPT_I8},           {"U16", CKPT_U16},
    {"I16", CKPT_I16},   {"U32", CKPT_U32}, {"I32", CKPT_I32},         {"U64", CKPT_U64},
    {"I64", CKPT_I64},   {"F16", CKPT_F16}, {"BF16", CKPT_BF16},       {"F32", CKPT_F32},
    {"F64", CKPT_F64},   {"C64", CKPT_C64}, {"F8_E4M3", CKPT_F8_E4M3}, {"F8_E5M2", CKPT_F8_E5M2},
};

#define DTYPE_COUNT (sizeof DTYPES / sizeof DTYPES[0])

/* A tensor's place in the buffer. */
typedef struct range {
    uint64_t begin, end;
    const char *name;
} range;

typedef struct layout {
    json_t *root;
    range *ranges;
    size_t range_count;
    uint64_t buffer_offset, buffer_size;
    bool short_header, short_buffer; /* the file ends before its header does; before a tensor does */
} layout;

/* ---- The header's bytes ----------------------------------------------------------------------------------------- */

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Bytes that no text has: a size that makes no sense is one all the same. */
static bool is_binary(const unsigned char *head)
{
    for (size_t i = 0; i < PREFIX_SIZE; i++)
        if (head[i] < ' ' && !is_blank(head[i]))
            return true;
    return false;
}

static bool safetensors_probe(const unsigned char *head, size_t head_size, uint64_t size)
{
    size_t at = PREFIX_SIZE;
    if (head_size < PREFIX_SIZE + 2)
        return false;
    while (at < head_size && is_blank(head[at]))
        at++;
    /* Any text file with a brace in this place gets so far; a header cannot be longer than its file by much. */
    return at < head_size && head[at] == '{' && (load_u64(head) <= size + HEADER_MAX || is_binary(head));
}

static int header_load(layout *h, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    unsigned char prefix[PREFIX_SIZE];
    char *text = NULL;

    FAIL_IF(source->size < PREFIX_SIZE, err, CKPT_EFORMAT, "safetensors: shorter than 8 bytes");
    TRY(source->read(source, prefix, 0, sizeof prefix, err));
    const uint64_t size = load_u64(prefix);
    FAIL_IF(size > HEADER_MAX, err, CKPT_EFORMAT, "safetensors: header of %llu bytes is too large",
            (unsigned long long)size);
    h->short_header = size > source->size - PREFIX_SIZE;
    FAIL_IF(h->short_header, err, CKPT_EFORMAT, "safetensors: header of %llu bytes is longer than the file",
            (unsigned long long)size);
    h->buffer_offset = PREFIX_SIZE + size;
    h->buffer_size = source->size - h->buffer_offset;

    text = malloc((size_t)size + 1);
    FAIL_IF_NULL(text, err);
    TRY(source->read(source, text, PREFIX_SIZE, (size_t)size, err));
    rc = json_bounded_load(&h->root, NULL, text, (size_t)size, err);
    if (rc == CKPT_EFORMAT)
        error_prefix(err, "safetensors: header");
    TRY(rc);
    FAIL_IF(!json_is_object(h->root), err, CKPT_EFORMAT, "safetensors: header is not an object");
out:
    free(text);
    return rc;
}

/* ---- Tensors ---------------------------------------------------------------------------------------------------- */

static int read_count(uint64_t *out, const json_t *value, const char *name, const char *what, ckpt_error *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return error_set(err, CKPT_EFORMAT, "safetensors: %.200s: %s is not a count", name, what);
    *out = (uint64_t)json_integer_value(value);
    return 0;
}

static int read_range(range *out, layout *h, const char *name, const json_t *entry, ckpt_error *err)
{
    int rc = 0;
    const json_t *offsets = json_object_get(entry, "data_offsets");

    FAIL_IF(json_array_size(offsets) != 2, err, CKPT_EFORMAT, "safetensors: %.200s: data_offsets are not a pair", name);
    TRY(read_count(&out->begin, json_array_get(offsets, 0), name, "an offset", err));
    TRY(read_count(&out->end, json_array_get(offsets, 1), name, "an offset", err));
    h->short_buffer |= out->begin <= out->end && out->end > h->buffer_size;
    FAIL_IF(out->begin > out->end || out->end > h->buffer_size, err, CKPT_EFORMAT,
            "safetensors: %.200s: lies outside of the file", name);
    out->name = name;
out:
    return rc;
}

static int read_shape(tensor_view *view, const char *name, const json_t *shape, ckpt_error *err)
{
    int rc = 0;
    FAIL_IF(!json_is_array(shape), err, CKPT_EFORMAT, "safetensors: %.200s: has no shape", name);
    FAIL_IF(json_array_size(shape) > CKPT_RANK_MAX, err, CKPT_EFORMAT, "safetensors: %.200s: has over %d dimensions",
            name, CKPT_RANK_MAX);
    view->rank = (unsigned)json_array_size(shape);
    for (unsigned i = 0; i < view->rank; i++)
        TRY(read_count(&view->shape[i], json_array_get(shape, i), name, "a dimension", err));
out:
    return rc;
}

static int read_tensor(tensor_file *out, layout *h, const char *name, const json_t *entry, const byte_source *source,
                       ckpt_error *err)
{
    int rc = 0;
    tensor_view view = {0};
    range *place = &h->ranges[h->range_count];
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    size_t i = 0;

    FAIL_IF(!dtype, err, CKPT_EFORMAT, "safetensors: %.200s: has no dtype", name);
    TRY(read_range(place, h, name, entry, err));
    TRY(read_shape(&view, name, json_object_get(entry, "shape"), err));
    h->range_count++;
    while (i < DTYPE_COUNT && strcmp(DTYPES[i].name, dtype) != 0)
        i++;
    if (i == DTYPE_COUNT)
        goto out; /* a newer type: its bytes are bytes between tensors */
    view.dtype = DTYPES[i].dtype;
    view.offset = h->buffer_offset + place->begin;
    rc = tensor_view_row_major(&view, err);
    if (rc)
        error_prefix(err, "safetensors: %.200s", name);
    TRY(rc);
    FAIL_IF(view.span_bytes != place->end - place->begin, err, CKPT_EFORMAT,
            "safetensors: %.200s: shape and offsets disagree", name);
    view.name = strdup(name);
    FAIL_IF_NULL(view.name, err);
    TRY(tensor_file_add(out, &view, source->size, err));
out:
    free(view.name);
    return rc;
}

static int read_metadata(tensor_file *out, json_t *metadata, ckpt_error *err)
{
    int rc = 0;
    const char *key;
    json_t *value;

    if (json_is_null(metadata))
        goto out; /* the reference reader takes it for none */
    FAIL_IF(!json_is_object(metadata), err, CKPT_EFORMAT, "safetensors: metadata is not an object");
    json_object_foreach(metadata, key, value)
    {
        FAIL_IF(!json_is_string(value), err, CKPT_EFORMAT, "safetensors: metadata %.200s is not text", key);
        TRY(tensor_file_add_value(out, key, json_string_value(value), err));
    }
out:
    return rc;
}

static int range_compare(const void *a, const void *b)
{
    const range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The tensors have to fill the buffer, each byte once. */
static int ranges_check(layout *h, ckpt_error *err)
{
    uint64_t end = 0;
    qsort(h->ranges, h->range_count, sizeof *h->ranges, range_compare);
    for (size_t i = 0; i < h->range_count; i++) {
        if (h->ranges[i].begin != end)
            return error_set(err, CKPT_EFORMAT, "safetensors: %.200s: begins %s the tensor before it ends",
                             h->ranges[i].name, h->ranges[i].begin < end ? "before" : "after");
        end = h->ranges[i].end;
    }
    if (end != h->buffer_size)
        return error_set(err, CKPT_EFORMAT, "safetensors: %llu bytes belong to no tensor",
                         (unsigned long long)(h->buffer_size - end));
    return 0;
}

static int safetensors_parse(tensor_file *out, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    layout h = {0};
    const char *name;
    json_t *entry;

    TRY(header_load(&h, source, err));
    h.ranges = calloc(json_object_size(h.root) + 1, sizeof *h.ranges);
    FAIL_IF_NULL(h.ranges, err);
    json_object_foreach(h.root, name, entry)
    {
        if (strcmp(name, METADATA_KEY) == 0)
            TRY(read_metadata(out, entry, err));
        else
            TRY(read_tensor(out, &h, name, entry, source, err));
    }
    TRY(ranges_check(&h, err));
out:
    out->cut_off = rc && (h.short_header || h.short_buffer);
    free(h.ranges);
    json_decref(h.root);
    return rc;
}

const tensor_format FORMAT_SAFETENSORS = {"safetensors", safetensors_probe, safetensors_parse};

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

static const char *dtype_text(ckpt_dtype dtype)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        if (DTYPES[i].dtype == dtype)
            return DTYPES[i].name;
    return NULL;
}

/* Adds the tensor at *offset and moves *offset behind it. */
static int header_add_tensor(json_t *root, uint64_t *offset, const ckpt_tensor *tensor, ckpt_error *err)
{
    int rc = 0;
    json_t *shape = json_array();
    tensor_view view = {.dtype = tensor->dtype, .rank = tensor->rank};
    const char *dtype = dtype_text(tensor->dtype);
    uint64_t end;

    FAIL_IF(!tensor->name || !tensor_name_valid(tensor->name) || strcmp(tensor->name, METADATA_KEY) == 0, err,
            CKPT_EUSAGE, "'%.200s' cannot be the name of a tensor", tensor->name ? tensor->name : "");
    FAIL_IF(json_object_get(root, tensor->name), err, CKPT_EUSAGE, "two tensors are named '%.200s'", tensor->name);
    FAIL_IF(!dtype, err, CKPT_EUSAGE, "%.200s: safetensors has no type %s", tensor->name,
            ckpt_dtype_name(tensor->dtype) ? ckpt_dtype_name(tensor->dtype) : "of this number");
    FAIL_IF(tensor->rank > CKPT_RANK_MAX, err, CKPT_EUSAGE, "%.200s: has over %d dimensions", tensor->name,
            CKPT_RANK_MAX);
    FAIL_IF_NULL(shape, err);
    for (unsigned i = 0; i < tensor->rank; i++) {
        view.shape[i] = tensor->shape[i];
        if (json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i])))
            TRY(error_memory(err));
    }
    FAIL_IF(tensor_view_row_major(&view, NULL) || !checked_add(&end, *offset, view.span_bytes) || end > INT64_MAX, err,
            CKPT_EUSAGE, "%.200s: the shape overflows", tensor->name);
    FAIL_IF(!tensor->data && view.span_bytes, err, CKPT_EUSAGE, "%.200s: has no data", tensor->name);
    json_t *entry = json_pack("{s:s, s:O, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                              (json_int_t)*offset, (json_int_t)end);
    if (json_object_set_new(root, tensor->name, entry))
        TRY(error_memory(err));
    *offset = end;
out:
    json_decref(shape);
    return rc;
}

static int header_add_values(json_t *root, const ckpt_value *values, size_t count, ckpt_error *err)
{
    int rc = 0;
    json_t *metadata = json_object();

    FAIL_IF_NULL(metadata, err);
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(!values[i].key || !values[i].value, err, CKPT_EUSAGE, "value '%.200s' has no %s",
                values[i].key ? values[i].key : "", values[i].key ? "text" : "name");
        FAIL_IF(json_object_get(metadata, values[i].key), err, CKPT_EUSAGE, "two values are named '%.200s'",
                values[i].key);
        json_t *text = json_string(values[i].value);
        FAIL_IF(!text || json_object_set_new(metadata, values[i].key, text), err, CKPT_EUSAGE,
                "value '%.200s' is not UTF-8", values[i].key);
    }
    if (json_object_set(root, METADATA_KEY, metadata))
        TRY(error_memory(err));
out:
    json_decref(metadata);
    return rc;
}

int safetensors_header(char **header, size_t *header_size, const ckpt_tensor *tensors, size_t count,
                       const ckpt_value *values, size_t value_count, ckpt_error *err)
{
    int rc = 0;
    json_t *root = json_object();
    char *text = NULL;
    uint64_t offset = 0;

    *header = NULL;
    FAIL_IF_NULL(root, err);
    if (value_count)
        TRY(header_add_values(root, values, value_count, err));
    for (size_t i = 0; i < count; i++)
        TRY(header_add_tensor(root, &offset, &tensors[i], err));

    const size_t size = json_dumpb(root, NULL, 0, JSON_COMPACT);
    const size_t padded = (size + 7) / 8 * 8;
    FAIL_IF(size > HEADER_MAX - 8, err, CKPT_EUSAGE, "names and values are more than %u MB", HEADER_MAX / 1000000);
    text = malloc(PREFIX_SIZE + padded);
    FAIL_IF_NULL(text, err);
    store_u64(text, padded);
    memset(text + PREFIX_SIZE, ' ', padded);
    if (json_dumpb(root, text + PREFIX_SIZE, size, JSON_COMPACT) != size)
        TRY(error_memory(err));
    FAIL_IF(json_marks(text + PREFIX_SIZE, size) > JSON_MARKS_MAX, err, CKPT_EUSAGE, "too many tensors for one file");
    *header = text;
    *header_size = PREFIX_SIZE + padded;
    text = NULL;
out:
    free(text);
    json_decref(root);
    return rc;
}

uint64_t tensor_bytes(const ckpt_tensor *tensor)
{
    uint64_t n = ckpt_dtype_size(tensor->dtype);

    for (unsigned i = 0; i < tensor->rank; i++)
        n *= tensor->shape[i];
    return n;
}
