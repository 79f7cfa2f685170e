/* HDF5: what h5py sees in files of h5py and Keras is what we see; places that lie are refused. */
#include "tensor_described.h"

static void hdf5_files_read_as_h5py_reads_them(void **state)
{
    (void)state;
    assert_reads("cases/old.h5", "hdf5", true);
    assert_reads("cases/new.h5", "hdf5", true);
}

static void files_of_keras_read_as_h5py_reads_them(void **state)
{
    (void)state;
    assert_reads("cases/model.h5", "hdf5", true);
    assert_reads("cases/only.weights.h5", "hdf5", true);
    assert_reads("cases/model.keras", "keras", true);
}

static void a_file_that_ends_before_its_last_byte_looks_cut_off(void **state)
{
    static const char *const NAMES[] = {"cases/old.h5", "cases/new.h5"};
    (void)state;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        tensor_file file;
        char why[256];
        input in = input_golden(NAMES[i]);
        input_read(&file, why, in.data, in.size - 1);
        assert_string_equal(why, "hdf5: ends before its last byte");
        assert_true(file.cut_off);
        tensor_file_clear(&file);
        input_free(&in);
    }
}

/* A golden file of old layout with some bytes replaced. */
static void assert_changed_refused(size_t at, const void *bytes, size_t size, const char *expected)
{
    input in = input_golden("cases/old.h5");
    memcpy(in.data + at, bytes, size);
    assert_refused(in.data, in.size, expected);
    input_free(&in);
}

/* Where the text first stands in the golden file. */
static size_t place_of(const char *text)
{
    input in = input_golden("cases/old.h5");
    size_t at = 0;
    while (at + strlen(text) <= in.size && memcmp(in.data + at, text, strlen(text)) != 0)
        at++;
    assert_true(at + strlen(text) <= in.size);
    input_free(&in);
    return at;
}

static void superblocks_of_other_kinds_are_refused(void **state)
{
    (void)state;
    assert_changed_refused(8, "\4", 1, "superblock of version 4 is unknown");
    assert_changed_refused(13, "\4", 1, "not plain ones of 8 bytes");
    assert_changed_refused(14, "\4", 1, "not plain ones of 8 bytes");
    assert_changed_refused(24, "\1", 1, "not plain ones of 8 bytes"); /* a base address */
}

static void places_outside_of_the_file_are_refused(void **state)
{
    static const char FAR[8] = {0, 0, 0, 0, 0, 0, 0, 0x7f};
    (void)state;
    assert_changed_refused(64, FAR, 8, "outside of the file");                    /* the root group */
    assert_changed_refused(place_of("TREE") + 32, FAR, 8, "outside of the file"); /* a child of a tree */
    assert_changed_refused(place_of("SNOD") + 8, FAR, 8, "outside of its heap");  /* a name */
    assert_changed_refused(place_of("SNOD") + 16, FAR, 8, "outside of the file"); /* an object */
    assert_changed_refused(place_of("HEAP") + 24, FAR, 8, "outside of the file"); /* the names */
}

static void nodes_that_are_none_are_refused(void **state)
{
    (void)state;
    assert_changed_refused(place_of("TREE"), "EERT", 4, "has no tree");
    assert_changed_refused(place_of("SNOD"), "DONS", 4, "has no list");
    assert_changed_refused(place_of("HEAP"), "PAEH", 4, "has no names");
    assert_changed_refused(64, "\0\0\0\0\0\0\0\0", 8, "no object where a name leads to");
}

/* The root group is one of its own members: it is read again and again, until that is too deep. */
static void a_group_within_itself_ends(void **state)
{
    tensor_file file;
    char why[256];
    size_t deepest = 0;
    (void)state;
    input in = input_golden("cases/old.h5");
    memcpy(in.data + place_of("SNOD") + 16, in.data + 64, 8);
    input_read(&file, why, in.data, in.size);
    assert_string_equal(why, "");
    for (size_t i = 0; i < file.count; i++)
        deepest = strlen(file.tensors[i].name) > deepest ? strlen(file.tensors[i].name) : deepest;
    assert_true(file.count > 19); /* more than there are */
    assert_true(deepest < 64 * 16);
    tensor_file_clear(&file);
    input_free(&in);
}

/* All members of the root group are the root group: 4 to the power of 64 paths. */
static void groups_that_are_all_within_each_other_are_refused(void **state)
{
    (void)state;
    input in = input_golden("cases/old.h5");
    char *const rows = in.data + place_of("SNOD") + 8;
    for (size_t i = 0; i < 4; i++)
        memcpy(rows + i * 40 + 8, in.data + 64, 8);
    assert_refused(in.data, in.size, "refer to each other too often");
    input_free(&in);
}

static void a_signature_alone_is_refused(void **state)
{
    (void)state;
    assert_refused("\x89HDF\r\n\x1a\n", 8, "not plain ones of 8 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hdf5_files_read_as_h5py_reads_them),
        cmocka_unit_test(files_of_keras_read_as_h5py_reads_them),
        cmocka_unit_test(a_file_that_ends_before_its_last_byte_looks_cut_off),
        cmocka_unit_test(superblocks_of_other_kinds_are_refused),
        cmocka_unit_test(places_outside_of_the_file_are_refused),
        cmocka_unit_test(nodes_that_are_none_are_refused),
        cmocka_unit_test(a_group_within_itself_ends),
        cmocka_unit_test(groups_that_are_all_within_each_other_are_refused),
        cmocka_unit_test(a_signature_alone_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
