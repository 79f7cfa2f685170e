#include "print.h"
#include "session.h"

#include "clock.h"
#include "fail.h"

#include <ckpt/export.h>

#include <inttypes.h>

static void print_line(const ckpt_bundle_result *done, double seconds)
{
    char packs[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE], time[UNITS_TEXT_SIZE];

    printf("imported %.*s: %s, %s", PRINT_ID_DIGITS, done->id, print_count(packs, done->packs, "pack"),
           print_size(bytes, done->bytes));
    if (done->packs_there)
        printf(", %" PRIu64 " there already", done->packs_there);
    printf(", %s\n", print_seconds(time, seconds));
}

static int print_json(const ckpt_bundle_result *done, double seconds, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object();

    TRY(json_out_set(object, "id", print_json_text(done->id), err));
    TRY(json_out_set(object, "packs", json_out_count(done->packs), err));
    TRY(json_out_set(object, "bytes", json_out_count(done->bytes), err));
    TRY(json_out_set(object, "packs_there", json_out_count(done->packs_there), err));
    TRY(json_out_set(object, "tags", json_out_count(done->tags), err));
    TRY(json_out_set(object, "tags_there", json_out_count(done->tags_there), err));
    TRY(json_out_set(object, "seconds", json_out_real(seconds), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static int cmd_import(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_bundle_result done;
    const double begin = clock_seconds();

    TRY(session_open(s, err));
    session_work_begin(s, "import");
    rc = ckpt_bundle_import(&done, s->store, s->args.words[0], err);
    session_work_end(s);
    TRY(rc);
    if (s->json)
        TRY(print_json(&done, clock_seconds() - begin, err));
    else if (!s->quiet)
        print_line(&done, clock_seconds() - begin);
out:
    return rc;
}

const command CMD_IMPORT = {
    .name = "import",
    .args = "BUNDLE",
    .summary = "Bring the checkpoint of a bundle into the store",
    .about =
        "BUNDLE is a file that `ckpt export --to bundle` wrote. Every pack in it is compared with its SHA-256 before "
        "it is there, and the checkpoint comes last: it is there whole or not at all. It keeps its id, its time and "
        "its place among the others, so it is `latest` only if it was saved last. Its tags come along, unless "
        "they name another checkpoint here.",
    .examples = "ckpt import best.ckpt.zip\tthen `ckpt log` shows it\n",
    .exits = EXITS(0, 2, 3, 4, 5, 8, 9, 10, 130),
    .words_min = 1,
    .words_max = 1,
    .group = GROUP_START,
    .completes = COMPLETES_PATHS,
    .run = cmd_import,
};
