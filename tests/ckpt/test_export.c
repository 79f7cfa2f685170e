/* Tensors as files. That other programs read them with the same values is what tests/python/test_export.py shows. */
#include "file_tree.h"

#include <ckpt/export.h>

#include <math.h>

static const char *const SUFFIXES[] = {"safetensors", "npz", "pt"};

/* The golden state, in the format that has the suffix. */
static ckpt_content *golden_state(const char *suffix)
{
    ckpt_content *content = NULL;
    char path[FILE_PATH_MAX];
    snprintf(path, sizeof path, GOLDEN_DIR "/state/state.%s", suffix);
    MUST(ckpt_content_open_file(&content, path, ERR));
    return content;
}

static int export_to(ckpt_export_result *result, ckpt_content *content, const char *path, ckpt_export_options options,
                     ckpt_error *err)
{
    options.size = sizeof options;
    return ckpt_export(result, content, path, &options, err);
}

/* All tensors of both are the same; their number. */
static size_t assert_equal_contents(ckpt_content *a, const char *path)
{
    ckpt_content *b = NULL;
    ckpt_diff *diff = NULL;
    MUST(ckpt_content_open_file(&b, path, ERR));
    MUST(ckpt_diff_new(&diff, a, b, NULL, ERR));
    assert_true(diff->equal);
    const size_t count = diff->tensor_count;
    ckpt_diff_free(diff);
    ckpt_content_close(b);
    return count;
}

static void every_format_becomes_every_other_with_the_same_values(void **state)
{
    fixture *const f = *state;
    for (size_t from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++) {
            ckpt_content *const content = golden_state(SUFFIXES[from]);
            ckpt_export_result result;
            char path[FILE_PATH_MAX];
            join(path, f->root, SUFFIXES[to]);
            MUST(export_to(&result, content, path,
                           (ckpt_export_options){.format = (ckpt_export_format)to, .overwrite = true}, ERR));
            assert_int_equal(result.tensors, 14);
            assert_string_equal(result.lossy, "");
            assert_int_equal(assert_equal_contents(content, path), 14);
            ckpt_content_close(content);
        }
}

static void a_safetensors_file_is_the_one_that_python_writes(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    ckpt_content *const content = golden_state("safetensors");
    join(path, f->root, "again.safetensors");
    MUST(export_to(NULL, content, path, (ckpt_export_options){0}, ERR));
    assert_same_bytes(path, GOLDEN_DIR "/state/state.safetensors"); /* values too */
    ckpt_content_close(content);
}

static void views_become_tensors_of_their_own(void **state)
{
    fixture *const f = *state;
    static const char *const FILES[] = {"cases/views.pt", "torch/noncontiguous_tensor.zip.pt", "cases/fortran.npy"};
    for (size_t i = 0; i < 3; i++) {
        char from[FILE_PATH_MAX], path[FILE_PATH_MAX];
        ckpt_content *content = NULL, *written = NULL;
        join(from, GOLDEN_DIR, FILES[i]);
        join(path, f->root, "out.pt");
        MUST(ckpt_content_open_file(&content, from, ERR));
        MUST(
            export_to(NULL, content, path, (ckpt_export_options){.format = CKPT_EXPORT_TORCH, .overwrite = true}, ERR));
        assert_true(assert_equal_contents(content, path) > 0);
        MUST(ckpt_content_open_file(&written, path, ERR));
        for (size_t k = 0; k < ckpt_content_tensor_count(written); k++)
            assert_true(ckpt_content_tensor(written, k)->contiguous);
        ckpt_content_close(written);
        ckpt_content_close(content);
    }
}

static void a_checkpoint_is_exported_as_its_file_would_be(void **state)
{
    fixture *const f = *state;
    static const char *const paths[] = {GOLDEN_DIR "/state/state.pt"};
    char path[FILE_PATH_MAX];
    ckpt_content *content = NULL;
    MUST(ckpt_save_files(NULL, f->store, paths, 1, NULL, ERR));
    MUST(ckpt_content_open(&content, f->store, "latest", ERR));
    join(path, f->root, "out.npz");
    MUST(export_to(NULL, content, path, (ckpt_export_options){.format = CKPT_EXPORT_NPZ}, ERR));
    ckpt_content_close(content);
    content = golden_state("pt");
    assert_int_equal(assert_equal_contents(content, path), 14);
    ckpt_content_close(content);
}

static void only_some_tensors_are_written(void **state)
{
    fixture *const f = *state;
    static const char *const PATTERNS[] = {"model.conv.*", "*.step"};
    char path[FILE_PATH_MAX];
    ckpt_export_result result;
    ckpt_content *const content = golden_state("npz");
    join(path, f->root, "some.pt");
    MUST(export_to(&result, content, path,
                   (ckpt_export_options){.format = CKPT_EXPORT_TORCH, .only = PATTERNS, .only_count = 2}, ERR));
    assert_int_equal(result.tensors, 5);
    assert_int_equal(export_to(NULL, content, path, (ckpt_export_options){.only = PATTERNS, .only_count = 2}, NULL),
                     CKPT_ECONFIRM);
    ckpt_content_close(content);
}

static void what_nothing_fits_is_not_found_and_not_written(void **state)
{
    fixture *const f = *state;
    static const char *const PATTERN = "nothing";
    char path[FILE_PATH_MAX];
    ckpt_content *const content = golden_state("npz");
    join(path, f->root, "none.pt");
    assert_int_equal(export_to(NULL, content, path, (ckpt_export_options){.only = &PATTERN, .only_count = 1}, NULL),
                     CKPT_ENOTFOUND);
    assert_int_equal(export_to(NULL, content, path, (ckpt_export_options){.file = "nothing"}, NULL), CKPT_ENOTFOUND);
    assert_false(exists(path));
    ckpt_content_close(content);
}

static void floats_are_converted_and_the_error_told(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    ckpt_export_result result;
    ckpt_content *const content = golden_state("pt"), *written = NULL;
    join(path, f->root, "half.safetensors");
    MUST(export_to(&result, content, path, (ckpt_export_options){.dtype = CKPT_BF16}, ERR));
    assert_int_equal(result.converted, 12); /* the counts of the model are integers */
    assert_non_null(strstr(result.lossy, "bf16: 12 tensors, largest relative error"));
    MUST(ckpt_content_open_file(&written, path, ERR));
    for (size_t i = 0; i < ckpt_content_tensor_count(written); i++) {
        const ckpt_dtype dtype = ckpt_content_tensor(written, i)->dtype;
        assert_true(dtype == CKPT_BF16 || dtype == CKPT_I64);
    }
    ckpt_content_close(written);
    ckpt_content_close(content);
}

static void what_every_value_survives_is_not_lossy(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    ckpt_export_result result;
    ckpt_content *const content = golden_state("pt");
    join(path, f->root, "wide.npz");
    MUST(export_to(&result, content, path, (ckpt_export_options){.format = CKPT_EXPORT_NPZ, .dtype = CKPT_F64}, ERR));
    assert_true(result.converted > 0);
    assert_string_equal(result.lossy, "");
    ckpt_content_close(content);
}

static void types_that_a_format_lacks_are_refused_by_name(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    ckpt_content *content = NULL;
    ckpt_error err = {0};
    join(path, f->root, "out");
    MUST(ckpt_content_open_file(&content, GOLDEN_DIR "/torch/bfloat16.pt", ERR));
    assert_int_equal(export_to(NULL, content, path, (ckpt_export_options){.format = CKPT_EXPORT_NPZ}, &err),
                     CKPT_EUSAGE);
    assert_non_null(strstr(err.message, "NumPy has no type bf16"));
    assert_non_null(strstr(err.hint, "--dtype f32"));
    ckpt_content_close(content);
    MUST(ckpt_content_open_file(&content, GOLDEN_DIR "/cases/scalar.npy", ERR));
    assert_int_equal(export_to(NULL, content, path, (ckpt_export_options){0}, &err), CKPT_EUSAGE);
    assert_non_null(strstr(err.message, "safetensors has no type c128"));
    MUST(export_to(NULL, content, path, (ckpt_export_options){.format = CKPT_EXPORT_TORCH}, ERR));
    ckpt_content_close(content);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    ckpt_content *const content = golden_state("pt");
    join(path, f->root, "out");
    assert_int_equal(export_to(NULL, content, path, (ckpt_export_options){.dtype = CKPT_I8}, NULL), CKPT_EUSAGE);
    assert_int_equal(export_to(NULL, content, path, (ckpt_export_options){.format = (ckpt_export_format)3}, NULL),
                     CKPT_EUSAGE);
    assert_int_equal(export_to(NULL, content, f->root, (ckpt_export_options){.overwrite = true}, NULL), CKPT_EUSAGE);
    assert_false(exists(path));
    ckpt_content_close(content);
}

static void values_go_along_and_their_loss_is_counted(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    ckpt_export_result result;
    ckpt_content *content = golden_state("safetensors"), *written = NULL;
    ckpt_value value;
    join(path, f->root, "out");
    MUST(export_to(&result, content, path, (ckpt_export_options){.format = CKPT_EXPORT_NPZ}, ERR));
    assert_int_equal(result.values_left_out, 1);
    MUST(export_to(&result, content, path, (ckpt_export_options){.overwrite = true}, ERR));
    assert_int_equal(result.values_left_out, 0);
    MUST(ckpt_content_open_file(&written, path, ERR));
    MUST(ckpt_content_value(&value, written, 0, 0));
    assert_string_equal(value.key, "epoch");
    assert_string_equal(value.value, "7");
    ckpt_content_close(written);
    ckpt_content_close(content);
}

static void a_value_of_two_files_gets_the_path_of_the_second(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX], a[FILE_PATH_MAX], b[FILE_PATH_MAX];
    const char *const paths[] = {a, b};
    static const char *const KEYS[] = {"epoch", "b.safetensors:epoch"};
    ckpt_save_result saved;
    ckpt_content *content = NULL, *written = NULL;
    ckpt_value value;
    join(a, f->root, "a.safetensors");
    join(b, f->root, "b.safetensors");
    join(path, f->root, "out.safetensors");
    file_copy(a, GOLDEN_DIR "/state/state.safetensors");
    file_copy(b, GOLDEN_DIR "/state/state.safetensors");
    MUST(ckpt_save_files(&saved, f->store, paths, 2, NULL, ERR));
    MUST(ckpt_content_open(&content, f->store, saved.id, ERR));
    MUST(export_to(NULL, content, path, (ckpt_export_options){.format = CKPT_EXPORT_SAFETENSORS}, ERR));
    MUST(ckpt_content_open_file(&written, path, ERR));
    assert_int_equal(ckpt_content_value_count(written, 0), 2);
    for (size_t i = 0; i < 2; i++) {
        MUST(ckpt_content_value(&value, written, 0, i));
        assert_non_null(strstr(value.key, KEYS[i]));
        assert_string_equal(value.value, "7");
    }
    ckpt_content_close(written);
    ckpt_content_close(content);
}

static int stop(void *payload, uint64_t done, uint64_t total)
{
    (void)payload;
    return done > total / 2;
}

static void an_export_that_is_stopped_leaves_what_was_there(void **state)
{
    fixture *const f = *state;
    char folder[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_content *content = NULL;
    char id[CKPT_ID_SIZE];
    save_step(id, f, 1, 1);
    join(folder, f->root, "out");
    make_dir(folder, "");
    join(path, folder, "file");
    write_text(path, "before");
    f->store->progress = stop;
    MUST(ckpt_content_open(&content, f->store, "latest", ERR));
    for (int format = 0; format < 3; format++)
        assert_int_equal(export_to(NULL, content, path,
                                   (ckpt_export_options){.format = (ckpt_export_format)format, .overwrite = true},
                                   NULL),
                         CKPT_EINTERRUPTED);
    ckpt_content_close(content);
    char *const text = read_text(path);
    assert_string_equal(text, "before");
    assert_int_equal(count_files(folder), 1);
    free(text);
}

int main(void)
{
#define EXPORT_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        EXPORT_TEST(every_format_becomes_every_other_with_the_same_values),
        EXPORT_TEST(a_safetensors_file_is_the_one_that_python_writes),
        EXPORT_TEST(views_become_tensors_of_their_own),
        EXPORT_TEST(a_checkpoint_is_exported_as_its_file_would_be),
        EXPORT_TEST(only_some_tensors_are_written),
        EXPORT_TEST(what_nothing_fits_is_not_found_and_not_written),
        EXPORT_TEST(floats_are_converted_and_the_error_told),
        EXPORT_TEST(what_every_value_survives_is_not_lossy),
        EXPORT_TEST(types_that_a_format_lacks_are_refused_by_name),
        EXPORT_TEST(options_that_make_no_sense_are_refused),
        EXPORT_TEST(values_go_along_and_their_loss_is_counted),
        EXPORT_TEST(a_value_of_two_files_gets_the_path_of_the_second),
        EXPORT_TEST(an_export_that_is_stopped_leaves_what_was_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
