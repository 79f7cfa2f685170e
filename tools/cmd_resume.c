#include "training_job.h"

#include "fail.h"

static const option OPTIONS[] = {
    {"data", 0, OPT_DIR, "DIR", "where the samples are; else where they were"},
    {"set", 0, OPT_PAIR, "KEY=VALUE", "change a key of [run] or [checkpoint]; may be given several times"},
    {"epochs", 0, OPT_COUNT, "N", "short for --set run.epochs=N"},
    {"steps", 0, OPT_COUNT, "N", "short for --set run.steps=N: stop after N steps in all"},
    {"profile", 0, OPT_FLAG, NULL, "measure the operations and print where time went"},
    {0},
};

/* Goes on with the run `name`, NULL being the newest of all. */
static int resume_run(training_job *job, const char *name, ckpt_error *err)
{
    int rc = 0;
    const arguments *const args = &job->s->args;

    job->s->notes_are_warnings = false; /* the plugin has warnings of its own, and notes that are none */
    job->options.store_path = ckpt_store_path(job->s->store);
    job->options.epochs = arguments_text(args, "epochs");
    job->options.steps = arguments_text(args, "steps");
    if (!job->recipe && arguments_pair(args, "set", 0)) {
        TRY(job->plugin.recipe_open_run(&job->recipe, name, job->options.store_path, err));
        TRY(training_job_change(job, err));
    }
    TRY(job->plugin.training_resume(&job->training, name, job->recipe, &job->options, err));
out:
    return rc;
}

/* Goes on with the newest run of the store. */
static int resume_any(training_job *job, ckpt_error *err)
{
    int rc = 0;
    bool has = false;

    TRY(session_open(job->s, err));
    TRY(training_job_has_run(&has, job, NULL, err));
    if (!has) {
        rc = error_set(err, CKPT_ENOTFOUND, "nothing to resume: no checkpoint in this store is of a training");
        error_where(err, ckpt_store_path(job->s->store));
        error_hint(err, "`ckpt train mnist-cnn --data DIR` begins one; `ckpt log` shows what is there");
        goto out;
    }
    TRY(resume_run(job, NULL, err));
out:
    return rc;
}

/* `word` is no run of the store: a preset or a recipe then, whose run goes on, or begins. */
static int resume_recipe(training_job *job, const char *word, ckpt_error *err)
{
    int rc = 0;
    bool has = false;

    rc = training_job_recipe(job, word, err);
    if (rc == CKPT_ENOTFOUND)
        error_prefix(err, "no run %s to resume", word);
    TRY(rc);
    TRY(training_job_store(job, err));
    TRY(training_job_has_run(&has, job, job->name, err));
    if (has) {
        TRY(resume_run(job, job->name, err));
        goto out;
    }
    TRY(training_job_check_data(job, err));
    job->s->notes_are_warnings = false;
    session_note(job->s, "no checkpoint of %s is in the store: it begins at epoch 0", job->name);
    TRY(training_job_new(job, err));
out:
    return rc;
}

static int resume_word(training_job *job, const char *word, ckpt_error *err)
{
    int rc = 0;
    bool has = false;

    rc = session_open(job->s, err);
    if (rc == CKPT_ENOSTORE)
        rc = error_clear(err); /* a recipe makes one */
    TRY(rc);
    if (job->s->store)
        TRY(training_job_has_run(&has, job, word, err));
    TRY(has ? resume_run(job, word, err) : resume_recipe(job, word, err));
out:
    return rc;
}

static int cmd_resume(session *s, ckpt_error *err)
{
    int rc = 0;
    training_job job = {0};

    s->notes_are_warnings = true; /* what the store leaves out may be the newest state */
    TRY(training_job_open(&job, s, err));
    TRY(s->args.word_count ? resume_word(&job, s->args.words[0], err) : resume_any(&job, err));
    TRY(training_job_run(&job, err));
out:
    training_job_close(&job);
    return rc;
}

const command CMD_RESUME = {
    .name = "resume",
    .args = "[RUN]",
    .summary = "Go on with a training that was stopped or killed",
    .about = "Goes on from the newest good checkpoint of RUN, or of the newest run in the store. Threads and "
             "instruction set are those that the run began with, so that it ends with the same bits as one that was "
             "never stopped; where this machine cannot have them, the first line says so and why.\n\n"
             "RUN may also be a preset or a recipe file. When the store has no checkpoint of its run, the training "
             "begins at epoch 0, so one command serves every session. A run goes on with the recipe that it began "
             "with; only where it stops and how it is kept may change.",
    .examples = "ckpt resume\tthe newest run\n"
                "ckpt resume mnist-cnn --data DIR\tbegins it where there is none yet\n"
                "ckpt resume --epochs 20\tfurther than was planned\n",
    .options = OPTIONS,
    .exits = EXITS(0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 130),
    .words_max = 1,
    .group = GROUP_TRAINING,
    .completes = COMPLETES_PATHS,
    .run = cmd_resume,
};
