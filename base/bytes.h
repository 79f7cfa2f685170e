/* Little-endian loads and stores of unaligned integers, as all formats of ckpt use them. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* All of them 0? Also when there are none. */
static inline bool bytes_are_zero(const void *bytes, size_t size)
{
    const unsigned char *const p = bytes;
    return size == 0 || (p[0] == 0 && memcmp(p, p + 1, size - 1) == 0);
}

static inline uint16_t load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return le16toh(v);
}

static inline uint32_t load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static inline uint64_t load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static inline void store_u16(void *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof v);
}

static inline void store_u32(void *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof v);
}

static inline void store_u64(void *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof v);
}

#endif
