#include "training_job.h"

#include "print.h"

#include "fail.h"

#include <stdlib.h>

static const option OPTIONS[] = {
    {"data", 0, OPT_DIR, "DIR", "folder with the four IDX files, plain or .gz, or an .npz"},
    {"set", 0, OPT_PAIR, "KEY=VALUE", "change a key of the recipe, as optimizer.lr=2e-3; may be given several times"},
    {"epochs", 0, OPT_COUNT, "N", "short for --set run.epochs=N"},
    {"steps", 0, OPT_COUNT, "N", "short for --set run.steps=N: stop after N steps in all"},
    {"seed", 0, OPT_COUNT, "N", "short for --set run.seed=N"},
    {"validate", 0, OPT_CHOICE, "split|test", "short for --set data.validate: on a part held back, or on the test set"},
    {"name", 0, OPT_TEXT, "RUN", "short for --set run.name=RUN: what the run is called"},
    {"restart", 0, OPT_FLAG, NULL, "begin at epoch 0 although checkpoints of this run are there"},
    {"profile", 0, OPT_FLAG, NULL, "measure the operations and print where time went"},
    {"print", 0, OPT_FLAG, NULL, "print the recipe, to be copied and changed, and do not train"},
    {0},
};

static int print_recipe(training_job *job, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;
    json_t *object = NULL;

    TRY(job->plugin.recipe_print(&text, job->recipe, err));
    if (!job->s->json) {
        fputs(text, stdout);
        goto out;
    }
    object = json_object();
    TRY(json_out_set(object, "name", print_json_text(job->name), err));
    TRY(json_out_set(object, "recipe", print_json_text(text), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    free(text);
    return rc;
}

static int cmd_train(session *s, ckpt_error *err)
{
    int rc = 0;
    training_job job = {0};

    TRY(training_job_open(&job, s, err));
    TRY(training_job_recipe(&job, s->args.words[0], err));
    if (arguments_flag(&s->args, "print")) {
        TRY(print_recipe(&job, err));
        goto out;
    }
    TRY(training_job_check_data(&job, err));
    TRY(training_job_store(&job, err));
    job.options.restart = arguments_flag(&s->args, "restart");
    TRY(training_job_new(&job, err));
    TRY(training_job_run(&job, err));
out:
    training_job_close(&job);
    return rc;
}

const command CMD_TRAIN = {
    .name = "train",
    .args = "RECIPE|PRESET",
    .summary = "Train a network, saving as it goes",
    .about = "Trains as the recipe says and saves a checkpoint every 50 steps into the store, while the training goes "
             "on. A training that is killed at any moment goes on with `ckpt resume`, and ends with the same bits as "
             "one that was never stopped. SIGTERM saves at once and ends with status 7.\n\n"
             "The preset mnist-cnn is a convolutional network for MNIST and data sets of its form. A recipe is an INI "
             "file; --print shows one with comments. The name of the run in it, run.name, is what its checkpoints "
             "are found by.",
    .examples = "ckpt train mnist-cnn --data /usr/share/datasets/fashion-mnist\tten epochs\n"
                "ckpt train --print mnist-cnn > my.ini\ta recipe of one's own\n"
                "ckpt train my.ini --data DIR --set optimizer.lr=2e-3 --epochs 3\twith changes\n"
                "ckpt train mnist-cnn --data DIR --name profile --steps 100 --profile\twhere time goes\n",
    .options = OPTIONS,
    .exits = EXITS(0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 130),
    .words_min = 1,
    .words_max = 1,
    .group = GROUP_TRAINING,
    .completes = COMPLETES_PATHS,
    .run = cmd_train,
};
