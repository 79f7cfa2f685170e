#include "print.h"
#include "session.h"

#include "fail.h"
#include "table.h"
#include "terminal.h"

#include <inttypes.h>

static uint64_t stored_bytes(const ckpt_stats *stats)
{
    return stats->pack_bytes + stats->snapshot_bytes;
}

static void print_totals(const ckpt_stats *stats)
{
    char a[UNITS_TEXT_SIZE], b[UNITS_TEXT_SIZE];

    printf("checkpoints           %" PRIu64 ", %s as they are\n", stats->checkpoints, print_size(a, stats->raw_bytes));
    printf("stored                %s, %s of that\n", print_size(a, stored_bytes(stats)),
           print_percent(b, stored_bytes(stats), stats->raw_bytes));
    printf("packs                 %" PRIu64 ", %s\n", stats->packs, print_size(a, stats->pack_bytes));
    printf("snapshots             %s\n", print_size(a, stats->snapshot_bytes));
    printf("cache                 %s\n", print_size(a, stats->cache_bytes));
    printf("unreachable           %s%s\n", print_size(a, stats->unreachable_bytes),
           stats->unreachable_bytes ? "; `ckpt prune` frees it" : "");
    printf("kept for differences  %s%s\n", print_size(a, stats->held_bytes),
           stats->held_bytes ? " of removed checkpoints" : "");
    printf("left by killed saves  %s%s\n", print_size(a, stats->leftover_bytes),
           stats->leftover_bytes ? "; `ckpt prune` frees it" : "");
    printf("disk                  %s free\n", print_size(a, stats->disk_free_bytes));
}

static int print_classes(const session *s, const ckpt_stats *stats, ckpt_error *err)
{
    static const table_column COLUMNS[] = {{"TENSORS", TABLE_RIGHT},
                                           {"SIZE", TABLE_RIGHT},
                                           {"STORED", TABLE_RIGHT},
                                           {"RATIO", TABLE_RIGHT},
                                           {"CLASS", TABLE_LEFT}};
    int rc = 0;
    table *t = NULL;

    TRY(table_new(&t, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]), err));
    for (size_t i = 0; i < stats->class_count; i++) {
        const ckpt_stats_class *row = &stats->classes[i];
        char text[UNITS_TEXT_SIZE];
        format_count(text, row->tensors);
        TRY(table_add(t, text, TABLE_PLAIN, err));
        TRY(table_add(t, print_size(text, row->raw_bytes), TABLE_PLAIN, err));
        TRY(table_add(t, print_size(text, row->coded_bytes), TABLE_PLAIN, err));
        TRY(table_add(t, print_percent(text, row->coded_bytes, row->raw_bytes), TABLE_PLAIN, err));
        TRY(table_add(t, row->name, TABLE_PLAIN, err));
    }
    TRY(table_write(stdout, t, terminal_columns(stdout), s->color, err));
out:
    table_free(t);
    return rc;
}

static int print_json(const ckpt_stats *stats, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object(), *classes;

    TRY(json_out_set(object, "checkpoints", json_out_count(stats->checkpoints), err));
    TRY(json_out_set(object, "raw_bytes", json_out_count(stats->raw_bytes), err));
    TRY(json_out_set(object, "stored_bytes", json_out_count(stored_bytes(stats)), err));
    TRY(json_out_set(object, "packs", json_out_count(stats->packs), err));
    TRY(json_out_set(object, "pack_bytes", json_out_count(stats->pack_bytes), err));
    TRY(json_out_set(object, "snapshot_bytes", json_out_count(stats->snapshot_bytes), err));
    TRY(json_out_set(object, "cache_bytes", json_out_count(stats->cache_bytes), err));
    TRY(json_out_set(object, "unreachable_bytes", json_out_count(stats->unreachable_bytes), err));
    TRY(json_out_set(object, "held_bytes", json_out_count(stats->held_bytes), err));
    TRY(json_out_set(object, "leftover_bytes", json_out_count(stats->leftover_bytes), err));
    TRY(json_out_set(object, "disk_free_bytes", json_out_count(stats->disk_free_bytes), err));
    classes = json_array();
    TRY(json_out_set(object, "classes", classes, err));
    for (size_t i = 0; i < stats->class_count; i++) {
        const ckpt_stats_class *c = &stats->classes[i];
        json_t *row = json_object();
        TRY(json_out_append(classes, row, err));
        TRY(json_out_set(row, "name", print_json_text(c->name), err));
        TRY(json_out_set(row, "tensors", json_out_count(c->tensors), err));
        TRY(json_out_set(row, "raw_bytes", json_out_count(c->raw_bytes), err));
        TRY(json_out_set(row, "coded_bytes", json_out_count(c->coded_bytes), err));
    }
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static int cmd_stats(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_stats stats = {0};

    TRY(session_open(s, err));
    TRY(ckpt_stats_get(&stats, s->store, err));
    if (s->json)
        TRY(print_json(&stats, err));
    else if (!s->quiet) {
        print_totals(&stats);
        if (stats.class_count) {
            fputc('\n', stdout);
            TRY(print_classes(s, &stats, err));
        }
    }
out:
    ckpt_stats_clear(&stats);
    return rc;
}

const command CMD_STATS = {
    .name = "stats",
    .args = "",
    .summary = "Count what the store holds and what it takes",
    .about = "The table shows classes of tensors: weights, the states of the optimizer, other bytes; what they take as "
             "they are, and as coded in the packs, each kept tensor counted once.",
    .examples = "ckpt stats\ttotals and classes\n"
                "ckpt stats --json\tfor programs\n",
    .exits = EXITS(0, 2, 3, 4, 9, 10),
    .group = GROUP_LOOK,
    .run = cmd_stats,
};
