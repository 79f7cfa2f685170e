#include "visible.h"

#include "utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every byte becomes at most "\xff"; a character that is written as "\u202e" or "\U000e0001" has 2 to 4 bytes. */
#define GROWTH_MAX      4
#define ESCAPE_SIZE_MAX 12

static bool is_between(uint32_t code, uint32_t first, uint32_t last)
{
    return code >= first && code <= last;
}

/* Characters that a terminal obeys, or that hide or reorder others: C0 and C1 controls, marks and overrides of
 * direction, line and paragraph separators, zero-width spaces, annotations, tags. The two joiners shape scripts and
 * emoji and stay. */
static bool is_unsafe(uint32_t code)
{
    return code < 0x20 || is_between(code, 0x7F, 0x9F) || code == 0x61C || code == 0x180E || code == 0x200B ||
           code == 0x200E || code == 0x200F || is_between(code, 0x2028, 0x202E) || is_between(code, 0x2060, 0x206F) ||
           code == 0xFEFF || is_between(code, 0xFFF9, 0xFFFB) || is_between(code, 0xE0000, 0xE007F);
}

static void escape_code(char out[ESCAPE_SIZE_MAX], uint32_t code)
{
    static const char NAMED[] = "\n\t\r";
    static const char LETTERS[] = "ntr";
    const char *named = code < 0x80 && code ? strchr(NAMED, (int)code) : NULL;
    if (named)
        snprintf(out, ESCAPE_SIZE_MAX, "\\%c", LETTERS[named - NAMED]);
    else if (code < 0x80)
        snprintf(out, ESCAPE_SIZE_MAX, "\\x%02x", (unsigned)code);
    else if (code < 0x10000)
        snprintf(out, ESCAPE_SIZE_MAX, "\\u%04x", (unsigned)code);
    else
        snprintf(out, ESCAPE_SIZE_MAX, "\\U%08x", (unsigned)code);
}

/* Writes the next character or byte of `text` in safe form; returns how many bytes of `text` that were. */
static size_t visible_next(char out[ESCAPE_SIZE_MAX], unsigned *columns, const char *text, size_t size)
{
    uint32_t code;
    size_t length = utf8_next(&code, text, size);
    if (length == 0) {
        snprintf(out, ESCAPE_SIZE_MAX, "\\x%02x", (unsigned)(unsigned char)text[0]);
    } else if (is_unsafe(code)) {
        escape_code(out, code);
    } else {
        memcpy(out, text, length);
        out[length] = 0;
        *columns = utf8_columns(code);
        return length;
    }
    *columns = (unsigned)strlen(out);
    return length ? length : 1;
}

char *visible_text(size_t *columns, const char *text, size_t size)
{
    size_t used = 0;
    size_t total = 0;
    char *out = size < SIZE_MAX / GROWTH_MAX - ESCAPE_SIZE_MAX ? malloc(size * GROWTH_MAX + ESCAPE_SIZE_MAX) : NULL;
    if (!out)
        return NULL;
    for (size_t at = 0; at < size;) {
        unsigned wide;
        at += visible_next(out + used, &wide, text + at, size - at);
        used += strlen(out + used);
        total += wide;
    }
    out[used] = 0;
    if (columns)
        *columns = total;
    return out;
}

/* Adds the columns of the character at `at` and returns its length. */
static size_t visible_step(size_t *columns, const char *at, size_t size)
{
    uint32_t code;
    size_t length = utf8_next(&code, at, size);
    *columns += length ? utf8_columns(code) : 1;
    return length ? length : 1;
}

size_t visible_columns(const char *visible, size_t size)
{
    size_t columns = 0;
    for (size_t at = 0; at < size;)
        at += visible_step(&columns, visible + at, size - at);
    return columns;
}

size_t visible_cut(const char *visible, size_t columns)
{
    size_t size = strlen(visible);
    size_t at = 0;
    size_t used = 0;
    while (at < size) {
        size_t length = visible_step(&used, visible + at, size - at);
        if (used > columns)
            break;
        at += length;
    }
    return at;
}
