/* Arrays that an archive holds compressed: listed and read, and left out where they lie. */
#include "tensor_input.h"

#include "bytes.h"
#include "must.h"
#include "temp_dir.h"

#include <stdio.h>

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

static ckpt_content *content_of(const input *in)
{
    char path[FILE_PATH_MAX];
    ckpt_content *content;
    MUST(path_join(path, folder, "file.npz", ERR));
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(in->data, 1, in->size, file), in->size);
    assert_int_equal(fclose(file), 0);
    MUST(ckpt_content_open_file(&content, path, ERR));
    return content;
}

static void assert_names(const input *in, const char *expected)
{
    char names[256] = "";
    ckpt_content *const content = content_of(in);
    for (size_t i = 0, used = 0; i < ckpt_content_tensor_count(content); i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s ", ckpt_content_tensor(content, i)->name);
    assert_string_equal(names, expected);
    ckpt_content_close(content);
}

/* Where the local header of the member begins. */
static size_t member_at(const input *in, const char *name)
{
    for (size_t at = 0; at + 30 + strlen(name) <= in->size; at++)
        if (memcmp(in->data + at, "PK\3\4", 4) == 0 && memcmp(in->data + at + 30, name, strlen(name)) == 0)
            return at;
    fail_msg("no member %s", name);
    return 0;
}

static void a_member_whose_packed_bytes_are_damaged_is_left_out(void **state)
{
    (void)state;
    input in = input_golden("cases/packed.npz");
    in.data[member_at(&in, "matrix.npy") + 30 + 10 + 40] ^= 1;
    assert_names(&in, "fortran step empty flags ");
    input_free(&in);
}

static void a_member_with_another_crc_is_left_out(void **state)
{
    (void)state;
    input in = input_golden("cases/packed.npz");
    for (size_t at = 0; at + 46 + 8 < in.size; at++) /* in the directory; the local header has the true one */
        if (memcmp(in.data + at, "PK\1\2", 4) == 0 && memcmp(in.data + at + 46, "step.npy", 8) == 0) {
            memset(in.data + at + 16, 7, 4);
            memset(in.data + member_at(&in, "step.npy") + 14, 7, 4);
        }
    assert_names(&in, "matrix fortran empty flags ");
    input_free(&in);
}

/* 10 bytes that say they are a GiB. */
static void a_member_that_cannot_be_so_small_is_left_out(void **state)
{
    static const char PACKED[10] = {0};
    zip_build zip = {0};
    (void)state;
    zip_add(&zip, "bomb.npy", PACKED, sizeof PACKED, 8, 0);
    store_u32(zip.file.data + 22, 1u << 30);
    store_u32(zip.directory.data + 24, 1u << 30);
    input in = zip_finish(&zip);
    assert_names(&in, "");
    input_free(&in);
}

static void members_of_other_methods_and_encrypted_ones_are_left_out(void **state)
{
    zip_build zip = {0};
    (void)state;
    zip_add(&zip, "bzip2.npy", "0123456789abcdef", 16, 12, 0);
    zip_add(&zip, "secret.npy", "0123456789abcdef", 16, 8, 1);
    input in = zip_finish(&zip);
    assert_names(&in, "");
    input_free(&in);
}

/* ---- Datasets in chunks ----------------------------------------------------------------------------------------- */

static size_t tensor_of(const ckpt_content *content, const char *name)
{
    for (size_t i = 0; i < ckpt_content_tensor_count(content); i++)
        if (strcmp(ckpt_content_tensor(content, i)->name, name) == 0)
            return i;
    fail_msg("no tensor %s", name);
    return 0;
}

static void a_damaged_chunk_is_an_error_when_it_is_read(void **state)
{
    unsigned char bytes[1000];
    float numbers[210];
    size_t at = 0;
    ckpt_error err = {0};
    (void)state;
    input in = input_golden("cases/chunks.h5");
    ckpt_content *content = content_of(&in);
    MUST(ckpt_content_read(bytes, content, tensor_of(content, "random"), 0, sizeof bytes, ERR));
    ckpt_content_close(content);
    while (memcmp(in.data + at, bytes, 100) != 0) /* what cannot be packed stands there as it is */
        at++;
    in.data[at + 50] ^= 1;
    content = content_of(&in);
    assert_int_equal(ckpt_content_read(bytes, content, tensor_of(content, "random"), 0, 10, &err), CKPT_EFORMAT);
    assert_string_equal(err.message, "random: packed bytes are damaged");
    MUST(ckpt_content_read(numbers, content, tensor_of(content, "deflate"), 0, 210, ERR));
    ckpt_content_close(content);
    input_free(&in);
}

static void a_dataset_without_a_tree_of_its_chunks_is_left_out(void **state)
{
    (void)state;
    input in = input_golden("cases/chunks.h5");
    for (size_t at = 0; at + 5 < in.size; at++)
        if (memcmp(in.data + at, "TREE\1", 5) == 0)
            memcpy(in.data + at, "EERT", 4);
    assert_names(&in, "");
    input_free(&in);
}

/* Calls it for each leaf of a dataset's tree with the first of its rows and the size of one. */
static void leaves_change(input *in, void (*change)(unsigned char *row, size_t count, size_t row_size))
{
    for (size_t at = 0; at + 24 < in->size; at++) {
        unsigned char *const node = (unsigned char *)in->data + at;
        const size_t count = memcmp(node, "TREE\1\0", 6) == 0 ? load_u16(node + 6) : 0;
        if (count) /* those of three dimensions have 18 or 4 chunks, or one */
            change(node + 24, count, count == 18 || count == 4 ? 48 : 32);
    }
}

static void second_repeats_first(unsigned char *row, size_t count, size_t row_size)
{
    if (count > 1)
        memcpy(row + row_size, row, row_size);
}

static void a_dataset_of_which_a_chunk_comes_twice_is_left_out(void **state)
{
    (void)state;
    input in = input_golden("cases/chunks.h5");
    leaves_change(&in, second_repeats_first);
    assert_names(&in, "one random shuffled ");
    input_free(&in);
}

static void all_are_longer(unsigned char *row, size_t count, size_t row_size)
{
    for (size_t i = 0; count == 57 && i < count; i++)
        store_u32(row + i * row_size, 1000);
}

/* Little would be unpacked again and again. */
static void datasets_whose_chunks_share_bytes_are_left_out(void **state)
{
    (void)state;
    input in = input_golden("cases/chunks.h5");
    leaves_change(&in, all_are_longer);
    assert_names(&in, "checked deflate one only_shuffled "); /* what the bytes that are left do for */
    input_free(&in);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_member_whose_packed_bytes_are_damaged_is_left_out),
        TEST(a_member_with_another_crc_is_left_out),
        TEST(a_member_that_cannot_be_so_small_is_left_out),
        TEST(members_of_other_methods_and_encrypted_ones_are_left_out),
        TEST(a_damaged_chunk_is_an_error_when_it_is_read),
        TEST(a_dataset_without_a_tree_of_its_chunks_is_left_out),
        TEST(a_dataset_of_which_a_chunk_comes_twice_is_left_out),
        TEST(datasets_whose_chunks_share_bytes_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
