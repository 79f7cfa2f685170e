#include "trainer_fixture.h"

#include "file.h"

#include <math.h>
#include <stdio.h>

#define COLUMNS     4
#define NEAR        1e-5 /* fp32 against double, of losses near 2 */
#define NEAR_WEIGHT 2e-5 /* after nine updates of 0.01 */

static int setup(void **given)
{
    *given = calloc(1, sizeof(trainer_fixture));
    return *given ? 0 : -1;
}

static int teardown(void **given)
{
    trainer_end(*given);
    free(*given);
    return 0;
}

/* ---- Against PyTorch ---- */

static size_t param_index(const net *n, const char *name)
{
    size_t i = 0;
    while (i < n->param_count && strcmp(n->params[i].name, name) != 0)
        i++;
    assert_in_range(i, 0, n->param_count - 1);
    return i;
}

static void expect_near(const char *what, const char *which, double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%s %s: %.9g instead of %.9g", what, which, found, expected);
}

static void step_compare(trainer *t, char *const *columns)
{
    state *const s = &t->state;
    const double loss_before = s->loss_sum;
    const uint64_t right_before = s->correct, seen_before = s->seen;

    MUST(trainer_step(t, ERR));
    assert_int_equal(s->step, strtoul(columns[1], NULL, 10));
    expect_near("loss of step", columns[1], (s->loss_sum - loss_before) / (double)(s->seen - seen_before),
                strtod(columns[2], NULL), NEAR);
    assert_int_equal(s->correct - right_before, strtoul(columns[3], NULL, 10));
}

static void validation_compare(trainer *t, char *const *columns)
{
    ckpt_evaluation e;
    report unheard = {0};

    assert_true(trainer_epoch_is_over(t));
    MUST(trainer_evaluate(&e, t, CKPT_SAMPLES_VALIDATION, &unheard, ERR));
    assert_int_equal(e.samples, 5);
    expect_near("loss of validation", columns[1], e.loss, strtod(columns[2], NULL), NEAR);
    assert_int_equal(e.correct, strtoul(columns[3], NULL, 10));
    t->state.epoch++;
    t->state.position = 0;
}

static void weight_compare(const trainer *t, char *const *columns)
{
    const param *const p = &t->net->params[param_index(t->net, columns[1])];

    expect_near(columns[1], columns[2], (double)t->state.weights[p->offset + strtoul(columns[2], NULL, 10)],
                strtod(columns[3], NULL), NEAR_WEIGHT);
}

static void three_epochs_are_those_of_pytorch(void **given)
{
    trainer_fixture *const f = *given;
    const recipe_values values = values_small();
    char *text = NULL, *line, *next, *columns[COLUMNS];
    size_t size, rows = 0;

    trainer_begin(f, &values, false);
    MUST(file_read_all(&text, &size, GOLDEN_DIR "/expected/training.txt", (size_t)1 << 16, ERR));
    for (next = text; (line = strsep(&next, "\n")) && *line; rows++) {
        for (size_t i = 0; i < COLUMNS; i++)
            columns[i] = strsep(&line, "\t");
        if (strcmp(columns[0], "step") == 0)
            step_compare(&f->trainer, columns);
        else if (strcmp(columns[0], "validation") == 0)
            validation_compare(&f->trainer, columns);
        else
            weight_compare(&f->trainer, columns);
    }
    assert_true(rows > 9 + 3 + 70);
    free(text);
}

/* ---- Epochs ---- */

static void the_last_batch_is_short(void **given)
{
    trainer_fixture *const f = *given;
    const recipe_values values = values_small();

    trainer_begin(f, &values, false);
    assert_int_equal(trainer_epoch_samples(&f->trainer), 15);
    assert_int_equal(trainer_steps_total(&f->trainer), 9);
    for (uint64_t position = BATCH; position <= 12; position += BATCH) {
        MUST(trainer_step(&f->trainer, ERR));
        assert_int_equal(f->trainer.state.position, position);
        assert_false(trainer_epoch_is_over(&f->trainer));
    }
    MUST(trainer_step(&f->trainer, ERR));
    assert_int_equal(f->trainer.state.position, 15);
    assert_int_equal(f->trainer.state.seen, 15);
    assert_true(trainer_epoch_is_over(&f->trainer));
}

static void drop_last_leaves_the_short_batch_out(void **given)
{
    trainer_fixture *const f = *given;
    recipe_values values = values_small();

    values.drop_last = true;
    values.steps = 5;
    trainer_begin(f, &values, false);
    assert_int_equal(trainer_epoch_samples(&f->trainer), 12);
    assert_int_equal(trainer_steps_total(&f->trainer), 5);
    MUST(trainer_step(&f->trainer, ERR));
    MUST(trainer_step(&f->trainer, ERR));
    assert_true(trainer_epoch_is_over(&f->trainer));
}

static void a_batch_may_be_larger_than_the_data(void **given)
{
    trainer_fixture *const f = *given;
    recipe_values values = values_small();

    values.batch = 64;
    trainer_begin(f, &values, false);
    assert_int_equal(trainer_steps_total(&f->trainer), 3);
    MUST(trainer_step(&f->trainer, ERR));
    assert_true(trainer_epoch_is_over(&f->trainer));
    assert_int_equal(f->trainer.state.seen, 15);
}

static void open_fails(trainer_fixture *f, const recipe_values *values, const char *message, const char *hint)
{
    const backend_options options = {0};
    dataset *data = NULL;
    ckpt_error err = {0};

    MUST(backend_new(&f->backend, "reference", &options, ERR));
    MUST(dataset_open(&data, GOLDEN_DIR "/fashion-20", 10, ERR));
    assert_int_equal(trainer_open(&f->trainer, values, f->backend, data, false, &err), CKPT_EUSAGE);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
}

static void no_whole_batch_with_drop_last_is_refused(void **given)
{
    recipe_values values = values_small();

    values.drop_last = true;
    values.batch = 16;
    open_fails(*given, &values, "data.batch 16 with data.drop_last leaves none of 15 samples",
               "set data.drop_last = no, or data.batch to at most 15");
}

static void nothing_left_to_train_with_is_refused(void **given)
{
    recipe_values values = values_small();

    values.validation = 0.99;
    open_fails(*given, &values, "data.validation 0.99 holds back all of 20 samples",
               "set a smaller data.validation, or data.validate = test");
}

static void a_network_without_weights_is_refused(void **given)
{
    recipe_values values = values_small();

    memcpy(values.layers, "maxpool 28, flatten", sizeof "maxpool 28, flatten");
    values.classes = 1; /* what the net gives; labels are checked when data are opened */
    open_fails(*given, &values, "net.layers has nothing that could be trained", "put `dense 1` behind it");
}

/* ---- Evaluation ---- */

static ckpt_evaluation evaluated(trainer_fixture *f, const recipe_values *values, ckpt_samples which)
{
    ckpt_evaluation e;
    report unheard = {0};

    trainer_begin(f, values, false);
    MUST(trainer_evaluate(&e, &f->trainer, which, &unheard, ERR));
    trainer_end(f);
    return e;
}

static void evaluation_does_not_depend_on_the_batch(void **given)
{
    recipe_values values = values_small();
    const ckpt_evaluation filled_up = evaluated(*given, &values, CKPT_SAMPLES_TRAIN);

    values.batch = 1;
    const ckpt_evaluation one_by_one = evaluated(*given, &values, CKPT_SAMPLES_TRAIN);
    assert_int_equal(filled_up.samples, 15);
    assert_int_equal(filled_up.correct, one_by_one.correct);
    expect_near("loss", "", filled_up.loss, one_by_one.loss, 1e-9);
}

static void validation_may_be_on_the_test_set(void **given)
{
    recipe_values values = values_small();

    values.validate = VALIDATE_TEST;
    values.validation = 0;
    const ckpt_evaluation validation = evaluated(*given, &values, CKPT_SAMPLES_VALIDATION);
    const ckpt_evaluation test = evaluated(*given, &values, CKPT_SAMPLES_TEST);
    assert_int_equal(validation.samples, 10);
    assert_true(validation.loss == test.loss);
    assert_int_equal(evaluated(*given, &values, CKPT_SAMPLES_TRAIN).samples, 20);
}

static void nothing_held_back_has_no_accuracy(void **given)
{
    recipe_values values = values_small();

    values.validation = 0;
    const ckpt_evaluation e = evaluated(*given, &values, CKPT_SAMPLES_VALIDATION);
    assert_int_equal(e.samples, 0);
    assert_true(isnan(e.loss) && isnan(e.accuracy));
}

static int stop_at_once(void *payload, const ckpt_training_event *event)
{
    (void)payload, (void)event;
    return 1;
}

static void evaluation_can_be_stopped(void **given)
{
    trainer_fixture *const f = *given;
    const recipe_values values = values_small();
    report listener = {.event = stop_at_once};
    ckpt_evaluation e;

    trainer_begin(f, &values, false);
    assert_int_equal(trainer_evaluate(&e, &f->trainer, CKPT_SAMPLES_TRAIN, &listener, NULL), CKPT_EINTERRUPTED);
}

/* ---- What goes wrong ---- */

static void step_fails(trainer *t, const char *message)
{
    ckpt_error err = {0};

    assert_int_equal(trainer_step(t, &err), CKPT_EDIFFER);
    assert_string_equal(err.message, message);
    assert_int_equal(t->state.step, 0);
    assert_int_equal(t->state.position, 0);
    assert_int_equal(t->state.seen, 0);
    assert_true(t->state.loss_sum == 0);
}

static float *param_values(trainer *t, const char *name)
{
    return t->state.weights + t->net->params[param_index(t->net, name)].offset;
}

static void a_weight_that_is_no_number_is_named(void **given)
{
    trainer_fixture *const f = *given;
    const recipe_values values = values_small();

    trainer_begin(f, &values, false);
    float *const other = param_values(&f->trainer, "conv1.weight"), before = other[0];
    param_values(&f->trainer, "dense1.weight")[5] = NAN;
    step_fails(&f->trainer, "loss is nan at step 1: dense1.weight holds NaN at element 5");
    assert_true(other[0] == before); /* no update was made */
}

static void a_value_that_is_too_large_is_named_when_all_weights_are_fine(void **given)
{
    trainer_fixture *const f = *given;
    const recipe_values values = values_small();

    trainer_begin(f, &values, false);
    for (size_t i = 0; i < 9; i++)
        param_values(&f->trainer, "conv1.weight")[i] = 3e38f;
    ckpt_error err = {0};
    assert_int_equal(trainer_step(&f->trainer, &err), CKPT_EDIFFER);
    if (!strstr(err.message, " at step 1: all weights are finite, the output of conv1"))
        fail_msg("%s", err.message);
}

static void an_update_that_breaks_a_weight_is_refused(void **given)
{
    trainer_fixture *const f = *given;
    recipe_values values = values_small();
    ckpt_error err = {0};

    values.lr = 1e39; /* beyond fp32 */
    trainer_begin(f, &values, false);
    assert_int_equal(trainer_step(&f->trainer, &err), CKPT_EDIFFER);
    assert_non_null(strstr(err.message, "update is not finite at step 1: conv1.weight holds "));
    assert_int_equal(f->trainer.state.step, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(three_epochs_are_those_of_pytorch),
        TEST(the_last_batch_is_short),
        TEST(drop_last_leaves_the_short_batch_out),
        TEST(a_batch_may_be_larger_than_the_data),
        TEST(no_whole_batch_with_drop_last_is_refused),
        TEST(nothing_left_to_train_with_is_refused),
        TEST(a_network_without_weights_is_refused),
        TEST(evaluation_does_not_depend_on_the_batch),
        TEST(validation_may_be_on_the_test_set),
        TEST(nothing_held_back_has_no_accuracy),
        TEST(evaluation_can_be_stopped),
        TEST(a_weight_that_is_no_number_is_named),
        TEST(a_value_that_is_too_large_is_named_when_all_weights_are_fine),
        TEST(an_update_that_breaks_a_weight_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
