/* Segments of the cache: what is opened can be searched and merged, and the merged one is sorted and finds what it
 * holds. Each input is tried as it stands and with its checks put right, since no fuzzer guesses those. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include "segment.h"

#include "bytes.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEADER_SIZE 40u

static void check_sorted(segment *s)
{
    segment_entry before = {0}, entry;

    for (uint32_t i = 0; i < s->entry_count; i++, before = entry) {
        segment_entry_get(&entry, s, i);
        CHECK(entry.pack < s->pack_count);
        const uint32_t first = segment_place(s, entry.hash, entry.size);
        CHECK(first <= i);
        segment_entry found;
        segment_entry_get(&found, s, first);
        CHECK(found.hash.high == entry.hash.high && found.hash.low == entry.hash.low && found.size == entry.size);
        CHECK(before.hash.high <= entry.hash.high);
    }
}

/* Takes every second pack over into a new segment. */
static void check_merge(segment *s)
{
    segment_builder b = {0};
    segment merged;
    bool *const wanted = malloc(s->pack_count + 1u);
    uint32_t packs = 0;

    CHECK(wanted);
    for (uint32_t i = 0; i < s->pack_count; i++) {
        wanted[i] = i % 2 == 0;
        packs += wanted[i];
    }
    if (segment_add_segment(&b, s, wanted, NULL) == 0) {
        CHECK(b.pack_count == packs && b.entry_count <= s->entry_count);
        CHECK(segment_build(&merged, &b, NULL) == 0);
        check_sorted(&merged);
        segment_close(&merged);
    } else
        CHECK(b.pack_count == 0 && b.entry_count == 0);
    segment_builder_clear(&b);
    free(wanted);
}

static void try_file(const uint8_t *data, size_t size)
{
    segment s;
    char name[16];
    const int fd = memfd_create("segment", MFD_CLOEXEC);

    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(name, sizeof name, "%d", fd);
    if (segment_open(&s, "/proc/self/fd", name, NULL) == 0) {
        sha256 name_of_pack;
        for (uint32_t i = 0; i < s.pack_count; i++)
            segment_pack(&name_of_pack, &s, i);
        CHECK(segment_place(&s, (hash128){0}, 0) <= s.entry_count);
        check_merge(&s);
    } else
        CHECK(!s.bytes);
    segment_close(&s);
    close(fd);
}

/* The two checks of segment.h, as far as the counts leave room for them. */
static void checks_put_right(uint8_t *data, size_t size)
{
    const uint64_t head = HEADER_SIZE + (uint64_t)load_u32(data + 12) * SHA256_SIZE;

    if (head > size)
        return;
    store_u64(data + 24, xxh64_of(data + head, size - (size_t)head));
    uint8_t *const covered = malloc((size_t)head);
    CHECK(covered);
    memcpy(covered, data, 32);
    memcpy(covered + 32, data + HEADER_SIZE, (size_t)head - HEADER_SIZE);
    store_u64(data + 32, xxh64_of(covered, (size_t)head - 8));
    free(covered);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_file(data, size);
    if (size < HEADER_SIZE)
        return 0;
    uint8_t *const copy = malloc(size);
    CHECK(copy);
    memcpy(copy, data, size);
    checks_put_right(copy, size);
    try_file(copy, size);
    free(copy);
    return 0;
}
