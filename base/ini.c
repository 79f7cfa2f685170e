/* The file is an array of lines, each with its bytes and what was read from them. An edit makes the new bytes of a line
 * and reads them with the parser that reads files, so that the two cannot disagree. */
#include "ini.h"

#include "fail.h"
#include "ini_line.h"

#include <stdlib.h>
#include <string.h>

#define INI_SECTIONS_MAX 1024u /* distinct ones */

static const char BOM[3] = "\xef\xbb\xbf";

typedef struct ini_section {
    char *name;
    char *sub; /* NULL: a plain section */
} ini_section;

struct ini {
    char *path;
    bool bom;
    size_t size; /* of all lines */
    ini_line *lines;
    size_t line_count, line_room;
    ini_section **sections; /* each name once, so that pointers can be compared; [0] is "" */
    size_t section_count, section_room;
};

static bool section_is(const ini_section *section, const char *name, const char *sub)
{
    if (strcmp(section->name, name) != 0 || !section->sub != !sub)
        return false;
    return !sub || strcmp(section->sub, sub) == 0;
}

static const ini_section *section_find(const ini *file, const char *name, const char *sub)
{
    for (size_t i = 0; i < file->section_count; i++)
        if (section_is(file->sections[i], name, sub))
            return file->sections[i];
    return NULL;
}

static void section_free(ini_section *section)
{
    if (section) {
        free(section->name);
        free(section->sub);
    }
    free(section);
}

/* Finds or makes; the result lives as long as the file. */
static int section_intern(const ini_section **out, ini *file, const char *name, const char *sub, ckpt_error *err)
{
    int rc = 0;
    ini_section *section = NULL;

    *out = section_find(file, name, sub);
    if (*out)
        return 0;
    FAIL_IF(file->section_count == INI_SECTIONS_MAX, err, CKPT_EFORMAT, "%s: more than %u sections", file->path,
            INI_SECTIONS_MAX);
    if (file->section_count == file->section_room) {
        size_t room = file->section_room ? 2 * file->section_room : 8;
        ini_section **sections = realloc(file->sections, room * sizeof(ini_section *));
        FAIL_IF_NULL(sections, err);
        file->sections = sections;
        file->section_room = room;
    }
    section = calloc(1, sizeof *section);
    FAIL_IF_NULL(section, err);
    section->name = strdup(name);
    FAIL_IF_NULL(section->name, err);
    section->sub = sub ? strdup(sub) : NULL;
    FAIL_IF_NULL(!sub || section->sub, err);
    file->sections[file->section_count++] = section;
    *out = section;
    section = NULL;
out:
    section_free(section);
    return rc;
}

/* Reads a line that stands in `section`, unless it begins one itself. */
static int line_read(ini_line *out, ini *file, const ini_section *section, const char *text, size_t size, size_t number,
                     ckpt_error *err)
{
    int rc = 0;
    ini_line line = {0};

    TRY(ini_line_read(&line, text, size, file->path, number, err));
    if (line.name)
        TRY(section_intern(&line.section, file, line.name, line.sub, err));
    else if (line.key)
        line.section = section;
    *out = line;
    line = (ini_line){0};
out:
    ini_line_clear(&line);
    return rc;
}

static int lines_reserve(ini *file, size_t more, ckpt_error *err)
{
    int rc = 0;
    FAIL_IF(file->line_count + more > INI_LINES_MAX, err, CKPT_EFORMAT, "%s: more than %u lines", file->path,
            INI_LINES_MAX);
    if (file->line_count + more > file->line_room) {
        size_t room = 2 * file->line_room + more + 16;
        ini_line *lines = realloc(file->lines, room * sizeof *lines);
        FAIL_IF_NULL(lines, err);
        file->lines = lines;
        file->line_room = room;
    }
out:
    return rc;
}

static int lines_parse(ini *file, const char *data, size_t size, ckpt_error *err)
{
    int rc = 0;
    const ini_section *section = file->sections[0];

    for (size_t at = 0; at < size;) {
        const char *newline = memchr(data + at, '\n', size - at);
        size_t line_size = newline ? (size_t)(newline - data) + 1 - at : size - at;
        TRY(lines_reserve(file, 1, err));
        ini_line *line = &file->lines[file->line_count];
        TRY(line_read(line, file, section, data + at, line_size, file->line_count + 1, err));
        file->line_count++;
        file->size += line_size;
        if (line->section)
            section = line->section;
        at += line_size;
    }
out:
    return rc;
}

int ini_parse(ini **out, const char *data, size_t size, const char *path, ckpt_error *err)
{
    int rc = 0;
    const ini_section *top;
    *out = NULL;
    ini *file = calloc(1, sizeof *file);

    FAIL_IF_NULL(file, err);
    FAIL_IF(size > INI_SIZE_MAX, err, CKPT_EFORMAT, "%s: larger than %u bytes", path, INI_SIZE_MAX);
    file->path = strdup(path);
    FAIL_IF_NULL(file->path, err);
    TRY(section_intern(&top, file, "", NULL, err));
    file->bom = size >= sizeof BOM && memcmp(data, BOM, sizeof BOM) == 0;
    size_t skip = file->bom ? sizeof BOM : 0;
    TRY(lines_parse(file, data + skip, size - skip, err));
    *out = file;
    file = NULL;
out:
    ini_free(file);
    return rc;
}

int ini_write(char **data, size_t *size, const ini *file, ckpt_error *err)
{
    int rc = 0;
    size_t at = file->bom ? sizeof BOM : 0;
    char *text = malloc(at + file->size + 1);

    *data = NULL;
    *size = 0;
    FAIL_IF_NULL(text, err);
    memcpy(text, BOM, at);
    for (size_t i = 0; i < file->line_count; i++) {
        memcpy(text + at, file->lines[i].text, file->lines[i].size);
        at += file->lines[i].size;
    }
    text[at] = 0;
    *data = text;
    *size = at;
out:
    return rc;
}

void ini_free(ini *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->line_count; i++)
        ini_line_clear(&file->lines[i]);
    for (size_t i = 0; i < file->section_count; i++)
        section_free(file->sections[i]);
    free(file->lines);
    free(file->sections);
    free(file->path);
    free(file);
}

/* The last entry of that key, or line_count. */
static size_t entry_find(const ini *file, const char *section, const char *sub, const char *key)
{
    const ini_section *wanted = section_find(file, section, sub);
    for (size_t i = file->line_count; wanted && i-- > 0;)
        if (file->lines[i].section == wanted && file->lines[i].key && strcmp(file->lines[i].key, key) == 0)
            return i;
    return file->line_count;
}

const char *ini_get(const ini *file, const char *section, const char *sub, const char *key)
{
    size_t i = entry_find(file, section, sub, key);
    return i < file->line_count ? file->lines[i].value : NULL;
}

bool ini_next(ini_entry *entry, size_t *cursor, const ini *file)
{
    while (*cursor < file->line_count) {
        const ini_line *line = &file->lines[(*cursor)++];
        if (!line->section)
            continue;
        *entry = (ini_entry){line->section->name, line->section->sub, line->key, line->value, *cursor};
        return true;
    }
    return false;
}

bool ini_has_section(const ini *file, const char *section, const char *sub)
{
    const ini_section *wanted = section_find(file, section, sub);
    for (size_t i = 0; wanted && i < file->line_count; i++)
        if (file->lines[i].section == wanted)
            return true;
    return false;
}

/* The line end to use behind line `i`: its own, or that of the first line, or LF. */
static const char *line_end_near(const ini *file, size_t i)
{
    const char *end = i < file->line_count ? ini_line_end(&file->lines[i]) : "";
    if (!end[0] && file->line_count)
        end = ini_line_end(&file->lines[0]);
    return strcmp(end, "\r\n") == 0 ? "\r\n" : "\n";
}

static int check_growth(const ini *file, size_t more, ckpt_error *err)
{
    if (more <= INI_SIZE_MAX - sizeof BOM && file->size + more <= INI_SIZE_MAX - sizeof BOM)
        return 0;
    return error_set(err, CKPT_EFORMAT, "%s: would grow over %u bytes", file->path, INI_SIZE_MAX);
}

/* Puts `count` lines in front of line `at` and takes them over; `end` is given to the line before if it has none. */
static int lines_insert(ini *file, size_t at, ini_line *fresh, size_t count, const char *end, ckpt_error *err)
{
    int rc = 0;
    size_t more = strlen(end);
    for (size_t i = 0; i < count; i++)
        more += fresh[i].size;
    TRY(check_growth(file, more, err));
    TRY(lines_reserve(file, count, err));

    ini_line *before = at ? &file->lines[at - 1] : NULL;
    if (before && !ini_line_end(before)[0]) {
        char *text = realloc(before->text, before->size + strlen(end) + 1);
        FAIL_IF_NULL(text, err);
        memcpy(text + before->size, end, strlen(end) + 1);
        before->text = text;
        before->size += strlen(end);
        file->size += strlen(end);
    }
    memmove(&file->lines[at + count], &file->lines[at], (file->line_count - at) * sizeof *file->lines);
    memcpy(&file->lines[at], fresh, count * sizeof *fresh);
    for (size_t i = 0; i < count; i++)
        file->size += fresh[i].size;
    file->line_count += count;
    memset(fresh, 0, count * sizeof *fresh);
out:
    return rc;
}

/* Lines are removed by clearing them; this closes the gaps. */
static void lines_compact(ini *file)
{
    size_t kept = 0;
    file->size = 0;
    for (size_t i = 0; i < file->line_count; i++) {
        if (!file->lines[i].text)
            continue;
        file->size += file->lines[i].size;
        file->lines[kept++] = file->lines[i];
    }
    file->line_count = kept;
}

static int entry_replace(ini *file, size_t i, const char *value, ckpt_error *err)
{
    int rc = 0;
    ini_line *line = &file->lines[i];
    ini_line fresh = {0};
    ini_text middle = {0};
    char *text = NULL;

    if (line->value_begin == line->value_end && value[0] && ini_is_blank(line->text[line->value_begin - 2]))
        ini_text_add(&middle, " "); /* "key =" becomes "key = value", "key=" becomes "key=value" */
    ini_text_add_value(&middle, value);

    size_t tail = line->size - line->value_end;
    size_t size = line->value_begin + middle.size + tail;
    TRY(check_growth(file, middle.size, err));
    text = malloc(size);
    FAIL_IF_NULL(text, err);
    memcpy(text, line->text, line->value_begin);
    memcpy(text + line->value_begin, middle.bytes, middle.size);
    memcpy(text + line->value_begin + middle.size, line->text + line->value_end, tail);
    TRY(line_read(&fresh, file, line->section, text, size, i + 1, err));
    file->size = file->size - line->size + size;
    ini_line_clear(line);
    *line = fresh;
out:
    free(text);
    return rc;
}

/* Where a new entry of the section goes: behind its last entry or section line. Returns false when there is none. */
static bool section_end(size_t *at, const ini *file, const ini_section *section)
{
    for (size_t i = file->line_count; section && i-- > 0;) {
        if (file->lines[i].section == section) {
            *at = i + 1;
            return true;
        }
    }
    *at = 0; /* for "", whose place is before all sections */
    return section == file->sections[0];
}

static int entry_line(ini_line *out, ini *file, const ini_section *section, size_t at, const char *key,
                      const char *value, const char *end, ckpt_error *err)
{
    ini_text text = {0};
    const ini_line *before = at ? &file->lines[at - 1] : NULL;
    if (before && before->key)
        for (size_t i = 0; i < INI_NAME_MAX && ini_is_blank(before->text[i]); i++)
            ini_text_add_char(&text, before->text[i]);
    ini_text_add(&text, key);
    ini_text_add(&text, " = ");
    ini_text_add_value(&text, value);
    ini_text_add(&text, end);
    return line_read(out, file, section, text.bytes, text.size, at + 1, err);
}

static int section_line(ini_line *out, ini *file, const char *section, const char *sub, const char *end,
                        ckpt_error *err)
{
    ini_text text = {0};
    ini_text_add(&text, "[");
    ini_text_add(&text, section);
    if (sub) {
        ini_text_add(&text, " ");
        ini_text_add_quoted(&text, sub);
    }
    ini_text_add(&text, "]");
    ini_text_add(&text, end);
    return line_read(out, file, NULL, text.bytes, text.size, file->line_count + 1, err);
}

int ini_add(ini *file, const char *section, const char *sub, const char *key, const char *value, ckpt_error *err)
{
    int rc = 0;
    ini_line fresh[3] = {{0}}; /* a blank line, the section, the entry */
    size_t count = 0;
    size_t at;

    TRY(ini_check_entry(section, sub, key, value, err));
    const ini_section *found = section_find(file, section, sub);
    bool exists = section_end(&at, file, found);
    if (!exists)
        at = file->line_count;
    const char *end = line_end_near(file, at ? at - 1 : 0);
    if (!exists) {
        if (at && !ini_line_is_blank(&file->lines[at - 1]))
            TRY(line_read(&fresh[count++], file, NULL, end, strlen(end), at + 1, err));
        TRY(section_line(&fresh[count], file, section, sub, end, err));
        found = fresh[count++].section;
    }
    TRY(entry_line(&fresh[count++], file, found, exists ? at : 0, key, value, end, err));
    TRY(lines_insert(file, at, fresh, count, end, err));
out:
    for (size_t i = 0; i < 3; i++)
        ini_line_clear(&fresh[i]);
    return rc;
}

int ini_set(ini *file, const char *section, const char *sub, const char *key, const char *value, ckpt_error *err)
{
    int rc = 0;
    TRY(ini_check_entry(section, sub, key, value, err));
    size_t i = entry_find(file, section, sub, key);
    if (i < file->line_count)
        TRY(entry_replace(file, i, value, err));
    else
        TRY(ini_add(file, section, sub, key, value, err));
out:
    return rc;
}

size_t ini_unset(ini *file, const char *section, const char *sub, const char *key)
{
    const ini_section *wanted = section_find(file, section, sub);
    size_t count = 0;
    for (size_t i = 0; wanted && i < file->line_count; i++) {
        ini_line *line = &file->lines[i];
        if (line->section != wanted || !line->key || strcmp(line->key, key) != 0)
            continue;
        ini_line_clear(line);
        count++;
    }
    lines_compact(file);
    return count;
}

/* The run that begins with the section line or entry `first`: up to its last entry, and blank lines behind that.
 * Returns the index behind it. */
static size_t run_end(const ini *file, size_t first)
{
    size_t end = first + 1;
    for (size_t i = end; i < file->line_count && !file->lines[i].name; i++)
        if (file->lines[i].key)
            end = i + 1;
    while (end < file->line_count && ini_line_is_blank(&file->lines[end]))
        end++;
    return end;
}

size_t ini_remove_section(ini *file, const char *section, const char *sub)
{
    const ini_section *wanted = section_find(file, section, sub);
    size_t count = 0;
    for (size_t i = 0; wanted && i < file->line_count;) {
        if (file->lines[i].section != wanted) {
            i++;
            continue;
        }
        size_t end = run_end(file, i);
        for (size_t k = i; k < end; k++)
            ini_line_clear(&file->lines[k]);
        /* What was set off from the lines before by blank lines takes those along at the end of the file. */
        for (size_t k = i; end == file->line_count && k-- > 0 && ini_line_is_blank(&file->lines[k]);)
            ini_line_clear(&file->lines[k]);
        count++;
        i = end;
    }
    lines_compact(file);
    return count;
}
