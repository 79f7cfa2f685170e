/* The examples of docs/format.md for chunks of modes 8 and 10, and the rules it has for them, each broken alone. */
#include "codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE_MAX_CODED = 128 };

/* What stands where in a coded chunk. */
enum { WHAT = 1, ZEROS, PLACE_FROM, SIZES, PERIOD, SIDE_SIZE = 7, BITS_SIZE = 10, SIDE = 13 };

static codec *c;

static int setup(void **state)
{
    (void)state;
    return codec_new(&c, NULL) ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    codec_free(c);
    return 0;
}

typedef struct example {
    size_t coded_size, size, bits_end; /* bits_end: where the states begin */
    unsigned char coded[SIZE_MAX_CODED];
    unsigned char chunk[40];
} example;

/* 1.0 -2.0 1.5 1.0 1.25 -1.0 1.0 3.0 and a byte 77 */
static const example SYMBOLS = {
    .coded_size = 42,
    .size = 33,
    .bits_end = 25,
    .coded = {0x0a, 0x12, 0x15, 0x17, 0x45, 0x00, 0x00, 0x09, 0x00, 0x00, 0x03, 0x00, 0x00, 0xac,
              0x1b, 0x3a, 0x16, 0xb9, 0x9a, 0x23, 0x5e, 0x64, 0x08, 0xa1, 0x80, 0x38, 0xe4, 0x00,
              0x00, 0x8d, 0x8e, 0x02, 0x00, 0x38, 0xe4, 0x00, 0x00, 0xc2, 0x99, 0x02, 0x00, 0x77},
    .chunk = {0, 0,    0x80, 0x3f, 0, 0,    0,    0xc0, 0, 0,    0xc0, 0x3f, 0, 0,    0x80, 0x3f, 0,
              0, 0xa0, 0x3f, 0,    0, 0x80, 0xbf, 0,    0, 0x80, 0x3f, 0,    0, 0x40, 0x40, 0x77},
};

static const unsigned char REFERENCE[16] = {0, 0, 0x80, 0x3f, 0, 0, 0x80, 0xbf, 0, 0, 0, 0x40, 0, 0, 0x80, 0x3e};

static const example SUB = {
    .coded_size = 42,
    .size = 16,
    .bits_end = 26,
    .coded = {0x08, 0x36, 0x00, 0x17, 0x45, 0x00, 0x00, 0x0b, 0x00, 0x00, 0x02, 0x00, 0x00, 0xfc,
              0x48, 0x85, 0xf9, 0x96, 0xa5, 0xbe, 0xa6, 0x94, 0xe8, 0x97, 0x0a, 0x0c, 0x00, 0x80,
              0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00},
    .chunk = {1, 0, 0x80, 0x3f, 1, 0, 0x80, 0xbf, 0, 0, 0, 0x40, 3, 0, 0x80, 0x3e},
};

static int decode(unsigned char *back, const example *e)
{
    return codec_decode(back, e->size, c, e->coded, e->coded_size, e->coded[0] == CODEC_CONTEXT ? REFERENCE : NULL,
                        NULL);
}

static void assert_is_coded(const example *e)
{
    unsigned char back[40];
    assert_int_equal(decode(back, e), 0);
    assert_memory_equal(back, e->chunk, e->size);
}

static void assert_refused(const example *e)
{
    unsigned char back[40];
    assert_int_equal(decode(back, e), CKPT_EDATA);
}

static void assert_refused_with(const example *e, size_t at, unsigned char value)
{
    example broken = *e;
    broken.coded[at] = value;
    assert_refused(&broken);
}

/* One more byte at `at`. */
static example with_byte(const example *e, size_t at, unsigned char value)
{
    example longer = *e;
    memmove(longer.coded + at + 1, e->coded + at, e->coded_size - at);
    longer.coded[at] = value;
    longer.coded_size++;
    return longer;
}

static void the_examples_of_the_document_decode_to_what_it_says(void **state)
{
    (void)state;
    assert_is_coded(&SYMBOLS);
    assert_is_coded(&SUB);
}

static void heads_that_no_writer_may_write_are_refused(void **state)
{
    (void)state;
    assert_refused_with(&SYMBOLS, WHAT, 0x1e); /* a number that is not assigned */
    assert_refused_with(&SYMBOLS, WHAT, 0x16); /* sub, xor and places in mode 10 */
    assert_refused_with(&SYMBOLS, WHAT, 0x1a);
    assert_refused_with(&SYMBOLS, WHAT, 0x32);
    assert_refused_with(&SYMBOLS, WHAT, 0x52); /* growth of what is no difference */
    assert_refused_with(&SYMBOLS, WHAT, 0x92); /* neighbours with zeros, and without places */
    assert_refused_with(&SYMBOLS, ZEROS, 32);  /* as many bits as an element has */
    assert_refused_with(&SYMBOLS, PLACE_FROM, 32);
    assert_refused_with(&SYMBOLS, SIZES, 0x44); /* rows of 16 */
    assert_refused_with(&SYMBOLS, SIZES, 0x25); /* 2 lanes, and 64 */
    assert_refused_with(&SYMBOLS, SIZES, 0xc5);
    assert_refused_with(&SYMBOLS, PERIOD, 9);        /* more columns than elements */
    assert_refused_with(&SYMBOLS, PERIOD + 1, 0x81); /* more than 32,768 */
    assert_refused_with(&SUB, WHAT, 0x3e);
}

static void raw_bits_and_words_are_used_to_the_last(void **state)
{
    (void)state;
    example longer = with_byte(&SYMBOLS, SYMBOLS.bits_end, 0);
    longer.coded[BITS_SIZE]++;
    assert_refused(&longer);
    longer = with_byte(&SUB, SUB.bits_end, 0);
    longer.coded[BITS_SIZE]++;
    assert_refused(&longer);
    const example odd = with_byte(&SYMBOLS, SYMBOLS.coded_size - 1, 0), word = with_byte(&odd, odd.coded_size - 1, 0);
    assert_refused(&odd);
    assert_refused(&word);
    example fewer = SYMBOLS;
    fewer.coded[BITS_SIZE]--;
    assert_refused(&fewer);
}

static void states_end_as_they_began(void **state)
{
    (void)state;
    for (size_t lane = 0; lane < 4; lane++) {
        assert_refused_with(&SYMBOLS, SYMBOLS.bits_end + 4 * lane, 0x39 + (unsigned char)lane);
        assert_refused_with(&SUB, SUB.bits_end + 4 * lane, 1);
        assert_refused_with(&SUB, SUB.bits_end + 4 * lane + 1, 0x7f); /* below 8000 */
        assert_refused_with(&SUB, SUB.bits_end + 4 * lane + 3, 0x80); /* above 7fffffff */
    }
}

static void side_information_behind_its_end_is_zeros(void **state)
{
    (void)state;
    example longer = with_byte(&SYMBOLS, SIDE + 9, 0);
    longer.coded[SIDE_SIZE]++;
    longer.bits_end++;
    assert_is_coded(&longer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_document_decode_to_what_it_says),
        cmocka_unit_test(heads_that_no_writer_may_write_are_refused),
        cmocka_unit_test(raw_bits_and_words_are_used_to_the_last),
        cmocka_unit_test(states_end_as_they_began),
        cmocka_unit_test(side_information_behind_its_end_is_zeros),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
