#include "zip_member.h"

#include "fail.h"
#include "hash.h"
#include "inflate.h"

#include <stdlib.h>
#include <string.h>

bool zip_member_probe(const unsigned char *head, size_t head_size, uint64_t size)
{
    (void)size;
    return head_size >= 4 && memcmp(head, "PK\3\4", 4) == 0;
}

static int source_read(void *payload, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    const byte_source *source = payload;
    return source->read(source, dst, offset, size, err);
}

/* The same bytes for the reader of directories. */
static zip_source zip_member_source(const byte_source *source)
{
    /* The payload is only handed back to source_read, which takes it as const again. */
    return (zip_source){
        .size = source->size, .read = source_read, .payload = (void *)(uintptr_t)source, .path = source->path};
}

int zip_member_directory(zip_dir *out, tensor_file *file, const byte_source *source, ckpt_error *err)
{
    const zip_source zip = zip_member_source(source);
    const int rc = zip_dir_read(out, &zip, false, err);

    file->cut_off = rc == CKPT_EFORMAT && out->end.missing;
    return rc;
}

int zip_member_locate(uint64_t *offset, const zip_entry *entry, const byte_source *source, ckpt_error *err)
{
    const zip_source zip = zip_member_source(source);
    if (entry->flags & ZIP_FLAG_ENCRYPTED)
        return error_set(err, CKPT_EFORMAT, "member %.200s is encrypted", entry->name);
    if (entry->method != ZIP_METHOD_STORED)
        return error_set(err, CKPT_EFORMAT, "member %.200s is compressed", entry->name);
    return zip_entry_locate(offset, entry, &zip, err);
}

static int check_compare(const void *a, const void *b)
{
    const tensor_check *const x = a, *const y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

int zip_member_checks(tensor_file *file, const zip_dir *dir, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    uint64_t offset;

    for (size_t i = 0; i < dir->count; i++) {
        const zip_entry *const entry = &dir->entries[i];
        if (!entry->crc32 || !entry->size)
            continue;
        rc = zip_member_locate(&offset, entry, source, err);
        if (rc == CKPT_EFORMAT)
            rc = error_clear(err); /* packed, or not where it should be: not read by us */
        else if (rc == 0)
            rc = tensor_file_add_check(file, entry->name, offset, entry->size, entry->crc32, err);
        TRY(rc);
    }
    if (file->check_count)
        qsort(file->checks, file->check_count, sizeof *file->checks, check_compare);
out:
    return rc;
}

int zip_member_unpack(unsigned char **data, const zip_entry *entry, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    const zip_source zip = zip_member_source(source);
    unsigned char *packed = NULL, *unpacked = NULL;
    uint64_t offset;

    FAIL_IF(entry->flags & ZIP_FLAG_ENCRYPTED, err, CKPT_EFORMAT, "member %.200s is encrypted", entry->name);
    FAIL_IF(entry->method != ZIP_METHOD_DEFLATE, err, CKPT_EFORMAT, "member %.200s is packed by an unknown method",
            entry->name);
    FAIL_IF(entry->size > ZIP_MEMBER_UNPACKED_MAX, err, CKPT_EFORMAT, "member %.200s is larger than %u MiB",
            entry->name, (unsigned)(ZIP_MEMBER_UNPACKED_MAX >> 20));
    FAIL_IF(entry->size_packed < entry->size / INFLATE_RATIO_MAX, err, CKPT_EFORMAT,
            "member %.200s cannot be so much smaller than its data", entry->name);
    TRY(zip_entry_locate(&offset, entry, &zip, err));
    packed = malloc((size_t)entry->size_packed + 1);
    unpacked = malloc((size_t)entry->size + 1);
    FAIL_IF_NULL(packed && unpacked, err);
    TRY(source->read(source, packed, offset, (size_t)entry->size_packed, err));
    rc = inflate_exactly(unpacked, (size_t)entry->size, packed, (size_t)entry->size_packed, err);
    if (rc == 0 && entry->crc32 && crc32_of(0, unpacked, (size_t)entry->size) != entry->crc32)
        rc = error_set(err, CKPT_EDATA, "does not match its CRC");
    if (rc == CKPT_EDATA) {
        error_prefix(err, "member %.200s", entry->name);
        rc = error_recode(err, CKPT_EFORMAT);
    }
    TRY(rc);
    *data = unpacked;
    unpacked = NULL;
out:
    free(packed);
    free(unpacked);
    return rc;
}
