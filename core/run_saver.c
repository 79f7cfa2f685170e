#include "run_saver.h"

#include "clock.h"
#include "fail.h"
#include "host.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    state mirror;                 /* what the view shows: the state, with vectors that the host can read */
    float *copies[STATE_VECTORS]; /* [weight_count] each; NULL where the host can read the originals */
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
};

/* ---- Opening ---- */

static void note_take(void *payload, const char *note)
{
    note_box *const box = payload;

    pthread_mutex_lock(&box->lock);
    snprintf(box->text, sizeof box->text, "%s", note);
    pthread_mutex_unlock(&box->lock);
}

/* Memory for copies of the vectors, where the host cannot read the device's. */
static int mirror_open(run_saver *v, ckpt_error *err)
{
    int rc = 0;

    v->mirror = *v->state;
    if (v->backend->memory_is_host)
        goto out;
    for (int i = 0; i < STATE_VECTORS; i++) {
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
    if (!run_meta_is_plain(v->host))
        v->host[0] = '\0';
    snprintf(v->file_name, sizeof v->file_name, "%s/" STATE_FILE_NAME, s->recipe.name);
    if (data_path && run_meta_is_plain(data_path)) {
        v->data_path = strdup(data_path);
        FAIL_IF_NULL(v->data_path, err);
    }
    TRY(mirror_open(v, err));
    TRY(state_view_new(&v->view, &v->mirror, n, err));
    const ckpt_open_options options = {.size = sizeof options, .note = note_take, .payload = &v->notes};
    TRY(ckpt_writer_open(&v->writer, store_path, &options, err));
    TRY(ckpt_writer_reserve(v->writer, STATE_VECTORS * (uint64_t)v->weight_count * sizeof(float),
                            err)); /* the rest is little */
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
    const size_t bytes = v->weight_count * sizeof(float);

    v->mirror = *s;
    if (v->backend->memory_is_host) {
        TRY(v->backend->wait(v->backend, err));
    } else {
        for (int i = 0; i < STATE_VECTORS; i++)
            TRY(v->backend->read(v->backend, v->copies[i], state_vector_get(s, (state_vector)i), bytes, err));
        v->mirror.weights = v->copies[STATE_WEIGHTS];
        v->mirror.exp_avg = v->copies[STATE_EXP_AVG];
        v->mirror.exp_avg_sq = v->copies[STATE_EXP_AVG_SQ];
    }
    state_view_update(v->view);
out:
    return rc;
}

static void meta_fill(run_meta *m, const run_saver *v, save_reason reason, double val_accuracy, double test_accuracy)
{
    static const char *const REASONS[] = {[SAVE_RHYTHM] = "rhythm", [SAVE_EPOCH] = "epoch",     [SAVE_BEST] = "best",
                                          [SAVE_ANEW] = "anew",     [SAVE_STOPPED] = "stopped", [SAVE_FINAL] = "final"};
    const report *const r = v->report;
    const double before = r->log ? runlog_seconds_before(r->log) : 0;
    const run_facts facts = {.run = v->state->recipe.name,
                             .data = v->data_path,
                             .host = v->host,
                             .reason = REASONS[reason],
                             .epoch = v->state->epoch,
                             .seconds = before + clock_seconds() - r->begin,
                             .images_per_s = report_rate(r),
                             .val_accuracy = reason == SAVE_EPOCH || reason == SAVE_BEST ? val_accuracy : NOT_KNOWN,
                             .test_accuracy = reason == SAVE_FINAL ? test_accuracy : NOT_KNOWN};

    run_meta_fill(m, &facts);
}

static int submit(run_saver *v, save_reason reason, const run_meta *m, ckpt_error *err)
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

/* Would a save go well once there is room? */
static bool is_lack_of_room(int code)
{
    return code == CKPT_ENOSPC || code == CKPT_EQUOTA;
}

static void save_and_go_on(run_saver *v, save_reason reason, const run_meta *m)
{
    ckpt_error why;

    if (submit(v, reason, m, &why)) {
        (void)failure_tell(v, &why);
        if (is_lack_of_room(why.code))
            (void)prune(v); /* old checkpoints make room for the next */
    } else {
        success_tell(v);
    }
}

static int save_once(run_saver *v, save_reason reason, const run_meta *m, ckpt_error *err)
{
    int rc = 0;

    TRY(submit(v, reason, m, err));
    TRY(ckpt_writer_wait(v->writer, err));
out:
    return rc;
}

static int save_and_wait(run_saver *v, save_reason reason, const run_meta *m, ckpt_error *err)
{
    ckpt_error why = {0};
    int rc = 0;

    if (ckpt_writer_wait(v->writer, &why)) /* so that an error from here on is that of this save */
        (void)failure_tell(v, &why);
    rc = save_once(v, reason, m, &why);
    if (is_lack_of_room(rc) && prune(v)) {
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
    run_meta m;

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
    for (int i = 0; i < STATE_VECTORS; i++)
        free(v->copies[i]);
    free(v->data_path);
    pthread_mutex_destroy(&v->notes.lock);
    free(v);
    return rc;
}
