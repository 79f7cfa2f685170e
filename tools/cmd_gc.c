#include "print.h"
#include "session.h"

#include "fail.h"

static const option OPTIONS[] = {
    {"repack", 0, OPT_FLAG, NULL, "also write checkpoints anew, where that frees packs of which little is needed"},
    {"dry-run", 0, OPT_FLAG, NULL, "only show what would be done"},
    {"yes", 'y', OPT_FLAG, NULL, "do not ask"},
    {0},
};

static void print_result(const ckpt_gc_result *result, bool dry_run)
{
    char count[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE];
    const uint64_t written = result->written_bytes;

    if (result->repacked_checkpoints)
        printf("%s %s anew, %s%s\n", dry_run ? "would write" : "wrote",
               print_count(count, result->repacked_checkpoints, "checkpoint"), dry_run ? "about " : "",
               print_size(bytes, written));
    printf("%s %s that no checkpoint needs", dry_run ? "would remove" : "removed",
           print_count(count, result->removed_packs, "pack"));
    printf("; %s%s%s\n", dry_run && written ? "about " : "",
           print_size(bytes, result->freed_bytes > written ? result->freed_bytes - written : 0),
           dry_run ? " would be free" : " freed");
    if (dry_run && written)
        printf("needs %s for a while\n", print_size(bytes, result->scratch_bytes));
}

static int print_json(const ckpt_gc_result *result, bool dry_run, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object();

    TRY(json_out_set(object, "dry_run", json_boolean(dry_run), err));
    TRY(json_out_set(object, "removed_packs", json_out_count(result->removed_packs), err));
    TRY(json_out_set(object, "removed_segments", json_out_count(result->removed_segments), err));
    TRY(json_out_set(object, "freed_bytes", json_out_count(result->freed_bytes), err));
    TRY(json_out_set(object, "repacked_checkpoints", json_out_count(result->repacked_checkpoints), err));
    TRY(json_out_set(object, "written_bytes", json_out_count(result->written_bytes), err));
    TRY(json_out_set(object, "scratch_bytes", json_out_count(result->scratch_bytes), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* Shows what would be done, then asks; nothing to do needs no asking. */
static int confirm(session *s, ckpt_gc_options options, ckpt_error *err)
{
    int rc = 0;
    ckpt_gc_result plan;
    char text[UNITS_TEXT_SIZE], what[4 * UNITS_TEXT_SIZE];

    options.dry_run = true;
    TRY(ckpt_gc(&plan, s->store, &options, err));
    if (plan.repacked_checkpoints) {
        snprintf(what, sizeof(what), "write %s anew", print_count(text, plan.repacked_checkpoints, "checkpoint"));
    } else if (plan.freed_bytes) {
        snprintf(what, sizeof(what), "remove %s that no checkpoint needs", print_size(text, plan.freed_bytes));
    } else
        goto out;
    if (session_can_ask() && !s->json)
        print_result(&plan, true);
    TRY(session_confirm(s, what, err));
out:
    return rc;
}

static int cmd_gc(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_gc_result result;
    const ckpt_gc_options options = {.size = sizeof(options),
                                     .dry_run = arguments_flag(&s->args, "dry-run"),
                                     .repack = arguments_flag(&s->args, "repack")};

    s->notes_are_warnings = true;
    TRY(session_open(s, err));
    if (!options.dry_run && !arguments_flag(&s->args, "yes"))
        TRY(confirm(s, options, err));
    session_work_begin(s, options.repack ? "repack" : "gc");
    rc = ckpt_gc(&result, s->store, &options, err);
    session_work_end(s);
    TRY(rc);
    if (s->json)
        TRY(print_json(&result, options.dry_run, err));
    else if (!s->quiet)
        print_result(&result, options.dry_run);
out:
    return rc;
}

const command CMD_GC = {
    .name = "gc",
    .args = "",
    .summary = "Remove what no checkpoint needs",
    .about =
        "Removes packs that are left of removed checkpoints, temporary files of saves that were killed, and parts "
        "of the cache that tell of no pack. No checkpoint goes: that is what `ckpt prune` and `ckpt rm` are for.\n\n"
        "--repack also frees what `ckpt stats` tells as kept for differences: where over half of a pack is needed by "
        "no checkpoint, or only because kept ones are stored as differences from it, those are written anew. Their "
        "ids stay, and each is decoded and compared with the SHA-256 of its files before its old pack goes. It may be "
        "stopped at any time, and goes on later; saves may go on beside it. Where there is no room for the work it is "
        "refused with the numbers.",
    .examples = "ckpt gc --dry-run\tlook first\n"
                "ckpt gc --yes\tafter `ckpt rm`\n"
                "ckpt gc --repack --yes\twhen the disk is short and nothing more may go\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 8, 9, 10, 130),
    .group = GROUP_CARE,
    .run = cmd_gc,
};
