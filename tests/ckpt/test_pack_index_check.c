#include "pack_index_sample.h"

/* The sample is right, and one change makes it wrong. */

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

REFUSES(a_transform_of_a_newer_version, CKPT_EVERSION, index.frames[0].transform = 2)
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
REFUSES(more_extents_than_there_are, CKPT_EDATA, index.files[0].extent_count = UINT32_MAX)
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
REFUSES(a_value_of_no_file, CKPT_EDATA, index.files[0].value_count = 0)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_a_transform_of_a_newer_version),
        cmocka_unit_test(refuses_an_empty_frame),
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
        cmocka_unit_test(refuses_more_extents_than_there_are),
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
        cmocka_unit_test(refuses_a_value_of_no_file),
        cmocka_unit_test(refuses_a_value_without_a_key),
        cmocka_unit_test(refuses_a_last_string_without_an_end),
        cmocka_unit_test(refuses_strings_that_do_not_begin_with_the_empty_one),
        cmocka_unit_test(refuses_a_frame_that_is_too_large),
        cmocka_unit_test(refuses_a_path_longer_than_paths_may_be),
        cmocka_unit_test(accepts_odd_but_legal_paths),
        cmocka_unit_test(accepts_a_tensor_without_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
