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

/* ---- Writing ---- */

static void assert_rounded(void *payload, char *const *columns, size_t count)
{
    static const ckpt_dtype DTYPES[] = {CKPT_F16, CKPT_BF16, CKPT_F32, CKPT_F64};
    const uint64_t bits = strtoull(columns[0], NULL, 16);
    double number;
    assert_int_equal(count, 4);
    memcpy(&number, &bits, sizeof number);
    for (size_t i = 0; i < 4; i++) {
        unsigned char written[8] = {0};
        numbers_error error = {0};
        double read;
        const uint64_t expected = strtoull(columns[i < 3 ? i + 1 : 0], NULL, 16);
        numbers_write(written, &number, 1, DTYPES[i], &error);
        numbers_read(&read, written, 1, DTYPES[i]);
        if (isnan(number) ? !isnan(read) : load_u64(written) != expected)
            fail_msg("%a is written as %s %llx, not %llx", number, ckpt_dtype_name(DTYPES[i]),
                     (unsigned long long)load_u64(written), (unsigned long long)expected);
        if (isfinite(number) && number != 0)
            assert_true(error.count == 1 && error.max == fabs((read - number) / number));
    }
    ++*(size_t *)payload;
}

static void numbers_are_rounded_once_to_the_nearest_even_one(void **state)
{
    size_t rows = 0;
    (void)state;
    expected_rows("rounding.txt", assert_rounded, &rows);
    assert_true(rows > 400);
}

static void errors_are_relative_and_leave_out_what_has_none(void **state)
{
    numbers_error error = {0};
    (void)state;
    assert_true(numbers_error_rms(&error) == 0);
    numbers_error_add(&error, 4, 5);
    numbers_error_add(&error, -4, -4);
    numbers_error_add(&error, 0, 1);
    numbers_error_add(&error, (double)INFINITY, 1);
    numbers_error_add(&error, (double)NAN, 1);
    assert_int_equal(error.count, 2);
    assert_true(error.max == 0.25 && error.squares == 0.0625);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_dtypes_are_read_as_numpy_reads_them),
        cmocka_unit_test(opaque_bytes_are_read_as_bytes),
        cmocka_unit_test(complex_elements_make_two_numbers),
        cmocka_unit_test(numbers_are_rounded_once_to_the_nearest_even_one),
        cmocka_unit_test(errors_are_relative_and_leave_out_what_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
