#include "zip_member.h"

#include "fail.h"

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
