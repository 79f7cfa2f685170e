#include "expectation.h"

#include "content.h"
#include "fail.h"

typedef struct content_case {
    ckpt_content *content;
    size_t next;        /* row of expected/ */
    uint64_t at_a_time; /* elements; 0: all */
} content_case;

/* SHA-256 of a tensor's elements in row-major order, read in parts. */
static void tensor_hash(char hex[SHA256_HEX_SIZE], ckpt_content *content, size_t tensor, uint64_t at_a_time)
{
    const ckpt_tensor_info *const t = ckpt_content_tensor(content, tensor);
    const size_t width = ckpt_dtype_size(t->dtype);
    const uint64_t elements = t->bytes / width;
    unsigned char *const data = malloc(t->bytes + 1);
    sha256 hash;
    for (uint64_t done = 0, n; done < elements; done += n) {
        n = at_a_time && elements - done > at_a_time ? at_a_time : elements - done;
        MUST(ckpt_content_read(data + done * width, content, tensor, done, n, ERR));
    }
    sha256_of(&hash, data, t->bytes);
    sha256_hex(hex, &hash);
    free(data);
}

static void assert_row(void *payload, char *const *columns, size_t count)
{
    content_case *const c = payload;
    char shape[256], stride[256], hex[SHA256_HEX_SIZE];
    uint64_t strides[CKPT_RANK_MAX] = {0};
    assert_int_equal(count, 5);
    assert_true(c->next < ckpt_content_tensor_count(c->content));
    const ckpt_tensor_info *const t = ckpt_content_tensor(c->content, c->next);
    for (unsigned i = 0; i < t->rank; i++)
        strides[i] = (uint64_t)t->stride[i];
    assert_string_equal(t->name, columns[0]);
    assert_string_equal(ckpt_dtype_name(t->dtype), columns[1]);
    numbers_text(shape, t->shape, t->rank);
    assert_string_equal(shape, columns[2]);
    numbers_text(stride, strides, t->rank);
    if (!t->contiguous)
        assert_string_equal(stride, columns[3]);
    tensor_hash(hex, c->content, c->next, c->at_a_time);
    if (strcmp(hex, columns[4]) != 0)
        fail_msg("elements of %s differ from those that PyTorch or NumPy sees", t->name);
    c->next++;
}

static void assert_expected(ckpt_content *content, const char *golden, uint64_t at_a_time)
{
    char name[FILE_PATH_MAX];
    content_case c = {.content = content, .at_a_time = at_a_time};
    snprintf(name, sizeof name, "%s.txt", golden);
    expected_rows(name, assert_row, &c);
    assert_int_equal(c.next, ckpt_content_tensor_count(content));
}

static void tensors_of_a_plain_file_are_those_of_other_programs(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXPECTED_FILE_COUNT; i++) {
        char path[FILE_PATH_MAX];
        ckpt_content *content;
        join(path, GOLDEN_DIR, EXPECTED_FILES[i]);
        MUST(ckpt_content_open_file(&content, path, ERR));
        assert_null(ckpt_content_info(content));
        assert_int_equal(ckpt_content_file_count(content), 1);
        assert_expected(content, EXPECTED_FILES[i], 0);
        assert_expected(content, EXPECTED_FILES[i], 1237);
        ckpt_content_close(content);
    }
}

static void tensors_of_a_checkpoint_are_those_of_other_programs(void **state)
{
    fixture *const f = *state;
    for (size_t i = 0; i < EXPECTED_FILE_COUNT; i++) {
        char path[FILE_PATH_MAX];
        ckpt_content *content;
        join(path, GOLDEN_DIR, EXPECTED_FILES[i]);
        const ckpt_save_result saved = save_path(f, path);
        MUST(ckpt_content_open(&content, f->store, saved.id, ERR));
        assert_expected(content, EXPECTED_FILES[i], 0);
        assert_expected(content, EXPECTED_FILES[i], 1237);
        ckpt_content_close(content);
    }
}

static void single_elements_are_read_anywhere(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    ckpt_content *content;
    join(path, GOLDEN_DIR, "cases/views.pt");
    save_path(f, path);
    MUST(ckpt_content_open(&content, f->store, "latest", ERR));
    for (size_t i = 0; i < ckpt_content_tensor_count(content); i++) {
        const ckpt_tensor_info *const t = ckpt_content_tensor(content, i);
        const size_t width = ckpt_dtype_size(t->dtype);
        unsigned char *const all = malloc(t->bytes + 1), one[16];
        MUST(ckpt_content_read(all, content, i, 0, t->bytes / width, ERR));
        for (uint64_t k = t->bytes / width; k-- > 0;) {
            MUST(ckpt_content_read(one, content, i, k, 1, ERR));
            assert_memory_equal(one, all + k * width, width);
        }
        free(all);
    }
    ckpt_content_close(content);
}

static void reading_beyond_a_tensor_names_it(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    float data[4];
    ckpt_error err = {0};
    ckpt_content *content;
    save_step(id, f, 1, 1);
    MUST(ckpt_content_open(&content, f->store, id, ERR));
    assert_int_equal(ckpt_content_read(data, content, 0, FIXTURE_TENSOR_FLOATS - 1, 2, &err), CKPT_EUSAGE);
    assert_non_null(strstr(err.message, "weight"));
    assert_int_equal(ckpt_content_read(data, content, 0, UINT64_MAX, 2, NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_content_read(data, content, 0, 2, UINT64_MAX, NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_content_read(data, content, 2, 0, 1, &err), CKPT_ENOTFOUND);
    MUST(ckpt_content_read(data, content, 0, FIXTURE_TENSOR_FLOATS, 0, ERR));
    ckpt_content_close(content);
}

static void files_are_described_as_they_were(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_content *content;
    join(in, f->root, "in");
    make_dir(in, "empty");
    write_in(in, "abc.txt", "abc", 3);
    join(path, in, "abc.txt");
    assert_int_equal(chmod(path, 0640), 0);
    join(path, in, "link");
    assert_int_equal(symlink("abc.txt", path), 0);
    join(path, in, "mnist.safetensors");
    file_copy(path, GOLDEN_DIR "/torch/mnist.safetensors");
    save_path(f, in);
    MUST(ckpt_content_open(&content, f->store, "latest", ERR));
    assert_int_equal(ckpt_content_file_count(content), 5);
    const ckpt_file_info *file = ckpt_content_file(content, 1);
    assert_string_equal(file->path, "in/abc.txt");
    assert_int_equal(file->kind, CKPT_FILE);
    assert_int_equal(file->mode, 0640);
    assert_int_equal(file->size, 3);
    assert_string_equal(file->format, "opaque");
    /* FIPS 180-2, appendix B.1 */
    assert_string_equal(file->sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    file = ckpt_content_file(content, 2);
    assert_string_equal(file->path, "in/empty");
    assert_int_equal(file->kind, CKPT_FOLDER);
    assert_string_equal(file->sha256, "");
    file = ckpt_content_file(content, 3);
    assert_int_equal(file->kind, CKPT_LINK);
    assert_string_equal(file->link_target, "abc.txt");
    file = ckpt_content_file(content, 4);
    assert_string_equal(file->format, "safetensors");
    assert_int_equal(file->tensor_first, 0);
    assert_int_equal(file->tensor_count, ckpt_content_tensor_count(content));
    assert_int_equal(ckpt_content_tensor(content, 0)->file, 4);
    ckpt_content_close(content);
}

static void values_from_memory_come_back(void **state)
{
    fixture *const f = *state;
    float x = 1;
    ckpt_value value;
    ckpt_content *content;
    const ckpt_tensor tensor = {"x", CKPT_F32, 0, {0}, &x};
    const ckpt_value values[] = {{"lr", "0x1.999999999999ap-4"}, {"note", "caf\xc3\xa9 \"quoted\"\n"}};
    MUST(ckpt_save_tensors(NULL, f->store, "s.safetensors", &tensor, 1, values, 2, NULL, ERR));
    MUST(ckpt_content_open(&content, f->store, "latest", ERR));
    assert_int_equal(ckpt_content_value_count(content, 0), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ckpt_content_value(&value, content, 0, i), 0);
        assert_string_equal(value.key, values[i].key);
        assert_string_equal(value.value, values[i].value);
    }
    assert_int_equal(ckpt_content_value(&value, content, 0, 2), CKPT_ENOTFOUND);
    assert_int_equal(ckpt_content_value_count(content, 1), 0);
    ckpt_content_close(content);
}

static void damaged_newest_falls_back_for_latest_only(void **state)
{
    fixture *const f = *state;
    char good[CKPT_ID_SIZE], damaged[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_content *content;
    ckpt_error err = {0};
    save_step(good, f, 1, 1);
    save_step(damaged, f, 2, 2);
    own_pack_file(path, f, "latest");
    assert_int_equal(truncate(path, 500), 0);
    fixture_reopen(f);
    MUST(ckpt_content_open(&content, f->store, "latest", ERR));
    assert_string_equal(ckpt_content_info(content)->id, good);
    assert_non_null(strstr(f->note, "damaged"));
    ckpt_content_close(content);
    assert_int_equal(ckpt_content_open(&content, f->store, "step:2", &err), CKPT_EDATA);
    damaged[8] = 0;
    assert_non_null(strstr(err.message, damaged));
}

static void assert_latest(fixture *f, const char *id)
{
    ckpt_content *content;
    fixture_reopen(f);
    MUST(ckpt_content_open(&content, f->store, "latest", ERR));
    assert_string_equal(ckpt_content_info(content)->id, id);
    ckpt_content_close(content);
}

static void what_is_no_file_in_place_of_the_newest_falls_back(void **state)
{
    fixture *const f = *state;
    char good[CKPT_ID_SIZE], damaged[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    save_step(good, f, 1, 1);
    save_step(damaged, f, 2, 2);
    own_pack_file(path, f, "latest");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_latest(f, good);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_latest(f, good);
}

static void a_folder_named_like_a_snapshot_falls_back(void **state)
{
    fixture *const f = *state;
    char good[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    snapshot_name stray = {.sequence = 99};
    save_step(good, f, 1, 1);
    MUST(snapshot_path(path, f->store->snapshots_dir, &stray, ERR));
    assert_int_equal(mkdir(path, 0777), 0);
    assert_latest(f, good);
}

typedef struct content_uses {
    char seen[4][CKPT_ID_SIZE];
    size_t count, damaged; /* so many of the first are said to be damaged */
    int otherwise;
} content_uses;

static int use_once(void *payload, ckpt_content *content, ckpt_error *err)
{
    content_uses *const u = payload;
    memcpy(u->seen[u->count++], ckpt_content_info(content)->id, CKPT_ID_SIZE);
    if (u->count <= u->damaged)
        return error_set(err, CKPT_EDATA, "this one");
    return u->otherwise ? error_set(err, u->otherwise, "something else") : 0;
}

static void use_goes_on_with_older_ones_while_they_are_damaged(void **state)
{
    fixture *const f = *state;
    char ids[3][CKPT_ID_SIZE];
    ckpt_error err = {0};
    for (int i = 0; i < 3; i++)
        save_step(ids[i], f, (uint64_t)i, i);
    content_uses u = {.damaged = 2};
    MUST(ckpt_content_use(f->store, "latest", use_once, &u, ERR));
    assert_int_equal(u.count, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(u.seen[i], ids[2 - i]);
    assert_non_null(strstr(f->note, "this one"));

    u = (content_uses){.damaged = 3};
    assert_int_equal(ckpt_content_use(f->store, "latest", use_once, &u, &err), CKPT_EDATA);
    ids[2][8] = 0;
    assert_non_null(strstr(err.message, ids[2]));

    u = (content_uses){.damaged = 1, .otherwise = CKPT_EUSAGE};
    assert_int_equal(ckpt_content_use(f->store, "latest", use_once, &u, &err), CKPT_EUSAGE);
    assert_int_equal(u.count, 2);
    assert_non_null(strstr(err.message, "the newest checkpoint is damaged"));

    u = (content_uses){.damaged = 1};
    assert_int_equal(ckpt_content_use(f->store, "step:2", use_once, &u, NULL), CKPT_EDATA);
    assert_int_equal(u.count, 1);
}

static void path_of_a_plain_file_is_a_copy(void **state)
{
    fixture *const f = *state;
    char *const path = malloc(FILE_PATH_MAX), wanted[FILE_PATH_MAX];
    ckpt_content *content;
    unsigned char byte;
    write_in(f->root, "abc.txt", "abc", 3);
    join(path, f->root, "abc.txt");
    memcpy(wanted, path, sizeof wanted);
    MUST(ckpt_content_open_file(&content, path, ERR));
    memset(path, 'x', FILE_PATH_MAX - 1);
    free(path);
    assert_string_equal(ckpt_content_file(content, 0)->path, wanted);
    /* FIPS 180-2, appendix B.1 */
    assert_string_equal(ckpt_content_file(content, 0)->sha256,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(truncate(wanted, 1), 0);
    ckpt_error err = {0};
    assert_int_equal(content_read_bytes(&byte, content, 0, 2, 1, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, wanted));
    ckpt_content_close(content);
}

/* Removed by another process after it was opened: what is open stays readable. */
static void open_content_outlives_its_files(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    float before[FIXTURE_TENSOR_FLOATS], after[FIXTURE_TENSOR_FLOATS];
    ckpt_content *content;
    save_step(id, f, 1, 1);
    MUST(ckpt_content_open(&content, f->store, id, ERR));
    MUST(ckpt_content_read(before, content, 0, 0, FIXTURE_TENSOR_FLOATS, ERR));
    ckpt_content_close(content);
    fixture_reopen(f);
    own_pack_file(path, f, id);
    MUST(ckpt_content_open(&content, f->store, id, ERR));
    assert_int_equal(unlink(path), 0);
    MUST(ckpt_content_read(after, content, 0, 0, FIXTURE_TENSOR_FLOATS, ERR));
    assert_memory_equal(before, after, sizeof before);
    ckpt_content_close(content);
}

static void plain_file_that_is_missing_is_not_found(void **state)
{
    ckpt_content *content;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(ckpt_content_open_file(&content, "no/such.pt", &err), CKPT_ENOTFOUND);
    assert_non_null(strstr(err.message, "no/such.pt"));
    assert_int_not_equal(ckpt_content_open_file(&content, "/", NULL), 0);
}

#define CONTENT_TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_a_plain_file_are_those_of_other_programs),
        CONTENT_TEST(tensors_of_a_checkpoint_are_those_of_other_programs),
        CONTENT_TEST(single_elements_are_read_anywhere),
        CONTENT_TEST(reading_beyond_a_tensor_names_it),
        CONTENT_TEST(files_are_described_as_they_were),
        CONTENT_TEST(values_from_memory_come_back),
        CONTENT_TEST(damaged_newest_falls_back_for_latest_only),
        CONTENT_TEST(what_is_no_file_in_place_of_the_newest_falls_back),
        CONTENT_TEST(a_folder_named_like_a_snapshot_falls_back),
        CONTENT_TEST(use_goes_on_with_older_ones_while_they_are_damaged),
        CONTENT_TEST(path_of_a_plain_file_is_a_copy),
        CONTENT_TEST(open_content_outlives_its_files),
        cmocka_unit_test(plain_file_that_is_missing_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
