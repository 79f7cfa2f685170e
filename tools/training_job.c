#include "training_job.h"

#include "training_summary.h"

#include "fail.h"
#include "ini.h"
#include "units.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int training_job_open(training_job *job, session *s, ckpt_error *err)
{
    *job = (training_job){.s = s, .options = CKPT_TRAINING_OPTIONS_INIT};
    session_catch_signals(s); /* while data are read, too: it is saved before the first step then */
    training_view_init(&job->view, s);
    job->options.data = arguments_text(&s->args, "data");
    job->options.threads = s->threads;
    job->options.profile = arguments_flag(&s->args, "profile");
    job->options.event = training_view_event;
    job->options.payload = &job->view;
    return plugin_open(&job->plugin, err);
}

void training_job_close(training_job *job)
{
    if (job->training)
        job->plugin.training_free(job->training);
    if (job->recipe)
        job->plugin.recipe_free(job->recipe);
    *job = (training_job){0};
}

/* ---- The recipe ---- */

static int set_pairs(training_job *job, ckpt_error *err)
{
    int rc = 0;
    char *key = NULL;
    const char *pair;

    for (size_t i = 0; (pair = arguments_pair(&job->s->args, "set", i)) != NULL; i++) {
        const char *const equals = strchr(pair, '=');
        free(key);
        key = strndup(pair, (size_t)(equals - pair));
        FAIL_IF_NULL(key, err);
        TRY(job->plugin.recipe_set(job->recipe, key, equals + 1, err));
    }
out:
    free(key);
    return rc;
}

/* Options that are short for a --set. */
static int set_options(training_job *job, ckpt_error *err)
{
    static const struct {
        const char *option, *key;
    } ROWS[] = {{"epochs", "run.epochs"},
                {"steps", "run.steps"},
                {"seed", "run.seed"},
                {"validate", "data.validate"},
                {"name", "run.name"}};
    int rc = 0;

    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const char *const value = arguments_text(&job->s->args, ROWS[i].option);
        if (value)
            TRY(job->plugin.recipe_set(job->recipe, ROWS[i].key, value, err));
    }
out:
    return rc;
}

static int learn_name(training_job *job, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;
    ini *file = NULL;

    TRY(job->plugin.recipe_print(&text, job->recipe, err));
    TRY(ini_parse(&file, text, strlen(text), "recipe", err));
    const char *const name = ini_get(file, "run", NULL, "name");
    FAIL_IF(!name || strlen(name) >= sizeof job->name, err, CKPT_EUSAGE, "the recipe gives the run no name");
    memcpy(job->name, name, strlen(name) + 1);
out:
    ini_free(file);
    free(text);
    return rc;
}

int training_job_change(training_job *job, ckpt_error *err)
{
    int rc = 0;

    TRY(set_pairs(job, err));
    TRY(set_options(job, err));
    TRY(job->plugin.recipe_check(job->recipe, err));
    TRY(learn_name(job, err));
out:
    return rc;
}

int training_job_recipe(training_job *job, const char *name, ckpt_error *err)
{
    int rc = 0;

    TRY(job->plugin.recipe_open(&job->recipe, name, err));
    TRY(training_job_change(job, err));
out:
    return rc;
}

/* ---- The store ---- */

int training_job_store(training_job *job, ckpt_error *err)
{
    int rc = 0;
    bool existed = false;
    session *const s = job->s;
    const char *const named = getenv("CKPT_STORE");

    rc = session_open(s, err);
    if (rc == CKPT_ENOSTORE && !s->store_path && !(named && *named)) {
        error_clear(err);
        TRY(ckpt_store_init(&existed, ".", err));
        TRY(session_open(s, err));
        session_note(s, "no store was here; checkpoints go to the new %s", ckpt_store_path(s->store));
    }
    TRY(rc);
    job->options.store_path = ckpt_store_path(s->store);
out:
    return rc;
}

static const char *meta_of(const ckpt_info *info, const char *key)
{
    for (size_t i = 0; i < info->meta_count; i++)
        if (strcmp(info->meta[i].key, key) == 0)
            return info->meta[i].value;
    return NULL;
}

/* As the plugin knows them: `run` alone may be what a person calls something else. */
static const char *run_of(const ckpt_info *info)
{
    return meta_of(info, "reason") ? meta_of(info, "run") : NULL;
}

int training_job_has_run(bool *has, training_job *job, const char *name, ckpt_error *err)
{
    int rc = 0;
    ckpt_list *list = NULL;

    *has = false;
    TRY(ckpt_list_new(&list, job->s->store, err));
    for (size_t i = 0; !*has && i < ckpt_list_count(list); i++) {
        const char *const run = run_of(ckpt_list_get(list, i));
        *has = run && (!name || strcmp(run, name) == 0);
    }
out:
    ckpt_list_free(list);
    return rc;
}

/* ---- Running ---- */

int training_job_check_data(const training_job *job, ckpt_error *err)
{
    if (job->options.data)
        return 0;
    int rc = error_set(err, CKPT_EUSAGE, "%s: --data is missing: the folder with the samples", job->s->command->name);
    error_hint(err, "the package dataset-fashion-mnist has some: --data /usr/share/datasets/fashion-mnist");
    return rc;
}

int training_job_new(training_job *job, ckpt_error *err)
{
    return job->plugin.training_new(&job->training, job->recipe, &job->options, err);
}

/* What the plugin calls the end of a window is an interruption when it was Ctrl-C. */
static int stopped_code(int rc, ckpt_error *err)
{
    return rc == CKPT_EWINDOW && session_signal() == SIGINT ? error_recode(err, CKPT_EINTERRUPTED) : rc;
}

int training_job_run(training_job *job, ckpt_error *err)
{
    int rc = 0;
    ckpt_training_result result = {0};
    session *const s = job->s;

    const int run_rc = job->plugin.training_run(&result, job->training, err);
    session_work_end(s);
    if (run_rc && run_rc != CKPT_EWINDOW && !isfinite(result.test_accuracy))
        return run_rc; /* else the training came to its end, and what it came to is worth telling */
    TRY(training_summary_print(s, &result, run_rc ? NULL : err));
    if (job->options.profile && !session_stopped())
        TRY(training_profile_print(s, &job->plugin, job->training, run_rc ? NULL : err));
out:
    return run_rc ? stopped_code(run_rc, err) : rc;
}
