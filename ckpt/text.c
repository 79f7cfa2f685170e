#include "text.h"

#include <stdint.h>

/* Bytes of the sequence that starts at p, and its code point; 0 when it is no UTF-8. The final 0 of the string is no
 * continuation byte, so a sequence that is cut off ends there. */
static size_t sequence_read(uint32_t *point, const unsigned char *p)
{
    static const uint32_t LOWEST[] = {0, 0, 0x80, 0x800, 0x10000}; /* below it the form is overlong */
    size_t length = 1;

    if (p[0] < 0x80)
        *point = p[0];
    else if ((p[0] & 0xe0) == 0xc0)
        length = 2, *point = p[0] & 0x1fu;
    else if ((p[0] & 0xf0) == 0xe0)
        length = 3, *point = p[0] & 0x0fu;
    else if ((p[0] & 0xf8) == 0xf0)
        length = 4, *point = p[0] & 0x07u;
    else
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *point = *point << 6 | (p[i] & 0x3fu);
    }
    const bool surrogate = *point >= 0xd800 && *point <= 0xdfff;
    return *point < LOWEST[length] || surrogate || *point > 0x10ffff ? 0 : length;
}

bool text_is_clean(const char *text, bool lines)
{
    const unsigned char *p = (const unsigned char *)text;

    while (*p) {
        uint32_t point;
        const size_t length = sequence_read(&point, p);
        const bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
        if (length == 0 || (control && !(lines && (point == '\t' || point == '\n'))))
            return false;
        p += length;
    }
    return true;
}
