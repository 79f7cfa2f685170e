/* INI files: reading, and editing in place.
 *
 *     file    := line*                               lines end in LF or CRLF; the last may lack its end
 *     line    := blank | comment | section | entry   each may be indented
 *     comment := ("#" | ";") anything
 *     section := "[" name "]" | "[" name blank '"' sub '"' "]"
 *     entry   := key "=" value
 *
 * - Names and keys are letters, digits, ".", "_" and "-", and their case counts. A sub-name is any text without control
 *   characters; '\"' and '\\' stand for '"' and '\' in it.
 * - A comment may also end a section or an entry line: a blank, then "#". A ";" is a comment at the start of a line
 *   only, and "#" without a blank before it is data: tokens and URLs need no quotes.
 * - Blanks around a value are not part of it. A value that begins with '"' is quoted: it runs to the next '"' that has
 *   no '\' before it, and nothing but a comment may follow. In quotes '\"' and '\\' stand for '"' and '\', any other
 *   '\' for itself. Outside quotes '"' and '\' are data, also at the end of a line; lines are never continued.
 * - Entries before the first section belong to the section "". Sections of the same name are one section.
 * - Values hold no control character but the tab. Text is bytes; a UTF-8 byte order mark at the start is skipped.
 *
 * Values are written bare where reading gives them back, else in quotes: those that begin or end with a blank, begin
 * with '"' or "#", or hold a blank before "#". Whatever ini_set() accepts, ini_get() returns.
 *
 * An edit changes the bytes of the lines concerned only; comments, order, indentation and line ends stay. */
#ifndef BASE_INI_H
#define BASE_INI_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>

#define INI_SIZE_MAX  (1u << 20) /* bytes of a file */
#define INI_LINES_MAX 32768u
#define INI_NAME_MAX  255u  /* bytes of a section, a sub-name, a key */
#define INI_VALUE_MAX 4096u /* bytes of a value, without quotes and escapes */

typedef struct ini ini;

/* Parses `size` bytes, which are copied; 0 bytes make an empty file. `path` is for messages ("config.ini:12: ...") and
 * is copied too. Errors: CKPT_EFORMAT with the line, CKPT_ENOMEM. */
int ini_parse(ini **out, const char *data, size_t size, const char *path, ckpt_error *err);

/* The whole file as it stands after all edits, malloc'ed, with a 0 byte behind it. */
int ini_write(char **data, size_t *size, const ini *file, ckpt_error *err);

void ini_free(ini *file); /* NULL is fine */

/* In all that follows `sub` is NULL for a plain section, and strings that are returned are valid until the next edit.
 */

/* The value, or NULL when there is none; of duplicate keys the last counts. */
const char *ini_get(const ini *file, const char *section, const char *sub, const char *key);

typedef struct ini_entry {
    const char *section;
    const char *sub; /* NULL: a plain section */
    const char *key; /* NULL: the section line itself */
    const char *value;
    size_t line; /* 1 is the first */
} ini_entry;

/* Visits section lines and entries in the order of the file: start with *cursor = 0, go on until false comes back. */
bool ini_next(ini_entry *entry, size_t *cursor, const ini *file);

bool ini_has_section(const ini *file, const char *section, const char *sub);

/* Errors of edits: CKPT_EUSAGE for a name or value that the format cannot hold, CKPT_EFORMAT when the file would pass a
 * limit above, CKPT_ENOMEM; the file is then as it was. */

/* Gives the key one value: the last entry of that key is changed (a comment behind it stays), or one is added. Earlier
 * duplicates stay, and do not count. */
int ini_set(ini *file, const char *section, const char *sub, const char *key, const char *value, ckpt_error *err);

/* Adds an entry behind the last one of the section, even when the key is there already; makes the section if needed. */
int ini_add(ini *file, const char *section, const char *sub, const char *key, const char *value, ckpt_error *err);

/* Removes all entries of that key; returns how many there were. */
size_t ini_unset(ini *file, const char *section, const char *sub, const char *key);

/* Removes the section lines of that name and everything up to the last entry of each, with the blank lines that set it
 * off; comments behind the last entry stay, since they mostly belong to the next section. Returns the number of section
 * lines removed (for "", 1 when there was an entry). */
size_t ini_remove_section(ini *file, const char *section, const char *sub);

#endif
