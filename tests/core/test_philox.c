#include "philox.h"

#include "random_rows.h"

/* Lines "philox4x32 10" of kat_vectors in Random123 1.14: counter, key, answer. */
static void known_answers_of_random123(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } LINES[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        uint32_t out[4];
        philox(out, LINES[i].counter, LINES[i].key);
        assert_memory_equal(out, LINES[i].expected, sizeof out);
    }
}

/* The digits of pi again, as seed and place. */
static void seed_is_the_key_and_place_the_counter(void **state)
{
    (void)state;
    const uint32_t counter[4] = {0x85a308d3, 0x243f6a88, 0x13198a2e, RANDOM_SPLIT}, key[2] = {0x299f31d0, 0xa4093822};
    uint32_t block[4], expected[4];
    philox(expected, counter, key);
    random_block(block, 0xa4093822299f31d0, RANDOM_SPLIT, 0x13198a2e, 0x243f6a8885a308d3);
    assert_memory_equal(block, expected, sizeof block);
}

static void expect_word(char *const *columns)
{
    const random_purpose purpose = (random_purpose)column_u64(columns[1]);
    const uint32_t epoch = (uint32_t)column_u64(columns[2]);
    const uint32_t word = random_word(column_u64(columns[0]), purpose, epoch, column_u64(columns[3]));
    assert_int_equal(word, column_u64(columns[4]));
}

static void words_are_as_python_computes_them(void **state)
{
    (void)state;
    random_rows("word", expect_word);
}

static void a_sequence_gives_the_words_in_order(void **state)
{
    (void)state;
    random_sequence s = {.seed = 5, .purpose = RANDOM_ORDER, .epoch = 9};
    for (uint64_t i = 0; i < 11; i++)
        assert_int_equal(random_next(&s), random_word(5, RANDOM_ORDER, 9, i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers_of_random123),
        cmocka_unit_test(seed_is_the_key_and_place_the_counter),
        cmocka_unit_test(words_are_as_python_computes_them),
        cmocka_unit_test(a_sequence_gives_the_words_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
