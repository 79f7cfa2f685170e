/* Trains a preset through <ckpt/train.h>, or goes on with it: the example of docs/training.md.
 *
 *     cc training.c -o training $(pkg-config --cflags --libs ckpt-train ckpt)
 *     ./training STORE DATA EPOCHS
 *
 * Run it, stop it with Ctrl-C, run it again: it goes on where it was. */
#include <ckpt/store.h>
#include <ckpt/train.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t stop_requested;

static void on_signal(int number)
{
    (void)number;
    stop_requested = 1;
}

/* Called after each step; a non-zero return stops the training, which then saves its state. */
static int on_event(void *payload, const ckpt_training_event *event)
{
    (void)payload;
    switch (event->kind) {
    case CKPT_TRAINING_STARTED:
    case CKPT_TRAINING_NOTE:
    case CKPT_TRAINING_WARNING:
        printf("%s\n", event->text);
        break;
    case CKPT_TRAINING_STEPS:
        printf("step %" PRIu64 " of %" PRIu64 ": loss %.4f, %.0f images/s\n", event->step, event->steps, event->loss,
               event->images_per_s);
        break;
    case CKPT_TRAINING_EPOCH:
        printf("epoch %" PRIu64 " of %" PRIu64 ": validation accuracy %.4f%s\n", event->epoch + 1, event->epochs,
               event->val_accuracy, event->best ? ", the best so far" : "");
        break;
    case CKPT_TRAINING_BATCH:
    case CKPT_TRAINING_FINISHED:
        break;
    }
    return stop_requested;
}

/* Opens the newest state of the preset's run in the store, or begins at epoch 0 where there is none. */
static int open_training(ckpt_training **out, const ckpt_recipe *recipe, const ckpt_training_options *options,
                         ckpt_error *err)
{
    int rc = ckpt_training_resume(out, "mnist-cnn", NULL, options, err);

    if (rc == CKPT_ENOTFOUND)
        rc = ckpt_training_new(out, recipe, options, err);
    return rc;
}

int main(int argc, char **argv)
{
    ckpt_recipe *recipe = NULL;
    ckpt_training *training = NULL;
    ckpt_training_options options = CKPT_TRAINING_OPTIONS_INIT;
    ckpt_training_result result;
    ckpt_error err;
    bool existed;
    int rc;

    if (argc != 4) {
        fprintf(stderr, "usage: training STORE DATA EPOCHS\n");
        return 2;
    }
    options.store_path = argv[1];
    options.data = argv[2];
    options.epochs = argv[3]; /* for a resume; the recipe says it for a new one */
    options.event = on_event;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    rc = ckpt_store_init(&existed, argv[1], &err);
    if (!rc)
        rc = ckpt_recipe_open(&recipe, "mnist-cnn", &err);
    if (!rc)
        rc = ckpt_recipe_set(recipe, "run.epochs", argv[3], &err);
    if (!rc)
        rc = open_training(&training, recipe, &options, &err);
    if (!rc)
        rc = ckpt_training_run(&result, training, &err);
    if (!rc)
        printf("test accuracy %.4f after %" PRIu64 " steps; %" PRIu64 " checkpoints\n", result.test_accuracy,
               result.step, result.saves);
    else
        fprintf(stderr, "training: %s\n%s%s", err.message, err.hint, *err.hint ? "\n" : "");
    ckpt_training_free(training);
    ckpt_recipe_free(recipe);
    return ckpt_error_exit_status(rc);
}
