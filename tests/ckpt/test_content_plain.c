/* Plain files and folders of them as contents: no store, one list of tensors. */
#include "file_tree.h"

#include "content.h"

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

static void copy_case(const char *name, const char *golden)
{
    char to[FILE_PATH_MAX], from[FILE_PATH_MAX];
    join(to, folder, name);
    join(from, GOLDEN_DIR, golden);
    file_copy(to, from);
}

static ckpt_content *open_folder(void)
{
    ckpt_content *content;
    MUST(ckpt_content_open_file(&content, folder, ERR));
    return content;
}

static void tensors_of_all_shards_are_one_list(void **state)
{
    ckpt_content *content;
    size_t shards = 0;
    (void)state;
    MUST(ckpt_content_open_file(&content, GOLDEN_DIR "/folders/sharded", ERR));
    assert_null(ckpt_content_info(content));
    assert_int_equal(ckpt_content_file_count(content), 6);
    assert_int_equal(ckpt_content_tensor_count(content), 16); /* as the weight_map of the index has */
    for (size_t i = 0; i < 6; i++) {
        const ckpt_file_info *const file = ckpt_content_file(content, i);
        for (size_t j = 0; j < file->tensor_count; j++)
            assert_int_equal(ckpt_content_tensor(content, file->tensor_first + j)->file, i);
        shards += file->tensor_count > 0;
    }
    assert_int_equal(shards, 3);
    ckpt_content_close(content);
}

/* More files than descriptors are open: each is read when it is asked for. */
static void values_are_read_from_file_after_file_and_back(void **state)
{
    float first[8], again[8];
    int64_t matrix[1];
    (void)state;
    copy_case("a.safetensors", "folders/sharded/model-00003-of-00003.safetensors");
    copy_case("b.npz", "cases/packed.npz");
    ckpt_content *const content = open_folder();
    assert_int_equal(ckpt_content_tensor_count(content), 9);
    MUST(ckpt_content_read(first, content, 0, 0, 8, ERR));
    assert_string_equal(ckpt_content_tensor(content, 6)->name, "step"); /* 4, then matrix, fortran, step */
    MUST(ckpt_content_read(matrix, content, 6, 0, 1, ERR));
    assert_int_equal(matrix[0], 7);
    MUST(ckpt_content_read(again, content, 0, 0, 8, ERR));
    assert_memory_equal(first, again, sizeof first);
    assert_int_equal(strlen(ckpt_content_file(content, 0)->sha256), 64);
    ckpt_content_close(content);
}

static void paths_are_those_below_the_folder_in_natural_order(void **state)
{
    (void)state;
    make_dir(folder, "part");
    write_in(folder, "epoch_10.txt", "x", 1);
    write_in(folder, "epoch_9.txt", "x", 1);
    write_in(folder, "part/inner.txt", "x", 1);
    ckpt_content *const content = open_folder();
    assert_int_equal(ckpt_content_file_count(content), 3);
    assert_string_equal(ckpt_content_file(content, 0)->path, "epoch_9.txt");
    assert_string_equal(ckpt_content_file(content, 1)->path, "epoch_10.txt");
    assert_string_equal(ckpt_content_file(content, 2)->path, "part/inner.txt");
    ckpt_content_close(content);
}

static void stores_and_links_to_folders_are_no_part_of_it(void **state)
{
    char path[FILE_PATH_MAX];
    (void)state;
    make_dir(folder, ".ckpt");
    write_in(folder, ".ckpt/config.ini", "x", 1);
    write_in(folder, "file.txt", "x", 1);
    join(path, folder, "circle");
    assert_int_equal(symlink(folder, path), 0);
    join(path, folder, "dangling");
    assert_int_equal(symlink("nothing", path), 0);
    join(path, folder, "linked.txt");
    assert_int_equal(symlink("file.txt", path), 0);
    ckpt_content *const content = open_folder();
    assert_int_equal(ckpt_content_file_count(content), 2);
    assert_string_equal(ckpt_content_file(content, 0)->path, "file.txt");
    assert_string_equal(ckpt_content_file(content, 1)->path, "linked.txt");
    ckpt_content_close(content);
}

static void a_file_that_became_shorter_meanwhile_is_an_error(void **state)
{
    char path[FILE_PATH_MAX];
    float values[8];
    ckpt_error err = {0};
    (void)state;
    copy_case("a.safetensors", "folders/sharded/model-00003-of-00003.safetensors");
    write_in(folder, "b.txt", "x", 1); /* its descriptor takes the place of the other */
    ckpt_content *const content = open_folder();
    join(path, folder, "a.safetensors");
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(ckpt_content_read(values, content, 0, 0, 8, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, "has become shorter"));
    ckpt_content_close(content);
}

static void an_empty_folder_has_nothing(void **state)
{
    (void)state;
    ckpt_content *const content = open_folder();
    assert_int_equal(ckpt_content_file_count(content), 0);
    assert_int_equal(ckpt_content_tensor_count(content), 0);
    ckpt_content_close(content);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tensors_of_all_shards_are_one_list),
        TEST(values_are_read_from_file_after_file_and_back),
        TEST(paths_are_those_below_the_folder_in_natural_order),
        TEST(stores_and_links_to_folders_are_no_part_of_it),
        TEST(a_file_that_became_shorter_meanwhile_is_an_error),
        TEST(an_empty_folder_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
