/* Features: what a store may hold that older programs do not know, as words of config.ini and as bits in the tables of
 * packs. See docs/format.md, "Adding features". */
#ifndef CKPT_FEATURE_H
#define CKPT_FEATURE_H

#include "store_internal.h"

/* The first word of a list (between commas or blanks) that this version does not know, `*size` bytes long; NULL when
 * it knows all of them. `list` may be NULL. */
const char *feature_unknown(int *size, const char *list);

/* Adds to the list the words of these bits that are missing; *changed tells whether there were any. */
int features_list(bool *changed, struct ini *config, uint32_t bits, ckpt_error *err);
/* Puts the word of each bit into the list `read-only` of config.ini, durably, unless it is there: an older program must
 * know that it cannot write before the first pack appears that it cannot read. */
int features_announce(ckpt_store *store, uint32_t bits, ckpt_error *err);
/* The same for the list `compatible` and one word: what any other program may ignore. */
int feature_compatible_add(ckpt_store *store, const char *word, ckpt_error *err);

#endif
