/* Whole or cut off: files and folders as other programs leave them, and what they look like before they are done. */
#include "tensor_input.h"

#include "temp_dir.h"

#include <fcntl.h>

static char folder[TEMP_PATH_MAX];

static int folder_make(void **state)
{
    (void)state;
    return temp_dir_make(folder);
}

static int folder_remove(void **state)
{
    (void)state;
    return temp_dir_remove(folder);
}

static void path_of(char out[FILE_PATH_MAX], const char *name)
{
    assert_int_equal(path_join(out, folder, name, NULL), 0);
}

static void write_file(const char *name, const void *data, size_t size)
{
    char path[FILE_PATH_MAX];
    path_of(path, name);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int copy_one(void *payload, const char *name, ckpt_error *err)
{
    const char *const *const from_to = payload;
    char from[FILE_PATH_MAX], to[FILE_PATH_MAX];
    char *data;
    size_t size;
    (void)err;
    assert_int_equal(path_join(from, from_to[0], name, NULL), 0);
    assert_int_equal(path_join(to, from_to[1], name, NULL), 0);
    assert_int_equal(file_read_all(&data, &size, from, INPUT_SIZE_MAX, NULL), 0);
    write_file(to, data, size);
    free(data);
    return 0;
}

/* Copies a folder of tests/golden/folders. */
static void copy_golden(const char *name)
{
    char from[FILE_PATH_MAX], to[FILE_PATH_MAX];
    const char *from_to[] = {from, name};
    assert_int_equal(path_join(from, GOLDEN_DIR "/folders", name, NULL), 0);
    path_of(to, name);
    assert_int_equal(dir_make(to, NULL), 0);
    assert_int_equal(dir_each(from, copy_one, (void *)(uintptr_t)from_to, NULL), 0);
}

static void remove_file(const char *name)
{
    char path[FILE_PATH_MAX];
    path_of(path, name);
    assert_int_equal(unlink(path), 0);
}

static void cut_file(const char *name, off_t size)
{
    char path[FILE_PATH_MAX];
    path_of(path, name);
    assert_int_equal(truncate(path, size), 0);
}

static void assert_state(const char *name, ckpt_file_state expected, const char *expected_why)
{
    char path[FILE_PATH_MAX], why[CKPT_WHY_SIZE];
    ckpt_file_state state;
    ckpt_error err = {0};
    path_of(path, name);
    if (ckpt_file_check(&state, why, path, &err))
        fail_msg("%s", err.message);
    if (state != expected || !strstr(why, expected_why) || (state == CKPT_FILE_WHOLE && why[0]))
        fail_msg("%s: state %d, '%s' instead of %d, '%s'", name, state, why, expected, expected_why);
}

/* ---- Files ------------------------------------------------------------------------------------------------------ */

static void files_of_known_formats_are_whole_until_their_end_is_cut_off(void **state)
{
    static const char *const NAMES[] = {"trajectory-tiny/model_epoch_1.safetensors",
                                        "cases/views.pt",
                                        "cases/legacy_views.pt",
                                        "cases/matrix.npy",
                                        "cases/mixed.npz",
                                        "cases/compressed.npz",
                                        "cases/old.h5",
                                        "cases/model.keras"};
    (void)state;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        input in = input_golden(NAMES[i]);
        write_file("file", in.data, in.size);
        assert_state("file", CKPT_FILE_WHOLE, "");
        write_file("file", in.data, in.size - 1);
        assert_state("file", CKPT_FILE_CUT_OFF, "");
        input_free(&in);
    }
}

static void an_empty_file_is_cut_off(void **state)
{
    (void)state;
    write_file("model.pt", "", 0);
    assert_state("model.pt", CKPT_FILE_CUT_OFF, "is empty");
}

static void json_is_whole_when_its_text_ends(void **state)
{
    (void)state;
    write_file("a.json", "{\"a\": [1, 2]}\n", 14);
    assert_state("a.json", CKPT_FILE_WHOLE, "");
    write_file("a.json", "{\"a\": [1, 2]}\n", 10);
    assert_state("a.json", CKPT_FILE_CUT_OFF, "JSON: ");
    write_file("a.json", "no json at all", 14);
    assert_state("a.json", CKPT_FILE_UNKNOWN, "JSON: ");
}

static void files_of_other_formats_are_not_judged(void **state)
{
    (void)state;
    write_file("log.txt", "epoch 1", 7);
    assert_state("log.txt", CKPT_FILE_UNKNOWN, "");
}

static void what_is_missing_is_an_error(void **state)
{
    ckpt_file_state file_state;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(ckpt_file_check(&file_state, NULL, "/nonexistent/file.pt", &err), CKPT_ENOTFOUND);
}

/* ---- Folders ---------------------------------------------------------------------------------------------------- */

static void a_folder_of_a_trainer_is_whole_with_its_state(void **state)
{
    (void)state;
    copy_golden("checkpoint-2");
    assert_state("checkpoint-2", CKPT_FILE_WHOLE, "");
    cut_file("checkpoint-2/trainer_state.json", 500);
    assert_state("checkpoint-2", CKPT_FILE_CUT_OFF, "trainer_state.json: JSON: ");
    remove_file("checkpoint-2/trainer_state.json");
    assert_state("checkpoint-2", CKPT_FILE_CUT_OFF, "has no trainer_state.json yet");
}

static void a_folder_of_a_trainer_with_a_file_cut_off_is_not_whole(void **state)
{
    (void)state;
    copy_golden("checkpoint-2");
    cut_file("checkpoint-2/optimizer.pt", 20000);
    assert_state("checkpoint-2", CKPT_FILE_CUT_OFF, "optimizer.pt: ");
    cut_file("checkpoint-2/optimizer.pt", 0);
    assert_state("checkpoint-2", CKPT_FILE_CUT_OFF, "optimizer.pt: is empty");
}

static void a_model_in_shards_is_whole_with_all_of_them(void **state)
{
    (void)state;
    copy_golden("sharded");
    assert_state("sharded", CKPT_FILE_WHOLE, "");
    remove_file("sharded/model-00002-of-00003.safetensors");
    assert_state("sharded", CKPT_FILE_CUT_OFF,
                 "model-00002-of-00003.safetensors, which model.safetensors.index.json names, is missing");
}

static void a_distributed_checkpoint_is_whole_with_its_metadata_and_all_parts(void **state)
{
    (void)state;
    copy_golden("distributed");
    assert_state("distributed", CKPT_FILE_WHOLE, "");
    cut_file("distributed/__0_1.distcp", 20000);
    assert_state("distributed", CKPT_FILE_CUT_OFF, "__0_1.distcp: ends before ");
    remove_file("distributed/__0_1.distcp");
    assert_state("distributed", CKPT_FILE_CUT_OFF, "__0_1.distcp, which .metadata names, is missing");
    cut_file("distributed/.metadata", 3000);
    assert_state("distributed", CKPT_FILE_CUT_OFF, ".metadata: ");
    remove_file("distributed/.metadata");
    assert_state("distributed", CKPT_FILE_CUT_OFF, "has __0_0.distcp, but no .metadata yet");
}

static void a_folder_of_lightning_is_whole_with_its_file(void **state)
{
    (void)state;
    copy_golden("lightning");
    assert_state("lightning", CKPT_FILE_WHOLE, "");
    cut_file("lightning/epoch=0-step=1.ckpt", 5000);
    assert_state("lightning", CKPT_FILE_CUT_OFF, "epoch=0-step=1.ckpt: ");
}

static void a_folder_without_a_file_that_tells_is_not_judged(void **state)
{
    char path[FILE_PATH_MAX];
    (void)state;
    path_of(path, "run");
    assert_int_equal(dir_make(path, NULL), 0);
    assert_state("run", CKPT_FILE_UNKNOWN, "");
    write_file("run/config.json", "{}", 2);
    write_file("run/.lock", "", 0);
    assert_state("run", CKPT_FILE_UNKNOWN, "");
}

static void folders_in_folders_count(void **state)
{
    char path[FILE_PATH_MAX];
    (void)state;
    path_of(path, "run");
    assert_int_equal(dir_make(path, NULL), 0);
    path_of(path, "run/part");
    assert_int_equal(dir_make(path, NULL), 0);
    input in = input_golden("cases/views.pt");
    write_file("run/part/model.pt", in.data, in.size);
    assert_state("run", CKPT_FILE_WHOLE, "");
    write_file("run/part/model.pt", in.data, in.size / 2);
    assert_state("run", CKPT_FILE_CUT_OFF, "part: model.pt: ");
    input_free(&in);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_of_known_formats_are_whole_until_their_end_is_cut_off),
        TEST(an_empty_file_is_cut_off),
        TEST(json_is_whole_when_its_text_ends),
        TEST(files_of_other_formats_are_not_judged),
        TEST(what_is_missing_is_an_error),
        TEST(a_folder_of_a_trainer_is_whole_with_its_state),
        TEST(a_folder_of_a_trainer_with_a_file_cut_off_is_not_whole),
        TEST(a_model_in_shards_is_whole_with_all_of_them),
        TEST(a_distributed_checkpoint_is_whole_with_its_metadata_and_all_parts),
        TEST(a_folder_of_lightning_is_whole_with_its_file),
        TEST(a_folder_without_a_file_that_tells_is_not_judged),
        TEST(folders_in_folders_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
