/* Hashes: SHA-256 names things for ever, XXH3 finds and checks them quickly, CRC-32 is what zip files carry. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <ckpt/error.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE     32
#define SHA256_HEX_SIZE 65 /* with the final 0 */

typedef struct sha256 {
    unsigned char bytes[SHA256_SIZE];
} sha256;

typedef struct hash128 {
    uint64_t low, high;
} hash128;

/* Streaming SHA-256 (OpenSSL, which uses the CPU's SHA instructions). */
typedef struct sha256_stream sha256_stream;
sha256_stream *sha256_new(void); /* NULL: out of memory */
void sha256_restart(sha256_stream *s);
void sha256_update(sha256_stream *s, const void *data, size_t size);
/* Updates two streams, which on CPUs with SHA instructions takes little more time than the longer of them alone. */
void sha256_update_pair(sha256_stream *a, const void *data_a, size_t size_a, sha256_stream *b, const void *data_b,
                        size_t size_b);
void sha256_finish(sha256 *out, sha256_stream *s); /* the stream may be restarted afterwards */
void sha256_free(sha256_stream *s);

void sha256_of(sha256 *out, const void *data, size_t size);
void sha256_hex(char hex[SHA256_HEX_SIZE], const sha256 *hash);
int sha256_parse(sha256 *out, const char *hex, ckpt_error *err); /* exactly 64 lower-case digits, then 0 */
int sha256_compare(const sha256 *a, const sha256 *b);            /* as memcmp */

uint64_t xxh64_of(const void *data, size_t size); /* XXH3, 64 bits, seed 0 */
hash128 xxh128_of(const void *data, size_t size); /* XXH3, 128 bits, seed 0 */

typedef struct xxh128_stream xxh128_stream;
xxh128_stream *xxh128_new(void);
void xxh128_restart(xxh128_stream *s);
void xxh128_update(xxh128_stream *s, const void *data, size_t size);
hash128 xxh128_finish(const xxh128_stream *s);
void xxh128_free(xxh128_stream *s);

uint32_t crc32_of(uint32_t crc, const void *data, size_t size); /* IEEE, start with 0; hardware speed (libdeflate) */

#endif
