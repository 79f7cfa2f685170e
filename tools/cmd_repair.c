#include "output.h"
#include "print.h"
#include "session.h"

#include "fail.h"
#include "table.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const option OPTIONS[] = {
    {"from", 0, OPT_DIR, "STORE", "a second store, which may have what this one lost"},
    {"add-parity", 0, OPT_TEXT, "SHARE", "also give packs that have none so much parity, as 5%"},
    {"adopt", 0, OPT_FLAG, NULL, "also make checkpoints of packs with files that no checkpoint names"},
    {"dry-run", 0, OPT_FLAG, NULL, "only show what is damaged and what can be done"},
    {"yes", 'y', OPT_FLAG, NULL, "do not ask"},
    {0},
};

#define HURT_SHOWN_MAX 3
#define HURT_TEXT_SIZE 80

/* "3 checkpoints: 1a2b3c4d, ..." */
static const char *hurt_text(char out[HURT_TEXT_SIZE], const ckpt_repair_row *row)
{
    size_t used = 0;

    out[0] = 0;
    for (size_t i = 0; i < row->hurt_count && i < HURT_SHOWN_MAX; i++)
        used +=
            (size_t)snprintf(out + used, HURT_TEXT_SIZE - used, "%s%.*s", i ? ", " : "", PRINT_ID_DIGITS, row->hurt[i]);
    if (row->hurt_count > HURT_SHOWN_MAX)
        snprintf(out + used, HURT_TEXT_SIZE - used, ", %zu more", row->hurt_count - HURT_SHOWN_MAX);
    return out;
}

/* A tag has its own name, all else a long hash. */
static const char *name_text(char out[CKPT_ID_SIZE], const ckpt_repair_row *row)
{
    const bool is_hash = strlen(row->name) == CKPT_ID_SIZE - 1;

    snprintf(out, CKPT_ID_SIZE, "%.*s", is_hash ? PRINT_ID_DIGITS : CKPT_ID_SIZE - 1, row->name);
    return out;
}

/* In one table the columns that tell what is wrong and what was done would be cut; a line each keeps them whole. */
static int print_rows(const session *s, const ckpt_repair_result *found, bool dry_run, ckpt_error *err)
{
    static const table_column COLUMNS[] = {
        {"WHAT", TABLE_LEFT}, {"NAME", TABLE_LEFT}, {"STATE", TABLE_LEFT}, {"HURTS", TABLE_LEFT}};
    int rc = 0;
    table *t = NULL;

    TRY(table_new(&t, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]), err));
    for (size_t i = 0; i < found->row_count; i++) {
        const ckpt_repair_row *row = &found->rows[i];
        char name[CKPT_ID_SIZE], hurt[HURT_TEXT_SIZE];
        const char *state = !row->mended ? "damaged" : dry_run ? "can be mended" : "mended";
        TRY(table_add(t, row->kind, TABLE_PLAIN, err));
        TRY(table_add(t, name_text(name, row), TABLE_YELLOW, err));
        TRY(table_add(t, state, row->mended ? TABLE_GREEN : TABLE_RED, err));
        TRY(table_add(t, hurt_text(hurt, row), TABLE_PLAIN, err));
    }
    TRY(table_write(stdout, t, terminal_columns(stdout), s->color, err));
    for (size_t i = 0; i < found->row_count; i++) {
        const ckpt_repair_row *row = &found->rows[i];
        char name[CKPT_ID_SIZE];
        printf("%s ", row->kind);
        output_text(stdout, name_text(name, row));
        fputs(": ", stdout);
        output_text(stdout, row->state);
        fputs("; ", stdout);
        output_text(stdout, row->action);
        fputc('\n', stdout);
    }
out:
    table_free(t);
    return rc;
}

static void print_totals(const ckpt_repair_result *found, bool dry_run)
{
    char packs[UNITS_TEXT_SIZE], checkpoints[UNITS_TEXT_SIZE], size[UNITS_TEXT_SIZE];

    printf("%s, %s: ", print_count(checkpoints, found->checkpoints, "checkpoint"),
           print_count(packs, found->packs, "pack"));
    if (!found->damaged)
        printf("nothing is damaged\n");
    else
        printf("%" PRIu64 " of %" PRIu64 " damaged things %s\n", found->mended, found->damaged,
               dry_run ? "can be mended" : "mended");
    if (found->parity_packs)
        printf("parity %s %s, %s\n", dry_run ? "would be added to" : "added to",
               print_count(packs, found->parity_packs, "pack"), print_size(size, found->parity_bytes));
    if (found->kept_files)
        printf("damaged/ keeps %s, %s: remove them by hand when nobody wants them\n",
               print_count(packs, found->kept_files, "file"), print_size(size, found->kept_bytes));
}

static int print_json(const ckpt_repair_result *found, bool dry_run, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object(), *rows;

    TRY(json_out_set(object, "dry_run", json_boolean(dry_run), err));
    TRY(json_out_set(object, "checkpoints", json_out_count(found->checkpoints), err));
    TRY(json_out_set(object, "packs", json_out_count(found->packs), err));
    TRY(json_out_set(object, "damaged", json_out_count(found->damaged), err));
    TRY(json_out_set(object, "mended", json_out_count(found->mended), err));
    TRY(json_out_set(object, "parity_packs", json_out_count(found->parity_packs), err));
    TRY(json_out_set(object, "parity_bytes", json_out_count(found->parity_bytes), err));
    TRY(json_out_set(object, "kept_files", json_out_count(found->kept_files), err));
    TRY(json_out_set(object, "kept_bytes", json_out_count(found->kept_bytes), err));
    rows = json_array();
    TRY(json_out_set(object, "rows", rows, err));
    for (size_t i = 0; i < found->row_count; i++) {
        const ckpt_repair_row *from = &found->rows[i];
        json_t *row = json_object(), *hurt;
        TRY(json_out_append(rows, row, err));
        TRY(json_out_set(row, "what", print_json_text(from->kind), err));
        TRY(json_out_set(row, "name", print_json_text(from->name), err));
        TRY(json_out_set(row, "state", print_json_text(from->state), err));
        TRY(json_out_set(row, "action", print_json_text(from->action), err));
        TRY(json_out_set(row, "mended", json_boolean(from->mended), err));
        hurt = json_array();
        TRY(json_out_set(row, "hurts", hurt, err));
        for (size_t k = 0; k < from->hurt_count; k++)
            TRY(json_out_append(hurt, print_json_text(from->hurt[k]), err));
    }
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static int print_result(const session *s, const ckpt_repair_result *found, bool dry_run, ckpt_error *err)
{
    int rc = 0;

    if (s->json) {
        TRY(print_json(found, dry_run, err));
        goto out;
    }
    if (found->row_count > 0 && (!s->quiet || found->mended < found->damaged))
        TRY(print_rows(s, found, dry_run, err));
    if (!s->quiet)
        print_totals(found, dry_run);
out:
    return rc;
}

/* Shows what would be done, and asks where that changes anything that is there. */
static int confirm_repair(session *s, ckpt_repair_options options, ckpt_error *err)
{
    int rc = 0;
    ckpt_repair_result plan = {0};
    char count[UNITS_TEXT_SIZE], what[2 * UNITS_TEXT_SIZE];

    options.dry_run = true;
    session_work_begin(s, "look");
    rc = ckpt_repair(&plan, s->store, &options, err);
    session_work_end(s);
    if (rc == CKPT_EDATA)
        rc = 0;
    TRY(rc);
    if (!plan.mended)
        goto out;
    if (session_can_ask() && !s->json)
        TRY(print_rows(s, &plan, true, err));
    snprintf(what, sizeof(what), "mend %s", print_count(count, plan.mended, "damaged thing"));
    TRY(session_confirm(s, what, err));
out:
    ckpt_repair_result_clear(&plan);
    return rc;
}

static int cmd_repair(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_repair_result found = {0};
    ckpt_repair_options options = {.size = sizeof(options),
                                   .dry_run = arguments_flag(&s->args, "dry-run"),
                                   .from = arguments_text(&s->args, "from"),
                                   .adopt = arguments_flag(&s->args, "adopt")};

    TRY(arguments_share(&options.parity, &s->args, "add-parity", err));
    TRY(session_open(s, err));
    if (!options.dry_run && !arguments_flag(&s->args, "yes"))
        TRY(confirm_repair(s, options, err));
    session_work_begin(s, "repair");
    const int repaired = ckpt_repair(&found, s->store, &options, err);
    session_work_end(s);
    if (repaired && !found.row_count) {
        rc = repaired;
        goto out;
    }
    TRY(print_result(s, &found, options.dry_run, err));
    rc = repaired;
out:
    ckpt_repair_result_clear(&found);
    return rc;
}

const command CMD_REPAIR = {
    .name = "repair",
    .args = "",
    .summary = "Mend what is damaged, as far as anything tells how",
    .about =
        "Reads the whole store. A damaged or missing pack comes back from its parity, from the store that --from "
        "names, from a file of another name that has its bytes, or from equal frames in other packs; where only its "
        "header or footer is damaged, those are written anew. It gets its name only when its SHA-256 is that name. A "
        "damaged snapshot is written as it was where its id tells how, else made anew from its pack, and then a "
        "message says what is lost. Damaged tags are set aside, and a damaged cache is made anew.\n\n"
        "What is replaced or set aside goes to the folder damaged/ of the store, and nothing ever removes it from "
        "there. Stopped at any moment, by whatever, the store is no worse than before; repairing again goes on.\n\n"
        "Parity is a share of each pack that is written beside it, by `ckpt init --parity 5%`, by `ckpt save --parity "
        "5%`, or for packs that are there already by --add-parity. A pack that lost up to that share of its bytes, in "
        "one place or in many, is then rebuilt to the last bit.",
    .examples = "ckpt repair --dry-run\twhat is damaged, and what can be done\n"
                "ckpt repair --yes\tmend it without asking\n"
                "ckpt repair --from /mnt/backup/.ckpt\twith the packs of a copy\n"
                "ckpt repair --add-parity 5%\tbe ready for the next time\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 8, 9, 10, 130),
    .group = GROUP_CARE,
    .run = cmd_repair,
};
