/* safetensors: what is well formed, what is not, and the header that we write. The malformed cases are those of the
 * reference parser's own tests, with bytes of our own. */
#include "tensor_input.h"

#define CONTAINS(text) (text), (sizeof(text) - 1)

/* size, header, and so many bytes of buffer */
static input file_of(const char *header, size_t buffer_size)
{
    input in = {0};
    char prefix[8];
    char *buffer = calloc(1, buffer_size + 1);
    store_u64(prefix, strlen(header));
    input_add(&in, prefix, sizeof prefix);
    input_add(&in, header, strlen(header));
    input_add(&in, buffer, buffer_size);
    free(buffer);
    return in;
}

static void assert_header_refused(const char *header, size_t buffer_size, const char *why)
{
    input in = file_of(header, buffer_size);
    assert_refused(in.data, in.size, why);
    input_free(&in);
}

static tensor_file assert_header_read(const char *header, size_t buffer_size, size_t count)
{
    tensor_file file;
    char why[256];
    input in = file_of(header, buffer_size);
    input_read(&file, why, in.data, in.size);
    assert_string_equal(why, "");
    assert_string_equal(file.format, "safetensors");
    assert_int_equal(file.count, count);
    input_free(&in);
    return file;
}

/* ---- Well formed ------------------------------------------------------------------------------------------------ */

static void a_tensor_has_its_name_type_shape_and_place(void **state)
{
    (void)state;
    tensor_file file =
        assert_header_read("{\"a.b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]}}", 12, 1);
    const tensor_view *view = &file.tensors[0];
    assert_string_equal(view->name, "a.b");
    assert_int_equal(view->dtype, CKPT_BF16);
    assert_int_equal(view->rank, 2);
    assert_int_equal(view->shape[0], 2);
    assert_int_equal(view->shape[1], 3);
    assert_int_equal(view->offset, 8 + 60);
    assert_int_equal(view->span_bytes, 12);
    assert_true(view->contiguous);
    tensor_file_clear(&file);
}

static void white_space_around_the_header_is_legal(void **state)
{
    (void)state;
    tensor_file file =
        assert_header_read("\t\n {\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}} \r\n  ", 1, 1);
    tensor_file_clear(&file);
}

static void a_tensor_without_elements_is_legal(void **state)
{
    (void)state;
    tensor_file file = assert_header_read("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,0],\"data_offsets\":[0,0]}}", 0, 1);
    assert_int_equal(file.tensors[0].span_bytes, 0);
    tensor_file_clear(&file);
}

static void a_header_without_tensors_is_legal(void **state)
{
    (void)state;
    tensor_file file = assert_header_read("{}", 0, 0);
    tensor_file_clear(&file);
}

static void tensors_may_stand_in_any_order(void **state)
{
    (void)state;
    tensor_file file = assert_header_read("{\"second\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]},"
                                          "\"first\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                                          5, 2);
    assert_string_equal(file.tensors[0].name, "second");
    assert_int_equal(file.tensors[0].offset, file.tensors[1].offset + 2);
    tensor_file_clear(&file);
}

static void metadata_are_values_beside_the_tensors(void **state)
{
    (void)state;
    tensor_file file = assert_header_read("{\"__metadata__\":{\"format\":\"pt\",\"note\":\"a\\nb\"}}", 0, 0);
    assert_int_equal(file.value_count, 2);
    assert_string_equal(file.values[0].key, "format");
    assert_string_equal(file.values[0].value, "pt");
    assert_string_equal(file.values[1].value, "a\nb");
    tensor_file_clear(&file);
}

static void metadata_that_are_null_are_none(void **state)
{
    (void)state;
    tensor_file file = assert_header_read("{\"__metadata__\":null}", 0, 0);
    assert_int_equal(file.value_count, 0);
    tensor_file_clear(&file);
}

static void a_tensor_without_elements_may_lie_between_others_but_not_inside(void **state)
{
    (void)state;
#define TWO_AND_NONE(place)                                                                                            \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"                                                  \
    "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[" place "]}}"
    tensor_file file = assert_header_read(TWO_AND_NONE("2,2"), 2, 2);
    tensor_file_clear(&file);
    input in = file_of(TWO_AND_NONE("1,1"), 2);
    assert_refused(in.data, in.size, "begins before the tensor before it ends");
    input_free(&in);
}

static void a_tensor_of_a_newer_type_is_left_out_and_the_rest_is_read(void **state)
{
    (void)state;
    tensor_file file = assert_header_read("{\"new\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[0,3]},"
                                          "\"old\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
                                          5, 1);
    assert_string_equal(file.tensors[0].name, "old");
    tensor_file_clear(&file);
}

/* ---- Malformed -------------------------------------------------------------------------------------------------- */

static void a_header_larger_than_100_mb_is_refused(void **state)
{
    (void)state;
    assert_refused(CONTAINS("\x01\xe1\xf5\x05\0\0\0\0{}"), "is too large"); /* 100,000,001 bytes */
    assert_refused(CONTAINS("\0\xe1\xf5\x05\0\0\0\0{}"), "is longer than the file");
    assert_refused(CONTAINS("\0\0\0\0\0\0\0\x80{}"), "is too large");
    assert_refused(CONTAINS("\xff\xff\xff\xff\xff\xff\xff\x0f{}"), "is too large");
}

static void a_header_longer_than_the_file_is_refused(void **state)
{
    (void)state;
    assert_refused(CONTAINS("\x3c\0\0\0\0\0\0\0{}"), "is longer than the file");
}

static void a_header_that_is_not_utf8_is_refused(void **state)
{
    (void)state;
    assert_header_refused("{\"\xff\":{}}", 0, "header");
}

static void a_header_that_is_not_json_is_refused(void **state)
{
    (void)state;
    assert_header_refused("{ ", 0, "header");
    assert_header_refused("{}}", 0, "header");
    assert_header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", 1, "header");
}

static void bytes_behind_the_last_tensor_are_refused(void **state)
{
    (void)state;
    assert_header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 10,
                          "6 bytes belong to no tensor");
}

static void a_buffer_that_is_2_bytes_short_is_refused(void **state)
{
    (void)state;
    assert_header_refused("{\"a\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 14,
                          "outside of the file");
}

static void ten_names_for_one_range_are_refused(void **state)
{
    (void)state;
    input header = {0};
    char entry[] = "\"0\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},";
    INPUT_ADD_LITERAL(&header, "{");
    for (char c = '0'; c <= '9'; c++) {
        entry[1] = c;
        input_add(&header, entry, sizeof entry - 1);
    }
    header.data[header.size - 1] = '}';
    INPUT_ADD_LITERAL(&header, "\0");
    assert_header_refused(header.data, 16, "begins before the tensor before it ends");
    input_free(&header);
}

static void a_hole_between_tensors_is_refused(void **state)
{
    (void)state;
    assert_header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                          "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
                          3, "begins after the tensor before it ends");
}

static void a_shape_that_disagrees_with_the_offsets_is_refused(void **state)
{
    (void)state;
    assert_header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,15]}}", 15, "disagree");
    assert_header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,16]}}", 16, "disagree");
}

static void a_shape_whose_product_overflows_is_refused(void **state)
{
    (void)state;
    assert_header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4],\"data_offsets\":[0,16]}}", 16,
                          "overflows");
    assert_header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,16]}}", 16,
                          "overflows");
    assert_header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551615],\"data_offsets\":[0,16]}}", 16,
                          "header");
}

static void two_tensors_of_one_name_are_refused(void **state)
{
    (void)state;
    assert_header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                          "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                          2, "duplicate");
}

static void members_of_wrong_types_are_refused(void **state)
{
    (void)state;
    assert_header_refused("{\"a\":1}", 0, "has no dtype");
    assert_header_refused("{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "has no dtype");
    assert_header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "has no shape");
    assert_header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, "not a count");
    assert_header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, "not a count");
    assert_header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "not a pair");
    assert_header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, "outside of the file");
    assert_header_refused("{\"__metadata__\":[]}", 0, "metadata");
    assert_header_refused("{\"__metadata__\":{\"a\":1}}", 0, "not text");
    assert_header_refused("{\"a\\u001b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "not text");
}

static void more_dimensions_than_we_have_room_for_are_refused(void **state)
{
    (void)state;
    assert_header_refused(
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
        "over 16 dimensions");
}

static void deep_nesting_and_millions_of_values_are_refused(void **state)
{
    const size_t size = 4u << 20;
    input header = {0};
    (void)state;
    char *text = malloc(size + 1);
    memset(text, '[', size);
    text[size] = 0;
    INPUT_ADD_LITERAL(&header, "{\"a\":");
    input_add(&header, text, size + 1);
    assert_header_refused(header.data, 0, "too many values");
    header.data[header.size - 1 - (size - 100000)] = 0;
    assert_header_refused(header.data, 0, "header");
    free(text);
    input_free(&header);
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

static unsigned char DATA[32]; /* the writer of a header does not look at it */

static void a_written_header_reads_as_what_was_given(void **state)
{
    const ckpt_tensor tensors[] = {
        {.name = "a \"quoted\" \xc3\xa4", .dtype = CKPT_F32, .rank = 2, .shape = {2, 3}, .data = DATA},
        {.name = "scalar", .dtype = CKPT_I64, .data = DATA},
        {.name = "empty", .dtype = CKPT_BF16, .rank = 1, .shape = {0}},
    };
    const ckpt_value values[] = {{"step", "7"}, {"note", "two\nlines"}};
    tensor_file file;
    char why[256], *header;
    size_t header_size;
    input in = {0};
    (void)state;

    assert_int_equal(safetensors_header(&header, &header_size, tensors, 3, values, 2, NULL), 0);
    assert_int_equal(header_size % 8, 0);
    assert_int_equal(header[8], '{');
    input_add(&in, header, header_size);
    input_add(&in, (char[32]){0}, 32);
    input_read(&file, why, in.data, in.size);
    assert_string_equal(why, "");
    assert_int_equal(file.count, 3);
    assert_string_equal(file.tensors[0].name, tensors[0].name);
    assert_int_equal(file.tensors[0].offset, header_size);
    assert_int_equal(file.tensors[0].shape[1], 3);
    assert_int_equal(file.tensors[1].offset, header_size + 24);
    assert_int_equal(file.tensors[1].rank, 0);
    assert_int_equal(file.tensors[2].span_bytes, 0);
    assert_string_equal(file.values[1].value, "two\nlines");
    tensor_file_clear(&file);
    input_free(&in);
    free(header);
}

static void the_written_header_is_what_the_format_asks_for(void **state)
{
    /* As the description of the format has it, blanks up to a multiple of 8. */
    const char expected[] = "\x38\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F16\",\"shape\":[5],\"data_offsets\":[0,10]}} ";
    const ckpt_tensor tensor = {.name = "w", .dtype = CKPT_F16, .rank = 1, .shape = {5}, .data = DATA};
    char *header;
    size_t header_size;
    (void)state;
    assert_int_equal(safetensors_header(&header, &header_size, &tensor, 1, NULL, 0, NULL), 0);
    assert_int_equal(header_size, sizeof expected - 1);
    assert_memory_equal(header, expected, header_size);
    free(header);
}

static void assert_not_written(const ckpt_tensor *tensors, size_t count, const char *expected)
{
    char *header;
    size_t header_size;
    ckpt_error err = {0};
    assert_int_equal(safetensors_header(&header, &header_size, tensors, count, NULL, 0, &err), CKPT_EUSAGE);
    assert_null(header);
    if (!strstr(err.message, expected))
        fail_msg("'%s' does not hold '%s'", err.message, expected);
}

static void what_the_format_cannot_hold_is_not_written(void **state)
{
    const ckpt_tensor twice[] = {{.name = "a", .dtype = CKPT_U8, .data = DATA},
                                 {.name = "a", .dtype = CKPT_U8, .data = DATA}};
    (void)state;
    assert_not_written(twice, 2, "two tensors are named 'a'");
    assert_not_written(&(ckpt_tensor){.name = "a", .dtype = CKPT_U8}, 1, "a: has no data");
    assert_not_written(&(ckpt_tensor){.name = "__metadata__", .dtype = CKPT_U8, .data = DATA}, 1, "cannot be the name");
    assert_not_written(&(ckpt_tensor){.name = "", .dtype = CKPT_U8, .data = DATA}, 1, "cannot be the name");
    assert_not_written(&(ckpt_tensor){.name = "\xff", .dtype = CKPT_U8, .data = DATA}, 1, "cannot be the name");
    assert_not_written(&(ckpt_tensor){.name = "a", .dtype = CKPT_C128}, 1, "no type c128");
    assert_not_written(&(ckpt_tensor){.name = "a", .dtype = CKPT_OPAQUE}, 1, "no type opaque");
    assert_not_written(&(ckpt_tensor){.name = "a", .dtype = CKPT_U8, .rank = 17}, 1, "over 16 dimensions");
    assert_not_written(&(ckpt_tensor){.name = "a", .dtype = CKPT_U8, .rank = 2, .shape = {UINT64_MAX, 2}}, 1,
                       "overflows");
}

static void a_value_without_name_or_text_is_not_written(void **state)
{
    const ckpt_value nameless = {NULL, "text"}, textless = {"epoch", NULL};
    char *header;
    size_t header_size;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(safetensors_header(&header, &header_size, NULL, 0, &nameless, 1, &err), CKPT_EUSAGE);
    assert_string_equal(err.message, "value '' has no name");
    assert_int_equal(safetensors_header(&header, &header_size, NULL, 0, &textless, 1, &err), CKPT_EUSAGE);
    assert_string_equal(err.message, "value 'epoch' has no text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_has_its_name_type_shape_and_place),
        cmocka_unit_test(white_space_around_the_header_is_legal),
        cmocka_unit_test(a_tensor_without_elements_is_legal),
        cmocka_unit_test(a_header_without_tensors_is_legal),
        cmocka_unit_test(tensors_may_stand_in_any_order),
        cmocka_unit_test(metadata_are_values_beside_the_tensors),
        cmocka_unit_test(metadata_that_are_null_are_none),
        cmocka_unit_test(a_tensor_without_elements_may_lie_between_others_but_not_inside),
        cmocka_unit_test(a_tensor_of_a_newer_type_is_left_out_and_the_rest_is_read),
        cmocka_unit_test(a_header_larger_than_100_mb_is_refused),
        cmocka_unit_test(a_header_longer_than_the_file_is_refused),
        cmocka_unit_test(a_header_that_is_not_utf8_is_refused),
        cmocka_unit_test(a_header_that_is_not_json_is_refused),
        cmocka_unit_test(bytes_behind_the_last_tensor_are_refused),
        cmocka_unit_test(a_buffer_that_is_2_bytes_short_is_refused),
        cmocka_unit_test(ten_names_for_one_range_are_refused),
        cmocka_unit_test(a_hole_between_tensors_is_refused),
        cmocka_unit_test(a_shape_that_disagrees_with_the_offsets_is_refused),
        cmocka_unit_test(a_shape_whose_product_overflows_is_refused),
        cmocka_unit_test(two_tensors_of_one_name_are_refused),
        cmocka_unit_test(members_of_wrong_types_are_refused),
        cmocka_unit_test(more_dimensions_than_we_have_room_for_are_refused),
        cmocka_unit_test(deep_nesting_and_millions_of_values_are_refused),
        cmocka_unit_test(a_written_header_reads_as_what_was_given),
        cmocka_unit_test(the_written_header_is_what_the_format_asks_for),
        cmocka_unit_test(what_the_format_cannot_hold_is_not_written),
        cmocka_unit_test(a_value_without_name_or_text_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
