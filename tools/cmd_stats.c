#include "output.h"
#include "print.h"
#include "session.h"

#include "fail.h"
#include "table.h"
#include "terminal.h"

#include <ckpt/stats.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const option OPTIONS[] = {
    {"checkpoints", 0, OPT_FLAG, NULL, "a line for each checkpoint: what is its own, and what only it needs"},
    {"modes", 0, OPT_FLAG, NULL,
     "how chunks are coded, at which level, and how much has no pattern; reads some of all packs"},
    {0},
};

static uint64_t stored_bytes(const ckpt_stats *stats)
{
    return stats->pack_bytes + stats->snapshot_bytes;
}

/* Checkpoints in which tensors were rounded or left out; *newest says what of the newest of them. */
static uint64_t count_lossy(const char **newest, const ckpt_list *list)
{
    uint64_t count = 0;

    for (size_t i = 0; i < ckpt_list_count(list); i++) {
        const char *const lossy = print_lossy(ckpt_list_get(list, i));
        if (*lossy && count++ == 0)
            *newest = lossy;
    }
    return count;
}

static void print_lossy_line(const ckpt_list *list)
{
    const char *newest = "";
    char text[UNITS_TEXT_SIZE];
    const uint64_t count = count_lossy(&newest, list);

    if (!count)
        return;
    printf("lossy                 %s; %s", print_count(text, count, "checkpoint"), count > 1 ? "the newest: " : "");
    output_text(stdout, newest);
    fputc('\n', stdout);
}

static void print_totals(const ckpt_stats *stats, const ckpt_usage *usage)
{
    char a[UNITS_TEXT_SIZE], b[UNITS_TEXT_SIZE], c[UNITS_TEXT_SIZE];

    printf("checkpoints           %" PRIu64 ", %s as they are\n", stats->checkpoints, print_size(a, stats->raw_bytes));
    printf("stored                %s, %s of that\n", print_size(a, stored_bytes(stats)),
           print_percent(b, stored_bytes(stats), stats->raw_bytes));
    printf("packs                 %" PRIu64 ", %s\n", stats->packs, print_size(a, stats->pack_bytes));
    printf("snapshots             %s\n", print_size(a, stats->snapshot_bytes));
    printf("cache                 %s\n", print_size(a, stats->cache_bytes));
    if (stats->parity_bytes)
        printf("parity                %s\n", print_size(a, stats->parity_bytes));
    if (stats->damaged_bytes)
        printf("damaged/              %s, kept by `ckpt repair`\n", print_size(a, stats->damaged_bytes));
    printf("unreachable           %s%s\n", print_size(a, stats->unreachable_bytes),
           stats->unreachable_bytes ? "; `ckpt gc` frees it" : "");
    printf("kept for differences  %s%s\n", print_size(a, stats->held_bytes),
           stats->held_bytes ? "; `ckpt gc --repack` frees what it can" : "");
    printf("unused in packs       %s\n", print_size(a, stats->dead_bytes));
    printf("left by killed saves  %s%s\n", print_size(a, stats->leftover_bytes),
           stats->leftover_bytes ? "; `ckpt gc` frees it" : "");
    if (usage->quota_bytes)
        printf("quota                 %s, %s of it taken (%s)\n", print_size(a, usage->quota_bytes),
               print_size(b, usage->store_bytes), print_percent(c, usage->store_bytes, usage->quota_bytes));
    printf("disk                  %s free\n", print_size(a, stats->disk_free_bytes));
}

/* `counted` and `named` head the first and the last column. */
static int print_rows(const session *s, const ckpt_stats_row *rows, size_t count, const char *counted,
                      const char *named, ckpt_error *err)
{
    const table_column columns[] = {{counted, TABLE_RIGHT},
                                    {"SIZE", TABLE_RIGHT},
                                    {"STORED", TABLE_RIGHT},
                                    {"RATIO", TABLE_RIGHT},
                                    {named, TABLE_LEFT}};
    int rc = 0;
    table *t = NULL;

    if (count == 0)
        goto out;
    fputc('\n', stdout);
    TRY(table_new(&t, columns, sizeof(columns) / sizeof(columns[0]), err));
    for (size_t i = 0; i < count; i++) {
        char text[UNITS_TEXT_SIZE];
        format_count(text, rows[i].count);
        TRY(table_add(t, text, TABLE_PLAIN, err));
        TRY(table_add(t, print_size(text, rows[i].raw_bytes), TABLE_PLAIN, err));
        TRY(table_add(t, print_size(text, rows[i].coded_bytes), TABLE_PLAIN, err));
        TRY(table_add(t, print_percent(text, rows[i].coded_bytes, rows[i].raw_bytes), TABLE_PLAIN, err));
        TRY(table_add(t, rows[i].name, TABLE_PLAIN, err));
    }
    TRY(table_write(stdout, t, terminal_columns(stdout), s->color, err));
out:
    table_free(t);
    return rc;
}

static int print_checkpoints(const session *s, const ckpt_stats *stats, const ckpt_list *list, ckpt_error *err)
{
    static const table_column COLUMNS[] = {{"ID", TABLE_LEFT},   {"STEP", TABLE_RIGHT},  {"SIZE", TABLE_RIGHT},
                                           {"OWN", TABLE_RIGHT}, {"RATIO", TABLE_RIGHT}, {"ONLY ITS", TABLE_RIGHT},
                                           {"TAGS", TABLE_LEFT}};
    int rc = 0;
    table *t = NULL;

    fputc('\n', stdout);
    TRY(table_new(&t, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]), err));
    for (size_t i = 0, k = 0; i < stats->checkpoints; i++) {
        const ckpt_stats_checkpoint *const row = &stats->rows[i];
        const ckpt_info *const info = print_info_of(&k, list, row->id);
        char id[PRINT_ID_DIGITS + 1], text[UNITS_TEXT_SIZE], *tags = info ? print_tags(info) : strdup("");
        rc = tags ? table_add(t, print_id(id, row->id), TABLE_YELLOW, err) : error_memory(err);
        if (!rc)
            rc = table_add(t, info ? print_step(text, info->step) : "", TABLE_PLAIN, err);
        if (!rc)
            rc = table_add(t, print_size(text, row->raw_bytes), TABLE_PLAIN, err);
        if (!rc)
            rc = table_add(t, print_size(text, row->own_bytes), TABLE_PLAIN, err);
        if (!rc)
            rc = table_add(t, print_percent(text, row->own_bytes, row->raw_bytes), TABLE_PLAIN, err);
        if (!rc)
            rc = table_add(t, print_size(text, row->only_bytes), TABLE_PLAIN, err);
        if (!rc)
            rc = table_add(t, tags, TABLE_PLAIN, err);
        free(tags);
        TRY(rc);
    }
    TRY(table_write(stdout, t, terminal_columns(stdout), s->color, err));
out:
    table_free(t);
    return rc;
}

/* What is measured, and on how much; nothing that was not. */
static void print_limit(const ckpt_stats *stats)
{
    char chunks[UNITS_TEXT_SIZE];

    if (stats->random_chunks)
        printf("\n%.1f %% of the bytes of floats have no pattern, by themselves or as differences (measured\n"
               "on %s): lossless coding can hardly take less than that of them.\n",
               100 * stats->random_share, print_count(chunks, stats->random_chunks, "chunk"));
}

static int json_rows(json_t *object, const char *key, const char *counted, const ckpt_stats_row *rows, size_t count,
                     ckpt_error *err)
{
    int rc = 0;
    json_t *const array = json_array();

    TRY(json_out_set(object, key, array, err));
    for (size_t i = 0; i < count; i++) {
        json_t *const row = json_object();
        TRY(json_out_append(array, row, err));
        TRY(json_out_set(row, "name", print_json_text(rows[i].name), err));
        TRY(json_out_set(row, counted, json_out_count(rows[i].count), err));
        TRY(json_out_set(row, "raw_bytes", json_out_count(rows[i].raw_bytes), err));
        TRY(json_out_set(row, "coded_bytes", json_out_count(rows[i].coded_bytes), err));
    }
out:
    return rc;
}

static int json_checkpoints(json_t *object, const ckpt_stats *stats, ckpt_error *err)
{
    int rc = 0;
    json_t *const array = json_array();

    TRY(json_out_set(object, "by_checkpoint", array, err));
    for (size_t i = 0; i < stats->checkpoints; i++) {
        json_t *const row = json_object();
        TRY(json_out_append(array, row, err));
        TRY(json_out_set(row, "id", print_json_text(stats->rows[i].id), err));
        TRY(json_out_set(row, "raw_bytes", json_out_count(stats->rows[i].raw_bytes), err));
        TRY(json_out_set(row, "own_bytes", json_out_count(stats->rows[i].own_bytes), err));
        TRY(json_out_set(row, "only_bytes", json_out_count(stats->rows[i].only_bytes), err));
    }
out:
    return rc;
}

static int print_json(const ckpt_stats *stats, const ckpt_usage *usage, const ckpt_list *list, bool modes,
                      ckpt_error *err)
{
    const char *ignored;
    const struct {
        const char *key;
        uint64_t bytes;
    } counts[] = {
        {"checkpoints", stats->checkpoints},         {"raw_bytes", stats->raw_bytes},
        {"stored_bytes", stored_bytes(stats)},       {"packs", stats->packs},
        {"pack_bytes", stats->pack_bytes},           {"snapshot_bytes", stats->snapshot_bytes},
        {"cache_bytes", stats->cache_bytes},         {"unreachable_bytes", stats->unreachable_bytes},
        {"held_bytes", stats->held_bytes},           {"dead_bytes", stats->dead_bytes},
        {"leftover_bytes", stats->leftover_bytes},   {"store_bytes", usage->store_bytes},
        {"parity_bytes", stats->parity_bytes},       {"damaged_bytes", stats->damaged_bytes},
        {"disk_free_bytes", stats->disk_free_bytes}, {"lossy_checkpoints", count_lossy(&ignored, list)},
    };
    int rc = 0;
    json_t *object = json_object();

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        TRY(json_out_set(object, counts[i].key, json_out_count(counts[i].bytes), err));
    TRY(json_out_set(object, "quota_bytes", print_json_quota(usage), err));
    TRY(json_rows(object, "classes", "tensors", stats->classes, stats->class_count, err));
    TRY(json_rows(object, "levels", "frames", stats->levels, stats->level_count, err));
    if (modes) {
        TRY(json_rows(object, "modes", "chunks", stats->modes, stats->mode_count, err));
        TRY(json_out_set(object, "random_share", json_out_real(stats->random_share), err));
        TRY(json_out_set(object, "random_chunks", json_out_count(stats->random_chunks), err));
    }
    TRY(json_checkpoints(object, stats, err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static int print_all(const session *s, const ckpt_stats *stats, const ckpt_usage *usage, const ckpt_list *list,
                     bool modes, ckpt_error *err)
{
    int rc = 0;
    const bool each = arguments_flag(&s->args, "checkpoints");

    print_totals(stats, usage);
    print_lossy_line(list);
    TRY(print_rows(s, stats->classes, stats->class_count, "TENSORS", "CLASS", err));
    if (modes) {
        TRY(print_rows(s, stats->modes, stats->mode_count, "CHUNKS", "MODE", err));
        TRY(print_rows(s, stats->levels, stats->level_count, "FRAMES", "LEVEL", err));
        print_limit(stats);
    }
    if (each && stats->checkpoints)
        TRY(print_checkpoints(s, stats, list, err));
out:
    return rc;
}

static int cmd_stats(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_stats stats = {0};
    ckpt_usage usage;
    ckpt_list *list = NULL;
    const bool modes = arguments_flag(&s->args, "modes");
    const ckpt_stats_options options = {.size = sizeof(options), .modes = modes};

    TRY(session_open(s, err));
    TRY(ckpt_stats_get(&stats, s->store, &options, err));
    TRY(ckpt_usage_get(&usage, s->store, err));
    TRY(ckpt_list_new(&list, s->store, err));
    if (s->json)
        TRY(print_json(&stats, &usage, list, modes, err));
    else if (!s->quiet)
        TRY(print_all(s, &stats, &usage, list, modes, err));
out:
    ckpt_list_free(list);
    ckpt_stats_clear(&stats);
    return rc;
}

const command CMD_STATS = {
    .name = "stats",
    .args = "",
    .summary = "Count what the store holds and what it takes",
    .about =
        "The table shows classes of tensors: weights, the states of the optimizer, other bytes; what they take as "
        "they are, and as coded in the packs, each kept tensor counted once.\n\n"
        "`kept for differences` are packs of removed checkpoints that stay because kept ones are stored as "
        "differences from them, `unused in packs` is what no checkpoint needs in packs that some do.\n\n"
        "--checkpoints: OWN is what the save of a checkpoint wrote, ONLY ITS what no other needs, so that removing it "
        "alone frees that.\n\n"
        "--modes: in how many chunks of 1 MiB which way of coding was taken. Bytes without a pattern are those of "
        "planes (the n-th bytes of all values of a chunk, or of their differences from what it is stored against) with "
        "an order-0 entropy above 7.9 bits a byte, measured on up to 32 chunks chosen at random.",
    .options = OPTIONS,
    .examples = "ckpt stats\ttotals and classes\n"
                "ckpt stats --checkpoints\twhat to remove when the disk is short\n"
                "ckpt stats --json\tfor programs\n",
    .exits = EXITS(0, 2, 3, 4, 9, 10),
    .group = GROUP_LOOK,
    .run = cmd_stats,
};
