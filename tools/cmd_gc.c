#include "print.h"
#include "session.h"

#include "fail.h"

static const option OPTIONS[] = {
    {"dry-run", 0, OPT_FLAG, NULL, "only show what would be done"},
    {"yes", 'y', OPT_FLAG, NULL, "do not ask"},
    {0},
};

static void print_result(const ckpt_gc_result *result, bool dry_run)
{
    char packs[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE];

    printf("%s %s that no checkpoint needs; %s%s\n", dry_run ? "would remove" : "removed",
           print_count(packs, result->removed_packs, "pack"), print_size(bytes, result->freed_bytes),
           dry_run ? " would be free" : " freed");
}

static int print_json(const ckpt_gc_result *result, bool dry_run, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object();

    TRY(json_out_set(object, "dry_run", json_boolean(dry_run), err));
    TRY(json_out_set(object, "removed_packs", json_out_count(result->removed_packs), err));
    TRY(json_out_set(object, "removed_segments", json_out_count(result->removed_segments), err));
    TRY(json_out_set(object, "freed_bytes", json_out_count(result->freed_bytes), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* Shows what would go, then asks; nothing to do needs no asking. */
static int confirm(session *s, ckpt_gc_options options, ckpt_error *err)
{
    int rc = 0;
    ckpt_gc_result plan;
    char bytes[UNITS_TEXT_SIZE], what[2 * UNITS_TEXT_SIZE];

    options.dry_run = true;
    TRY(ckpt_gc(&plan, s->store, &options, err));
    if (!plan.freed_bytes)
        goto out;
    snprintf(what, sizeof(what), "remove %s", print_size(bytes, plan.freed_bytes));
    TRY(session_confirm(s, what, err));
out:
    return rc;
}

static int cmd_gc(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_gc_result result;
    const ckpt_gc_options options = {.size = sizeof(options), .dry_run = arguments_flag(&s->args, "dry-run")};

    s->notes_are_warnings = true;
    TRY(session_open(s, err));
    if (!options.dry_run && !arguments_flag(&s->args, "yes"))
        TRY(confirm(s, options, err));
    session_work_begin(s, "gc");
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
    .about = "Removes packs that are left of removed checkpoints, temporary files of saves that were killed, and parts "
             "of the cache that tell of no pack. No checkpoint goes: that is what `ckpt prune` and `ckpt rm` are for.",
    .examples = "ckpt gc --dry-run\tlook first\n"
                "ckpt gc --yes\tafter `ckpt rm`\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 8, 9, 10, 130),
    .group = GROUP_CARE,
    .run = cmd_gc,
};
