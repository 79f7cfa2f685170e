#include "clock.h"
#include "output.h"
#include "print.h"
#include "session.h"

#include "fail.h"
#include "file.h"

#include <ckpt/export.h>

#include <stdlib.h>
#include <string.h>

#define FORMATS "safetensors|npz|pt|bundle"
#define DTYPES  "f16|bf16|f32|f64"

static const option OPTIONS[] = {
    {"to", 0, OPT_CHOICE, FORMATS, "what to write"},
    {"output", 'o', OPT_TEXT, "FILE", "where to; else the name of the file or checkpoint, with another suffix, here"},
    {"only", 0, OPT_LIST, "PATTERN", "tensors of such names, as 'model.*'; may be given several times"},
    {"file", 0, OPT_TEXT, "PATH", "tensors of this file of the checkpoint"},
    {"dtype", 0, OPT_CHOICE, DTYPES, "write all floats as this type"},
    {"yes", 'y', OPT_FLAG, NULL, "overwrite a file that is there"},
    {0},
};

/* ---- Where to --------------------------------------------------------------------------------------------------- */

/* The last component of a path without its suffix, then `suffix`. Malloc'ed. */
static char *named_after(const char *path, const char *suffix)
{
    const char *const base = path_base(path);
    const char *const dot = strrchr(base, '.');
    const size_t stem = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    char *const text = malloc(stem + strlen(suffix) + 1);

    if (text) {
        memcpy(text, base, stem);
        memcpy(text + stem, suffix, strlen(suffix) + 1);
    }
    return text;
}

/* Without -o: the only file with tensors gives its name, else the checkpoint. */
static char *output_of(const ckpt_content *content, const ckpt_export_options *options, const char *suffix)
{
    const ckpt_info *const info = ckpt_content_info(content);
    const char *path = options->file;
    size_t with_tensors = 0;
    char id[PRINT_ID_DIGITS + 1];

    for (size_t i = 0; !options->file && i < ckpt_content_file_count(content); i++) {
        const ckpt_file_info *const file = ckpt_content_file(content, i);
        if (file->tensor_count && with_tensors++ == 0)
            path = file->path;
    }
    if (path && with_tensors <= 1)
        return named_after(path, suffix);
    return named_after(info ? print_id(id, info->id) : "tensors", suffix);
}

/* ---- What was done ---------------------------------------------------------------------------------------------- */

static void print_line(const char *path, const ckpt_export_result *done, double seconds)
{
    char tensors[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE], time[UNITS_TEXT_SIZE];

    fputs("wrote ", stdout);
    output_text(stdout, path);
    printf(": %s, %s, %s\n", print_count(tensors, done->tensors, "tensor"), print_size(bytes, done->bytes),
           print_seconds(time, seconds));
    if (*done->lossy)
        printf("lossy: %s\n", done->lossy);
}

static int print_json(const char *path, const ckpt_export_result *done, double seconds, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object();

    TRY(json_out_set(object, "path", print_json_text(path), err));
    TRY(json_out_set(object, "tensors", json_out_count(done->tensors), err));
    TRY(json_out_set(object, "bytes", json_out_count(done->bytes), err));
    TRY(json_out_set(object, "converted", json_out_count(done->converted), err));
    TRY(json_out_set(object, "lossy", *done->lossy ? print_json_text(done->lossy) : json_null(), err));
    TRY(json_out_set(object, "values_left_out", json_out_count(done->values_left_out), err));
    TRY(json_out_set(object, "seconds", json_out_real(seconds), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* ---- Both kinds ------------------------------------------------------------------------------------------------- */

/* Calls `write` with the path; where something would be overwritten, asks whoever is at the terminal and begins again.
 */
typedef int (*write_fn)(void *payload, const char *path, bool overwrite, ckpt_error *err);
static int write_asking(session *s, const char *path, write_fn write, void *payload, ckpt_error *err)
{
    const bool agreed = arguments_flag(&s->args, "yes");

    session_work_begin(s, "export");
    int rc = write(payload, path, agreed, err);
    session_work_end(s);
    if (rc != CKPT_ECONFIRM || !session_can_ask() || !session_ask(err->message, "overwrite"))
        return rc;
    error_clear(err);
    session_work_begin(s, "export");
    rc = write(payload, path, true, err);
    session_work_end(s);
    return rc;
}

typedef struct tensor_export {
    ckpt_content *content;
    ckpt_export_options options;
    ckpt_export_result result;
} tensor_export;

static int write_tensors(void *payload, const char *path, bool overwrite, ckpt_error *err)
{
    tensor_export *const x = payload;

    x->options.overwrite = overwrite;
    return ckpt_export(&x->result, x->content, path, &x->options, err);
}

static ckpt_dtype dtype_of(const char *word)
{
    int dtype = CKPT_OPAQUE;

    while (word && ckpt_dtype_name((ckpt_dtype)dtype) && strcmp(ckpt_dtype_name((ckpt_dtype)dtype), word) != 0)
        dtype++;
    return (ckpt_dtype)dtype;
}

static int export_tensors(session *s, const char *name, ckpt_export_format format, const char *suffix, ckpt_error *err)
{
    int rc = 0;
    const char **only = NULL;
    char *path = NULL, values[UNITS_TEXT_SIZE];
    const double begin = clock_seconds();
    tensor_export x = {.options = {.size = sizeof(x.options), .format = format}};

    TRY(arguments_list(&only, &x.options.only_count, &s->args, "only", err));
    x.options.only = only;
    x.options.file = arguments_text(&s->args, "file");
    x.options.dtype = dtype_of(arguments_text(&s->args, "dtype"));
    TRY(session_open_content(&x.content, s, name, err));
    const char *const output = arguments_text(&s->args, "output");
    path = output ? strdup(output) : output_of(x.content, &x.options, suffix);
    FAIL_IF_NULL(path, err);
    TRY(write_asking(s, path, write_tensors, &x, err));
    if (x.result.values_left_out)
        session_note(s, "%s beside the tensors left out: only a safetensors file has a place for that",
                     print_count(values, x.result.values_left_out, "value"));
    if (s->json)
        TRY(print_json(path, &x.result, clock_seconds() - begin, err));
    else if (!s->quiet)
        print_line(path, &x.result, clock_seconds() - begin);
out:
    ckpt_content_close(x.content);
    free(path);
    free(only);
    return rc;
}

typedef struct bundle_export {
    ckpt_store *store;
    const char *name;
    ckpt_bundle_result result;
} bundle_export;

static int write_bundle(void *payload, const char *path, bool overwrite, ckpt_error *err)
{
    bundle_export *const x = payload;

    return ckpt_bundle_write(&x->result, x->store, x->name, path, overwrite, err);
}

static int print_bundle(const session *s, const char *path, const ckpt_bundle_result *done, double seconds,
                        ckpt_error *err)
{
    int rc = 0;
    char packs[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE], time[UNITS_TEXT_SIZE];
    json_t *object = NULL;

    if (s->json) {
        object = json_object();
        TRY(json_out_set(object, "path", print_json_text(path), err));
        TRY(json_out_set(object, "id", print_json_text(done->id), err));
        TRY(json_out_set(object, "packs", json_out_count(done->packs), err));
        TRY(json_out_set(object, "bytes", json_out_count(done->bytes), err));
        TRY(json_out_set(object, "tags", json_out_count(done->tags), err));
        TRY(json_out_set(object, "seconds", json_out_real(seconds), err));
        TRY(json_out_value(stdout, object, err));
    } else if (!s->quiet) {
        fputs("wrote ", stdout);
        output_text(stdout, path);
        printf(": checkpoint %.*s, %s, %s, %s\n", PRINT_ID_DIGITS, done->id, print_count(packs, done->packs, "pack"),
               print_size(bytes, done->bytes), print_seconds(time, seconds));
    }
out:
    json_decref(object);
    return rc;
}

static int export_bundle(session *s, const char *name, ckpt_error *err)
{
    static const char *const OF_TENSORS[] = {"only", "file", "dtype"};
    int rc = 0;
    char *path = NULL, suffix[] = ".ckpt.zip", id[CKPT_ID_SIZE];
    const char *const output = arguments_text(&s->args, "output");
    const double begin = clock_seconds();
    bundle_export x = {.name = name};

    for (size_t i = 0; i < sizeof(OF_TENSORS) / sizeof(OF_TENSORS[0]); i++)
        FAIL_IF(arguments_text(&s->args, OF_TENSORS[i]), err, CKPT_EUSAGE,
                "export: --%s is for tensors; a bundle is a whole checkpoint", OF_TENSORS[i]);
    TRY(session_open(s, err));
    TRY(ckpt_find(id, s->store, name, err));
    id[PRINT_ID_DIGITS] = 0;
    x.store = s->store;
    path = output ? strdup(output) : named_after(id, suffix);
    FAIL_IF_NULL(path, err);
    TRY(write_asking(s, path, write_bundle, &x, err));
    TRY(print_bundle(s, path, &x.result, clock_seconds() - begin, err));
out:
    free(path);
    return rc;
}

static int cmd_export(session *s, ckpt_error *err)
{
    static const struct {
        const char *word, *suffix;
        ckpt_export_format format;
    } WORDS[] = {{"safetensors", ".safetensors", CKPT_EXPORT_SAFETENSORS},
                 {"npz", ".npz", CKPT_EXPORT_NPZ},
                 {"pt", ".pt", CKPT_EXPORT_TORCH}};
    int rc = 0;
    const char *const name = s->args.word_count ? s->args.words[0] : "latest";
    const char *const to = arguments_text(&s->args, "to");

    s->notes_are_warnings = true;
    FAIL_IF(!to, err, CKPT_EUSAGE, "export: --to says what to write: one of " FORMATS);
    if (strcmp(to, "bundle") == 0)
        TRY(export_bundle(s, name, err));
    for (size_t i = 0; i < sizeof(WORDS) / sizeof(WORDS[0]); i++)
        if (strcmp(WORDS[i].word, to) == 0)
            TRY(export_tensors(s, name, WORDS[i].format, WORDS[i].suffix, err));
out:
    return rc;
}

const command CMD_EXPORT = {
    .name = "export",
    .args = "[NAME|FILE]",
    .summary = "Write a checkpoint as one file for other programs",
    .about =
        "Takes a checkpoint, `latest` without a name, or a file on disk, which needs no store: so it converts "
        "files too. The file appears when it is whole. Tensors that are views of others become tensors of their "
        "own, and a name that several files have gets the file's path in front.\n\n"
        "safetensors keeps the values beside the tensors. pt is a dict of tensors by name, which "
        "torch.load(FILE, weights_only=True) reads. npz has no bf16 and no 8-bit floats, as NumPy has none: "
        "--dtype f32 writes floats that hold each of their values. With --dtype the largest relative error is "
        "told; values too large become infinite.\n\n"
        "A bundle is the checkpoint itself as one file, for a download or a stick: all packs it needs and its "
        "tags. `ckpt import` brings it into a store, bit for bit; `unzip` makes a store of it. It can be larger than "
        "the files, as packs of earlier checkpoints come along of which it is stored as a difference; files alone "
        "are what `ckpt restore` gives.",
    .examples = "ckpt export best --to safetensors --only 'model.*'\tthe weights of the best one\n"
                "ckpt export model.pt --to npz --dtype f32\ta file, for NumPy\n"
                "ckpt export best --to bundle -o best.ckpt.zip\tthe checkpoint itself\n"
                "ckpt export step:1500 --to pt -o weights.pt --file run/model.safetensors\tone of its files\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 9, 10, 130),
    .words_max = 1,
    .group = GROUP_START,
    .completes = COMPLETES_NAMES_AND_PATHS,
    .run = cmd_export,
};
