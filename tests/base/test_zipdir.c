/* The archives of tests/golden/zip were written by Info-ZIP 3.0 and Python's zipfile; the expected entries below are
 * what Python's zipfile reads from them. */
#include "zipdir.h"

#include "alloc_fail.h"
#include "bytes.h"
#include "file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* An archive in memory, with `gap` zero bytes between its two halves. */
typedef struct archive {
    char *bytes;
    size_t size;
    uint64_t gap_at, gap;
    zip_source source;
} archive;

static char archive_byte(const archive *a, uint64_t at)
{
    if (at < a->gap_at)
        return a->bytes[at];
    return at < a->gap_at + a->gap ? 0 : a->bytes[at - a->gap];
}

static int archive_read(void *payload, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    const archive *a = payload;
    (void)err;
    assert_true(offset <= a->source.size && size <= a->source.size - offset);
    for (size_t i = 0; i < size; i++)
        ((char *)dst)[i] = archive_byte(a, offset + i);
    return 0;
}

static void archive_of(archive *a, char *bytes, size_t size)
{
    *a = (archive){.bytes = bytes, .size = size};
    a->source = (zip_source){size, archive_read, a, "x.zip"};
}

static void archive_load(archive *a, const char *name)
{
    char *bytes = NULL;
    size_t size = 0;
    char path[FILE_PATH_MAX];
    ckpt_error err = {0};
    if (path_join(path, GOLDEN_DIR, name, &err) || file_read_all(&bytes, &size, path, 16 << 20, &err))
        fail_msg("%s", err.message);
    archive_of(a, bytes, size);
}

static void archive_append(archive *a, const void *bytes, size_t size)
{
    char *grown = realloc(a->bytes, a->size + size);
    assert_non_null(grown);
    memcpy(grown + a->size, bytes, size);
    archive_of(a, grown, a->size + size);
}

typedef struct expected {
    const char *name;
    unsigned method, flags;
    uint64_t size_packed, size;
    uint32_t crc32;
    uint64_t header, data;
} expected;

static void assert_entries(archive *a, bool allow_lead, const expected *entries, size_t count)
{
    zip_dir dir;
    ckpt_error err = {0};
    if (zip_dir_read(&dir, &a->source, allow_lead, &err))
        fail_msg("%s", err.message);
    assert_int_equal(dir.count, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t data = 0;
        if (zip_entry_locate(&data, &dir.entries[i], &a->source, &err))
            fail_msg("%s", err.message);
        assert_string_equal(dir.entries[i].name, entries[i].name);
        assert_int_equal(dir.entries[i].name_size, strlen(entries[i].name));
        assert_int_equal(dir.entries[i].method, entries[i].method);
        assert_int_equal(dir.entries[i].flags, entries[i].flags);
        assert_int_equal(dir.entries[i].size_packed, entries[i].size_packed);
        assert_int_equal(dir.entries[i].size, entries[i].size);
        assert_int_equal(dir.entries[i].crc32, entries[i].crc32);
        assert_int_equal(dir.entries[i].header, entries[i].header);
        assert_int_equal(data, entries[i].data);
    }
    zip_dir_clear(&dir);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void assert_file(const char *name, bool allow_lead, const expected *entries, size_t count)
{
    archive a;
    archive_load(&a, name);
    assert_entries(&a, allow_lead, entries, count);
    free(a.bytes);
}

static void assert_refused(const archive *a, bool allow_lead, const char *message)
{
    zip_dir dir;
    ckpt_error err = {0};
    assert_int_equal(zip_dir_read(&dir, &a->source, allow_lead, &err), CKPT_EFORMAT);
    assert_string_equal(err.message, message);
    assert_null(dir.entries);
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
    archive a, tail;
    archive_load(&a, "zip/huge.head");
    archive_load(&tail, "zip/huge.tail");
    uint64_t gap_at = a.size;
    archive_append(&a, tail.bytes, tail.size);
    a.gap_at = gap_at;
    a.gap = 5ull << 30;
    a.source.size += a.gap;
    static const expected ENTRIES[] = {
        {"big", 0, 0, 5ull << 30, 5ull << 30, 0x193838c3, 0, 53},
        {"behind", 0, 0, 1, 1, 0x71beeff9, 5368709173, 5368709209},
    };
    assert_entries(&a, false, ENTRIES, COUNT(ENTRIES));
    free(a.bytes);
    free(tail.bytes);
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

static void overlapping_entries_are_refused(void **state)
{
    (void)state;
    static const char *const FILES[] = {"zip/overlap.zip", "zip/nested.zip"};
    for (size_t i = 0; i < COUNT(FILES); i++) {
        archive a;
        archive_load(&a, FILES[i]);
        assert_refused(&a, true, "x.zip: zip entries overlap each other or the directory");
        free(a.bytes);
    }
}

static void trailing_bytes_are_refused(void **state)
{
    (void)state;
    archive a;
    archive_load(&a, "zip/infozip.zip");
    archive_append(&a, "", 1);
    assert_refused(&a, true, "x.zip: no end record of a zip archive");
    free(a.bytes);
}

static void two_end_records_that_fit_are_refused(void **state)
{
    (void)state;
    static char fake[22] = "PK\5\6";
    archive a;
    archive_load(&a, "zip/zip64_end.zip");
    store_u16(a.bytes + a.size - 2, sizeof fake);
    archive_append(&a, fake, sizeof fake);
    assert_refused(&a, true, "x.zip: two end records of a zip archive fit");
    free(a.bytes);
}

/* Layout of zip/infozip.zip: local headers at 0, 41, 91; directory at 151 with entries of 51, 57 and 54 bytes; end
 * record at 310. */
enum { DIRECTORY = 151, END = 311 };

typedef struct damage {
    size_t at;
    unsigned char byte;
    const char *message;
} damage;

static void damaged_directories_are_refused(void **state)
{
    (void)state;
    static const damage DAMAGE[] = {
        {END + 4, 2, "x.zip: volume 3 of a split zip archive"},
        {END + 8, 2, "x.zip: volume 1 of a split zip archive"},
        {END + 13, 0x10, "x.zip: zip directory is larger than the file"},
        {END + 16, 160, "x.zip: zip directory does not end at the end record"},
        {END + 16, 150, "x.zip: zip directory does not end at the end record"},
        {END + 20, 4, "x.zip: no end record of a zip archive"},
        {DIRECTORY, 'Q', "x.zip: zip directory holds fewer entries than its end record says"},
        {DIRECTORY + 20, 7, "x.zip: stored zip entry with two sizes"},
        {DIRECTORY + 29, 0x10, "x.zip: zip entry runs past the directory"},
        {DIRECTORY + 31, 0x10, "x.zip: zip entry runs past the directory"},
        {DIRECTORY + 32, 1, "x.zip: zip directory holds fewer entries than its end record says"},
        {DIRECTORY + 34, 1, "x.zip: zip entry lies in another volume"},
        {DIRECTORY + 42, 1, "x.zip: zip entries overlap each other or the directory"},
        {DIRECTORY + 45, 1, "x.zip: zip entries overlap each other or the directory"},
        {DIRECTORY + 47, 0, "x.zip: zip entry has a zero byte in its name"},
    };
    for (size_t i = 0; i < COUNT(DAMAGE); i++) {
        archive a;
        archive_load(&a, "zip/infozip.zip");
        a.bytes[DAMAGE[i].at] = (char)DAMAGE[i].byte;
        assert_refused(&a, false, DAMAGE[i].message);
        free(a.bytes);
    }
}

static void counts_that_do_not_fit_the_directory_are_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned char count;
        const char *message;
    } CASES[] = {
        {2, "x.zip: zip directory holds more than its end record says"},
        {4, "x.zip: zip directory is too small for its entries"},
        {255, "x.zip: zip directory is too small for its entries"},
    };
    for (size_t i = 0; i < COUNT(CASES); i++) {
        archive a;
        archive_load(&a, "zip/infozip.zip");
        a.bytes[END + 8] = a.bytes[END + 10] = (char)CASES[i].count;
        assert_refused(&a, false, CASES[i].message);
        free(a.bytes);
    }
}

static void zip64_contradictions_are_refused(void **state)
{
    (void)state;
    /* zip/zip64_end.zip: Zip64 end record at 167, locator at 223, end record at 243, whose counts are saturated. */
    static const damage DAMAGE[] = {
        {167, 'Q', "x.zip: no Zip64 end record where its locator points"},
        {167 + 4, 45, "x.zip: no Zip64 end record where its locator points"},
        {167 + 16, 1, "x.zip: zip end record and Zip64 end record disagree"},
        {167 + 24, 1, "x.zip: zip end record and Zip64 end record disagree"},
        {167 + 32 + 7, 1, "x.zip: zip end record and Zip64 end record disagree"},
        {167 + 40 + 7, 1, "x.zip: zip end record and Zip64 end record disagree"},
        {167 + 48, 70, "x.zip: zip end record and Zip64 end record disagree"},
        {223 + 16, 2, "x.zip: volume 1 of a split zip archive"},
        {243 + 8, 7, "x.zip: zip end record and Zip64 end record disagree"},
        {243 + 16, 7, "x.zip: zip end record and Zip64 end record disagree"},
    };
    for (size_t i = 0; i < COUNT(DAMAGE); i++) {
        archive a;
        archive_load(&a, "zip/zip64_end.zip");
        a.bytes[DAMAGE[i].at] = (char)DAMAGE[i].byte;
        assert_refused(&a, false, DAMAGE[i].message);
        free(a.bytes);
    }
}

static void saturated_end_records_take_the_zip64_values(void **state)
{
    (void)state;
    static const expected ENTRIES[] = {{"one", 0, 0, 1, 1, 0x83dcefb7, 0, 33}, {"two", 0, 0, 2, 2, 0x647e170e, 34, 67}};
    static const damage DAMAGE[] = {
        {167 + 24, 1, "x.zip: volume 1 of a split zip archive"},
        {167 + 40 + 7, 1, "x.zip: zip directory is larger than the file"},
        {167 + 48, 70, "x.zip: zip directory does not end at the end record"},
        {167 + 48 + 7, 0x80, "x.zip: zip directory does not end at the end record"},
    };
    archive a;
    archive_load(&a, "zip/zip64_end.zip");
    memset(a.bytes + 243 + 4, 0xFF, 16);
    assert_entries(&a, false, ENTRIES, COUNT(ENTRIES));
    for (size_t i = 0; i < COUNT(DAMAGE); i++) {
        char whole = a.bytes[DAMAGE[i].at];
        a.bytes[DAMAGE[i].at] = (char)DAMAGE[i].byte;
        assert_refused(&a, false, DAMAGE[i].message);
        a.bytes[DAMAGE[i].at] = whole;
    }
    free(a.bytes);
}

static void local_headers_that_disagree_are_refused(void **state)
{
    (void)state;
    static const damage DAMAGE[] = {
        {0, 'Q', "x.zip: no zip local header where the directory points"},
        {6, 1, "x.zip: zip local header and directory disagree in the method"},
        {8, 8, "x.zip: zip local header and directory disagree in the method"},
        {14, 1, "x.zip: zip local header and directory disagree in the CRC"},
        {18, 5, "x.zip: zip local header and directory disagree in the size"},
        {22, 5, "x.zip: zip local header and directory disagree in the size"},
        {26, 4, "x.zip: zip local header and directory disagree in the name"},
        {28, 1, "x.zip: zip entries overlap each other or the directory"},
        {30, 'b', "x.zip: zip local header and directory disagree in the name"},
    };
    for (size_t i = 0; i < COUNT(DAMAGE); i++) {
        archive a;
        zip_dir dir;
        uint64_t data = 0;
        ckpt_error err = {0};
        archive_load(&a, "zip/infozip.zip");
        a.bytes[DAMAGE[i].at] = (char)DAMAGE[i].byte;
        assert_int_equal(zip_dir_read(&dir, &a.source, false, NULL), 0);
        assert_int_equal(zip_entry_locate(&data, &dir.entries[0], &a.source, &err), CKPT_EFORMAT);
        assert_string_equal(err.message, DAMAGE[i].message);
        zip_dir_clear(&dir);
        free(a.bytes);
    }
}

static void a_crc_of_zero_is_not_computed(void **state)
{
    (void)state;
    archive a;
    zip_dir dir;
    uint64_t data = 0;
    archive_load(&a, "zip/infozip.zip");
    memset(a.bytes + 14, 0, 4);
    assert_int_equal(zip_dir_read(&dir, &a.source, false, NULL), 0);
    assert_int_equal(zip_entry_locate(&data, &dir.entries[0], &a.source, NULL), 0);
    assert_int_equal(data, 35);
    zip_dir_clear(&dir);
    free(a.bytes);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    archive a;
    archive_load(&a, "zip/infozip.zip");
    for (size_t size = 0; size < a.size; size++) {
        zip_dir dir;
        a.source.size = size;
        assert_int_equal(zip_dir_read(&dir, &a.source, true, NULL), CKPT_EFORMAT);
    }
    free(a.bytes);
}

static int failing_read(void *payload, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    (void)payload, (void)dst, (void)offset, (void)size, (void)err;
    return CKPT_EIO;
}

static void a_failed_read_is_passed_on(void **state)
{
    (void)state;
    zip_dir dir;
    zip_source source = {100, failing_read, NULL, "x.zip"};
    assert_int_equal(zip_dir_read(&dir, &source, true, NULL), CKPT_EIO);
}

static void every_failed_allocation_is_out_of_memory(void **state)
{
    (void)state;
    archive a;
    bool failed = ALLOC_FAIL_WORKS;
    if (!failed)
        skip();
    archive_load(&a, "zip/infozip.zip");
    for (long at = 1; failed; at++) {
        zip_dir dir;
        uint64_t data;
        alloc_fail_arm(at);
        int rc = zip_dir_read(&dir, &a.source, false, NULL);
        if (!rc)
            rc = zip_entry_locate(&data, &dir.entries[0], &a.source, NULL);
        failed = alloc_fail_disarm();
        assert_int_equal(rc, failed ? CKPT_ENOMEM : 0);
        zip_dir_clear(&dir);
    }
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
        cmocka_unit_test(overlapping_entries_are_refused),
        cmocka_unit_test(trailing_bytes_are_refused),
        cmocka_unit_test(two_end_records_that_fit_are_refused),
        cmocka_unit_test(damaged_directories_are_refused),
        cmocka_unit_test(counts_that_do_not_fit_the_directory_are_refused),
        cmocka_unit_test(zip64_contradictions_are_refused),
        cmocka_unit_test(saturated_end_records_take_the_zip64_values),
        cmocka_unit_test(local_headers_that_disagree_are_refused),
        cmocka_unit_test(a_crc_of_zero_is_not_computed),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_failed_read_is_passed_on),
        cmocka_unit_test(every_failed_allocation_is_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
