/* States out of checkpoints that are damaged, or of something else. */
#include "state_parts.h"

/* Reading values gives the code and names the culprit, and the state read into stays as it was. */
static void assert_values_refused(ckpt_content *content, int code, const char *culprit)
{
    ckpt_error err = {0};
    state back = {.step = 77};
    assert_int_equal(state_read_values(&back, content, 0, &err), code);
    if (!strstr(err.message, culprit))
        fail_msg("\"%s\" does not name %s", err.message, culprit);
    assert_int_equal(back.step, 77);
    assert_int_equal(back.history.count, 0);
    assert_null(back.history.step);
    ckpt_content_close(content);
}

static void values_that_make_no_sense_are_named(void **test)
{
    const sample *const s = *test;
    static const ckpt_value BAD[] = {
        {"epoch", "two"},
        {"epoch", ""},
        {"epoch", "-1"},
        {"epoch", "2 "},
        {"epoch", "4294967296"},
        {"epoch", "24"}, /* of 23 steps */
        {"step", "9223372036854775808"},
        {"step", "99999999999999999999999999999"},
        {"position", "16777217"},
        {"position", "169"}, /* 22 batches of 8, with 2 epochs before it in 23 steps */
        {"loss_sum", "nan"},
        {"loss_sum", "inf"},
        {"loss_sum", "1.5"},
        {"loss_sum", "0x1.8p+1024"},
        {"loss_sum", "0x1.80p+1"},
        {"loss_sum", "0x1.8p+1 "},
        {"epoch_loss_sum", "nan"},
        {"correct", "17"}, /* of 16 */
        {"correct", "9223372036854775808"},
        {"seen", "x"},
        {"epoch_correct", "25"}, /* of 24 */
        {"best_val_accuracy", "nan"},
        {"best_val_accuracy", "0x1.8p+0"},
        {"best_val_accuracy", "-0x1p-3"},
        {"best_val_accuracy", "None"},
        {"data_digest", "e3b0"},
        {"data_digest", "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"},
        {"environment.threads", "0"},
        {"environment.threads", "65"}, /* no team is larger than POOL_THREADS_MAX */
        {"environment.threads", "4294967298"},
        {"environment.isa",
         "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"},
        {"recipe", ""},
        {"recipe", "[run]\nepochs = many\n"},
        {"recipe", "no recipe"},
        {"ckpt.training", "0"},
        {"ckpt.training", "one"},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        parts p;
        parts_open(&p, s);
        parts_value(&p, BAD[i].key)->value = BAD[i].value;
        assert_values_refused(parts_save(&p, s), CKPT_EDATA, BAD[i].key);
    }
}

static void each_missing_value_is_named(void **test)
{
    const sample *const s = *test;
    parts all;
    parts_open(&all, s);
    state_view_free(all.view);
    for (size_t i = 0; i < all.value_count; i++) {
        parts p;
        parts_open(&p, s);
        const char *const key = p.values[i].key;
        p.values[i] = p.values[--p.value_count];
        assert_values_refused(parts_save(&p, s), CKPT_EDATA, key);
    }
}

static void a_newer_version_is_told_apart_from_damage(void **test)
{
    parts p;
    parts_open(&p, *test);
    parts_value(&p, "ckpt.training")->value = "2";
    assert_values_refused(parts_save(&p, *test), CKPT_EVERSION, "version 2");
}

static void each_missing_column_of_the_history_is_named(void **test)
{
    static const char *const NAMES[] = {"history.step", "history.loss", "history.accuracy", "history.val_accuracy"};
    for (size_t i = 0; i < 4; i++) {
        parts p;
        parts_open(&p, *test);
        parts_tensor(&p, NAMES[i])->name = "gone";
        assert_values_refused(parts_save(&p, *test), CKPT_EDATA, NAMES[i]);
    }
}

static void a_history_of_uneven_columns_is_refused(void **test)
{
    parts p;
    parts_open(&p, *test);
    parts_tensor(&p, "history.accuracy")->shape[0] = 2;
    assert_values_refused(parts_save(&p, *test), CKPT_EDATA, "history.accuracy");
}

static void a_history_that_is_too_long_is_refused(void **test)
{
    static int64_t rows[HISTORY_ROWS_MAX + 1];
    parts p;
    parts_open(&p, *test);
    *parts_tensor(&p, "history.step") = (ckpt_tensor){"history.step", CKPT_I64, 1, {HISTORY_ROWS_MAX + 1}, rows};
    assert_values_refused(parts_save(&p, *test), CKPT_EDATA, "history.step");
}

static void a_history_that_is_no_list_is_refused(void **test)
{
    int64_t rows[3] = {1, 2, 3};
    parts p;
    parts_open(&p, *test);
    *parts_tensor(&p, "history.step") = (ckpt_tensor){"history.step", CKPT_I64, 2, {3, 1}, rows};
    assert_values_refused(parts_save(&p, *test), CKPT_EDATA, "history.step");
}

static void steps_of_the_history_rise_and_end_at_the_state(void **test)
{
    static const int64_t BAD[][3] = {{-1, 2, 3}, {3, 2, 4}, {1, 2, 24}};
    for (size_t i = 0; i < 3; i++) {
        int64_t rows[3];
        parts p;
        parts_open(&p, *test);
        memcpy(rows, BAD[i], sizeof rows);
        parts_tensor(&p, "history.step")->data = rows;
        assert_values_refused(parts_save(&p, *test), CKPT_EDATA, "history.step");
    }
}

static void assert_tensors_refused(ckpt_content *content, const sample *s, const char *const words[3])
{
    ckpt_error err = {0};
    float *const vectors = calloc(3 * s->net->weight_count, sizeof *vectors);
    assert_non_null(vectors);
    assert_int_equal(state_read_tensors(vectors, vectors + s->net->weight_count, vectors + 2 * s->net->weight_count,
                                        content, 0, s->net, &err),
                     CKPT_EDATA);
    for (size_t i = 0; i < 3; i++)
        assert_non_null(strstr(err.message, words[i]));
    free(vectors);
    ckpt_content_close(content);
}

static void weights_can_be_looked_for_before_there_is_memory_for_them(void **test)
{
    parts p;
    ckpt_error err = {0};
    const sample *const s = *test;
    parts_open(&p, s);
    parts_tensor(&p, "model.conv1.weight")->shape[0] = 1;
    parts_tensor(&p, "model.conv1.weight")->shape[1] = 2;
    ckpt_content *const content = parts_save(&p, s);
    assert_int_equal(state_check_tensors(content, 0, s->net, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, "model.conv1.weight"));
    ckpt_content_close(content);
}

static void a_tensor_of_another_shape_is_named_with_both(void **test)
{
    parts p;
    parts_open(&p, *test);
    ckpt_tensor *const t = parts_tensor(&p, "model.conv1.weight");
    t->shape[0] = 1;
    t->shape[1] = 2;
    const char *const words[] = {"model.conv1.weight", "[1,2,3,3]", "[2,1,3,3]"};
    assert_tensors_refused(parts_save(&p, *test), *test, words);
}

static void a_tensor_of_another_rank_is_refused(void **test)
{
    parts p;
    parts_open(&p, *test);
    ckpt_tensor *const t = parts_tensor(&p, "optimizer.exp_avg.conv1.weight");
    t->rank = 1;
    t->shape[0] = 18;
    const char *const words[] = {"optimizer.exp_avg.conv1.weight", "[18]", "[2,1,3,3]"};
    assert_tensors_refused(parts_save(&p, *test), *test, words);
}

static void a_tensor_of_another_type_is_refused(void **test)
{
    parts p;
    parts_open(&p, *test);
    parts_tensor(&p, "optimizer.exp_avg_sq.dense1.bias")->dtype = CKPT_I32;
    const char *const words[] = {"optimizer.exp_avg_sq.dense1.bias", "i32", "f32"};
    assert_tensors_refused(parts_save(&p, *test), *test, words);
}

static void a_missing_tensor_is_named(void **test)
{
    parts p;
    parts_open(&p, *test);
    parts_tensor(&p, "model.dense1.bias")->name = "model.dense9.bias";
    const char *const words[] = {"model.dense1.bias", "is missing", ""};
    assert_tensors_refused(parts_save(&p, *test), *test, words);
}

static void a_checkpoint_of_other_things_has_no_state(void **test)
{
    const sample *const s = *test;
    ckpt_content *content = NULL;
    ckpt_error err = {0};
    size_t file;
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {3}, s->state.weights};
    MUST(ckpt_save_tensors(NULL, s->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    MUST(ckpt_content_open(&content, s->store, "latest", ERR));
    assert_int_equal(state_find(&file, content, &err), CKPT_EUSAGE);
    assert_true(err.hint[0] != 0);
    ckpt_content_close(content);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, sample_setup, sample_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(values_that_make_no_sense_are_named),
        CASE(each_missing_value_is_named),
        CASE(a_newer_version_is_told_apart_from_damage),
        CASE(each_missing_column_of_the_history_is_named),
        CASE(a_history_of_uneven_columns_is_refused),
        CASE(a_history_that_is_too_long_is_refused),
        CASE(a_history_that_is_no_list_is_refused),
        CASE(steps_of_the_history_rise_and_end_at_the_state),
        CASE(a_tensor_of_another_shape_is_named_with_both),
        CASE(a_tensor_of_another_rank_is_refused),
        CASE(a_tensor_of_another_type_is_refused),
        CASE(a_missing_tensor_is_named),
        CASE(a_checkpoint_of_other_things_has_no_state),
        CASE(weights_can_be_looked_for_before_there_is_memory_for_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
