/* Words that people type, and what they may have meant. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include <stddef.h>

#define WORD_SIZE_MAX 255 /* bytes; longer words are not compared */

/* Letters to insert, remove, replace, or exchange with their neighbour to make b of a (optimal string alignment);
 * SIZE_MAX when one of them is too long. */
size_t word_distance(const char *a, const char *b);

/* The word of the list (ended by NULL) that `word` most likely meant: one that it abbreviates, or the first of those
 * nearest; NULL when none is near. */
const char *word_nearest(const char *word, const char *const *list);

#endif
