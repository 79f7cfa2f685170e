/* A set of SHA-256 hashes: open addressing, at most half full. */
#ifndef CKPT_HASH_SET_H
#define CKPT_HASH_SET_H

#include "hash.h"

#include <stdbool.h>

typedef struct hash_set {
    sha256 *slots; /* all 0: free */
    size_t size, used;
} hash_set;

/* Adding one that is there changes nothing. CKPT_ENOMEM. */
int hash_set_add(hash_set *set, const sha256 *hash, ckpt_error *err);
bool hash_set_has(const hash_set *set, const sha256 *hash);
void hash_set_clear(hash_set *set);

#endif
