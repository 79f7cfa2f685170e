#include "output.h"
#include "print.h"
#include "session.h"

#include "fail.h"
#include "table.h"
#include "terminal.h"
#include "utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHA256_SHOWN 16 /* digits; --json has all */
#define VALUE_SHOWN  60 /* bytes; --values and --json have all */

static const option OPTIONS[] = {
    {"tensors", 't', OPT_FLAG, NULL, "also list the tensors"},
    {"values", 0, OPT_FLAG, NULL, "show the values beside the tensors whole"},
    {0},
};

static const char *kind_name(const ckpt_file_info *file)
{
    static const char *const NAMES[] = {[CKPT_FILE] = "file", [CKPT_FOLDER] = "folder", [CKPT_LINK] = "link"};
    return NAMES[file->kind];
}

/* ---- For people ------------------------------------------------------------------------------------------------- */

static void print_field(const char *name, const char *text)
{
    printf("%-11s ", name);
    output_text(stdout, text);
    fputc('\n', stdout);
}

/* At which level the files were saved: one word for all. */
static const char *level_of(const ckpt_content *content)
{
    const char *level = "";

    for (size_t i = 0; i < ckpt_content_file_count(content); i++) {
        const ckpt_file_info *const file = ckpt_content_file(content, i);
        if (!*file->level)
            continue; /* a folder, an empty file */
        if (*level && strcmp(level, file->level) != 0)
            return "mixed";
        level = file->level;
    }
    return level;
}

static int print_info(const ckpt_content *content, ckpt_error *err)
{
    int rc = 0;
    const ckpt_info *const info = ckpt_content_info(content);
    const char *const level = level_of(content);
    char text[UNITS_TEXT_SIZE], sizes[PRINT_SIZES_SIZE];
    char *tags = print_tags(info), *meta = print_meta(info, false, NULL);

    FAIL_IF_NULL(tags, err);
    FAIL_IF_NULL(meta, err);
    print_field("checkpoint", info->id);
    printf("%-11s %" PRIu64 "\n", "sequence", info->sequence);
    print_field("time", print_time(text, info->time));
    if (info->step != CKPT_STEP_NONE)
        print_field("step", print_step(text, info->step));
    if (*info->message)
        print_field("message", info->message);
    if (*tags)
        print_field("tags", tags);
    if (*meta)
        print_field("meta", meta);
    if (*print_lossy(info))
        print_field("lossy", print_lossy(info));
    if (*level)
        print_field("level", level);
    print_field("size", print_sizes(sizes, info->raw_bytes, info->stored_bytes));
    fputc('\n', stdout);
out:
    free(tags);
    free(meta);
    return rc;
}

/* "link -> target" for links; malloc'ed. */
static char *path_text(const ckpt_file_info *file)
{
    size_t size = strlen(file->path) + strlen(file->link_target) + sizeof(" -> /");
    char *text = malloc(size);
    if (text)
        snprintf(text, size, "%s%s%s%s", file->path, file->kind == CKPT_LINK ? " -> " : "",
                 file->kind == CKPT_LINK ? file->link_target : "", file->kind == CKPT_FOLDER ? "/" : "");
    return text;
}

static int add_file(table *t, const ckpt_file_info *file, ckpt_error *err)
{
    int rc = 0;
    const bool plain = file->kind == CKPT_FILE;
    char text[UNITS_TEXT_SIZE], digits[SHA256_SHOWN + 1];
    char *path = path_text(file);

    FAIL_IF_NULL(path, err);
    TRY(table_add(t, plain ? print_size(text, file->size) : "", TABLE_PLAIN, err));
    TRY(table_add(t, plain ? file->format : kind_name(file), TABLE_PLAIN, err));
    snprintf(text, sizeof(text), "%zu", file->tensor_count);
    TRY(table_add(t, plain ? text : "", TABLE_PLAIN, err));
    snprintf(digits, sizeof(digits), "%.*s", SHA256_SHOWN, file->sha256);
    TRY(table_add(t, digits, TABLE_DIM, err));
    TRY(table_add(t, path, TABLE_PLAIN, err));
out:
    free(path);
    return rc;
}

static int print_files(const session *s, const ckpt_content *content, ckpt_error *err)
{
    static const table_column COLUMNS[] = {{"SIZE", TABLE_RIGHT},
                                           {"FORMAT", TABLE_LEFT},
                                           {"TENSORS", TABLE_RIGHT},
                                           {"SHA-256", TABLE_LEFT},
                                           {"PATH", TABLE_LEFT}};
    int rc = 0;
    table *t = NULL;

    TRY(table_new(&t, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]), err));
    for (size_t i = 0; i < ckpt_content_file_count(content); i++)
        TRY(add_file(t, ckpt_content_file(content, i), err));
    TRY(table_write(stdout, t, terminal_columns(stdout), s->color, err));
out:
    table_free(t);
    return rc;
}

/* The state of an optimizer saved from Python is one value of many pages. */
static int add_value(table *t, const char *value, bool whole, ckpt_error *err)
{
    const size_t size = strlen(value);
    char shown[VALUE_SHOWN + UNITS_TEXT_SIZE + sizeof("… ()")], bytes[UNITS_TEXT_SIZE];

    if (whole || size <= VALUE_SHOWN)
        return table_add(t, value, TABLE_PLAIN, err);
    snprintf(shown, sizeof(shown), "%.*s… (%s)", (int)utf8_cut(value, size, VALUE_SHOWN), value,
             print_size(bytes, size));
    return table_add(t, shown, TABLE_PLAIN, err);
}

/* Strings beside the tensors, of all files. */
static int print_values(const session *s, const ckpt_content *content, ckpt_error *err)
{
    static const table_column COLUMNS[] = {{"KEY", TABLE_LEFT}, {"VALUE", TABLE_LEFT}};
    int rc = 0;
    bool any = false;
    const bool whole = arguments_flag(&s->args, "values");
    table *t = NULL;

    TRY(table_new(&t, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]), err));
    for (size_t file = 0; file < ckpt_content_file_count(content); file++)
        for (size_t i = 0; i < ckpt_content_value_count(content, file); i++) {
            ckpt_value value;
            TRY(ckpt_content_value(&value, content, file, i));
            TRY(table_add(t, value.key, TABLE_PLAIN, err));
            TRY(add_value(t, value.value, whole, err));
            any = true;
        }
    if (any) {
        fputc('\n', stdout);
        TRY(table_write(stdout, t, terminal_columns(stdout), s->color, err));
    }
out:
    table_free(t);
    return rc;
}

/* Coding, coded bytes and depth of a tensor of a checkpoint. */
static int add_stored(table *t, ckpt_content *content, size_t i, ckpt_error *err)
{
    int rc = 0;
    ckpt_stored_tensor stored;
    char text[UNITS_TEXT_SIZE];

    TRY(ckpt_content_stored(&stored, content, i, err));
    TRY(table_add(t, *stored.mode ? print_size(text, stored.coded_bytes) : "", TABLE_PLAIN, err));
    TRY(table_add(t, stored.mode, TABLE_PLAIN, err));
    snprintf(text, sizeof(text), "%u", stored.depth);
    TRY(table_add(t, *stored.mode ? text : "", TABLE_PLAIN, err));
out:
    return rc;
}

static bool is_of_several_files(const ckpt_content *content)
{
    for (size_t i = 1; i < ckpt_content_tensor_count(content); i++)
        if (ckpt_content_tensor(content, i)->file != ckpt_content_tensor(content, 0)->file)
            return true;
    return false;
}

static int add_tensor(table *t, ckpt_content *content, size_t i, bool is_stored, bool names_file, ckpt_error *err)
{
    int rc = 0;
    const ckpt_tensor_info *const tensor = ckpt_content_tensor(content, i);
    char text[UNITS_TEXT_SIZE], shape[PRINT_SHAPE_SIZE];

    TRY(table_add(t, print_size(text, tensor->bytes), TABLE_PLAIN, err));
    if (is_stored)
        TRY(add_stored(t, content, i, err));
    TRY(table_add(t, ckpt_dtype_name(tensor->dtype), TABLE_PLAIN, err));
    TRY(table_add(t, print_shape(shape, tensor->rank, tensor->shape), TABLE_PLAIN, err));
    TRY(table_add(t, tensor->name, TABLE_PLAIN, err));
    if (names_file)
        TRY(table_add(t, ckpt_content_file(content, tensor->file)->path, TABLE_DIM, err));
out:
    return rc;
}

static int print_tensors(const session *s, ckpt_content *content, ckpt_error *err)
{
    /* The last is for tensors of several files, which may have the same names. */
    static const table_column OF_FILES[] = {{"SIZE", TABLE_RIGHT},
                                            {"DTYPE", TABLE_LEFT},
                                            {"SHAPE", TABLE_LEFT},
                                            {"TENSOR", TABLE_NAME},
                                            {"FILE", TABLE_NAME}};
    static const table_column OF_CHECKPOINT[] = {{"SIZE", TABLE_RIGHT},  {"STORED", TABLE_RIGHT}, {"MODE", TABLE_LEFT},
                                                 {"DEPTH", TABLE_RIGHT}, {"DTYPE", TABLE_LEFT},   {"SHAPE", TABLE_LEFT},
                                                 {"TENSOR", TABLE_NAME}, {"FILE", TABLE_NAME}};
    int rc = 0;
    table *t = NULL;
    const bool is_stored = ckpt_content_info(content) != NULL, names_file = is_of_several_files(content);
    const size_t columns =
        is_stored ? sizeof(OF_CHECKPOINT) / sizeof(OF_CHECKPOINT[0]) : sizeof(OF_FILES) / sizeof(OF_FILES[0]);

    TRY(table_new(&t, is_stored ? OF_CHECKPOINT : OF_FILES, names_file ? columns : columns - 1, err));
    for (size_t i = 0; i < ckpt_content_tensor_count(content); i++)
        TRY(add_tensor(t, content, i, is_stored, names_file, err));
    fputc('\n', stdout);
    TRY(table_write(stdout, t, terminal_columns(stdout), s->color, err));
out:
    table_free(t);
    return rc;
}

/* ---- For programs ----------------------------------------------------------------------------------------------- */

static int json_values(json_t *object, const ckpt_content *content, size_t file, ckpt_error *err)
{
    int rc = 0;
    json_t *values = json_object();

    TRY(json_out_set(object, "values", values, err));
    for (size_t i = 0; i < ckpt_content_value_count(content, file); i++) {
        ckpt_value value;
        TRY(ckpt_content_value(&value, content, file, i));
        TRY(json_out_set(values, value.key, print_json_text(value.value), err));
    }
out:
    return rc;
}

static int json_file(json_t *row, const ckpt_content *content, size_t i, ckpt_error *err)
{
    int rc = 0;
    const ckpt_file_info *file = ckpt_content_file(content, i);

    TRY(json_out_set(row, "path", print_json_text(file->path), err));
    TRY(json_out_set(row, "kind", print_json_text(kind_name(file)), err));
    TRY(json_out_set(row, "mode", json_integer(file->mode), err));
    if (file->kind == CKPT_LINK)
        TRY(json_out_set(row, "link_target", print_json_text(file->link_target), err));
    if (file->kind == CKPT_FILE) {
        TRY(json_out_set(row, "size_bytes", json_out_count(file->size), err));
        TRY(json_out_set(row, "sha256", print_json_text(file->sha256), err));
        TRY(json_out_set(row, "format", print_json_text(file->format), err));
        if (*file->level)
            TRY(json_out_set(row, "level", print_json_text(file->level), err));
        if (*file->refusal)
            TRY(json_out_set(row, "refusal", print_json_text(file->refusal), err));
        TRY(json_out_set(row, "tensors", json_out_count(file->tensor_count), err));
        TRY(json_values(row, content, i, err));
    }
out:
    return rc;
}

static int json_stored(json_t *row, ckpt_content *content, size_t i, ckpt_error *err)
{
    int rc = 0;
    ckpt_stored_tensor stored;

    TRY(ckpt_content_stored(&stored, content, i, err));
    if (!*stored.mode)
        goto out;
    TRY(json_out_set(row, "mode", print_json_text(stored.mode), err));
    TRY(json_out_set(row, "coded_bytes", json_out_count(stored.coded_bytes), err));
    TRY(json_out_set(row, "depth", json_integer(stored.depth), err));
out:
    return rc;
}

static int json_tensors(json_t *object, ckpt_content *content, ckpt_error *err)
{
    int rc = 0;
    json_t *tensors = json_array();

    TRY(json_out_set(object, "tensor_list", tensors, err));
    for (size_t i = 0; i < ckpt_content_tensor_count(content); i++) {
        const ckpt_tensor_info *tensor = ckpt_content_tensor(content, i);
        json_t *row = json_object();
        TRY(json_out_append(tensors, row, err));
        TRY(json_out_set(row, "name", print_json_text(tensor->name), err));
        TRY(json_out_set(row, "dtype", print_json_text(ckpt_dtype_name(tensor->dtype)), err));
        TRY(json_out_set(row, "shape", print_json_shape(tensor->rank, tensor->shape), err));
        TRY(json_out_set(row, "bytes", json_out_count(tensor->bytes), err));
        TRY(json_stored(row, content, i, err));
        TRY(json_out_set(row, "path", print_json_text(ckpt_content_file(content, tensor->file)->path), err));
    }
out:
    return rc;
}

static int print_json(ckpt_content *content, bool with_tensors, ckpt_error *err)
{
    int rc = 0;
    const ckpt_info *info = ckpt_content_info(content);
    json_t *object = json_object(), *files;

    if (info)
        TRY(print_json_info(object, info, err));
    TRY(json_out_set(object, "tensors", json_out_count(ckpt_content_tensor_count(content)), err));
    files = json_array();
    TRY(json_out_set(object, "file_list", files, err));
    for (size_t i = 0; i < ckpt_content_file_count(content); i++) {
        json_t *row = json_object();
        TRY(json_out_append(files, row, err));
        TRY(json_file(row, content, i, err));
    }
    if (with_tensors)
        TRY(json_tensors(object, content, err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* ---- The command ------------------------------------------------------------------------------------------------ */

/* What looks like a file of tensors and shows none leaves the question why. */
static void note_refusals(session *s, const ckpt_content *content)
{
    for (size_t i = 0; i < ckpt_content_file_count(content); i++) {
        const ckpt_file_info *const file = ckpt_content_file(content, i);
        if (*file->refusal)
            session_note(s, "%s is opaque: %s", file->path, file->refusal);
    }
}

static int print_content(session *s, ckpt_content *content, bool with_tensors, ckpt_error *err)
{
    int rc = 0;

    if (ckpt_content_info(content))
        TRY(print_info(content, err));
    TRY(print_files(s, content, err));
    TRY(print_values(s, content, err));
    if (with_tensors)
        TRY(print_tensors(s, content, err));
    note_refusals(s, content);
out:
    return rc;
}

static int cmd_show(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_content *content = NULL;
    const bool with_tensors = arguments_flag(&s->args, "tensors");

    s->notes_are_warnings = true;
    TRY(session_open_content(&content, s, s->args.word_count ? s->args.words[0] : "latest", err));
    if (s->json)
        TRY(print_json(content, with_tensors, err));
    else if (!s->quiet)
        TRY(print_content(s, content, with_tensors, err));
out:
    ckpt_content_close(content);
    return rc;
}

const command CMD_SHOW = {
    .name = "show",
    .args = "[NAME|FILE]",
    .summary = "Show a checkpoint or a file",
    .about =
        "Shows when and as what a checkpoint was saved, and its files with format, size and the first digits of "
        "their SHA-256. Without a name it is `latest`. What is no name of a checkpoint is taken as a file or "
        "folder on disk, which needs no store.\n\n"
        "With --tensors a row is a tensor, with its FILE where there are several. Of a checkpoint STORED is what its "
        "bytes take as they are coded, MODE how most of them are, and DEPTH how many tensors of earlier checkpoints "
        "are decoded on the way to it. Small tensors are coded together; each has its share. Modes: context, sub, "
        "xor, patch and copy take what changed since an earlier checkpoint; symbols, planes, palette, constant and "
        "zstd shrink a tensor by itself; stored is as it was.",
    .examples = "ckpt show\tthe newest checkpoint\n"
                "ckpt show best --tensors\twith all its tensors\n"
                "ckpt show model.pt -t\twhat is in a file\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 9, 10),
    .words_max = 1,
    .group = GROUP_LOOK,
    .completes = COMPLETES_NAMES_AND_PATHS,
    .run = cmd_show,
};
