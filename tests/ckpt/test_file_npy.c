/* .npy and .npz: headers well formed and not, members that cannot be used in place. */
#include "tensor_input.h"

/* Magic, version 1.0, length, header padded with blanks and a newline, then so many bytes of data. */
static input array_of(const char *header, size_t data_size)
{
    input in = {0};
    char length[2];
    char *data = calloc(1, data_size + 1);
    store_u16(length, (uint16_t)(strlen(header) + 1));
    INPUT_ADD_LITERAL(&in, "\x93NUMPY\1\0");
    input_add(&in, length, sizeof length);
    input_add(&in, header, strlen(header));
    INPUT_ADD_LITERAL(&in, "\n");
    input_add(&in, data, data_size);
    free(data);
    return in;
}

static void assert_array_refused(const char *header, size_t data_size, const char *why)
{
    input in = array_of(header, data_size);
    assert_refused(in.data, in.size, why);
    input_free(&in);
}

static tensor_file read_golden(const char *name)
{
    tensor_file file;
    char why[256];
    input in = input_golden(name);
    input_read(&file, why, in.data, in.size);
    assert_string_equal(why, "");
    input_free(&in);
    return file;
}

static void assert_array_read(const char *header, size_t data_size, ckpt_dtype dtype, unsigned rank)
{
    tensor_file file;
    char why[256];
    input in = array_of(header, data_size);
    input_read(&file, why, in.data, in.size);
    assert_string_equal(why, "");
    assert_int_equal(file.count, 1);
    assert_int_equal(file.tensors[0].dtype, dtype);
    assert_int_equal(file.tensors[0].rank, rank);
    assert_int_equal(file.tensors[0].offset, in.size - data_size);
    tensor_file_clear(&file);
    input_free(&in);
}

static void headers_of_any_spelling_are_read(void **state)
{
    (void)state;
    assert_array_read("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   ", 48, CKPT_F32, 2);
    assert_array_read("{'shape':(3,),'descr':'|u1','fortran_order':False}", 3, CKPT_U8, 1);
    assert_array_read("{\"descr\": \"<i8\", \"fortran_order\": True, \"shape\": ()}", 8, CKPT_I64, 0);
    assert_array_read("{'descr': '<f2', 'fortran_order': False, 'shape': (3L, 4L), }", 24, CKPT_F16, 2); /* Python 2 */
    assert_array_read("{'descr': '>i1', 'fortran_order': False, 'shape': (0, 4)}", 0, CKPT_I8, 2);
}

static void arrays_of_one_file_behind_each_other_are_read_as_the_first(void **state)
{
    (void)state;
    tensor_file file;
    char why[256];
    input in = array_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 12);
    INPUT_ADD_LITERAL(&in, "\x93NUMPY\1\0 more");
    input_read(&file, why, in.data, in.size);
    assert_int_equal(file.count, 1);
    tensor_file_clear(&file);
    input_free(&in);
}

static void objects_records_and_big_endian_numbers_are_refused(void **state)
{
    static const char *const NAMES[] = {"cases/object.npy", "cases/record.npy", "cases/big_endian.npy"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        input in = input_golden(NAMES[i]);
        assert_refused(in.data, in.size, "not plain");
        input_free(&in);
    }
}

static void malformed_headers_are_refused(void **state)
{
    (void)state;
    assert_array_refused("", 4, "not a dictionary");
    assert_array_refused("{'descr': '<f4', 'fortran_order': False}", 4, "lacks a key");
    assert_array_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'extra': 1}", 4, "wrong key");
    assert_array_refused("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': ()}", 4, "wrong key");
    assert_array_refused("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", 4, "no order");
    assert_array_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4, "no shape");
    assert_array_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", 4, "no shape");
    assert_array_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 4, "no shape");
    assert_array_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", 4,
                         "no shape");
    assert_array_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", 4, "goes on");
    assert_array_refused("{'descr': '<f4\\x00', 'fortran_order': False, 'shape': (1,)}", 4, "not plain");
    assert_array_refused("{'descr': '?f4', 'fortran_order': False, 'shape': (1,)}", 4, "byte order");
    assert_array_refused("{'descr' '<f4'}", 4, "no key");
}

static void a_shape_that_overflows_or_exceeds_the_file_is_refused(void **state)
{
    (void)state;
    assert_array_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 4, "overflows");
    assert_array_refused("{'descr': '<f4', 'fortran_order': True, 'shape': (4294967296, 4294967296)}", 4, "overflows");
    assert_array_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7, "ends inside of its data");
}

static void unknown_versions_and_long_headers_are_refused(void **state)
{
    (void)state;
    assert_refused("\x93NUMPY\4\0\0\0\0\0", 12, "version 4");
    assert_refused("\x93NUMPY\2\0\0\0\0\1\0\0\0\0\0\0", 18, "too long");
    assert_refused("\x93NUMPY\1\0\xff\0{}", 12, "too long");
    assert_refused("\x93NUMPY\1\0", 8, "ends inside");
}

static void packed_members_are_no_tensors_and_the_archive_still_reads(void **state)
{
    (void)state;
    tensor_file file = read_golden("cases/compressed.npz");
    assert_string_equal(file.format, "npz");
    assert_int_equal(file.count, 0);
    tensor_file_clear(&file);
}

static void members_without_plain_numbers_are_left_out(void **state)
{
    (void)state;
    tensor_file file = read_golden("cases/mixed.npz");
    assert_int_equal(file.count, 3); /* of four: one holds objects */
    assert_string_equal(file.tensors[0].name, "plain");
    assert_string_equal(file.tensors[1].name, "fortran");
    assert_false(file.tensors[1].contiguous);
    tensor_file_clear(&file);
}

static void encrypted_members_are_left_out(void **state)
{
    zip_build zip = {0};
    tensor_file file;
    char why[256];
    input array = array_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 12);
    (void)state;
    zip_add(&zip, "secret.npy", array.data, array.size, 0, 1);
    zip_add(&zip, "open.npy", array.data, array.size, 0, 0);
    zip_add(&zip, "notes.txt", "text", 4, 0, 0);
    input archive = zip_finish(&zip);
    input_read(&file, why, archive.data, archive.size);
    assert_string_equal(file.format, "npz");
    assert_int_equal(file.count, 1);
    assert_string_equal(file.tensors[0].name, "open");
    tensor_file_clear(&file);
    input_free(&archive);
    input_free(&array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_of_any_spelling_are_read),
        cmocka_unit_test(arrays_of_one_file_behind_each_other_are_read_as_the_first),
        cmocka_unit_test(objects_records_and_big_endian_numbers_are_refused),
        cmocka_unit_test(malformed_headers_are_refused),
        cmocka_unit_test(a_shape_that_overflows_or_exceeds_the_file_is_refused),
        cmocka_unit_test(unknown_versions_and_long_headers_are_refused),
        cmocka_unit_test(packed_members_are_no_tensors_and_the_archive_still_reads),
        cmocka_unit_test(members_without_plain_numbers_are_left_out),
        cmocka_unit_test(encrypted_members_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
