#include "json_out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

/* Takes the value over. */
static void assert_json(json_t *value, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_non_null(value);
    assert_int_equal(json_out_line(out, value, NULL), 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
    json_decref(value);
}

static void text_is_escaped_and_kept(void **state)
{
    (void)state;
    assert_json(json_out_text("a\"b\\\n\x1b", 6), "\"a\\\"b\\\\\\n\\u001B\"\n");
    assert_json(json_out_text("gr\xc3\xbcn", 5), "\"gr\xc3\xbcn\"\n");
    assert_json(json_out_text("", 0), "\"\"\n");
    assert_json(json_out_text("a\0b", 3), "\"a\\u0000b\"\n");
}

static void bytes_that_are_no_utf8_become_replacement_characters(void **state)
{
    (void)state;
    assert_json(json_out_text("a\xff"
                              "b\xc3",
                              4),
                "\"a\xef\xbf\xbd"
                "b\xef\xbf\xbd\"\n");
    assert_json(json_out_text("\xed\xa0\x80", 3), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"\n");
    assert_json(json_out_text("\xf4\x8f\xbf\xbf\xf4\x90", 6), "\"\xf4\x8f\xbf\xbf\xef\xbf\xbd\xef\xbf\xbd\"\n");
}

/* Whatever json_out_text() makes of arbitrary bytes, jansson must take. */
static void any_two_bytes_make_a_string(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 0x10000; i++) {
        char bytes[2] = {(char)(i >> 8), (char)i};
        json_t *text = json_out_text(bytes, sizeof bytes);
        assert_non_null(text);
        json_decref(text);
    }
}

static void counts_are_integers_up_to_63_bits_then_doubles(void **state)
{
    (void)state;
    assert_json(json_out_count(0), "0\n");
    assert_json(json_out_count(INT64_MAX), "9223372036854775807\n");
    assert_json(json_out_count((uint64_t)INT64_MAX + 1), "9.2233720368547758e18\n");
}

static void reals_are_exact_and_what_is_not_finite_is_null(void **state)
{
    (void)state;
    json_t *value = json_out_real(0.1);
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    double again = strtod(text, NULL);
    assert_true(again == 0.1);
    free(text);
    json_decref(value);
    assert_json(json_out_real((double)NAN), "null\n");
    assert_json(json_out_real(-(double)INFINITY), "null\n");
    assert_json(json_out_real(2), "2.0\n");
}

static void values_are_written_in_the_order_in_which_they_were_set(void **state)
{
    (void)state;
    json_t *object = json_object();
    json_t *list = json_array();
    assert_int_equal(json_out_append(list, json_out_count(1), NULL), 0);
    assert_int_equal(json_out_append(list, json_out_text("x", 1), NULL), 0);
    assert_int_equal(json_out_set(object, "z", json_out_count(3), NULL), 0);
    assert_int_equal(json_out_set(object, "a", list, NULL), 0);
    json_incref(object);
    assert_json(object, "{\"z\":3,\"a\":[1,\"x\"]}\n");

    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(json_out_value(out, object, NULL), 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "{\n  \"z\": 3,\n  \"a\": [\n    1,\n    \"x\"\n  ]\n}\n");
    free(text);
    json_decref(object);
}

static void a_value_that_could_not_be_made_is_out_of_memory(void **state)
{
    (void)state;
    json_t *object = json_object();
    json_t *list = json_array();
    assert_int_equal(json_out_set(object, "a", NULL, NULL), CKPT_ENOMEM);
    assert_int_equal(json_out_append(list, NULL, NULL), CKPT_ENOMEM);
    json_decref(object);
    json_decref(list);
}

static void a_failed_write_is_an_error(void **state)
{
    (void)state;
    json_t *value = json_out_count(1);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    setvbuf(full, NULL, _IONBF, 0);
    assert_int_equal(json_out_line(full, value, NULL), CKPT_ENOSPC);
    fclose(full);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_escaped_and_kept),
        cmocka_unit_test(bytes_that_are_no_utf8_become_replacement_characters),
        cmocka_unit_test(any_two_bytes_make_a_string),
        cmocka_unit_test(counts_are_integers_up_to_63_bits_then_doubles),
        cmocka_unit_test(reals_are_exact_and_what_is_not_finite_is_null),
        cmocka_unit_test(values_are_written_in_the_order_in_which_they_were_set),
        cmocka_unit_test(a_value_that_could_not_be_made_is_out_of_memory),
        cmocka_unit_test(a_failed_write_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
