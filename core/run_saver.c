#include "run_saver.h"

#include "clock.h"
#include "fail.h"
#include "host.h"
#include "real.h"
#include "utf8.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define META_PAIRS     9
#define META_VALUE_MAX 1024 /* bytes; what is left of the meta holds the other pairs at their longest */
#define FILE_NAME_SIZE (RECIPE_NAME_SIZE + sizeof "/" STATE_FILE_NAME)
#define TAG_SIZE       (RECIPE_NAME_SIZE + sizeof "-final")
#define NOTE_SIZE      512
#define CAUSE_NONE     0

/* The last line that the writer's thread had to say, until it is told by ours. */
typedef struct note_box {
    pthread_mutex_t lock;
    char text[NOTE_SIZE]; /* "": none */
} note_box;

struct run_saver {
    const state *state;
    backend *backend;
    report *report;
    state mirror; /* what the view shows: the state, its vectors where the host can read them */
    float *copies[3];
    size_t weight_count;
    state_view *view;
    ckpt_writer *writer;
    note_box notes;
    char *data_path; /* NULL: it cannot be in the meta */
    char file_name[FILE_NAME_SIZE];
    char host[HOST_TEXT_SIZE];
    uint64_t unpruned; /* checkpoints since the policy was applied */
    char note_told[NOTE_SIZE];
    int save_cause, prune_cause; /* codes of the failures that were told, or CAUSE_NONE */
    uint64_t committed_then;     /* saves, when the last failure was told */
    bool save_pending;           /* one was submitted that nobody has waited for */
};

/* ---- Opening ---- */

static void note_take(void *payload, const char *note)
{
    note_box *const box = payload;

    pthread_mutex_lock(&box->lock);
    snprintf(box->text, sizeof box->text, "%s", note);
    pthread_mutex_unlock(&box->lock);
}

/* Can the text be a value of the meta, which is short, UTF-8 and without control characters? */
static bool is_plain(const char *text)
{
    const size_t size = strlen(text);
    uint32_t code = 0;

    for (size_t at = 0, n; at < size; at += n) {
        n = utf8_next(&code, text + at, size - at);
        if (n == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0))
            return false;
    }
    return size <= META_VALUE_MAX;
}

/* Memory for copies of the vectors, where the host cannot read the device's. */
static int mirror_open(run_saver *v, ckpt_error *err)
{
    int rc = 0;

    v->mirror = *v->state;
    if (v->backend->memory_is_host)
        goto out;
    for (size_t i = 0; i < 3; i++) {
        v->copies[i] = calloc(v->weight_count, sizeof(float));
        FAIL_IF_NULL(v->copies[i], err);
    }
out:
    return rc;
}

int run_saver_open(run_saver **out, const char *store_path, const state *s, const net *n, backend *b,
                   const char *data_path, report *r, ckpt_error *err)
{
    int rc = 0;
    run_saver *v = calloc(1, sizeof *v);

    FAIL_IF_NULL(v, err);
    pthread_mutex_init(&v->notes.lock, NULL);
    v->state = s;
    v->backend = b;
    v->report = r;
    v->weight_count = n->weight_count;
    host_name(v->host);
    if (!is_plain(v->host))
        v->host[0] = '\0';
    snprintf(v->file_name, sizeof v->file_name, "%s/" STATE_FILE_NAME, s->recipe.name);
    if (data_path && is_plain(data_path)) {
        v->data_path = strdup(data_path);
        FAIL_IF_NULL(v->data_path, err);
    }
    TRY(mirror_open(v, err));
    TRY(state_view_new(&v->view, &v->mirror, n, err));
    const ckpt_open_options options = {.size = sizeof options, .note = note_take, .payload = &v->notes};
    TRY(ckpt_writer_open(&v->writer, store_path, &options, err));
    TRY(ckpt_writer_reserve(v->writer, 3 * (uint64_t)v->weight_count * sizeof(float), err)); /* the rest is little */
    *out = v;
    v = NULL;
out:
    (void)run_saver_close(v, NULL);
    return rc;
}

/* ---- What is saved ---- */

/* Brings the view up to date. */
static int mirror_update(run_saver *v, ckpt_error *err)
{
    int rc = 0;
    const state *const s = v->state;
    const float *const vectors[3] = {s->weights, s->exp_avg, s->exp_avg_sq};

    v->mirror = *s;
    if (v->backend->memory_is_host) {
        TRY(v->backend->wait(v->backend, err));
    } else {
        for (size_t i = 0; i < 3; i++)
            TRY(v->backend->read(v->backend, v->copies[i], vectors[i], v->weight_count * sizeof(float), err));
        v->mirror.weights = v->copies[0];
        v->mirror.exp_avg = v->copies[1];
        v->mirror.exp_avg_sq = v->copies[2];
    }
    state_view_update(v->view);
out:
    return rc;
}

/* Pairs and the texts that they point into. */
typedef struct meta {
    ckpt_value pairs[META_PAIRS];
    size_t count;
    char epoch[24], seconds[REAL_TEXT_SIZE], images_per_s[REAL_TEXT_SIZE], accuracy[REAL_TEXT_SIZE];
} meta;

static void meta_add(meta *m, const char *key, const char *text)
{
    m->pairs[m->count++] = (ckpt_value){key, text};
}

static void meta_fill(meta *m, const run_saver *v, save_reason reason, double val_accuracy, double test_accuracy)
{
    static const char *const REASONS[] = {[SAVE_RHYTHM] = "rhythm", [SAVE_EPOCH] = "epoch",     [SAVE_BEST] = "best",
                                          [SAVE_ANEW] = "anew",     [SAVE_STOPPED] = "stopped", [SAVE_FINAL] = "final"};
    const report *const r = v->report;
    const double before = r->log ? runlog_seconds_before(r->log) : 0;

    m->count = 0;
    snprintf(m->epoch, sizeof m->epoch, "%" PRIu64, v->state->epoch);
    real_decimal(m->seconds, before + clock_seconds() - r->begin, 1);
    meta_add(m, RUN_META_RUN, v->state->recipe.name);
    meta_add(m, "epoch", m->epoch);
    if (v->data_path)
        meta_add(m, RUN_META_DATA, v->data_path);
    meta_add(m, "host", v->host);
    meta_add(m, "seconds", m->seconds);
    if (isfinite(report_rate(r))) {
        real_decimal(m->images_per_s, report_rate(r), 1);
        meta_add(m, "images_per_s", m->images_per_s);
    }
    meta_add(m, "reason", REASONS[reason]);
    if (reason == SAVE_EPOCH || reason == SAVE_BEST) {
        real_decimal(m->accuracy, val_accuracy, 6);
        meta_add(m, RUN_META_VAL_ACC, m->accuracy);
    } else if (reason == SAVE_FINAL) {
        real_decimal(m->accuracy, test_accuracy, 6);
        meta_add(m, RUN_META_TEST_ACC, m->accuracy);
    }
}

static int submit(run_saver *v, save_reason reason, const meta *m, ckpt_error *err)
{
    size_t tensor_count, value_count;
    const ckpt_tensor *const tensors = state_view_tensors(&tensor_count, v->view);
    const ckpt_value *const values = state_view_values(&value_count, v->view);
    char tag[TAG_SIZE];
    const ckpt_importance importance = reason == SAVE_RHYTHM || reason == SAVE_EPOCH ? CKPT_ORDINARY
                                       : reason == SAVE_BEST                         ? CKPT_BEST
                                                                                     : CKPT_KEEP;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;

    snprintf(tag, sizeof tag, "%s-final", v->state->recipe.name);
    options.step = (int64_t)v->state->step;
    options.meta = m->pairs;
    options.meta_count = m->count;
    options.tag = reason == SAVE_FINAL ? tag : NULL;
    return ckpt_writer_submit(v->writer, v->file_name, tensors, tensor_count, values, value_count, &options, importance,
                              err);
}

/* ---- What is told, and removed ---- */

static const char *cause_words(int code)
{
    switch (code) {
    case CKPT_ENOSPC:
        return "the disk is full: ";
    case CKPT_ENOSTORE:
    case CKPT_ENOTFOUND:
        return "the store is gone: ";
    default:
        return "";
    }
}

static void cause_tell(run_saver *v, int *cause, const char *what, int code, const char *why)
{
    if (*cause != code)
        report_warning(v->report, v->state, "%s: %s%s; training goes on and tries again", what, cause_words(code), why);
    *cause = code;
}

static void save_failure_tell(run_saver *v, int code, const char *why)
{
    ckpt_writer_stats stats;

    ckpt_writer_stats_get(&stats, v->writer);
    v->committed_then = stats.committed;
    cause_tell(v, &v->save_cause, "checkpoint not saved", code, why);
}

static void prune_failure_tell(run_saver *v, int code, const char *why)
{
    cause_tell(v, &v->prune_cause, "old checkpoints not removed", code, why);
}

/* What is left of a text behind its beginning, or NULL when it does not begin so. */
static const char *behind(const char *text, const char *beginning)
{
    const size_t size = strlen(beginning);

    return strncmp(text, beginning, size) == 0 ? text + size : NULL;
}

/* Tells what the writer gave back; in words of <ckpt/store.h> it says what failed. Returns whether that was a save. */
static bool failure_tell(run_saver *v, const ckpt_error *why)
{
    const char *of_prune = behind(why->message, "an earlier prune failed: ");
    const char *const of_save = behind(why->message, "an earlier save failed: ");

    of_prune = of_prune ? of_prune : behind(why->message, "a prune failed: ");
    if (of_prune)
        prune_failure_tell(v, why->code, of_prune);
    else
        save_failure_tell(v, why->code, of_save ? of_save : why->message);
    return !of_prune;
}

static void success_tell(run_saver *v)
{
    ckpt_writer_stats stats;

    if (v->save_cause == CAUSE_NONE)
        return;
    ckpt_writer_stats_get(&stats, v->writer);
    if (stats.committed == v->committed_then)
        return;
    v->save_cause = CAUSE_NONE;
    report_note(v->report, v->state, "checkpoints are saved again");
}

/* Each prune may have the same to say. */
static void notes_tell(run_saver *v)
{
    char text[NOTE_SIZE];

    pthread_mutex_lock(&v->notes.lock);
    snprintf(text, sizeof text, "%s", v->notes.text);
    pthread_mutex_unlock(&v->notes.lock);
    if (strcmp(text, v->note_told) == 0)
        return;
    snprintf(v->note_told, sizeof v->note_told, "%s", text);
    report_note(v->report, v->state, "%s", text);
}

/* Asks for the policy of the recipe, which with `prune = 0` wants nothing removed. Returns whether it does. */
static bool prune(run_saver *v)
{
    const recipe_values *const recipe = &v->state->recipe;
    const ckpt_value own = {RUN_META_RUN, recipe->name}; /* what else is in the store is not ours to remove */
    ckpt_error why;

    v->unpruned = 0;
    if (recipe->prune && ckpt_writer_prune(v->writer, recipe->keep[0] ? recipe->keep : NULL, &own, &why))
        prune_failure_tell(v, why.code, why.message);
    return recipe->prune > 0;
}

/* ---- Saving ---- */

static void save_and_go_on(run_saver *v, save_reason reason, const meta *m)
{
    ckpt_error why;

    if (submit(v, reason, m, &why)) {
        (void)failure_tell(v, &why);
        if (why.code == CKPT_ENOSPC)
            (void)prune(v); /* old checkpoints make room for the next */
    } else {
        success_tell(v);
    }
}

static int save_once(run_saver *v, save_reason reason, const meta *m, ckpt_error *err)
{
    int rc = 0;

    TRY(submit(v, reason, m, err));
    TRY(ckpt_writer_wait(v->writer, err));
out:
    return rc;
}

static int save_and_wait(run_saver *v, save_reason reason, const meta *m, ckpt_error *err)
{
    ckpt_error why = {0};
    int rc = 0;

    if (ckpt_writer_wait(v->writer, &why)) /* so that an error from here on is that of this save */
        (void)failure_tell(v, &why);
    rc = save_once(v, reason, m, &why);
    if (rc == CKPT_ENOSPC && prune(v)) {
        (void)ckpt_writer_wait(v->writer, NULL); /* the second attempt shows what came of it */
        rc = save_once(v, reason, m, &why);
    }
    if (rc && err)
        *err = why;
    if (rc)
        error_prefix(err, "checkpoint of step %" PRIu64, v->state->step);
    else
        success_tell(v);
    return rc;
}

int run_saver_save(run_saver *v, save_reason reason, double val_accuracy, double test_accuracy, ckpt_error *err)
{
    int rc = 0;
    meta m;

    notes_tell(v);
    TRY(mirror_update(v, err));
    meta_fill(&m, v, reason, val_accuracy, test_accuracy);
    if (reason == SAVE_ANEW || reason == SAVE_STOPPED || reason == SAVE_FINAL)
        TRY(save_and_wait(v, reason, &m, err));
    else
        save_and_go_on(v, reason, &m);
    if (++v->unpruned >= v->state->recipe.prune)
        (void)prune(v);
out:
    return rc;
}

/* ---- The end ---- */

void run_saver_result(ckpt_training_result *out, run_saver *v)
{
    ckpt_writer_stats stats;

    ckpt_writer_stats_get(&stats, v->writer);
    out->saves = stats.committed;
    out->saves_failed = stats.failed;
    out->saves_skipped = stats.replaced + stats.dropped;
    out->blocked_seconds = stats.blocked_seconds;
    out->raw_bytes = stats.raw_bytes;
    out->stored_bytes = stats.stored_bytes;
}

int run_saver_close(run_saver *v, ckpt_error *err)
{
    if (!v)
        return 0;
    ckpt_error why = {0};
    int rc = v->writer ? ckpt_writer_wait(v->writer, &why) : 0;

    if (rc && !failure_tell(v, &why)) /* that of a prune takes nothing from what was saved */
        rc = 0;
    if (rc && err)
        *err = why;
    (void)ckpt_writer_close(v->writer, NULL); /* has nothing left to say */
    state_view_free(v->view);
    for (size_t i = 0; i < 3; i++)
        free(v->copies[i]);
    free(v->data_path);
    pthread_mutex_destroy(&v->notes.lock);
    free(v);
    return rc;
}
