#include "pack_fixture.h"

#include "kept.h"

#define FRAME_BYTES (2 * CODEC_CHUNK_BYTES + 1000)

/* A pack with one frame of noise, which is kept. */
typedef struct keeping {
    fixture *f;
    unsigned char *data;
    pack_set *set;
    frame_at at;
    kept_frames kept;
} keeping;

static int setup(void **state)
{
    keeping *const k = calloc(1, sizeof *k);
    sha256 name;
    if (!k || fixture_setup((void **)&k->f))
        return -1;
    k->data = noise(FRAME_BYTES, 7);
    small_pack(&name, k->f, FRAME_BYTES, 7);
    MUST(pack_set_new(&k->set, k->f->packs, ERR));
    MUST(pack_set_get(&k->at.pack, k->set, &name, ERR));
    MUST(kept_add(&k->kept, &k->at.pack->index.frames[0].hash, k->data, FRAME_BYTES, ERR));
    kept_sort(&k->kept);
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    keeping *const k = *state;
    void *f = k->f;
    kept_clear(&k->kept);
    pack_set_free(k->set);
    free(k->data);
    free(k);
    return fixture_teardown(&f);
}

static void chunks_of_a_kept_frame_are_its_bytes_in_memory(void **state)
{
    keeping *const k = *state;
    assert_ptr_equal(kept_chunk(&k->kept, k->at, 0, CODEC_CHUNK_BYTES), k->data);
    assert_ptr_equal(kept_chunk(&k->kept, k->at, 1, 5), k->data + CODEC_CHUNK_BYTES);
    assert_ptr_equal(kept_chunk(&k->kept, k->at, 2, 1000), k->data + 2 * CODEC_CHUNK_BYTES);
}

static void a_frame_is_found_among_many(void **state)
{
    keeping *const k = *state;
    for (unsigned i = 0; i < 100; i++) {
        sha256 other;
        sha256_of(&other, &i, sizeof i);
        MUST(kept_add(&k->kept, &other, &i, sizeof i, ERR));
    }
    kept_sort(&k->kept);
    assert_ptr_equal(kept_chunk(&k->kept, k->at, 0, 1), k->data);
}

static void what_is_not_kept_is_not_found(void **state)
{
    keeping *const k = *state;
    const kept_frames none = {0};
    unsigned char byte;
    k->kept.rows[0].hash.bytes[31] ^= 1;
    assert_null(kept_chunk(&k->kept, k->at, 0, 1));
    assert_null(kept_chunk(&none, k->at, 0, 1));
    assert_null(kept_chunk(NULL, k->at, 0, 1));
    assert_false(kept_read(&byte, NULL, k->at, 0, 1));
}

static void more_than_a_chunk_has_is_not_given(void **state)
{
    keeping *const k = *state;
    assert_null(kept_chunk(&k->kept, k->at, 2, 1001));
    assert_null(kept_chunk(&k->kept, k->at, 3, 1));
    assert_null(kept_chunk(&k->kept, k->at, 0, CODEC_CHUNK_BYTES + 1));
}

static void bytes_that_changed_are_not_believed(void **state)
{
    keeping *const k = *state;
    k->data[CODEC_CHUNK_BYTES + 12345] ^= 1;
    assert_null(kept_chunk(&k->kept, k->at, 1, 5));
    assert_non_null(kept_chunk(&k->kept, k->at, 0, 5));
    assert_non_null(kept_chunk(&k->kept, k->at, 2, 5));
}

static void a_range_may_lie_in_several_chunks(void **state)
{
    keeping *const k = *state;
    unsigned char *const got = malloc(FRAME_BYTES);
    assert_true(kept_read(got, &k->kept, k->at, 100, FRAME_BYTES - 100));
    assert_memory_equal(got, k->data + 100, FRAME_BYTES - 100);
    assert_true(kept_read(got, &k->kept, k->at, CODEC_CHUNK_BYTES - 1, 2));
    assert_memory_equal(got, k->data + CODEC_CHUNK_BYTES - 1, 2);
    free(got);
}

static void a_range_with_a_chunk_that_changed_or_beyond_the_end_is_not_read(void **state)
{
    keeping *const k = *state;
    unsigned char got[16];
    assert_false(kept_read(got, &k->kept, k->at, FRAME_BYTES - 8, 9));
    k->data[CODEC_CHUNK_BYTES] ^= 1;
    assert_false(kept_read(got, &k->kept, k->at, CODEC_CHUNK_BYTES - 8, 16));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(chunks_of_a_kept_frame_are_its_bytes_in_memory),
        CASE(a_frame_is_found_among_many),
        CASE(what_is_not_kept_is_not_found),
        CASE(more_than_a_chunk_has_is_not_given),
        CASE(bytes_that_changed_are_not_believed),
        CASE(a_range_may_lie_in_several_chunks),
        CASE(a_range_with_a_chunk_that_changed_or_beyond_the_end_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
