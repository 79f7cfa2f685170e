#include "training_fixture.h"

/* Trains the small recipe for an epoch; what it found out stands in f->result and the events. */
static void train(fixture *f)
{
    ckpt_recipe *const recipe = recipe_small();

    recipe_change(recipe, "run.epochs", "1");
    fixture_train(f, recipe);
    ckpt_recipe_free(recipe);
}

static int open_model(ckpt_model **out, fixture *f, const char *name, const char *data)
{
    const ckpt_model_options options = {
        .size = sizeof options, .store_path = f->root, .data = data, .event = fixture_event, .payload = f};

    return ckpt_model_open(out, name, &options, &f->err);
}

static void evaluation_gives_what_the_training_found(void **state)
{
    fixture *const f = *state;
    ckpt_model *model = NULL;
    ckpt_evaluation test, validation, training;

    train(f);
    assert_int_equal(open_model(&model, f, "latest", NULL), 0);
    MUST(ckpt_model_evaluate(&test, model, CKPT_SAMPLES_TEST, ERR));
    MUST(ckpt_model_evaluate(&validation, model, CKPT_SAMPLES_VALIDATION, ERR));
    MUST(ckpt_model_evaluate(&training, model, CKPT_SAMPLES_TRAIN, ERR));
    assert_int_equal(test.samples, 500);
    assert_true(test.accuracy == f->result.test_accuracy);
    assert_true(test.loss == f->last[CKPT_TRAINING_FINISHED].test_loss);
    assert_int_equal(validation.samples, 1910);
    assert_true(validation.accuracy == f->last[CKPT_TRAINING_EPOCH].val_accuracy);
    assert_int_equal(training.samples, 90);
    ckpt_model_free(model);
}

/* What predict tells, checked as it comes. */
typedef struct collector {
    uint64_t calls, correct, last_index;
    bool rising, sums, largest;
    uint64_t fail_at; /* this call fails */
} collector;

static int collect(void *payload, const ckpt_prediction *p, ckpt_error *err)
{
    collector *const c = payload;
    double sum = 0;
    bool largest = true;

    (void)err;
    for (size_t i = 0; i < p->class_count; i++) {
        sum += (double)p->probabilities[i];
        largest = largest && (double)p->probabilities[i] <= p->probability;
    }
    c->rising = c->calls == 0 || (c->rising && p->index > c->last_index);
    c->sums = (c->calls == 0 || c->sums) && fabs(sum - 1) < 1e-5;
    c->largest = (c->calls == 0 || c->largest) && largest && (double)p->probabilities[p->class_index] == p->probability;
    c->last_index = p->index;
    c->correct += p->label == p->class_index;
    return ++c->calls == c->fail_at ? CKPT_EIO : 0;
}

static void predictions_are_those_that_were_counted(void **state)
{
    static const ckpt_samples SAMPLES[] = {CKPT_SAMPLES_TEST, CKPT_SAMPLES_VALIDATION, CKPT_SAMPLES_TRAIN};
    fixture *const f = *state;
    ckpt_model *model = NULL;

    train(f);
    assert_int_equal(open_model(&model, f, "small-final", NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        collector c = {0};
        ckpt_evaluation e;
        MUST(ckpt_model_evaluate(&e, model, SAMPLES[i], ERR));
        MUST(ckpt_model_predict(model, SAMPLES[i], collect, &c, ERR));
        assert_int_equal(c.calls, e.samples);
        assert_int_equal(c.correct, e.correct);
        assert_true(c.rising && c.sums && c.largest);
    }
    ckpt_model_free(model);
}

static void a_prediction_that_fails_ends_it(void **state)
{
    fixture *const f = *state;
    ckpt_model *model = NULL;
    collector c = {.fail_at = 3};

    train(f);
    assert_int_equal(open_model(&model, f, "latest", NULL), 0);
    assert_int_equal(ckpt_model_predict(model, CKPT_SAMPLES_TEST, collect, &c, NULL), CKPT_EIO);
    assert_int_equal(c.calls, 3);
    ckpt_model_free(model);
}

static void an_evaluation_can_be_stopped_and_made_again(void **state)
{
    fixture *const f = *state;
    ckpt_model *model = NULL;
    ckpt_evaluation e;

    train(f);
    assert_int_equal(open_model(&model, f, "latest", NULL), 0);
    f->stop_at = 0;
    assert_int_equal(ckpt_model_evaluate(&e, model, CKPT_SAMPLES_TEST, &f->err), CKPT_EINTERRUPTED);
    assert_string_equal(f->err.message, "stopped after 8 of 500 samples");
    f->stop_at = NEVER;
    MUST(ckpt_model_evaluate(&e, model, CKPT_SAMPLES_TEST, ERR));
    assert_int_equal(e.samples, 500);
    ckpt_model_free(model);
}

static void a_restored_file_is_a_model_too(void **state)
{
    fixture *const f = *state;
    char path[TEMP_PATH_MAX + 64];
    const ckpt_restore_options elsewhere = {.size = sizeof elsewhere, .dir = f->root};
    ckpt_store *store = NULL;
    ckpt_model *model = NULL;
    ckpt_evaluation e;

    train(f);
    MUST(ckpt_store_open(&store, f->root, NULL, ERR));
    MUST(ckpt_restore_files(NULL, store, "latest", &elsewhere, ERR));
    ckpt_store_close(store);
    snprintf(path, sizeof path, "%s/small/state.safetensors", f->root);

    assert_int_equal(open_model(&model, f, path, NULL), CKPT_EUSAGE); /* it does not know where its data are */
    assert_int_equal(open_model(&model, f, path, FASHION), 0);
    MUST(ckpt_model_evaluate(&e, model, CKPT_SAMPLES_TEST, ERR));
    assert_true(e.accuracy == f->result.test_accuracy);
    ckpt_model_free(model);
}

static void other_data_have_no_samples_of_the_training(void **state)
{
    fixture *const f = *state;
    ckpt_model *model = NULL;
    ckpt_evaluation e;

    train(f);
    assert_int_equal(open_model(&model, f, "latest", GOLDEN_DIR "/fashion-20"), 0);
    MUST(ckpt_model_evaluate(&e, model, CKPT_SAMPLES_TEST, ERR));
    assert_int_equal(e.samples, 10);
    assert_int_equal(ckpt_model_evaluate(&e, model, CKPT_SAMPLES_VALIDATION, NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_model_evaluate(&e, model, CKPT_SAMPLES_TRAIN, NULL), CKPT_EUSAGE);
    ckpt_model_free(model);
}

static void what_is_no_state_of_a_training_is_refused(void **state)
{
    fixture *const f = *state;
    float numbers[4] = {0};
    const ckpt_tensor tensor = {.name = "weight", .dtype = CKPT_F32, .rank = 1, .shape = {4}, .data = numbers};
    ckpt_store *store = NULL;
    ckpt_model *model = NULL;

    MUST(ckpt_store_open(&store, f->root, NULL, ERR));
    MUST(ckpt_save_tensors(NULL, store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    ckpt_store_close(store);
    assert_int_equal(open_model(&model, f, "latest", FASHION), CKPT_EUSAGE);
    assert_int_equal(open_model(&model, f, "nothing", FASHION), CKPT_ENOTFOUND);
    assert_null(model);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(evaluation_gives_what_the_training_found),
        TEST(predictions_are_those_that_were_counted),
        TEST(a_prediction_that_fails_ends_it),
        TEST(an_evaluation_can_be_stopped_and_made_again),
        TEST(a_restored_file_is_a_model_too),
        TEST(other_data_have_no_samples_of_the_training),
        TEST(what_is_no_state_of_a_training_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
