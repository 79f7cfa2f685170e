#include "zip_archive.h"

#include "bytes.h"

static void assert_file(const char *name, bool allow_lead, const expected *entries, size_t count)
{
    archive a;
    archive_load(&a, name);
    assert_entries(&a, allow_lead, entries, count);
    free(a.bytes);
}

static const expected INFOZIP[] = {
    {"a.txt", 0, 0, 6, 6, 0x363a3020, 0, 35},
    {"gr\xc3\xbcn.txt", 0, 0, 11, 11, 0xd7b27cd0, 41, 80},
    {"long.txt", 8, 0, 22, 5000, 0x00dbf026, 91, 129},
};

static void entries_of_info_zip_are_read(void **state)
{
    (void)state;
    assert_file("zip/infozip.zip", false, INFOZIP, COUNT(INFOZIP));
}

static void a_comment_may_hold_the_signature_of_an_end_record(void **state)
{
    (void)state;
    assert_file("zip/comment_signature.zip", false, INFOZIP, COUNT(INFOZIP));
}

static void a_comment_may_have_65535_bytes(void **state)
{
    (void)state;
    static char comment[65535];
    archive a;
    archive_load(&a, "zip/zip64_end.zip");
    store_u16(a.bytes + a.size - 2, 65535);
    archive_append(&a, comment, sizeof comment);
    static const expected ENTRIES[] = {{"one", 0, 0, 1, 1, 0x83dcefb7, 0, 33}, {"two", 0, 0, 2, 2, 0x647e170e, 34, 67}};
    assert_entries(&a, false, ENTRIES, COUNT(ENTRIES));
    free(a.bytes);
}

static void descriptors_behind_the_data_are_no_contradiction(void **state)
{
    (void)state;
    static const expected ENTRIES[] = {
        {"a.txt", 8, 8, 8, 6, 0x363a3020, 0, 35},
        {"long.txt", 8, 8, 22, 5000, 0x00dbf026, 59, 97},
    };
    assert_file("zip/streamed.zip", false, ENTRIES, COUNT(ENTRIES));
}

static void encrypted_entries_are_listed(void **state)
{
    (void)state;
    static const expected ENTRIES[] = {{"a.txt", 0, 9, 18, 6, 0x363a3020, 0, 35}};
    assert_file("zip/encrypted.zip", false, ENTRIES, COUNT(ENTRIES));
}

static void zip64_records_are_read(void **state)
{
    (void)state;
    static const expected ENTRIES[] = {{"one", 0, 0, 1, 1, 0x83dcefb7, 0, 33}, {"two", 0, 0, 2, 2, 0x647e170e, 34, 67}};
    static const expected INFOZIP64[] = {{"a.txt", 0, 0, 6, 6, 0x363a3020, 0, 55}};
    assert_file("zip/zip64_end.zip", false, ENTRIES, COUNT(ENTRIES));
    assert_file("zip/zip64_infozip.zip", false, INFOZIP64, COUNT(INFOZIP64));
}

static void entries_over_4_gib_are_read(void **state)
{
    (void)state;
    archive a;
    archive_load_huge(&a);
    static const expected ENTRIES[] = {
        {"big", 0, 0, 5ull << 30, 5ull << 30, 0x193838c3, 0, 53},
        {"behind", 0, 0, 1, 1, 0x71beeff9, 5368709173, 5368709209},
    };
    assert_entries(&a, false, ENTRIES, COUNT(ENTRIES));
    free(a.bytes);
}

static void pytorch_files_are_read_with_their_alignment(void **state)
{
    (void)state;
    static const expected BFLOAT16[] = {
        {"bfloat16/data.pkl", 0, 2056, 170, 170, 0x4a6ed88c, 0, 64},
        {"bfloat16/.format_version", 0, 2056, 1, 1, 0x83dcefb7, 250, 320},
        {"bfloat16/.storage_alignment", 0, 2056, 2, 2, 0xe971773f, 337, 448},
        {"bfloat16/byteorder", 0, 2056, 6, 6, 0x19e33d85, 466, 576},
        {"bfloat16/data/0", 0, 2056, 6, 6, 0xa1e78309, 598, 704},
        {"bfloat16/version", 0, 2056, 2, 2, 0x55679ed1, 726, 832},
        {"bfloat16/.data/serialization_id", 0, 2056, 40, 40, 0x96a8e14c, 850, 960},
    };
    assert_file("torch/bfloat16.pt", false, BFLOAT16, COUNT(BFLOAT16));
}

static void every_pytorch_file_holds_aligned_stored_entries(void **state)
{
    (void)state;
    static const char *const FILES[] = {
        "torch/checkpoint.pt",
        "torch/float16.pt",
        "torch/int64.pt",
        "torch/large_shape.pt",
        "torch/mixed_types.pt",
        "torch/mnist.pt",
        "torch/nested_dict.pt",
        "torch/special_values.pt",
        "torch/tensors.zip.pt",
        "torch/noncontiguous_tensor.zip.pt",
        "trajectory-tiny/checkpoint_epoch_1.pt",
    };
    for (size_t i = 0; i < COUNT(FILES); i++) {
        archive a;
        zip_dir dir;
        archive_load(&a, FILES[i]);
        assert_int_equal(zip_dir_read(&dir, &a.source, false, NULL), 0);
        assert_true(dir.count >= 3);
        for (size_t k = 0; k < dir.count; k++) {
            uint64_t data = 1;
            assert_int_equal(zip_entry_locate(&data, &dir.entries[k], &a.source, NULL), 0);
            assert_int_equal(data % 64, 0);
            assert_int_equal(dir.entries[k].method, ZIP_METHOD_STORED);
        }
        zip_dir_clear(&dir);
        free(a.bytes);
    }
}

static void numpy_archives_are_read(void **state)
{
    (void)state;
    static const expected ENTRIES[] = {
        {"x.npy", 0, 0, 208, 208, 0x0e29083c, 0, 55},
        {"x_plus_one.npy", 0, 0, 208, 208, 0xc199f021, 263, 327},
    };
    assert_file("torch/test.npz", false, ENTRIES, COUNT(ENTRIES));
}

static void an_empty_archive_has_no_entries(void **state)
{
    (void)state;
    static char empty[22] = "PK\5\6";
    archive a;
    archive_of(&a, empty, sizeof empty);
    assert_entries(&a, false, NULL, 0);
}

static void a_program_in_front_is_read_when_allowed(void **state)
{
    (void)state;
    static const expected ENTRIES[] = {
        {"a.txt", 0, 0, 6, 6, 0x363a3020, 17, 52},
        {"gr\xc3\xbcn.txt", 0, 0, 11, 11, 0xd7b27cd0, 58, 97},
        {"long.txt", 8, 0, 22, 5000, 0x00dbf026, 108, 146},
    };
    archive raw, adjusted;
    archive_load(&raw, "zip/stub_raw.zip");
    archive_load(&adjusted, "zip/stub_adjusted.zip");
    assert_entries(&raw, true, ENTRIES, COUNT(ENTRIES));
    assert_entries(&adjusted, true, ENTRIES, COUNT(ENTRIES));
    assert_refused(&raw, false, "x.zip: zip directory does not end at the end record");
    assert_refused(&adjusted, false, "x.zip: 17 bytes stand before the first zip entry");
    free(raw.bytes);
    free(adjusted.bytes);
}

static void zip64_behind_a_program_is_read_when_allowed(void **state)
{
    (void)state;
    archive a, zip;
    archive_of(&a, NULL, 0);
    archive_load(&zip, "zip/zip64_end.zip");
    archive_append(&a, "#!/bin/sh\n", 10);
    archive_append(&a, zip.bytes, zip.size);
    static const expected ENTRIES[] = {{"one", 0, 0, 1, 1, 0x83dcefb7, 10, 43},
                                       {"two", 0, 0, 2, 2, 0x647e170e, 44, 77}};
    assert_entries(&a, true, ENTRIES, COUNT(ENTRIES));
    assert_refused(&a, false, "x.zip: zip directory does not end at the end record");
    free(a.bytes);
    free(zip.bytes);
}

static void a_volume_of_a_split_archive_is_refused_and_shows_its_numbers(void **state)
{
    (void)state;
    archive a;
    zip_end end;
    archive_load(&a, "zip/split_last.zip");
    assert_int_equal(zip_end_read(&end, &a.source, NULL), 0);
    assert_int_equal(end.disk, 1);
    assert_int_equal(end.directory_disk, 1);
    assert_int_equal(end.entries, 1);
    assert_false(end.zip64);
    assert_refused(&a, true, "x.zip: volume 2 of a split zip archive");
    free(a.bytes);
}

static void names_are_found_and_counted(void **state)
{
    (void)state;
    archive a;
    zip_dir dir;
    size_t count = 9;
    archive_load(&a, "torch/tensors.zip.pt");
    assert_int_equal(zip_dir_read(&dir, &a.source, false, NULL), 0);
    assert_ptr_equal(zip_dir_find(&count, &dir, "tensors.zip/data/10"), &dir.entries[3]);
    assert_int_equal(count, 1);
    assert_null(zip_dir_find(&count, &dir, "tensors.zip/data/1x"));
    assert_int_equal(count, 0);
    zip_dir_clear(&dir);
    free(a.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_of_info_zip_are_read),
        cmocka_unit_test(a_comment_may_hold_the_signature_of_an_end_record),
        cmocka_unit_test(a_comment_may_have_65535_bytes),
        cmocka_unit_test(descriptors_behind_the_data_are_no_contradiction),
        cmocka_unit_test(encrypted_entries_are_listed),
        cmocka_unit_test(zip64_records_are_read),
        cmocka_unit_test(entries_over_4_gib_are_read),
        cmocka_unit_test(pytorch_files_are_read_with_their_alignment),
        cmocka_unit_test(every_pytorch_file_holds_aligned_stored_entries),
        cmocka_unit_test(numpy_archives_are_read),
        cmocka_unit_test(an_empty_archive_has_no_entries),
        cmocka_unit_test(a_program_in_front_is_read_when_allowed),
        cmocka_unit_test(zip64_behind_a_program_is_read_when_allowed),
        cmocka_unit_test(a_volume_of_a_split_archive_is_refused_and_shows_its_numbers),
        cmocka_unit_test(names_are_found_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
