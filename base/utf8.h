/* Cutting text to a length without leaving half a character. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* The largest length of at most `size_max` bytes at which `text` (of `size` bytes) can be cut between two UTF-8
 * characters. Text that is not UTF-8 is cut where a byte can begin a character. */
static inline size_t utf8_cut(const char *text, size_t size, size_t size_max)
{
    if (size <= size_max)
        return size;
    size_t cut = size_max;
    while (cut > 0 && ((unsigned char)text[cut] & 0xC0) == 0x80)
        cut--;
    return cut;
}

#endif
