/* Text of strangers made safe to show: names from a hostile file cannot move the cursor, change colours or reorder what
 * stands around them. */
#ifndef BASE_VISIBLE_H
#define BASE_VISIBLE_H

#include <stddef.h>

/* A malloc'ed copy in valid UTF-8, or NULL when memory is exhausted. Control characters become \n, \t, \r or \x1b,
 * bytes that are no UTF-8 \xff, invisible and reordering characters \u202e. A '\' stays one '\': the result is to be
 * read by people, not parsed. *columns (may be NULL) is its width on a terminal. */
char *visible_text(size_t *columns, const char *text, size_t size);

/* How many columns of a terminal the first `size` bytes of visible text take. */
size_t visible_columns(const char *visible, size_t size);

/* The length in bytes of the longest start of visible text that takes at most `columns` columns. */
size_t visible_cut(const char *visible, size_t columns);

#endif
