#include "units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void whole_numbers_are_read(void **state)
{
    (void)state;
    uint64_t u = 1;
    int64_t i = 1;
    assert_int_equal(parse_u64(&u, "0", NULL), 0);
    assert_true(u == 0);
    assert_int_equal(parse_u64(&u, "18446744073709551615", NULL), 0);
    assert_true(u == UINT64_MAX);
    assert_int_equal(parse_i64(&i, "-9223372036854775808", NULL), 0);
    assert_true(i == INT64_MIN);
    assert_int_equal(parse_i64(&i, "9223372036854775807", NULL), 0);
    assert_true(i == INT64_MAX);
    assert_int_equal(parse_i64(&i, "-0", NULL), 0);
    assert_true(i == 0);
}

static void what_is_no_whole_number_is_refused(void **state)
{
    (void)state;
    static const char *const BOTH[] = {
        "", " 1", "1 ", "+1", "1x", "0x10", "1.0", "1e3", "--1", "-", "99999999999999999999"};
    uint64_t u;
    int64_t i;
    for (size_t k = 0; k < COUNT(BOTH); k++) {
        assert_int_equal(parse_u64(&u, BOTH[k], NULL), CKPT_EUSAGE);
        assert_int_equal(parse_i64(&i, BOTH[k], NULL), CKPT_EUSAGE);
    }
    assert_int_equal(parse_u64(&u, "-1", NULL), CKPT_EUSAGE);
    assert_int_equal(parse_u64(&u, "18446744073709551616", NULL), CKPT_EUSAGE);
    assert_int_equal(parse_i64(&i, "9223372036854775808", NULL), CKPT_EUSAGE);
    assert_int_equal(parse_i64(&i, "-9223372036854775809", NULL), CKPT_EUSAGE);
}

static void doubles_are_read_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } CASES[] = {
        {"0.1", 0x1.999999999999ap-4},
        {"-1.5e-3", -0x1.89374bc6a7efap-10},
        {"1.", 1},
        {".5", 0.5},
        {"+2E2", 200},
        {"1.7976931348623157e308", 0x1.fffffffffffffp1023},
        {"1e-400", 0},
        {"5e-324", 0x0.0000000000001p-1022},
    };
    for (size_t i = 0; i < COUNT(CASES); i++) {
        double value;
        assert_int_equal(parse_double(&value, CASES[i].text, NULL), 0);
        assert_memory_equal(&value, &CASES[i].value, sizeof value);
    }
}

static void what_is_no_finite_decimal_is_refused(void **state)
{
    (void)state;
    static const char *const CASES[] = {"",      ".",   "e5",  "1e",    "1e+", " 1",    "1 ", "1,5",
                                        "0x1p3", "inf", "nan", "1e309", "--1", "1.2.3", "1f"};
    for (size_t i = 0; i < COUNT(CASES); i++) {
        double value;
        assert_int_equal(parse_double(&value, CASES[i], NULL), CKPT_EUSAGE);
    }
}

static void sizes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } CASES[] = {
        {"0", 0},
        {"512", 512},
        {"512B", 512},
        {"4k", 4096},
        {"4K", 4096},
        {"4KiB", 4096},
        {"4kB", 4000},
        {"5g", 5368709120},
        {"5G", 5368709120},
        {"5 GiB", 5368709120},
        {"5GB", 5000000000},
        {"2m", 2097152},
        {"2MiB", 2097152},
        {"2MB", 2000000},
        {"1t", 1099511627776},
        {"1TiB", 1099511627776},
        {"1TB", 1000000000000},
        {"1.5g", 1610612736},
        {"0.1k", 102},
        {"0.000001MB", 1},
        {"16777215t", 18446742974197923840u},
        {"18446744073709551615", UINT64_MAX},
    };
    for (size_t i = 0; i < COUNT(CASES); i++) {
        uint64_t bytes = 1;
        assert_int_equal(parse_size(&bytes, CASES[i].text, NULL), 0);
        assert_true(bytes == CASES[i].bytes);
    }
}

static void ambiguous_sizes_are_refused_with_a_hint(void **state)
{
    (void)state;
    static const char *const CASES[] = {"",          "k",      "-1",   "1KB",       "1kb",
                                        "1mb",       "1Mb",    "1gb",  "1kib",      "1KIB",
                                        "1kk",       "1g ",    "1  g", "1e3",       "1.5",
                                        "1.5B",      "1.g",    ".5g",  "1,5g",      "1x",
                                        "0x1k",      "1.5.5g", " 1k",  "16777216t", "18446744073709551616",
                                        "1.1234567g"};
    for (size_t i = 0; i < COUNT(CASES); i++) {
        uint64_t bytes;
        ckpt_error err = {0};
        assert_int_equal(parse_size(&bytes, CASES[i], &err), CKPT_EUSAGE);
        assert_string_equal(err.hint, "write 4k or 4KiB for 4096 bytes, 4kB for 4000; so too m or MiB, g or GiB, t or "
                                      "TiB and MB, GB, TB");
    }
}

static void durations_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t seconds;
    } CASES[] = {{"30m", 1800}, {"6h", 21600}, {"1h30m", 5400},     {"90s", 90},    {"2d", 172800},
                 {"0", 0},      {"0s", 0},     {"1d2h3m4s", 93784}, {"1d4s", 86404}};
    for (size_t i = 0; i < COUNT(CASES); i++) {
        uint64_t seconds = 1;
        assert_int_equal(parse_duration(&seconds, CASES[i].text, NULL), 0);
        assert_true(seconds == CASES[i].seconds);
    }
}

static void shares_are_percentages(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double share;
    } GOOD[] = {{"5%", 0.05}, {"0%", 0}, {"0.5%", 0.005}, {"100%", 1}, {"12.25%", 0.1225}};
    static const char *const BAD[] = {"",     "%",  "5",   "5 %",  " 5%",  "-5%", "+5%",
                                      "101%", "x%", "5%%", "0x5%", "nan%", "1e9%"};
    for (size_t i = 0; i < COUNT(GOOD); i++) {
        double share = -1;
        assert_int_equal(parse_share(&share, GOOD[i].text, NULL), 0);
        assert_true(share == GOOD[i].share);
    }
    for (size_t i = 0; i < COUNT(BAD); i++) {
        double share;
        ckpt_error err = {0};
        assert_int_equal(parse_share(&share, BAD[i], &err), CKPT_EUSAGE);
        assert_string_equal(err.hint, "write 5% or 0.5%");
    }
}

static void a_share_of_very_many_digits_is_refused(void **state)
{
    (void)state;
    char text[4096];
    double share;
    memset(text, '0', sizeof text);
    text[sizeof text - 2] = '%';
    text[sizeof text - 1] = 0;
    assert_int_equal(parse_share(&share, text, NULL), CKPT_EUSAGE);
}

static void what_is_no_duration_is_refused_with_a_hint(void **state)
{
    (void)state;
    static const char *const CASES[] = {"",   "30",   "h",   "30m1h",           "1h1h", "1.5h", "1h 30m", "-1s", "30M",
                                        "1w", "1h30", "1ms", "213503982334602d"};
    for (size_t i = 0; i < COUNT(CASES); i++) {
        uint64_t seconds;
        ckpt_error err = {0};
        assert_int_equal(parse_duration(&seconds, CASES[i], &err), CKPT_EUSAGE);
        assert_string_equal(err.hint, "write 90s, 30m, 6h, 1h30m or 2d");
    }
}

static void assert_size(uint64_t bytes, const char *expected)
{
    char text[UNITS_TEXT_SIZE];
    format_size(text, bytes);
    assert_string_equal(text, expected);
}

static void sizes_are_printed_with_one_decimal(void **state)
{
    (void)state;
    assert_size(0, "0 B");
    assert_size(1023, "1023 B");
    assert_size(1024, "1.0 KiB");
    assert_size(1536, "1.5 KiB");
    assert_size(12897485, "12.3 MiB");
    assert_size(1048575, "1.0 MiB"); /* rounds over into the next unit */
    assert_size(1048524, "1023.9 KiB");
    assert_size(5368709120, "5.0 GiB");
    assert_size(UINT64_MAX, "16.0 EiB");
}

static void rates_and_counts_are_printed(void **state)
{
    (void)state;
    char text[UNITS_TEXT_SIZE];
    format_rate(text, 12897485.7);
    assert_string_equal(text, "12.3 MiB/s");
    format_rate(text, 0);
    assert_string_equal(text, "0 B/s");
    format_rate(text, (double)INFINITY);
    assert_string_equal(text, "-");
    format_count(text, 950);
    assert_string_equal(text, "950");
    format_count(text, 11173962);
    assert_string_equal(text, "11.2 M");
    format_count(text, 999950);
    assert_string_equal(text, "1.0 M");
    format_count(text, 999949);
    assert_string_equal(text, "999.9 k");
    format_count(text, UINT64_MAX);
    assert_string_equal(text, "18.4 E");
}

static void assert_duration(double seconds, const char *expected)
{
    char text[UNITS_TEXT_SIZE];
    format_duration(text, seconds);
    assert_string_equal(text, expected);
}

static void durations_are_printed_in_two_units(void **state)
{
    (void)state;
    assert_duration(0, "0 s");
    assert_duration(0.42, "0.4 s");
    assert_duration(3, "3 s");
    assert_duration(9.96, "10 s");
    assert_duration(59.4, "59 s");
    assert_duration(59.6, "1m 00s");
    assert_duration(125, "2m 05s");
    assert_duration(3720, "1h 02m");
    assert_duration(183600, "2d 03h");
    assert_duration(-1, "-");
    assert_duration((double)NAN, "-");
    assert_duration((double)INFINITY, "-");
}

/* 1796040065 is 2026-11-30 12:01:05 UTC by `date -u -d @1796040065`. */
static void times_are_printed_local_and_iso(void **state)
{
    (void)state;
    char text[UNITS_TEXT_SIZE];
    assert_int_equal(setenv("TZ", "CST-8", 1), 0);
    tzset();
    format_time(text, 1796040065);
    assert_string_equal(text, "2026-11-30 20:01");
    format_time_iso(text, 1796040065);
    assert_string_equal(text, "2026-11-30T12:01:05Z");
    format_time_iso(text, -1);
    assert_string_equal(text, "1969-12-31T23:59:59Z");
}

static void times_beyond_the_calendar_are_printed_as_seconds(void **state)
{
    (void)state;
    char text[UNITS_TEXT_SIZE];
    format_time_iso(text, 253402300799);
    assert_string_equal(text, "9999-12-31T23:59:59Z");
    format_time_iso(text, 253402300800);
    assert_string_equal(text, "@253402300800");
    format_time(text, INT64_MIN);
    assert_string_equal(text, "@-9223372036854775808");
}

static void a_locale_with_a_decimal_comma_changes_nothing(void **state)
{
    (void)state;
    double value = 0;
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        skip();
    assert_int_equal(parse_double(&value, "1.5", NULL), 0);
    assert_true(value == 1.5);
    assert_size(1536, "1.5 KiB");
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read),
        cmocka_unit_test(what_is_no_whole_number_is_refused),
        cmocka_unit_test(doubles_are_read_exactly),
        cmocka_unit_test(what_is_no_finite_decimal_is_refused),
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(ambiguous_sizes_are_refused_with_a_hint),
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(shares_are_percentages),
        cmocka_unit_test(a_share_of_very_many_digits_is_refused),
        cmocka_unit_test(what_is_no_duration_is_refused_with_a_hint),
        cmocka_unit_test(sizes_are_printed_with_one_decimal),
        cmocka_unit_test(rates_and_counts_are_printed),
        cmocka_unit_test(durations_are_printed_in_two_units),
        cmocka_unit_test(times_are_printed_local_and_iso),
        cmocka_unit_test(times_beyond_the_calendar_are_printed_as_seconds),
        cmocka_unit_test(a_locale_with_a_decimal_comma_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
