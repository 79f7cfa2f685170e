/* PyTorch archives put together by hand: what recent versions write, what lies, and what attacks. */
#include "tensor_input.h"

#include <stdio.h>
#include <unistd.h>

/* Pieces of pickles, in the notation of pickletools. STORAGE is ("storage", class, "0", "cpu", elements) as an id. */
#define STORAGE(module_and_class, elements)                                                                            \
    "(X\7\0\0\0storagec" module_and_class "\nX\1\0\0\0"                                                                \
    "0X\3\0\0\0cpu" elements "tQ"
#define REBUILD_V2 "ctorch._utils\n_rebuild_tensor_v2\n"
#define REBUILD_V3 "ctorch._utils\n_rebuild_tensor_v3\n"
#define TENSOR(class, elements, offset, shape, stride)                                                                 \
    REBUILD_V2 "(" STORAGE("torch\n" class, elements) offset shape stride "\x89)tR"
#define PLAIN TENSOR("FloatStorage", "K\4", "K\0", "K\4\x85", "K\1\x85")
#define KEY_A "X\1\0\0\0a"

static void archive_read(tensor_file *file, char why[256], const void *pickle, size_t size, size_t storage_size)
{
    input in = torch_archive(pickle, size, storage_size);
    input_read(file, why, in.data, in.size);
    input_free(&in);
}

static void assert_pickle_refused(const void *pickle, size_t size, const char *expected)
{
    input in = torch_archive(pickle, size, 16);
    assert_refused(in.data, in.size, expected);
    input_free(&in);
}

#define ASSERT_REFUSED(literal, expected) assert_pickle_refused((literal), sizeof(literal) - 1, (expected))

/* The pickle is read and has so many tensors. */
static tensor_file assert_pickle_read(const void *pickle, size_t size, size_t count)
{
    tensor_file file;
    char why[256];
    archive_read(&file, why, pickle, size, 16);
    assert_string_equal(why, "");
    assert_string_equal(file.format, "torch");
    assert_int_equal(file.count, count);
    return file;
}

#define READ(literal, count) assert_pickle_read((literal), sizeof(literal) - 1, (count))

static void assert_has_none(const void *pickle, size_t size)
{
    tensor_file file = assert_pickle_read(pickle, size, 0);
    tensor_file_clear(&file);
}

#define ASSERT_HAS_NONE(literal) assert_has_none((literal), sizeof(literal) - 1)

/* ---- What is read ----------------------------------------------------------------------------------------------- */

static void a_tensor_lies_in_the_member_of_its_storage(void **state)
{
    (void)state;
    tensor_file file = READ("\x80\2}" KEY_A TENSOR("HalfStorage", "K\x8", "K\2", "K\3\x85", "K\2\x85") "s.", 1);
    const tensor_view *view = &file.tensors[0];
    assert_string_equal(view->name, "a");
    assert_int_equal(view->dtype, CKPT_F16);
    assert_int_equal(view->stride[0], 2);
    assert_false(view->contiguous);
    assert_int_equal(view->span_bytes, 10);
    tensor_file_clear(&file);
}

static void untyped_storages_take_the_type_of_version_3(void **state)
{
    (void)state;
    tensor_file file =
        READ("\x80\2}" KEY_A REBUILD_V3
             "(" STORAGE("torch.storage\nUntypedStorage", "K\x10") "K\1K\7\x85K\1\x85\x89)ctorch\nuint16\nNtRs.",
             1);
    assert_int_equal(file.tensors[0].dtype, CKPT_U16);
    assert_int_equal(file.tensors[0].span_bytes, 14);
    tensor_file_clear(&file);
}

static void eight_bit_floats_are_read(void **state)
{
    (void)state;
    tensor_file file =
        READ("\x80\2}" KEY_A REBUILD_V3
             "(" STORAGE("torch\nUntypedStorage", "K\x10") "K\0K\x10\x85K\1\x85\x89)ctorch\nfloat8_e4m3fn\nNtRs.",
             1);
    assert_int_equal(file.tensors[0].dtype, CKPT_F8_E4M3);
    tensor_file_clear(&file);
}

static void subclasses_and_parameters_are_read_as_what_they_hold(void **state)
{
    (void)state;
    tensor_file file =
        READ("\x80\2}" KEY_A "ctorch._utils\n_rebuild_parameter\n("
             "ctorch._tensor\n_rebuild_from_type_v2\n(" REBUILD_V2
             "cmine\nTensor\n(" STORAGE("torch\nFloatStorage", "K\4") "K\0K\4\x85K\1\x85\x89)t}tR\x88)tRs.",
             1);
    assert_int_equal(file.tensors[0].dtype, CKPT_F32);
    tensor_file_clear(&file);
}

static void an_ordered_dict_of_python_2_is_walked(void **state)
{
    (void)state;
    tensor_file file = READ("\x80\2ccollections\nOrderedDict\n](](" KEY_A PLAIN "ee\x85R.", 1);
    assert_string_equal(file.tensors[0].name, "a");
    tensor_file_clear(&file);
}

static void attributes_of_unknown_objects_are_names(void **state)
{
    (void)state;
    tensor_file file = READ("\x80\2cmine\nTrainer\n)\x81}" KEY_A PLAIN "sb.", 1);
    assert_string_equal(file.tensors[0].name, "a");
    tensor_file_clear(&file);
}

static void numbers_that_are_conjugated_on_reading_are_left_out(void **state)
{
    (void)state;
#define WITH_METADATA(items)                                                                                           \
    "\x80\2}" KEY_A REBUILD_V2 "(" STORAGE("torch\nComplexFloatStorage", "K\2") "K\0K\2\x85K\1\x85\x89N}" items "tRs."
    ASSERT_HAS_NONE(WITH_METADATA("X\4\0\0\0conj\x88s"));
    tensor_file file = READ(WITH_METADATA(""), 1);
    tensor_file_clear(&file);
}

static void unknown_parts_of_a_sparse_tensor_are_left_out(void **state)
{
    (void)state;
    ASSERT_HAS_NONE("\x80\2}" KEY_A "ctorch._utils\n_rebuild_sparse_tensor\n("
                    "ctorch.serialization\n_get_layout\nX\4\0\0\0cone\x85R(" PLAIN PLAIN ")ttRs.");
    ASSERT_HAS_NONE("\x80\2}" KEY_A "ctorch._utils\n_rebuild_sparse_tensor\n(NNtRs.");
    ASSERT_HAS_NONE("\x80\2}" KEY_A "ctorch._utils\n_rebuild_sparse_tensor\nNRs.");
}

static void a_cycle_is_walked_once(void **state)
{
    (void)state;
    tensor_file file = READ("\x80\2}q\0(" KEY_A PLAIN "X\4\0\0\0selfh\0u.", 1);
    assert_string_equal(file.tensors[0].name, "a");
    tensor_file_clear(&file);
}

static void a_crc_of_0_is_no_damage(void **state)
{
    (void)state;
    tensor_file file = READ("\x80\2" PLAIN ".", 1); /* torch_archive() writes no CRC at all */
    assert_string_equal(file.tensors[0].name, "tensor");
    tensor_file_clear(&file);
}

/* ---- What is left out ------------------------------------------------------------------------------------------- */

static void keys_that_are_no_names_are_left_out(void **state)
{
    (void)state;
    ASSERT_HAS_NONE("\x80\2}N" PLAIN "s.");
    ASSERT_HAS_NONE("\x80\2}X\2\0\0\0a\n" PLAIN "s.");
    ASSERT_HAS_NONE("\x80\2}X\2\0\0\0a\0" PLAIN "s.");
    ASSERT_HAS_NONE("\x80\2}X\2\0\0\0\xff\xfe" PLAIN "s.");
    ASSERT_HAS_NONE("\x80\2}X\0\0\0\0" PLAIN "s.");
}

static void tensors_of_unknown_kinds_are_left_out(void **state)
{
    (void)state;
    ASSERT_HAS_NONE("\x80\2}" KEY_A TENSOR("QInt8Storage", "K\4", "K\0", "K\4\x85", "K\1\x85") "s.");
    ASSERT_HAS_NONE("\x80\2}" KEY_A "ctorch._utils\n_rebuild_qtensor\n(" STORAGE(
        "torch\nFloatStorage", "K\4") "K\0K\4\x85K\1\x85NNNtRs."); /* codes in a storage of other numbers */
    ASSERT_HAS_NONE(
        "\x80\2}" KEY_A TENSOR("FloatStorage", "K\1", "K\0", "M\xff\xff\x85", "K\0\x85") "s."); /* expanded */
}

/* ---- What lies -------------------------------------------------------------------------------------------------- */

static void tensors_outside_of_their_storage_are_refused(void **state)
{
    (void)state;
    ASSERT_REFUSED("\x80\2}" KEY_A TENSOR("FloatStorage", "K\4", "K\1", "K\4\x85", "K\1\x85") "s.",
                   "outside of its storage");
    ASSERT_REFUSED("\x80\2}" KEY_A TENSOR("FloatStorage", "K\4", "K\0", "K\4\x85", "K\2\x85") "s.",
                   "outside of its storage");
    ASSERT_REFUSED("\x80\2}" KEY_A TENSOR("FloatStorage", "K\5", "K\0", "K\5\x85", "K\1\x85") "s.",
                   "shorter than its tensors");
    ASSERT_REFUSED("\x80\2}" KEY_A TENSOR("FloatStorage", "K\4", "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f", "K\4\x85",
                                          "K\1\x85") "s.",
                   "outside of its storage");
}

static void negative_and_overflowing_numbers_are_refused(void **state)
{
    (void)state;
    ASSERT_REFUSED("\x80\2}" KEY_A TENSOR("FloatStorage", "K\4", "K\3", "K\4\x85", "J\xff\xff\xff\xff\x85") "s.",
                   "not a count");
    ASSERT_REFUSED("\x80\2}" KEY_A TENSOR("FloatStorage", "K\4", "K\0", "J\xff\xff\xff\xff\x85", "K\1\x85") "s.",
                   "not a count");
    ASSERT_REFUSED("\x80\2}" KEY_A TENSOR("FloatStorage", "K\4", "J\xff\xff\xff\xff", "K\4\x85", "K\1\x85") "s.",
                   "not a count");
    ASSERT_REFUSED(
        "\x80\2}" KEY_A TENSOR("FloatStorage", "K\4", "K\0", "\x8a\x8\0\0\0\0\0\0\0\x40\x85", "K\1\x85") "s.",
        "overflows");
    ASSERT_REFUSED("\x80\2}" KEY_A TENSOR("FloatStorage", "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f", "K\0", "K\4\x85",
                                          "K\1\x85") "s.",
                   "no size");
}

static void tensors_without_their_parts_are_refused(void **state)
{
    (void)state;
    ASSERT_REFUSED("\x80\2}" KEY_A REBUILD_V2 ")Rs.", "no storage");
    ASSERT_REFUSED("\x80\2}" KEY_A REBUILD_V2 "NRs.", "no storage");
    ASSERT_REFUSED("\x80\2}" KEY_A TENSOR("FloatStorage", "K\4", "K\0", "K\4\x85", ")") "s.", "no shape");
    ASSERT_REFUSED("\x80\2}" KEY_A TENSOR("FloatStorage", "N", "K\0", "K\4\x85", "K\1\x85") "s.", "no size");
}

static void a_refusal_names_the_pickle_and_the_tensor(void **state)
{
    (void)state;
    ASSERT_REFUSED("\x80\2\xff.", "data.pkl: opcode 0xff at 2: ");
    ASSERT_REFUSED("\x80\2}" KEY_A REBUILD_V2 "NRs.", "data.pkl: a: a tensor has no storage");
}

/* ---- Archives --------------------------------------------------------------------------------------------------- */

static const char PICKLE[] = "\x80\2}" KEY_A PLAIN "s.";

static input archive_with(const char *member, const char *content, unsigned method, unsigned flags)
{
    zip_build zip = {0};
    zip_add(&zip, "a/data.pkl", PICKLE, sizeof PICKLE - 1, 0, 0);
    zip_add(&zip, member, content, 16, method, flags);
    return zip_finish(&zip);
}

static void assert_archive_refused(const char *member, const char *content, unsigned method, unsigned flags,
                                   const char *expected)
{
    input in = archive_with(member, content, method, flags);
    assert_refused(in.data, in.size, expected);
    input_free(&in);
}

static void archives_that_cannot_be_used_in_place_are_refused(void **state)
{
    const char zeros[16] = {0};
    (void)state;
    assert_archive_refused("a/data/1", zeros, 0, 0, "storage is not in the archive");
    assert_archive_refused("b/data/0", zeros, 0, 0, "storage is not in the archive");
    assert_archive_refused("a/data/0", zeros, 8, 0, "is compressed");
    assert_archive_refused("a/data/0", zeros, 0, 1, "is encrypted");
    assert_archive_refused("a/byteorder", "bigbigbigbigbig", 0, 0, "not little-endian");
    assert_archive_refused("a/code/model.py", zeros, 0, 0, "TorchScript");
    assert_archive_refused("a/constants.pkl", zeros, 0, 0, "TorchScript");
    assert_archive_refused("b/data.pkl", zeros, 0, 0, "two data.pkl");
    assert_archive_refused("a/data.pkl", zeros, 0, 0, "two data.pkl");
}

static void a_big_endian_archive_is_refused(void **state)
{
    zip_build zip = {0};
    (void)state;
    zip_add(&zip, "a/data.pkl", PICKLE, sizeof PICKLE - 1, 0, 0);
    zip_add(&zip, "a/byteorder", "big", 3, 0, 0);
    zip_add(&zip, "a/data/0", "0123456789abcdef", 16, 0, 0);
    input in = zip_finish(&zip);
    assert_refused(in.data, in.size, "not little-endian");
    input_free(&in);
}

static void assert_golden_refused(const char *name, const char *expected)
{
    input in = input_golden(name);
    assert_refused(in.data, in.size, expected);
    input_free(&in);
}

static void programs_are_refused_with_advice(void **state)
{
    (void)state;
    assert_golden_refused("cases/script.pt", "a TorchScript archive; save the state_dict");
    assert_golden_refused("cases/program.pt2", "a PT2 archive of torch.export; save the state_dict");
}

/* ---- Before 1.6 ------------------------------------------------------------------------------------------------- */

#define LEGACY_START                                                                                                   \
    "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."                                                          \
    "\x80\2M\xe9\3."                                                                                                   \
    "\x80\2}."
#define LEGACY_KEYS                                                                                                    \
    "\x80\2]X\1\0\0\0"                                                                                                 \
    "0a."
#define LEGACY_STORAGE                                                                                                 \
    "\4\0\0\0\0\0\0\0"                                                                                                 \
    "0123456789abcdef"
#define STORAGE_PART(first, count)                                                                                     \
    "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"                                                                 \
    "0X\3\0\0\0cpuK\4(X\4\0\0\0part" first count "ttQ"
#define PART_TENSOR(first, count) "\x80\2}" KEY_A REBUILD_V2 "(" STORAGE_PART(first, count) "K\1K\1\x85K\1\x85\x89)tRs."

#define ASSERT_BYTES_REFUSED(literal, expected) assert_refused((literal), sizeof(literal) - 1, (expected))

static void a_part_of_a_storage_begins_where_it_says(void **state)
{
    static const char BYTES[] = LEGACY_START PART_TENSOR("K\2", "K\2") LEGACY_KEYS LEGACY_STORAGE;
    tensor_file file;
    char why[256];
    (void)state;
    input_read(&file, why, BYTES, sizeof BYTES - 1);
    assert_string_equal(why, "");
    assert_int_equal(file.count, 1);
    assert_memory_equal(BYTES + file.tensors[0].offset, "cdef", 4); /* element 2 + 1 of 4 bytes each */
    tensor_file_clear(&file);
}

static void parts_outside_of_their_storage_are_refused(void **state)
{
    (void)state;
    ASSERT_BYTES_REFUSED(LEGACY_START PART_TENSOR("K\2", "K\3") LEGACY_KEYS LEGACY_STORAGE, "lies outside of it");
    ASSERT_BYTES_REFUSED(LEGACY_START PART_TENSOR("K\2", "K\1") LEGACY_KEYS LEGACY_STORAGE, "outside of its storage");
    ASSERT_BYTES_REFUSED(LEGACY_START PART_TENSOR("\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f", "K\1")
                             LEGACY_KEYS LEGACY_STORAGE,
                         "lies outside of it");
}

static void storages_that_are_not_as_the_pickle_says_are_refused(void **state)
{
    (void)state;
#define STATE "\x80\2}" KEY_A PLAIN "s."
    ASSERT_BYTES_REFUSED(LEGACY_START STATE LEGACY_KEYS "\5\0\0\0\0\0\0\0"
                                                        "0123456789abcdefghij",
                         "has another size");
    ASSERT_BYTES_REFUSED(LEGACY_START STATE LEGACY_KEYS "\4\0\0\0\0\0\0\0"
                                                        "0123456789abcde",
                         "ends before");
    ASSERT_BYTES_REFUSED(LEGACY_START STATE "\x80\2]." LEGACY_STORAGE, "its storage is not in the file");
    ASSERT_BYTES_REFUSED(LEGACY_START STATE "\x80\2N." LEGACY_STORAGE, "no list of storages");
    ASSERT_BYTES_REFUSED(LEGACY_START STATE "\x80\2]NaX\1\0\0\0"
                                            "0a." LEGACY_STORAGE,
                         "no key");
    ASSERT_BYTES_REFUSED(LEGACY_START STATE "\x80\2]X\1\0\0\0"
                                            "1a." LEGACY_STORAGE,
                         "nothing names");
    ASSERT_BYTES_REFUSED(LEGACY_START STATE "\x80\2](X\1\0\0\0"
                                            "0X\1\0\0\0"
                                            "0e." LEGACY_STORAGE LEGACY_STORAGE,
                         "twice");
    ASSERT_BYTES_REFUSED(LEGACY_START "\x80\2(" STORAGE("torch\nFloatStorage", "K\4")
                             STORAGE("torch\nFloatStorage", "K\3") "t." LEGACY_KEYS LEGACY_STORAGE,
                         "two storages have one key");
    ASSERT_BYTES_REFUSED(LEGACY_START "\x80\2" STORAGE("mine\nStorage", "K\4") "." LEGACY_KEYS LEGACY_STORAGE,
                         "unknown type");
}

static void an_unknown_version_and_pickles_that_end_are_refused(void **state)
{
    static const char MAGIC[] = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2K\1.}.N.].";
    (void)state;
    assert_refused(MAGIC, sizeof MAGIC - 1, "unknown version");
    assert_refused(MAGIC, 16, "pickle 2: ");
}

/* ---- What attacks ----------------------------------------------------------------------------------------------- */

static void a_pickle_that_calls_os_system_runs_nothing(void **state)
{
    char folder[] = "/tmp/test_file_torch.XXXXXX", proof[64];
    input in = {0};
    (void)state;

    assert_non_null(mkdtemp(folder));
    snprintf(proof, sizeof proof, "touch %s/proof", folder);
    const unsigned char size = (unsigned char)strlen(proof);
    /* {"evil": os.system(...), "a": tensor}, by GLOBAL and by STACK_GLOBAL */
    INPUT_ADD_LITERAL(&in, "\x80\4}(X\4\0\0\0evilcos\nsystem\n\x8c");
    input_add(&in, &size, 1);
    input_add(&in, proof, size);
    INPUT_ADD_LITERAL(&in, "\x85RX\4\0\0\0more\x8c\5posix\x8c\6system\x93\x8c");
    input_add(&in, &size, 1);
    input_add(&in, proof, size);
    INPUT_ADD_LITERAL(&in, "\x85R" KEY_A PLAIN "u.");
    tensor_file file = assert_pickle_read(in.data, in.size, 1);
    assert_string_equal(file.tensors[0].name, "a");

    snprintf(proof, sizeof proof, "%s/proof", folder);
    assert_int_equal(access(proof, F_OK), -1);
    assert_int_equal(rmdir(folder), 0);
    tensor_file_clear(&file);
    input_free(&in);
}

/* Lists that hold the value before them twice, `levels` deep, around `core`. */
static input doubled(const char *core, size_t core_size, unsigned levels)
{
    input in = {0};
    INPUT_ADD_LITERAL(&in, "\x80\2");
    input_add(&in, core, core_size);
    for (unsigned i = 0; i < levels; i++)
        INPUT_ADD_LITERAL(&in, "q\0](h\0h\0e");
    INPUT_ADD_LITERAL(&in, ".");
    return in;
}

static void a_bomb_without_tensors_is_read_in_no_time(void **state)
{
    (void)state;
    input in = doubled("]", 1, 90);
    assert_has_none(in.data, in.size);
    input_free(&in);
}

static void a_bomb_of_tensors_is_refused(void **state)
{
    (void)state;
    input in = doubled(PLAIN, sizeof PLAIN - 1, 90);
    assert_pickle_refused(in.data, in.size, "too often");
    input_free(&in);
}

static void a_long_list_that_is_shared_a_thousand_times_is_refused(void **state)
{
    input in = {0};
    (void)state;
    /* [tensor, None, None, ...] a thousand times: a hundred million items when it is unfolded */
    INPUT_ADD_LITERAL(&in, "\x80\2](" PLAIN);
    for (unsigned i = 0; i < 100000; i++)
        INPUT_ADD_LITERAL(&in, "N");
    INPUT_ADD_LITERAL(&in, "eq\0](");
    for (unsigned i = 0; i < 1000; i++)
        INPUT_ADD_LITERAL(&in, "h\0");
    INPUT_ADD_LITERAL(&in, "e.");
    assert_pickle_refused(in.data, in.size, "too often");
    input_free(&in);
}

static void what_is_nested_too_deep_is_left_out(void **state)
{
    input in = {0};
    (void)state;
    INPUT_ADD_LITERAL(&in, "\x80\2");
    for (unsigned i = 0; i < 100000; i++)
        INPUT_ADD_LITERAL(&in, "]");
    INPUT_ADD_LITERAL(&in, PLAIN);
    for (unsigned i = 0; i < 100000; i++)
        INPUT_ADD_LITERAL(&in, "a");
    INPUT_ADD_LITERAL(&in, ".");
    assert_has_none(in.data, in.size);
    input_free(&in);
}

static void keys_as_long_as_the_file_make_no_names(void **state)
{
    input in = {0};
    (void)state;
    char *key = malloc(5000);
    memset(key, 'k', 5000);
    INPUT_ADD_LITERAL(&in, "\x80\2}X\x88\x13\0\0");
    input_add(&in, key, 5000);
    INPUT_ADD_LITERAL(&in, PLAIN "s.");
    assert_has_none(in.data, in.size);
    free(key);
    input_free(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_lies_in_the_member_of_its_storage),
        cmocka_unit_test(untyped_storages_take_the_type_of_version_3),
        cmocka_unit_test(eight_bit_floats_are_read),
        cmocka_unit_test(subclasses_and_parameters_are_read_as_what_they_hold),
        cmocka_unit_test(an_ordered_dict_of_python_2_is_walked),
        cmocka_unit_test(attributes_of_unknown_objects_are_names),
        cmocka_unit_test(numbers_that_are_conjugated_on_reading_are_left_out),
        cmocka_unit_test(unknown_parts_of_a_sparse_tensor_are_left_out),
        cmocka_unit_test(a_cycle_is_walked_once),
        cmocka_unit_test(a_crc_of_0_is_no_damage),
        cmocka_unit_test(keys_that_are_no_names_are_left_out),
        cmocka_unit_test(tensors_of_unknown_kinds_are_left_out),
        cmocka_unit_test(tensors_outside_of_their_storage_are_refused),
        cmocka_unit_test(negative_and_overflowing_numbers_are_refused),
        cmocka_unit_test(tensors_without_their_parts_are_refused),
        cmocka_unit_test(a_refusal_names_the_pickle_and_the_tensor),
        cmocka_unit_test(archives_that_cannot_be_used_in_place_are_refused),
        cmocka_unit_test(a_big_endian_archive_is_refused),
        cmocka_unit_test(programs_are_refused_with_advice),
        cmocka_unit_test(a_part_of_a_storage_begins_where_it_says),
        cmocka_unit_test(parts_outside_of_their_storage_are_refused),
        cmocka_unit_test(storages_that_are_not_as_the_pickle_says_are_refused),
        cmocka_unit_test(an_unknown_version_and_pickles_that_end_are_refused),
        cmocka_unit_test(a_pickle_that_calls_os_system_runs_nothing),
        cmocka_unit_test(a_bomb_without_tensors_is_read_in_no_time),
        cmocka_unit_test(a_bomb_of_tensors_is_refused),
        cmocka_unit_test(a_long_list_that_is_shared_a_thousand_times_is_refused),
        cmocka_unit_test(what_is_nested_too_deep_is_left_out),
        cmocka_unit_test(keys_as_long_as_the_file_make_no_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
