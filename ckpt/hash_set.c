#include "hash_set.h"

#include "bytes.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST ((size_t)64) /* a power of two */

static bool slot_is_free(const sha256 *slot)
{
    static const sha256 FREE = {{0}};

    return sha256_compare(slot, &FREE) == 0;
}

/* Where the hash is, or would be. A hash of zeros cannot be told from a free slot; it is never found, which costs its
 * caller some work and nothing else. */
static size_t slot_of(const sha256 *slots, size_t size, const sha256 *hash)
{
    size_t at = (size_t)load_u64(hash->bytes) & (size - 1);

    while (!slot_is_free(&slots[at]) && sha256_compare(&slots[at], hash) != 0)
        at = (at + 1) & (size - 1);
    return at;
}

static int slots_grow(hash_set *set, ckpt_error *err)
{
    int rc = 0;
    const size_t size = set->size ? 2 * set->size : SLOTS_FIRST;
    sha256 *const slots = calloc(size, sizeof *slots);

    FAIL_IF_NULL(slots, err);
    for (size_t i = 0; i < set->size; i++)
        if (!slot_is_free(&set->slots[i]))
            slots[slot_of(slots, size, &set->slots[i])] = set->slots[i];
    free(set->slots);
    set->slots = slots;
    set->size = size;
out:
    return rc;
}

int hash_set_add(hash_set *set, const sha256 *hash, ckpt_error *err)
{
    int rc = 0;

    if (set->used >= set->size / 2)
        TRY(slots_grow(set, err));
    sha256 *const slot = &set->slots[slot_of(set->slots, set->size, hash)];
    if (slot_is_free(slot)) {
        *slot = *hash;
        set->used++;
    }
out:
    return rc;
}

bool hash_set_has(const hash_set *set, const sha256 *hash)
{
    return set->size > 0 && !slot_is_free(&set->slots[slot_of(set->slots, set->size, hash)]);
}

void hash_set_clear(hash_set *set)
{
    free(set->slots);
    *set = (hash_set){0};
}
