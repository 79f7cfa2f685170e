#include "pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "bytes.h"

static uint32_t string(pack_index *index, const char *text)
{
    uint32_t at = 0;
    assert_int_equal(pack_index_add_string(&at, index, text, NULL), 0);
    return at;
}

static void add_frames(pack_index *index)
{
    uint32_t at = 0, other = 0;
    const sha256 pack_name = {{0xaa}}, key_hash = {{1}}, delta_hash = {{2}};
    assert_int_equal(pack_index_add_pack(&other, index, &pack_name, NULL), 0);
    pack_frame frame = {.offset = 16,
                        .size = CODEC_CHUNK_BYTES + 100,
                        .reference_pack = PACK_NONE,
                        .class_name = string(index, "weights"),
                        .dtype = CKPT_F32,
                        .kind = FRAME_TENSOR,
                        .level = 3,
                        .hash = key_hash};
    assert_int_equal(pack_index_add_frame(&at, index, &frame, NULL), 0);
    frame = (pack_frame){.offset = 160,
                         .size = 24,
                         .chunk_first = 2,
                         .reference_frame = 0,
                         .depth = 1,
                         .hash = delta_hash,
                         .reference_hash = key_hash};
    assert_int_equal(pack_index_add_frame(&at, index, &frame, NULL), 0);
    frame =
        (pack_frame){.offset = 170, .size = 8, .chunk_first = 3, .reference_pack = 1, .reference_frame = 7, .depth = 8};
    assert_int_equal(pack_index_add_frame(&at, index, &frame, NULL), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(pack_index_add_chunk(&at, index, &(pack_chunk){10 + i, 0x1111111111111111u * i}, NULL), 0);
}

static void add_tensors(pack_index *index)
{
    uint32_t at = 0;
    pack_tensor tensor = {
        .name = string(index, "conv1.weight"), .dtype = CKPT_F32, .rank = 2, .offset = 8, .span_bytes = 2 * 3 * 4};
    assert_int_equal(pack_index_add_tensor(&at, index, &tensor, NULL), 0);
    /* Elements of [3][2] with strides 1, 3 reach to element 2 * 1 + 1 * 3 = 5, the sixth. */
    tensor = (pack_tensor){.name = string(index, "conv1.weight.t"),
                           .dim_first = 2,
                           .dtype = CKPT_F32,
                           .rank = 2,
                           .flags = 1,
                           .offset = 8,
                           .span_bytes = 6 * 4};
    assert_int_equal(pack_index_add_tensor(&at, index, &tensor, NULL), 0);
    static const uint64_t DIMS[] = {2, 3, 3, 2, 1, 3};
    for (size_t i = 0; i < sizeof DIMS / sizeof *DIMS; i++)
        assert_int_equal(pack_index_add_dim(&at, index, DIMS[i], NULL), 0);
    const pack_value value = {string(index, "format"), string(index, "pt")};
    assert_int_equal(pack_index_add_value(&at, index, &value, NULL), 0);
}

/* run/model.pt of 132 bytes in two extents, with two tensors; the folder run; run/last -> model.pt. */
static void add_files(pack_index *index)
{
    uint32_t at = 0;
    const pack_extent here = {.size = 32, .frame_offset = 64, .hash = {7, 8}};
    const pack_extent elsewhere = {.size = 100, .frame_offset = 5, .pack = 1, .frame = 3};
    assert_int_equal(pack_index_add_extent(&at, index, &here, NULL), 0);
    assert_int_equal(pack_index_add_extent(&at, index, &elsewhere, NULL), 0);

    pack_file file = {.path = string(index, "run/model.pt"),
                      .format = string(index, "torch"),
                      .mode = 0640,
                      .size = 132,
                      .extent_count = 2,
                      .tensor_count = 2,
                      .value_count = 1};
    for (int i = 0; i < SHA256_SIZE; i++)
        file.hash.bytes[i] = (unsigned char)i;
    assert_int_equal(pack_index_add_file(&at, index, &file, NULL), 0);
    file = (pack_file){.path = string(index, "run"), .mode = 0755, .kind = CKPT_FOLDER};
    assert_int_equal(pack_index_add_file(&at, index, &file, NULL), 0);
    file = (pack_file){
        .path = string(index, "run/last"), .link = string(index, "model.pt"), .mode = 0777, .kind = CKPT_LINK};
    assert_int_equal(pack_index_add_file(&at, index, &file, NULL), 0);
}

static pack_index sample(void)
{
    pack_index index = {0};
    add_frames(&index);
    add_tensors(&index);
    add_files(&index);
    return index;
}

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

/* ---- Refusals: the sample is right, and one change makes it wrong ---- */

#define REFUSES(name, expected, change)                                                                                \
    static void refuses_##name(void **state)                                                                           \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        pack_index index = sample();                                                                                   \
        assert_int_equal(pack_index_check(&index, NULL), 0);                                                           \
        change;                                                                                                        \
        assert_int_equal(pack_index_check(&index, NULL), expected);                                                    \
        pack_index_clear(&index);                                                                                      \
    }

REFUSES(a_transform_of_a_newer_version, CKPT_EVERSION, index.frames[0].transform = 1)
REFUSES(an_empty_frame, CKPT_EDATA, index.frames[2].size = 0)
REFUSES(a_frame_of_unknown_kind, CKPT_EDATA, index.frames[0].kind = 3)
REFUSES(a_frame_of_unknown_dtype, CKPT_EDATA, index.frames[0].dtype = 18)
REFUSES(a_frame_whose_class_is_no_string, CKPT_EDATA, index.frames[0].class_name = index.string_bytes)
REFUSES(a_frame_inside_the_header, CKPT_EDATA, index.frames[0].offset = 15)
REFUSES(chunks_that_do_not_exist, CKPT_EDATA, index.frames[2].chunk_first = 4)
REFUSES(chunks_behind_all_numbers, CKPT_EDATA, index.frames[2].chunk_first = UINT32_MAX)
REFUSES(frames_that_share_chunks, CKPT_EDATA, index.chunk_count = 3; index.frames[2].chunk_first = 0)
REFUSES(a_chunk_without_bytes, CKPT_EDATA, index.chunks[3].coded_size = 0)
REFUSES(a_chunk_that_is_too_large, CKPT_EDATA, index.chunks[3].coded_size = CODEC_CHUNK_CODED_MAX + 1)
REFUSES(a_reference_to_the_frame_itself, CKPT_EDATA, index.frames[1].reference_frame = 1)
REFUSES(a_reference_to_a_later_frame, CKPT_EDATA, index.frames[1].reference_frame = 2)
REFUSES(a_reference_in_an_unnamed_pack, CKPT_EDATA, index.frames[2].reference_pack = 2)
REFUSES(a_depth_of_nine, CKPT_EDATA, index.frames[2].depth = 9)
REFUSES(a_depth_without_a_reference, CKPT_EDATA, index.frames[2].reference_pack = PACK_NONE;
        index.frames[2].reference_frame = 0)
REFUSES(a_reference_without_a_depth, CKPT_EDATA, index.frames[2].depth = 0)
REFUSES(a_depth_not_above_that_of_the_reference, CKPT_EDATA, index.frames[2].reference_pack = 0;
        index.frames[2].reference_frame = 1; index.frames[2].depth = 1)
REFUSES(an_empty_extent, CKPT_EDATA, index.extents[0].size = 0; index.files[0].size = 100)
REFUSES(an_extent_in_an_unnamed_pack, CKPT_EDATA, index.extents[1].pack = 2)
REFUSES(an_extent_in_no_pack, CKPT_EDATA, index.extents[1].pack = PACK_NONE)
REFUSES(an_extent_in_a_frame_that_does_not_exist, CKPT_EDATA, index.extents[0].frame = 3)
REFUSES(an_extent_behind_the_end_of_its_frame, CKPT_EDATA, index.extents[0].frame = 1)
REFUSES(an_extent_whose_end_wraps_around, CKPT_EDATA, index.extents[1].frame_offset = UINT64_MAX - 50)
REFUSES(extents_that_add_up_to_another_size, CKPT_EDATA, index.files[0].size = 133)
REFUSES(extents_that_do_not_exist, CKPT_EDATA, index.files[0].extent_first = 1)
REFUSES(values_that_do_not_exist, CKPT_EDATA, index.files[0].value_count = UINT32_MAX)
REFUSES(files_that_share_extents, CKPT_EDATA, index.files[2].kind = CKPT_FILE; index.files[2].link = 0;
        index.files[2].size = 32; index.files[2].extent_count = 1)
REFUSES(a_folder_with_values, CKPT_EDATA, index.files[0].value_count = 0; index.files[1].value_count = 1)
REFUSES(a_link_without_a_target, CKPT_EDATA, index.files[2].link = 0)
REFUSES(a_target_without_a_link, CKPT_EDATA, index.files[2].kind = CKPT_FILE)
REFUSES(a_file_of_unknown_kind, CKPT_EDATA, index.files[0].kind = 3)
REFUSES(a_mode_with_more_than_permissions, CKPT_EDATA, index.files[0].mode = 0100644)
REFUSES(a_path_that_is_no_string, CKPT_EDATA, index.files[0].path = index.string_bytes)
REFUSES(a_format_that_is_no_string, CKPT_EDATA, index.files[0].format = UINT32_MAX)
REFUSES(an_empty_path, CKPT_EDATA, index.files[0].path = 0)
REFUSES(an_absolute_path, CKPT_EDATA, index.files[0].path = string(&index, "/etc/passwd"))
REFUSES(a_path_through_the_parent, CKPT_EDATA, index.files[0].path = string(&index, "run/../../x"))
REFUSES(a_path_that_is_the_parent, CKPT_EDATA, index.files[0].path = string(&index, ".."))
REFUSES(a_path_with_a_dot, CKPT_EDATA, index.files[0].path = string(&index, "run/./x"))
REFUSES(a_path_with_an_empty_part, CKPT_EDATA, index.files[0].path = string(&index, "run//x"))
REFUSES(a_path_that_ends_in_a_slash, CKPT_EDATA, index.files[0].path = string(&index, "run/x/"))
REFUSES(a_path_that_appears_twice, CKPT_EDATA, index.files[0].path = index.files[2].path)
REFUSES(a_path_below_a_link, CKPT_EDATA, index.files[0].path = string(&index, "run/last/model.pt"))
REFUSES(a_path_below_a_link_with_a_neighbour_between, CKPT_EDATA, index.files[1].path = string(&index, "run/last!");
        index.files[0].path = string(&index, "run/last/model.pt"))
REFUSES(a_tensor_behind_the_end_of_its_file, CKPT_EDATA, index.tensors[0].offset = 132 - 23)
REFUSES(a_tensor_whose_end_wraps_around, CKPT_EDATA, index.tensors[0].offset = UINT64_MAX - 3)
REFUSES(a_tensor_of_unknown_dtype, CKPT_EDATA, index.tensors[0].dtype = 18)
REFUSES(a_tensor_of_rank_17, CKPT_EDATA, index.tensors[0].rank = 17)
REFUSES(a_tensor_with_an_unknown_flag, CKPT_EDATA, index.tensors[0].flags = 2)
REFUSES(a_tensor_without_a_name, CKPT_EDATA, index.tensors[0].name = index.string_bytes)
REFUSES(a_tensor_whose_shape_does_not_exist, CKPT_EDATA, index.tensors[1].dim_first = 3)
REFUSES(a_tensor_whose_span_contradicts_its_shape, CKPT_EDATA, index.tensors[0].span_bytes = 20)
REFUSES(a_tensor_whose_stride_leaves_its_span, CKPT_EDATA, index.dims[5] = 4)
REFUSES(a_tensor_whose_elements_overflow, CKPT_EDATA, index.dims[0] = (uint64_t)1 << 62)
REFUSES(a_negative_stride, CKPT_EDATA, index.dims[5] = UINT64_MAX)
REFUSES(a_tensor_of_no_file, CKPT_EDATA, index.files[0].tensor_count = 1)
REFUSES(a_value_without_a_key, CKPT_EDATA, index.values[0].key = index.string_bytes)
REFUSES(a_last_string_without_an_end, CKPT_EDATA, index.string_bytes--)

static void refuses_strings_that_do_not_begin_with_the_empty_one(void **state)
{
    (void)state;
    pack_index index = {0};
    assert_int_equal(pack_index_check(&index, NULL), CKPT_EDATA);
    string(&index, "name");
    assert_int_equal(pack_index_check(&index, NULL), 0);
    index.strings[0] = 'x';
    assert_int_equal(pack_index_check(&index, NULL), CKPT_EDATA);
    pack_index_clear(&index);
}

static void refuses_a_frame_that_is_too_large(void **state)
{
    (void)state;
    pack_index index = sample();
    uint32_t at = 0;
    for (int i = 0; i < 65; i++)
        assert_int_equal(pack_index_add_chunk(&at, &index, &(pack_chunk){10, 0}, NULL), 0);
    index.frames[2].chunk_first = 4;
    index.frames[2].size = PACK_FRAME_BYTES_MAX;
    assert_int_equal(pack_index_check(&index, NULL), 0);
    index.frames[2].size++;
    assert_int_equal(pack_index_check(&index, NULL), CKPT_EDATA);
    pack_index_clear(&index);
}

static void refuses_a_path_longer_than_paths_may_be(void **state)
{
    (void)state;
    pack_index index = sample();
    char path[FILE_PATH_MAX + 1];
    memset(path, 'x', FILE_PATH_MAX);
    path[FILE_PATH_MAX] = 0;
    index.files[0].path = string(&index, path);
    assert_int_equal(pack_index_check(&index, NULL), CKPT_EDATA);
    pack_index_clear(&index);
}

static void accepts_odd_but_legal_paths(void **state)
{
    (void)state;
    static const char *const PATHS[] = {"...", "..a", ".hidden/x", "a b\nc", "run/last2", "\xff\xfe"};
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        pack_index index = sample();
        index.files[0].path = string(&index, PATHS[i]);
        assert_int_equal(pack_index_check(&index, NULL), 0);
        pack_index_clear(&index);
    }
}

static void accepts_a_tensor_without_elements(void **state)
{
    (void)state;
    pack_index index = sample();
    index.dims[0] = 0;
    index.tensors[0].span_bytes = 0;
    index.tensors[0].offset = 132;
    assert_int_equal(pack_index_check(&index, NULL), 0);
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
    assert_decode(CKPT_EVERSION, 8, 1);
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
               pack_index_add_value(&row, &index, &(pack_value){offset, 0}, NULL));
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
        cmocka_unit_test(refuses_a_transform_of_a_newer_version),
        cmocka_unit_test(refuses_an_empty_frame),
        cmocka_unit_test(refuses_a_frame_that_is_too_large),
        cmocka_unit_test(refuses_a_frame_of_unknown_kind),
        cmocka_unit_test(refuses_a_frame_of_unknown_dtype),
        cmocka_unit_test(refuses_a_frame_whose_class_is_no_string),
        cmocka_unit_test(refuses_a_frame_inside_the_header),
        cmocka_unit_test(refuses_chunks_that_do_not_exist),
        cmocka_unit_test(refuses_chunks_behind_all_numbers),
        cmocka_unit_test(refuses_frames_that_share_chunks),
        cmocka_unit_test(refuses_a_chunk_without_bytes),
        cmocka_unit_test(refuses_a_chunk_that_is_too_large),
        cmocka_unit_test(refuses_a_reference_to_the_frame_itself),
        cmocka_unit_test(refuses_a_reference_to_a_later_frame),
        cmocka_unit_test(refuses_a_reference_in_an_unnamed_pack),
        cmocka_unit_test(refuses_a_depth_of_nine),
        cmocka_unit_test(refuses_a_depth_without_a_reference),
        cmocka_unit_test(refuses_a_reference_without_a_depth),
        cmocka_unit_test(refuses_a_depth_not_above_that_of_the_reference),
        cmocka_unit_test(refuses_an_empty_extent),
        cmocka_unit_test(refuses_an_extent_in_an_unnamed_pack),
        cmocka_unit_test(refuses_an_extent_in_no_pack),
        cmocka_unit_test(refuses_an_extent_in_a_frame_that_does_not_exist),
        cmocka_unit_test(refuses_an_extent_behind_the_end_of_its_frame),
        cmocka_unit_test(refuses_an_extent_whose_end_wraps_around),
        cmocka_unit_test(refuses_extents_that_add_up_to_another_size),
        cmocka_unit_test(refuses_extents_that_do_not_exist),
        cmocka_unit_test(refuses_values_that_do_not_exist),
        cmocka_unit_test(refuses_files_that_share_extents),
        cmocka_unit_test(refuses_a_folder_with_values),
        cmocka_unit_test(refuses_a_link_without_a_target),
        cmocka_unit_test(refuses_a_target_without_a_link),
        cmocka_unit_test(refuses_a_file_of_unknown_kind),
        cmocka_unit_test(refuses_a_mode_with_more_than_permissions),
        cmocka_unit_test(refuses_a_path_that_is_no_string),
        cmocka_unit_test(refuses_a_format_that_is_no_string),
        cmocka_unit_test(refuses_an_empty_path),
        cmocka_unit_test(refuses_an_absolute_path),
        cmocka_unit_test(refuses_a_path_through_the_parent),
        cmocka_unit_test(refuses_a_path_that_is_the_parent),
        cmocka_unit_test(refuses_a_path_with_a_dot),
        cmocka_unit_test(refuses_a_path_with_an_empty_part),
        cmocka_unit_test(refuses_a_path_that_ends_in_a_slash),
        cmocka_unit_test(refuses_a_path_that_appears_twice),
        cmocka_unit_test(refuses_a_path_below_a_link),
        cmocka_unit_test(refuses_a_path_below_a_link_with_a_neighbour_between),
        cmocka_unit_test(refuses_a_tensor_behind_the_end_of_its_file),
        cmocka_unit_test(refuses_a_tensor_whose_end_wraps_around),
        cmocka_unit_test(refuses_a_tensor_of_unknown_dtype),
        cmocka_unit_test(refuses_a_tensor_of_rank_17),
        cmocka_unit_test(refuses_a_tensor_with_an_unknown_flag),
        cmocka_unit_test(refuses_a_tensor_without_a_name),
        cmocka_unit_test(refuses_a_tensor_whose_shape_does_not_exist),
        cmocka_unit_test(refuses_a_tensor_whose_span_contradicts_its_shape),
        cmocka_unit_test(refuses_a_tensor_whose_stride_leaves_its_span),
        cmocka_unit_test(refuses_a_tensor_whose_elements_overflow),
        cmocka_unit_test(refuses_a_negative_stride),
        cmocka_unit_test(refuses_a_tensor_of_no_file),
        cmocka_unit_test(refuses_a_value_without_a_key),
        cmocka_unit_test(refuses_strings_that_do_not_begin_with_the_empty_one),
        cmocka_unit_test(refuses_a_last_string_without_an_end),
        cmocka_unit_test(refuses_a_path_longer_than_paths_may_be),
        cmocka_unit_test(accepts_odd_but_legal_paths),
        cmocka_unit_test(accepts_a_tensor_without_elements),
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
