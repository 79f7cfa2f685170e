#include "output.h"
#include "policy.h"
#include "print.h"
#include "session.h"

#include "fail.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const option OPTIONS[] = {
    {"message", 'm', OPT_TEXT, "TEXT", "say what this checkpoint is"},
    {"meta", 0, OPT_PAIR, "KEY=VALUE", "keep a value beside it, as val_acc=0.93; may be given several times"},
    {"step", 0, OPT_COUNT, "N", "training step, for `step:N`"},
    {"tag", 0, OPT_TEXT, "NAME", "also tag it; a tag of that name moves here"},
    {"level", 0, OPT_CHOICE, "fast|default|max", "in little time, or into few bytes"},
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

static void print_line(const ckpt_save_result *saved, int64_t step, double seconds)
{
    char files[UNITS_TEXT_SIZE], sizes[PRINT_SIZES_SIZE], time[UNITS_TEXT_SIZE];

    printf("saved %.*s", PRINT_ID_DIGITS, saved->id);
    if (step != CKPT_STEP_NONE)
        printf(" step %" PRId64, step);
    printf(": %s, %s, %s\n", print_count(files, saved->files, "file"),
           print_sizes(sizes, saved->raw_bytes, saved->stored_bytes), print_seconds(time, seconds));
    if (*saved->lossy) {
        fputs("lossy: ", stdout);
        output_text(stdout, saved->lossy);
        fputc('\n', stdout);
    }
}

static int print_json(const ckpt_save_result *saved, int64_t step, double seconds, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object();

    TRY(json_out_set(object, "id", print_json_text(saved->id), err));
    TRY(json_out_set(object, "sequence", json_out_count(saved->sequence), err));
    TRY(json_out_set(object, "step", print_json_step(step), err));
    TRY(json_out_set(object, "files", json_out_count(saved->files), err));
    TRY(json_out_set(object, "tensors", json_out_count(saved->tensors), err));
    TRY(json_out_set(object, "raw_bytes", json_out_count(saved->raw_bytes), err));
    TRY(json_out_set(object, "stored_bytes", json_out_count(saved->stored_bytes), err));
    TRY(json_out_set(object, "coded_bytes", json_out_count(saved->coded_bytes), err));
    TRY(json_out_set(object, "shared_bytes", json_out_count(saved->shared_bytes), err));
    TRY(json_out_set(object, "lossy", *saved->lossy ? print_json_text(saved->lossy) : json_null(), err));
    TRY(json_out_set(object, "seconds", json_out_real(seconds), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* The words of the option are the names of the levels. */
static ckpt_level level_of(const arguments *args)
{
    const char *const word = arguments_text(args, "level");
    ckpt_level level = CKPT_LEVEL_DEFAULT;

    while (word && ckpt_level_name(level) && strcmp(ckpt_level_name(level), word) != 0)
        level++;
    return level;
}

static int cmd_save(session *s, ckpt_error *err)
{
    int rc = 0;
    meta_list meta = {0};
    const char **drop = NULL;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    ckpt_save_result saved = {0};
    double begin = print_clock();

    TRY(meta_read(&meta, &s->args, err));
    options.message = arguments_text(&s->args, "message");
    options.step = arguments_count(&s->args, "step", CKPT_STEP_NONE);
    options.meta = meta.rows;
    options.meta_count = meta.count;
    options.tag = arguments_text(&s->args, "tag");
    options.level = level_of(&s->args);
    options.optimizer_bf16 = arguments_text(&s->args, "optimizer") != NULL;
    options.weights_only = arguments_flag(&s->args, "weights-only");
    TRY(arguments_list(&drop, &options.drop_count, &s->args, "drop", err));
    options.drop = drop;
    TRY(session_open(s, err));
    session_work_begin(s, "save");
    rc = ckpt_save_files(&saved, s->store, s->args.words, s->args.word_count, &options, err);
    if (rc && saved.id[0])
        error_prefix(err, "%.*s is saved, but has no tag", PRINT_ID_DIGITS, saved.id);
    TRY(rc);
    session_work_end(s);
    note_best(s, &meta);
    if (s->json)
        TRY(print_json(&saved, options.step, print_clock() - begin, err));
    else if (!s->quiet)
        print_line(&saved, options.step, print_clock() - begin);
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
                "ckpt save model.pt -m 'before the new schedule' --tag baseline\twith a name of its own\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 8, 9, 10, 130),
    .words_min = 1,
    .words_max = WORDS_NO_MAX,
    .group = GROUP_START,
    .completes = COMPLETES_PATHS,
    .run = cmd_save,
};
