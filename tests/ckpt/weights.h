/* Bytes that look like training: noise, weights, and the same weights some steps later. */
#ifndef TESTS_WEIGHTS_H
#define TESTS_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t random_next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static inline void fill_noise(void *dst, size_t size, uint64_t seed)
{
    unsigned char *out = dst;
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(random_next(&seed) >> 24);
}

/* About normal, as weights are: the sum of four uniform numbers. */
static inline float weight(uint64_t *seed)
{
    float sum = 0;
    for (unsigned i = 0; i < 4; i++)
        sum += (float)(int32_t)(random_next(seed) >> 32) / 2147483648.0f;
    return sum * 0.05f;
}

static inline void fill_weights(void *dst, size_t size, uint64_t seed)
{
    for (size_t i = 0; i + 4 <= size; i += 4) {
        const float x = weight(&seed);
        memcpy((unsigned char *)dst + i, &x, 4);
    }
}

/* The same weights some training steps later. */
static inline void fill_trained(void *dst, const void *weights, size_t size, float change, uint64_t seed)
{
    for (size_t i = 0; i + 4 <= size; i += 4) {
        float x = 0;
        memcpy(&x, (const unsigned char *)weights + i, 4);
        x += change * weight(&seed);
        memcpy((unsigned char *)dst + i, &x, 4);
    }
}

#endif
