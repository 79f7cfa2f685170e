#include "file_tree.h"

#define FLOATS ((size_t)100000) /* more than a group holds, less than a chunk */

static float values[3][FLOATS];

/* Three tensors: noise that changes with each save, zeros, and a few more of the noise. */
static void save_three(ckpt_save_result *result, fixture *f, unsigned round)
{
    uint64_t random = 1;
    for (size_t i = 0; i < FLOATS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        values[0][i] = (float)(random >> 40) + (float)round * 4;
        values[2][i] = values[0][i] / 3;
    }
    const ckpt_tensor tensors[] = {{"noise", CKPT_F32, 1, {FLOATS}, values[0]},
                                   {"zeros", CKPT_F32, 1, {FLOATS}, values[1]},
                                   {"small", CKPT_F32, 1, {50}, values[2]}};
    MUST(ckpt_save_tensors(result, f->store, NULL, tensors, 3, NULL, 0, NULL, ERR));
}

static ckpt_stored_tensor stored_of(ckpt_content *content, const char *name)
{
    ckpt_stored_tensor stored = {0};
    for (size_t i = 0; i < ckpt_content_tensor_count(content); i++)
        if (strcmp(ckpt_content_tensor(content, i)->name, name) == 0)
            MUST(ckpt_content_stored(&stored, content, i, ERR));
    return stored;
}

static void tensors_take_what_the_save_wrote_but_for_the_header(void **state)
{
    ckpt_save_result result;
    ckpt_content *content = NULL;
    uint64_t sum = 0;
    fixture *const f = *state;
    save_three(&result, f, 0);
    MUST(ckpt_content_open(&content, f->store, result.id, ERR));
    for (size_t i = 0; i < 3; i++) {
        ckpt_stored_tensor stored;
        MUST(ckpt_content_stored(&stored, content, i, ERR));
        sum += stored.coded_bytes;
    }
    assert_in_range(result.coded_bytes - sum, 1, 250);
    ckpt_content_close(content);
}

static void zeros_are_one_constant(void **state)
{
    ckpt_save_result result;
    ckpt_content *content = NULL;
    fixture *const f = *state;
    save_three(&result, f, 0);
    MUST(ckpt_content_open(&content, f->store, result.id, ERR));
    const ckpt_stored_tensor stored = stored_of(content, "zeros");
    assert_string_equal(stored.mode, "constant");
    assert_in_range(stored.coded_bytes, 2, 5); /* the mode and one element */
    assert_int_equal(stored.depth, 0);
    ckpt_content_close(content);
}

static void what_is_a_difference_has_a_depth(void **state)
{
    ckpt_save_result result;
    ckpt_content *content = NULL;
    fixture *const f = *state;
    save_three(&result, f, 0);
    save_three(&result, f, 1);
    MUST(ckpt_content_open(&content, f->store, result.id, ERR));
    assert_int_equal(stored_of(content, "noise").depth, 1);
    ckpt_content_close(content);
}

static void a_tensor_without_bytes_or_of_a_plain_file_is_in_no_frame(void **state)
{
    ckpt_stored_tensor stored;
    ckpt_content *content = NULL;
    const ckpt_tensor empty = {"empty", CKPT_F32, 2, {0, 3}, NULL};
    fixture *const f = *state;
    MUST(ckpt_save_tensors(NULL, f->store, NULL, &empty, 1, NULL, 0, NULL, ERR));
    MUST(ckpt_content_open(&content, f->store, "latest", ERR));
    MUST(ckpt_content_stored(&stored, content, 0, ERR));
    assert_string_equal(stored.mode, "");
    assert_int_equal(ckpt_content_stored(&stored, content, 1, NULL), CKPT_ENOTFOUND);
    ckpt_content_close(content);
    MUST(ckpt_content_open_file(&content, GOLDEN_DIR "/state/state.pt", ERR));
    MUST(ckpt_content_stored(&stored, content, 0, ERR));
    assert_string_equal(stored.mode, "");
    ckpt_content_close(content);
}

static void views_with_gaps_have_their_share(void **state)
{
    static const char *const paths[] = {GOLDEN_DIR "/torch/noncontiguous_tensor.zip.pt"};
    ckpt_content *content = NULL;
    ckpt_stored_tensor stored;
    fixture *const f = *state;
    MUST(ckpt_save_files(NULL, f->store, paths, 1, NULL, ERR));
    MUST(ckpt_content_open(&content, f->store, "latest", ERR));
    for (size_t i = 0; i < ckpt_content_tensor_count(content); i++) { /* views with gaps */
        MUST(ckpt_content_stored(&stored, content, i, ERR));
        assert_string_not_equal(stored.mode, "");
        assert_in_range(stored.coded_bytes, 1, 1000);
    }
    ckpt_content_close(content);
}

int main(void)
{
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        STORE_TEST(tensors_take_what_the_save_wrote_but_for_the_header),
        STORE_TEST(zeros_are_one_constant),
        STORE_TEST(what_is_a_difference_has_a_depth),
        STORE_TEST(a_tensor_without_bytes_or_of_a_plain_file_is_in_no_frame),
        STORE_TEST(views_with_gaps_have_their_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
