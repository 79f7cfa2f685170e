#include "policy.h"
#include "print.h"
#include "session.h"

#include "fail.h"
#include "table.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>

static const option OPTIONS[] = {
    {"limit", 'n', OPT_COUNT, "N", "only the N newest"},
    {"metric", 0, OPT_LIST, "KEY", "a column of this value instead of META; may be given several times"},
    {0},
};

#define META_WIDTH_MIN     100 /* of a terminal on which META has room beside a metric and messages */
#define METRIC_COLUMNS_MAX 16  /* columns of --metric */

/* Columns that say something about at least one row. */
typedef struct log_columns {
    bool step, meta, message;
    const char *metrics[METRIC_COLUMNS_MAX]; /* keys of values that have a column of their own */
    size_t metric_count;
} log_columns;

/* `best` is what the policy looks at, or NULL. */
static log_columns columns_find(const ckpt_list *list, size_t count, const char *best)
{
    log_columns c = {0};
    char text[PRINT_METRIC_SIZE];
    bool has_best = false;
    for (size_t i = 0; i < count; i++) {
        const ckpt_info *info = ckpt_list_get(list, i);
        c.step |= info->step != CKPT_STEP_NONE;
        has_best |= best && *print_metric(text, info, best);
        c.meta |= info->meta_count > (*print_lossy(info) != 0);
        c.message |= info->message[0] || info->tag_count || *print_lossy(info);
    }
    if (has_best)
        c.metrics[c.metric_count++] = best;
    return c;
}

/* Adds malloc'ed text as a cell and frees it. */
static int add_text(table *t, char *text, table_color color, ckpt_error *err)
{
    int rc = 0;
    FAIL_IF_NULL(text, err);
    TRY(table_add(t, text, color, err));
out:
    free(text);
    return rc;
}

#define LOSSY_MARK "(lossy)"

/* "[tag, tag] (lossy) message": one column, since all others would not leave room for two on 80 columns. malloc'ed. */
static char *message_text(const ckpt_info *info)
{
    char *tags = print_tags(info), *text = NULL;
    const char *const lossy = *print_lossy(info) ? LOSSY_MARK : "";
    size_t size = tags ? strlen(tags) + strlen(info->message) + sizeof("[]  " LOSSY_MARK) : 0;

    if (tags)
        text = malloc(size);
    if (text)
        snprintf(text, size, "%s%s%s%s%s%s%s", *tags ? "[" : "", tags, *tags ? "]" : "",
                 *tags && (*lossy || *info->message) ? " " : "", lossy, *lossy && *info->message ? " " : "",
                 info->message);
    free(tags);
    return text;
}

static int add_row(table *t, const log_columns *c, const ckpt_info *info, bool brief, ckpt_error *err)
{
    int rc = 0;
    char id[PRINT_ID_DIGITS + 1], text[UNITS_TEXT_SIZE], value[PRINT_METRIC_SIZE];

    TRY(table_add(t, print_id(id, info->id), TABLE_YELLOW, err));
    if (c->step)
        TRY(table_add(t, print_step(text, info->step), TABLE_PLAIN, err));
    TRY(table_add(t, print_time(text, info->time), TABLE_PLAIN, err));
    TRY(table_add(t, print_size(text, info->raw_bytes), TABLE_PLAIN, err));
    TRY(table_add(t, print_size(text, info->stored_bytes), TABLE_PLAIN, err));
    for (size_t i = 0; i < c->metric_count; i++)
        TRY(table_add(t, print_metric(value, info, c->metrics[i]), TABLE_PLAIN, err));
    if (c->meta)
        TRY(add_text(t, print_meta(info, brief, c->metric_count ? c->metrics[0] : NULL), TABLE_PLAIN, err));
    if (c->message)
        TRY(add_text(t, message_text(info), TABLE_PLAIN, err));
out:
    return rc;
}

static const char *heading_of(char out[PRINT_METRIC_SIZE], const char *key)
{
    snprintf(out, PRINT_METRIC_SIZE, "%s", key);
    for (char *c = out; *c; c++)
        *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    return out;
}

static int print_table(const session *s, const ckpt_list *list, size_t count, ckpt_error *err)
{
    int rc = 0;
    table *t = NULL;
    char *best = NULL;
    table_column columns[METRIC_COLUMNS_MAX + 7];
    char headings[METRIC_COLUMNS_MAX][PRINT_METRIC_SIZE];
    size_t used = 0;
    const size_t width = terminal_columns(stdout);
    const bool chosen = arguments_flag(&s->args, "metric");

    if (width && !chosen) /* for a person; without it what `best` looks at stands among the others */
        (void)policy_metric(&best, s->store, NULL);
    log_columns c = columns_find(list, count, best);
    c.meta &= !chosen && !(width && width < META_WIDTH_MIN && c.metric_count && c.message);
    for (const char *key; (key = arguments_pair(&s->args, "metric", c.metric_count)) != NULL;) {
        FAIL_IF(c.metric_count == METRIC_COLUMNS_MAX, err, CKPT_EUSAGE, "--metric: more than %d columns",
                METRIC_COLUMNS_MAX);
        c.metrics[c.metric_count++] = key;
    }

    columns[used++] = (table_column){"ID", TABLE_LEFT};
    if (c.step)
        columns[used++] = (table_column){"STEP", TABLE_RIGHT};
    columns[used++] = (table_column){"TIME", TABLE_RIGHT};
    columns[used++] = (table_column){"SIZE", TABLE_RIGHT};
    columns[used++] = (table_column){"STORED", TABLE_RIGHT};
    for (size_t i = 0; i < c.metric_count; i++)
        columns[used++] = (table_column){heading_of(headings[i], c.metrics[i]), TABLE_LEFT};
    if (c.meta)
        columns[used++] = (table_column){"META", TABLE_LEFT};
    if (c.message)
        columns[used++] = (table_column){"MESSAGE", TABLE_LEFT};
    TRY(table_new(&t, columns, used, err));
    for (size_t i = 0; i < count; i++)
        TRY(add_row(t, &c, ckpt_list_get(list, i), width > 0, err));
    TRY(table_write(stdout, t, width, s->color, err));
out:
    free(best);
    table_free(t);
    return rc;
}

static int print_json_lines(const ckpt_list *list, size_t count, ckpt_error *err)
{
    int rc = 0;
    json_t *object = NULL;

    for (size_t i = 0; i < count; i++) {
        object = json_object();
        TRY(print_json_info(object, ckpt_list_get(list, i), err));
        TRY(json_out_line(stdout, object, err));
        json_decref(object);
        object = NULL;
    }
out:
    json_decref(object);
    return rc;
}

static int cmd_log(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_list *list = NULL;
    size_t count;
    const uint64_t limit = (uint64_t)arguments_count(&s->args, "limit", INT64_MAX);

    TRY(session_open(s, err));
    TRY(ckpt_list_new(&list, s->store, err));
    count = ckpt_list_count(list);
    if (count > limit)
        count = (size_t)limit;
    if (s->json)
        TRY(print_json_lines(list, count, err));
    else if (count)
        TRY(print_table(s, list, count, err));
    else if (!s->quiet && !ckpt_list_count(list))
        puts("no checkpoint is in this store; `ckpt save PATH...` makes the first");
out:
    ckpt_list_free(list);
    return rc;
}

const command CMD_LOG = {
    .name = "log",
    .args = "",
    .summary = "List checkpoints, newest first",
    .about = "SIZE is what the files take as they are, STORED what saving them added to the store. META shows what "
             "`save --meta` gave. On a terminal what `best` looks at has a column of its own, numbers have 6 digits, "
             "long values stand behind, and META is left out where it has no room. Tags stand in brackets before the "
             "message, and (lossy) where tensors were rounded or left out, which `show` tells more of. With --json "
             "each checkpoint is one line. --metric shows values that were kept beside checkpoints, by `save --meta`, "
             "`watch --metric` or a training, each in a column.",
    .examples = "ckpt log -n 10\tthe ten newest\n"
                "ckpt log --metric val_acc --metric lr\ttwo values beside each other\n"
                "ckpt log --json | jq -r 'select(.step) | .step'\tfor programs\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 9, 10),
    .group = GROUP_LOOK,
    .run = cmd_log,
};
