#include "expectation.h"

#include "weights.h"

typedef struct tensors_case {
    fixture *f;
    ckpt_content *content;
} tensors_case;

/* One tensor by its name into memory of our own. */
static void assert_row_restores(void *payload, char *const *columns, size_t count)
{
    const tensors_case *const c = payload;
    char hex[SHA256_HEX_SIZE];
    sha256 hash;
    assert_int_equal(count, 5);
    for (size_t i = 0; i < ckpt_content_tensor_count(c->content); i++) {
        const ckpt_tensor_info *const t = ckpt_content_tensor(c->content, i);
        if (strcmp(t->name, columns[0]) != 0)
            continue;
        ckpt_tensor wanted = {.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = malloc(t->bytes + 1)};
        memcpy(wanted.shape, t->shape, sizeof wanted.shape);
        memset(wanted.data, 0xee, t->bytes + 1);
        MUST(ckpt_restore_tensors(c->f->store, "latest", &wanted, 1, ERR));
        assert_int_equal(((unsigned char *)wanted.data)[t->bytes], 0xee);
        sha256_of(&hash, wanted.data, t->bytes);
        sha256_hex(hex, &hash);
        if (strcmp(hex, columns[4]) != 0)
            fail_msg("elements of %s differ from those that PyTorch or NumPy sees", t->name);
        free(wanted.data);
        return;
    }
    fail_msg("no tensor %s", columns[0]);
}

static void tensors_come_back_in_row_major_order(void **state)
{
    static const char *const FILES[] = {"cases/views.pt",
                                        "cases/fortran.npy",
                                        "cases/mixed.npz",
                                        "torch/special_values.pt",
                                        "torch/noncontiguous_tensor.zip.pt",
                                        "torch/mnist.safetensors"};
    tensors_case c = {.f = *state};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        char path[FILE_PATH_MAX], name[64];
        join(path, GOLDEN_DIR, FILES[i]);
        save_path(c.f, path);
        MUST(ckpt_content_open(&c.content, c.f->store, "latest", ERR));
        snprintf(name, sizeof name, "%s.txt", FILES[i]);
        expected_rows(name, assert_row_restores, &c);
        ckpt_content_close(c.content);
    }
}

#define LARGE_FLOATS ((size_t)3 << 19) /* 6 MiB: several chunks */
#define SMALL_FLOATS ((size_t)100)

static void tensors_of_all_sizes_are_restored_in_one_call(void **state)
{
    fixture *const f = *state;
    float *const large = malloc(LARGE_FLOATS * 4), *const got_large = malloc(LARGE_FLOATS * 4);
    float small[SMALL_FLOATS], got_small[SMALL_FLOATS], scalar = 3.5f, got_scalar = 0;
    fill_weights(large, LARGE_FLOATS * 4, 1);
    fill_weights(small, sizeof small, 2);
    const ckpt_tensor saved[] = {{"large", CKPT_F32, 2, {LARGE_FLOATS / 2, 2}, large},
                                 {"small", CKPT_F32, 1, {SMALL_FLOATS}, small},
                                 {"scalar", CKPT_F32, 0, {0}, &scalar},
                                 {"empty", CKPT_F32, 2, {0, 7}, NULL}};
    const ckpt_tensor wanted[] = {{"empty", CKPT_F32, 2, {0, 7}, NULL},
                                  {"scalar", CKPT_F32, 0, {0}, &got_scalar},
                                  {"large", CKPT_F32, 2, {LARGE_FLOATS / 2, 2}, got_large},
                                  {"small", CKPT_F32, 1, {SMALL_FLOATS}, got_small}};
    MUST(ckpt_save_tensors(NULL, f->store, NULL, saved, 4, NULL, 0, NULL, ERR));
    fill_trained(large, large, LARGE_FLOATS * 4, 1e-3f, 3);
    MUST(ckpt_save_tensors(NULL, f->store, NULL, saved, 4, NULL, 0, NULL, ERR)); /* a delta */
    fixture_reopen(f);
    MUST(ckpt_restore_tensors(f->store, "latest", wanted, 4, ERR));
    assert_memory_equal(got_large, large, LARGE_FLOATS * 4);
    assert_memory_equal(got_small, small, sizeof small);
    assert_true(got_scalar == 3.5f);
    MUST(ckpt_restore_tensors(f->store, "latest", NULL, 0, ERR));
    free(large);
    free(got_large);
}

static void assert_tensor_refused(fixture *f, ckpt_dtype dtype, unsigned rank, uint64_t rows, uint64_t columns,
                                  const char *name, int code)
{
    float data[FIXTURE_TENSOR_FLOATS] = {0};
    const ckpt_tensor wanted = {name, dtype, rank, {rows, columns}, data};
    ckpt_error err = {0};
    assert_int_equal(ckpt_restore_tensors(f->store, "latest", &wanted, 1, &err), code);
    if (!strstr(err.message, name))
        fail_msg("'%s' does not name %s", err.message, name);
    for (size_t i = 0; i < FIXTURE_TENSOR_FLOATS; i++)
        assert_true(data[i] == 0);
}

static void what_does_not_fit_is_refused_by_name(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    save_step(id, f, 1, 1);
    assert_tensor_refused(f, CKPT_F16, 1, FIXTURE_TENSOR_FLOATS, 0, "weight", CKPT_EUSAGE);
    assert_tensor_refused(f, (ckpt_dtype)99, 1, FIXTURE_TENSOR_FLOATS, 0, "weight", CKPT_EUSAGE);
    assert_tensor_refused(f, CKPT_F32, 1, FIXTURE_TENSOR_FLOATS - 1, 0, "weight", CKPT_EUSAGE);
    assert_tensor_refused(f, CKPT_F32, 2, FIXTURE_TENSOR_FLOATS, 1, "bias", CKPT_EUSAGE);
    assert_tensor_refused(f, CKPT_F32, 0, 0, 0, "bias", CKPT_EUSAGE);
    assert_tensor_refused(f, CKPT_F32, 1, FIXTURE_TENSOR_FLOATS, 0, "weights", CKPT_ENOTFOUND);
}

static void damage_is_found_by_the_checks_of_chunks(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    float data[FIXTURE_TENSOR_FLOATS];
    const ckpt_tensor wanted = {"weight", CKPT_F32, 1, {FIXTURE_TENSOR_FLOATS}, data};
    save_step(id, f, 1, 1);
    own_pack_file(path, f, id);
    flip_bit(path, 2000);
    fixture_reopen(f);
    assert_int_equal(ckpt_restore_tensors(f->store, id, &wanted, 1, NULL), CKPT_EDATA);
}

static void damaged_newest_falls_back_for_latest_only(void **state)
{
    fixture *const f = *state;
    char good[CKPT_ID_SIZE], damaged[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    float wanted_data[FIXTURE_TENSOR_FLOATS], data[FIXTURE_TENSOR_FLOATS];
    const ckpt_tensor first = {"weight", CKPT_F32, 1, {FIXTURE_TENSOR_FLOATS}, wanted_data};
    const ckpt_tensor wanted = {"weight", CKPT_F32, 1, {FIXTURE_TENSOR_FLOATS}, data};
    save_step(good, f, 1, 1);
    MUST(ckpt_restore_tensors(f->store, good, &first, 1, ERR));
    save_step(damaged, f, 2, 2);
    own_pack_file(path, f, damaged);
    flip_bit(path, 2000);
    fixture_reopen(f);
    MUST(ckpt_restore_tensors(f->store, "latest", &wanted, 1, ERR));
    assert_memory_equal(data, wanted_data, sizeof data);
    good[8] = damaged[8] = 0;
    assert_non_null(strstr(f->note, damaged));
    assert_non_null(strstr(f->note, good));
    assert_int_equal(ckpt_restore_tensors(f->store, "latest~0", &wanted, 1, NULL), CKPT_EDATA);
}

static void a_name_in_two_files_is_refused_with_both(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], path[FILE_PATH_MAX];
    unsigned char data[4];
    ckpt_error err = {0};
    ckpt_content *content;
    join(in, f->root, "in");
    make_dir(in, "");
    join(path, in, "one.safetensors");
    file_copy(path, GOLDEN_DIR "/torch/mnist.safetensors");
    join(path, in, "two.safetensors");
    file_copy(path, GOLDEN_DIR "/torch/mnist.safetensors");
    save_path(f, in);
    MUST(ckpt_content_open(&content, f->store, "latest", ERR));
    const ckpt_tensor wanted = {ckpt_content_tensor(content, 0)->name, CKPT_F32, 1, {1}, data};
    assert_int_equal(ckpt_restore_tensors(f->store, "latest", &wanted, 1, &err), CKPT_EUSAGE);
    assert_non_null(strstr(err.message, wanted.name));
    assert_non_null(strstr(err.message, "in/one.safetensors"));
    assert_non_null(strstr(err.message, "in/two.safetensors"));
    ckpt_content_close(content);
}

#define TENSORS_TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TENSORS_TEST(tensors_come_back_in_row_major_order),
        TENSORS_TEST(tensors_of_all_sizes_are_restored_in_one_call),
        TENSORS_TEST(what_does_not_fit_is_refused_by_name),
        TENSORS_TEST(damage_is_found_by_the_checks_of_chunks),
        TENSORS_TEST(damaged_newest_falls_back_for_latest_only),
        TENSORS_TEST(a_name_in_two_files_is_refused_with_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
