/* Extents: disjoint, ascending, together the whole file. */
#include "tensor_input.h"

static void add(tensor_file *file, const char *name, ckpt_dtype dtype, uint64_t offset, uint64_t elements)
{
    tensor_view view = {.name = strdup(name), .dtype = dtype, .rank = 1, .shape = {elements}, .offset = offset};
    assert_int_equal(tensor_view_row_major(&view, NULL), 0);
    assert_int_equal(tensor_file_add(file, &view, 1000, NULL), 0);
}

static void assert_extent(const extent *e, uint64_t offset, uint64_t size, ckpt_dtype dtype, int64_t tensor)
{
    assert_int_equal(e->offset, offset);
    assert_int_equal(e->size, size);
    assert_int_equal(e->dtype, dtype);
    assert_int_equal(e->tensor, tensor);
}

static void a_file_without_tensors_is_one_extent_of_bytes(void **state)
{
    tensor_file file = {0};
    extent *extents;
    size_t count;
    (void)state;
    assert_int_equal(extents_make(&extents, &count, &file, 1000, NULL), 0);
    assert_int_equal(count, 1);
    assert_extent(&extents[0], 0, 1000, CKPT_OPAQUE, -1);
    free(extents);
}

static void an_empty_file_has_no_extents(void **state)
{
    tensor_file file = {0};
    extent *extents;
    size_t count;
    (void)state;
    assert_int_equal(extents_make(&extents, &count, &file, 0, NULL), 0);
    assert_int_equal(count, 0);
    free(extents);
}

static void tensors_and_the_bytes_between_alternate(void **state)
{
    tensor_file file = {0};
    extent *extents;
    size_t count;
    (void)state;
    add(&file, "b", CKPT_F32, 500, 25);
    add(&file, "a", CKPT_BF16, 100, 200);
    assert_int_equal(extents_make(&extents, &count, &file, 1000, NULL), 0);
    assert_int_equal(count, 4);
    assert_extent(&extents[0], 0, 100, CKPT_OPAQUE, -1);
    assert_extent(&extents[1], 100, 400, CKPT_BF16, 1);
    assert_extent(&extents[2], 500, 100, CKPT_F32, 0);
    assert_extent(&extents[3], 600, 400, CKPT_OPAQUE, -1);
    free(extents);
    tensor_file_clear(&file);
}

static void overlapping_tensors_are_one_extent_named_by_the_largest(void **state)
{
    tensor_file file = {0};
    extent *extents;
    size_t count;
    (void)state;
    add(&file, "low", CKPT_F64, 0, 10);
    add(&file, "large", CKPT_F32, 40, 100);
    add(&file, "inner", CKPT_U8, 100, 7);
    add(&file, "last", CKPT_F32, 436, 10);
    assert_int_equal(extents_make(&extents, &count, &file, 1000, NULL), 0);
    assert_int_equal(count, 2);
    assert_extent(&extents[0], 0, 476, CKPT_F32, 1);
    assert_extent(&extents[1], 476, 524, CKPT_OPAQUE, -1);
    free(extents);
    tensor_file_clear(&file);
}

static void a_largest_tensor_off_the_grid_gives_no_type(void **state)
{
    tensor_file file = {0};
    extent *extents;
    size_t count;
    (void)state;
    add(&file, "low", CKPT_U8, 1, 10);
    add(&file, "large", CKPT_F32, 4, 249);
    assert_int_equal(extents_make(&extents, &count, &file, 1000, NULL), 0);
    assert_int_equal(count, 2);
    assert_extent(&extents[1], 1, 999, CKPT_OPAQUE, 1);
    free(extents);
    tensor_file_clear(&file);
}

static void tied_tensors_are_one_extent_named_by_the_first(void **state)
{
    tensor_file file = {0};
    extent *extents;
    size_t count;
    (void)state;
    add(&file, "in", CKPT_F32, 0, 250);
    add(&file, "out", CKPT_F32, 0, 250);
    assert_int_equal(extents_make(&extents, &count, &file, 1000, NULL), 0);
    assert_int_equal(count, 1);
    assert_extent(&extents[0], 0, 1000, CKPT_F32, 0);
    free(extents);
    tensor_file_clear(&file);
}

static void a_tensor_without_elements_makes_no_extent(void **state)
{
    tensor_file file = {0};
    extent *extents;
    size_t count;
    (void)state;
    add(&file, "empty", CKPT_F32, 1000, 0);
    add(&file, "inside", CKPT_F32, 500, 0);
    assert_int_equal(extents_make(&extents, &count, &file, 1000, NULL), 0);
    assert_int_equal(count, 1);
    assert_extent(&extents[0], 0, 1000, CKPT_OPAQUE, -1);
    free(extents);
    tensor_file_clear(&file);
}

static void views_of_one_storage_of_a_real_file_are_one_extent(void **state)
{
    tensor_file file;
    extent *extents;
    size_t count;
    char why[256];
    input in = input_golden("cases/views.pt");
    (void)state;
    input_read(&file, why, in.data, in.size);
    assert_int_equal(extents_make(&extents, &count, &file, in.size, NULL), 0);
    /* Bytes, the storage of seven views, bytes, channels-last, bytes, the scalar, bytes. */
    assert_int_equal(count, 7);
    assert_int_equal(extents[1].size, 24 * 4);
    assert_int_equal(extents[3].size, 2 * 3 * 4 * 4 * 4);
    assert_int_equal(extents[5].size, 8);
    free(extents);
    tensor_file_clear(&file);
    input_free(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_without_tensors_is_one_extent_of_bytes),
        cmocka_unit_test(an_empty_file_has_no_extents),
        cmocka_unit_test(tensors_and_the_bytes_between_alternate),
        cmocka_unit_test(overlapping_tensors_are_one_extent_named_by_the_largest),
        cmocka_unit_test(a_largest_tensor_off_the_grid_gives_no_type),
        cmocka_unit_test(tied_tensors_are_one_extent_named_by_the_first),
        cmocka_unit_test(a_tensor_without_elements_makes_no_extent),
        cmocka_unit_test(views_of_one_storage_of_a_real_file_are_one_extent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
