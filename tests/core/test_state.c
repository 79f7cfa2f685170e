/* States: to a checkpoint and back to the same bits. */
#include "state_parts.h"

#include "alloc_fail.h"

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
    assert_int_equal(back.history.capacity, HISTORY_ROWS_MAX);
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

/* ---- Without memory ---- */

#define ALLOCATIONS_MAX 1000

static int view_new(void *payload, ckpt_error *err)
{
    const sample *const s = payload;
    state_view *view = NULL;
    const int rc = state_view_new(&view, &s->state, s->net, err);
    state_view_free(view);
    return rc;
}

static int values_read(void *payload, ckpt_error *err)
{
    state back = {0};
    const int rc = state_read_values(&back, payload, 0, err);
    state_clear(&back);
    return rc;
}

/* Fails each allocation of a piece of work in turn, until there is none left to fail. */
static void assert_each_failure_is_told(int (*work)(void *payload, ckpt_error *err), void *payload)
{
    for (long at = 1; at < ALLOCATIONS_MAX; at++) {
        ckpt_error err = {0};
        alloc_fail_arm(at);
        const int rc = work(payload, &err);
        if (!alloc_fail_disarm()) {
            assert_true(at > 1 && rc == 0);
            return;
        }
        assert_int_equal(rc, CKPT_ENOMEM);
        assert_int_equal(err.code, CKPT_ENOMEM);
    }
    fail_msg("more than %d allocations", ALLOCATIONS_MAX);
}

static void each_allocation_of_a_view_may_fail(void **test)
{
    if (!ALLOC_FAIL_WORKS)
        skip();
    assert_each_failure_is_told(view_new, *test);
}

static void each_allocation_of_reading_may_fail(void **test)
{
    const sample *const s = *test;
    if (!ALLOC_FAIL_WORKS)
        skip();
    ckpt_content *const content = state_save(s);
    assert_each_failure_is_told(values_read, content);
    ckpt_content_close(content);
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
        CASE(each_allocation_of_a_view_may_fail),
        CASE(each_allocation_of_reading_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
