/* What is written is read by base's reader of zip directories, which was tested with archives of other programs. */
#include "file_tree.h"

#include "zip_writer.h"
#include "zipdir.h"

#include "hash.h"

#define FAR_OFFSET (UINT64_C(5) << 30)

typedef struct archive {
    file_tmp tmp;
    zip_writer zip;
    zip_dir dir;
} archive;

static int source_read(void *payload, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    const file_tmp *const tmp = payload;
    return file_read_at(dst, tmp->fd, offset, size, tmp->path, err);
}

static zip_source source_of(archive *a)
{
    return (zip_source){.size = a->tmp.size_bytes, .read = source_read, .payload = &a->tmp, .path = "archive"};
}

static void archive_open(archive *a, fixture *f)
{
    *a = (archive){.tmp.fd = -1};
    MUST(file_tmp_open(&a->tmp, f->root, "archive", ERR));
    a->zip.out = &a->tmp;
}

static void archive_close(archive *a)
{
    zip_dir_clear(&a->dir);
    zip_writer_clear(&a->zip);
    file_tmp_discard(&a->tmp);
}

static void add(archive *a, const char *name, const void *data, size_t size, unsigned alignment)
{
    MUST(zip_writer_begin(&a->zip, name, size, alignment, ERR));
    MUST(zip_writer_data(&a->zip, data, size, ERR));
    MUST(zip_writer_end(&a->zip, ERR));
}

static void finish(archive *a, bool allow_lead)
{
    const zip_source source = source_of(a);
    MUST(zip_writer_finish(&a->zip, ERR));
    MUST(zip_dir_read(&a->dir, &(zip_source){a->tmp.size_bytes, source.read, source.payload, "archive"}, allow_lead,
                      ERR));
}

static void assert_member(archive *a, const char *name, const void *data, size_t size, unsigned alignment)
{
    const zip_source source = source_of(a);
    size_t count = 0;
    uint64_t offset = 0;
    const zip_entry *const entry = zip_dir_find(&count, &a->dir, name);
    assert_int_equal(count, 1);
    assert_int_equal(entry->method, ZIP_METHOD_STORED);
    assert_int_equal(entry->size, size);
    assert_int_equal(entry->crc32, crc32_of(0, data, size));
    MUST(zip_entry_locate(&offset, entry, &source, ERR));
    assert_int_equal(offset % alignment, 0);
    char *const read = malloc(size + 1);
    MUST(file_read_at(read, a->tmp.fd, offset, size, "archive", ERR));
    assert_memory_equal(read, data, size);
    free(read);
}

static void members_are_read_back_where_they_are_aligned(void **state)
{
    static char large[700000];
    archive a;
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)(i * 7 >> 3);
    archive_open(&a, *state);
    add(&a, "a", "", 0, 64);
    add(&a, "folder/b.npy", "hello", 5, 64);
    add(&a, "large", large, sizeof large, 64); /* more than the buffer holds */
    add(&a, "ende/\xc3\xa9", "z", 1, 1);
    finish(&a, false);
    assert_int_equal(a.dir.count, 4);
    assert_member(&a, "a", "", 0, 64);
    assert_member(&a, "folder/b.npy", "hello", 5, 64);
    assert_member(&a, "large", large, sizeof large, 64);
    assert_member(&a, "ende/\xc3\xa9", "z", 1, 1);
    assert_true(a.dir.entries[3].flags & ZIP_FLAG_UTF8);
    assert_false(a.dir.entries[0].flags & ZIP_FLAG_UTF8);
    archive_close(&a);
}

static void every_alignment_is_met_at_every_place(void **state)
{
    archive a;
    char name[80] = "";
    archive_open(&a, *state);
    for (size_t i = 0; i < 70; i++) {
        name[i] = 'x';
        add(&a, name, name, i, 64);
    }
    finish(&a, false);
    for (size_t i = 70; i-- > 0;) {
        name[i + 1] = 0;
        assert_member(&a, name, name, i, 64);
    }
    archive_close(&a);
}

static void an_archive_beyond_4_gib_has_zip64_records(void **state)
{
    archive a;
    archive_open(&a, *state);
    add(&a, "near", "1", 1, 1);
    /* As if a member of 5 GiB stood here: a hole, which takes no space. */
    MUST(file_write_at(a.tmp.fd, FAR_OFFSET - 1, "", 1, "archive", ERR));
    zip_writer_clear(&a.zip);
    a.zip.out = &a.tmp;
    a.tmp.size_bytes = FAR_OFFSET;
    assert_true(lseek(a.tmp.fd, (off_t)FAR_OFFSET, SEEK_SET) >= 0);
    add(&a, "far", "22", 2, 64);
    add(&a, "farther", "333", 3, 64);
    finish(&a, true);
    assert_true(a.dir.end.zip64);
    assert_int_equal(a.dir.entries[1].header > FAR_OFFSET, 1);
    assert_member(&a, "far", "22", 2, 64);
    assert_member(&a, "farther", "333", 3, 64);
    archive_close(&a);
}

static void more_members_than_16_bits_count_have_zip64_records(void **state)
{
    archive a;
    char name[16];
    archive_open(&a, *state);
    for (unsigned i = 0; i < 65536; i++) {
        snprintf(name, sizeof name, "%u", i);
        add(&a, name, "", 0, 1);
    }
    finish(&a, false);
    assert_true(a.dir.end.zip64);
    assert_int_equal(a.dir.count, 65536);
    archive_close(&a);
}

static void a_name_that_no_reader_would_take_is_refused(void **state)
{
    archive a;
    char *const name = malloc(ZIP_WRITER_NAME_MAX + 2);
    memset(name, 'n', ZIP_WRITER_NAME_MAX + 1);
    name[ZIP_WRITER_NAME_MAX + 1] = 0;
    archive_open(&a, *state);
    assert_int_equal(zip_writer_begin(&a.zip, name, 0, 1, NULL), CKPT_EUSAGE);
    free(name);
    archive_close(&a);
}

int main(void)
{
#define ZIP_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        ZIP_TEST(members_are_read_back_where_they_are_aligned),
        ZIP_TEST(every_alignment_is_met_at_every_place),
        ZIP_TEST(an_archive_beyond_4_gib_has_zip64_records),
        ZIP_TEST(more_members_than_16_bits_count_have_zip64_records),
        ZIP_TEST(a_name_that_no_reader_would_take_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
