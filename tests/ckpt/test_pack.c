#include "pack_fixture.h"

#include "alloc_fail.h"
#include "bytes.h"

static pack *open_pack(const fixture *f, const sha256 *name)
{
    pack *p = NULL;
    MUST(pack_open(&p, f->packs, name, ERR));
    return p;
}

static void assert_opens(int expected, const fixture *f, const sha256 *name)
{
    pack *p = NULL;
    ckpt_error err = {0};
    const int rc = pack_open(&p, f->packs, name, &err);
    if (rc != expected)
        fail_msg("%d instead of %d: %s", rc, expected, err.message);
    if (rc)
        assert_null(p);
    pack_close(p);
}

/* ---- What is written ---- */

static void a_pack_is_named_by_the_sha256_of_its_file(void **state)
{
    fixture *f = *state;
    sha256 name, hash;
    size_t size = 0;
    small_pack(&name, f, 3 * CODEC_CHUNK_BYTES, 1);
    unsigned char *bytes = pack_bytes(&size, f, &name);
    sha256_of(&hash, bytes, size);
    assert_memory_equal(&hash, &name, sizeof hash);
    free(bytes);
}

static void header_and_footer_stand_as_the_grammar_says(void **state)
{
    fixture *f = *state;
    sha256 name;
    size_t size = 0;
    small_pack(&name, f, 1000, 2);
    unsigned char *bytes = pack_bytes(&size, f, &name);
    assert_memory_equal(bytes, "CKPTPACK\1\0\24\0\0\0\0\0", 16);

    const unsigned char *footer = bytes + size - 48;
    const uint64_t index = load_u64(footer);
    assert_int_equal(index, 16 + 1 + 1000); /* header, mode, bytes */
    assert_int_equal(load_u64(footer + 8), size - 48 - index);
    assert_int_equal(load_u64(footer + 24), xxh64_of(bytes + index, size - 48 - index));
    assert_int_equal(load_u64(footer + 32), size);
    assert_memory_equal(footer + 40, "CKPTFOOT", 8);
    free(bytes);
}

static void the_index_of_many_tensors_is_hardly_more_than_their_hashes(void **state)
{
    fixture *f = *state;
    pack_writer w;
    sha256 name;
    char path[64];
    unsigned char *data = noise(200 * 64, 3);
    MUST(pack_writer_open(&w, f->tmp, ERR));
    for (uint32_t i = 0; i < 200; i++) {
        snprintf(path, sizeof path, "model/layer%u.%u.conv%u.weight", i / 50, i / 5 % 10, i % 5);
        put_file(&w, path, put_stored(&w, data + (size_t)i * 64, 64), data + (size_t)i * 64);
    }
    finish(&name, &w, f);

    size_t size = 0;
    unsigned char *bytes = pack_bytes(&size, f, &name);
    const uint64_t index_size = load_u64(bytes + size - 48 + 8);
    /* Not to be shrunk: 32 bytes of SHA-256 a frame, which its file repeats, 8 of XXH3 a chunk, 16 an extent. Names and
     * numbers, 200 bytes a row, have to fit 24. */
    assert_in_range(index_size, 200 * (32 + 8 + 16), 200 * (32 + 8 + 16 + 24));
    free(bytes);
    free(data);
}

static void a_discarded_pack_leaves_no_file(void **state)
{
    fixture *f = *state;
    pack_writer w;
    unsigned char *data = noise(100, 1);
    MUST(pack_writer_open(&w, f->tmp, ERR));
    put_stored(&w, data, 100);
    assert_int_equal(access(w.tmp.path, F_OK), 0);
    char path[FILE_PATH_MAX];
    memcpy(path, w.tmp.path, sizeof path);
    pack_writer_discard(&w);
    assert_int_equal(access(path, F_OK), -1);
    free(data);
}

/* ---- What is read ---- */

static void an_opened_pack_has_the_tables_and_chunks_that_were_written(void **state)
{
    fixture *f = *state;
    sha256 name;
    const size_t size = 2 * CODEC_CHUNK_BYTES + 77;
    small_pack(&name, f, size, 4);
    unsigned char *data = noise(size, 4);
    unsigned char *coded = malloc(CODEC_CHUNK_CODED_MAX);
    size_t coded_size = 0;
    pack *p = open_pack(f, &name);
    const pack_frame *frame = &p->index.frames[0];

    assert_string_equal(pack_string(&p->index, p->index.files[0].path), "data");
    assert_int_equal(pack_frame_chunks(frame), 3);
    for (uint32_t i = 0; i < 3; i++) {
        const size_t part = i < 2 ? CODEC_CHUNK_BYTES : 77;
        MUST(pack_read_chunk(&coded_size, coded, p, frame, i, ERR));
        assert_int_equal(coded_size, part + 1);
        assert_memory_equal(coded + 1, data + i * CODEC_CHUNK_BYTES, part);
    }
    assert_int_equal(pack_read_chunk(&coded_size, coded, p, frame, 3, NULL), CKPT_EBUG);
    pack_close(p);
    free(coded);
    free(data);
}

static void a_missing_pack_is_not_found(void **state)
{
    fixture *f = *state;
    assert_opens(CKPT_ENOTFOUND, f, &(sha256){{1, 2, 3}});
}

static void a_pack_cut_short_anywhere_is_damaged(void **state)
{
    fixture *f = *state;
    sha256 name;
    size_t size = 0;
    small_pack(&name, f, 100, 5);
    unsigned char *bytes = pack_bytes(&size, f, &name);
    for (size_t cut = 0; cut < size; cut++) {
        pack_overwrite(f, &name, bytes, cut);
        assert_opens(CKPT_EDATA, f, &name);
    }
    free(bytes);
}

static void bytes_behind_the_footer_are_damage(void **state)
{
    fixture *f = *state;
    sha256 name;
    size_t size = 0;
    small_pack(&name, f, 100, 5);
    unsigned char *bytes = pack_bytes(&size, f, &name);
    unsigned char *longer = calloc(1, size + 1);
    memcpy(longer, bytes, size);
    pack_overwrite(f, &name, longer, size + 1);
    assert_opens(CKPT_EDATA, f, &name);
    free(longer);
    free(bytes);
}

/* With the one exception of the version and its fields, which must say what to do: use a newer program. */
static void a_flipped_bit_outside_the_frames_never_opens(void **state)
{
    fixture *f = *state;
    sha256 name;
    size_t size = 0;
    small_pack(&name, f, 100, 6);
    unsigned char *bytes = pack_bytes(&size, f, &name);
    for (size_t at = 0; at < size; at++) {
        if (at >= 16 && at < 16 + 101)
            continue;
        bytes[at] ^= 0x10;
        pack_overwrite(f, &name, bytes, size);
        assert_opens(at >= 8 && at < 16 ? CKPT_EVERSION : CKPT_EDATA, f, &name);
        bytes[at] ^= 0x10;
    }
    free(bytes);
}

static void the_check_of_all_bytes_sees_a_flipped_bit_in_a_frame(void **state)
{
    fixture *f = *state;
    sha256 name;
    size_t size = 0;
    small_pack(&name, f, 3 * CODEC_CHUNK_BYTES, 7);
    pack *p = open_pack(f, &name);
    MUST(pack_check(p, ERR));
    pack_close(p);

    unsigned char *bytes = pack_bytes(&size, f, &name);
    bytes[2 * CODEC_CHUNK_BYTES] ^= 1;
    pack_overwrite(f, &name, bytes, size);
    p = open_pack(f, &name);
    assert_int_equal(pack_check(p, NULL), CKPT_EDATA);
    pack_close(p);
    free(bytes);
}

static void a_frame_that_reaches_into_the_index_is_damage(void **state)
{
    fixture *f = *state;
    pack_writer w;
    sha256 name;
    unsigned char *data = noise(100, 8);
    MUST(pack_writer_open(&w, f->tmp, ERR));
    put_stored(&w, data, 100);
    w.index.frames[0].offset++;
    finish(&name, &w, f);
    assert_opens(CKPT_EDATA, f, &name);
    free(data);
}

/* An index of the right check that is not what it says: only a hostile writer makes one. */
static void an_index_that_does_not_unpack_to_its_size_is_damage(void **state)
{
    fixture *f = *state;
    sha256 name;
    size_t size = 0;
    small_pack(&name, f, 100, 9);
    unsigned char *bytes = pack_bytes(&size, f, &name);
    unsigned char *index_size = bytes + size - 48 + 16;
    const uint64_t right = load_u64(index_size);
    const uint64_t wrong[] = {0, right - 1, right + 1, PACK_INDEX_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        store_u64(index_size, wrong[i]);
        pack_overwrite(f, &name, bytes, size);
        assert_opens(CKPT_EDATA, f, &name);
    }
    free(bytes);
}

static void every_failed_allocation_of_opening_is_reported(void **state)
{
    fixture *f = *state;
    if (!ALLOC_FAIL_WORKS)
        skip();
    sha256 name;
    pack *p = NULL;
    small_pack(&name, f, 100, 1);
    bool failed = true;
    for (long at = 1; failed; at++) {
        alloc_fail_arm(at);
        const int rc = pack_open(&p, f->packs, &name, NULL);
        failed = alloc_fail_disarm();
        assert_int_equal(rc, failed ? CKPT_ENOMEM : 0);
        if (failed)
            assert_null(p);
    }
    pack_close(p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_pack_is_named_by_the_sha256_of_its_file),
        TEST(header_and_footer_stand_as_the_grammar_says),
        TEST(the_index_of_many_tensors_is_hardly_more_than_their_hashes),
        TEST(a_discarded_pack_leaves_no_file),
        TEST(an_opened_pack_has_the_tables_and_chunks_that_were_written),
        TEST(a_missing_pack_is_not_found),
        TEST(a_pack_cut_short_anywhere_is_damaged),
        TEST(bytes_behind_the_footer_are_damage),
        TEST(a_flipped_bit_outside_the_frames_never_opens),
        TEST(the_check_of_all_bytes_sees_a_flipped_bit_in_a_frame),
        TEST(a_frame_that_reaches_into_the_index_is_damage),
        TEST(an_index_that_does_not_unpack_to_its_size_is_damage),
        TEST(every_failed_allocation_of_opening_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
