#include "hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_sha256(const void *data, size_t size, const char *expected)
{
    sha256 hash;
    char hex[SHA256_HEX_SIZE];
    sha256_of(&hash, data, size);
    sha256_hex(hex, &hash);
    assert_string_equal(hex, expected);
}

/* FIPS 180-2, appendix B, and the empty message of the NIST test vectors (SHA256ShortMsg.rsp). */
#define ABC          "abc"
#define ABC_HASH     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define TWO          "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
#define TWO_HASH     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
#define MILLION_HASH "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
#define EMPTY_HASH   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static void sha256_gives_the_values_of_the_standard(void **state)
{
    (void)state;
    assert_sha256(ABC, strlen(ABC), ABC_HASH);
    assert_sha256(TWO, strlen(TWO), TWO_HASH);
    assert_sha256(NULL, 0, EMPTY_HASH);
}

static void sha256_stream_takes_a_million_bytes_in_pieces(void **state)
{
    (void)state;
    char piece[997], hex[SHA256_HEX_SIZE];
    sha256 hash;
    memset(piece, 'a', sizeof piece);
    sha256_stream *const s = sha256_new();
    assert_non_null(s);
    for (size_t left = 1000000; left > 0;) {
        const size_t size = left < sizeof piece ? left : sizeof piece;
        sha256_update(s, piece, size);
        left -= size;
    }
    sha256_finish(&hash, s);
    sha256_hex(hex, &hash);
    assert_string_equal(hex, MILLION_HASH);
    sha256_free(s);
}

static void sha256_stream_can_be_restarted(void **state)
{
    (void)state;
    sha256 hash;
    char hex[SHA256_HEX_SIZE];
    sha256_stream *const s = sha256_new();
    assert_non_null(s);
    sha256_update(s, "left over", 9);
    sha256_restart(s);
    sha256_update(s, ABC, strlen(ABC));
    sha256_finish(&hash, s);
    sha256_hex(hex, &hash);
    assert_string_equal(hex, ABC_HASH);

    sha256_restart(s); /* after finish, too */
    sha256_finish(&hash, s);
    sha256_hex(hex, &hash);
    assert_string_equal(hex, EMPTY_HASH);
    sha256_free(s);
}

#define PAIR_BYTES 300

static unsigned char pair_bytes[2][PAIR_BYTES];

/* Two streams that stand at any place of a block, and then take any number of bytes each. OpenSSL's hash of the whole
 * is the truth. */
static void assert_pair(size_t head_a, size_t size_a, size_t head_b, size_t size_b)
{
    sha256 expected[2], hash[2];
    sha256_stream *const a = sha256_new(), *const b = sha256_new();

    assert_non_null(a);
    assert_non_null(b);
    sha256_of(&expected[0], pair_bytes[0], head_a + size_a);
    sha256_of(&expected[1], pair_bytes[1], head_b + size_b);

    sha256_update(a, pair_bytes[0], head_a);
    sha256_update(b, pair_bytes[1], head_b);
    sha256_update_pair(a, pair_bytes[0] + head_a, size_a, b, pair_bytes[1] + head_b, size_b);
    sha256_finish(&hash[0], a);
    sha256_finish(&hash[1], b);
    assert_int_equal(sha256_compare(&hash[0], &expected[0]), 0);
    assert_int_equal(sha256_compare(&hash[1], &expected[1]), 0);
    sha256_free(a);
    sha256_free(b);
}

static void pair_gives_the_hashes_of_both(void **state)
{
    (void)state;
    static const size_t SIZES[] = {0, 1, 55, 56, 63, 64, 65, 127, 128, 129, 200};
    enum { COUNT = sizeof SIZES / sizeof *SIZES };

    for (size_t i = 0; i < PAIR_BYTES; i++) {
        pair_bytes[0][i] = (unsigned char)(i * 37 + 11);
        pair_bytes[1][i] = (unsigned char)(i * i + 3);
    }
    for (size_t head_a = 0; head_a <= 64; head_a += 9)
        for (size_t head_b = 0; head_b <= 64; head_b += 7)
            for (size_t a = 0; a < COUNT; a++)
                for (size_t b = 0; b < COUNT; b++)
                    assert_pair(head_a, SIZES[a], head_b, SIZES[b]);
}

/* The number of bits takes more than 32 of them. */
static void pair_counts_beyond_half_a_gibibyte(void **state)
{
    (void)state;
    enum { PIECE = 1 << 20, PIECES = 520 };
    sha256 hash[3];
    sha256_stream *s[3];
    unsigned char *const piece = calloc(1, PIECE);

    assert_non_null(piece);
    for (int i = 0; i < 3; i++)
        assert_non_null(s[i] = sha256_new());
    for (int i = 0; i < PIECES; i++) {
        sha256_update_pair(s[0], piece, PIECE, s[1], piece, PIECE - 1);
        sha256_update(s[2], piece, PIECE);
    }
    sha256_update(s[1], piece, PIECES);
    for (int i = 0; i < 3; i++) {
        sha256_finish(&hash[i], s[i]);
        sha256_free(s[i]);
    }
    assert_int_equal(sha256_compare(&hash[0], &hash[2]), 0);
    assert_int_equal(sha256_compare(&hash[1], &hash[2]), 0);
    free(piece);
}

static void parse_reads_what_hex_writes(void **state)
{
    (void)state;
    sha256 hash;
    char hex[SHA256_HEX_SIZE];
    assert_int_equal(sha256_parse(&hash, ABC_HASH, NULL), 0);
    sha256_hex(hex, &hash);
    assert_string_equal(hex, ABC_HASH);
    assert_int_equal(hash.bytes[0], 0xba);
    assert_int_equal(hash.bytes[31], 0xad);
}

static void parse_refuses_all_but_64_small_digits(void **state)
{
    (void)state;
    sha256 hash;
    char hex[SHA256_HEX_SIZE + 1] = ABC_HASH;
    assert_int_equal(sha256_parse(&hash, "", NULL), CKPT_EFORMAT);
    assert_int_equal(sha256_parse(&hash, ABC_HASH "0", NULL), CKPT_EFORMAT);
    assert_int_equal(sha256_parse(&hash, ABC_HASH "\n", NULL), CKPT_EFORMAT);
    hex[63] = '\0';
    assert_int_equal(sha256_parse(&hash, hex, NULL), CKPT_EFORMAT);
    memcpy(hex, ABC_HASH, sizeof ABC_HASH);
    hex[0] = 'B';
    assert_int_equal(sha256_parse(&hash, hex, NULL), CKPT_EFORMAT);
    hex[0] = 'g';
    assert_int_equal(sha256_parse(&hash, hex, NULL), CKPT_EFORMAT);
    hex[0] = ' ';
    assert_int_equal(sha256_parse(&hash, hex, NULL), CKPT_EFORMAT);
}

static void compare_orders_as_the_digits_do(void **state)
{
    (void)state;
    sha256 abc, two;
    assert_int_equal(sha256_parse(&abc, ABC_HASH, NULL), 0);
    assert_int_equal(sha256_parse(&two, TWO_HASH, NULL), 0);
    assert_true(sha256_compare(&two, &abc) < 0);
    assert_true(sha256_compare(&abc, &two) > 0);
    assert_int_equal(sha256_compare(&abc, &abc), 0);
}

/* The buffer and the values for seed 0 of the sanity test that comes with xxHash (tests/sanity_test.c). */
#define SANITY_SIZE 2367
static void sanity_fill(unsigned char buffer[SANITY_SIZE])
{
    uint64_t generator = 2654435761u;
    for (size_t i = 0; i < SANITY_SIZE; i++) {
        buffer[i] = (unsigned char)(generator >> 56);
        generator *= 11400714785074694797u;
    }
}

static void xxh64_gives_the_values_of_its_authors(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint64_t hash;
    } ROWS[] = {
        {0, 0x2D06800538D394C2},   {1, 0xC44BDFF4074EECDB},   {6, 0x27B56A84CD2D7325},    {12, 0xA713DAF0DFBB77E7},
        {24, 0xA3FE70BF9D3510EB},  {48, 0x397DA259ECBA1F11},  {80, 0xBCDEFBBB2C47C90A},   {195, 0xCD94217EE362EC3A},
        {403, 0xCDEB804D65C6DEA4}, {512, 0x617E49599013CB6B}, {2048, 0xDD59E2C3A5F038E0}, {2367, 0xCB37AEB9E5D361ED},
    };
    unsigned char buffer[SANITY_SIZE];
    sanity_fill(buffer);
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        assert_int_equal(xxh64_of(buffer, ROWS[i].size), ROWS[i].hash);
}

static void assert_xxh128(const void *data, size_t size, uint64_t low, uint64_t high)
{
    const hash128 hash = xxh128_of(data, size);
    assert_int_equal(hash.low, low);
    assert_int_equal(hash.high, high);
}

static void xxh128_gives_the_values_of_its_authors(void **state)
{
    (void)state;
    unsigned char buffer[SANITY_SIZE];
    sanity_fill(buffer);
    assert_xxh128(buffer, 0, 0x6001C324468D497F, 0x99AA06D3014798D8);
    assert_xxh128(buffer, 1, 0xC44BDFF4074EECDB, 0xA6CD5E9392000F6A);
    assert_xxh128(buffer, 6, 0x3E7039BDDA43CFC6, 0x082AFE0B8162D12A);
    assert_xxh128(buffer, 2367, 0xCB37AEB9E5D361ED, 0xE89C0F6FF369B427);
}

static void xxh128_stream_equals_the_whole_after_a_restart(void **state)
{
    (void)state;
    unsigned char buffer[SANITY_SIZE];
    sanity_fill(buffer);
    xxh128_stream *const s = xxh128_new();
    assert_non_null(s);
    xxh128_update(s, buffer, 100);
    xxh128_restart(s);
    xxh128_update(s, buffer, 1);
    xxh128_update(s, buffer + 1, 1500);
    xxh128_update(s, buffer + 1501, SANITY_SIZE - 1501);
    const hash128 hash = xxh128_finish(s);
    assert_int_equal(hash.low, 0xCB37AEB9E5D361ED);
    assert_int_equal(hash.high, 0xE89C0F6FF369B427);
    xxh128_free(s);
}

static void crc32_gives_the_check_value_of_its_catalogue(void **state)
{
    (void)state;
    assert_int_equal(crc32_of(0, "123456789", 9), 0xCBF43926); /* CRC-32/ISO-HDLC */
}

static void crc32_goes_on_where_it_stood(void **state)
{
    (void)state;
    uint32_t crc = crc32_of(0, "1234", 4);
    crc = crc32_of(crc, NULL, 0);
    crc = crc32_of(crc, "56789", 5);
    assert_int_equal(crc, 0xCBF43926);
}

static void freeing_nothing_is_fine(void **state)
{
    (void)state;
    sha256_free(NULL);
    xxh128_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_the_values_of_the_standard),
        cmocka_unit_test(sha256_stream_takes_a_million_bytes_in_pieces),
        cmocka_unit_test(sha256_stream_can_be_restarted),
        cmocka_unit_test(pair_gives_the_hashes_of_both),
        cmocka_unit_test(pair_counts_beyond_half_a_gibibyte),
        cmocka_unit_test(parse_reads_what_hex_writes),
        cmocka_unit_test(parse_refuses_all_but_64_small_digits),
        cmocka_unit_test(compare_orders_as_the_digits_do),
        cmocka_unit_test(xxh64_gives_the_values_of_its_authors),
        cmocka_unit_test(xxh128_gives_the_values_of_its_authors),
        cmocka_unit_test(xxh128_stream_equals_the_whole_after_a_restart),
        cmocka_unit_test(crc32_gives_the_check_value_of_its_catalogue),
        cmocka_unit_test(crc32_goes_on_where_it_stood),
        cmocka_unit_test(freeing_nothing_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
