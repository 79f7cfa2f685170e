#include "policy.h"
#include "print.h"
#include "session.h"

#include "fail.h"
#include "table.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>

static const option OPTIONS[] = {
    {"keep", 0, OPT_TEXT, "POLICY", "keep by this policy instead of that of config.ini"},
    {"dry-run", 0, OPT_FLAG, NULL, "only show what would be kept and removed"},
    {"yes", 'y', OPT_FLAG, NULL, "do not ask, with --keep; the policy of config.ini needs no asking"},
    {0},
};

/* All rows, or those alone that are removed. */
static int print_rows(const session *s, const ckpt_prune_result *plan, const ckpt_list *list, bool all, ckpt_error *err)
{
    static const table_column COLUMNS[] = {
        {"ID", TABLE_LEFT}, {"STEP", TABLE_RIGHT}, {"FREES", TABLE_RIGHT}, {"PLAN", TABLE_LEFT}, {"WHY", TABLE_LEFT}};
    int rc = 0;
    table *t = NULL;

    TRY(table_new(&t, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]), err));
    for (size_t i = 0, k = 0; i < plan->row_count; i++) {
        const ckpt_prune_row *row = &plan->rows[i];
        const ckpt_info *const info = print_info_of(&k, list, row->id);
        char id[PRINT_ID_DIGITS + 1], text[UNITS_TEXT_SIZE];

        if (row->keep && !all)
            continue;
        TRY(table_add(t, print_id(id, row->id), TABLE_YELLOW, err));
        TRY(table_add(t, info ? print_step(text, info->step) : "", TABLE_PLAIN, err));
        TRY(table_add(t, row->keep ? "" : print_size(text, row->freed_bytes), TABLE_PLAIN, err));
        TRY(table_add(t, row->keep ? "keep" : "remove", row->keep ? TABLE_GREEN : TABLE_RED, err));
        TRY(table_add(t, row->reason, TABLE_PLAIN, err));
    }
    TRY(table_write(stdout, t, terminal_columns(stdout), s->color, err));
out:
    table_free(t);
    return rc;
}

static void print_totals(const ckpt_prune_result *result, bool dry_run)
{
    char checkpoints[UNITS_TEXT_SIZE], packs[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE];
    printf("%s %s, %s; %s%s\n", dry_run ? "would remove" : "removed",
           print_count(checkpoints, result->removed_checkpoints, "checkpoint"),
           print_count(packs, result->removed_packs, "pack"), print_size(bytes, result->freed_bytes),
           dry_run ? " would be free" : " freed");
    if (result->held_bytes)
        printf("%s of removed checkpoints stay, as kept ones are stored as differences from them;\n"
               "`ckpt gc --repack` frees what it can of that\n",
               print_size(bytes, result->held_bytes));
}

static int print_json(const ckpt_prune_result *result, const ckpt_list *list, const char *keep, bool dry_run,
                      ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object(), *rows;

    TRY(json_out_set(object, "keep", keep ? print_json_text(keep) : json_null(), err));
    TRY(json_out_set(object, "dry_run", json_boolean(dry_run), err));
    TRY(json_out_set(object, "removed_checkpoints", json_out_count(result->removed_checkpoints), err));
    TRY(json_out_set(object, "removed_packs", json_out_count(result->removed_packs), err));
    TRY(json_out_set(object, "freed_bytes", json_out_count(result->freed_bytes), err));
    TRY(json_out_set(object, "held_bytes", json_out_count(result->held_bytes), err));
    rows = json_array();
    TRY(json_out_set(object, "checkpoints", rows, err));
    for (size_t i = 0, k = 0; i < result->row_count; i++) {
        const ckpt_info *const info = print_info_of(&k, list, result->rows[i].id);
        json_t *row = json_object();
        TRY(json_out_append(rows, row, err));
        TRY(json_out_set(row, "id", print_json_text(result->rows[i].id), err));
        TRY(json_out_set(row, "step", print_json_step(info ? info->step : CKPT_STEP_NONE), err));
        TRY(json_out_set(row, "time", info ? json_integer(info->time) : json_null(), err));
        TRY(json_out_set(row, "keep", json_boolean(result->rows[i].keep), err));
        TRY(json_out_set(row, "freed_bytes", json_out_count(result->rows[i].freed_bytes), err));
        TRY(json_out_set(row, "reason", print_json_text(result->rows[i].reason), err));
    }
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* A policy of the command line nobody has consented to: shows what it removes, then asks. */
static int confirm_policy(session *s, ckpt_prune_options options, const ckpt_list *list, ckpt_error *err)
{
    int rc = 0;
    ckpt_prune_result plan = {0};
    char count[UNITS_TEXT_SIZE], what[2 * UNITS_TEXT_SIZE];

    options.dry_run = true;
    TRY(ckpt_prune(&plan, s->store, &options, err));
    if (!plan.removed_checkpoints)
        goto out;
    if (session_can_ask() && !s->json)
        TRY(print_rows(s, &plan, list, true, err));
    snprintf(what, sizeof(what), "remove %s", print_count(count, plan.removed_checkpoints, "checkpoint"));
    TRY(session_confirm(s, what, err));
out:
    ckpt_prune_result_clear(&plan);
    return rc;
}

static int cmd_prune(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_list *list = NULL;
    ckpt_prune_result result = {0};
    char *policy = NULL;
    const ckpt_prune_options options = {.size = sizeof(options),
                                        .dry_run = arguments_flag(&s->args, "dry-run"),
                                        .keep = arguments_text(&s->args, "keep")};

    s->notes_are_warnings = true;
    TRY(session_open(s, err));
    TRY(ckpt_list_new(&list, s->store, err));
    if (options.keep && !options.dry_run && !arguments_flag(&s->args, "yes"))
        TRY(confirm_policy(s, options, list, err));
    session_work_begin(s, "check the newest");
    rc = ckpt_prune(&result, s->store, &options, err);
    session_work_end(s);
    TRY(rc);
    if (!options.keep)
        TRY(policy_read(&policy, NULL, s->store, err));
    if (s->json)
        TRY(print_json(&result, list, options.keep ? options.keep : policy, options.dry_run, err));
    else if (!s->quiet) {
        if (options.dry_run ? result.row_count > 0 : result.removed_checkpoints > 0)
            TRY(print_rows(s, &result, list, options.dry_run, err));
        print_totals(&result, options.dry_run);
    }
out:
    free(policy);
    ckpt_prune_result_clear(&result);
    ckpt_list_free(list);
    return rc;
}

const command CMD_PRUNE = {
    .name = "prune",
    .args = "",
    .summary = "Remove what the retention policy does not keep",
    .about =
        "Applies `keep` of config.ini, and removes what `ckpt rm` left behind. The newest good checkpoint stays "
        "whatever the policy says: before any goes, the files of the newest that stays are decoded and compared "
        "with their SHA-256; where that shows damage it is kept, and the next one is decoded. Of all others only "
        "names, sizes and tables are looked at. What a running save refers to stays too. "
        "Packs of removed checkpoints stay where kept ones are stored as differences from them.\n\n"
        "A policy is rules with commas between; a checkpoint stays when one of them keeps it:\n\n"
        "`last 5`, the newest; `best 2`, by the value that `best` of config.ini names; `best 2 by val_loss min`, by "
        "another value of `save --meta`; `every 10000 steps` and `every 10 epochs`, the first of each range, epochs "
        "by the value `epoch`; `within 7d` (also 36h, 4w), not older than that by the clock of this machine, the "
        "newest in any case; `tagged`, all that have a tag. Without that rule tags protect nothing, and go with their "
        "checkpoints.\n\n"
        "--dry-run tells what goes with each checkpoint, and why it stays or by how much the rules passed it over.",
    .examples = "ckpt prune --dry-run\tlook first\n"
                "ckpt prune\tafter each save, as a training script may do\n"
                "ckpt prune --keep 'last 1, tagged' --yes\twhen the disk must be free now\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 8, 9, 10, 130),
    .group = GROUP_CARE,
    .run = cmd_prune,
};
