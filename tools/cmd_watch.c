#include "output.h"
#include "print.h"
#include "save_view.h"
#include "session.h"

#include "fail.h"
#include "metric_log.h"
#include "watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KIND           "watch"
#define EVERY_DEFAULT  "30s"
#define SETTLE_DEFAULT "2s"
#define STOP_WAIT_MS   35000u /* its last round, and what it takes to end */

static const option OPTIONS[] = {
    {"every", 0, OPT_TEXT, "TIME", "save a path at most once in each such time; " EVERY_DEFAULT " without it"},
    {"settle", 0, OPT_TEXT, "TIME",
     "a file of which the system does not tell that it was closed is whole when it has not changed for so "
     "long; " SETTLE_DEFAULT " without it"},
    {"together", 0, OPT_FLAG, NULL, "all that fits is one checkpoint, as model.pt and optimizer.pt"},
    {"metric", 0, OPT_LIST, "METRIC", "keep the last value of it, as 'val_acc=([0-9.]+)'; may be given several times"},
    {"from", 0, OPT_LIST, "LOG", "look for metrics in this log; may be given several times"},
    {"message", 'm', OPT_TEXT, "TEXT", "say what these checkpoints are"},
    {"level", 0, OPT_CHOICE, SAVE_LEVEL_WORDS, "in little time, or into few bytes"},
    {"prune", 0, OPT_FLAG, NULL, "after each save, remove what the policy of config.ini does not keep"},
    {"keep", 0, OPT_TEXT, "POLICY", "after each save, remove what this policy does not keep"},
    {"once", 0, OPT_FLAG, NULL, "save what is there now, and end"},
    {"for", 0, OPT_TEXT, "TIME", "end after that time"},
    {"max", 'n', OPT_COUNT, "N", "end after N saves"},
    {"detach", 0, OPT_FLAG, NULL, "go on in the background, also after a logout"},
    {"status", 0, OPT_FLAG, NULL, "say how the watch of this store goes"},
    {"stop", 0, OPT_FLAG, NULL, "end the watch of this store, after it has saved what is whole"},
    {0},
};

/* One run of the command. */
typedef struct view {
    session *s;
    job *job;
    bool detached;
    job_birth birth; /* what its caller waits for, where it is detached */
    const watch_options *options;
} view;

/* ---- What is said meanwhile ---- */

static int on_stopped(void *payload)
{
    (void)payload;
    return session_signal();
}

/* After whatever was printed: a watch that saves nothing may warn for ever. */
static void log_trim(const view *v)
{
    if (v->detached)
        (void)job_log_trim(v->job, NULL);
}

static void on_saved(void *payload, const watch_saved *saved)
{
    const view *const v = payload;
    const save_view line = {
        .saved = &saved->result, .step = saved->step, .seconds = saved->seconds, .path = saved->path};
    char time_text[UNITS_TEXT_SIZE];

    if (v->s->json) {
        (void)save_view_json(&line, json_out_line, NULL);
    } else if (!v->s->quiet) {
        if (v->detached) {
            format_time_iso(time_text, (int64_t)time(NULL));
            printf("%s ", time_text);
        }
        save_view_line(&line);
    }
    fflush(stdout); /* an error shows when it is closed */
    log_trim(v);
}

static void on_note(void *payload, const char *text)
{
    const view *const v = payload;
    session_library_note(v->s, text);
    log_trim(v);
}

static void on_warning(void *payload, const char *text)
{
    const view *const v = payload;
    session_warn(v->s, "%s", text);
    log_trim(v);
}

/* ---- Looking at one that runs ---- */

static void print_row(const char *name, const char *value)
{
    printf("%-11s", name);
    output_text(stdout, value);
    putchar('\n');
}

static void print_when(const char *name, int64_t when, const char *what)
{
    char at[UNITS_TEXT_SIZE], ago[UNITS_TEXT_SIZE];
    const int64_t passed = (int64_t)time(NULL) - when;

    if (!when)
        return;
    format_time(at, when);
    format_duration(ago, (double)(passed > 0 ? passed : -passed));
    printf("%-11s%s, %s%s%s%s\n", name, at, passed < 0 ? "in " : "", ago, passed < 0 ? "" : " ago", what);
}

static void print_status(const job_status *status, const char *log)
{
    char text[2 * UNITS_TEXT_SIZE + PRINT_SIZES_SIZE], count[UNITS_TEXT_SIZE], sizes[PRINT_SIZES_SIZE];

    snprintf(text, sizeof text, "%s, process %" PRIu64 " on %s", job_state_name(status->state), status->pid,
             status->host);
    print_row("state", text);
    print_row("watches", status->what);
    print_row("in", status->folder);
    print_row("store", status->subject);
    print_when("since", status->since, "");
    const uint64_t saved = job_counter_of(status, "saved");
    snprintf(text, sizeof text, "%s%s%s", print_count(count, saved, "checkpoint"), saved ? ", " : "",
             saved ? print_sizes(sizes, job_counter_of(status, "raw_bytes"), job_counter_of(status, "stored_bytes"))
                   : "");
    print_row("saved", text);
    if (job_counter_of(status, "pruned"))
        print_row("removed", print_count(count, job_counter_of(status, "pruned"), "checkpoint"));
    print_when("last save", status->last_success, "");
    if (status->last_error[0]) {
        print_when("last error", status->last_error_time, ":");
        fputs("           ", stdout);
        output_text(stdout, status->last_error);
        putchar('\n');
    }
    print_row("log", log);
}

static int show_status(const session *s, const char *store, ckpt_error *err)
{
    int rc = 0;
    job_status status;
    char log[FILE_PATH_MAX];
    json_t *object = NULL;

    rc = job_read(&status, KIND, store, err);
    if (rc == CKPT_ENOTFOUND)
        error_hint(err, "`ckpt watch --detach 'checkpoint-*'` starts one");
    TRY(rc);
    TRY(job_log_path(log, KIND, store, err));
    if (s->json) {
        object = job_status_json(&status);
        TRY(json_out_set(object, "log", print_json_text(log), err));
        TRY(json_out_value(stdout, object, err));
    } else if (!s->quiet) {
        print_status(&status, log);
    }
    FAIL_IF(status.state != JOB_RUNNING, err, CKPT_ENOTFOUND, "no watch runs on %s", store);
out:
    json_decref(object);
    return rc;
}

static int stop(const session *s, const char *store, ckpt_error *err)
{
    int rc = 0;

    TRY(job_stop(KIND, store, STOP_WAIT_MS, err));
    if (!s->quiet && !s->json)
        printf("the watch of %s has ended\n", store);
out:
    return rc;
}

/* ---- Options ---- */

static int duration_get(uint64_t *ms, const session *s, const char *name, const char *otherwise, ckpt_error *err)
{
    int rc = 0;
    const char *const text = arguments_text(&s->args, name);
    uint64_t seconds = 0;

    rc = parse_duration(&seconds, text ? text : otherwise, err);
    if (rc)
        error_prefix(err, "--%s", name);
    TRY(rc);
    FAIL_IF(seconds > WATCH_MS_MAX / 1000, err, CKPT_EUSAGE, "--%s %s: more than a week", name, text);
    *ms = seconds * 1000;
out:
    return rc;
}

static int options_read(watch_options *out, const session *s, ckpt_error *err)
{
    int rc = 0;
    const arguments *const args = &s->args;

    FAIL_IF(args->word_count == 0, err, CKPT_EUSAGE, "watch: names of files to watch are missing");
    out->patterns = args->words;
    out->pattern_count = args->word_count;
    TRY(duration_get(&out->every_ms, s, "every", EVERY_DEFAULT, err));
    FAIL_IF(out->every_ms == 0, err, CKPT_EUSAGE, "--every 0: a time from 1s on");
    TRY(duration_get(&out->settle_ms, s, "settle", SETTLE_DEFAULT, err));
    TRY(duration_get(&out->for_ms, s, "for", "0", err));
    out->saves_max = (uint64_t)arguments_count(args, "max", 0);
    out->once = arguments_flag(args, "once");
    out->together = arguments_flag(args, "together");
    out->message = arguments_text(args, "message");
    out->level = save_view_level(args);
    out->keep = arguments_text(args, "keep");
    out->prune = out->keep || arguments_flag(args, "prune");
    FAIL_IF(out->keep && arguments_flag(args, "prune"), err, CKPT_EUSAGE,
            "--prune follows config.ini, --keep another policy: give one of them");
    if (out->keep)
        TRY(ckpt_policy_check(out->keep, err));
    out->threads = s->threads;
out:
    return rc;
}

static int metrics_open(metric_log **out, const session *s, ckpt_error *err)
{
    int rc = 0;
    const char **metrics = NULL, **logs = NULL;
    size_t metric_count = 0, log_count = 0;

    TRY(arguments_list(&metrics, &metric_count, &s->args, "metric", err));
    TRY(arguments_list(&logs, &log_count, &s->args, "from", err));
    FAIL_IF(log_count && !metric_count, err, CKPT_EUSAGE, "--from %s: which --metric is to be taken from it?", logs[0]);
    if (metric_count)
        TRY(metric_log_new(out, metrics, metric_count, logs, log_count, err));
out:
    free(metrics);
    free(logs);
    return rc;
}

/* What a person may have meant otherwise. */
static void note_words(session *s)
{
    size_t plain = 0;

    for (size_t i = 0; i < s->args.word_count; i++)
        plain += access(s->args.words[i], F_OK) == 0;
    if (plain > 1 && plain == s->args.word_count && !arguments_flag(&s->args, "together") &&
        !arguments_flag(&s->args, "once"))
        session_note(s,
                     "%zu names, each a checkpoint of its own: quote a pattern so that new files are found, as in "
                     "'epoch_*.pt'; --together makes them one",
                     plain);
}

/* ---- Watching ---- */

static void what_of(char out[FILE_PATH_MAX], const session *s)
{
    size_t used = 0;

    out[0] = 0;
    for (size_t i = 0; i < s->args.word_count && used < FILE_PATH_MAX; i++)
        used += (size_t)snprintf(out + used, FILE_PATH_MAX - used, "%s%s", i ? " " : "", s->args.words[i]);
}

static void on_started(void *payload)
{
    view *const v = payload;
    char every[UNITS_TEXT_SIZE], what[FILE_PATH_MAX];

    if (!v->options->once) {
        what_of(what, v->s);
        format_duration(every, (double)v->options->every_ms / 1000);
        session_note(v->s, "watching %s, saved at most once in %s", what, every);
    }
    job_report(&v->birth, 0, NULL);
}

static int watch_here(view *v, watch_options *o, ckpt_error *err)
{
    int rc = 0;
    session *const s = v->s;

    session_catch_signals(s);
    if (!o->once) {
        rc = job_open(&v->job, KIND, o->store_path, err);
        if (rc == CKPT_EBUSY)
            error_hint(err, "`ckpt watch --status` shows it, `ckpt watch --stop` ends it; one watch takes several "
                            "patterns");
        TRY(rc);
        what_of(job_of(v->job)->what, s);
        (void)job_publish(v->job, NULL);
    }
    s->log_times = v->detached;
    v->options = o;
    o->job = v->job;
    o->started = on_started;
    o->stopped = on_stopped;
    o->saved = on_saved;
    o->note = on_note;
    o->warning = on_warning;
    o->payload = v;
    rc = watch_run(o, err);
out:
    job_close(v->job, rc == CKPT_EINTERRUPTED ? 0 : rc, err);
    job_report(&v->birth, rc, err);
    return rc;
}

static int say_detached(const session *s, const job_birth *birth, const char *store, ckpt_error *err)
{
    int rc = 0;
    char log[FILE_PATH_MAX];
    json_t *object = NULL;

    TRY(job_log_path(log, KIND, store, err));
    if (s->json) {
        object = json_object();
        TRY(json_out_set(object, "pid", json_integer(birth->pid), err));
        TRY(json_out_set(object, "log", print_json_text(log), err));
        TRY(json_out_value(stdout, object, err));
    } else if (!s->quiet) {
        printf("watching as process %" PRId64 "; it writes to %s\n", birth->pid, log);
        puts("`ckpt watch --status` shows how it goes, `ckpt watch --stop` ends it");
    }
out:
    json_decref(object);
    return rc;
}

static int watch_begin(session *s, const char *store, ckpt_error *err)
{
    int rc = 0;
    watch_options options = {.store_path = store};
    view v = {.s = s, .detached = arguments_flag(&s->args, "detach"), .birth.report = -1};

    TRY(options_read(&options, s, err));
    FAIL_IF(v.detached && options.once, err, CKPT_EUSAGE, "--detach and --once: give one of them");
    note_words(s);
    TRY(metrics_open(&options.metrics, s, err));
    if (v.detached) {
        fflush(stdout);
        TRY(job_detach(&v.birth, KIND, store, err));
        if (v.birth.pid) {
            TRY(say_detached(s, &v.birth, store, err));
            goto out;
        }
    }
    TRY(watch_here(&v, &options, err));
out:
    metric_log_free(options.metrics);
    return rc;
}

static int cmd_watch(session *s, ckpt_error *err)
{
    int rc = 0;
    char store[FILE_PATH_MAX];
    const bool status = arguments_flag(&s->args, "status"), stops = arguments_flag(&s->args, "stop");

    FAIL_IF((status || stops) && s->args.word_count, err, CKPT_EUSAGE,
            "--%s takes no names: there is one watch of a store", status ? "status" : "stop");
    TRY(session_open(s, err));
    snprintf(store, sizeof store, "%s", ckpt_store_path(s->store));
    ckpt_store_close(s->store); /* a watch opens it again, in the process that goes on */
    s->store = NULL;
    if (stops)
        TRY(stop(s, store, err));
    else if (status)
        TRY(show_status(s, store, err));
    else
        TRY(watch_begin(s, store, err));
out:
    return rc;
}

const command CMD_WATCH = {
    .name = "watch",
    .args = "PATTERN...",
    .summary = "Save what other programs write, as soon as it is whole",
    .about =
        "Watches for files and folders that fit a PATTERN, such as 'runs/*/checkpoint-*', 'epoch_*.pt' or model.pt, "
        "and saves each when it is whole: closed after writing or unchanged for --settle, not cut off, and unchanged "
        "while it is read. So no training script has to change. Quote patterns, or the shell puts in the names that "
        "are there now; `**` stands for any number of folders. Folders may appear later.\n\n"
        "Each file or folder is a checkpoint of its own; a folder, such as checkpoint-500, is whole when all its parts "
        "are. What belongs together in several files, such as model.pt and optimizer.pt, is one checkpoint with "
        "--together, saved once all of them stand still. A new name is saved at once; one that is written again and "
        "again is saved once in each --every, and is copied first where it never stands still for as long as a save "
        "takes. The same bytes are never saved twice, also not after a restart.\n\n"
        "Names tell step and epoch: checkpoint-500, step_001500.pt, epoch_12.pt. A METRIC is an expression with the "
        "value in parentheses, whose key stands before the `=`; or KEY~EXPRESSION; or a key alone, which is looked for "
        "as a member of JSON lines (eval.loss goes one member further in), as a column of CSV, as a number behind its "
        "name, and in the trainer_state.json of a folder. The last value in the LOG goes beside the checkpoint, so "
        "that `best` and policies can use it.\n\n"
        "With --prune or --keep the policy is applied after each save to the checkpoints that a watch found in the "
        "same folder, and to no others. Without them nothing is removed, but for a save for which quota or disk leave "
        "too little room, which lets the policy of config.ini make it as `ckpt save` does.\n\n"
        "A failure, such as a full disk, ends nothing: it is told once and tried again in the next --every. SIGTERM "
        "saves what is whole and not saved, and ends with status 0; SIGINT ends at once. There is one watch of a "
        "store; its state and log are below ~/.local/state/ckpt/jobs.",
    .examples = "ckpt watch 'runs/*/checkpoint-*' --detach\twhat the Trainer writes, while you log out\n"
                "ckpt watch --together model.pt optimizer.pt --every 5m\ttwo files, one checkpoint\n"
                "ckpt watch 'epoch_*.pt' --metric 'val_acc=([0-9.]+)' --from train.log\tfor `best`\n"
                "ckpt watch last.pt --every 5m --keep 'last 3, best 1'\tand no more of them\n"
                "ckpt watch last.pt --once\tsave it once it is whole\n"
                "ckpt watch --status\thow it goes\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 8, 9, 10, 130),
    .words_min = 0,
    .words_max = WORDS_NO_MAX,
    .group = GROUP_START,
    .completes = COMPLETES_PATHS,
    .run = cmd_watch,
};
