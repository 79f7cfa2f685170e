#include "output.h"
#include "print.h"
#include "session.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

static const option OPTIONS[] = {
    {"force", 'f', OPT_FLAG, NULL, "also checkpoints that have a tag"},
    {"dry-run", 0, OPT_FLAG, NULL, "only tell what would be removed"},
    {"yes", 'y', OPT_FLAG, NULL, "do not ask"},
    {0},
};

typedef struct removal {
    char (*ids)[CKPT_ID_SIZE]; /* each once, in the order of the names */
    size_t count;
} removal;

/* All names are resolved before anything is removed: `latest~1` must not mean another one after `latest` went. */
static int removal_find(removal *out, session *s, ckpt_error *err)
{
    int rc = 0;
    out->ids = calloc(s->args.word_count, sizeof(*out->ids));
    FAIL_IF_NULL(out->ids, err);
    for (size_t i = 0; i < s->args.word_count; i++) {
        char *id = out->ids[out->count];
        bool again = false;
        TRY(ckpt_find(id, s->store, s->args.words[i], err));
        for (size_t k = 0; k < out->count; k++)
            again |= strcmp(out->ids[k], id) == 0;
        out->count += !again;
    }
out:
    return rc;
}

static const ckpt_info *list_find(const ckpt_list *list, const char *id)
{
    for (size_t i = 0; i < ckpt_list_count(list); i++)
        if (strcmp(ckpt_list_get(list, i)->id, id) == 0)
            return ckpt_list_get(list, i);
    return NULL;
}

static void hint_force(ckpt_error *err)
{
    error_hint(err, "--force removes it with its tags");
}

/* Tagged checkpoints are found before the first one goes. */
static int removal_check(const removal *r, const ckpt_list *list, bool force, ckpt_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < r->count && !force; i++) {
        const ckpt_info *info = list_find(list, r->ids[i]);
        if (info && info->tag_count) {
            rc = error_set(err, CKPT_ECONFIRM, "rm: %.*s has the tag %s", PRINT_ID_DIGITS, info->id, info->tags[0]);
            hint_force(err);
            goto out;
        }
    }
out:
    return rc;
}

static void print_line(const char *verb, const char *id, const ckpt_info *info)
{
    char step[UNITS_TEXT_SIZE], time[UNITS_TEXT_SIZE], size[UNITS_TEXT_SIZE];
    printf("%s %.*s", verb, PRINT_ID_DIGITS, id);
    if (info) {
        print_step(step, info->step);
        printf("%s%s, %s, %s", *step ? " step " : "", step, print_time(time, info->time),
               print_size(size, info->raw_bytes));
        if (*info->message) {
            fputs(": ", stdout);
            output_text(stdout, info->message);
        }
    }
    fputc('\n', stdout);
}

static int remove_one(session *s, const char *id, bool force, ckpt_error *err)
{
    const int rc = ckpt_remove(s->store, id, force, err);
    if (rc == CKPT_ECONFIRM) /* tagged since removal_check looked */
        hint_force(err);
    return rc;
}

static int print_json(const removal *r, bool dry_run, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object(), *ids;

    TRY(json_out_set(object, "dry_run", json_boolean(dry_run), err));
    ids = json_array();
    TRY(json_out_set(object, "removed", ids, err));
    for (size_t i = 0; i < r->count; i++)
        TRY(json_out_append(ids, print_json_text(r->ids[i]), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static int cmd_rm(session *s, ckpt_error *err)
{
    int rc = 0;
    removal r = {0};
    ckpt_list *list = NULL;
    char what[UNITS_TEXT_SIZE], question[2 * UNITS_TEXT_SIZE];
    const bool force = arguments_flag(&s->args, "force"), dry_run = arguments_flag(&s->args, "dry-run");

    TRY(session_open(s, err));
    TRY(removal_find(&r, s, err));
    TRY(ckpt_list_new(&list, s->store, err));
    TRY(removal_check(&r, list, force, err));
    if (!s->json && !s->quiet)
        for (size_t i = 0; i < r.count; i++)
            print_line(dry_run ? "would remove" : "remove", r.ids[i], list_find(list, r.ids[i]));
    if (!dry_run) {
        snprintf(question, sizeof(question), "remove %s", print_count(what, r.count, "checkpoint"));
        TRY(session_confirm(s, question, err));
        for (size_t i = 0; i < r.count; i++)
            TRY(remove_one(s, r.ids[i], force, err));
    }
    if (s->json)
        TRY(print_json(&r, dry_run, err));
    else if (!s->quiet && !dry_run)
        printf("removed %s; `ckpt prune` frees what no other checkpoint needs\n",
               print_count(what, r.count, "checkpoint"));
out:
    ckpt_list_free(list);
    free(r.ids);
    return rc;
}

const command CMD_RM = {
    .name = "rm",
    .args = "NAME...",
    .summary = "Forget checkpoints",
    .about = "The checkpoints are shown, then removed when you agree. The next `ckpt prune` frees "
             "what no other checkpoint needs of them. One that has a tag needs --force.",
    .examples = "ckpt rm latest\tthe newest\n"
                "ckpt rm step:100 step:200 --yes\ttwo, without being asked\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 4, 5, 8, 9, 10),
    .words_min = 1,
    .words_max = WORDS_NO_MAX,
    .group = GROUP_CARE,
    .completes = COMPLETES_NAMES,
    .run = cmd_rm,
};
