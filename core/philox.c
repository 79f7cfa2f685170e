#include "philox.h"

#define ROUNDS       10
#define MULTIPLIER_0 0xD2511F53u
#define MULTIPLIER_1 0xCD9E8D57u
#define WEYL_0       0x9E3779B9u /* golden ratio */
#define WEYL_1       0xBB67AE85u /* sqrt(3) - 1 */

void philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t product_0 = (uint64_t)MULTIPLIER_0 * c0, product_1 = (uint64_t)MULTIPLIER_1 * c2;
        c0 = (uint32_t)(product_1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product_1;
        c2 = (uint32_t)(product_0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product_0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void random_block(uint32_t out[4], uint64_t seed, random_purpose purpose, uint32_t epoch, uint64_t index)
{
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), epoch, purpose};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    philox(out, counter, key);
}

uint32_t random_word(uint64_t seed, random_purpose purpose, uint32_t epoch, uint64_t index)
{
    uint32_t block[4];

    random_block(block, seed, purpose, epoch, index / 4);
    return block[index % 4];
}

uint32_t random_next(random_sequence *s)
{
    if (s->index % 4 == 0)
        random_block(s->block, s->seed, s->purpose, s->epoch, s->index / 4);
    return s->block[s->index++ % 4];
}
