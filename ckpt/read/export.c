#include "export_internal.h"

#include "fail.h"
#include "pattern.h"
#include "restore_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENT_MAX 16 /* bytes of the widest type */

uint64_t export_bytes(const export_row *row)
{
    return row->elements * ckpt_dtype_size(row->dtype);
}

const ckpt_tensor_info *export_info(const exporter *e, const export_row *row)
{
    return ckpt_content_tensor(e->content, row->tensor);
}

int export_type_missing(const export_row *row, const char *program, ckpt_error *err)
{
    const char *const type = ckpt_dtype_name(row->dtype);
    const bool is_float = row->dtype == CKPT_BF16 || row->dtype == CKPT_F8_E4M3 || row->dtype == CKPT_F8_E5M2;
    const int rc = error_set(err, CKPT_EUSAGE, "%.200s: %s has no type %s", row->name, program, type);

    if (is_float)
        error_hint(err, "--dtype f32 holds each of its values; --only leaves others out");
    else
        error_hint(err, "choose another format, or leave it out with --only");
    return rc;
}

/* ---- Which tensors, and what they are called ---- */

static bool is_convertible(ckpt_dtype dtype)
{
    return dtype == CKPT_F16 || dtype == CKPT_BF16 || dtype == CKPT_F32 || dtype == CKPT_F64 || dtype == CKPT_F8_E4M3 ||
           dtype == CKPT_F8_E5M2;
}

static int options_check(const exporter *e, ckpt_error *err)
{
    int rc = 0;
    const ckpt_dtype dtype = e->options.dtype;

    FAIL_IF(e->options.format > CKPT_EXPORT_TORCH, err, CKPT_EUSAGE, "there is no format %d", (int)e->options.format);
    FAIL_IF(dtype != CKPT_OPAQUE && dtype != CKPT_F16 && dtype != CKPT_BF16 && dtype != CKPT_F32 && dtype != CKPT_F64,
            err, CKPT_EUSAGE, "floats can be written as f16, bf16, f32 or f64 only");
out:
    return rc;
}

/* The file that alone is written; SIZE_MAX: all. */
static int file_find(size_t *out, const exporter *e, ckpt_error *err)
{
    const size_t count = ckpt_content_file_count(e->content);

    *out = SIZE_MAX;
    if (!e->options.file)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(ckpt_content_file(e->content, i)->path, e->options.file) == 0) {
            *out = i;
            return 0;
        }
    const int rc = error_set(err, CKPT_ENOTFOUND, "%s: no such file in it", e->options.file);
    error_hint(err, "`ckpt show` lists its files");
    return rc;
}

/* Why what looks like a file of tensors has none. */
static const char *refusal_of(const exporter *e, size_t file)
{
    const char *why = "";

    for (size_t i = 0; !*why && i < ckpt_content_file_count(e->content); i++)
        if (file == SIZE_MAX || file == i)
            why = ckpt_content_file(e->content, i)->refusal;
    return why;
}

static int rows_choose(exporter *e, size_t file, ckpt_error *err)
{
    int rc = 0;
    const size_t tensors = ckpt_content_tensor_count(e->content);

    e->rows = calloc(tensors + 1, sizeof *e->rows);
    FAIL_IF_NULL(e->rows, err);
    for (size_t i = 0; i < tensors; i++) {
        const ckpt_tensor_info *const info = ckpt_content_tensor(e->content, i);
        if (file != SIZE_MAX && info->file != file)
            continue;
        if (e->options.only_count && !pattern_any(e->options.only, e->options.only_count, info->name))
            continue;
        const bool converted = e->options.dtype != CKPT_OPAQUE && is_convertible(info->dtype);
        e->rows[e->count++] = (export_row){.tensor = i,
                                           .dtype = converted ? e->options.dtype : info->dtype,
                                           .elements = info->bytes / ckpt_dtype_size(info->dtype)};
        e->total_bytes += info->bytes;
    }
    FAIL_IF(e->count == 0 && e->options.only_count, err, CKPT_ENOTFOUND, "no tensor has a name that fits `%s`",
            e->options.only[0]);
    const char *const why = refusal_of(e, file);
    FAIL_IF(e->count == 0, err, CKPT_ENOTFOUND, "there are no tensors to export%s%s", *why ? ": " : "", why);
    FAIL_IF(e->count > EXPORT_TENSORS_MAX, err, CKPT_EUSAGE, "too many tensors for one file");
out:
    if (rc == CKPT_ENOTFOUND)
        error_hint(err, "`ckpt show --tensors` lists them");
    return rc;
}

/* A copy of the text, with "path:" in front where `path` is not NULL. */
static int text_make(char **out, const char *path, const char *text, ckpt_error *err)
{
    const size_t size = (path ? strlen(path) + 1 : 0) + strlen(text) + 1;

    *out = malloc(size);
    if (!*out)
        return error_memory(err);
    snprintf(*out, size, "%s%s%s", path ? path : "", path ? ":" : "", text);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const export_row *)a)->name, ((const export_row *)b)->name);
}

static int by_width(const void *a, const void *b)
{
    const size_t x = ckpt_dtype_size(((const export_row *)a)->dtype),
                 y = ckpt_dtype_size(((const export_row *)b)->dtype);

    return x != y ? (x > y ? -1 : 1) : by_name(a, b);
}

/* Names that several tensors have get their file's path in front. */
static int rows_name(exporter *e, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < e->count; i++)
        TRY(text_make(&e->rows[i].name, NULL, export_info(e, &e->rows[i])->name, err));
    qsort(e->rows, e->count, sizeof *e->rows, by_name);
    for (size_t first = 0, last; first < e->count; first = last) {
        for (last = first + 1; last < e->count && by_name(&e->rows[first], &e->rows[last]) == 0;)
            last++;
        for (size_t i = first; last - first > 1 && i < last; i++) {
            export_row *const row = &e->rows[i];
            const size_t file = export_info(e, row)->file;
            free(row->name);
            row->name = NULL;
            TRY(text_make(&row->name, ckpt_content_file(e->content, file)->path, export_info(e, row)->name, err));
        }
    }
    qsort(e->rows, e->count, sizeof *e->rows, by_name);
    for (size_t i = 1; i < e->count; i++)
        FAIL_IF(by_name(&e->rows[i - 1], &e->rows[i]) == 0, err, CKPT_EUSAGE, "two tensors are named '%.200s'",
                e->rows[i].name);
    qsort(e->rows, e->count, sizeof *e->rows, by_width);
out:
    return rc;
}

/* ---- Values beside the tensors ---- */

/* A key, and which of all values it is of. */
typedef struct key_row {
    const char *key;
    size_t value, file;
} key_row;

static int key_row_compare(const void *a, const void *b)
{
    const key_row *const x = a, *const y = b;
    const int order = strcmp(x->key, y->key);

    return order ? order : (x->value > y->value) - (x->value < y->value);
}

/* Keys that an earlier value has get their file's path in front. */
static int values_name(exporter *e, key_row *rows, ckpt_error *err)
{
    int rc = 0;
    const char *last = NULL;

    qsort(rows, e->value_count, sizeof *rows, key_row_compare);
    for (size_t i = 0; i < e->value_count; i++) {
        const bool there = last && strcmp(last, rows[i].key) == 0;
        char **const key = &e->value_keys[rows[i].value];
        last = rows[i].key;
        TRY(text_make(key, there ? ckpt_content_file(e->content, rows[i].file)->path : NULL, rows[i].key, err));
        e->values[rows[i].value].key = *key;
    }
out:
    return rc;
}

/* Those of the files that are written. */
static int values_collect(exporter *e, ckpt_error *err)
{
    int rc = 0;
    size_t total = 0;
    const size_t files = ckpt_content_file_count(e->content);
    key_row *rows = NULL;
    bool *const written = calloc(files + 1, sizeof *written);

    FAIL_IF_NULL(written, err);
    for (size_t i = 0; i < e->count; i++)
        written[export_info(e, &e->rows[i])->file] = true;
    for (size_t file = 0; file < files; file++)
        total += ckpt_content_value_count(e->content, file);
    e->values = calloc(total + 1, sizeof *e->values);
    e->value_keys = calloc(total + 1, sizeof *e->value_keys);
    rows = calloc(total + 1, sizeof *rows);
    FAIL_IF_NULL(e->values && e->value_keys && rows, err);
    for (size_t file = 0; file < files; file++) {
        const size_t count = written[file] ? ckpt_content_value_count(e->content, file) : 0;
        for (size_t i = 0; i < count; i++, e->value_count++) {
            TRY(ckpt_content_value(&e->values[e->value_count], e->content, file, i));
            rows[e->value_count] = (key_row){e->values[e->value_count].key, e->value_count, file};
        }
    }
    TRY(values_name(e, rows, err));
out:
    free(written);
    free(rows);
    return rc;
}

/* ---- Bytes ---- */

static int export_progress(exporter *e, uint64_t bytes, ckpt_error *err)
{
    const ckpt_store *const store = e->content->store;

    e->done_bytes += bytes;
    if (store && store->progress && store->progress(store->payload, e->done_bytes, e->total_bytes))
        return error_set(err, CKPT_EINTERRUPTED, "interrupted");
    return 0;
}

int export_data(exporter *e, const export_row *row, export_sink sink, void *payload, ckpt_error *err)
{
    int rc = 0;
    const ckpt_tensor_info *const info = export_info(e, row);
    const size_t width = ckpt_dtype_size(info->dtype), written_width = ckpt_dtype_size(row->dtype);

    for (uint64_t done = 0; done < row->elements;) {
        const uint64_t left = row->elements - done;
        const size_t n = left < EXPORT_ELEMENTS ? (size_t)left : EXPORT_ELEMENTS;
        TRY(ckpt_content_read(e->bytes, e->content, row->tensor, done, n, err));
        if (row->dtype != info->dtype) {
            numbers_read(e->numbers, e->bytes, n, info->dtype);
            numbers_write(e->bytes, e->numbers, n, row->dtype, &e->error);
        }
        TRY(sink(payload, e->bytes, n * written_width, err));
        TRY(export_progress(e, n * width, err));
        done += n;
    }
    e->result->converted += row->dtype != info->dtype;
    e->result->tensors++;
out:
    return rc;
}

static int member_data(void *payload, const void *data, size_t size, ckpt_error *err)
{
    return zip_writer_data(payload, data, size, err);
}

int export_member(zip_writer *z, exporter *e, const export_row *row, const char *name, const void *head,
                  size_t head_size, ckpt_error *err)
{
    int rc = 0;

    TRY(zip_writer_begin(z, name, head_size + export_bytes(row), EXPORT_ALIGNMENT, err));
    if (head_size)
        TRY(zip_writer_data(z, head, head_size, err));
    TRY(export_data(e, row, member_data, z, err));
    TRY(zip_writer_end(z, err));
out:
    return rc;
}

/* ---- The file ---- */

static int export_write(exporter *e, ckpt_error *err)
{
    switch (e->options.format) {
    case CKPT_EXPORT_SAFETENSORS:
        return export_safetensors(e, err);
    case CKPT_EXPORT_NPZ:
        return export_npz(e, err);
    case CKPT_EXPORT_TORCH:
        return export_torch(e, err);
    }
    return error_set(err, CKPT_EBUG, "no format to write");
}

static void result_tell(exporter *e)
{
    ckpt_export_result *const r = e->result;

    if (e->error.max > 0)
        snprintf(r->lossy, sizeof r->lossy, "%s: %llu tensors, largest relative error %.2g, rms %.2g",
                 ckpt_dtype_name(e->options.dtype), (unsigned long long)r->converted, e->error.max,
                 numbers_error_rms(&e->error));
    r->values_left_out = e->options.format == CKPT_EXPORT_SAFETENSORS ? 0 : e->value_count;
}

static void exporter_clear(exporter *e)
{
    for (size_t i = 0; i < e->count; i++)
        free(e->rows[i].name);
    for (size_t i = 0; i < e->value_count; i++)
        free(e->value_keys[i]);
    free(e->rows);
    free(e->values);
    free(e->value_keys);
    free(e->bytes);
    free(e->numbers);
    file_tmp_discard(&e->tmp);
}

int ckpt_export(ckpt_export_result *result, ckpt_content *content, const char *path, const ckpt_export_options *options,
                ckpt_error *err)
{
    int rc = 0;
    size_t file = SIZE_MAX;
    char folder[FILE_PATH_MAX];
    ckpt_export_result own;
    file_commit_plan plan = {0};
    exporter e = {.content = content, .tmp.fd = -1, .options = {.size = sizeof e.options}};

    e.result = result ? result : &own;
    *e.result = (ckpt_export_result){0};
    TRY(store_options(&e.options, sizeof e.options, options, err));
    TRY(options_check(&e, err));
    TRY(restore_target_check(path, e.options.overwrite, err));
    TRY(file_find(&file, &e, err));
    TRY(rows_choose(&e, file, err));
    TRY(rows_name(&e, err));
    TRY(values_collect(&e, err));
    e.bytes = malloc(EXPORT_ELEMENTS * ELEMENT_MAX);
    e.numbers = malloc(EXPORT_ELEMENTS * sizeof *e.numbers);
    FAIL_IF_NULL(e.bytes && e.numbers, err);
    TRY(path_parent(folder, path, err));
    sweep_restored(folder);
    TRY(file_tmp_open(&e.tmp, folder, path_base(path), err));
    TRY(export_write(&e, err));
    e.result->bytes = e.tmp.size_bytes;
    TRY(file_commit_add(&plan, &e.tmp, path, true, err));
    TRY(file_commit(&plan, err));
    result_tell(&e);
out:
    if (rc)
        *e.result = (ckpt_export_result){0};
    file_commit_discard(&plan);
    exporter_clear(&e);
    return rc;
}
