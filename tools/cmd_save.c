#include "clock.h"
#include "policy.h"
#include "print.h"
#include "save_view.h"
#include "session.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

static const option OPTIONS[] = {
    {"message", 'm', OPT_TEXT, "TEXT", "say what this checkpoint is"},
    {"meta", 0, OPT_PAIR, "KEY=VALUE", "keep a value beside it, as val_acc=0.93; may be given several times"},
    {"step", 0, OPT_COUNT, "N", "training step, for `step:N`"},
    {"tag", 0, OPT_TEXT, "NAME", "also tag it; a tag of that name moves here"},
    {"level", 0, OPT_CHOICE, SAVE_LEVEL_WORDS, "in little time (fast), or into few bytes (max)"},
    {"parity", 0, OPT_TEXT, "SHARE", "also write so much parity for `ckpt repair`, as 5%; else what config.ini says"},
    {"optimizer", 0, OPT_CHOICE, "bf16", "lossy: round what is not weights to bf16"},
    {"weights-only", 0, OPT_FLAG, NULL, "lossy: leave out what is not weights"},
    {"drop", 0, OPT_LIST, "PATTERN", "lossy: leave out tensors of such names, as 'fc.*'; may be given several times"},
    {0},
};

/* The --meta pairs, cut at their first `=`. */
typedef struct meta_list {
    ckpt_value *rows;
    char **keys; /* what rows[i].key points to */
    size_t count;
} meta_list;

static void meta_clear(meta_list *meta)
{
    for (size_t i = 0; i < meta->count; i++)
        free(meta->keys[i]);
    free(meta->keys);
    free(meta->rows);
}

static int meta_read(meta_list *out, const arguments *args, ckpt_error *err)
{
    int rc = 0;
    size_t pairs = 0;

    while (arguments_pair(args, "meta", pairs))
        pairs++;
    out->rows = calloc(pairs + 1, sizeof(*out->rows));
    out->keys = calloc(pairs + 1, sizeof(*out->keys));
    FAIL_IF_NULL(out->rows, err);
    FAIL_IF_NULL(out->keys, err);
    for (size_t i = 0; i < pairs; i++) {
        const char *pair = arguments_pair(args, "meta", i), *equals = strchr(pair, '=');
        out->keys[i] = strndup(pair, (size_t)(equals - pair));
        FAIL_IF_NULL(out->keys[i], err);
        out->rows[i] = (ckpt_value){.key = out->keys[i], .value = equals + 1};
        out->count++;
    }
out:
    return rc;
}

static bool is_number(const char *text)
{
    char *end;

    strtod(text, &end);
    return end != text && !end[strspn(end, " \t")];
}

/* `best` passes over what is no number, without a word; so one is said here. */
static void note_best(session *s, const meta_list *meta)
{
    char *best = NULL;

    if (policy_metric(&best, s->store, NULL))
        return; /* it is saved; who reads the policy will complain */
    for (size_t i = 0; best && i < meta->count; i++)
        if (strcmp(meta->rows[i].key, best) == 0 && !is_number(meta->rows[i].value))
            session_note(s, "`%s=%s` is no number: `best` passes over this checkpoint", best, meta->rows[i].value);
    free(best);
}

static int cmd_save(session *s, ckpt_error *err)
{
    int rc = 0;
    meta_list meta = {0};
    const char **drop = NULL;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    ckpt_save_result saved = {0};
    ckpt_usage usage;
    double begin = clock_seconds();

    TRY(meta_read(&meta, &s->args, err));
    options.message = arguments_text(&s->args, "message");
    options.step = arguments_count(&s->args, "step", CKPT_STEP_NONE);
    options.meta = meta.rows;
    options.meta_count = meta.count;
    options.tag = arguments_text(&s->args, "tag");
    options.level = save_view_level(&s->args);
    options.optimizer_bf16 = arguments_text(&s->args, "optimizer") != NULL;
    options.weights_only = arguments_flag(&s->args, "weights-only");
    TRY(arguments_list(&drop, &options.drop_count, &s->args, "drop", err));
    options.drop = drop;
    TRY(arguments_share(&options.parity, &s->args, "parity", err));
    TRY(session_open(s, err));
    session_work_begin(s, "save");
    rc = ckpt_save_files(&saved, s->store, s->args.words, s->args.word_count, &options, err);
    if (rc && saved.id[0])
        error_prefix(err, "%.*s is saved, but has no tag", PRINT_ID_DIGITS, saved.id);
    TRY(rc);
    session_work_end(s);
    note_best(s, &meta);
    TRY(ckpt_usage_get(&usage, s->store, err));
    const save_view view = {.saved = &saved, .step = options.step, .seconds = clock_seconds() - begin, .usage = &usage};
    if (s->json)
        TRY(save_view_json(&view, json_out_value, err));
    else if (!s->quiet)
        save_view_line(&view);
out:
    meta_clear(&meta);
    free(drop);
    return rc;
}

const command CMD_SAVE = {
    .name = "save",
    .args = "PATH...",
    .summary = "Save files or folders as a checkpoint",
    .about = "A PATH under the current folder keeps its relative path, any other its last component. A store is never "
             "part of a save. When the command returns, the checkpoint is on disk; when it is stopped, by whatever, "
             "all earlier checkpoints are as they were.\n\n"
             "Files of PyTorch, safetensors and NumPy are taken apart into tensors, which are kept as what changed "
             "since the checkpoint before. All others are kept too, as bytes. Restoring gives every file back byte for "
             "byte.\n\n"
             "--optimizer, --weights-only and --drop are lossy: of safetensors files a changed copy is saved, which "
             "then is exact. What was done, with the measured error, is printed and stays with the checkpoint as the "
             "value `lossy`. Values are rounded to the nearest; counters of one element are not. A training does not "
             "go on from such a checkpoint with the same bits.",
    .examples = "ckpt save runs/exp1\ta whole folder\n"
                "ckpt save model.pt --step 500 --meta val_acc=0.93\twith what `step:500` and `best` look at\n"
                "ckpt save model.pt -m 'before the new schedule' --tag baseline\twith a name of its own\n"
                "ckpt save last.pt --level fast\tin little time, as it may hold the training up\n"
                "ckpt save model.safetensors --optimizer bf16\tlossy, as it says\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 8, 9, 10, 130),
    .words_min = 1,
    .words_max = WORDS_NO_MAX,
    .group = GROUP_START,
    .completes = COMPLETES_PATHS,
    .run = cmd_save,
};
