#include "hash_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MANY 5000u

static void number_hash(sha256 *out, uint32_t number)
{
    sha256_of(out, &number, sizeof number);
}

static void what_was_added_is_there_and_nothing_else(void **state)
{
    (void)state;
    hash_set set = {0};
    sha256 hash;
    number_hash(&hash, 0);
    assert_false(hash_set_has(&set, &hash));
    for (uint32_t i = 0; i < MANY; i++) {
        number_hash(&hash, i);
        assert_int_equal(hash_set_add(&set, &hash, NULL), 0);
        assert_int_equal(hash_set_add(&set, &hash, NULL), 0);
    }
    assert_int_equal(set.used, MANY);
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        number_hash(&hash, i);
        assert_int_equal(hash_set_has(&set, &hash), i < MANY);
    }
    hash_set_clear(&set);
}

static void hashes_with_the_same_beginning_do_not_meet(void **state)
{
    (void)state;
    hash_set set = {0};
    sha256 a = {{1}}, b = {{1}}, c = {{1}};
    b.bytes[31] = 1;
    c.bytes[31] = 2;
    assert_int_equal(hash_set_add(&set, &a, NULL), 0);
    assert_int_equal(hash_set_add(&set, &b, NULL), 0);
    assert_true(hash_set_has(&set, &a));
    assert_true(hash_set_has(&set, &b));
    assert_false(hash_set_has(&set, &c));
    hash_set_clear(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_there_and_nothing_else),
        cmocka_unit_test(hashes_with_the_same_beginning_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
