#include "zipdir.h"

#include "bytes.h"
#include "checked.h"
#include "fail.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SIGNATURE_LOCAL     0x04034b50u
#define SIGNATURE_DIRECTORY 0x02014b50u
#define SIGNATURE_END       0x06054b50u
#define SIGNATURE_END64     0x06064b50u
#define SIGNATURE_LOCATOR   0x07064b50u

#define LOCAL_SIZE     30u /* of the fixed parts */
#define DIRECTORY_SIZE 46u
#define END_SIZE       22u
#define END64_SIZE     56u
#define LOCATOR_SIZE   20u
#define COMMENT_MAX    0xFFFFu

#define EXTRA_ZIP64     0x0001u
#define EXTRA_HEAD_SIZE 4u

static bool source_has(const zip_source *source, uint64_t offset, uint64_t size)
{
    return checked_range(offset, size, source->size);
}

static int source_read(void *dst, const zip_source *source, uint64_t offset, size_t size, ckpt_error *err)
{
    assert(source_has(source, offset, size));
    return size ? source->read(source->payload, dst, offset, size, err) : 0;
}

/* The one end record whose comment reaches to the end of the file. A comment may hold the signature by chance, so that
 * alone is no contradiction; a second record that fits as well is one. */
static int end_find(zip_end *out, unsigned char record[END_SIZE], const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    size_t size = source->size < END_SIZE + COMMENT_MAX ? (size_t)source->size : END_SIZE + COMMENT_MAX;
    unsigned char *tail = NULL;
    const unsigned char *found = NULL;

    out->missing = true;
    FAIL_IF(size < END_SIZE, err, CKPT_EFORMAT, "%s: too short for a zip archive", source->path);
    tail = malloc(size);
    FAIL_IF_NULL(tail, err);
    TRY(source_read(tail, source, source->size - size, size, err));
    for (size_t at = size - END_SIZE + 1; at-- > 0;) {
        if (tail[at] != 'P' || load_u32(tail + at) != SIGNATURE_END || load_u16(tail + at + 20) != size - END_SIZE - at)
            continue;
        out->missing = false;
        FAIL_IF(found, err, CKPT_EFORMAT, "%s: two end records of a zip archive fit", source->path);
        found = tail + at;
    }
    FAIL_IF(!found, err, CKPT_EFORMAT, "%s: no end record of a zip archive", source->path);
    memcpy(record, found, END_SIZE);
    out->position = source->size - size + (uint64_t)(found - tail);
out:
    free(tail);
    return rc;
}

/* A field of the plain end record either says what the Zip64 one says or is saturated. */
static bool agrees(uint64_t plain, uint64_t wide, uint64_t saturated)
{
    return plain == wide || plain == saturated;
}

static bool end_agrees(const zip_end *plain, const zip_end *wide)
{
    return agrees(plain->disk, wide->disk, 0xFFFF) && agrees(plain->directory_disk, wide->directory_disk, 0xFFFF) &&
           agrees(plain->entries_here, wide->entries_here, 0xFFFF) && agrees(plain->entries, wide->entries, 0xFFFF) &&
           agrees(plain->directory_size, wide->directory_size, UINT32_MAX) &&
           agrees(plain->directory_offset, wide->directory_offset, UINT32_MAX);
}

/* Where the Zip64 end record begins. It ends where its locator begins; it is looked for at the place that is written
 * there, else right before the locator, where it lies when bytes were put in front of a finished archive. */
static int end64_find(uint64_t *position, unsigned char record[END64_SIZE], const zip_source *source,
                      uint64_t locator_at, uint64_t written, ckpt_error *err)
{
    int rc = 0;
    const uint64_t places[] = {written, locator_at >= END64_SIZE ? locator_at - END64_SIZE : 0};
    for (size_t i = 0; i < 2; i++) {
        if (!checked_range(places[i], END64_SIZE, locator_at))
            continue;
        TRY(source_read(record, source, places[i], END64_SIZE, err));
        /* Its size field does not count itself and the signature. */
        uint64_t rest = locator_at - places[i] - 12;
        if (load_u32(record) == SIGNATURE_END64 && load_u64(record + 4) == rest) {
            *position = places[i];
            return 0;
        }
    }
    FAIL(err, CKPT_EFORMAT, "%s: no Zip64 end record where its locator points", source->path);
out:
    return rc;
}

/* Replaces what the plain end record said when a Zip64 locator stands before it. */
static int end64_read(zip_end *end, const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    unsigned char locator[LOCATOR_SIZE];
    unsigned char record[END64_SIZE];

    if (end->position < LOCATOR_SIZE)
        return 0;
    uint64_t locator_at = end->position - LOCATOR_SIZE;
    TRY(source_read(locator, source, locator_at, sizeof locator, err));
    if (load_u32(locator) != SIGNATURE_LOCATOR)
        return 0;

    zip_end wide = *end;
    uint64_t written = load_u64(locator + 8);
    uint32_t record_disk = load_u32(locator + 4);
    wide.zip64 = true;
    wide.disk_count = load_u32(locator + 16);
    if (wide.disk_count == 0)
        wide.disk_count = 1; /* some writers count from 0 */
    TRY(end64_find(&wide.position, record, source, locator_at, written, err));
    wide.shift = wide.position - written;
    wide.disk = load_u32(record + 16);
    wide.directory_disk = load_u32(record + 20);
    wide.entries_here = load_u64(record + 24);
    wide.entries = load_u64(record + 32);
    wide.directory_size = load_u64(record + 40);
    wide.directory_offset = load_u64(record + 48);
    FAIL_IF(!end_agrees(end, &wide) || record_disk != wide.disk || wide.disk >= wide.disk_count, err, CKPT_EFORMAT,
            "%s: zip end record and Zip64 end record disagree", source->path);
    *end = wide;
out:
    return rc;
}

int zip_end_read(zip_end *out, const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    unsigned char record[END_SIZE] = {0};
    zip_end end = {0};

    TRY(end_find(&end, record, source, err));
    end.disk = load_u16(record + 4);
    end.directory_disk = load_u16(record + 6);
    end.entries_here = load_u16(record + 8);
    end.entries = load_u16(record + 10);
    end.directory_size = load_u32(record + 12);
    end.directory_offset = load_u32(record + 16);
    end.comment_size = load_u16(record + 20);
    end.disk_count = end.disk + 1;
    TRY(end64_read(&end, source, err));
    *out = end;
out:
    if (rc)
        out->missing = end.missing;
    return rc;
}

/* The extra field of that kind, or NULL. Fields that run past the end are an error. */
static int extra_find(const unsigned char **data, size_t *size, const unsigned char *extra, size_t extra_size,
                      unsigned kind, const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    size_t at = 0;
    *data = NULL;
    *size = 0;
    while (extra_size - at >= EXTRA_HEAD_SIZE) {
        size_t field_size = load_u16(extra + at + 2);
        FAIL_IF(field_size > extra_size - at - EXTRA_HEAD_SIZE, err, CKPT_EFORMAT,
                "%s: zip extra field runs past its header", source->path);
        if (load_u16(extra + at) == kind && !*data) {
            *data = extra + at + EXTRA_HEAD_SIZE;
            *size = field_size;
        }
        at += EXTRA_HEAD_SIZE + field_size;
    }
    for (; at < extra_size; at++)
        FAIL_IF(extra[at], err, CKPT_EFORMAT, "%s: zip extra fields end in a torn one", source->path);
out:
    return rc;
}

/* Sizes and places of 32 bits that are saturated stand in the Zip64 field, in this order, each only if saturated. */
typedef struct zip64_fields {
    uint64_t *size, *size_packed, *header; /* header may be NULL: local headers have none */
    uint32_t disk;
} zip64_fields;

static int zip64_resolve(zip64_fields *f, const unsigned char *extra, size_t extra_size, const zip_source *source,
                         ckpt_error *err)
{
    int rc = 0;
    const unsigned char *data;
    size_t size;
    size_t at = 0;
    uint64_t *wide[] = {f->size, f->size_packed, f->header};

    TRY(extra_find(&data, &size, extra, extra_size, EXTRA_ZIP64, source, err));
    for (size_t i = 0; i < 3; i++) {
        if (!wide[i] || *wide[i] != UINT32_MAX)
            continue;
        FAIL_IF(size - at < 8, err, CKPT_EFORMAT, "%s: zip entry lacks its Zip64 sizes", source->path);
        *wide[i] = load_u64(data + at);
        at += 8;
    }
    if (f->disk == 0xFFFF) {
        FAIL_IF(size - at < 4, err, CKPT_EFORMAT, "%s: zip entry lacks its Zip64 disk number", source->path);
        f->disk = load_u32(data + at);
    }
out:
    return rc;
}

/* Reads the entry that begins at *at in the directory; its name is ended with a 0 byte by the caller, later, since the
 * byte behind it belongs to the next field. */
static int entry_read(zip_entry *out, size_t *at, char *bytes, size_t size, const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    const unsigned char *head = (const unsigned char *)bytes + *at;

    FAIL_IF(size - *at < DIRECTORY_SIZE || load_u32(head) != SIGNATURE_DIRECTORY, err, CKPT_EFORMAT,
            "%s: zip directory holds fewer entries than its end record says", source->path);
    size_t name_size = load_u16(head + 28);
    size_t extra_size = load_u16(head + 30);
    size_t comment_size = load_u16(head + 32);
    FAIL_IF(name_size + extra_size + comment_size > size - *at - DIRECTORY_SIZE, err, CKPT_EFORMAT,
            "%s: zip entry runs past the directory", source->path);
    *out = (zip_entry){
        .name = bytes + *at + DIRECTORY_SIZE,
        .name_size = (uint16_t)name_size,
        .made_by = load_u16(head + 4),
        .flags = load_u16(head + 8),
        .method = load_u16(head + 10),
        .dos_time = load_u32(head + 12),
        .crc32 = load_u32(head + 16),
        .size_packed = load_u32(head + 20),
        .size = load_u32(head + 24),
        .attributes = load_u32(head + 38),
        .header = load_u32(head + 42),
    };
    zip64_fields fields = {&out->size, &out->size_packed, &out->header, load_u16(head + 34)};
    TRY(zip64_resolve(&fields, head + DIRECTORY_SIZE + name_size, extra_size, source, err));
    FAIL_IF(fields.disk != 0, err, CKPT_EFORMAT, "%s: zip entry lies in another volume", source->path);
    FAIL_IF(memchr(out->name, 0, name_size), err, CKPT_EFORMAT, "%s: zip entry has a zero byte in its name",
            source->path);
    FAIL_IF(out->method == ZIP_METHOD_STORED && !(out->flags & ZIP_FLAG_ENCRYPTED) && out->size != out->size_packed,
            err, CKPT_EFORMAT, "%s: stored zip entry with two sizes", source->path);
    *at += DIRECTORY_SIZE + name_size + extra_size + comment_size;
out:
    return rc;
}

/* Where the directory begins in the file. It ends where the end records begin; when it is not written so, bytes were
 * put in front of the archive, and all places are moved by their number. */
static int directory_place(uint64_t *position, const zip_end *end, const zip_source *source, bool allow_lead,
                           ckpt_error *err)
{
    int rc = 0;
    FAIL_IF(end->disk || end->directory_disk || end->entries_here != end->entries || end->disk_count != 1, err,
            CKPT_EFORMAT, "%s: volume %" PRIu32 " of a split zip archive", source->path, end->disk + 1);
    FAIL_IF(end->directory_size > end->position, err, CKPT_EFORMAT, "%s: zip directory is larger than the file",
            source->path);
    *position = end->position - end->directory_size;
    FAIL_IF(*position < end->directory_offset || (*position > end->directory_offset && !allow_lead), err, CKPT_EFORMAT,
            "%s: zip directory does not end at the end record", source->path);
    FAIL_IF(end->zip64 && end->shift != *position - end->directory_offset, err, CKPT_EFORMAT,
            "%s: zip directory and Zip64 end record are moved differently", source->path);
    FAIL_IF(end->directory_size > ZIP_DIRECTORY_SIZE_MAX, err, CKPT_EFORMAT,
            "%s: zip directory is larger than %u bytes", source->path, ZIP_DIRECTORY_SIZE_MAX);
    FAIL_IF(end->entries > ZIP_ENTRIES_MAX, err, CKPT_EFORMAT, "%s: more than %u zip entries", source->path,
            ZIP_ENTRIES_MAX);
    FAIL_IF(end->entries > end->directory_size / DIRECTORY_SIZE, err, CKPT_EFORMAT,
            "%s: zip directory is too small for its entries", source->path);
out:
    return rc;
}

static int compare_headers(const void *a, const void *b)
{
    const zip_entry *const *left = a;
    const zip_entry *const *right = b;
    return ((*left)->header > (*right)->header) - ((*left)->header < (*right)->header);
}

/* Sweeps over the entries in the order of the file. A header has at least its fixed part, name and data, so those may
 * not reach over the next header; zip_entry_locate() checks the rest against the limit. */
static int entries_check(zip_dir *dir, uint64_t directory, const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    zip_entry **sorted = calloc(dir->count + 1, sizeof *sorted);
    FAIL_IF_NULL(sorted, err);
    for (size_t i = 0; i < dir->count; i++)
        sorted[i] = &dir->entries[i];
    qsort(sorted, dir->count, sizeof *sorted, compare_headers);
    for (size_t i = 0; i < dir->count; i++) {
        zip_entry *entry = sorted[i];
        entry->limit = i + 1 < dir->count ? sorted[i + 1]->header : directory;
        uint64_t size;
        FAIL_IF(!checked_add(&size, entry->size_packed, LOCAL_SIZE + (uint64_t)entry->name_size) ||
                    !checked_range(entry->header, size, entry->limit),
                err, CKPT_EFORMAT, "%s: zip entries overlap each other or the directory", source->path);
    }
    dir->lead_size = dir->count ? sorted[0]->header : directory;
out:
    free(sorted);
    return rc;
}

static int entries_read(zip_dir *dir, uint64_t shift, const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    size_t at = 0;
    size_t size = (size_t)dir->end.directory_size;
    for (size_t i = 0; i < dir->count; i++) {
        zip_entry *entry = &dir->entries[i];
        TRY(entry_read(entry, &at, dir->bytes, size, source, err));
        FAIL_IF(!checked_add(&entry->header, entry->header, shift), err, CKPT_EFORMAT,
                "%s: zip entry lies outside the file", source->path);
    }
    FAIL_IF(at != size, err, CKPT_EFORMAT, "%s: zip directory holds more than its end record says", source->path);
    for (size_t i = 0; i < dir->count; i++)
        dir->bytes[dir->entries[i].name + dir->entries[i].name_size - dir->bytes] = 0;
out:
    return rc;
}

int zip_dir_read(zip_dir *out, const zip_source *source, bool allow_lead, ckpt_error *err)
{
    int rc = 0;
    zip_dir dir = {0};
    uint64_t directory = 0;

    *out = (zip_dir){0};
    TRY(zip_end_read(&dir.end, source, err));
    TRY(directory_place(&directory, &dir.end, source, allow_lead, err));
    dir.count = (size_t)dir.end.entries;
    dir.entries = calloc(dir.count + 1, sizeof *dir.entries);
    FAIL_IF_NULL(dir.entries, err);
    dir.bytes = malloc((size_t)dir.end.directory_size + 1);
    FAIL_IF_NULL(dir.bytes, err);
    TRY(source_read(dir.bytes, source, directory, (size_t)dir.end.directory_size, err));
    TRY(entries_read(&dir, directory - dir.end.directory_offset, source, err));
    TRY(entries_check(&dir, directory, source, err));
    FAIL_IF(dir.lead_size && !allow_lead, err, CKPT_EFORMAT, "%s: %" PRIu64 " bytes stand before the first zip entry",
            source->path, dir.lead_size);
    *out = dir;
    dir = (zip_dir){0};
out:
    if (rc)
        out->end.missing = dir.end.missing;
    zip_dir_clear(&dir);
    return rc;
}

void zip_dir_clear(zip_dir *dir)
{
    free(dir->entries);
    free(dir->bytes);
    *dir = (zip_dir){0};
}

const zip_entry *zip_dir_find(size_t *count, const zip_dir *dir, const char *name)
{
    const zip_entry *found = NULL;
    size_t matches = 0;
    for (size_t i = 0; i < dir->count; i++) {
        if (strcmp(dir->entries[i].name, name) != 0)
            continue;
        if (!found)
            found = &dir->entries[i];
        matches++;
    }
    if (count)
        *count = matches;
    return found;
}

static int locals_agree(const zip_entry *entry, const unsigned char head[LOCAL_SIZE], const unsigned char *extra,
                        size_t extra_size, const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    uint16_t flags = load_u16(head + 6);
    uint32_t crc32 = load_u32(head + 14);
    uint64_t size_packed = load_u32(head + 18);
    uint64_t size = load_u32(head + 22);
    bool later = (flags | entry->flags) & ZIP_FLAG_DESCRIPTOR;

    FAIL_IF(load_u16(head + 8) != entry->method || ((flags ^ entry->flags) & ZIP_FLAG_ENCRYPTED), err, CKPT_EFORMAT,
            "%s: zip local header and directory disagree in the method", source->path);
    FAIL_IF(crc32 != entry->crc32 && crc32 && entry->crc32 && !later, err, CKPT_EFORMAT,
            "%s: zip local header and directory disagree in the CRC", source->path);
    zip64_fields fields = {&size, &size_packed, NULL, 0};
    TRY(zip64_resolve(&fields, extra, extra_size, source, err));
    bool same = size == entry->size || (later && size == 0); /* some writers know one of them early */
    bool same_packed = size_packed == entry->size_packed || (later && size_packed == 0);
    FAIL_IF(!same || !same_packed, err, CKPT_EFORMAT, "%s: zip local header and directory disagree in the size",
            source->path);
out:
    return rc;
}

int zip_entry_locate(uint64_t *data_offset, const zip_entry *entry, const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    unsigned char head[LOCAL_SIZE];
    unsigned char *rest = NULL;

    FAIL_IF(!source_has(source, entry->header, LOCAL_SIZE), err, CKPT_EFORMAT, "%s: zip entry lies outside the file",
            source->path);
    TRY(source_read(head, source, entry->header, LOCAL_SIZE, err));
    FAIL_IF(load_u32(head) != SIGNATURE_LOCAL, err, CKPT_EFORMAT, "%s: no zip local header where the directory points",
            source->path);
    size_t name_size = load_u16(head + 26);
    size_t extra_size = load_u16(head + 28);
    uint64_t offset = entry->header + LOCAL_SIZE + name_size + extra_size;
    FAIL_IF(!checked_range(offset, entry->size_packed, entry->limit), err, CKPT_EFORMAT,
            "%s: zip entries overlap each other or the directory", source->path);
    rest = malloc(name_size + extra_size + 1);
    FAIL_IF_NULL(rest, err);
    TRY(source_read(rest, source, entry->header + LOCAL_SIZE, name_size + extra_size, err));
    FAIL_IF(name_size != entry->name_size || memcmp(rest, entry->name, name_size) != 0, err, CKPT_EFORMAT,
            "%s: zip local header and directory disagree in the name", source->path);
    TRY(locals_agree(entry, head, rest + name_size, extra_size, source, err));
    *data_offset = offset;
out:
    free(rest);
    return rc;
}
