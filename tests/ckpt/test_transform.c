/* Lossy choices. tests/golden/state holds what PyTorch, NumPy and the safetensors package make of the same state. */
#include "file_tree.h"
#include "tensor_input.h"

#include "pattern.h"
#include "transform.h"

#include "expectation.h"

#include <math.h>

static const char *const DROPPED[] = {"model.b*", "*.exp_avg_sq"};
static const transform_rules ROUND = {.optimizer_bf16 = true}, STRIP = {.weights_only = true},
                             DROP = {.drop = DROPPED, .drop_count = 2};

/* A transformed file in memory. */
typedef struct transformed {
    input in;
    tensor_file file;
    byte_source below;
    transform t;
    transform_account account;
} transformed;

static int transformed_open(transformed *x, const transform_rules *rules, ckpt_error *err)
{
    char why[256];

    byte_source_memory(&x->below, x->in.data, x->in.size, "state.safetensors");
    MUST(tensor_file_read(&x->file, why, &x->below, ERR));
    assert_string_equal(why, "");
    return transform_open(&x->t, &x->account, &x->file, &x->below, rules, err);
}

static void transformed_clear(transformed *x)
{
    transform_close(&x->t);
    tensor_file_clear(&x->file);
    input_free(&x->in);
}

static void assert_transformed(const transform_rules *rules, const char *expected_name)
{
    transformed x = {.in = input_golden("state/state.safetensors")};
    input expected = input_golden(expected_name);

    MUST(transformed_open(&x, rules, ERR));
    assert_int_equal(x.t.source.size, expected.size);
    char *const bytes = malloc(expected.size);
    MUST(x.t.source.read(&x.t.source, bytes, 0, expected.size, ERR));
    assert_memory_equal(bytes, expected.data, expected.size);
    free(bytes);
    input_free(&expected);
    transformed_clear(&x);
}

static void rounded_values_are_those_of_pytorch(void **state)
{
    (void)state;
    assert_transformed(&ROUND, "state/rounded.safetensors");
}

static void weights_only_is_the_file_that_python_writes_of_the_weights(void **state)
{
    (void)state;
    assert_transformed(&STRIP, "state/weights.safetensors");
}

static void dropped_tensors_are_those_that_python_finds_by_the_same_patterns(void **state)
{
    (void)state;
    assert_transformed(&DROP, "state/dropped.safetensors");
}

static void any_range_of_the_file_reads_the_same(void **state)
{
    transformed x = {.in = input_golden("state/state.safetensors")};
    input expected = input_golden("state/rounded.safetensors");
    unsigned char *const bytes = malloc(expected.size);
    uint64_t random = 1;
    (void)state;

    MUST(transformed_open(&x, &ROUND, ERR));
    for (int i = 0; i < 20000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const size_t offset = (size_t)(random >> 33) % expected.size;
        const size_t left = expected.size - offset, wanted = (size_t)(random >> 20) % (i % 2 ? 13 : 3000);
        const size_t size = wanted < left ? wanted : left;
        MUST(x.t.source.read(&x.t.source, bytes, offset, size, ERR));
        assert_memory_equal(bytes, expected.data + offset, size);
    }
    free(bytes);
    input_free(&expected);
    transformed_clear(&x);
}

/* tensors, largest relative error, root mean square */
static void assert_account(void *payload, char *const *columns, size_t count)
{
    char expected[CKPT_LOSSY_SIZE];

    assert_int_equal(count, 3);
    snprintf(expected, sizeof expected, "optimizer bf16: %s tensors, largest relative error %s, rms %s", columns[0],
             columns[1], columns[2]);
    assert_string_equal(payload, expected);
}

static void errors_are_those_that_numpy_measures(void **state)
{
    transformed x = {.in = input_golden("state/state.safetensors")};
    unsigned char piece[1001];
    char text[CKPT_LOSSY_SIZE];
    (void)state;

    MUST(transformed_open(&x, &ROUND, ERR));
    for (uint64_t at = 0; at < x.t.source.size; at += sizeof piece) { /* elements lie in two pieces */
        const uint64_t left = x.t.source.size - at;
        const size_t n = left < sizeof piece ? (size_t)left : sizeof piece;
        MUST(transform_read(piece, &x.t, &x.account, at, n, ERR));
    }
    transform_text(text, &x.account, &ROUND);
    expected_rows("../state/lossy.txt", assert_account, text);
    transformed_clear(&x);
}

static void a_number_beyond_bf16_becomes_infinite_and_the_error_says_so(void **state)
{
    static const char HEADER[] = "{\"optimizer.a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  ";
    static const float VALUES[] = {3.4e38f, 1.0f};
    transformed x = {0};
    unsigned char prefix[8], read[8];
    float rounded[2];
    (void)state;

    store_u64(prefix, sizeof HEADER - 1);
    input_add(&x.in, prefix, 8);
    INPUT_ADD_LITERAL(&x.in, HEADER);
    input_add(&x.in, VALUES, 8);
    MUST(transformed_open(&x, &ROUND, ERR));
    MUST(transform_read(read, &x.t, &x.account, 8 + sizeof HEADER - 1, 8, ERR));
    memcpy(rounded, read, 8);
    assert_true(isinf(rounded[0]) && rounded[1] == 1.0f && isinf(x.account.error.max));
    transformed_clear(&x);
}

/* Two tensors; of what type the first is nobody knows. */
static input unknown_type(void)
{
    static const char HEADER[] = "{\"new\":{\"dtype\":\"X1\",\"shape\":[4],\"data_offsets\":[0,4]},"
                                 "\"optimizer.b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}";
    input in = {0};
    unsigned char prefix[8];

    store_u64(prefix, sizeof HEADER - 1);
    input_add(&in, prefix, 8);
    INPUT_ADD_LITERAL(&in, HEADER);
    INPUT_ADD_LITERAL(&in, "abcd\1\0\200\77\1\0\0\300");
    return in;
}

static void bytes_of_an_unknown_type_stay_when_others_are_rounded(void **state)
{
    transformed x = {.in = unknown_type()};
    unsigned char read[12];
    (void)state;

    MUST(transformed_open(&x, &ROUND, ERR));
    assert_int_equal(x.t.source.size, x.in.size);
    MUST(x.t.source.read(&x.t.source, read, x.in.size - 12, 12, ERR));
    assert_memory_equal(read, "abcd\0\0\200\77\0\0\0\300", 12);
    transformed_clear(&x);
}

static void nothing_is_left_out_beside_a_tensor_of_an_unknown_type(void **state)
{
    transformed x = {.in = unknown_type()};
    (void)state;

    assert_int_equal(transformed_open(&x, &STRIP, NULL), CKPT_EUSAGE);
    transformed_clear(&x);
}

/* ---- Saving ----------------------------------------------------------------------------------------------------- */

static void save_golden(ckpt_save_result *result, fixture *f, const char *name, const transform_rules *rules)
{
    char path[FILE_PATH_MAX];
    const char *const paths[] = {path};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;

    options.optimizer_bf16 = rules->optimizer_bf16;
    options.weights_only = rules->weights_only;
    options.drop = rules->drop;
    options.drop_count = rules->drop_count;
    join(path, GOLDEN_DIR, name);
    MUST(ckpt_save_files(result, f->store, paths, 1, &options, ERR));
}

/* The first file of the checkpoint, at whatever path the current folder gave it. */
static void assert_restores_golden(fixture *f, const char *id, const char *expected_name)
{
    char dir[FILE_PATH_MAX], restored[FILE_PATH_MAX], expected[FILE_PATH_MAX];
    const ckpt_restore_options options = {.size = sizeof options, .dir = dir, .overwrite = true};
    ckpt_content *content = NULL;

    join(dir, f->root, "out");
    MUST(ckpt_content_open(&content, f->store, id, ERR));
    join(restored, dir, ckpt_content_file(content, 0)->path);
    ckpt_content_close(content);
    join(expected, GOLDEN_DIR, expected_name);
    MUST(ckpt_restore_files(NULL, f->store, id, &options, ERR));
    assert_same_bytes(restored, expected);
}

static const char *meta_get(const ckpt_info *info, const char *key)
{
    for (size_t i = 0; i < info->meta_count; i++)
        if (strcmp(info->meta[i].key, key) == 0)
            return info->meta[i].value;
    return NULL;
}

static void the_transformed_file_is_restored_byte_for_byte(void **state)
{
    ckpt_save_result rounded, stripped, dropped;
    fixture *const f = *state;

    save_golden(&rounded, f, "state/state.safetensors", &ROUND);
    save_golden(&stripped, f, "state/state.safetensors", &STRIP);
    save_golden(&dropped, f, "state/state.safetensors", &DROP);
    assert_restores_golden(f, rounded.id, "state/rounded.safetensors");
    assert_restores_golden(f, stripped.id, "state/weights.safetensors");
    assert_restores_golden(f, dropped.id, "state/dropped.safetensors");
}

static void the_checkpoint_says_what_was_done_to_it(void **state)
{
    ckpt_save_result result;
    ckpt_list *list = NULL;
    fixture *const f = *state;

    save_golden(&result, f, "state/state.safetensors", &ROUND);
    expected_rows("../state/lossy.txt", assert_account, result.lossy);
    MUST(ckpt_list_new(&list, f->store, ERR));
    assert_string_equal(meta_get(ckpt_list_get(list, 0), CKPT_META_LOSSY), result.lossy);
    ckpt_list_free(list);
}

static void an_exact_save_says_nothing(void **state)
{
    static const transform_rules NONE = {0};
    ckpt_save_result result;
    ckpt_list *list = NULL;
    fixture *const f = *state;

    save_golden(&result, f, "state/state.safetensors", &NONE);
    assert_string_equal(result.lossy, "");
    MUST(ckpt_list_new(&list, f->store, ERR));
    assert_int_equal(ckpt_list_get(list, 0)->meta_count, 0);
    ckpt_list_free(list);
}

static void what_finds_nothing_to_do_is_exact_and_noted(void **state)
{
    ckpt_save_result result;
    fixture *const f = *state;

    save_golden(&result, f, "state/weights.safetensors", &ROUND);
    assert_string_equal(result.lossy, "");
    assert_string_equal(f->note, "no f32 tensor of an optimizer was there to round");
    save_golden(&result, f, "state/weights.safetensors", &STRIP);
    assert_string_equal(f->note, "no tensor but weights was there to leave out");
    save_golden(&result, f, "torch/mnist.safetensors", &DROP);
    assert_string_equal(f->note, "no tensor has a name that fits `model.b*`");
}

static void frames_tell_of_rounding_and_the_config_of_such_frames(void **state)
{
    ckpt_save_result result;
    sha256 name;
    pack *p = NULL;
    bool rounded = false;
    fixture *const f = *state;

    save_golden(&result, f, "state/state.safetensors", &ROUND);
    own_pack(&name, f, result.id);
    MUST(pack_open(&p, f->store->packs_dir, &name, ERR));
    assert_true(p->index.features & PACK_FEATURE_TRANSFORMS);
    for (uint32_t i = 0; i < p->index.frame_count; i++) {
        const pack_frame *const frame = &p->index.frames[i];
        const char *const class_name = pack_string(&p->index, frame->class_name);
        const bool moment = strncmp(class_name, "exp_avg", 7) == 0 && frame->dtype == CKPT_F32;
        assert_int_equal(frame->transform, moment ? TRANSFORM_BF16 : TRANSFORM_NONE);
        rounded |= moment;
    }
    assert_true(rounded);
    pack_close(p);
    char *const config = read_text(f->store->config_path);
    char *const list = strstr(config, "\nread-only =");
    assert_non_null(list);
    *strchr(list + 1, '\n') = 0;
    assert_non_null(strstr(list, "transforms"));
    free(config);
}

static void the_config_is_told_once_and_the_store_can_be_written_on(void **state)
{
    ckpt_save_result result;
    fixture *const f = *state;

    save_golden(&result, f, "state/state.safetensors", &ROUND);
    fixture_reopen(f);
    save_golden(&result, f, "trajectory-tiny/model_epoch_1.safetensors", &ROUND);
    save_golden(&result, f, "state/state.safetensors", &ROUND);
    char *const config = read_text(f->store->config_path);
    const char *const first = strstr(config, "transforms");
    assert_non_null(first);
    assert_null(strstr(first + 1, "transforms"));
    free(config);
}

static void a_file_of_another_format_is_refused_and_nothing_saved(void **state)
{
    static const char *const NAMES[] = {"state/state.pt", "state/state.legacy.pt", "state/state.npz"};
    fixture *const f = *state;
    ckpt_list *list = NULL;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;

    options.weights_only = true;
    for (size_t i = 0; i < 3; i++) {
        char path[FILE_PATH_MAX];
        const char *const paths[] = {path};
        ckpt_error err = {0};
        join(path, GOLDEN_DIR, NAMES[i]);
        assert_int_equal(ckpt_save_files(NULL, f->store, paths, 1, &options, &err), CKPT_EUSAGE);
        assert_non_null(strstr(err.hint, "ckpt export"));
    }
    MUST(ckpt_list_new(&list, f->store, ERR));
    assert_int_equal(ckpt_list_count(list), 0);
    ckpt_list_free(list);
}

static void files_without_tensors_beside_are_saved_as_they_are(void **state)
{
    char dir[FILE_PATH_MAX], from[FILE_PATH_MAX], to[FILE_PATH_MAX], out[FILE_PATH_MAX];
    const char *const paths[] = {dir};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    const ckpt_restore_options elsewhere = {.size = sizeof elsewhere, .dir = out};
    fixture *const f = *state;

    join(dir, f->root, "run");
    join(out, f->root, "out");
    make_dir(f->root, "run");
    write_in(dir, "config.json", "{\"layers\": 3}\n", 14);
    join(from, GOLDEN_DIR, "state/state.safetensors");
    join(to, dir, "state.safetensors");
    file_copy(to, from);
    options.optimizer_bf16 = true;
    MUST(ckpt_save_files(NULL, f->store, paths, 1, &options, ERR));
    MUST(ckpt_restore_files(NULL, f->store, "latest", &elsewhere, ERR));
    join(from, out, "run/config.json");
    char *const text = read_text(from);
    assert_string_equal(text, "{\"layers\": 3}\n");
    free(text);
}

static void the_key_of_what_was_done_is_not_for_others(void **state)
{
    static const ckpt_value META[] = {{CKPT_META_LOSSY, "no"}};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    const char *const paths[] = {GOLDEN_DIR "/state/state.safetensors"};
    fixture *const f = *state;

    options.meta = META;
    options.meta_count = 1;
    assert_int_equal(ckpt_save_files(NULL, f->store, paths, 1, &options, NULL), CKPT_EUSAGE);
}

static void a_pattern_is_text(void **state)
{
    static const char *const BAD[] = {"", "a\nb", "\xff"};
    const char *const paths[] = {GOLDEN_DIR "/state/state.safetensors"};
    fixture *const f = *state;

    for (size_t i = 0; i < 3; i++) {
        ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
        options.drop = &BAD[i];
        options.drop_count = 1;
        assert_int_equal(ckpt_save_files(NULL, f->store, paths, 1, &options, NULL), CKPT_EUSAGE);
    }
}

/* ---- From memory ------------------------------------------------------------------------------------------------ */

#define MEMORY_TENSORS_MAX 32

/* The golden state as tensors in memory, in the order of its bytes. */
typedef struct memory_state {
    input in;
    tensor_file file;
    ckpt_tensor tensors[MEMORY_TENSORS_MAX];
} memory_state;

static int view_compare(const void *a, const void *b)
{
    const tensor_view *const x = a, *const y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void memory_state_load(memory_state *m)
{
    char why[256];

    m->in = input_golden("state/state.safetensors");
    input_read(&m->file, why, m->in.data, m->in.size);
    assert_true(m->file.count > 0 && m->file.count <= MEMORY_TENSORS_MAX);
    qsort(m->file.tensors, m->file.count, sizeof *m->file.tensors, view_compare);
    for (size_t i = 0; i < m->file.count; i++) {
        const tensor_view *const v = &m->file.tensors[i];
        m->tensors[i] = (ckpt_tensor){v->name, v->dtype, v->rank, {0}, m->in.data + v->offset};
        memcpy(m->tensors[i].shape, v->shape, sizeof v->shape);
    }
}

static void memory_state_clear(memory_state *m)
{
    tensor_file_clear(&m->file);
    input_free(&m->in);
}

static void tensors_from_memory_are_transformed_and_stay_as_they_were(void **state)
{
    memory_state m;
    ckpt_save_result result;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    fixture *const f = *state;

    memory_state_load(&m);
    options.optimizer_bf16 = true;
    MUST(ckpt_save_tensors(&result, f->store, NULL, m.tensors, m.file.count, m.file.values, m.file.value_count,
                           &options, ERR));
    assert_restores_golden(f, result.id, "state/rounded.safetensors");
    input before = input_golden("state/state.safetensors");
    assert_memory_equal(m.in.data, before.data, before.size);
    input_free(&before);
    memory_state_clear(&m);
}

static void the_background_writer_saves_the_same_twice_running(void **state)
{
    memory_state m;
    ckpt_writer *writer = NULL;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    fixture *const f = *state;

    memory_state_load(&m);
    options.optimizer_bf16 = true;
    MUST(ckpt_writer_open(&writer, f->root, NULL, ERR));
    for (int i = 0; i < 2; i++) { /* the second has the state of the first at hand */
        MUST(ckpt_writer_submit(writer, NULL, m.tensors, m.file.count, m.file.values, m.file.value_count, &options,
                                CKPT_KEEP, ERR));
        MUST(ckpt_writer_wait(writer, ERR));
        assert_restores_golden(f, "latest", "state/rounded.safetensors");
    }
    MUST(ckpt_writer_close(writer, ERR));
    memory_state_clear(&m);
}

static void the_background_writer_has_its_own_patterns(void **state)
{
    memory_state m;
    ckpt_writer *writer = NULL;
    char first[16] = "model.b*", second[16] = "*.exp_avg_sq";
    const char *const patterns[] = {first, second};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    fixture *const f = *state;

    memory_state_load(&m);
    options.drop = patterns;
    options.drop_count = 2;
    MUST(ckpt_writer_open(&writer, f->root, NULL, ERR));
    MUST(ckpt_writer_submit(writer, NULL, m.tensors, m.file.count, m.file.values, m.file.value_count, &options,
                            CKPT_KEEP, ERR));
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    MUST(ckpt_writer_close(writer, ERR));
    assert_restores_golden(f, "latest", "state/dropped.safetensors");
    memory_state_clear(&m);
}

/* ---- Patterns --------------------------------------------------------------------------------------------------- */

static void patterns_are_those_of_a_shell(void **state)
{
    (void)state;
    assert_true(pattern_fits("optimizer.*", "optimizer.state.0.exp_avg"));
    assert_true(pattern_fits("*.exp_avg", "optimizer.state.0.exp_avg"));
    assert_true(pattern_fits("layer?.[bw]*", "layer1.weight"));
    assert_false(pattern_fits("layer?.[bw]*", "layer10.weight"));
    assert_false(pattern_fits("optimizer", "optimizer.state"));
    assert_false(pattern_any(NULL, 0, "a"));
}

static void a_pattern_of_a_folder_fits_all_below_it(void **state)
{
    static const char *const PATTERNS[] = {"runs/exp?"};
    (void)state;
    assert_true(pattern_any_path(PATTERNS, 1, "runs/exp1"));
    assert_true(pattern_any_path(PATTERNS, 1, "runs/exp1/a/b.pt"));
    assert_false(pattern_any_path(PATTERNS, 1, "runs/exp10"));
    assert_false(pattern_any_path(PATTERNS, 1, "runs"));
}

int main(void)
{
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_values_are_those_of_pytorch),
        cmocka_unit_test(weights_only_is_the_file_that_python_writes_of_the_weights),
        cmocka_unit_test(dropped_tensors_are_those_that_python_finds_by_the_same_patterns),
        cmocka_unit_test(any_range_of_the_file_reads_the_same),
        cmocka_unit_test(errors_are_those_that_numpy_measures),
        cmocka_unit_test(a_number_beyond_bf16_becomes_infinite_and_the_error_says_so),
        cmocka_unit_test(bytes_of_an_unknown_type_stay_when_others_are_rounded),
        cmocka_unit_test(nothing_is_left_out_beside_a_tensor_of_an_unknown_type),
        STORE_TEST(the_transformed_file_is_restored_byte_for_byte),
        STORE_TEST(the_checkpoint_says_what_was_done_to_it),
        STORE_TEST(an_exact_save_says_nothing),
        STORE_TEST(what_finds_nothing_to_do_is_exact_and_noted),
        STORE_TEST(frames_tell_of_rounding_and_the_config_of_such_frames),
        STORE_TEST(the_config_is_told_once_and_the_store_can_be_written_on),
        STORE_TEST(a_file_of_another_format_is_refused_and_nothing_saved),
        STORE_TEST(files_without_tensors_beside_are_saved_as_they_are),
        STORE_TEST(the_key_of_what_was_done_is_not_for_others),
        STORE_TEST(a_pattern_is_text),
        STORE_TEST(tensors_from_memory_are_transformed_and_stay_as_they_were),
        STORE_TEST(the_background_writer_saves_the_same_twice_running),
        STORE_TEST(the_background_writer_has_its_own_patterns),
        cmocka_unit_test(patterns_are_those_of_a_shell),
        cmocka_unit_test(a_pattern_of_a_folder_fits_all_below_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
