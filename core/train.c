#include "training.h"

#include "clock.h"
#include "fail.h"
#include "units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Parts of both ways to begin ---- */

static void on_note(void *payload, const char *note)
{
    report_note(payload, NULL, "%s", note);
}

static void on_warning(void *payload, const char *warning)
{
    report_warning(payload, NULL, "%s", warning);
}

static int options_check(const ckpt_training_options *options, ckpt_error *err)
{
    if (options && options->size != sizeof *options)
        return error_set(err, CKPT_EUSAGE, "ckpt_training_options.size is %zu, expected %zu", options->size,
                         sizeof *options);
    return 0;
}

static int training_begin(ckpt_training **out, ckpt_store **store, const ckpt_training_options *o, ckpt_error *err)
{
    int rc = 0;
    ckpt_training *const g = calloc(1, sizeof *g);
    ckpt_open_options open = {.size = sizeof open, .note = on_note, .warning = on_warning};

    FAIL_IF_NULL(g, err);
    *out = g;
    g->test_accuracy = NOT_KNOWN;
    g->report = (report){.event = o->event, .payload = o->payload, .begin = clock_seconds()};
    open.payload = &g->report;
    TRY(ckpt_store_open(store, o->store_path, &open, err));
    g->store_path = strdup(ckpt_store_path(*store));
    FAIL_IF_NULL(g->store_path, err);
out:
    return rc;
}

/* What the options say about where it stops. */
static int limits_apply(recipe_values *values, const ckpt_training_options *o, ckpt_error *err)
{
    int rc = 0;
    ckpt_recipe recipe = {.values = *values};

    if (o->epochs)
        TRY(ckpt_recipe_set(&recipe, "run.epochs", o->epochs, err));
    if (o->steps)
        TRY(ckpt_recipe_set(&recipe, "run.steps", o->steps, err));
    TRY(ckpt_recipe_check(&recipe, err));
    *values = recipe.values;
out:
    return rc;
}

/* `digest` is that of the data of the run, NULL for a new one. */
static int data_begin(dataset **out, ckpt_training *g, const recipe_values *values, const char *data_path,
                      const char *digest, ckpt_error *err)
{
    int rc = 0;
    dataset *data = NULL;

    TRY(dataset_open(&data, data_path, (size_t)values->classes, err));
    if (digest && strcmp(data->digest, digest) != 0) {
        rc = error_set(err, CKPT_EUSAGE, "%s holds other data than the run's: digest %.16s, not %.16s", data_path,
                       data->digest, digest);
        error_hint(err, "--data FOLDER names those that it was begun with; --name begins another run");
        goto out;
    }
    g->data_path = realpath(data_path, NULL);
    if (!g->data_path)
        TRY(error_errno(err, errno, "%s", data_path));
    *out = data;
    data = NULL;
out:
    dataset_free(data);
    return rc;
}

static int saver_begin(ckpt_training *g, ckpt_error *err)
{
    return run_saver_open(&g->saver, g->store_path, &g->trainer.state, g->trainer.net, g->backend, g->data_path,
                          &g->report, err);
}

/* ---- New ---- */

static int run_is_new(bool *exists, ckpt_store *store, const char *run, bool restart, ckpt_error *err)
{
    int rc = 0;

    TRY(run_exists(exists, store, run, err));
    if (*exists && !restart) {
        rc = error_set(err, CKPT_EUSAGE, "the store has checkpoints of run %s already", run);
        error_hint(err, "`ckpt resume %s` goes on; --restart begins anew; --name gives the new run another name", run);
    }
out:
    return rc;
}

static void started_new(ckpt_training *g)
{
    const trainer *const t = &g->trainer;
    const char *const isa = g->backend->isa;

    snprintf(g->started, sizeof g->started,
             "%s from the start: %zu images an epoch, %" PRIu64 " steps; %s, %u thread%s%s%s", t->state.recipe.name,
             trainer_epoch_samples(t), trainer_steps_total(t), g->backend->name, g->backend->threads,
             g->backend->threads == 1 ? "" : "s", *isa ? ", " : "", isa);
}

int ckpt_training_new(ckpt_training **out, const ckpt_recipe *recipe, const ckpt_training_options *options,
                      ckpt_error *err)
{
    int rc = 0;
    const ckpt_training_options o = options ? *options : (ckpt_training_options)CKPT_TRAINING_OPTIONS_INIT;
    const backend_options how = {.threads = o.threads};
    recipe_values values = recipe->values;
    dataset *data = NULL; /* the trainer's */
    ckpt_training *g = NULL;
    ckpt_store *store = NULL;

    TRY(options_check(options, err));
    TRY(limits_apply(&values, &o, err));
    if (!o.data) {
        error_set(err, rc = CKPT_EUSAGE, "no data are given");
        error_hint(err, "--data FOLDER names the folder of the IDX files or mnist.npz");
        goto out;
    }
    TRY(training_begin(&g, &store, &o, err));
    TRY(runlog_open(&g->log, g->store_path, values.name, err));
    g->report.log = g->log;
    TRY(run_is_new(&g->anew, store, values.name, o.restart, err));
    TRY(backend_new(&g->backend, values.backend, &how, err));
    TRY(data_begin(&data, g, &values, o.data, NULL, err));
    TRY(trainer_open(&g->trainer, &values, g->backend, data, o.profile, err));
    TRY(saver_begin(g, err));
    started_new(g);
    *out = g;
    g = NULL;
out:
    ckpt_store_close(store);
    ckpt_training_free(g);
    return rc;
}

/* ---- Resume ---- */

typedef struct resumption {
    ckpt_training *training;
    const ckpt_recipe *recipe; /* or NULL */
    const ckpt_training_options *options;
    bool same;  /* the bits of what follows will be those of a run never stopped */
    bool lossy; /* the state is not the one that the run had */
    char why[TRAINING_TEXT_SIZE / 2];
} resumption;

/* The run to go on with, or "" when the store has no checkpoint of it, or of any. */
static int run_choose(char run[RECIPE_NAME_SIZE], ckpt_store *store, const char *name, ckpt_error *err)
{
    int rc = 0;
    ckpt_list *list = NULL;

    run[0] = '\0';
    TRY(ckpt_list_new(&list, store, err));
    const ckpt_info *const newest = run_meta_newest(list, name);
    const char *const found = newest ? run_meta_get(newest, RUN_META_RUN) : NULL;
    FAIL_IF(found && strlen(found) >= RECIPE_NAME_SIZE, err, CKPT_EUSAGE, "%.64s...: too long for the name of a run",
            found);
    if (found)
        memcpy(run, found, strlen(found) + 1);
out:
    ckpt_list_free(list);
    return rc;
}

/* The recipe to go on with: the recorded one, but for where it stops and how it is kept. */
static int recipe_merge(recipe_values *values, const resumption *r, ckpt_error *err)
{
    int rc = 0;

    if (r->recipe) {
        const recipe_values *const given = &r->recipe->values;
        if (strcmp(values->name, given->name) != 0) {
            rc = error_set(err, CKPT_EUSAGE, "run.name = %s: the run is called %s", given->name, values->name);
            error_hint(err, "a run keeps its name; `ckpt train --name %s` begins another", given->name);
            goto out;
        }
        TRY(recipe_compatible(values, given, err));
        values->epochs = given->epochs;
        values->steps = given->steps;
        values->every = given->every;
        values->prune = given->prune;
        memcpy(values->keep, given->keep, sizeof values->keep);
    }
    TRY(limits_apply(values, r->options, err));
out:
    return rc;
}

/* The recorded threads and instruction set, as far as they are to be had. */
static int backend_again(ckpt_training *g, const recipe_values *values, const environment *recorded, unsigned threads,
                         ckpt_error *err)
{
    backend_options how = {.threads = threads ? threads : recorded->threads, .isa = recorded->isa};
    int rc = backend_new(&g->backend, values->backend, &how, err);

    if (rc == CKPT_EMISSING) { /* an instruction set of another kind of machine */
        error_clear(err);
        how.isa = NULL;
        rc = backend_new(&g->backend, values->backend, &how, err);
    }
    return rc;
}

/* Errors of the data are not those of the checkpoint, which would be passed over. */
static int data_begin_again(dataset **out, const resumption *r, const recipe_values *values, const char *digest,
                            const ckpt_info *info, ckpt_error *err)
{
    const char *const path = r->options->data ? r->options->data : run_meta_get(info, RUN_META_DATA);

    if (!path) {
        error_set(err, CKPT_EUSAGE, "the checkpoint does not say where its data are");
        error_hint(err, "--data FOLDER says it");
        return CKPT_EUSAGE;
    }
    const int rc = data_begin(out, r->training, values, path, digest, err);
    if (rc == CKPT_ENOTFOUND && !r->options->data) {
        error_clear(err); /* what is there instead, or how to get a data set, is beside the point */
        error_set(err, CKPT_EUSAGE, "%s: the data of the run are not there any more", path);
        error_hint(err, "--data FOLDER says where they are now");
        return CKPT_EUSAGE;
    }
    return rc == CKPT_ENOTFOUND || rc == CKPT_EDATA ? error_recode(err, CKPT_EUSAGE) : rc;
}

/* Has the checkpoint the weights that the recipe beside them speaks of? A trainer takes memory for them. */
static int weights_check(const recipe_values *values, const dataset *data, const ckpt_content *content, size_t file,
                         ckpt_error *err)
{
    int rc = 0;
    net *n = NULL;

    TRY(net_parse(&n, values->layers, data->shape, (size_t)values->classes, err));
    TRY(state_check_tensors(content, file, n, err));
out:
    net_free(n);
    return rc;
}

/* A run cannot be taken back to before where it is. */
static int limits_check(const ckpt_training *g, ckpt_error *err)
{
    int rc = 0;
    const state *const s = &g->trainer.state;
    const bool epochs_over = s->epoch > s->recipe.epochs || (s->epoch == s->recipe.epochs && s->position > 0);

    FAIL_IF(epochs_over, err, CKPT_EUSAGE, "run %s is in epoch %" PRIu64 " already, beyond run.epochs %" PRIu64,
            s->recipe.name, s->epoch + (s->position > 0), s->recipe.epochs);
    FAIL_IF(s->recipe.steps && s->step > s->recipe.steps, err, CKPT_EUSAGE,
            "run %s is at step %" PRIu64 " already, beyond run.steps %" PRIu64, s->recipe.name, s->step,
            s->recipe.steps);
out:
    if (rc)
        error_hint(err, "a run only goes on: give more, or begin another with `ckpt train --name NAME`");
    return rc;
}

/* A save may have left the optimizer out, which is no damage. */
static int optimizer_check(const ckpt_content *content, size_t file, const char *lossy, ckpt_error *err)
{
    const ckpt_file_info *const f = ckpt_content_file(content, file);

    for (size_t i = 0; i < f->tensor_count; i++)
        if (strncmp(ckpt_content_tensor(content, f->tensor_first + i)->name, "optimizer.", strlen("optimizer.")) == 0)
            return 0;
    const int rc = error_set(err, CKPT_EUSAGE, "the checkpoint has no optimizer, so no training can go on (%s)", lossy);
    error_hint(err, "`ckpt eval` and `ckpt predict` need none; `ckpt log` shows which checkpoints are not lossy");
    return rc;
}

/* Forgets what was made of a checkpoint that turned out to be damaged. */
static void training_reset(ckpt_training *g)
{
    trainer_close(&g->trainer);
    backend_free(g->backend);
    free(g->data_path);
    g->backend = NULL;
    g->data_path = NULL;
}

/* Makes the training of what the checkpoint holds: a run_take_fn. */
static int take(void *payload, ckpt_content *content, size_t file, const ckpt_info *info, ckpt_error *err)
{
    int rc = 0;
    resumption *const r = payload;
    ckpt_training *const g = r->training;
    state recorded = {0};
    dataset *data = NULL;

    training_reset(g);
    TRY(state_read_values(&recorded, content, file, err));
    recipe_values values = recorded.recipe;
    TRY(recipe_merge(&values, r, err));
    TRY(backend_again(g, &values, &recorded.environment, r->options->threads, err));
    TRY(data_begin_again(&data, r, &values, recorded.data_digest, info, err));
    TRY(weights_check(&values, data, content, file, err));
    const char *const lossy = run_meta_get(info, CKPT_META_LOSSY);
    if (lossy)
        TRY(optimizer_check(content, file, lossy, err));
    dataset *const taken = data;
    data = NULL;
    TRY(trainer_open(&g->trainer, &values, g->backend, taken, r->options->profile, err));
    TRY(trainer_restore(&g->trainer, &recorded, content, file, err));
    TRY(limits_check(g, err));
    r->same = environment_same(r->why, sizeof r->why, &recorded.environment, &g->trainer.state.environment);
    r->lossy = lossy != NULL;
    if (lossy)
        snprintf(r->why, sizeof r->why, "%s", lossy);
    /* Only the last checkpoint of a run has it. */
    const char *const accuracy = run_meta_get(info, RUN_META_TEST_ACC);
    g->test_accuracy = NOT_KNOWN;
    if (accuracy)
        TRY(parse_double(&g->test_accuracy, accuracy, err));
    g->finished = accuracy && training_is_done(g);
out:
    dataset_free(data);
    state_clear(&recorded);
    return rc;
}

static void started_again(ckpt_training *g, const resumption *r)
{
    const state *const s = &g->trainer.state;
    const char *const how = r->lossy  ? "not exact, the checkpoint is lossy: "
                            : r->same ? "identical"
                                      : "equivalent: ";

    snprintf(g->started, sizeof g->started,
             "resumed %s in epoch %" PRIu64 " of %" PRIu64 ", at step %" PRIu64 " of %" PRIu64 " (%s%s)",
             s->recipe.name, s->epoch < s->recipe.epochs ? s->epoch + 1 : s->recipe.epochs, s->recipe.epochs, s->step,
             trainer_steps_total(&g->trainer), how, r->why);
}

int ckpt_training_resume(ckpt_training **out, const char *name, const ckpt_recipe *recipe,
                         const ckpt_training_options *options, ckpt_error *err)
{
    int rc = 0;
    const ckpt_training_options o = options ? *options : (ckpt_training_options)CKPT_TRAINING_OPTIONS_INIT;
    resumption r = {.recipe = recipe, .options = &o};
    char run[RECIPE_NAME_SIZE];
    ckpt_training *g = NULL;
    ckpt_store *store = NULL;

    TRY(options_check(options, err));
    TRY(training_begin(&g, &store, &o, err));
    r.training = g;
    TRY(run_choose(run, store, name, err));
    if (*run) { /* first of all, so that nobody else makes a newer one from here on */
        TRY(runlog_open(&g->log, g->store_path, run, err));
        g->report.log = g->log;
    }
    TRY(run_find(store, *run ? run : name, &g->report, take, &r, err));
    if (!g->finished)
        TRY(saver_begin(g, err));
    started_again(g, &r);
    *out = g;
    g = NULL;
out:
    ckpt_store_close(store);
    ckpt_training_free(g);
    return rc;
}

void ckpt_training_free(ckpt_training *training)
{
    if (!training)
        return;
    run_saver_close(training->saver, NULL);
    training_reset(training);
    runlog_close(training->log);
    free(training->store_path);
    free(training);
}
