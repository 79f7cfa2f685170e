#include "segment.h"

#include "pack_fixture.h"

#include "bytes.h"

static segment_entry entry_at(segment *s, uint32_t row)
{
    segment_entry entry;
    assert_true(segment_entry_get(&entry, s, row));
    return entry;
}

/* An index with an extent of 4096 bytes for each hash. */
static void add_pack(segment_builder *b, unsigned char number, const uint64_t *hashes, size_t count)
{
    pack_index index = {0};
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const pack_extent extent = {.size = 4096, .frame = (uint32_t)i, .frame_offset = 10 * i, .hash = {hashes[i], 1}};
        MUST(pack_index_add_extent(&at, &index, &extent, ERR));
    }
    MUST(segment_add_pack(b, &(sha256){{number}}, &index, ERR));
    pack_index_clear(&index);
}

static segment build(segment_builder *b)
{
    segment s;
    MUST(segment_build(&s, b, ERR));
    segment_builder_clear(b);
    return s;
}

static segment sample(void)
{
    segment_builder b = {0};
    add_pack(&b, 1, (const uint64_t[]){50, 10, 30}, 3);
    add_pack(&b, 2, (const uint64_t[]){40, 10}, 2);
    return build(&b);
}

static void entries_are_sorted_by_hash_and_found(void **state)
{
    (void)state;
    static const uint64_t SORTED[] = {10, 10, 30, 40, 50};
    segment s = sample();
    assert_int_equal(s.entry_count, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(entry_at(&s, i).hash.low, SORTED[i]);
    assert_int_equal(segment_place(&s, (hash128){10, 1}, 4096), 0);
    assert_int_equal(segment_place(&s, (hash128){10, 1}, 4097), 2);
    assert_int_equal(segment_place(&s, (hash128){35, 1}, 4096), 3);
    assert_int_equal(segment_place(&s, (hash128){0, 0}, 4096), 0);
    assert_int_equal(segment_place(&s, (hash128){0, 2}, 4096), 5);
    segment_close(&s);
}

static void an_entry_tells_the_place_of_its_extent(void **state)
{
    (void)state;
    segment s = sample();
    const segment_entry entry = entry_at(&s, 3); /* 40, the first of pack 2 */
    sha256 pack_name;
    segment_pack(&pack_name, &s, entry.pack);
    assert_int_equal(pack_name.bytes[0], 2);
    assert_int_equal(entry.frame, 0);
    assert_int_equal(entry_at(&s, 2).frame_offset, 20); /* 30, the third of pack 1 */
    segment_close(&s);
}

static void small_extents_and_those_of_other_packs_are_left_out(void **state)
{
    (void)state;
    segment_builder b = {0};
    pack_index index = {0};
    uint32_t at = 0;
    const pack_extent extents[] = {{.size = LOOKUP_BYTES_MIN - 1, .hash = {1, 1}},
                                   {.size = LOOKUP_BYTES_MIN, .hash = {2, 2}},
                                   {.size = 1 << 20, .pack = 1, .hash = {3, 3}}};
    for (int i = 0; i < 3; i++)
        MUST(pack_index_add_extent(&at, &index, &extents[i], ERR));
    MUST(segment_add_pack(&b, &(sha256){{1}}, &index, ERR));
    segment s = build(&b);
    assert_int_equal(s.entry_count, 1);
    assert_int_equal(entry_at(&s, 0).hash.low, 2);
    segment_close(&s);
    pack_index_clear(&index);
}

static void a_written_segment_opens_to_the_same(void **state)
{
    fixture *f = *state;
    segment s = sample(), again;
    MUST(segment_write(&s, f->cache, f->tmp, ERR));
    MUST(segment_open(&again, f->cache, s.name, ERR));
    assert_int_equal(again.size, s.size);
    assert_memory_equal(again.bytes, s.bytes, s.size);
    assert_int_equal(again.entry_count, 5);
    assert_int_equal(again.pack_count, 2);
    segment_close(&again);
    segment_close(&s);
}

static void the_same_packs_make_the_same_file(void **state)
{
    (void)state;
    segment a = sample(), b = sample();
    assert_string_equal(a.name, b.name);
    segment_close(&a);
    segment_close(&b);
}

static void merging_takes_only_the_wanted_packs(void **state)
{
    (void)state;
    segment s = sample();
    segment_builder b = {0};
    add_pack(&b, 3, (const uint64_t[]){20}, 1);
    MUST(segment_add_segment(&b, &s, (const bool[]){false, true}, ERR));
    segment merged = build(&b);
    assert_int_equal(merged.pack_count, 2);
    assert_int_equal(merged.entry_count, 3);
    const segment_entry last = entry_at(&merged, 2);
    sha256 pack_name;
    segment_pack(&pack_name, &merged, last.pack);
    assert_int_equal(last.hash.low, 40);
    assert_int_equal(pack_name.bytes[0], 2);
    segment_close(&merged);
    segment_close(&s);
}

static void write_bytes(const fixture *f, const char *name, const unsigned char *bytes, size_t size)
{
    char path[FILE_PATH_MAX];
    MUST(path_join(path, f->cache, name, ERR));
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

static void a_damaged_head_does_not_open(void **state)
{
    fixture *f = *state;
    segment s = sample(), again;
    unsigned char *bytes = malloc(s.size);
    memcpy(bytes, s.bytes, s.size);
    for (size_t at = 0; at < 40 + 2 * 32; at++) {
        bytes[at] ^= 4;
        write_bytes(f, "x.segment", bytes, s.size);
        assert_int_equal(segment_open(&again, f->cache, "x.segment", NULL), CKPT_EDATA);
        bytes[at] ^= 4;
    }
    for (size_t cut = 0; cut < s.size; cut++) {
        write_bytes(f, "x.segment", bytes, cut);
        assert_int_equal(segment_open(&again, f->cache, "x.segment", NULL), CKPT_EDATA);
    }
    free(bytes);
    segment_close(&s);
}

static void damaged_entries_are_not_merged(void **state)
{
    fixture *f = *state;
    segment s = sample(), again;
    segment_builder b = {0};
    unsigned char *bytes = malloc(s.size);
    memcpy(bytes, s.bytes, s.size);
    bytes[s.size - 1] ^= 1;
    write_bytes(f, "x.segment", bytes, s.size);
    MUST(segment_open(&again, f->cache, "x.segment", ERR));
    assert_int_equal(segment_add_segment(&b, &again, (const bool[]){true, true}, NULL), CKPT_EDATA);
    assert_int_equal(b.pack_count, 0);
    segment_builder_clear(&b);
    segment_close(&again);
    segment_close(&s);
    free(bytes);
}

/* Right checks over wrong numbers: only a hostile writer makes one. */
static void an_entry_of_no_pack_is_not_merged(void **state)
{
    fixture *f = *state;
    segment s = sample(), again;
    segment_builder b = {0};
    unsigned char *bytes = malloc(s.size), head[32 + 64];
    memcpy(bytes, s.bytes, s.size);
    store_u32(bytes + s.size - 8, 2);
    store_u64(bytes + 24, xxh64_of(bytes + 40 + 64, 5 * 40));
    memcpy(head, bytes, 32);
    memcpy(head + 32, bytes + 40, 64);
    store_u64(bytes + 32, xxh64_of(head, sizeof head));
    write_bytes(f, "x.segment", bytes, s.size);
    MUST(segment_open(&again, f->cache, "x.segment", ERR));
    assert_int_equal(segment_add_segment(&b, &again, (const bool[]){true, true}, NULL), CKPT_EDATA);
    assert_int_equal(b.entry_count, 0);
    assert_int_equal(b.pack_count, 0);
    segment_builder_clear(&b);
    segment_close(&again);
    segment_close(&s);
    free(bytes);
}

/* ---- Segments too large to be read as a whole ---- */

#define LARGE_ROWS 5000u

/* One pack with an extent of 4096 bytes for each hash; `spread` is by how much their high halves differ. */
static segment large(const fixture *f, uint64_t spread)
{
    segment_builder b = {0};
    pack_index index = {0};
    uint32_t at = 0;
    segment again;
    for (uint64_t i = 0; i < LARGE_ROWS; i++) {
        const pack_extent extent = {.size = 4096, .frame = (uint32_t)i, .hash = {.high = i * spread, .low = 2 * i}};
        MUST(pack_index_add_extent(&at, &index, &extent, ERR));
    }
    MUST(segment_add_pack(&b, &(sha256){{1}}, &index, ERR));
    pack_index_clear(&index);
    segment s = build(&b);
    assert_true(s.size > SEGMENT_WHOLE_BYTES_MAX);
    MUST(segment_write(&s, f->cache, f->tmp, ERR));
    MUST(segment_open(&again, f->cache, s.name, ERR));
    segment_close(&s);
    return again;
}

static void every_entry_of_a_large_segment_is_found(void **state)
{
    static const uint64_t SPREADS[] = {UINT64_MAX / LARGE_ROWS, 1, 0, UINT64_MAX / LARGE_ROWS / 3};
    for (size_t n = 0; n < sizeof SPREADS / sizeof SPREADS[0]; n++) {
        segment s = large(*state, SPREADS[n]);
        for (uint32_t i = 0; i < LARGE_ROWS; i++) {
            const uint32_t row = i * 1237u % LARGE_ROWS; /* all over the file */
            const hash128 hash = {.high = row * SPREADS[n], .low = 2 * row};
            assert_int_equal(segment_place(&s, hash, 4096), row);
            assert_int_equal(segment_place(&s, (hash128){.high = hash.high, .low = hash.low + 1}, 4096), row + 1);
            assert_int_equal(entry_at(&s, row).frame, row);
        }
        segment_close(&s);
    }
}

static void a_large_segment_is_merged_whole(void **state)
{
    segment s = large(*state, 1);
    segment_builder b = {0};
    entry_at(&s, LARGE_ROWS - 1);
    MUST(segment_add_segment(&b, &s, (const bool[]){true}, ERR));
    assert_int_equal(b.entry_count, LARGE_ROWS);
    segment_builder_clear(&b);
    segment_close(&s);
}

static void a_large_segment_that_is_cut_short_meanwhile_has_nothing_to_offer(void **state)
{
    fixture *f = *state;
    segment s = large(f, 1);
    segment_builder b = {0};
    segment_entry entry;
    char path[FILE_PATH_MAX];
    MUST(path_join(path, f->cache, s.name, ERR));
    assert_int_equal(truncate(path, 72), 0);
    assert_int_equal(segment_place(&s, (hash128){.high = 7, .low = 14}, 4096), LARGE_ROWS);
    assert_false(segment_entry_get(&entry, &s, LARGE_ROWS - 1));
    assert_int_equal(segment_add_segment(&b, &s, (const bool[]){true}, NULL), CKPT_EDATA);
    segment_builder_clear(&b);
    segment_close(&s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_sorted_by_hash_and_found),
        cmocka_unit_test(an_entry_tells_the_place_of_its_extent),
        cmocka_unit_test(small_extents_and_those_of_other_packs_are_left_out),
        TEST(a_written_segment_opens_to_the_same),
        cmocka_unit_test(the_same_packs_make_the_same_file),
        cmocka_unit_test(merging_takes_only_the_wanted_packs),
        TEST(a_damaged_head_does_not_open),
        TEST(damaged_entries_are_not_merged),
        TEST(an_entry_of_no_pack_is_not_merged),
        TEST(every_entry_of_a_large_segment_is_found),
        TEST(a_large_segment_is_merged_whole),
        TEST(a_large_segment_that_is_cut_short_meanwhile_has_nothing_to_offer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
