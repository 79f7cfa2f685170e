#include "training_fixture.h"

#include "file.h"

#include <stdlib.h>
#include <sys/wait.h>

/* The beginnings of the files `digest` of both data sets. */
#define DIGEST_20   "15887378d65f7273"
#define DIGEST_2000 "e2c6d033e6b2fded"

/* ---- What cannot be begun ---- */

static int begin(fixture *f, const char *data, bool restart)
{
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(f);
    ckpt_recipe *const recipe = recipe_small();

    options.data = data;
    options.restart = restart;
    const int rc = ckpt_training_new(&training, recipe, &options, &f->err);
    ckpt_training_free(training);
    ckpt_recipe_free(recipe);
    return rc;
}

static int resume(fixture *f, const char *name, const ckpt_recipe *recipe, const char *data, const char *epochs)
{
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(f);

    options.data = data;
    options.epochs = epochs;
    const int rc = ckpt_training_resume(&training, name, recipe, &options, &f->err);
    ckpt_training_free(training);
    return rc;
}

/* Trains the small recipe to `step`. */
static void train_to(fixture *f, uint64_t step)
{
    ckpt_recipe *const recipe = recipe_small();

    f->stop_at = step;
    fixture_train(f, recipe);
    f->stop_at = NEVER;
    ckpt_recipe_free(recipe);
}

static void without_data_it_is_refused(void **state)
{
    fixture *const f = *state;

    assert_int_equal(begin(f, NULL, false), CKPT_EUSAGE);
    assert_string_equal(f->err.message, "no data are given");
    assert_non_null(strstr(f->err.hint, "--data"));
}

static void data_that_are_not_there_are_not_found(void **state)
{
    assert_int_equal(begin(*state, "/nowhere", false), CKPT_ENOTFOUND);
}

static void without_a_store_it_is_refused(void **state)
{
    fixture *const f = *state;
    char inside[TEMP_PATH_MAX + 16], store[TEMP_PATH_MAX + 16];

    snprintf(store, sizeof store, "%s/.ckpt", f->root);
    snprintf(inside, sizeof inside, "%s/moved", f->root);
    assert_int_equal(rename(store, inside), 0);
    assert_int_equal(begin(f, FASHION, false), CKPT_ENOSTORE);
}

static void a_run_that_exists_is_not_begun_again(void **state)
{
    fixture *const f = *state;

    train_to(f, 1);
    assert_int_equal(begin(f, FASHION, false), CKPT_EUSAGE);
    assert_string_equal(f->err.message, "the store has checkpoints of run small already");
    assert_non_null(strstr(f->err.hint, "`ckpt resume small`"));
    assert_int_equal(begin(f, FASHION, true), 0);
}

static void a_run_is_trained_by_one(void **state)
{
    fixture *const f = *state;
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(f);
    ckpt_recipe *const recipe = recipe_small();

    options.data = FASHION;
    MUST(ckpt_training_new(&training, recipe, &options, ERR));
    assert_int_equal(begin(f, FASHION, false), CKPT_EBUSY);
    ckpt_training_free(training);
    assert_int_equal(begin(f, FASHION, false), 0);
    ckpt_recipe_free(recipe);
}

static void options_of_another_size_are_refused(void **state)
{
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(*state);

    options.size--;
    assert_int_equal(ckpt_training_resume(&training, NULL, NULL, &options, NULL), CKPT_EUSAGE);
    assert_null(training);
}

static void a_training_runs_once(void **state)
{
    fixture *const f = *state;
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(f);
    ckpt_recipe *const recipe = recipe_small();

    options.data = FASHION;
    options.steps = "1";
    MUST(ckpt_training_new(&training, recipe, &options, ERR));
    MUST(ckpt_training_run(NULL, training, ERR));
    assert_int_equal(ckpt_training_run(NULL, training, NULL), CKPT_EUSAGE);
    ckpt_training_free(training);
    ckpt_recipe_free(recipe);
}

/* ---- What cannot be resumed ---- */

static void nothing_to_resume_is_not_found(void **state)
{
    fixture *const f = *state;

    assert_int_equal(resume(f, NULL, NULL, NULL, NULL), CKPT_ENOTFOUND);
    train_to(f, 1);
    assert_int_equal(resume(f, "other", NULL, NULL, NULL), CKPT_ENOTFOUND);
    assert_int_equal(resume(f, "small", NULL, NULL, NULL), 0);
}

static void another_recipe_is_refused(void **state)
{
    fixture *const f = *state;
    ckpt_recipe *const recipe = recipe_small();

    train_to(f, 1);
    recipe_change(recipe, "checkpoint.every", "7");
    recipe_change(recipe, "run.epochs", "3");
    assert_int_equal(resume(f, NULL, recipe, NULL, NULL), 0);
    recipe_change(recipe, "optimizer.lr", "0.002");
    assert_int_equal(resume(f, NULL, recipe, NULL, NULL), CKPT_EUSAGE);
    assert_non_null(strstr(f->err.message, "optimizer.lr was 0.001, now 0.002"));
    ckpt_recipe_free(recipe);
}

static void other_data_are_refused(void **state)
{
    fixture *const f = *state;

    train_to(f, 1);
    assert_int_equal(resume(f, NULL, NULL, GOLDEN_DIR "/fashion-20", NULL), CKPT_EUSAGE);
    assert_non_null(strstr(f->err.message, "fashion-20 holds other data than the run's: digest "));
    assert_non_null(strstr(f->err.message, DIGEST_20 ", not " DIGEST_2000));
}

static void data_that_moved_are_asked_for(void **state)
{
    fixture *const f = *state;

    train_to(f, 1);
    assert_int_equal(resume(f, NULL, NULL, "/nowhere", NULL), CKPT_EUSAGE); /* the run is there */
    assert_int_equal(resume(f, NULL, NULL, FASHION, NULL), 0);
}

static void a_run_is_not_taken_back(void **state)
{
    fixture *const f = *state;
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(f);

    train_to(f, EPOCH_STEPS + 1);
    assert_int_equal(resume(f, NULL, NULL, NULL, "1"), CKPT_EUSAGE);
    assert_string_equal(f->err.message, "run small is in epoch 2 already, beyond run.epochs 1");
    options.steps = "12";
    assert_int_equal(ckpt_training_resume(&training, NULL, NULL, &options, &f->err), CKPT_EUSAGE);
    assert_string_equal(f->err.message, "run small is at step 13 already, beyond run.steps 12");
    assert_string_equal(f->err.hint, "a run only goes on: give more, or begin another with `ckpt train --name NAME`");
}

/* ---- How a run begins and goes on ---- */

static void the_newest_run_is_resumed_when_none_is_named(void **state)
{
    fixture *const f = *state;
    ckpt_recipe *const recipe = recipe_small();

    train_to(f, 2);
    recipe_change(recipe, "run.name", "second");
    f->stop_at = 1;
    fixture_train(f, recipe);
    f->stop_at = 3;
    fixture_resume(f, NULL);
    assert_string_equal(f->text[CKPT_TRAINING_STARTED], "resumed second in epoch 1 of 2, at step 1 of 24 (identical)");
    ckpt_recipe_free(recipe);
}

/* A process that ends without a word at the second step of a training that was begun anew. */
static int die_at_step_two(void *payload, const ckpt_training_event *event)
{
    (void)payload;
    if (event->step == 2)
        _exit(0);
    return 0;
}

static void restart_and_die(const fixture *f)
{
    ckpt_training *training = NULL;
    ckpt_training_options options = CKPT_TRAINING_OPTIONS_INIT;
    ckpt_recipe *const recipe = recipe_small();

    options.store_path = f->root;
    options.data = FASHION;
    options.restart = true;
    options.event = die_at_step_two;
    if (ckpt_training_new(&training, recipe, &options, NULL) == 0)
        ckpt_training_run(NULL, training, NULL);
    _exit(1);
}

static void a_restart_leaves_the_old_checkpoints_behind(void **state)
{
    fixture *const f = *state;
    int status;

    train_to(f, EVERY + 1);
    const pid_t child = fork();
    if (child == 0)
        restart_and_die(f);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    f->stop_at = 1;
    fixture_resume(f, NULL);
    assert_string_equal(f->text[CKPT_TRAINING_STARTED], "resumed small in epoch 1 of 2, at step 0 of 24 (identical)");
}

static void threads_are_taken_again_or_named(void **state)
{
    fixture *const f = *state;
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(f);
    ckpt_recipe *const recipe = recipe_small();

    recipe_change(recipe, "run.backend", "cpu");
    options.data = FASHION;
    options.threads = 1;
    f->stop_at = 1;
    MUST(ckpt_training_new(&training, recipe, &options, ERR));
    fixture_run(f, training);
    f->stop_at = 2;
    fixture_resume(f, NULL);
    assert_string_equal(f->text[CKPT_TRAINING_STARTED], "resumed small in epoch 1 of 2, at step 1 of 24 (identical)");

    options.data = NULL;
    options.threads = 2;
    MUST(ckpt_training_resume(&training, NULL, NULL, &options, ERR));
    fixture_run(f, training);
    assert_string_equal(f->text[CKPT_TRAINING_STARTED],
                        "resumed small in epoch 1 of 2, at step 2 of 24 (equivalent: threads 2 instead of 1)");
    ckpt_recipe_free(recipe);
}

static void a_stop_says_where_and_that_it_is_saved(void **state)
{
    fixture *const f = *state;

    train_to(f, 7);
    assert_string_equal(f->err.message, "stopped at step 7 of 24, saved");
    assert_string_equal(f->err.hint, "`ckpt resume` goes on");
    assert_int_equal(f->result.step, 7);
    assert_int_equal(f->result.epoch, 0);
    assert_true(isnan(f->result.test_accuracy));
}

/* Else the seconds since the line before would be lost to the next training. */
static void a_stop_has_a_line_in_the_log(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    char *text = NULL;
    size_t size;

    train_to(f, 7);
    MUST(path_join(path, f->root, ".ckpt/runs/small.jsonl", ERR));
    MUST(file_read_all(&text, &size, path, 1u << 20, ERR));
    assert_non_null(strstr(text, "\"event\":\"note\",\"epoch\":0,\"step\":7,"));
    assert_non_null(strstr(text, "\"text\":\"stopped\""));
    free(text);
}

/* ---- How it ends ---- */

static void a_finished_run_says_so(void **state)
{
    fixture *const f = *state;
    ckpt_recipe *const recipe = recipe_small();

    fixture_train(f, recipe);
    const ckpt_training_result first = f->result;
    assert_int_equal(f->events[CKPT_TRAINING_FINISHED], 1);
    assert_true(f->last[CKPT_TRAINING_FINISHED].test_accuracy == first.test_accuracy);

    fixture_resume(f, NULL);
    assert_int_equal(f->events[CKPT_TRAINING_NOTE], 1);
    assert_non_null(strstr(f->text[CKPT_TRAINING_NOTE], "run small is finished, at step 24"));
    assert_int_equal(f->events[CKPT_TRAINING_FINISHED], 1); /* not a second time */
    assert_int_equal(f->result.step, 24);
    assert_int_equal(f->result.saves, 0);
    assert_true(fabs(f->result.test_accuracy - first.test_accuracy) < 1e-6);
    ckpt_recipe_free(recipe);
}

static void a_run_stops_after_its_steps_and_can_go_on(void **state)
{
    fixture *const f = *state;
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(f);
    ckpt_recipe *const recipe = recipe_small();

    recipe_change(recipe, "run.steps", "7");
    fixture_train(f, recipe);
    assert_int_equal(f->result.step, 7);
    assert_int_equal(f->events[CKPT_TRAINING_EPOCH], 0);
    assert_int_equal(f->events[CKPT_TRAINING_FINISHED], 1);

    options.steps = "12"; /* the end of an epoch, which is validated */
    MUST(ckpt_training_resume(&training, NULL, NULL, &options, ERR));
    fixture_run(f, training);
    assert_int_equal(f->result.step, 12);
    assert_int_equal(f->events[CKPT_TRAINING_EPOCH], 1);
    assert_int_equal(f->events[CKPT_TRAINING_FINISHED], 2);
    ckpt_recipe_free(recipe);
}

#define CONV_FOUR "conv 2 1x1, conv 2 1x1, conv 2 1x1, conv 2 1x1, "

static void numbers_that_go_bad_stop_it(void **state)
{
    fixture *const f = *state;
    char sha[CKPT_ID_SIZE];
    ckpt_training *training = NULL;
    ckpt_training_options options = fixture_options(f);
    ckpt_recipe *const recipe = recipe_small();

    recipe_change(recipe, "optimizer.lr", "1000"); /* and so are the weights then: products of many overflow */
    recipe_change(recipe, "checkpoint.every", "1");
    recipe_change(recipe, "net.layers", "maxpool 4, " CONV_FOUR CONV_FOUR CONV_FOUR CONV_FOUR "flatten, dense 10");
    options.data = FASHION;
    MUST(ckpt_training_new(&training, recipe, &options, ERR));
    assert_int_equal(ckpt_training_run(&f->result, training, &f->err), CKPT_EDIFFER);
    assert_non_null(strstr(f->err.message, " at step 2: "));
    assert_string_equal(f->err.hint, "the last good checkpoint is step:1; a lower optimizer.lr may help");
    assert_int_equal(f->result.step, 1);
    ckpt_training_free(training);
    fixture_sha(sha, f, 1); /* nothing newer was saved */
    ckpt_recipe_free(recipe);
}

/* ---- What is kept ---- */

/* A column of the history of the newest checkpoint; returns its length. */
static size_t history(void *rows, size_t room, const fixture *f, const char *name)
{
    ckpt_store *store = NULL;
    ckpt_content *content = NULL;
    size_t i = 0;

    MUST(ckpt_store_open(&store, f->root, NULL, ERR));
    MUST(ckpt_content_open(&content, store, "latest", ERR));
    while (strcmp(ckpt_content_tensor(content, i)->name, name) != 0)
        i++;
    const size_t count = (size_t)ckpt_content_tensor(content, i)->shape[0];
    assert_in_range(count, 1, room);
    MUST(ckpt_content_read(rows, content, i, 0, count, ERR));
    ckpt_content_close(content);
    ckpt_store_close(store);
    return count;
}

static void the_history_has_a_row_for_each_line_and_epoch(void **state)
{
    static const int64_t STEPS[] = {4, 8, 12, 12, 16, 20, 24, 24};
    fixture *const f = *state;
    int64_t steps[16];
    double losses[16], accuracies[16];
    ckpt_recipe *const recipe = recipe_small();

    recipe_change(recipe, "checkpoint.every", "4"); /* the third line is at the end of an epoch */
    fixture_train(f, recipe);
    assert_int_equal(history(steps, 16, f, "history.step"), 8);
    assert_memory_equal(steps, STEPS, sizeof STEPS);
    assert_int_equal(history(accuracies, 16, f, "history.val_accuracy"), 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(isnan(accuracies[i]), i != 3 && i != 7);
    assert_true(accuracies[7] == f->last[CKPT_TRAINING_EPOCH].val_accuracy);
    assert_int_equal(history(losses, 16, f, "history.loss"), 8);
    assert_true(losses[6] == f->last[CKPT_TRAINING_STEPS].loss && losses[7] == f->last[CKPT_TRAINING_EPOCH].loss);
    /* The loss of an epoch is the mean of its three lines, of 32, 32 and 26 samples. */
    assert_true(fabs(losses[3] - (32 * losses[0] + 32 * losses[1] + 26 * losses[2]) / 90) < 1e-12);
    ckpt_recipe_free(recipe);
}

static void the_best_is_the_best_of_all_epochs(void **state)
{
    fixture *const f = *state;
    double accuracies[32], best = 0, last = 0;
    ckpt_recipe *const recipe = recipe_small();

    recipe_change(recipe, "run.epochs", "5");
    recipe_change(recipe, "optimizer.lr", "0.02"); /* so large that the last epoch makes it worse */
    recipe_change(recipe, "checkpoint.every", "0");
    fixture_train(f, recipe);
    assert_int_equal(history(accuracies, 32, f, "history.val_accuracy"), 5);
    for (size_t i = 0; i < 5; i++) {
        last = accuracies[i];
        best = last > best ? last : best;
    }
    assert_true(last < best);
    assert_true(f->result.best_val_accuracy == best);
    assert_false(f->last[CKPT_TRAINING_EPOCH].best);
    ckpt_recipe_free(recipe);
}

static void without_validation_there_is_no_best(void **state)
{
    fixture *const f = *state;
    ckpt_recipe *const recipe = recipe_small();

    recipe_change(recipe, "data.validation", "0");
    recipe_change(recipe, "data.batch", "500");
    recipe_change(recipe, "checkpoint.keep", "last 3");
    fixture_train(f, recipe);
    assert_int_equal(f->result.step, 8);
    assert_true(isnan(f->result.best_val_accuracy));
    assert_true(isnan(f->last[CKPT_TRAINING_EPOCH].val_accuracy));
    assert_false(f->last[CKPT_TRAINING_EPOCH].best);
    ckpt_recipe_free(recipe);
}

static void a_checkpoint_at_the_end_of_an_epoch_is_made_once(void **state)
{
    fixture *const f = *state;
    ckpt_recipe *const recipe = recipe_small();

    recipe_change(recipe, "checkpoint.every", "4");
    fixture_train(f, recipe);
    /* 4, 8, 12 with its validation, 16, 20, 24 with its validation, and the last. */
    assert_int_equal(f->result.saves + f->result.saves_skipped, 7);
    assert_int_equal(f->result.saves_failed, 0);
    ckpt_recipe_free(recipe);
}

static const char *meta_of(const ckpt_info *info, const char *key)
{
    for (size_t i = 0; i < info->meta_count; i++)
        if (strcmp(info->meta[i].key, key) == 0)
            return info->meta[i].value;
    return NULL;
}

static void the_last_checkpoint_is_tagged_and_knows_the_test(void **state)
{
    fixture *const f = *state;
    ckpt_store *store = NULL;
    ckpt_content *content = NULL;
    ckpt_recipe *const recipe = recipe_small();

    fixture_train(f, recipe);
    MUST(ckpt_store_open(&store, f->root, NULL, ERR));
    MUST(ckpt_content_open(&content, store, "small-final", ERR));
    const ckpt_info *const info = ckpt_content_info(content);
    assert_int_equal(info->step, 24);
    assert_string_equal(meta_of(info, "reason"), "final");
    assert_string_equal(meta_of(info, "run"), "small");
    assert_true(fabs(strtod(meta_of(info, "test_acc"), NULL) - f->result.test_accuracy) < 1e-6);
    ckpt_content_close(content);
    ckpt_store_close(store);
    ckpt_recipe_free(recipe);
}

/* ---- Where the time went, and what it was built with ---- */

static void profile_rows(fixture *f, ckpt_profile_row *rows, size_t count, ckpt_training **training)
{
    ckpt_training_options options = fixture_options(f);
    ckpt_recipe *const recipe = recipe_small();

    options.data = FASHION;
    options.profile = true;
    recipe_change(recipe, "run.epochs", "1");
    MUST(ckpt_training_new(training, recipe, &options, ERR));
    MUST(ckpt_training_run(NULL, *training, ERR));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ckpt_training_profile_row(&rows[i], *training, i), 0);
    assert_int_equal(ckpt_training_profile_row(&rows[0], *training, count), CKPT_ENOTFOUND);
    ckpt_recipe_free(recipe);
}

static void the_profile_counts_every_step(void **state)
{
    static const char *const NAMES[] = {"maxpool1", "conv1", "relu1",  "flatten1", "dense1",
                                        "loss",     "adam",  "gather", "save",     "validation"};
    ckpt_profile_row rows[10];
    ckpt_training *training = NULL;

    profile_rows(*state, rows, 10, &training);
    for (size_t i = 1; i < 10; i++)
        assert_string_equal(rows[i].name, NAMES[i]);
    for (size_t i = 1; i < 8; i++)
        assert_int_equal(rows[i].calls, EPOCH_STEPS); /* the short batch too */
    assert_int_equal(rows[8].calls, 4);               /* 5, 10, 12, and the last */
    assert_int_equal(rows[9].calls, 2);               /* and the test */
    /* Multiply-adds of 90 samples with a matrix of 50 x 10: forward, and backward for weights and input. */
    assert_true(rows[4].flops >= 90.0 * 50 * 10 * 2 * 3);
    ckpt_training_free(training);
}

static void versions_are_told(void **state)
{
    (void)state;
    assert_string_equal(ckpt_train_version(), ckpt_version());
    assert_non_null(strstr(ckpt_train_built_with(), "oneDNN "));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(without_data_it_is_refused),
        TEST(data_that_are_not_there_are_not_found),
        TEST(without_a_store_it_is_refused),
        TEST(a_run_that_exists_is_not_begun_again),
        TEST(a_run_is_trained_by_one),
        TEST(options_of_another_size_are_refused),
        TEST(a_training_runs_once),
        TEST(nothing_to_resume_is_not_found),
        TEST(another_recipe_is_refused),
        TEST(other_data_are_refused),
        TEST(data_that_moved_are_asked_for),
        TEST(a_run_is_not_taken_back),
        TEST(the_newest_run_is_resumed_when_none_is_named),
        TEST(a_restart_leaves_the_old_checkpoints_behind),
        TEST(threads_are_taken_again_or_named),
        TEST(a_stop_says_where_and_that_it_is_saved),
        TEST(a_stop_has_a_line_in_the_log),
        TEST(a_finished_run_says_so),
        TEST(a_run_stops_after_its_steps_and_can_go_on),
        TEST(numbers_that_go_bad_stop_it),
        TEST(the_history_has_a_row_for_each_line_and_epoch),
        TEST(the_best_is_the_best_of_all_epochs),
        TEST(without_validation_there_is_no_best),
        TEST(a_checkpoint_at_the_end_of_an_epoch_is_made_once),
        TEST(the_last_checkpoint_is_tagged_and_knows_the_test),
        TEST(the_profile_counts_every_step),
        TEST(versions_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
