#include "output.h"
#include "print.h"
#include "session.h"

#include "fail.h"

#include <inttypes.h>

static const option OPTIONS[] = {
    {"output", 'o', OPT_DIR, "DIR", "put the files there; else at their saved paths under the current folder"},
    {"dry-run", 0, OPT_FLAG, NULL, "only tell what would be written and overwritten"},
    {"yes", 'y', OPT_FLAG, NULL, "overwrite files that differ"},
    {0},
};

static void print_line(const ckpt_restore_result *restored, const ckpt_restore_options *options, double seconds)
{
    char files[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE], time[UNITS_TEXT_SIZE];

    printf("%s %.*s: %s, %s", options->dry_run ? "would restore" : "restored", PRINT_ID_DIGITS, restored->id,
           print_count(files, restored->files, "file"), print_size(bytes, restored->bytes));
    if (options->dir) {
        fputs(" to ", stdout);
        output_text(stdout, options->dir);
    }
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
    double begin = print_clock();

    s->notes_are_warnings = true;
    TRY(session_open(s, err));
    TRY(restore(&restored, s, name, &options, err));
    if (s->json)
        TRY(print_json(&restored, &options, print_clock() - begin, err));
    else if (!s->quiet)
        print_line(&restored, &options, print_clock() - begin);
out:
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
                "ckpt restore latest~1 --dry-run\tonly look what would happen\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 9, 10, 130),
    .words_max = 1,
    .group = GROUP_START,
    .completes = COMPLETES_NAMES,
    .run = cmd_restore,
};
