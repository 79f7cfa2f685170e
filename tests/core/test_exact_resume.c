/* A training that was stopped and resumed ends with the bytes of one that was never stopped. */
#include "training_fixture.h"

#include "bytes.h"

#include <dirent.h>
#include <fts.h>

/* The state file after two epochs without a stop. */
static char UNSTOPPED[CKPT_ID_SIZE];

static void train_unstopped(char out[CKPT_ID_SIZE], const char *epochs, int64_t steps)
{
    fixture f;
    ckpt_recipe *const recipe = recipe_small();

    fixture_make(&f);
    recipe_change(recipe, "run.epochs", epochs);
    fixture_train(&f, recipe);
    fixture_sha(out, &f, steps);
    ckpt_recipe_free(recipe);
    fixture_remove(&f);
}

static int group_setup(void **state)
{
    (void)state;
    train_unstopped(UNSTOPPED, "2", 2 * EPOCH_STEPS);
    return 0;
}

static void train_until(fixture *f, uint64_t step)
{
    ckpt_recipe *const recipe = recipe_small();

    f->stop_at = step;
    fixture_train(f, recipe);
    f->stop_at = NEVER;
    f->stop_validating = false;
    ckpt_recipe_free(recipe);
}

static void assert_as_unstopped(const fixture *f)
{
    char sha[CKPT_ID_SIZE];

    fixture_sha(sha, f, 2 * EPOCH_STEPS);
    assert_string_equal(sha, UNSTOPPED);
}

static void resumed_at_step(fixture *f, uint64_t step)
{
    char begin[TEXT_MAX];
    const uint64_t epoch = step > EPOCH_STEPS ? 2 : 1; /* at its end it has not been validated */

    train_until(f, step);
    fixture_resume(f, NULL);
    snprintf(begin, sizeof begin, "resumed small in epoch %" PRIu64 " of 2, at step %" PRIu64 " of 24 (identical)",
             epoch, step);
    assert_string_equal(f->text[CKPT_TRAINING_STARTED], begin);
    assert_as_unstopped(f);
}

static void stopped_before_the_first_step(void **state)
{
    resumed_at_step(*state, 0);
}

static void stopped_after_the_first_step(void **state)
{
    resumed_at_step(*state, 1);
}

static void stopped_before_a_checkpoint(void **state)
{
    resumed_at_step(*state, EVERY - 1);
}

static void stopped_at_a_checkpoint(void **state)
{
    resumed_at_step(*state, EVERY);
}

static void stopped_after_a_checkpoint(void **state)
{
    resumed_at_step(*state, EVERY + 1);
}

static void stopped_at_the_end_of_an_epoch(void **state)
{
    resumed_at_step(*state, EPOCH_STEPS);
}

static void stopped_at_the_start_of_an_epoch(void **state)
{
    resumed_at_step(*state, EPOCH_STEPS + 1);
}

static void stopped_in_validation(void **state)
{
    fixture *const f = *state;

    f->stop_validating = true;
    resumed_at_step(f, EPOCH_STEPS);
}

static void stopped_in_the_test_at_the_end(void **state)
{
    fixture *const f = *state;
    ckpt_recipe *const recipe = recipe_small();

    recipe_change(recipe, "run.steps", "3"); /* no epoch ends, so what is evaluated is the test */
    f->stop_at = 3;
    f->stop_validating = true;
    fixture_train(f, recipe);
    assert_int_equal(f->events[CKPT_TRAINING_FINISHED], 0);

    f->stop_at = NEVER;
    fixture_resume(f, NULL);
    assert_int_equal(f->events[CKPT_TRAINING_FINISHED], 1);
    assert_int_equal(f->result.step, 3);
    ckpt_recipe_free(recipe);
}

static void stopped_at_every_step(void **state)
{
    fixture *const f = *state;

    train_until(f, EVERY - 1);
    for (uint64_t step = EVERY; step <= EPOCH_STEPS + 3; step++) {
        f->stop_at = step;
        fixture_resume(f, NULL);
        assert_int_equal(f->result.step, step);
    }
    f->stop_at = NEVER;
    fixture_resume(f, NULL);
    assert_as_unstopped(f);
}

static void more_epochs_give_the_run_that_had_them_from_the_start(void **state)
{
    fixture *const f = *state;
    char longer[CKPT_ID_SIZE], sha[CKPT_ID_SIZE];
    ckpt_recipe *const recipe = recipe_small();

    train_unstopped(longer, "3", 3 * EPOCH_STEPS);
    fixture_train(f, recipe);
    fixture_resume(f, "3");
    fixture_sha(sha, f, 3 * EPOCH_STEPS);
    assert_string_equal(sha, longer);
    ckpt_recipe_free(recipe);
}

/* ---- Stores that are not as they were ---- */

static void file_copy(const char *to, const char *from)
{
    char bytes[4096];
    FILE *const in = fopen(from, "rb"), *const out = fopen(to, "wb");

    assert_non_null(in);
    assert_non_null(out);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(in), 0);
    assert_int_equal(fclose(out), 0);
}

static void folder_copy(const char *to, const char *from)
{
    char *const roots[] = {(char *)(uintptr_t)from, NULL}; /* fts promises not to write to it */
    FTS *const walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    char path[TEMP_PATH_MAX + 300];

    assert_non_null(walk);
    for (FTSENT *entry; (entry = fts_read(walk));) {
        snprintf(path, sizeof path, "%s%s", to, entry->fts_path + strlen(from));
        if (entry->fts_info == FTS_D && entry->fts_level > 0)
            assert_int_equal(mkdir(path, 0777), 0);
        else if (entry->fts_info == FTS_F)
            file_copy(path, entry->fts_path);
    }
    fts_close(walk);
}

static void resumed_in_a_copied_folder(void **state)
{
    fixture *const f = *state, copy;

    train_until(f, EVERY + 2);
    copy = (fixture){.stop_at = NEVER};
    assert_int_equal(temp_dir_make(copy.root), 0);
    folder_copy(copy.root, f->root);
    fixture_resume(&copy, NULL);
    assert_as_unstopped(&copy);
    fixture_remove(&copy);
}

/* The pack that was written last. */
static void newest_pack(char out[TEMP_PATH_MAX + 300], const fixture *f)
{
    char packs[TEMP_PATH_MAX + 16], path[TEMP_PATH_MAX + 300];
    struct timespec newest = {0};
    struct stat st;

    snprintf(packs, sizeof packs, "%s/.ckpt/packs", f->root);
    DIR *const dir = opendir(packs);
    assert_non_null(dir);
    out[0] = '\0';
    for (const struct dirent *entry; (entry = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", packs, entry->d_name);
        assert_int_equal(stat(path, &st), 0);
        const bool newer = st.st_mtim.tv_sec > newest.tv_sec ||
                           (st.st_mtim.tv_sec == newest.tv_sec && st.st_mtim.tv_nsec > newest.tv_nsec);
        if (S_ISREG(st.st_mode) && newer) {
            newest = st.st_mtim;
            snprintf(out, TEMP_PATH_MAX + 300, "%s", path);
        }
    }
    closedir(dir);
    assert_true(out[0]);
}

/* One bit of a byte in the middle. */
static void byte_flip(const char *path)
{
    FILE *file;

    assert_int_equal(chmod(path, 0600), 0);
    file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long middle = ftell(file) / 2;
    assert_int_equal(fseek(file, middle, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, middle, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ 0x10, file), EOF);
    assert_int_equal(fclose(file), 0);
}

static void a_damaged_newest_checkpoint_is_passed_over(void **state)
{
    fixture *const f = *state;
    char path[TEMP_PATH_MAX + 300];

    train_until(f, EVERY + 1);
    f->stop_at = EVERY + 3;
    fixture_resume(f, NULL);
    newest_pack(path, f);
    byte_flip(path);

    f->stop_at = NEVER;
    fixture_resume(f, NULL);
    assert_int_equal(f->events[CKPT_TRAINING_WARNING], 1);
    assert_non_null(strstr(f->text[CKPT_TRAINING_WARNING], "damaged"));
    assert_non_null(strstr(f->text[CKPT_TRAINING_STARTED], "step 6 of 24 (identical)"));
    assert_as_unstopped(f);
}

/* ---- The comparison can see: every field of a state, broken on purpose ---- */

#define BROKEN_AT   17 /* in the second epoch: lines, and one row of an epoch, are in the history */
#define TENSORS_MAX 32
#define VALUES_MAX  32
#define VALUE_MAX   4096

/* A state of BROKEN_AT steps, in memory. */
typedef struct sample_state {
    ckpt_tensor tensors[TENSORS_MAX];
    char names[TENSORS_MAX][128];
    size_t tensor_count;
    ckpt_value values[VALUES_MAX];
    char keys[VALUES_MAX][64], texts[VALUES_MAX][VALUE_MAX];
    size_t value_count;
} sample_state;

static void sample_tensors(sample_state *s, ckpt_content *content)
{
    s->tensor_count = ckpt_content_tensor_count(content);
    assert_in_range(s->tensor_count, 1, TENSORS_MAX);
    for (size_t i = 0; i < s->tensor_count; i++) {
        const ckpt_tensor_info *const t = ckpt_content_tensor(content, i);
        snprintf(s->names[i], sizeof s->names[i], "%s", t->name);
        s->tensors[i] = (ckpt_tensor){.name = s->names[i], .dtype = t->dtype, .rank = t->rank};
        memcpy(s->tensors[i].shape, t->shape, sizeof t->shape);
        s->tensors[i].data = malloc(t->bytes);
        assert_non_null(s->tensors[i].data);
        MUST(ckpt_content_read(s->tensors[i].data, content, i, 0, t->bytes / ckpt_dtype_size(t->dtype), ERR));
    }
}

static void sample_values(sample_state *s, const ckpt_content *content, size_t file)
{
    s->value_count = ckpt_content_value_count(content, file);
    assert_in_range(s->value_count, 1, VALUES_MAX);
    for (size_t i = 0; i < s->value_count; i++) {
        ckpt_value v;
        assert_int_equal(ckpt_content_value(&v, content, file, i), 0);
        snprintf(s->keys[i], sizeof s->keys[i], "%s", v.key);
        snprintf(s->texts[i], sizeof s->texts[i], "%s", v.value);
        s->values[i] = (ckpt_value){s->keys[i], s->texts[i]};
    }
}

static sample_state *sample_make(void)
{
    fixture f;
    ckpt_store *store = NULL;
    ckpt_content *content = NULL;
    sample_state *const s = calloc(1, sizeof *s);

    assert_non_null(s);
    fixture_make(&f);
    train_until(&f, BROKEN_AT);
    MUST(ckpt_store_open(&store, f.root, NULL, ERR));
    MUST(ckpt_content_open(&content, store, "latest", ERR));
    sample_tensors(s, content);
    sample_values(s, content, ckpt_content_file_count(content) - 1);
    ckpt_content_close(content);
    ckpt_store_close(store);
    fixture_remove(&f);
    return s;
}

static void sample_free(sample_state *s)
{
    for (size_t i = 0; i < s->tensor_count; i++)
        free(s->tensors[i].data);
    free(s);
}

static int sample_setup(void **state)
{
    *state = sample_make();
    return 0;
}

static int sample_teardown(void **state)
{
    sample_free(*state);
    return 0;
}

static void sample_save(const fixture *f, const sample_state *s)
{
    static const ckpt_value META[] = {{"run", "small"}, {"data", FASHION}, {"reason", "rhythm"}};
    ckpt_store *store = NULL;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;

    options.step = BROKEN_AT;
    options.meta = META;
    options.meta_count = sizeof META / sizeof META[0];
    MUST(ckpt_store_open(&store, f->root, NULL, ERR));
    MUST(ckpt_save_tensors(NULL, store, "small/state.safetensors", s->tensors, s->tensor_count, s->values,
                           s->value_count, &options, ERR));
    ckpt_store_close(store);
}

typedef enum outcome { SAME, REFUSED, OTHER_BYTES } outcome;

/* What comes of a training that is resumed with this state. */
static outcome outcome_of(fixture *f, const sample_state *s)
{
    char sha[CKPT_ID_SIZE];
    ckpt_training *training = NULL;
    ckpt_training_options options;

    fixture_make(f);
    sample_save(f, s);
    options = fixture_options(f);
    const int rc = ckpt_training_resume(&training, NULL, NULL, &options, &f->err);
    if (!rc) {
        fixture_run(f, training);
        fixture_sha(sha, f, 2 * EPOCH_STEPS);
    }
    fixture_remove(f);
    return rc ? REFUSED : strcmp(sha, UNSTOPPED) ? OTHER_BYTES : SAME;
}

static void a_state_that_was_written_again_gives_the_same_bytes(void **state)
{
    fixture f;

    assert_int_equal(outcome_of(&f, *state), SAME);
}

/* Changes the first element so that it stays a number that could stand there. */
static void element_break(ckpt_tensor *t)
{
    if (t->dtype == CKPT_F32) {
        float value;
        memcpy(&value, t->data, sizeof value);
        value = 1.5f * value + 0.25f;
        memcpy(t->data, &value, sizeof value);
    } else if (t->dtype == CKPT_F64) {
        double value;
        memcpy(&value, t->data, sizeof value);
        value = isnan(value) ? 0.5 : value / 2;
        memcpy(t->data, &value, sizeof value);
    } else {
        store_u64(t->data, load_u64(t->data) - 1);
    }
}

static void every_broken_tensor_is_seen(void **state)
{
    sample_state *const s = *state;
    unsigned char first[8];
    fixture f;

    assert_int_equal(s->tensor_count, 4 + 3 * 4); /* history; conv and dense, weight and bias, three times */
    for (size_t i = 0; i < s->tensor_count; i++) {
        const size_t size = ckpt_dtype_size(s->tensors[i].dtype);
        memcpy(first, s->tensors[i].data, size);
        element_break(&s->tensors[i]);
        if (outcome_of(&f, s) != OTHER_BYTES)
            fail_msg("%s broken, and nobody sees it", s->names[i]);
        memcpy(s->tensors[i].data, first, size);
    }
}

/* Changes one value by `from` -> `to` in its text (NULL: all of it); returns what comes of it. */
static outcome outcome_of_value(fixture *f, sample_state *s, const char *key, const char *from, const char *to)
{
    char text[VALUE_MAX];
    size_t i = 0;

    while (i < s->value_count && strcmp(s->keys[i], key) != 0)
        i++;
    if (i == s->value_count)
        fail_msg("%s: no such value", key);
    from = from ? from : s->texts[i];
    const char *const at = strstr(s->texts[i], from);
    if (!at)
        fail_msg("%s has no \"%s\" but \"%s\"", key, from, s->texts[i]);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - s->texts[i]), s->texts[i], to, at + strlen(from));
    assert_string_not_equal(text, s->texts[i]);
    s->values[i].value = text;
    const outcome result = outcome_of(f, s);
    s->values[i].value = s->texts[i];
    return result;
}

static void every_broken_value_is_seen(void **state)
{
    static const struct {
        const char *key, *from, *to;
        outcome expected;
    } CASES[] = {
        {"epoch", "1", "0", REFUSED},
        {"epoch", "1", "2", REFUSED},
        {"step", "17", "16", REFUSED},
        {"step", "17", "18", REFUSED},
        {"position", "40", "32", REFUSED},
        {"position", "40", "41", REFUSED},
        {"loss_sum", "p+", "p+1", OTHER_BYTES},
        {"seen", "16", "17", OTHER_BYTES},
        {"correct", "", "1", OTHER_BYTES}, /* a digit in front */
        {"epoch_loss_sum", "p+", "p+1", OTHER_BYTES},
        {"epoch_correct", "", "1", OTHER_BYTES},
        {"best_val_accuracy", NULL, "0x1p+0", OTHER_BYTES},
        {"best_val_accuracy", NULL, "0x1p+1", REFUSED},
        {"data_digest", "", "0", REFUSED},
        {"ckpt.training", "1", "2", REFUSED},
        {"recipe", "seed = 7", "seed = 8", OTHER_BYTES},
        {"recipe", "batch = 8", "batch = 9", REFUSED},
        {"recipe", "drop_last = no", "drop_last = yes", REFUSED},
        {"recipe", "validation = 0.955", "validation = 0.9549", OTHER_BYTES},
        {"recipe", "lr = ", "lr = 1", OTHER_BYTES},
        {"recipe", "beta1 = 0.9", "beta1 = 0.8", OTHER_BYTES},
        {"recipe", "beta2 = 0.999", "beta2 = 0.99", OTHER_BYTES},
        {"recipe", "eps = 1e-8", "eps = 1e-6", OTHER_BYTES},
        {"recipe", "every = 5", "every = 6", OTHER_BYTES},
        {"recipe", "relu, flatten", "flatten", OTHER_BYTES},
    };
    fixture f;

    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const outcome found = outcome_of_value(&f, *state, CASES[i].key, CASES[i].from, CASES[i].to);
        if (found != CASES[i].expected)
            fail_msg("case %zu, %s -> \"%s\": %d instead of %d: %s", i, CASES[i].key, CASES[i].to, found,
                     CASES[i].expected, f.err.message);
    }
}

static void another_environment_is_called_equivalent(void **state)
{
    static const char *const KEYS[] = {"environment.threads", "environment.isa", "environment.library",
                                       "environment.cpu", "environment.version"};
    fixture f;

    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        assert_int_not_equal(outcome_of_value(&f, *state, KEYS[i], "", "1"), REFUSED);
        if (!strstr(f.text[CKPT_TRAINING_STARTED], "(equivalent: "))
            fail_msg("%s: %s", KEYS[i], f.text[CKPT_TRAINING_STARTED]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
        WITH_STORE(stopped_before_the_first_step),
        WITH_STORE(stopped_after_the_first_step),
        WITH_STORE(stopped_before_a_checkpoint),
        WITH_STORE(stopped_at_a_checkpoint),
        WITH_STORE(stopped_after_a_checkpoint),
        WITH_STORE(stopped_at_the_end_of_an_epoch),
        WITH_STORE(stopped_at_the_start_of_an_epoch),
        WITH_STORE(stopped_in_validation),
        WITH_STORE(stopped_in_the_test_at_the_end),
        WITH_STORE(stopped_at_every_step),
        WITH_STORE(more_epochs_give_the_run_that_had_them_from_the_start),
        WITH_STORE(resumed_in_a_copied_folder),
        WITH_STORE(a_damaged_newest_checkpoint_is_passed_over),
#define WITH_SAMPLE(test) cmocka_unit_test_setup_teardown(test, sample_setup, sample_teardown)
        WITH_SAMPLE(a_state_that_was_written_again_gives_the_same_bytes),
        WITH_SAMPLE(every_broken_tensor_is_seen),
        WITH_SAMPLE(every_broken_value_is_seen),
        WITH_SAMPLE(another_environment_is_called_equivalent),
    };

    return cmocka_run_group_tests(tests, group_setup, NULL);
}
