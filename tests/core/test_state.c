/* States: to a checkpoint and back to the same bits. */
#include "state_sample.h"

#include "alloc_fail.h"

#define PAIRS_MAX 32
#define ROWS_MAX  32

/* Tensors and values on their way into a file, for tests to change. */
typedef struct parts {
    ckpt_tensor tensors[ROWS_MAX];
    ckpt_value values[PAIRS_MAX];
    size_t tensor_count, value_count;
    state_view *view;
} parts;

static void parts_open(parts *p, const sample *s)
{
    MUST(state_view_new(&p->view, &s->state, s->net, ERR));
    const ckpt_tensor *const tensors = state_view_tensors(&p->tensor_count, p->view);
    const ckpt_value *const values = state_view_values(&p->value_count, p->view);
    assert_in_range(p->tensor_count, 1, ROWS_MAX);
    assert_in_range(p->value_count, 1, PAIRS_MAX);
    memcpy(p->tensors, tensors, p->tensor_count * sizeof *tensors);
    memcpy(p->values, values, p->value_count * sizeof *values);
}

static ckpt_value *parts_value(parts *p, const char *key)
{
    for (size_t i = 0; i < p->value_count; i++)
        if (strcmp(p->values[i].key, key) == 0)
            return &p->values[i];
    fail_msg("no value %s", key);
    return NULL;
}

static ckpt_tensor *parts_tensor(parts *p, const char *name)
{
    for (size_t i = 0; i < p->tensor_count; i++)
        if (strcmp(p->tensors[i].name, name) == 0)
            return &p->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Saves the parts, and opens the checkpoint. */
static ckpt_content *parts_save(parts *p, const sample *s)
{
    ckpt_save_result saved;
    ckpt_content *content = NULL;
    MUST(ckpt_save_tensors(&saved, s->store, "exp-1/" STATE_FILE_NAME, p->tensors, p->tensor_count, p->values,
                           p->value_count, NULL, ERR));
    MUST(ckpt_content_open(&content, s->store, saved.id, ERR));
    state_view_free(p->view);
    return content;
}

static ckpt_content *state_save(const sample *s)
{
    parts p;
    parts_open(&p, s);
    return parts_save(&p, s);
}

static void file_hash(char hex[CKPT_ID_SIZE], const sample *s)
{
    ckpt_content *const content = state_save(s);
    memcpy(hex, ckpt_content_file(content, 0)->sha256, CKPT_ID_SIZE);
    ckpt_content_close(content);
}

static void assert_same_values(const state *a, const state *b)
{
    char *text_a = NULL, *text_b = NULL;
    MUST(recipe_text(&text_a, &a->recipe, ERR));
    MUST(recipe_text(&text_b, &b->recipe, ERR));
    assert_string_equal(text_a, text_b);
    free(text_a);
    free(text_b);
    assert_int_equal(a->environment.threads, b->environment.threads);
    assert_string_equal(a->environment.isa, b->environment.isa);
    assert_string_equal(a->environment.library, b->environment.library);
    assert_string_equal(a->environment.cpu, b->environment.cpu);
    assert_string_equal(a->environment.version, b->environment.version);
    assert_string_equal(a->data_digest, b->data_digest);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->position, b->position);
    assert_memory_equal(&a->loss_sum, &b->loss_sum, sizeof(double));
    assert_int_equal(a->correct, b->correct);
    assert_int_equal(a->seen, b->seen);
    assert_memory_equal(&a->epoch_loss_sum, &b->epoch_loss_sum, sizeof(double));
    assert_int_equal(a->epoch_correct, b->epoch_correct);
    assert_int_equal(a->has_best, b->has_best);
    assert_memory_equal(&a->best_val_accuracy, &b->best_val_accuracy, sizeof(double));
}

static void assert_same_history(const history *a, const history *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->step, b->step, a->count * sizeof *a->step);
    assert_memory_equal(a->loss, b->loss, a->count * sizeof *a->loss);
    assert_memory_equal(a->accuracy, b->accuracy, a->count * sizeof *a->accuracy);
    assert_memory_equal(a->val_accuracy, b->val_accuracy, a->count * sizeof *a->val_accuracy);
}

/* Values and tensors of a content are those of the sample. */
static void assert_reads_back(ckpt_content *content, const sample *s)
{
    state back = {0};
    size_t file = 99;
    const size_t count = s->net->weight_count, bytes = count * sizeof(float);
    float *const vectors = calloc(3 * count, sizeof *vectors);
    assert_non_null(vectors);
    MUST(state_find(&file, content, ERR));
    MUST(state_read_values(&back, content, file, ERR));
    MUST(state_read_tensors(vectors, vectors + count, vectors + 2 * count, content, file, s->net, ERR));
    assert_same_values(&back, &s->state);
    assert_same_history(&back.history, &s->state.history);
    assert_memory_equal(vectors, s->state.weights, bytes);
    assert_memory_equal(vectors + count, s->state.exp_avg, bytes);
    assert_memory_equal(vectors + 2 * count, s->state.exp_avg_sq, bytes);
    free(vectors);
    state_clear(&back);
}

/* ---- To a checkpoint and back ---- */

static void what_was_saved_is_read_back_bit_for_bit(void **test)
{
    const sample *const s = *test;
    ckpt_content *const content = state_save(s);
    assert_reads_back(content, s);
    ckpt_content_close(content);
}

static void a_state_without_history_or_best_is_read_back(void **test)
{
    sample *const s = *test;
    s->state.history.count = 0;
    s->state.has_best = false;
    s->state.best_val_accuracy = 0;
    ckpt_content *const content = state_save(s);
    assert_reads_back(content, s);
    ckpt_content_close(content);
}

static void a_restored_file_is_read_like_its_checkpoint(void **test)
{
    const sample *const s = *test;
    const ckpt_restore_options options = {.size = sizeof options, .dir = s->root};
    char path[TEMP_PATH_MAX + 64];
    ckpt_content *content = NULL;
    ckpt_content_close(state_save(s));
    MUST(ckpt_restore_files(NULL, s->store, "latest", &options, ERR));
    snprintf(path, sizeof path, "%s/exp-1/" STATE_FILE_NAME, s->root);
    MUST(ckpt_content_open_file(&content, path, ERR));
    assert_reads_back(content, s);
    ckpt_content_close(content);
}

static void weights_are_read_without_the_optimizer(void **test)
{
    const sample *const s = *test;
    ckpt_content *const content = state_save(s);
    const size_t bytes = s->net->weight_count * sizeof(float);
    float *const weights = calloc(1, bytes);
    assert_non_null(weights);
    MUST(state_read_tensors(weights, NULL, NULL, content, 0, s->net, ERR));
    assert_memory_equal(weights, s->state.weights, bytes);
    free(weights);
    ckpt_content_close(content);
}

static void reading_makes_room_for_a_history_of_any_length(void **test)
{
    const sample *const s = *test;
    ckpt_content *const content = state_save(s);
    state back = {0};
    MUST(state_read_values(&back, content, 0, ERR));
    assert_int_equal(back.history.capacity, STATE_HISTORY_MAX);
    state_clear(&back);
    ckpt_content_close(content);
}

/* ---- The same bytes ---- */

static void the_same_state_is_the_same_file_whoever_saves_it_and_when(void **test)
{
    sample *const s = *test;
    void *other = NULL;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE];
    assert_int_equal(sample_setup(&other), 0);
    file_hash(first, s);
    file_hash(second, other);
    assert_string_equal(first, second);
    assert_int_equal(sample_teardown(&other), 0);
}

static void what_was_read_back_is_the_same_file_again(void **test)
{
    sample *const s = *test;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE];
    ckpt_content *const content = state_save(s);
    file_hash(first, s);
    MUST(state_read_values(&s->state, content, 0, ERR));
    file_hash(second, s);
    assert_string_equal(first, second);
    ckpt_content_close(content);
}

#define CHANGES(X)                                                                                                     \
    X(s->recipe.seed++)                                                                                                \
    X(s->recipe.lr *= 2)                                                                                               \
    X(s->environment.threads++)                                                                                        \
    X(s->environment.isa[3]++)                                                                                         \
    X(s->environment.library[3]++)                                                                                     \
    X(s->environment.cpu[3]++)                                                                                         \
    X(s->environment.version[2]++)                                                                                     \
    X(s->data_digest[0] = '0')                                                                                         \
    X(s->epoch++)                                                                                                      \
    X(s->step++)                                                                                                       \
    X(s->position++)                                                                                                   \
    X(s->loss_sum = nextafter(s->loss_sum, 0))                                                                         \
    X(s->correct++)                                                                                                    \
    X(s->seen++)                                                                                                       \
    X(s->epoch_loss_sum = nextafter(s->epoch_loss_sum, 0))                                                             \
    X(s->epoch_correct++)                                                                                              \
    X(s->has_best = false)                                                                                             \
    X(s->best_val_accuracy = nextafter(s->best_val_accuracy, 0))                                                       \
    X(s->history.count--)                                                                                              \
    X(s->history.step[0]--)                                                                                            \
    X(s->history.loss[1] = nextafter(s->history.loss[1], 0))                                                           \
    X(s->history.accuracy[2] = 0.0) /* was -0.0 */                                                                     \
    X(s->history.val_accuracy[0] = 0)                                                                                  \
    X(s->weights[0] = 0.0f) /* was -0.0 */                                                                             \
    X(s->exp_avg[1] = 0.5f)                                                                                            \
    X(s->exp_avg_sq[2] = 0.5f)

/* Makes the change of that number. */
static void state_change_make(struct state *s, unsigned number)
{
    unsigned n = 0;
#define MAKE(change)                                                                                                   \
    if (n++ == number)                                                                                                 \
        change;
    CHANGES(MAKE)
#undef MAKE
}

static void each_member_that_changes_makes_another_file(void **test)
{
    sample *const s = *test;
    char before[CKPT_ID_SIZE], after[CKPT_ID_SIZE];
#define NAME(change) #change,
    static const char *const WHAT[] = {CHANGES(NAME)};
#undef NAME
    file_hash(before, s);
    for (unsigned i = 0; i < sizeof WHAT / sizeof WHAT[0]; i++) {
        state_clear(&s->state);
        free(s->state.weights);
        sample_state(&s->state, s->net);
        state_change_make(&s->state, i);
        file_hash(after, s);
        if (strcmp(before, after) == 0)
            fail_msg("%s changes nothing in the file", WHAT[i]);
    }
}

static void the_view_follows_the_state_without_allocating(void **test)
{
    sample *const s = *test;
    state_view *view = NULL;
    size_t count;
    MUST(state_view_new(&view, &s->state, s->net, ERR));
    s->state.step = 24;
    history_add(&s->state.history, 24, 1, 1, 1);
    alloc_fail_arm(1);
    state_view_update(view);
    assert_false(alloc_fail_disarm());
    const ckpt_tensor *const tensors = state_view_tensors(&count, view);
    assert_string_equal(tensors[0].name, "history.step");
    assert_int_equal(tensors[0].shape[0], 4);
    const ckpt_value *const values = state_view_values(&count, view);
    assert_string_equal(values[3].key, "step");
    assert_string_equal(values[3].value, "24");
    state_view_free(view);
}

static void real_numbers_stand_as_hexadecimal(void **test)
{
    parts p;
    parts_open(&p, *test);
    assert_string_equal(parts_value(&p, "loss_sum")->value, "0x1.23456789abcdep+3");
    assert_string_equal(parts_value(&p, "best_val_accuracy")->value, "0x1.999999999999ap-4");
    state_view_free(p.view);
}

/* ---- Damage ---- */

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
        {"environment.threads", "65537"},
        {"environment.threads", "4294967298"},
        {"environment.isa",
         "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"},
        {"recipe", ""},
        {"recipe", "[run]\nepochs = many\n"},
        {"recipe", "no recipe"},
        {"ckpt.state", "0"},
        {"ckpt.state", "one"},
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
    parts_value(&p, "ckpt.state")->value = "2";
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
    static int64_t rows[STATE_HISTORY_MAX + 1];
    parts p;
    parts_open(&p, *test);
    *parts_tensor(&p, "history.step") = (ckpt_tensor){"history.step", CKPT_I64, 1, {STATE_HISTORY_MAX + 1}, rows};
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

/* ---- History ---- */

static void a_full_history_drops_its_oldest_row(void **test)
{
    (void)test;
    history h = {0};
    MUST(history_reserve(&h, SIZE_MAX, ERR));
    for (int64_t i = 0; i <= STATE_HISTORY_MAX; i++)
        history_add(&h, i, (double)i + 0.25, (double)i + 0.5, (double)i + 0.75);
    assert_int_equal(h.count, STATE_HISTORY_MAX);
    assert_int_equal(h.step[0], 1);
    assert_true(h.loss[0] == 1.25 && h.accuracy[0] == 1.5 && h.val_accuracy[0] == 1.75);
    assert_int_equal(h.step[h.count - 1], STATE_HISTORY_MAX);
    history_clear(&h);
}

static void a_history_keeps_its_rows_when_it_grows(void **test)
{
    (void)test;
    history h = {0};
    MUST(history_reserve(&h, 1, ERR));
    history_add(&h, 5, 1, 2, 3);
    MUST(history_reserve(&h, 1000, ERR));
    assert_int_equal(h.count, 1);
    assert_int_equal(h.step[0], 5);
    assert_true(h.loss[0] == 1 && h.accuracy[0] == 2 && h.val_accuracy[0] == 3);
    history_clear(&h);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, sample_setup, sample_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_was_saved_is_read_back_bit_for_bit),
        CASE(a_state_without_history_or_best_is_read_back),
        CASE(a_restored_file_is_read_like_its_checkpoint),
        CASE(weights_are_read_without_the_optimizer),
        CASE(reading_makes_room_for_a_history_of_any_length),
        CASE(the_same_state_is_the_same_file_whoever_saves_it_and_when),
        CASE(what_was_read_back_is_the_same_file_again),
        CASE(each_member_that_changes_makes_another_file),
        CASE(the_view_follows_the_state_without_allocating),
        CASE(real_numbers_stand_as_hexadecimal),
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
        cmocka_unit_test(a_full_history_drops_its_oldest_row),
        cmocka_unit_test(a_history_keeps_its_rows_when_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
