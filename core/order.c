#include "order.h"

#include <assert.h>

/* A number in [0, bound): the upper word of word * bound; words that would make some numbers come more often than
 * others are drawn again. */
static uint32_t draw_below(random_sequence *draws, uint32_t bound)
{
    uint64_t product = (uint64_t)random_next(draws) * bound;

    if ((uint32_t)product < bound) {
        const uint32_t unfair = -bound % bound; /* 2^32 mod bound */
        while ((uint32_t)product < unfair)
            product = (uint64_t)random_next(draws) * bound;
    }
    return (uint32_t)(product >> 32);
}

void order_shuffle(uint32_t *items, size_t count, uint64_t seed, random_purpose purpose, uint32_t epoch)
{
    random_sequence draws = {.seed = seed, .purpose = purpose, .epoch = epoch};

    assert(count <= UINT32_MAX);
    for (size_t place = count; place-- > 1;) {
        const uint32_t other = draw_below(&draws, (uint32_t)(place + 1));
        const uint32_t item = items[place];
        items[place] = items[other];
        items[other] = item;
    }
}

void order_split(uint32_t *items, size_t count, size_t held, uint64_t seed)
{
    random_sequence draws = {.seed = seed, .purpose = RANDOM_SPLIT};
    uint32_t *kept = items, *const held_first = items + (count - held), *held_next = held_first;

    assert(count <= UINT32_MAX && held <= count);
    for (uint32_t i = 0; i < count; i++) {
        const size_t left = held - (size_t)(held_next - held_first);
        if (draw_below(&draws, (uint32_t)count - i) < left)
            *held_next++ = i;
        else
            *kept++ = i;
    }
}
