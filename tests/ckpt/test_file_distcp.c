/* Distributed checkpoints: parts one behind the other, found by the file beside them. */
#include "tensor_described.h"

#include "dcp.h"

/* ---- What is read ----------------------------------------------------------------------------------------------- */

static void parts_read_as_pytorch_reads_them(void **state)
{
    (void)state;
    assert_reads_as_expected("folders/distributed/__0_0.distcp", "distcp");
    assert_reads_as_expected("folders/distributed/__0_1.distcp", "distcp");
    assert_reads_as_expected("folders/pieces/__0_0.distcp", "distcp");
}

static void a_file_alone_is_no_distributed_checkpoint(void **state)
{
    tensor_file file;
    char why[256];
    (void)state;
    input in = input_golden("folders/distributed/__0_0.distcp");
    input_read(&file, why, in.data, in.size);
    assert_string_equal(file.format, "opaque");
    tensor_file_clear(&file);
    input_free(&in);
}

/* ---- The metadata ----------------------------------------------------------------------------------------------- */

static void the_metadata_names_every_part_with_its_place(void **state)
{
    dcp_metadata metadata;
    (void)state;
    input in = input_golden("folders/distributed/.metadata");
    assert_int_equal(dcp_metadata_read(&metadata, in.data, in.size, NULL), 0);
    assert_int_equal(metadata.count, 32);       /* as Python counts them */
    for (size_t i = 1; i < metadata.count; i++) /* they fill their files */
        assert_int_equal(metadata.parts[i].offset, strcmp(metadata.parts[i].file, metadata.parts[i - 1].file)
                                                       ? 0
                                                       : metadata.parts[i - 1].offset + metadata.parts[i - 1].size);
    dcp_metadata_clear(&metadata);
    input_free(&in);
}

#define DCP                "torch.distributed.checkpoint."
#define TEXT(length, text) "X" length "\0\0\0" text
#define INDEX(name)        "c" DCP "metadata\nMetadataIndex\n)\x81}" TEXT("\3", "fqn") name "sb"
#define INFO(file, offset, length)                                                                                     \
    "c" DCP "filesystem\n_StorageInfo\n)\x81}(" TEXT("\x0d", "relative_path") file TEXT("\6", "offset")                \
        offset TEXT("\6", "length") length "ub"
#define STORAGE_DATA                     TEXT("\x0c", "storage_data")
#define METADATA(items)                  "\x80\2c" DCP "metadata\nMetadata\n)\x81}" STORAGE_DATA "}(" items "usb."
#define PART(name, file, offset, length) METADATA(INDEX(name) INFO(file, offset, length))
#define NAME_A                           TEXT("\1", "a")

static void assert_metadata_refused(const void *data, size_t size, const char *expected)
{
    dcp_metadata metadata;
    ckpt_error err = {0};
    assert_int_equal(dcp_metadata_read(&metadata, data, size, &err), CKPT_EFORMAT);
    if (!strstr(err.message, expected))
        fail_msg("'%s' does not hold '%s'", err.message, expected);
    assert_int_equal(metadata.count, 0);
}

#define ASSERT_METADATA_REFUSED(literal, expected) assert_metadata_refused((literal), sizeof(literal) - 1, (expected))

static void metadata_put_together_by_hand_are_read(void **state)
{
    static const char BYTES[] = PART(NAME_A, TEXT("\5", "x.dcp"), "K\3", "K\4");
    dcp_metadata metadata;
    (void)state;
    assert_int_equal(dcp_metadata_read(&metadata, BYTES, sizeof BYTES - 1, NULL), 0);
    assert_int_equal(metadata.count, 1);
    assert_string_equal(metadata.parts[0].name, "a");
    assert_string_equal(metadata.parts[0].file, "x.dcp");
    assert_int_equal(metadata.parts[0].offset, 3);
    assert_int_equal(metadata.parts[0].size, 4);
    dcp_metadata_clear(&metadata);
}

static void metadata_that_lie_are_refused(void **state)
{
    (void)state;
    ASSERT_METADATA_REFUSED(PART("N", TEXT("\1", "f"), "K\0", "K\1"), "has no name");
    ASSERT_METADATA_REFUSED(PART(TEXT("\2", "a\n"), TEXT("\1", "f"), "K\0", "K\1"), "has no name");
    ASSERT_METADATA_REFUSED(PART(NAME_A, "N", "K\0", "K\1"), "has no file");
    ASSERT_METADATA_REFUSED(PART(NAME_A, TEXT("\4", "../f"), "K\0", "K\1"), "not in the folder");
    ASSERT_METADATA_REFUSED(PART(NAME_A, TEXT("\2", ".."), "K\0", "K\1"), "not in the folder");
    ASSERT_METADATA_REFUSED(PART(NAME_A, TEXT("\1", "f"), "J\xff\xff\xff\xff", "K\1"), "no place in its file");
    ASSERT_METADATA_REFUSED(PART(NAME_A, TEXT("\1", "f"), "K\0", "N"), "no place in its file");
    ASSERT_METADATA_REFUSED("\x80\2N.", "not the metadata");
    ASSERT_METADATA_REFUSED("\x80\2c" DCP "metadata\nMetadata\n)\x81.", "no table of parts");
    ASSERT_METADATA_REFUSED("\x80\2", "ends without STOP");
}

/* `.metadata` of this text beside a file of 100 bytes. */
static char *metadata_bytes;
static size_t metadata_size;

static int beside(const byte_source *source, char **data, size_t *size, const char *name, size_t size_max,
                  ckpt_error *err)
{
    (void)source, (void)err;
    assert_string_equal(name, DCP_METADATA_NAME);
    assert_true(metadata_size <= size_max);
    *data = malloc(metadata_size);
    assert_non_null(*data);
    memcpy(*data, metadata_bytes, metadata_size);
    *size = metadata_size;
    return 0;
}

static void assert_file_refused(const void *metadata, size_t size, const char *expected)
{
    static const char ZEROS[100] = "PK\3\4";
    byte_source source;
    tensor_file file;
    char why[256];
    metadata_bytes = (char *)(uintptr_t)metadata;
    metadata_size = size;
    byte_source_memory(&source, ZEROS, sizeof ZEROS, "folder/f");
    source.beside = beside;
    assert_int_equal(tensor_file_read(&file, why, &source, NULL), 0);
    assert_string_equal(file.format, "opaque");
    if (!strstr(why, expected))
        fail_msg("'%s' does not hold '%s'", why, expected);
    tensor_file_clear(&file);
}

static void parts_outside_of_the_file_and_over_each_other_are_refused(void **state)
{
    static const char OUTSIDE[] = PART(NAME_A, TEXT("\1", "f"), "K\x32", "K\x33");
    static const char OVER[] = METADATA(INDEX(NAME_A) INFO(TEXT("\1", "f"), "K\0", "K\x32") INDEX(NAME_A)
                                            INFO(TEXT("\1", "f"), "K\x31", "K\1"));
    (void)state;
    assert_file_refused(OUTSIDE, sizeof OUTSIDE - 1, "a: lies outside of the file");
    assert_file_refused(OVER, sizeof OVER - 1, "a: begins before the part before it ends");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_read_as_pytorch_reads_them),
        cmocka_unit_test(a_file_alone_is_no_distributed_checkpoint),
        cmocka_unit_test(the_metadata_names_every_part_with_its_place),
        cmocka_unit_test(metadata_put_together_by_hand_are_read),
        cmocka_unit_test(metadata_that_lie_are_refused),
        cmocka_unit_test(parts_outside_of_the_file_and_over_each_other_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
