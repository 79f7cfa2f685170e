#include "zip_archive.h"

#include "alloc_fail.h"
#include "bytes.h"

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

/* Layout of zip/infozip.zip: local headers at 0, 41, 91; directory at 151 with entries of 51, 55 and 54 bytes; end
 * record at 311. */
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
        {223 + 4, 1, "x.zip: zip end record and Zip64 end record disagree"},
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

static void places_that_are_moved_differently_are_refused(void **state)
{
    (void)state;
    archive a, zip;
    archive_of(&a, NULL, 0);
    archive_load(&zip, "zip/zip64_end.zip");
    store_u64(zip.bytes + 223 + 8, 167 + 10); /* the place of the Zip64 end record is mended, the directory's is not */
    archive_append(&a, "#!/bin/sh\n", 10);
    archive_append(&a, zip.bytes, zip.size);
    assert_refused(&a, true, "x.zip: zip directory and Zip64 end record are moved differently");
    free(a.bytes);
    free(zip.bytes);
}

/* The end records of zip/zip64_end.zip behind so many zero bytes, saturated, with other numbers in the Zip64 one. */
static void archive_of_end(archive *a, uint64_t zeros, uint64_t entries, uint64_t directory_size)
{
    archive_load(a, "zip/zip64_end.zip");
    a->size -= 167;
    memmove(a->bytes, a->bytes + 167, a->size);
    a->gap = zeros;
    a->source.size = zeros + a->size;
    store_u64(a->bytes + 24, entries);
    store_u64(a->bytes + 32, entries);
    store_u64(a->bytes + 40, directory_size);
    store_u64(a->bytes + 48, zeros - directory_size);
    store_u64(a->bytes + 223 - 167 + 8, zeros);
    memset(a->bytes + 243 - 167 + 4, 0xFF, 16);
}

static void directories_and_entries_are_limited(void **state)
{
    (void)state;
    archive a;
    archive_of_end(&a, 1 << 30, 1, ZIP_DIRECTORY_SIZE_MAX + 1);
    assert_refused(&a, true, "x.zip: zip directory is larger than 67108864 bytes");
    free(a.bytes);
    archive_of_end(&a, 1 << 30, ZIP_ENTRIES_MAX + 1, ZIP_DIRECTORY_SIZE_MAX);
    assert_refused(&a, true, "x.zip: more than 1048576 zip entries");
    free(a.bytes);
}

static void zip64_fields_that_are_torn_or_missing_are_refused(void **state)
{
    (void)state;
    /* zip/huge.head has 53 bytes; in zip/huge.tail the directory begins at 37, and its first name has 3 bytes. */
    enum { EXTRA = 53 + 37 + 46 + 3 };
    static const struct {
        const char extra[21];
        const char *message;
    } CASES[] = {
        {"\2\0\x10\0\0\0\0\x40\1\0\0\0\0\0\0\x40\1\0\0\0", "x.zip: zip entry lacks its Zip64 sizes"},
        {"\1\0\x08\0\0\0\0\x40\1\0\0\0\2\0\4\0\0\0\0\0", "x.zip: zip entry lacks its Zip64 sizes"},
        {"\1\0\x11\0\0\0\0\x40\1\0\0\0\0\0\0\x40\1\0\0\0", "x.zip: zip extra field runs past its header"},
        {"\1\0\x0d\0\0\0\0\x40\1\0\0\0\0\0\0\x40\1\0\0\1", "x.zip: zip extra fields end in a torn one"},
    };
    for (size_t i = 0; i < COUNT(CASES); i++) {
        archive a;
        archive_load_huge(&a);
        memcpy(a.bytes + EXTRA, CASES[i].extra, 20);
        assert_refused(&a, false, CASES[i].message);
        free(a.bytes);
    }
}

static void a_saturated_disk_number_needs_its_zip64_field(void **state)
{
    (void)state;
    archive a;
    archive_load(&a, "zip/infozip.zip");
    memset(a.bytes + DIRECTORY + 34, 0xFF, 2);
    assert_refused(&a, false, "x.zip: zip entry lacks its Zip64 disk number");
    free(a.bytes);
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
        cmocka_unit_test(overlapping_entries_are_refused),
        cmocka_unit_test(trailing_bytes_are_refused),
        cmocka_unit_test(two_end_records_that_fit_are_refused),
        cmocka_unit_test(damaged_directories_are_refused),
        cmocka_unit_test(counts_that_do_not_fit_the_directory_are_refused),
        cmocka_unit_test(zip64_contradictions_are_refused),
        cmocka_unit_test(places_that_are_moved_differently_are_refused),
        cmocka_unit_test(directories_and_entries_are_limited),
        cmocka_unit_test(zip64_fields_that_are_torn_or_missing_are_refused),
        cmocka_unit_test(a_saturated_disk_number_needs_its_zip64_field),
        cmocka_unit_test(saturated_end_records_take_the_zip64_values),
        cmocka_unit_test(local_headers_that_disagree_are_refused),
        cmocka_unit_test(a_crc_of_zero_is_not_computed),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_failed_read_is_passed_on),
        cmocka_unit_test(every_failed_allocation_is_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
