#include "pack_index_sample.h"

#include "alloc_fail.h"
#include "bytes.h"

static unsigned char *sample_bytes(size_t *size)
{
    unsigned char *bytes = NULL;
    pack_index index = sample();
    ckpt_error err = {0};
    if (pack_index_encode(&bytes, size, &index, &err))
        fail_msg("%s", err.message);
    pack_index_clear(&index);
    return bytes;
}

static void encoded_tables_stand_as_the_grammar_says(void **state)
{
    (void)state;
    size_t size = 0;
    unsigned char *bytes = sample_bytes(&size);
    /* packs, frames, chunks, files, extents, tensors, values, dims: sizes of pack.h, 32 to 8 bytes a row. */
    const size_t frames = 64 + 1 * 32, chunks = frames + 3 * 104, files = chunks + 4 * 12;
    const size_t extents = files + 3 * 80, tensors = extents + 2 * 40, values = tensors + 2 * 32, dims = values + 8;

    assert_memory_equal(bytes, "CKIX", 4);
    assert_int_equal(load_u32(bytes + 4), 1);
    assert_int_equal(load_u32(bytes + 16), 3);
    assert_int_equal(bytes[64], 0xaa);
    assert_int_equal(load_u64(bytes + frames + 104), 160);
    assert_int_equal(load_u32(bytes + frames + 20), PACK_NONE);
    assert_int_equal(bytes[frames + 32], CKPT_F32);
    assert_int_equal(bytes[frames + 2 * 104 + 33], 8);
    assert_int_equal(bytes[frames + 104 + 72], 1);
    assert_int_equal(load_u32(bytes + chunks + 3 * 12), 13);
    assert_int_equal(load_u64(bytes + chunks + 3 * 12 + 4), 0x3333333333333333u);
    assert_int_equal(load_u16(bytes + files + 12), 0640);
    assert_int_equal(load_u64(bytes + files + 16), 132);
    assert_int_equal(bytes[files + 48 + 31], 31);
    assert_int_equal(load_u64(bytes + extents + 24), 7);
    assert_int_equal(load_u32(bytes + extents + 40 + 20), 3);
    assert_int_equal(load_u64(bytes + tensors + 24), 24);
    assert_int_equal(load_u64(bytes + dims + 5 * 8), 3);
    assert_string_equal(bytes + dims + 6 * 8 + load_u32(bytes + files), "run/model.pt");
    free(bytes);
}

static void decoded_tables_hold_what_was_encoded(void **state)
{
    (void)state;
    size_t size = 0;
    unsigned char *bytes = sample_bytes(&size);
    pack_index index;
    assert_int_equal(pack_index_decode(&index, bytes, size, NULL), 0);

    assert_int_equal(index.pack_count, 1);
    assert_int_equal(index.frame_count, 3);
    assert_int_equal(index.frames[0].level, 3);
    assert_int_equal(index.frames[2].reference_frame, 7);
    assert_int_equal(index.chunks[1].xxh64, 0x1111111111111111u);
    assert_string_equal(pack_string(&index, index.files[2].link), "model.pt");
    assert_string_equal(pack_string(&index, index.files[1].link), "");
    assert_int_equal(index.files[1].kind, CKPT_FOLDER);
    assert_int_equal(index.extents[1].pack, 1);
    assert_int_equal(index.extents[0].hash.high, 8);
    assert_int_equal(index.tensors[1].flags, 1);
    assert_int_equal(index.dims[3], 2);
    assert_string_equal(pack_string(&index, index.values[0].value), "pt");
    pack_index_clear(&index);
    free(bytes);
}

static void an_index_of_nothing_is_legal(void **state)
{
    (void)state;
    unsigned char *bytes = NULL;
    size_t size = 0;
    pack_index index = {0};
    assert_int_equal(pack_index_encode(&bytes, &size, &index, NULL), 0);
    assert_int_equal(size, 64 + 1);
    assert_int_equal(pack_index_decode(&index, bytes, size, NULL), 0);
    assert_string_equal(pack_string(&index, 0), "");
    pack_index_clear(&index);
    free(bytes);
}

static void equal_strings_are_kept_once(void **state)
{
    (void)state;
    pack_index index = {0};
    char text[32];
    uint32_t first[1000];
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "layer%d.weight", i);
        first[i] = string(&index, text);
    }
    const uint32_t bytes = index.string_bytes;
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "layer%d.weight", i);
        assert_int_equal(string(&index, text), first[i]);
        assert_string_equal(pack_string(&index, first[i]), text);
    }
    assert_int_equal(string(&index, ""), 0);
    assert_int_equal(index.string_bytes, bytes);
    pack_index_clear(&index);
}

static void a_pack_is_numbered_once_and_from_one(void **state)
{
    (void)state;
    pack_index index = {0};
    uint32_t number = 0;
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 500; i++) {
            sha256 name = {{0}};
            store_u32(name.bytes + 8, i); /* all in one bucket: the first eight bytes are equal */
            assert_int_equal(pack_index_add_pack(&number, &index, &name, NULL), 0);
            assert_int_equal(number, i + 1);
        }
    assert_int_equal(index.pack_count, 500);
    pack_index_clear(&index);
}

static void rows_beyond_their_limit_are_refused(void **state)
{
    (void)state;
    pack_index index = {0};
    uint32_t at = 0;
    for (uint32_t i = 0; i < PACK_VALUES_MAX; i++)
        if (pack_index_add_value(&at, &index, &(pack_value){0, 0}, NULL))
            fail();
    assert_int_equal(pack_index_add_value(&at, &index, &(pack_value){0, 0}, NULL), CKPT_EUSAGE);
    assert_int_equal(index.value_count, PACK_VALUES_MAX);
    pack_index_clear(&index);
}

/* Python: h = hashlib.sha256(); for kind, mode, size, digest, link, path in
 *   [(b"D",0o755,0,"0"*64,b"",b"run"), (b"L",0o777,0,"0"*64,b"model.pt",b"run/last"),
 *    (b"F",0o640,132,bytes(range(32)).hex(),b"",b"run/model.pt")]:
 *   h.update(b"%c %o %d %s %s\0%s\0" % (kind, mode, size, digest.encode(), link, path)) */
static void tree_is_the_hash_of_the_records_in_order_of_their_paths(void **state)
{
    (void)state;
    pack_index index = sample();
    sha256 tree;
    char hex[SHA256_HEX_SIZE];
    assert_int_equal(pack_index_tree(&tree, &index, NULL), 0);
    sha256_hex(hex, &tree);
    assert_string_equal(hex, "b77e7c8b09e6367c120094ff51ac6bfc6732d712f04733742b0cf550c2f764af");
    pack_index_clear(&index);
}

static void writing_tables_that_contradict_themselves_is_a_bug(void **state)
{
    (void)state;
    pack_index index = sample();
    unsigned char *bytes = NULL;
    size_t size = 0;
    ckpt_error err = {0};
    index.files[0].size++;
    assert_int_equal(pack_index_encode(&bytes, &size, &index, &err), CKPT_EBUG);
    assert_int_equal(err.code, CKPT_EBUG);
    assert_null(bytes);
    pack_index_clear(&index);
}

/* ---- Bytes from outside ---- */

static void refuses_bytes_of_every_other_length(void **state)
{
    (void)state;
    size_t size = 0;
    unsigned char *bytes = sample_bytes(&size);
    pack_index index;
    for (size_t cut = 0; cut < size; cut++) {
        unsigned char *exact = malloc(cut + 1); /* so that a sanitizer sees a read behind the end */
        memcpy(exact, bytes, cut);
        exact = realloc(exact, cut ? cut : 1);
        assert_int_equal(pack_index_decode(&index, exact, cut, NULL), CKPT_EDATA);
        free(exact);
    }
    unsigned char *longer = calloc(1, size + 1);
    memcpy(longer, bytes, size);
    assert_int_equal(pack_index_decode(&index, longer, size + 1, NULL), CKPT_EDATA);
    free(longer);
    free(bytes);
}

static void assert_decode(int expected, size_t at, unsigned char value)
{
    size_t size = 0;
    unsigned char *bytes = sample_bytes(&size);
    pack_index index;
    bytes[at] = value;
    assert_int_equal(pack_index_decode(&index, bytes, size, NULL), expected);
    assert_null(index.frames);
    free(bytes);
}

static void refuses_another_magic(void **state)
{
    (void)state;
    assert_decode(CKPT_EDATA, 0, 'X');
}

static void refuses_a_newer_version(void **state)
{
    (void)state;
    assert_decode(CKPT_EVERSION, 4, 2);
}

static void refuses_unknown_features(void **state)
{
    (void)state;
    assert_decode(CKPT_EVERSION, 8, 0x80);
    assert_decode(CKPT_EVERSION, 11, 1);
}

static void refuses_reserved_bytes_that_are_in_use(void **state)
{
    (void)state;
    assert_decode(CKPT_EVERSION, 63, 1);                                 /* head */
    assert_decode(CKPT_EVERSION, 64 + 32 + 37, 1);                       /* first frame */
    assert_decode(CKPT_EVERSION, 64 + 32 + 312 + 48 + 15, 1);            /* first file */
    assert_decode(CKPT_EVERSION, 64 + 32 + 312 + 48 + 240 + 80 + 11, 1); /* first tensor */
}

static void refuses_counts_that_promise_more_than_there_is(void **state)
{
    (void)state;
    for (size_t count = 12; count < 48; count += 4) {
        assert_decode(CKPT_EDATA, count, 200);
        assert_decode(CKPT_EDATA, count + 3, 0xff);
    }
}

static void refuses_a_count_beyond_its_limit_that_the_bytes_bear_out(void **state)
{
    (void)state;
    const size_t size = 64 + (PACK_PACKS_MAX + (size_t)1) * SHA256_SIZE + 1;
    unsigned char *bytes = calloc(1, size);
    pack_index index;
    memcpy(bytes, "CKIX\1", 5);
    store_u32(bytes + 12, PACK_PACKS_MAX + 1);
    store_u32(bytes + 44, 1);
    assert_int_equal(pack_index_decode(&index, bytes, size, NULL), CKPT_EDATA);
    store_u32(bytes + 12, PACK_PACKS_MAX);
    assert_int_equal(pack_index_decode(&index, bytes, size - SHA256_SIZE, NULL), 0);
    pack_index_clear(&index);
    free(bytes);
}

/* Most flips are refused; what is accepted must be as safe as any index: all its strings and rows can be read. */
static void every_flipped_bit_gives_an_error_or_a_sound_index(void **state)
{
    (void)state;
    size_t size = 0;
    unsigned char *bytes = sample_bytes(&size);
    for (size_t bit = 0; bit < size * 8; bit++) {
        pack_index index;
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        const int rc = pack_index_decode(&index, bytes, size, NULL);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (rc) {
            assert_true(rc == CKPT_EDATA || rc == CKPT_EVERSION);
            continue;
        }
        sha256 tree;
        assert_int_equal(pack_index_tree(&tree, &index, NULL), 0);
        pack_index_clear(&index);
    }
    free(bytes);
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    if (!ALLOC_FAIL_WORKS)
        skip();
    size_t size = 0;
    unsigned char *bytes = sample_bytes(&size);
    pack_index index;
    bool failed = true;
    long at = 0;
    while (failed) {
        alloc_fail_arm(++at);
        const int rc = pack_index_decode(&index, bytes, size, NULL);
        failed = alloc_fail_disarm();
        assert_int_equal(rc, failed ? CKPT_ENOMEM : 0);
        if (failed)
            assert_null(index.strings);
    }
    assert_true(at > 9); /* nine tables and the paths */
    pack_index_clear(&index);
    free(bytes);
}

static void every_failed_allocation_of_the_writer_leaves_a_sound_index(void **state)
{
    (void)state;
    if (!ALLOC_FAIL_WORKS)
        skip();
    bool failed = true;
    for (long at = 1; failed; at++) {
        pack_index index = {0};
        const sha256 name = {{1}};
        uint32_t row = 0, pack_row = 0, offset = 0;
        alloc_fail_arm(at);
        (void)(pack_index_add_string(&offset, &index, "name", NULL) ||
               pack_index_add_pack(&pack_row, &index, &name, NULL) ||
               pack_index_add_chunk(&row, &index, &(pack_chunk){10, 0}, NULL));
        failed = alloc_fail_disarm();
        assert_true(index.string_bytes == 0 || pack_index_check(&index, NULL) == 0);
        pack_index_clear(&index);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoded_tables_stand_as_the_grammar_says),
        cmocka_unit_test(decoded_tables_hold_what_was_encoded),
        cmocka_unit_test(an_index_of_nothing_is_legal),
        cmocka_unit_test(equal_strings_are_kept_once),
        cmocka_unit_test(a_pack_is_numbered_once_and_from_one),
        cmocka_unit_test(rows_beyond_their_limit_are_refused),
        cmocka_unit_test(tree_is_the_hash_of_the_records_in_order_of_their_paths),
        cmocka_unit_test(writing_tables_that_contradict_themselves_is_a_bug),
        cmocka_unit_test(refuses_bytes_of_every_other_length),
        cmocka_unit_test(refuses_another_magic),
        cmocka_unit_test(refuses_a_newer_version),
        cmocka_unit_test(refuses_unknown_features),
        cmocka_unit_test(refuses_reserved_bytes_that_are_in_use),
        cmocka_unit_test(refuses_counts_that_promise_more_than_there_is),
        cmocka_unit_test(refuses_a_count_beyond_its_limit_that_the_bytes_bear_out),
        cmocka_unit_test(every_flipped_bit_gives_an_error_or_a_sound_index),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(every_failed_allocation_of_the_writer_leaves_a_sound_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
