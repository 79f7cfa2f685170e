/* Hashes: thin wrappers, so that one header says what ckpt uses and the libraries behind it can change. */
#define OPENSSL_SUPPRESS_DEPRECATED /* for SHA256_Init and its kin, see sha256_stream */
#include "hash.h"

#include "fail.h"
#include "sha256_pair.h"

#include <libdeflate.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* OpenSSL's older interface keeps its state where the caller says, while EVP allocates with every restart: a hash that
 * names things has no way to say that there was no memory. The code below both is the same. */
struct sha256_stream {
    SHA256_CTX context;
    sha256_pair_fn *pair; /* NULL: one at a time */
};

sha256_stream *sha256_new(void)
{
    sha256_stream *s = malloc(sizeof *s);
    if (s) {
        SHA256_Init(&s->context);
        s->pair = sha256_pair_best();
    }
    return s;
}

void sha256_restart(sha256_stream *s)
{
    SHA256_Init(&s->context);
}

void sha256_update(sha256_stream *s, const void *data, size_t size)
{
    SHA256_Update(&s->context, data, size);
}

/* Bytes that a stream still needs to stand between two blocks. */
static size_t to_block_end(const sha256_stream *s)
{
    return (SHA256_BLOCK_SIZE - s->context.num) % SHA256_BLOCK_SIZE;
}

/* Counts whole blocks that went into the state by themselves. The context counts bits in two words. */
static void blocks_count(sha256_stream *s, size_t blocks)
{
    const uint64_t bits = ((uint64_t)s->context.Nh << 32 | s->context.Nl) + (uint64_t)blocks * SHA256_BLOCK_SIZE * 8;

    s->context.Nl = (uint32_t)bits;
    s->context.Nh = (uint32_t)(bits >> 32);
}

void sha256_update_pair(sha256_stream *a, const void *data_a, size_t size_a, sha256_stream *b, const void *data_b,
                        size_t size_b)
{
    const unsigned char *x = data_a, *y = data_b;
    const size_t head_a = to_block_end(a), head_b = to_block_end(b);

    if (a->pair && size_a > head_a && size_b > head_b) {
        sha256_update(a, x, head_a);
        sha256_update(b, y, head_b);
        x += head_a;
        y += head_b;
        size_a -= head_a;
        size_b -= head_b;
        const size_t blocks = (size_a < size_b ? size_a : size_b) / SHA256_BLOCK_SIZE;
        a->pair(a->context.h, x, b->context.h, y, blocks);
        blocks_count(a, blocks);
        blocks_count(b, blocks);
        x += blocks * SHA256_BLOCK_SIZE;
        y += blocks * SHA256_BLOCK_SIZE;
        size_a -= blocks * SHA256_BLOCK_SIZE;
        size_b -= blocks * SHA256_BLOCK_SIZE;
    }
    sha256_update(a, x, size_a);
    sha256_update(b, y, size_b);
}

void sha256_finish(sha256 *out, sha256_stream *s)
{
    SHA256_Final(out->bytes, &s->context);
}

void sha256_free(sha256_stream *s)
{
    free(s);
}

void sha256_of(sha256 *out, const void *data, size_t size)
{
    SHA256_CTX context;
    SHA256_Init(&context);
    SHA256_Update(&context, data, size);
    SHA256_Final(out->bytes, &context);
}

void sha256_hex(char hex[SHA256_HEX_SIZE], const sha256 *hash)
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_SIZE; i++) {
        hex[2 * i] = DIGITS[hash->bytes[i] >> 4];
        hex[2 * i + 1] = DIGITS[hash->bytes[i] & 15];
    }
    hex[2 * SHA256_SIZE] = '\0';
}

/* One more than the value of a digit, 0 for other characters. A table, as branches on random digits are guessed wrong.
 */
static const unsigned char DIGIT_VALUES[256] = {
    ['0'] = 1, ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9, ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16};

static int digit_value(char c)
{
    return DIGIT_VALUES[(unsigned char)c] - 1;
}

int sha256_parse(sha256 *out, const char *hex, ckpt_error *err)
{
    int rc = 0;
    sha256 parsed;
    for (size_t i = 0; i < SHA256_SIZE; i++) {
        const int high = digit_value(hex[2 * i]);
        const int low = high < 0 ? -1 : digit_value(hex[2 * i + 1]); /* a 0 may stand at either place */
        FAIL_IF(low < 0, err, CKPT_EFORMAT, "%.70s: not a SHA-256 in hexadecimal", hex);
        parsed.bytes[i] = (unsigned char)(high << 4 | low);
    }
    FAIL_IF(hex[2 * SHA256_SIZE], err, CKPT_EFORMAT, "%.70s: longer than a SHA-256", hex);
    *out = parsed;
out:
    return rc;
}

int sha256_compare(const sha256 *a, const sha256 *b)
{
    return memcmp(a->bytes, b->bytes, SHA256_SIZE);
}

uint64_t xxh64_of(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

static hash128 hash128_from(XXH128_hash_t hash)
{
    return (hash128){.low = hash.low64, .high = hash.high64};
}

hash128 xxh128_of(const void *data, size_t size)
{
    return hash128_from(XXH3_128bits(data, size));
}

struct xxh128_stream {
    XXH3_state_t *state; /* made by the library, which needs it aligned to 64 */
};

xxh128_stream *xxh128_new(void)
{
    xxh128_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->state = XXH3_createState();
    if (!s->state) {
        free(s);
        return NULL;
    }
    xxh128_restart(s);
    return s;
}

void xxh128_restart(xxh128_stream *s)
{
    XXH3_128bits_reset(s->state); /* fails on NULL only, as do update and digest */
}

void xxh128_update(xxh128_stream *s, const void *data, size_t size)
{
    XXH3_128bits_update(s->state, data, size);
}

hash128 xxh128_finish(const xxh128_stream *s)
{
    return hash128_from(XXH3_128bits_digest(s->state));
}

void xxh128_free(xxh128_stream *s)
{
    if (!s)
        return;
    XXH3_freeState(s->state);
    free(s);
}

uint32_t crc32_of(uint32_t crc, const void *data, size_t size)
{
    return size ? libdeflate_crc32(crc, data, size) : crc; /* it takes NULL for a request of the first value */
}
