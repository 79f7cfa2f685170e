#include "expectation.h"

#include "numbers.h"

#include "bytes.h"

#include <math.h>

#define WORDS ((size_t)65536)

static ckpt_dtype dtype_of(const char *name)
{
    for (int i = 0; ckpt_dtype_name((ckpt_dtype)i); i++)
        if (strcmp(ckpt_dtype_name((ckpt_dtype)i), name) == 0)
            return (ckpt_dtype)i;
    fail_msg("no dtype %s", name);
    return CKPT_OPAQUE;
}

/* SHA-256 of the doubles, each NaN as the one that Python writes. */
static void doubles_hash(char hex[SHA256_HEX_SIZE], const double *numbers, size_t count)
{
    unsigned char *const bytes = malloc(count * 8);
    sha256 hash;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        store_u64(bytes + 8 * i, isnan(numbers[i]) ? 0x7ff8000000000000u : bits);
    }
    sha256_of(&hash, bytes, count * 8);
    sha256_hex(hex, &hash);
    free(bytes);
}

/* Counts the rows; the third column holds all values of an 8-bit float. */
static void assert_row(void *payload, char *const *columns, size_t count)
{
    const ckpt_dtype dtype = dtype_of(columns[0]);
    const size_t elements = WORDS * 2 / ckpt_dtype_size(dtype), doubles = elements * numbers_per_element(dtype);
    unsigned char *const data = malloc(WORDS * 2);
    double *const numbers = malloc(doubles * sizeof *numbers);
    char hex[SHA256_HEX_SIZE];
    for (uint32_t i = 0; i < WORDS; i++)
        store_u16(data + 2 * i, (uint16_t)(i * 40503u % WORDS));
    if (count > 2) {
        unsigned char bits[256];
        char *text = columns[2];
        for (unsigned i = 0; i < 256; i++)
            bits[i] = (unsigned char)i;
        numbers_read(numbers, bits, 256, dtype);
        for (unsigned i = 0; i < 256; i++) {
            const double expected = strtod(strsep(&text, " "), NULL);
            if (isnan(expected) ? !isnan(numbers[i])
                                : numbers[i] != expected || signbit(numbers[i]) != signbit(expected))
                fail_msg("%s 0x%02x is read as %a, not %a", columns[0], i, numbers[i], expected);
        }
    }
    numbers_read(numbers, data, elements, dtype);
    doubles_hash(hex, numbers, doubles);
    if (strcmp(hex, columns[1]) != 0)
        fail_msg("%s is read otherwise than by NumPy", columns[0]);
    free(numbers);
    free(data);
    ++*(size_t *)payload;
}

static void all_dtypes_are_read_as_numpy_reads_them(void **state)
{
    size_t rows = 0;
    (void)state;
    expected_rows("numbers.txt", assert_row, &rows);
    assert_int_equal(rows, 17);
}

static void opaque_bytes_are_read_as_bytes(void **state)
{
    const unsigned char bytes[] = {0, 1, 127, 128, 255};
    double numbers[5];
    (void)state;
    numbers_read(numbers, bytes, 5, CKPT_OPAQUE);
    for (size_t i = 0; i < 5; i++)
        assert_true(numbers[i] == bytes[i]);
}

static void complex_elements_make_two_numbers(void **state)
{
    (void)state;
    assert_int_equal(numbers_per_element(CKPT_C64), 2);
    assert_int_equal(numbers_per_element(CKPT_C128), 2);
    assert_int_equal(numbers_per_element(CKPT_F64), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_dtypes_are_read_as_numpy_reads_them),
        cmocka_unit_test(opaque_bytes_are_read_as_bytes),
        cmocka_unit_test(complex_elements_make_two_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
