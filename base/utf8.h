/* UTF-8: reading characters, cutting text between them, and how wide a terminal shows them. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

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

/* Reads the character that begins at `text`: its length in bytes, or 0 where no valid one begins (also at the end;
 * overlong forms, surrogates and codes above 0x10FFFF are not valid). */
size_t utf8_next(uint32_t *code, const char *text, size_t size);

/* Columns of a terminal that a printable character takes: 0 (combining), 1, or 2 (East Asian wide), in every locale. */
unsigned utf8_columns(uint32_t code);

#endif
