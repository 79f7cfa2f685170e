/* Numbers as text. The C library's own %a, in the C locale that a program starts in, is the other program; for the
 * shortest decimals it is Python, whose repr has the same digits. */
#include "real.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_as_the_c_library(double value)
{
    char ours[REAL_TEXT_SIZE], theirs[REAL_TEXT_SIZE];
    double back = 99;
    real_hex(ours, value);
    snprintf(theirs, sizeof theirs, "%a", value);
    assert_string_equal(ours, theirs);
    assert_true(real_parse(&back, ours));
    assert_memory_equal(&back, &value, sizeof value);
}

static void numbers_of_every_kind_are_spelled_as_by_the_c_library_and_read_back(void **state)
{
    (void)state;
    const double VALUES[] = {0.0,
                             -0.0,
                             1.0,
                             -1.0,
                             3.0,
                             0.1,
                             DBL_MAX,
                             -DBL_MAX,
                             DBL_MIN,
                             0x1p-1074,
                             INFINITY,
                             1e300,
                             1e-300,
                             (double)FLT_MAX,
                             -INFINITY,
                             0x1.8p+1,
                             0x1.23456789p9,
                             -0x1.8p-1074 * 4,
                             DBL_MIN / 2,
                             DBL_MAX / 4};
    for (size_t i = 0; i < sizeof VALUES / sizeof VALUES[0]; i++)
        assert_as_the_c_library(VALUES[i]);
}

static void numbers_of_any_bits_are_spelled_as_by_the_c_library_and_read_back(void **state)
{
    (void)state;
    uint64_t bits = 1;
    for (int i = 0; i < 100000; i++) {
        double value;
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        memcpy(&value, &bits, sizeof value);
        if (!isnan(value))
            assert_as_the_c_library(value);
    }
}

static void every_nan_is_one_word(void **state)
{
    (void)state;
    char text[REAL_TEXT_SIZE];
    double back = 0;
    real_hex(text, -(double)NAN);
    assert_string_equal(text, "nan");
    assert_true(real_parse(&back, text));
    assert_true(isnan(back));
}

static void another_spelling_is_not_read(void **state)
{
    (void)state;
    static const char *const BAD[] = {"",
                                      "1",
                                      "1.5",
                                      "0x",
                                      "0x1",
                                      "0x1.8",
                                      "0x1.8p",
                                      "0x1.8p1",
                                      "0x1.80p+1",
                                      "0x1.8p+01",
                                      "0x2p+0",
                                      "0x1.8p+1024",
                                      "0x1p-1075",
                                      "0x1p-1074",
                                      "0x0p+1",
                                      "0x0.8p+0",
                                      "0X1.8P+1",
                                      "0x1.8p+1 ",
                                      " 0x1p+0",
                                      "+0x1p+0",
                                      "--0x1p+0",
                                      "0x1.p+0",
                                      "0x1.8A p+1",
                                      "-nan",
                                      "NaN",
                                      "infinity",
                                      "0x1.00000000000001p+0",
                                      "0x1p+99999999999999999999"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        double value;
        if (real_parse(&value, BAD[i]))
            fail_msg("\"%s\" was read as %g", BAD[i], value);
    }
}

static void decimals_are_rounded_to_their_places(void **state)
{
    (void)state;
    static const struct {
        double value;
        unsigned places;
        const char *text;
    } ROWS[] = {
        {0.0, 6, "0.000000"},         {0.9312, 6, "0.931200"},
        {1.0, 6, "1.000000"},         {0.9999999, 6, "1.000000"},
        {-0.9999999, 6, "-1.000000"}, {3.14159, 2, "3.14"},
        {12345.678, 1, "12345.7"},    {2.5, 0, "3"},
        {-0.001, 2, "0.00"},          {1.0 / 3, 9, "0.333333333"},
        {1e15, 3, "1e+15"},           {NAN, 2, "nan"},
        {-INFINITY, 2, "-inf"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char text[REAL_TEXT_SIZE];
        real_decimal(text, ROWS[i].value, ROWS[i].places);
        assert_string_equal(text, ROWS[i].text);
    }
}

static void shortest_decimals_have_the_digits_of_python(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text; /* repr(value), with the exponent and the point spelled as here */
    } CASES[] = {
        {0, "0"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {100, "100"},
        {123456.75, "123456.75"},
        {1e-4, "0.0001"},
        {1e-5, "1e-5"},
        {2.5e-7, "2.5e-7"},
        {1e16, "10000000000000000"},
        {1e17, "1e17"},
        {5e-324, "5e-324"},
        {DBL_MAX, "1.7976931348623157e308"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char text[REAL_TEXT_SIZE];
        real_shortest(text, CASES[i].value);
        assert_string_equal(text, CASES[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_every_kind_are_spelled_as_by_the_c_library_and_read_back),
        cmocka_unit_test(numbers_of_any_bits_are_spelled_as_by_the_c_library_and_read_back),
        cmocka_unit_test(every_nan_is_one_word),
        cmocka_unit_test(another_spelling_is_not_read),
        cmocka_unit_test(decimals_are_rounded_to_their_places),
        cmocka_unit_test(shortest_decimals_have_the_digits_of_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
