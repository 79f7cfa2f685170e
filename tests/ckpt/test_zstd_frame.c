/* Frames that are not what zstd_frame_encode() writes. The bytes are made by hand from the descriptions of the formats.
 */
#include "tensor_input.h"

#include "zstd_frame.h"

#define TEXT      "hello"
#define TEXT_SIZE 5

static int decode(const void *frame, size_t size, size_t text_size)
{
    char text[TEXT_SIZE];
    ZSTD_DCtx *const decompressor = ZSTD_createDCtx();
    assert_non_null(decompressor);
    const int rc = zstd_frame_decode(text, text_size, decompressor, frame, size, NULL, 0, NULL);
    ZSTD_freeDCtx(decompressor);
    if (rc == 0)
        assert_memory_equal(text, TEXT, text_size);
    return rc;
}

/* RFC 8878, 3.1.1: magic, descriptor (single segment), content size, one last raw block. */
static void a_frame_of_the_standard_is_read(void **state)
{
    static const unsigned char FRAME[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 0x29, 0, 0, 'h', 'e', 'l', 'l', 'o'};
    (void)state;
    assert_int_equal(decode(FRAME, sizeof FRAME, TEXT_SIZE), 0);
}

/* Format 0.7, of which Debian's library has a decoder: magic, the same descriptor and size, one raw block, an end
 * block. */
static void a_frame_of_an_older_format_is_refused(void **state)
{
    static const unsigned char FRAME[] = {0x27, 0xb5, 0x2f, 0xfd, 0x20, 5,    0x40, 0, 5,
                                          'h',  'e',  'l',  'l',  'o',  0xc0, 0,    0};
    (void)state;
    assert_int_equal(decode(FRAME, sizeof FRAME, TEXT_SIZE), CKPT_EDATA);
}

/* RFC 8878, 3.1.2: a skippable frame holds nothing that is decoded. */
static void a_skippable_frame_is_refused(void **state)
{
    static const unsigned char FRAME[] = {0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 'h', 'e'};
    (void)state;
    assert_int_equal(decode(FRAME, sizeof FRAME, 0), CKPT_EDATA);
}

static void what_is_shorter_than_a_magic_number_is_refused(void **state)
{
    static const unsigned char FRAME[] = {0x28, 0xb5, 0x2f, 0xfd};
    (void)state;
    for (size_t size = 0; size <= sizeof FRAME; size++)
        assert_int_equal(decode(FRAME, size, 0), CKPT_EDATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_of_the_standard_is_read),
        cmocka_unit_test(a_frame_of_an_older_format_is_refused),
        cmocka_unit_test(a_skippable_frame_is_refused),
        cmocka_unit_test(what_is_shorter_than_a_magic_number_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
