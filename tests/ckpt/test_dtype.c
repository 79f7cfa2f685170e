/* Types of elements: the numbers are part of the format, so the table is spelled out here a second time. */
#include "tensor_input.h"

static void every_number_has_its_name_and_size(void **state)
{
    static const struct {
        int number;
        const char *name;
        size_t size;
    } EXPECTED[] = {
        {0, "opaque", 1}, {1, "bool", 1}, {2, "u8", 1},   {3, "i8", 1},     {4, "u16", 2},      {5, "i16", 2},
        {6, "u32", 4},    {7, "i32", 4},  {8, "u64", 8},  {9, "i64", 8},    {10, "f16", 2},     {11, "bf16", 2},
        {12, "f32", 4},   {13, "f64", 8}, {14, "c64", 8}, {15, "c128", 16}, {16, "f8_e4m3", 1}, {17, "f8_e5m2", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof EXPECTED / sizeof EXPECTED[0]; i++) {
        assert_string_equal(ckpt_dtype_name((ckpt_dtype)EXPECTED[i].number), EXPECTED[i].name);
        assert_int_equal(ckpt_dtype_size((ckpt_dtype)EXPECTED[i].number), EXPECTED[i].size);
    }
}

static void a_number_that_is_not_in_the_list_has_no_name(void **state)
{
    (void)state;
    assert_null(ckpt_dtype_name((ckpt_dtype)18));
    assert_null(ckpt_dtype_name((ckpt_dtype)-1));
    assert_int_equal(ckpt_dtype_size((ckpt_dtype)18), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_its_name_and_size),
        cmocka_unit_test(a_number_that_is_not_in_the_list_has_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
