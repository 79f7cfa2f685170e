/* Zip directories: every entry that is located lies inside the file, and no two of them overlap. */
#include "fuzz.h"

#include "zipdir.h"

#include <stdlib.h>
#include <string.h>

typedef struct memory {
    const uint8_t *data;
    size_t size;
} memory;

static int memory_read(void *payload, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    const memory *m = payload;
    (void)err;
    CHECK(offset <= m->size && size <= m->size - offset);
    memcpy(dst, m->data + offset, size);
    return 0;
}

static void check_dir(const zip_source *source, bool allow_lead)
{
    zip_dir dir;
    if (zip_dir_read(&dir, source, allow_lead, NULL))
        return;
    uint64_t total = 0;
    for (size_t i = 0; i < dir.count; i++) {
        const zip_entry *entry = &dir.entries[i];
        CHECK(strlen(entry->name) == entry->name_size);
        CHECK(zip_dir_find(NULL, &dir, entry->name));
        uint64_t offset = 0;
        if (zip_entry_locate(&offset, entry, source, NULL))
            continue;
        CHECK(offset > entry->header && offset <= entry->limit && entry->size_packed <= entry->limit - offset);
        total += entry->size_packed; /* disjoint pieces of a file cannot be larger than the file */
    }
    CHECK(total <= source->size);
    zip_dir_clear(&dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memory m = {data, size};
    zip_source source = {size, memory_read, &m, "input"};
    zip_end end;
    (void)!zip_end_read(&end, &source, NULL);
    check_dir(&source, false);
    check_dir(&source, true);
    return 0;
}
