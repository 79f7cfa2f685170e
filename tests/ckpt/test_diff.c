#include "expectation.h"

#include <math.h>

typedef struct sides {
    ckpt_content *a, *b;
    ckpt_diff *diff;
} sides;

static sides diff_files_on_disk(const char *path_a, const char *path_b)
{
    sides s = {0};
    MUST(ckpt_content_open_file(&s.a, path_a, ERR));
    MUST(ckpt_content_open_file(&s.b, path_b, ERR));
    MUST(ckpt_diff_new(&s.diff, s.a, s.b, NULL, ERR));
    return s;
}

static sides diff_checkpoints(fixture *f, const char *name_a, const char *name_b)
{
    sides s = {0};
    MUST(ckpt_content_open(&s.a, f->store, name_a, ERR));
    MUST(ckpt_content_open(&s.b, f->store, name_b, ERR));
    MUST(ckpt_diff_new(&s.diff, s.a, s.b, NULL, ERR));
    return s;
}

static void sides_close(sides *s)
{
    ckpt_diff_free(s->diff);
    ckpt_content_close(s->a);
    ckpt_content_close(s->b);
    *s = (sides){0};
}

/* ---- Against NumPy ---- */

#define RELATIVE_ERROR 1e-12

static void assert_near(const char *name, const char *what, double value, const char *text)
{
    const double expected = strtod(text, NULL);
    if (isnan(expected) ? !isnan(value) : !(fabs(value - expected) <= RELATIVE_ERROR * fabs(expected)))
        fail_msg("%s: %s is %.17g, not %.17g", name, what, value, expected);
}

typedef struct diff_rows {
    const ckpt_diff *diff;
    size_t next;
} diff_rows;

static void assert_row(void *payload, char *const *columns, size_t count)
{
    static const char *const CHANGES[] = {"same", "changed", "added", "removed", "reshaped"};
    diff_rows *const r = payload;
    assert_int_equal(count, 8);
    assert_true(r->next < r->diff->tensor_count);
    const ckpt_diff_tensor *const t = &r->diff->tensors[r->next++];
    assert_string_equal(t->name, columns[0]);
    assert_string_equal(CHANGES[t->change], columns[1]);
    assert_int_equal(t->elements, strtoull(columns[2], NULL, 10));
    assert_int_equal(t->changed, strtoull(columns[3], NULL, 10));
    assert_true(t->max_abs == strtod(columns[4], NULL));
    assert_near(t->name, "mean |b-a|", t->mean_abs, columns[5]);
    assert_near(t->name, "|b-a|/|a|", t->relative_l2, columns[6]);
    assert_near(t->name, "cosine", t->cosine, columns[7]);
    assert_int_equal(t->nan_a + t->nan_b + t->inf_a + t->inf_b, 0);
}

static const char *const PAIRS[][3] = {
    {"diff_neighbours.txt", "trajectory-tiny/checkpoint_epoch_1.pt", "trajectory-tiny/checkpoint_epoch_2.pt"},
    {"diff_weights.txt", "trajectory-tiny/model_epoch_1.safetensors", "trajectory-tiny/model_epoch_3.safetensors"},
    {"diff_formats.txt", "trajectory-tiny/checkpoint_epoch_2.pt", "trajectory-tiny/model_epoch_3.safetensors"},
    {"diff_types.txt", "trajectory-tiny/adamw_bf16_step_30.pt", "trajectory-tiny/model_epoch_1.safetensors"},
};

static void assert_as_numpy(const sides *s, const char *expected)
{
    diff_rows rows = {s->diff, 0};
    expected_rows(expected, assert_row, &rows);
    assert_int_equal(rows.next, s->diff->tensor_count);
    assert_false(s->diff->equal);
    assert_int_equal(s->diff->file_count, 0);
}

static void files_differ_by_the_numbers_of_numpy(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        char a[FILE_PATH_MAX], b[FILE_PATH_MAX];
        join(a, GOLDEN_DIR, PAIRS[i][1]);
        join(b, GOLDEN_DIR, PAIRS[i][2]);
        sides s = diff_files_on_disk(a, b);
        assert_as_numpy(&s, PAIRS[i][0]);
        sides_close(&s);
    }
}

static void checkpoints_differ_by_the_numbers_of_numpy(void **state)
{
    fixture *const f = *state;
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        char a[FILE_PATH_MAX], b[FILE_PATH_MAX];
        join(a, GOLDEN_DIR, PAIRS[i][1]);
        join(b, GOLDEN_DIR, PAIRS[i][2]);
        save_path(f, a);
        save_path(f, b);
        sides s = diff_checkpoints(f, "latest~1", "latest");
        assert_as_numpy(&s, PAIRS[i][0]);
        sides_close(&s);
    }
}

static void golden_file_equals_its_checkpoint(void **state)
{
    fixture *const f = *state;
    for (size_t i = 0; i < EXPECTED_FILE_COUNT; i++) {
        char path[FILE_PATH_MAX];
        sides s = {0};
        join(path, GOLDEN_DIR, EXPECTED_FILES[i]);
        save_path(f, path);
        MUST(ckpt_content_open(&s.a, f->store, "latest", ERR));
        MUST(ckpt_content_open_file(&s.b, path, ERR));
        MUST(ckpt_diff_new(&s.diff, s.a, s.b, NULL, ERR));
        if (!s.diff->equal)
            fail_msg("%s differs from its checkpoint", path);
        sides_close(&s);
    }
}

/* ---- Values made by hand ---- */

static void save_tensor(fixture *f, const ckpt_tensor *tensor)
{
    MUST(ckpt_save_tensors(NULL, f->store, NULL, tensor, 1, NULL, 0, NULL, ERR));
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void special_values_are_counted_and_left_out_of_sums(void **state)
{
    fixture *const f = *state;
    /* Changed are all but the first: other values, another NaN, the sign of infinity, of zero, and a NaN of a number.
     */
    const float nan_1 = float_of(0x7fc00000), nan_2 = float_of(0x7fc00001), inf = float_of(0x7f800000);
    float a[] = {3, 1, nan_1, inf, -0.0f, 5}, b[] = {3, 5, nan_2, -inf, 0.0f, nan_1};
    save_tensor(f, &(ckpt_tensor){"x", CKPT_F32, 1, {6}, a});
    save_tensor(f, &(ckpt_tensor){"x", CKPT_F32, 1, {6}, b});
    sides s = diff_checkpoints(f, "latest~1", "latest");
    assert_int_equal(s.diff->tensor_count, 1);
    const ckpt_diff_tensor *const t = &s.diff->tensors[0];
    assert_int_equal(t->change, CKPT_CHANGED);
    assert_int_equal(t->elements, 6);
    assert_int_equal(t->changed, 5);
    assert_int_equal(t->nan_a, 1);
    assert_int_equal(t->nan_b, 2);
    assert_int_equal(t->inf_a, 1);
    assert_int_equal(t->inf_b, 1);
    assert_true(t->max_abs == 4);
    assert_true(t->mean_abs == 4.0 / 3);
    assert_near("x", "|b-a|/|a|", t->relative_l2, "1.2649110640673518"); /* 4 / sqrt(10) */
    assert_near("x", "cosine", t->cosine, "0.7592566023652966");         /* 14 / sqrt(10 * 34) */
    sides_close(&s);
}

static void zeros_have_no_direction(void **state)
{
    fixture *const f = *state;
    float zero[2] = {0, 0}, one[2] = {0, 1};
    save_tensor(f, &(ckpt_tensor){"x", CKPT_F32, 1, {2}, zero});
    save_tensor(f, &(ckpt_tensor){"x", CKPT_F32, 1, {2}, one});
    save_tensor(f, &(ckpt_tensor){"x", CKPT_F32, 1, {2}, zero});
    sides s = diff_checkpoints(f, "latest~1", "latest");
    assert_true(s.diff->tensors[0].relative_l2 == 1);
    assert_true(isnan(s.diff->tensors[0].cosine));
    sides_close(&s);
    s = diff_checkpoints(f, "latest~2", "latest~1");
    assert_true(isinf(s.diff->tensors[0].relative_l2));
    sides_close(&s);
    s = diff_checkpoints(f, "latest~2", "latest");
    assert_true(s.diff->equal);
    assert_int_equal(s.diff->tensors[0].change, CKPT_SAME);
    assert_true(s.diff->tensors[0].relative_l2 == 0);
    sides_close(&s);
}

static void other_types_are_compared_by_value(void **state)
{
    fixture *const f = *state;
    /* 1, -2.5, 3 as bfloat16, and NaN; the third differs. */
    uint16_t a[] = {0x3f80, 0xc020, 0x4040, 0x7fc0};
    float b[] = {1, -2.5f, 3.25f, float_of(0xffc12345)};
    save_tensor(f, &(ckpt_tensor){"x", CKPT_BF16, 2, {2, 2}, a});
    save_tensor(f, &(ckpt_tensor){"x", CKPT_F32, 2, {2, 2}, b});
    sides s = diff_checkpoints(f, "latest~1", "latest");
    const ckpt_diff_tensor *const t = &s.diff->tensors[0];
    assert_int_equal(t->dtype_a, CKPT_BF16);
    assert_int_equal(t->dtype_b, CKPT_F32);
    assert_int_equal(t->changed, 1);
    assert_true(t->max_abs == 0.25);
    assert_int_equal(t->nan_a, 1);
    assert_int_equal(t->nan_b, 1);
    sides_close(&s);
}

static void equal_values_of_another_type_are_not_equal(void **state)
{
    fixture *const f = *state;
    uint16_t a[] = {0x3f80};
    float b[] = {1};
    save_tensor(f, &(ckpt_tensor){"x", CKPT_BF16, 1, {1}, a});
    save_tensor(f, &(ckpt_tensor){"x", CKPT_F32, 1, {1}, b});
    sides s = diff_checkpoints(f, "latest~1", "latest");
    assert_int_equal(s.diff->tensors[0].change, CKPT_SAME);
    assert_false(s.diff->equal);
    sides_close(&s);
}

static void complex_elements_are_counted_once(void **state)
{
    fixture *const f = *state;
    float a[] = {1, 2, 3, 4}, b[] = {1, 2, 3, 6}; /* 1+2i, 3+4i; 3+6i */
    save_tensor(f, &(ckpt_tensor){"z", CKPT_C64, 1, {2}, a});
    save_tensor(f, &(ckpt_tensor){"z", CKPT_C64, 1, {2}, b});
    sides s = diff_checkpoints(f, "latest~1", "latest");
    assert_int_equal(s.diff->tensor_count, 1);
    assert_int_equal(s.diff->tensors[0].elements, 2);
    assert_int_equal(s.diff->tensors[0].changed, 1);
    assert_true(s.diff->tensors[0].max_abs == 2);
    sides_close(&s);
}

static void scalars_and_empty_tensors_are_compared(void **state)
{
    fixture *const f = *state;
    float a = 1, b = 2;
    const ckpt_tensor before[] = {{"empty", CKPT_F32, 2, {3, 0}, NULL}, {"scalar", CKPT_F32, 0, {0}, &a}};
    const ckpt_tensor after[] = {{"empty", CKPT_F32, 2, {3, 0}, NULL}, {"scalar", CKPT_F32, 0, {0}, &b}};
    MUST(ckpt_save_tensors(NULL, f->store, NULL, before, 2, NULL, 0, NULL, ERR));
    MUST(ckpt_save_tensors(NULL, f->store, NULL, after, 2, NULL, 0, NULL, ERR));
    sides s = diff_checkpoints(f, "latest~1", "latest");
    assert_int_equal(s.diff->tensor_count, 2);
    assert_string_equal(s.diff->tensors[0].name, "empty");
    assert_int_equal(s.diff->tensors[0].change, CKPT_SAME);
    assert_int_equal(s.diff->tensors[0].elements, 0);
    assert_true(s.diff->tensors[0].mean_abs == 0);
    assert_int_equal(s.diff->tensors[1].elements, 1);
    assert_true(s.diff->tensors[1].max_abs == 1);
    sides_close(&s);
}

static void added_removed_and_reshaped_tensors_are_told(void **state)
{
    fixture *const f = *state;
    float data[6] = {0};
    const ckpt_tensor before[] = {{"gone", CKPT_F32, 1, {6}, data}, {"shape", CKPT_F32, 2, {2, 3}, data}};
    const ckpt_tensor after[] = {{"new", CKPT_F32, 1, {5}, data}, {"shape", CKPT_F32, 2, {3, 2}, data}};
    MUST(ckpt_save_tensors(NULL, f->store, NULL, before, 2, NULL, 0, NULL, ERR));
    MUST(ckpt_save_tensors(NULL, f->store, NULL, after, 2, NULL, 0, NULL, ERR));
    sides s = diff_checkpoints(f, "latest~1", "latest");
    assert_int_equal(s.diff->tensor_count, 3);
    const ckpt_diff_tensor *const t = s.diff->tensors;
    assert_string_equal(t[0].name, "gone");
    assert_int_equal(t[0].change, CKPT_REMOVED);
    assert_int_equal(t[0].elements, 6);
    assert_string_equal(t[1].name, "shape");
    assert_int_equal(t[1].change, CKPT_RESHAPED);
    assert_int_equal(t[1].shape_a[0], 2);
    assert_int_equal(t[1].shape_b[0], 3);
    assert_string_equal(t[2].name, "new");
    assert_int_equal(t[2].change, CKPT_ADDED);
    assert_int_equal(t[2].elements, 5);
    assert_false(s.diff->equal);
    sides_close(&s);
}

static void names_inside_containers_are_paired(void **state)
{
    fixture *const f = *state;
    float one = 1, two = 2;
    /* An exact name is paired before a looser one can take it. */
    const ckpt_tensor before[] = {{"module.w", CKPT_F32, 0, {0}, &one}, {"w", CKPT_F32, 0, {0}, &two}};
    const ckpt_tensor after[] = {{"w", CKPT_F32, 0, {0}, &two}, {"model.w", CKPT_F32, 0, {0}, &one}};
    MUST(ckpt_save_tensors(NULL, f->store, NULL, before, 2, NULL, 0, NULL, ERR));
    MUST(ckpt_save_tensors(NULL, f->store, NULL, after, 2, NULL, 0, NULL, ERR));
    sides s = diff_checkpoints(f, "latest~1", "latest");
    assert_int_equal(s.diff->tensor_count, 2);
    assert_true(s.diff->equal);
    sides_close(&s);
}

/* More elements than are in memory at a time; every 1000th differs by 1. */
static void large_tensors_are_compared_in_parts(void **state)
{
    fixture *const f = *state;
    static float a[100001], b[100001];
    for (size_t i = 0; i < 100001; i++) {
        a[i] = 2;
        b[i] = i % 1000 == 0 ? 3 : 2;
    }
    save_tensor(f, &(ckpt_tensor){"x", CKPT_F32, 1, {100001}, a});
    save_tensor(f, &(ckpt_tensor){"x", CKPT_F32, 1, {100001}, b});
    sides s = diff_checkpoints(f, "latest~1", "latest");
    assert_int_equal(s.diff->tensors[0].changed, 101);
    assert_true(s.diff->tensors[0].mean_abs == 101.0 / 100001);
    assert_true(s.diff->tensors[0].relative_l2 == sqrt(101.0 / 400004));
    sides_close(&s);
}

/* ---- Files without tensors ---- */

static void other_files_are_compared_by_bytes(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], path[FILE_PATH_MAX];
    join(in, f->root, "in");
    make_dir(in, "");
    write_in(in, "same.txt", "same", 4);
    write_in(in, "changed.txt", "abcdef", 6);
    write_in(in, "gone.txt", "12345", 5);
    join(path, in, "link");
    assert_int_equal(symlink("same.txt", path), 0);
    save_path(f, in);
    write_in(in, "changed.txt", "abXdYfgh", 8);
    write_in(in, "new.txt", "1", 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("new.txt", path), 0);
    join(path, in, "gone.txt");
    assert_int_equal(unlink(path), 0);
    save_path(f, in);
    static const ckpt_diff_file EXPECTED[] = {
        {"in/changed.txt", CKPT_CHANGED, 6, 8, 4}, {"in/gone.txt", CKPT_REMOVED, 5, 0, 5},
        {"in/link", CKPT_CHANGED, 0, 0, 0},        {"in/same.txt", CKPT_SAME, 4, 4, 0},
        {"in/new.txt", CKPT_ADDED, 0, 1, 1},
    };
    sides s = diff_checkpoints(f, "latest~1", "latest");
    assert_int_equal(s.diff->tensor_count, 0);
    assert_int_equal(s.diff->file_count, sizeof EXPECTED / sizeof *EXPECTED);
    for (size_t i = 0; i < s.diff->file_count; i++) {
        const ckpt_diff_file *const file = &s.diff->files[i];
        assert_string_equal(file->path, EXPECTED[i].path);
        assert_int_equal(file->change, EXPECTED[i].change);
        assert_int_equal(file->size_a, EXPECTED[i].size_a);
        assert_int_equal(file->size_b, EXPECTED[i].size_b);
        assert_int_equal(file->changed_bytes, EXPECTED[i].changed_bytes);
    }
    assert_false(s.diff->equal);
    sides_close(&s);
}

static void two_files_are_compared_whatever_their_names(void **state)
{
    fixture *const f = *state;
    char a[FILE_PATH_MAX], b[FILE_PATH_MAX];
    join(a, f->root, "a.txt");
    join(b, f->root, "b.dat");
    write_bytes(a, "abc", 3);
    write_bytes(b, "abd", 3);
    sides s = diff_files_on_disk(a, b);
    assert_int_equal(s.diff->file_count, 1);
    assert_int_equal(s.diff->files[0].changed_bytes, 1);
    sides_close(&s);
    s = diff_files_on_disk(a, a);
    assert_true(s.diff->equal);
    sides_close(&s);
}

static void plain_file_is_compared_with_its_saved_version(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], path[FILE_PATH_MAX];
    join(in, f->root, "in");
    make_dir(in, "");
    write_in(in, "a.txt", "aaaa", 4);
    write_in(in, "b.txt", "bbbb", 4);
    save_path(f, in);
    join(path, in, "b.txt");
    write_bytes(path, "bbbX", 4);
    sides s = {0};
    MUST(ckpt_content_open(&s.a, f->store, "latest", ERR));
    MUST(ckpt_content_open_file(&s.b, path, ERR));
    MUST(ckpt_diff_new(&s.diff, s.a, s.b, NULL, ERR));
    assert_int_equal(s.diff->file_count, 1);
    assert_int_equal(s.diff->files[0].change, CKPT_CHANGED);
    assert_int_equal(s.diff->files[0].changed_bytes, 1);
    sides_close(&s);
}

static void names_carry_the_file_where_several_have_tensors(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX];
    join(in, f->root, "in");
    make_dir(in, "");
    for (int i = 1; i <= 2; i++) {
        char from[FILE_PATH_MAX], to[FILE_PATH_MAX], name[64];
        snprintf(name, sizeof name, "model_epoch_%d.safetensors", i);
        join(from, GOLDEN_DIR "/trajectory-tiny", name);
        join(to, in, name);
        file_copy(to, from);
    }
    save_path(f, in);
    save_path(f, in);
    sides s = diff_checkpoints(f, "latest~1", "latest");
    assert_int_equal(s.diff->tensor_count, 244);
    assert_true(s.diff->equal); /* so each was paired within its file */
    assert_non_null(strstr(s.diff->tensors[0].name, "in/model_epoch_1.safetensors:"));
    assert_non_null(strstr(s.diff->tensors[243].name, "in/model_epoch_2.safetensors:"));
    sides_close(&s);
}

static void damage_stops_the_comparison(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    sides s = {0};
    save_step(id, f, 1, 1);
    save_step(id, f, 2, 2);
    own_pack_file(path, f, "latest");
    flip_bit(path, 2000);
    fixture_reopen(f);
    MUST(ckpt_content_open(&s.a, f->store, "latest~1", ERR));
    MUST(ckpt_content_open(&s.b, f->store, id, ERR));
    assert_int_equal(ckpt_diff_new(&s.diff, s.a, s.b, NULL, NULL), CKPT_EDATA);
    assert_null(s.diff);
    sides_close(&s);
}

/* ---- Formats and patterns ---- */

static void one_state_in_all_formats_is_equal_in_every_pair(void **state)
{
    static const char *const FORMATS[] = {"state.safetensors", "state.pt", "state.legacy.pt", "state.npz", "state.h5"};
    char a[FILE_PATH_MAX], b[FILE_PATH_MAX];
    (void)state;
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++) {
            join(a, GOLDEN_DIR "/state", FORMATS[i]);
            join(b, GOLDEN_DIR "/state", FORMATS[j]);
            sides s = diff_files_on_disk(a, b);
            assert_int_equal(s.diff->tensor_count, 14);
            if (!s.diff->equal)
                fail_msg("%s and %s differ", FORMATS[i], FORMATS[j]);
            sides_close(&s);
        }
}

static void a_difference_is_found_in_every_format(void **state)
{
    static const char *const FORMATS[] = {"state.safetensors", "state.pt", "state.legacy.pt", "state.npz", "state.h5"};
    char a[FILE_PATH_MAX];
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        size_t changed = 0;
        join(a, GOLDEN_DIR "/state", FORMATS[i]);
        sides s = diff_files_on_disk(a, GOLDEN_DIR "/state/rounded.safetensors");
        for (size_t k = 0; k < s.diff->tensor_count; k++)
            changed += s.diff->tensors[k].change == CKPT_CHANGED;
        assert_int_equal(changed, 2); /* zeros stay zeros */
        sides_close(&s);
    }
}

static void only_tensors_whose_name_fits_on_a_side_are_compared(void **state)
{
    static const char *const PATTERNS[] = {"model.conv*", "*.exp_avg_sq"};
    const ckpt_diff_options options = {.size = sizeof options, .only = PATTERNS, .only_count = 2};
    sides s = {0};
    (void)state;
    MUST(ckpt_content_open_file(&s.a, GOLDEN_DIR "/state/dropped.safetensors", ERR));
    MUST(ckpt_content_open_file(&s.b, GOLDEN_DIR "/state/state.pt", ERR));
    MUST(ckpt_diff_new(&s.diff, s.a, s.b, &options, ERR));
    assert_int_equal(s.diff->tensor_count, 5); /* two of the model; the file a has no exp_avg_sq */
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(s.diff->tensors[i].change, i < 2 ? CKPT_SAME : CKPT_ADDED);
    sides_close(&s);
}

#define DIFF_TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_differ_by_the_numbers_of_numpy),
        DIFF_TEST(checkpoints_differ_by_the_numbers_of_numpy),
        DIFF_TEST(golden_file_equals_its_checkpoint),
        DIFF_TEST(special_values_are_counted_and_left_out_of_sums),
        DIFF_TEST(zeros_have_no_direction),
        DIFF_TEST(other_types_are_compared_by_value),
        DIFF_TEST(equal_values_of_another_type_are_not_equal),
        DIFF_TEST(complex_elements_are_counted_once),
        DIFF_TEST(scalars_and_empty_tensors_are_compared),
        DIFF_TEST(added_removed_and_reshaped_tensors_are_told),
        DIFF_TEST(names_inside_containers_are_paired),
        DIFF_TEST(large_tensors_are_compared_in_parts),
        DIFF_TEST(other_files_are_compared_by_bytes),
        DIFF_TEST(two_files_are_compared_whatever_their_names),
        DIFF_TEST(plain_file_is_compared_with_its_saved_version),
        DIFF_TEST(names_carry_the_file_where_several_have_tensors),
        DIFF_TEST(damage_stops_the_comparison),
        cmocka_unit_test(one_state_in_all_formats_is_equal_in_every_pair),
        cmocka_unit_test(a_difference_is_found_in_every_format),
        cmocka_unit_test(only_tensors_whose_name_fits_on_a_side_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
