#include "output.h"
#include "print.h"
#include "session.h"

#include "fail.h"
#include "table.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>

static const option OPTIONS[] = {
    {"delete", 'd', OPT_TEXT, "NAME", "remove a tag; its checkpoint stays"},
    {"yes", 'y', OPT_FLAG, NULL, "let a tag that exists name this checkpoint from now on"},
    {0},
};

typedef struct tag_entry {
    const char *tag;
    const ckpt_info *info;
} tag_entry;

static int by_tag(const void *a, const void *b)
{
    return strcmp(((const tag_entry *)a)->tag, ((const tag_entry *)b)->tag);
}

/* All tags of the list, sorted by name. */
static int tags_collect(tag_entry **out, size_t *count, const ckpt_list *list, ckpt_error *err)
{
    int rc = 0;
    size_t total = 0;

    for (size_t i = 0; i < ckpt_list_count(list); i++)
        total += ckpt_list_get(list, i)->tag_count;
    tag_entry *entries = malloc((total + 1) * sizeof(*entries));
    FAIL_IF_NULL(entries, err);
    *count = 0;
    for (size_t i = 0; i < ckpt_list_count(list); i++) {
        const ckpt_info *info = ckpt_list_get(list, i);
        for (size_t k = 0; k < info->tag_count; k++)
            entries[(*count)++] = (tag_entry){info->tags[k], info};
    }
    qsort(entries, *count, sizeof(*entries), by_tag);
    *out = entries;
out:
    return rc;
}

static int print_table(const session *s, const tag_entry *entries, size_t count, ckpt_error *err)
{
    static const table_column COLUMNS[] = {
        {"TAG", TABLE_LEFT}, {"ID", TABLE_LEFT}, {"STEP", TABLE_RIGHT}, {"TIME", TABLE_RIGHT}, {"MESSAGE", TABLE_LEFT}};
    int rc = 0;
    table *t = NULL;

    TRY(table_new(&t, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]), err));
    for (size_t i = 0; i < count; i++) {
        const ckpt_info *info = entries[i].info;
        char id[PRINT_ID_DIGITS + 1], text[UNITS_TEXT_SIZE];
        TRY(table_add(t, entries[i].tag, TABLE_GREEN, err));
        TRY(table_add(t, print_id(id, info->id), TABLE_YELLOW, err));
        TRY(table_add(t, print_step(text, info->step), TABLE_PLAIN, err));
        TRY(table_add(t, print_time(text, info->time), TABLE_PLAIN, err));
        TRY(table_add(t, info->message, TABLE_PLAIN, err));
    }
    TRY(table_write(stdout, t, terminal_columns(stdout), s->color, err));
out:
    table_free(t);
    return rc;
}

/* {"good": "<id>", ...} */
static int print_json_tags(const tag_entry *entries, size_t count, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object();

    for (size_t i = 0; i < count; i++)
        TRY(json_out_set(object, entries[i].tag, print_json_text(entries[i].info->id), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static int tags_list(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_list *list = NULL;
    tag_entry *entries = NULL;
    size_t count = 0;

    TRY(ckpt_list_new(&list, s->store, err));
    TRY(tags_collect(&entries, &count, list, err));
    if (s->json)
        TRY(print_json_tags(entries, count, err));
    else if (count)
        TRY(print_table(s, entries, count, err));
    else if (!s->quiet)
        puts("no checkpoint has a tag; `ckpt tag NAME CHECKPOINT` gives one");
out:
    free(entries);
    ckpt_list_free(list);
    return rc;
}

/* What was done to a tag; `id` NULL: it was removed. */
static int print_change(const session *s, const char *tag, const char *id, ckpt_error *err)
{
    int rc = 0;
    json_t *object = NULL;

    if (s->json) {
        object = json_object();
        TRY(json_out_set(object, tag, id ? print_json_text(id) : json_null(), err));
        TRY(json_out_value(stdout, object, err));
    } else if (!s->quiet) {
        fputs(id ? "tagged " : "removed tag ", stdout);
        if (id)
            printf("%.*s as ", PRINT_ID_DIGITS, id);
        output_text(stdout, tag);
        fputc('\n', stdout);
    }
out:
    json_decref(object);
    return rc;
}

/* Sets a tag; whether an existing one shall move is asked of whoever is at the terminal. */
static int tag_set(session *s, const char *tag, const char *name, ckpt_error *err)
{
    int rc = 0;
    char id[CKPT_ID_SIZE];

    rc = ckpt_tag_set(s->store, tag, name, arguments_flag(&s->args, "yes"), err);
    if (rc == CKPT_ECONFIRM && session_can_ask() && session_ask(err->message, "move it")) {
        error_clear(err);
        rc = ckpt_tag_set(s->store, tag, name, true, err);
    }
    if (rc == CKPT_ECONFIRM)
        error_hint(err, "--yes moves it here");
    if (rc)
        goto out;
    TRY(ckpt_find(id, s->store, tag, err));
    TRY(print_change(s, tag, id, err));
out:
    return rc;
}

static int cmd_tag(session *s, ckpt_error *err)
{
    int rc = 0;
    const char *removed = arguments_text(&s->args, "delete");
    const size_t word_count = s->args.word_count;

    FAIL_IF(removed && word_count, err, CKPT_EUSAGE, "tag: --delete takes the name of the tag and nothing else");
    if (word_count == 1) {
        rc = error_set(err, CKPT_EUSAGE, "tag: which checkpoint shall have the tag %s?", s->args.words[0]);
        error_hint(err, "`ckpt tag %s latest` tags the newest; `ckpt log` lists all", s->args.words[0]);
        goto out;
    }
    TRY(session_open(s, err));
    if (removed) {
        TRY(ckpt_tag_remove(s->store, removed, err));
        TRY(print_change(s, removed, NULL, err));
    } else if (word_count) {
        TRY(tag_set(s, s->args.words[0], s->args.words[1], err));
    } else {
        TRY(tags_list(s, err));
    }
out:
    return rc;
}

const command CMD_TAG = {
    .name = "tag",
    .args = "[NAME CHECKPOINT]",
    .summary = "Name a checkpoint, list or remove names",
    .about =
        "Without arguments it lists all tags. CHECKPOINT is any name of a checkpoint. The policy of `ckpt prune` can "
        "keep what has a tag. A tag may not hold a colon, a slash or a tilde, or be `latest` or `best`.",
    .examples = "ckpt tag baseline latest\tname the newest\n"
                "ckpt tag baseline best --yes\tlet the name move on\n"
                "ckpt tag -d baseline\tremove the name, not the checkpoint\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 4, 5, 8, 9, 10),
    .words_max = 2,
    .group = GROUP_CARE,
    .completes = COMPLETES_NAMES,
    .run = cmd_tag,
};
