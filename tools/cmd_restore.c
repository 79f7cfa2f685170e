#include "clock.h"
#include "output.h"
#include "print.h"
#include "session.h"

#include "fail.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const option OPTIONS[] = {
    {"output", 'o', OPT_DIR, "DIR", "put the files there; else at their saved paths under the current folder"},
    {"only", 0, OPT_LIST, "PATTERN",
     "files of such paths, as '*.pt', or below such a folder; may be given several times"},
    {"dry-run", 0, OPT_FLAG, NULL, "only tell what would be written and overwritten"},
    {"yes", 'y', OPT_FLAG, NULL, "overwrite files that differ"},
    {0},
};

/* The folder in which all files of a checkpoint lie, "" when they have none in common. Malloc'ed. */
static int common_folder(char **out, session *s, const char *id, ckpt_error *err)
{
    int rc = 0;
    ckpt_content *content = NULL;
    size_t length = 0;

    TRY(ckpt_content_open(&content, s->store, id, err));
    for (size_t i = 0; i < ckpt_content_file_count(content); i++) {
        const ckpt_file_info *const file = ckpt_content_file(content, i);
        const char *const end = strrchr(file->path, '/');
        if (file->kind == CKPT_FOLDER)
            continue; /* those of its files tell */
        if (!*out) {
            length = end ? (size_t)(end - file->path) : 0;
            *out = strndup(file->path, length);
            FAIL_IF_NULL(*out, err);
        }
        while (length && (strncmp(file->path, *out, length) != 0 || file->path[length] != '/'))
            while (length && (*out)[--length] != '/')
                ;
    }
    if (!*out)
        *out = strdup("");
    FAIL_IF_NULL(*out, err);
    (*out)[length] = 0;
out:
    ckpt_content_close(content);
    return rc;
}

static void print_line(const ckpt_restore_result *restored, const ckpt_restore_options *options, const char *folder,
                       double seconds)
{
    char files[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE], time[UNITS_TEXT_SIZE];

    printf("%s %.*s: %s to ", options->dry_run ? "would restore" : "restored", PRINT_ID_DIGITS, restored->id,
           print_count(files, restored->files, "file"));
    if (options->dir)
        output_text(stdout, options->dir);
    if (options->dir && *folder)
        fputc('/', stdout);
    output_text(stdout, folder);
    printf("%s, %s", options->dir || *folder ? "" : "the current folder", print_size(bytes, restored->bytes));
    if (restored->unchanged_files)
        printf(", %" PRIu64 " unchanged", restored->unchanged_files);
    printf(", %s\n", print_seconds(time, seconds));
}

static int print_json(const ckpt_restore_result *restored, const ckpt_restore_options *options, double seconds,
                      ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object();

    TRY(json_out_set(object, "id", print_json_text(restored->id), err));
    TRY(json_out_set(object, "dir", print_json_text(options->dir ? options->dir : "."), err));
    TRY(json_out_set(object, "files", json_out_count(restored->files), err));
    TRY(json_out_set(object, "bytes", json_out_count(restored->bytes), err));
    TRY(json_out_set(object, "unchanged_files", json_out_count(restored->unchanged_files), err));
    TRY(json_out_set(object, "fell_back", json_boolean(restored->fell_back), err));
    TRY(json_out_set(object, "dry_run", json_boolean(options->dry_run), err));
    TRY(json_out_set(object, "seconds", json_out_real(seconds), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* Restores; where files would be overwritten, asks whoever is at the terminal and begins again. */
static int restore(ckpt_restore_result *restored, session *s, const char *name, ckpt_restore_options *options,
                   ckpt_error *err)
{
    session_work_begin(s, "restore");
    int rc = ckpt_restore_files(restored, s->store, name, options, err);
    session_work_end(s);
    if (rc == CKPT_EDATA && !err->hint[0])
        error_hint(err, "`ckpt verify --full` tells what is hurt and which checkpoints are whole");
    if (rc == CKPT_ECONFIRM)
        error_hint(err, "--yes overwrites, -o DIR restores elsewhere");
    if (rc != CKPT_ECONFIRM || options->dry_run || !session_can_ask() || !session_ask(err->message, "overwrite"))
        return rc;
    error_clear(err);
    options->overwrite = true;
    return restore(restored, s, name, options, err);
}

static int cmd_restore(session *s, ckpt_error *err)
{
    int rc = 0;
    const char *name = s->args.word_count ? s->args.words[0] : "latest";
    ckpt_restore_result restored;
    ckpt_restore_options options = {.size = sizeof(options),
                                    .dir = arguments_text(&s->args, "output"),
                                    .overwrite = arguments_flag(&s->args, "yes"),
                                    .dry_run = arguments_flag(&s->args, "dry-run")};
    char *folder = NULL;
    const char **only = NULL;
    double begin = clock_seconds();

    s->notes_are_warnings = true;
    TRY(arguments_list(&only, &options.only_count, &s->args, "only", err));
    options.only = only;
    TRY(session_open(s, err));
    TRY(restore(&restored, s, name, &options, err));
    if (s->json)
        TRY(print_json(&restored, &options, clock_seconds() - begin, err));
    else if (!s->quiet) {
        const double seconds = clock_seconds() - begin;
        TRY(common_folder(&folder, s, restored.id, err));
        print_line(&restored, &options, folder, seconds);
    }
out:
    free(folder);
    free(only);
    return rc;
}

const command CMD_RESTORE = {
    .name = "restore",
    .args = "[NAME]",
    .summary = "Get the files of a checkpoint back",
    .about =
        "Without NAME it is `latest`. Each file appears only when it is whole and its SHA-256 is right. A file that "
        "is there already and differs is not overwritten without --yes; on a terminal you are asked.\n\n"
        "When the newest checkpoint is damaged, `latest` falls back to the newest good one and says so.",
    .examples = "ckpt restore latest -o somewhere\tinto another folder\n"
                "ckpt restore best --yes\tover the files at hand\n"
                "ckpt restore best --only '*.safetensors' -o out\tsome of its files\n"
                "ckpt restore latest~1 --dry-run\tonly look what would happen\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 9, 10, 130),
    .words_max = 1,
    .group = GROUP_START,
    .completes = COMPLETES_NAMES,
    .run = cmd_restore,
};
