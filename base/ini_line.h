/* One line of an INI file: reading it, and making its bytes. The grammar stands in ini.h; private to ini.c. */
#ifndef BASE_INI_LINE_H
#define BASE_INI_LINE_H

#include "ini.h"

static inline bool ini_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

typedef struct ini_line {
    char *text; /* with its end and a 0 byte behind */
    size_t size;
    char *name, *sub;                  /* of a section line, else NULL; sub may be NULL there too */
    char *key, *value;                 /* of an entry, else NULL */
    size_t value_begin, value_end;     /* where the value stands in text, with its quotes */
    const struct ini_section *section; /* which one a section line or entry belongs to; set by ini.c */
} ini_line;

/* Copies and reads one line, with its end; `path` and `number` are for messages. */
int ini_line_read(ini_line *out, const char *text, size_t size, const char *path, size_t number, ckpt_error *err);
void ini_line_clear(ini_line *line);

bool ini_line_is_blank(const ini_line *line);
const char *ini_line_end(const ini_line *line); /* "\r\n", "\n" or "" */

/* Can a line hold these? CKPT_EUSAGE if not. */
int ini_check_entry(const char *section, const char *sub, const char *key, const char *value, ckpt_error *err);

/* The bytes of a line being made, with room for checked parts of their largest size, every byte of them escaped. */
typedef struct ini_text {
    size_t size;
    char bytes[2 * INI_VALUE_MAX + 4 * INI_NAME_MAX + 64];
} ini_text;

void ini_text_add(ini_text *text, const char *part);
void ini_text_add_char(ini_text *text, char c);
void ini_text_add_quoted(ini_text *text, const char *part);
void ini_text_add_value(ini_text *text, const char *value); /* in quotes only where it needs them */

#endif
