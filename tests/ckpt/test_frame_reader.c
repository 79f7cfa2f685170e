#include "pack_fixture.h"

/* A chain of frames over packs: pack k has one frame, coded against that of pack k - 1. */
#define CHAIN_LENGTH (PACK_DEPTH_READ_MAX + 2)

typedef struct reading {
    pack_set *set;
    frame_reader *reader;
} reading;

static reading open_reading(const fixture *f)
{
    reading r = {0};
    MUST(pack_set_new(&r.set, f->packs, ERR));
    MUST(frame_reader_new(&r.reader, r.set, ERR));
    return r;
}

static void close_reading(reading *r)
{
    frame_reader_free(r->reader);
    pack_set_free(r->set);
}

static frame_at frame_of(const reading *r, const sha256 *name, uint32_t frame)
{
    frame_at at = {.frame = frame};
    MUST(pack_set_get(&at.pack, r->set, name, ERR));
    return at;
}

/* `data` with every hundredth byte changed, which XOR codes in little space. */
static unsigned char *changed(const unsigned char *data, size_t size, size_t from_size)
{
    unsigned char *bytes = noise(size, 99);
    memcpy(bytes, data, size < from_size ? size : from_size);
    for (size_t i = 0; i < size; i += 100)
        bytes[i]++;
    return bytes;
}

typedef struct reference {
    const unsigned char *data;
    size_t size;
    uint32_t pack, frame;
    uint8_t depth;
} reference;

/* Adds a frame whose chunks are XOR against the reference, cut or continued with zeros by hand. */
static uint32_t put_xor(pack_writer *w, const unsigned char *data, size_t size, const reference *from)
{
    uint32_t at = 0;
    codec *c = NULL;
    const codec_plan plan = {.mode = CODEC_XOR, .width = 4, .dtype = CKPT_F32, .level = 1};
    pack_frame frame = {.size = size,
                        .reference_pack = from->pack,
                        .reference_frame = from->frame,
                        .depth = (uint8_t)(from->depth + 1)};
    unsigned char *coded = malloc(CODEC_CHUNK_CODED_MAX);
    unsigned char *whole = calloc(1, size + 1);
    memcpy(whole, from->data, from->size < size ? from->size : size);
    sha256_of(&frame.hash, data, size);
    sha256_of(&frame.reference_hash, from->data, from->size);
    MUST(codec_new(&c, ERR));
    MUST(pack_writer_frame(&at, w, &frame, ERR));
    for (size_t done = 0; done < size; done += CODEC_CHUNK_BYTES) {
        const size_t part = size - done < CODEC_CHUNK_BYTES ? size - done : CODEC_CHUNK_BYTES;
        size_t coded_size = 0;
        MUST(codec_encode(&coded_size, coded, c, &plan, data + done, part, whole + done, ERR));
        MUST(pack_writer_chunk(w, coded, coded_size, xxh64_of(data + done, part), ERR));
    }
    codec_free(c);
    free(whole);
    free(coded);
    return at;
}

static uint32_t add_pack(pack_writer *w, const sha256 *name)
{
    uint32_t number = 0;
    MUST(pack_index_add_pack(&number, &w->index, name, ERR));
    return number;
}

/* Writes the chain; sizes[k] is that of frame k, data[k] its bytes. Depths say 1: no single pack shows how deep it is.
 */
static void write_chain(sha256 *names, unsigned char **data, const fixture *f, const size_t *sizes, size_t count)
{
    pack_writer w;
    data[0] = noise(sizes[0], 1);
    MUST(pack_writer_open(&w, f->tmp, ERR));
    put_stored(&w, data[0], sizes[0]);
    finish(&names[0], &w, f);
    for (size_t k = 1; k < count; k++) {
        data[k] = changed(data[k - 1], sizes[k], sizes[k - 1]);
        MUST(pack_writer_open(&w, f->tmp, ERR));
        const reference from = {data[k - 1], sizes[k - 1], add_pack(&w, &names[k - 1]), 0, 0};
        put_xor(&w, data[k], sizes[k], &from);
        finish(&names[k], &w, f);
    }
}

static void free_chain(unsigned char **data, size_t count)
{
    for (size_t k = 0; k < count; k++)
        free(data[k]);
}

static void assert_frame(const reading *r, frame_at at, const unsigned char *data, size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    bytes[size] = 0xa5;
    MUST(frame_read(bytes, r->reader, at, 0, size, ERR));
    assert_memory_equal(bytes, data, size);
    assert_int_equal(bytes[size], 0xa5);
    free(bytes);
}

static void assert_needs_reference(frame_at at, uint32_t chunk, bool expected)
{
    unsigned char *coded = malloc(CODEC_CHUNK_CODED_MAX);
    size_t size = 0;
    bool needs = !expected;
    MUST(pack_read_chunk(&size, coded, at.pack, &at.pack->index.frames[at.frame], chunk, ERR));
    MUST(codec_needs_reference(&needs, coded, size, ERR));
    assert_int_equal(needs, expected);
    free(coded);
}

static void stored_frames_read_back_whole_and_in_parts(void **state)
{
    fixture *f = *state;
    sha256 name;
    const size_t size = 2 * CODEC_CHUNK_BYTES + 1000;
    small_pack(&name, f, size, 5);
    unsigned char *data = noise(size, 5), bytes[3000];
    reading r = open_reading(f);
    const frame_at at = frame_of(&r, &name, 0);
    const uint64_t offsets[] = {0, 1, CODEC_CHUNK_BYTES - 1, CODEC_CHUNK_BYTES, CODEC_CHUNK_BYTES - 1500, size - 3000};

    assert_frame(&r, at, data, size);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        MUST(frame_read(bytes, r.reader, at, offsets[i], sizeof bytes, ERR));
        assert_memory_equal(bytes, data + offsets[i], sizeof bytes);
    }
    close_reading(&r);
    free(data);
}

static void beyond_the_end_of_a_frame_are_zeros(void **state)
{
    fixture *f = *state;
    sha256 name;
    small_pack(&name, f, 100, 5);
    unsigned char *data = noise(100, 5), bytes[200], zeros[200] = {0};
    reading r = open_reading(f);
    MUST(frame_read(bytes, r.reader, frame_of(&r, &name, 0), 60, sizeof bytes, ERR));
    assert_memory_equal(bytes, data + 60, 40);
    assert_memory_equal(bytes + 40, zeros, 160);
    MUST(frame_read(bytes, r.reader, frame_of(&r, &name, 0), UINT64_MAX, sizeof bytes, ERR));
    assert_memory_equal(bytes, zeros, 200);
    close_reading(&r);
    free(data);
}

static void a_chain_is_read_to_depth_8_and_not_to_9(void **state)
{
    fixture *f = *state;
    sha256 names[CHAIN_LENGTH];
    unsigned char *data[CHAIN_LENGTH];
    size_t sizes[CHAIN_LENGTH];
    for (size_t k = 0; k < CHAIN_LENGTH; k++)
        sizes[k] = CODEC_CHUNK_BYTES + 4096;
    write_chain(names, data, f, sizes, CHAIN_LENGTH);
    reading r = open_reading(f);

    for (size_t k = 0; k <= PACK_DEPTH_READ_MAX; k++) {
        assert_needs_reference(frame_of(&r, &names[k], 0), 1, k > 0);
        assert_frame(&r, frame_of(&r, &names[k], 0), data[k], sizes[k]);
    }
    ckpt_error err = {0};
    unsigned char *bytes = malloc(CODEC_CHUNK_BYTES);
    assert_int_equal(frame_read_chunk(bytes, r.reader, frame_of(&r, &names[9], 0), 0, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, "more than 8 deep"));
    free(bytes);
    close_reading(&r);
    free_chain(data, CHAIN_LENGTH);
}

/* Growing, shrinking, shorter by a whole chunk, and so that the last chunk of one ends inside that of the next. */
static void references_of_other_sizes_are_cut_or_continued_with_zeros(void **state)
{
    fixture *f = *state;
    const size_t sizes[] = {CODEC_CHUNK_BYTES / 2, 2 * CODEC_CHUNK_BYTES + 8,     CODEC_CHUNK_BYTES + 4,
                            CODEC_CHUNK_BYTES,     3 * CODEC_CHUNK_BYTES + 12345, 1000,
                            CODEC_CHUNK_BYTES + 1};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    sha256 names[COUNT];
    unsigned char *data[COUNT];
    write_chain(names, data, f, sizes, COUNT);
    reading r = open_reading(f);
    for (size_t k = 0; k < COUNT; k++)
        assert_frame(&r, frame_of(&r, &names[k], 0), data[k], sizes[k]);
    close_reading(&r);
    free_chain(data, COUNT);
}

/* Zeros with a few ones are coded against a reference that has no such chunk: XOR with zeros. */
static void a_chunk_beyond_the_end_of_its_reference_is_coded_against_zeros(void **state)
{
    fixture *f = *state;
    sha256 name;
    pack_writer w;
    const size_t size = CODEC_CHUNK_BYTES + 8192;
    unsigned char *key = noise(500, 1), *data = calloc(1, size);
    memcpy(data, key, 500);
    data[CODEC_CHUNK_BYTES + 5] = 1;
    MUST(pack_writer_open(&w, f->tmp, ERR));
    const reference from = {key, 500, 0, put_stored(&w, key, 500), 0};
    const uint32_t at = put_xor(&w, data, size, &from);
    finish(&name, &w, f);

    reading r = open_reading(f);
    assert_needs_reference(frame_of(&r, &name, at), 1, true);
    assert_frame(&r, frame_of(&r, &name, at), data, size);
    close_reading(&r);
    free(key);
    free(data);
}

static void flip(const fixture *f, const sha256 *name, size_t at)
{
    size_t size = 0;
    unsigned char *bytes = pack_bytes(&size, f, name);
    bytes[at] ^= 1;
    pack_overwrite(f, name, bytes, size);
    free(bytes);
}

static void assert_refused(const fixture *f, const sha256 *name, int expected, const sha256 *blamed, const char *why)
{
    reading r = open_reading(f);
    ckpt_error err = {0};
    char hex[SHA256_HEX_SIZE];
    unsigned char *bytes = malloc(4 * CODEC_CHUNK_BYTES);
    sha256_hex(hex, blamed);
    hex[8] = 0;
    const frame_at at = frame_of(&r, name, 0);
    assert_int_equal(frame_read(bytes, r.reader, at, 0, (size_t)at.pack->index.frames[0].size, &err), expected);
    if (!strstr(err.message, hex) || !strstr(err.message, why))
        fail_msg("\"%s\" has no %s or no %s", err.message, hex, why);
    free(bytes);
    close_reading(&r);
}

static void a_damaged_chunk_names_its_pack_frame_and_chunk(void **state)
{
    fixture *f = *state;
    sha256 name;
    small_pack(&name, f, 3 * CODEC_CHUNK_BYTES, 5);
    flip(f, &name, PACK_HEADER_SIZE + 2 * (CODEC_CHUNK_BYTES + 1) + 1);
    assert_refused(f, &name, CKPT_EDATA, &name, "frame 0: chunk 2: it fails its check");
}

static void damage_in_a_reference_is_laid_to_the_reference(void **state)
{
    fixture *f = *state;
    sha256 names[3];
    unsigned char *data[3];
    const size_t sizes[3] = {100000, 100000, 100000};
    write_chain(names, data, f, sizes, 3);
    flip(f, &names[0], PACK_HEADER_SIZE + 5000);
    assert_refused(f, &names[2], CKPT_EDATA, &names[0], "frame 0: chunk 0: it fails its check");
    free_chain(data, 3);
}

static void a_missing_pack_is_named_by_who_needs_it(void **state)
{
    fixture *f = *state;
    sha256 names[3];
    unsigned char *data[3];
    char path[FILE_PATH_MAX];
    const size_t sizes[3] = {1000, 1000, 1000};
    write_chain(names, data, f, sizes, 3);
    MUST(pack_path(path, f->packs, &names[0], ERR));
    assert_int_equal(unlink(path), 0);
    assert_refused(f, &names[2], CKPT_ENOTFOUND, &names[1], "frame 0: chunk 0");
    free_chain(data, 3);
}

static void a_reference_that_is_another_frame_is_refused(void **state)
{
    fixture *f = *state;
    sha256 names[2];
    pack_writer w;
    unsigned char *key = noise(1000, 1), *data = changed(key, 1000, 1000);
    small_pack(&names[0], f, 1000, 2); /* other bytes than the key */
    MUST(pack_writer_open(&w, f->tmp, ERR));
    const reference from = {key, 1000, add_pack(&w, &names[0]), 0, 0};
    put_xor(&w, data, 1000, &from);
    finish(&names[1], &w, f);
    assert_refused(f, &names[1], CKPT_EDATA, &names[1], "not the frame that it was coded against");
    free(key);
    free(data);
}

static void a_chunk_that_needs_a_reference_where_the_frame_has_none_is_refused(void **state)
{
    fixture *f = *state;
    sha256 name;
    pack_writer w;
    uint32_t at = 0;
    pack_frame frame = {.size = 10, .reference_pack = PACK_NONE};
    const unsigned char copy = CODEC_COPY;
    MUST(pack_writer_open(&w, f->tmp, ERR));
    MUST(pack_writer_frame(&at, &w, &frame, ERR));
    MUST(pack_writer_chunk(&w, &copy, 1, 0, ERR));
    finish(&name, &w, f);
    assert_refused(f, &name, CKPT_EDATA, &name, "the frame has none");
}

static void an_unknown_mode_is_refused(void **state)
{
    fixture *f = *state;
    sha256 name;
    small_pack(&name, f, 10, 1);
    size_t size = 0;
    unsigned char *bytes = pack_bytes(&size, f, &name);
    bytes[PACK_HEADER_SIZE] = 200;
    pack_overwrite(f, &name, bytes, size);
    assert_refused(f, &name, CKPT_EDATA, &name, "frame 0: chunk 0");
    free(bytes);
}

/* What a failed read leaves behind must not be taken for the chunk that it failed to read. */
static void after_a_failed_read_the_reader_is_as_good_as_new(void **state)
{
    fixture *f = *state;
    sha256 good, bad;
    unsigned char bytes[10], *data = noise(1000, 1);
    small_pack(&good, f, 1000, 1);
    small_pack(&bad, f, 1000, 2);
    flip(f, &bad, PACK_HEADER_SIZE + 500);
    reading r = open_reading(f);
    for (int round = 0; round < 2; round++) {
        MUST(frame_read(bytes, r.reader, frame_of(&r, &good, 0), 7, 10, ERR));
        assert_memory_equal(bytes, data + 7, 10);
        assert_int_equal(frame_read(bytes, r.reader, frame_of(&r, &bad, 0), 7, 10, NULL), CKPT_EDATA);
    }
    close_reading(&r);
    free(data);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(stored_frames_read_back_whole_and_in_parts),
        TEST(beyond_the_end_of_a_frame_are_zeros),
        TEST(a_chain_is_read_to_depth_8_and_not_to_9),
        TEST(references_of_other_sizes_are_cut_or_continued_with_zeros),
        TEST(a_chunk_beyond_the_end_of_its_reference_is_coded_against_zeros),
        TEST(a_damaged_chunk_names_its_pack_frame_and_chunk),
        TEST(damage_in_a_reference_is_laid_to_the_reference),
        TEST(a_missing_pack_is_named_by_who_needs_it),
        TEST(a_reference_that_is_another_frame_is_refused),
        TEST(a_chunk_that_needs_a_reference_where_the_frame_has_none_is_refused),
        TEST(an_unknown_mode_is_refused),
        TEST(after_a_failed_read_the_reader_is_as_good_as_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
