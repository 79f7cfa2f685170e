#include "save_internal.h"

#include "hash.h"

void save_crc_start(saver *s)
{
    s->crc_next = s->crc_wrong = 0;
    s->crc_first = NULL;
}

void save_crc_feed(saver *s, uint64_t offset, const void *data, size_t size)
{
    const uint64_t end = offset + size;

    if (s->above.below)
        return; /* other bytes than the file's */
    for (; s->crc_next < s->file.check_count; s->crc_next++) {
        const tensor_check *const check = &s->file.checks[s->crc_next];
        const uint64_t check_end = check->offset + check->size;
        const uint64_t from = check->offset > offset ? check->offset : offset;
        const uint64_t to = check_end < end ? check_end : end;
        if (from >= to)
            return;
        s->crc = crc32_of(from == check->offset ? 0 : s->crc, (const unsigned char *)data + (from - offset),
                          (size_t)(to - from));
        if (to < check_end)
            return;
        if (s->crc == check->crc32)
            continue;
        s->crc_first = s->crc_first ? s->crc_first : check->name;
        s->crc_wrong++;
    }
}

void save_crc_tell(const saver *s)
{
    if (s->crc_wrong == 1)
        store_warn(s->store, "%s looks damaged (%s does not match its CRC); saved as it is", s->path, s->crc_first);
    else if (s->crc_wrong > 1)
        store_warn(s->store, "%s looks damaged (%zu members, %s first, do not match their CRC); saved as it is",
                   s->path, s->crc_wrong, s->crc_first);
}
