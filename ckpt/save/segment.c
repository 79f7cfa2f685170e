#include "segment.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "bytes.h"
#include "fail.h"

#define SEGMENT_MAGIC   "CKPTSEGM"
#define SEGMENT_VERSION 1u
#define HEADER_SIZE     40u
#define ENTRY_SIZE      40u

static uint64_t head_size(uint32_t pack_count)
{
    return HEADER_SIZE + (uint64_t)pack_count * SHA256_SIZE;
}

static uint64_t segment_size(uint32_t pack_count, uint32_t entry_count)
{
    return head_size(pack_count) + (uint64_t)entry_count * ENTRY_SIZE;
}

static unsigned char *window_of(const segment *s)
{
    return s->bytes + head_size(s->pack_count);
}

static void entry_load(segment_entry *out, const unsigned char *from)
{
    out->hash = (hash128){.high = load_u64(from), .low = load_u64(from + 8)};
    out->size = load_u64(from + 16);
    out->frame_offset = load_u64(from + 24);
    out->pack = load_u32(from + 32);
    out->frame = load_u32(from + 36);
}

/* The check of a head: its own field, which is the last of the header, is left out. */
static int head_check(uint64_t *xxh64, const unsigned char *bytes, uint32_t pack_count, ckpt_error *err)
{
    int rc = 0;
    const size_t size = (size_t)head_size(pack_count) - 8;
    unsigned char *head = malloc(size);

    FAIL_IF_NULL(head, err);
    memcpy(head, bytes, HEADER_SIZE - 8);
    memcpy(head + HEADER_SIZE - 8, bytes + HEADER_SIZE, size - (HEADER_SIZE - 8));
    *xxh64 = xxh64_of(head, size);
out:
    free(head);
    return rc;
}

/* ---- Building ---- */

static int builder_pack(uint32_t *number, segment_builder *b, const sha256 *name, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(b->pack_count >= SEGMENT_PACKS_MAX, err, CKPT_EUSAGE, "a segment of the cache is full");
    sha256 *grown = array_room(b->packs, &b->pack_capacity, b->pack_count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    b->packs = grown;
    b->packs[b->pack_count] = *name;
    *number = b->pack_count++;
out:
    return rc;
}

static int builder_entry(segment_builder *b, const segment_entry *entry, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(b->entry_count >= SEGMENT_ENTRIES_MAX, err, CKPT_EUSAGE, "a segment of the cache is full");
    segment_entry *grown = array_room(b->entries, &b->entry_capacity, b->entry_count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    b->entries = grown;
    b->entries[b->entry_count++] = *entry;
out:
    return rc;
}

int segment_add_pack(segment_builder *b, const sha256 *name, const pack_index *index, ckpt_error *err)
{
    int rc = 0;
    uint32_t number = 0;

    TRY(builder_pack(&number, b, name, err));
    for (uint32_t i = 0; i < index->extent_count; i++) {
        const pack_extent *extent = &index->extents[i];
        if (extent->pack != 0 || extent->size < LOOKUP_BYTES_MIN)
            continue;
        TRY(builder_entry(b, &(segment_entry){extent->hash, extent->size, extent->frame_offset, number, extent->frame},
                          err));
    }
out:
    return rc;
}

/* All entries: those in memory, or *read, which holds what was read of them and is to be freed. */
static int entries_all(const unsigned char **entries, unsigned char **read, const segment *s, ckpt_error *err)
{
    int rc = 0;
    const size_t size = (size_t)s->entry_count * ENTRY_SIZE;

    *entries = window_of(s);
    if (s->in_file) {
        *entries = *read = malloc(size);
        FAIL_IF_NULL(*read, err);
        TRY(file_read_at(*read, s->fd, head_size(s->pack_count), size, s->name, err));
    }
    FAIL_IF(xxh64_of(*entries, size) != load_u64(s->bytes + 24), err, CKPT_EDATA,
            "entries of cache segment %s fail their check", s->name);
out:
    return rc;
}

int segment_add_segment(segment_builder *b, const segment *s, const bool *wanted, ckpt_error *err)
{
    int rc = 0;
    segment_entry entry;
    const unsigned char *entries = NULL;
    unsigned char *read = NULL;
    const uint32_t old_packs = b->pack_count, old_entries = b->entry_count;
    uint32_t *numbers = malloc((s->pack_count + (size_t)1) * sizeof *numbers); /* of its packs in b */

    FAIL_IF_NULL(numbers, err);
    TRY(entries_all(&entries, &read, s, err));
    for (uint32_t i = 0; i < s->pack_count; i++)
        if (wanted[i]) {
            sha256 name;
            segment_pack(&name, s, i);
            TRY(builder_pack(&numbers[i], b, &name, err));
        }
    for (uint32_t i = 0; i < s->entry_count; i++) {
        entry_load(&entry, entries + (size_t)i * ENTRY_SIZE);
        FAIL_IF(entry.pack >= s->pack_count, err, CKPT_EDATA, "cache segment %s names no pack for an entry", s->name);
        if (!wanted[entry.pack])
            continue;
        entry.pack = numbers[entry.pack];
        TRY(builder_entry(b, &entry, err));
    }
out:
    if (rc) { /* all of it or nothing: a pack without all its entries would count as covered */
        b->pack_count = old_packs;
        b->entry_count = old_entries;
    }
    free(read);
    free(numbers);
    return rc;
}

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int key_compare(const segment_entry *x, hash128 hash, uint64_t size)
{
    int result = order(x->hash.high, hash.high);
    result = result ? result : order(x->hash.low, hash.low);
    return result ? result : order(x->size, size);
}

/* Ends with the place, so that the same entries always make the same file. */
static int entry_compare(const void *a, const void *b)
{
    const segment_entry *x = a, *y = b;
    int result = key_compare(x, y->hash, y->size);
    result = result ? result : order(x->pack, y->pack);
    result = result ? result : order(x->frame, y->frame);
    return result ? result : order(x->frame_offset, y->frame_offset);
}

static void entry_store(unsigned char *to, const segment_entry *entry)
{
    store_u64(to, entry->hash.high);
    store_u64(to + 8, entry->hash.low);
    store_u64(to + 16, entry->size);
    store_u64(to + 24, entry->frame_offset);
    store_u32(to + 32, entry->pack);
    store_u32(to + 36, entry->frame);
}

int segment_build(segment *out, segment_builder *b, ckpt_error *err)
{
    int rc = 0;
    const uint64_t size = segment_size(b->pack_count, b->entry_count);
    unsigned char *bytes = malloc((size_t)size);
    uint64_t check = 0;

    *out = (segment){0};
    FAIL_IF_NULL(bytes, err);
    if (b->entry_count)
        qsort(b->entries, b->entry_count, sizeof *b->entries, entry_compare);
    unsigned char *at = bytes + HEADER_SIZE;
    for (uint32_t i = 0; i < b->pack_count; i++, at += SHA256_SIZE)
        memcpy(at, b->packs[i].bytes, SHA256_SIZE);
    const unsigned char *entries = at;
    for (uint32_t i = 0; i < b->entry_count; i++, at += ENTRY_SIZE)
        entry_store(at, &b->entries[i]);
    assert(at == bytes + size);

    memcpy(bytes, SEGMENT_MAGIC, 8);
    store_u32(bytes + 8, SEGMENT_VERSION);
    store_u32(bytes + 12, b->pack_count);
    store_u64(bytes + 16, b->entry_count);
    store_u64(bytes + 24, xxh64_of(entries, (size_t)b->entry_count * ENTRY_SIZE));
    TRY(head_check(&check, bytes, b->pack_count, err));
    store_u64(bytes + 32, check);

    *out = (segment){.bytes = bytes,
                     .window_count = b->entry_count,
                     .size = size,
                     .pack_count = b->pack_count,
                     .entry_count = b->entry_count};
    const hash128 name = xxh128_of(bytes, (size_t)size);
    snprintf(out->name, sizeof out->name, "%016" PRIx64 "%016" PRIx64 SEGMENT_SUFFIX, name.high, name.low);
    bytes = NULL;
out:
    free(bytes);
    return rc;
}

void segment_builder_clear(segment_builder *b)
{
    free(b->packs);
    free(b->entries);
    *b = (segment_builder){0};
}

/* ---- Files ---- */

int segment_write(const segment *s, const char *cache_dir, const char *tmp_dir, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    assert(!s->in_file); /* it was built, not opened */
    TRY(dir_make(cache_dir, err));
    TRY(path_join(path, cache_dir, s->name, err));
    TRY(file_replace(path, tmp_dir, s->bytes, (size_t)s->size, err));
out:
    return rc;
}

/* What the header says, which may be anything but does not contradict the size of the file. */
static int header_read(segment *s, const char *path, ckpt_error *err)
{
    int rc = 0;
    unsigned char header[HEADER_SIZE];

    FAIL_IF(s->size < HEADER_SIZE, err, CKPT_EDATA, "it has %" PRIu64 " bytes", s->size);
    TRY(file_read_at(header, s->fd, 0, sizeof header, path, err));
    FAIL_IF(memcmp(header, SEGMENT_MAGIC, 8) != 0 || load_u32(header + 8) != SEGMENT_VERSION, err, CKPT_EDATA,
            "it is no cache segment of this version");
    const uint32_t pack_count = load_u32(header + 12);
    const uint64_t entry_count = load_u64(header + 16);
    FAIL_IF(pack_count > SEGMENT_PACKS_MAX || entry_count > SEGMENT_ENTRIES_MAX ||
                segment_size(pack_count, (uint32_t)entry_count) != s->size,
            err, CKPT_EDATA, "its size contradicts its counts");
    s->pack_count = pack_count;
    s->entry_count = (uint32_t)entry_count;
out:
    return rc;
}

/* Reads the head, and all entries of a small segment. */
static int head_read(segment *s, const char *path, ckpt_error *err)
{
    int rc = 0;
    uint64_t check = 0;
    const bool whole = s->size <= SEGMENT_WHOLE_BYTES_MAX;
    const size_t head = (size_t)head_size(s->pack_count);
    const size_t room = whole ? (size_t)s->size : head + SEGMENT_WINDOW_ROWS * ENTRY_SIZE;

    s->bytes = malloc(room);
    FAIL_IF_NULL(s->bytes, err);
    TRY(file_read_at(s->bytes, s->fd, 0, whole ? room : head, path, err));
    TRY(head_check(&check, s->bytes, s->pack_count, err));
    FAIL_IF(check != load_u64(s->bytes + 32), err, CKPT_EDATA, "its head fails its check");
    if (whole) {
        s->window_count = s->entry_count;
        s->in_file = false;
        file_close(&s->fd);
    }
out:
    return rc;
}

int segment_open(segment *out, const char *cache_dir, const char *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    *out = (segment){0};
    FAIL_IF(strlen(name) >= sizeof out->name, err, CKPT_EDATA, "%s is no name of a cache segment", name);
    memcpy(out->name, name, strlen(name) + 1);
    TRY(path_join(path, cache_dir, name, err));
    TRY(file_open(&out->fd, &out->size, path, err));
    out->in_file = true;
    TRY(header_read(out, path, err));
    TRY(head_read(out, path, err));
out:
    if (rc) {
        error_prefix(err, "cache segment %s", name);
        segment_close(out);
    }
    return rc;
}

void segment_close(segment *s)
{
    if (s->in_file)
        file_close(&s->fd);
    free(s->bytes);
    *s = (segment){0};
}

/* ---- Looking ---- */

void segment_pack(sha256 *name, const segment *s, uint32_t row)
{
    assert(row < s->pack_count);
    memcpy(name->bytes, s->bytes + head_size(row), SHA256_SIZE);
}

/* Makes the entries around `row` those in memory. */
static bool window_move(segment *s, uint32_t row)
{
    const uint32_t count = s->entry_count < SEGMENT_WINDOW_ROWS ? s->entry_count : SEGMENT_WINDOW_ROWS;
    uint32_t first = row > count / 2 ? row - count / 2 : 0;

    if (first > s->entry_count - count)
        first = s->entry_count - count;
    s->window_count = 0;
    if (!s->in_file || file_read_at(window_of(s), s->fd, head_size(s->pack_count) + (uint64_t)first * ENTRY_SIZE,
                                    count * ENTRY_SIZE, s->name, NULL))
        return false;
    s->window_first = first;
    s->window_count = count;
    return true;
}

bool segment_entry_get(segment_entry *out, segment *s, uint32_t row)
{
    assert(row < s->entry_count);
    if ((row < s->window_first || row - s->window_first >= s->window_count) && !window_move(s, row))
        return false;
    entry_load(out, window_of(s) + (size_t)(row - s->window_first) * ENTRY_SIZE);
    return true;
}

/* Hashes are spread evenly, so an entry stands near its share of the rows. From there the search goes on in one
 * direction by steps that double, and halves what lies between the last two. */
uint32_t segment_place(segment *s, hash128 hash, uint64_t size)
{
    uint32_t low = 0, high = s->entry_count, step = SEGMENT_WINDOW_ROWS / 2;
    uint32_t row = (uint32_t)((hash.high >> 32) * s->entry_count >> 32);
    bool was_before = false, was_behind = false;
    segment_entry entry;

    while (low < high) {
        if (!segment_entry_get(&entry, s, row))
            return s->entry_count;
        if (key_compare(&entry, hash, size) < 0) {
            low = row + 1;
            was_before = true;
        } else {
            high = row;
            was_behind = true;
        }
        const uint32_t half = (high - low) / 2;
        if ((was_before && was_behind) || step >= half) {
            row = low + half;
        } else {
            row = was_before ? low + step : high - step;
            step *= 2;
        }
    }
    return low;
}
