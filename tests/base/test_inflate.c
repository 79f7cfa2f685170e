/* Inflate: what zlib packed comes back, and nothing else does. */
#include "inflate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* zlib.compressobj(wbits=-15) of "ckpt ckpt ckpt ckpt" by Python 3.11 */
static const unsigned char PACKED[] = {0x4b, 0xce, 0x2e, 0x28, 0x51, 0x48, 0x46, 0x21, 0x00};
/* zlib.compress of the same */
static const unsigned char WRAPPED[] = {0x78, 0xda, 0x4b, 0xce, 0x2e, 0x28, 0x51, 0x48,
                                        0x46, 0x21, 0x00, 0x47, 0x33, 0x07, 0x29};
static const char TEXT[] = "ckpt ckpt ckpt ckpt";
#define TEXT_SIZE (sizeof TEXT - 1)

static void what_zlib_packed_comes_back(void **state)
{
    char text[TEXT_SIZE];
    (void)state;
    assert_int_equal(inflate_exactly(text, sizeof text, PACKED, sizeof PACKED, NULL), 0);
    assert_memory_equal(text, TEXT, TEXT_SIZE);
}

static void another_number_of_bytes_is_damage(void **state)
{
    char text[TEXT_SIZE + 1];
    (void)state;
    assert_int_equal(inflate_exactly(text, TEXT_SIZE - 1, PACKED, sizeof PACKED, NULL), CKPT_EDATA);
    assert_int_equal(inflate_exactly(text, TEXT_SIZE + 1, PACKED, sizeof PACKED, NULL), CKPT_EDATA);
}

static void a_stream_that_is_cut_off_or_changed_is_damage(void **state)
{
    char text[TEXT_SIZE];
    unsigned char changed[sizeof PACKED];
    (void)state;
    assert_int_equal(inflate_exactly(text, sizeof text, PACKED, sizeof PACKED - 1, NULL), CKPT_EDATA);
    memcpy(changed, PACKED, sizeof PACKED);
    changed[0] |= 6; /* a kind of block that does not exist */
    assert_int_equal(inflate_exactly(text, sizeof text, changed, sizeof changed, NULL), CKPT_EDATA);
}

static void what_zlib_wrapped_comes_back_when_its_checksum_is_right(void **state)
{
    char text[TEXT_SIZE];
    unsigned char changed[sizeof WRAPPED];
    (void)state;
    assert_int_equal(inflate_zlib_exactly(text, sizeof text, WRAPPED, sizeof WRAPPED, NULL), 0);
    assert_memory_equal(text, TEXT, TEXT_SIZE);
    memcpy(changed, WRAPPED, sizeof WRAPPED);
    changed[sizeof WRAPPED - 1] ^= 1;
    assert_int_equal(inflate_zlib_exactly(text, sizeof text, changed, sizeof changed, NULL), CKPT_EDATA);
    assert_int_equal(inflate_zlib_exactly(text, sizeof text, PACKED, sizeof PACKED, NULL), CKPT_EDATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_zlib_packed_comes_back),
        cmocka_unit_test(another_number_of_bytes_is_damage),
        cmocka_unit_test(a_stream_that_is_cut_off_or_changed_is_damage),
        cmocka_unit_test(what_zlib_wrapped_comes_back_when_its_checksum_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
