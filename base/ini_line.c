#include "ini_line.h"

#include "fail.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The part of a line that is still to be read; `end` is where its line end begins. */
typedef struct scan {
    const char *at, *end;
    const char *path;
    size_t line;
} scan;

static bool is_control(char c)
{
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

static void skip_blanks(scan *s)
{
    while (s->at < s->end && ini_is_blank(*s->at))
        s->at++;
}

static bool skip_char(scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static size_t line_end_size(const char *text, size_t size)
{
    if (size == 0 || text[size - 1] != '\n')
        return 0;
    return size >= 2 && text[size - 2] == '\r' ? 2 : 1;
}

const char *ini_line_end(const ini_line *line)
{
    return line->text + line->size - line_end_size(line->text, line->size);
}

bool ini_line_is_blank(const ini_line *line)
{
    size_t size = line->size - line_end_size(line->text, line->size);
    for (size_t i = 0; i < size; i++)
        if (!ini_is_blank(line->text[i]))
            return false;
    return true;
}

void ini_line_clear(ini_line *line)
{
    free(line->text);
    free(line->name);
    free(line->sub);
    free(line->key);
    free(line->value);
    *line = (ini_line){0};
}

static int scan_name(char out[INI_NAME_MAX + 1], scan *s, const char *what, ckpt_error *err)
{
    int rc = 0;
    const char *begin = s->at;
    while (s->at < s->end && is_name(*s->at))
        s->at++;
    size_t size = (size_t)(s->at - begin);
    FAIL_IF(size == 0, err, CKPT_EFORMAT, "%s:%zu: %s expected", s->path, s->line, what);
    FAIL_IF(size > INI_NAME_MAX, err, CKPT_EFORMAT, "%s:%zu: %s is longer than %u bytes", s->path, s->line, what,
            INI_NAME_MAX);
    memcpy(out, begin, size);
    out[size] = 0;
out:
    return rc;
}

/* Reads from behind the opening '"' to behind the closing one; `out` has room for size_max + 1 bytes. */
static int scan_quoted(char *out, size_t size_max, scan *s, ckpt_error *err)
{
    int rc = 0;
    size_t n = 0;
    for (;;) {
        FAIL_IF(s->at == s->end, err, CKPT_EFORMAT, "%s:%zu: closing quote is missing", s->path, s->line);
        char c = *s->at++;
        if (c == '"')
            break;
        if (c == '\\' && s->at < s->end && (*s->at == '"' || *s->at == '\\'))
            c = *s->at++;
        FAIL_IF(is_control(c), err, CKPT_EFORMAT, "%s:%zu: control character 0x%02x", s->path, s->line,
                (unsigned)(unsigned char)c);
        FAIL_IF(n == size_max, err, CKPT_EFORMAT, "%s:%zu: text is longer than %zu bytes", s->path, s->line, size_max);
        out[n++] = c;
    }
    out[n] = 0;
out:
    return rc;
}

/* What is left of a line may be blanks, or a blank and a comment. */
static int scan_tail(const scan *rest, ckpt_error *err)
{
    scan s = *rest;
    skip_blanks(&s);
    if (s.at == s.end || (*s.at == '#' && s.at > rest->at))
        return 0;
    return error_set(err, CKPT_EFORMAT, "%s:%zu: unexpected text at the end of the line", s.path, s.line);
}

/* Reads from behind '[' on. */
static int scan_section(ini_line *line, scan *s, ckpt_error *err)
{
    int rc = 0;
    char name[INI_NAME_MAX + 1];
    char sub[INI_NAME_MAX + 1];
    bool has_sub = false;

    TRY(scan_name(name, s, "section name", err));
    const char *behind_name = s->at;
    skip_blanks(s);
    if (s->at > behind_name && skip_char(s, '"')) {
        TRY(scan_quoted(sub, INI_NAME_MAX, s, err));
        FAIL_IF(!sub[0], err, CKPT_EFORMAT, "%s:%zu: empty name in quotes", s->path, s->line);
        has_sub = true;
    }
    FAIL_IF(!skip_char(s, ']'), err, CKPT_EFORMAT, "%s:%zu: \"]\" expected", s->path, s->line);
    TRY(scan_tail(s, err));
    line->name = strdup(name);
    line->sub = has_sub ? strdup(sub) : NULL;
    FAIL_IF_NULL(line->name && (line->sub || !has_sub), err);
out:
    return rc;
}

/* Reads a value without quotes, up to the comment or the end. */
static int scan_bare(char out[INI_VALUE_MAX + 1], scan *s, ckpt_error *err)
{
    int rc = 0;
    const char *begin = s->at;
    while (s->at < s->end && !(*s->at == '#' && s->at > begin && ini_is_blank(s->at[-1]))) {
        FAIL_IF(is_control(*s->at), err, CKPT_EFORMAT, "%s:%zu: control character 0x%02x", s->path, s->line,
                (unsigned)(unsigned char)*s->at);
        s->at++;
    }
    while (s->at > begin && ini_is_blank(s->at[-1]))
        s->at--;
    size_t size = (size_t)(s->at - begin);
    FAIL_IF(size > INI_VALUE_MAX, err, CKPT_EFORMAT, "%s:%zu: value is longer than %u bytes", s->path, s->line,
            INI_VALUE_MAX);
    memcpy(out, begin, size);
    out[size] = 0;
out:
    return rc;
}

static int scan_entry(ini_line *line, scan *s, ckpt_error *err)
{
    int rc = 0;
    char key[INI_NAME_MAX + 1];
    char value[INI_VALUE_MAX + 1] = "";

    TRY(scan_name(key, s, "\"[section]\" or \"key = value\"", err));
    skip_blanks(s);
    FAIL_IF(!skip_char(s, '='), err, CKPT_EFORMAT, "%s:%zu: \"=\" expected after \"%s\"", s->path, s->line, key);

    const char *behind_sign = s->at;
    skip_blanks(s);
    bool empty = s->at == s->end || (*s->at == '#' && s->at > behind_sign);
    if (empty)
        s->at = behind_sign; /* so that a value that is set later stands right behind the sign */
    line->value_begin = (size_t)(s->at - line->text);
    if (!empty && skip_char(s, '"'))
        TRY(scan_quoted(value, INI_VALUE_MAX, s, err));
    else if (!empty)
        TRY(scan_bare(value, s, err));
    line->value_end = (size_t)(s->at - line->text);
    TRY(scan_tail(s, err));

    line->key = strdup(key);
    line->value = strdup(value);
    FAIL_IF_NULL(line->key && line->value, err);
out:
    return rc;
}

int ini_line_read(ini_line *out, const char *text, size_t size, const char *path, size_t number, ckpt_error *err)
{
    int rc = 0;
    ini_line line = {.size = size};

    line.text = malloc(size + 1);
    FAIL_IF_NULL(line.text, err);
    memcpy(line.text, text, size);
    line.text[size] = 0;

    scan s = {line.text, line.text + size - line_end_size(text, size), path, number};
    FAIL_IF(memchr(line.text, 0, size), err, CKPT_EFORMAT, "%s:%zu: control character 0x00", s.path, s.line);
    skip_blanks(&s);
    if (skip_char(&s, '['))
        TRY(scan_section(&line, &s, err));
    else if (s.at < s.end && *s.at != '#' && *s.at != ';')
        TRY(scan_entry(&line, &s, err));
    *out = line;
    line = (ini_line){0};
out:
    ini_line_clear(&line);
    return rc;
}

static int check_name(const char *name, const char *what, ckpt_error *err)
{
    size_t size = strlen(name);
    bool good = size > 0 && size <= INI_NAME_MAX;
    for (size_t i = 0; good && i < size; i++)
        good = is_name(name[i]);
    return good ? 0
                : error_set(err, CKPT_EUSAGE, "%s must be 1 to %u letters, digits, \".\", \"_\" or \"-\"", what,
                            INI_NAME_MAX);
}

static int check_text(const char *text, size_t size_max, const char *what, ckpt_error *err)
{
    int rc = 0;
    size_t size = strlen(text);
    FAIL_IF(size > size_max, err, CKPT_EUSAGE, "%s is longer than %zu bytes", what, size_max);
    for (size_t i = 0; i < size; i++)
        FAIL_IF(is_control(text[i]), err, CKPT_EUSAGE, "%s holds control character 0x%02x", what,
                (unsigned)(unsigned char)text[i]);
out:
    return rc;
}

int ini_check_entry(const char *section, const char *sub, const char *key, const char *value, ckpt_error *err)
{
    int rc = 0;
    if (section[0] || sub)
        TRY(check_name(section, "section name", err));
    FAIL_IF(sub && !sub[0], err, CKPT_EUSAGE, "name in quotes is empty");
    if (sub)
        TRY(check_text(sub, INI_NAME_MAX, "name in quotes", err));
    TRY(check_name(key, "key", err));
    TRY(check_text(value, INI_VALUE_MAX, "value", err));
out:
    return rc;
}

void ini_text_add_char(ini_text *text, char c)
{
    assert(text->size < sizeof text->bytes);
    text->bytes[text->size++] = c;
}

void ini_text_add(ini_text *text, const char *part)
{
    for (; *part; part++)
        ini_text_add_char(text, *part);
}

void ini_text_add_quoted(ini_text *text, const char *part)
{
    ini_text_add_char(text, '"');
    for (; *part; part++) {
        if (*part == '"' || *part == '\\')
            ini_text_add_char(text, '\\');
        ini_text_add_char(text, *part);
    }
    ini_text_add_char(text, '"');
}

static bool needs_quotes(const char *value)
{
    size_t size = strlen(value);
    if (size == 0)
        return false;
    if (value[0] == '"' || value[0] == '#' || ini_is_blank(value[0]) || ini_is_blank(value[size - 1]))
        return true;
    for (size_t i = 1; i < size; i++)
        if (value[i] == '#' && ini_is_blank(value[i - 1]))
            return true;
    return false;
}

void ini_text_add_value(ini_text *text, const char *value)
{
    if (needs_quotes(value))
        ini_text_add_quoted(text, value);
    else
        ini_text_add(text, value);
}
