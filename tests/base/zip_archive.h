/* Zip archives in memory for the tests of zipdir.c. The files of tests/golden/zip were written by Info-ZIP 3.0 and
 * Python's zipfile; what is expected of them is what Python's zipfile reads. */
#ifndef TESTS_ZIP_ARCHIVE_H
#define TESTS_ZIP_ARCHIVE_H

#include "file.h"
#include "zipdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* An archive in memory, with `gap` zero bytes between its two halves. */
typedef struct archive {
    char *bytes;
    size_t size;
    uint64_t gap_at, gap;
    zip_source source;
} archive;

static inline char archive_byte(const archive *a, uint64_t at)
{
    if (at < a->gap_at)
        return a->bytes[at];
    return at < a->gap_at + a->gap ? 0 : a->bytes[at - a->gap];
}

static inline int archive_read(void *payload, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    const archive *a = payload;
    (void)err;
    assert_true(offset <= a->source.size && size <= a->source.size - offset);
    for (size_t i = 0; i < size; i++)
        ((char *)dst)[i] = archive_byte(a, offset + i);
    return 0;
}

static inline void archive_of(archive *a, char *bytes, size_t size)
{
    *a = (archive){.bytes = bytes, .size = size};
    a->source = (zip_source){size, archive_read, a, "x.zip"};
}

static inline void archive_load(archive *a, const char *name)
{
    char *bytes = NULL;
    size_t size = 0;
    char path[FILE_PATH_MAX];
    ckpt_error err = {0};
    if (path_join(path, GOLDEN_DIR, name, &err) || file_read_all(&bytes, &size, path, 16 << 20, &err))
        fail_msg("%s", err.message);
    archive_of(a, bytes, size);
}

static inline void archive_append(archive *a, const void *bytes, size_t size)
{
    char *grown = realloc(a->bytes, a->size + size);
    assert_non_null(grown);
    memcpy(grown + a->size, bytes, size);
    archive_of(a, grown, a->size + size);
}

/* zip/huge.head and zip/huge.tail with the 5 GiB of zeros between them. */
static inline void archive_load_huge(archive *a)
{
    archive tail;
    archive_load(a, "zip/huge.head");
    archive_load(&tail, "zip/huge.tail");
    size_t head_size = a->size;
    archive_append(a, tail.bytes, tail.size);
    a->gap_at = head_size;
    a->gap = 5ull << 30;
    a->source.size += a->gap;
    free(tail.bytes);
}

typedef struct expected {
    const char *name;
    unsigned method, flags;
    uint64_t size_packed, size;
    uint32_t crc32;
    uint64_t header, data;
} expected;

static inline void assert_entries(archive *a, bool allow_lead, const expected *entries, size_t count)
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

static inline void assert_refused(const archive *a, bool allow_lead, const char *message)
{
    zip_dir dir;
    ckpt_error err = {0};
    assert_int_equal(zip_dir_read(&dir, &a->source, allow_lead, &err), CKPT_EFORMAT);
    assert_string_equal(err.message, message);
    assert_null(dir.entries);
}

#endif
