#include "metric_line.h"

#include "fail.h"
#include "units.h"

#include <ctype.h>
#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX     4
#define JSON_DEPTH_MAX 64 /* brackets that a line may open: the parser recurses */

static bool is_key_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

/* ---- What was asked for ---- */

static int regex_compile(metric *m, const char *expression, ckpt_error *err)
{
    int rc = 0;
    char why[128];
    /* POSIX has none in these expressions, and they may take for ever. */
    for (const char *c = expression; *c; c += 1 + (*c == '\\' && c[1]))
        FAIL_IF(*c == '\\' && isdigit((unsigned char)c[1]), err, CKPT_EUSAGE, "metric %s: \\%c refers back", expression,
                c[1]);
    const int failed = regcomp(&m->regex, expression, REG_EXTENDED);

    if (failed) {
        regerror(failed, &m->regex, why, sizeof why);
        FAIL(err, CKPT_EUSAGE, "metric %s: %s", expression, why);
    }
    m->has_regex = true;
out:
    return rc;
}

/* "val_acc=0.91", "val_acc: 0.91", "'val_acc': 0.91": as most programs print a number of that name. */
static int regex_of_key(metric *m, ckpt_error *err)
{
    char expression[2 * METRIC_KEY_SIZE + 128], quoted[2 * METRIC_KEY_SIZE];
    size_t n = 0;

    for (const char *c = m->key; *c; c++) {
        if (*c == '.')
            quoted[n++] = '\\';
        quoted[n++] = *c;
    }
    quoted[n] = 0;
    snprintf(expression, sizeof expression,
             "(^|[^A-Za-z0-9_.-])%s[\"']?[ \t]*[=:][ \t]*([-+]?[0-9.]+([eE][-+]?[0-9]+)?)", quoted);
    m->group = 2;
    return regex_compile(m, expression, err);
}

int metric_line_parse(metric *out, const char *text, ckpt_error *err)
{
    int rc = 0;
    size_t n = 0;

    while (is_key_char(text[n]))
        n++;
    FAIL_IF(strlen(text) > METRIC_EXPRESSION_MAX, err, CKPT_EUSAGE, "a metric is longer than %d bytes",
            METRIC_EXPRESSION_MAX);
    if (n == 0 || n >= METRIC_KEY_SIZE || (text[n] && text[n] != '=' && text[n] != '~')) {
        rc = error_set(err, CKPT_EUSAGE, "metric %s: it does not begin with a name", text);
        error_hint(err, "write 'val_acc=([0-9.]+)', or 'val_acc~Accuracy: ([0-9.]+)' where the log calls it otherwise");
        goto out;
    }
    memcpy(out->key, text, n);
    out->key[n] = 0;
    out->plain = !text[n];
    if (out->plain) {
        TRY(regex_of_key(out, err));
    } else {
        TRY(regex_compile(out, text[n] == '~' ? text + n + 1 : text, err));
        out->group = out->regex.re_nsub > 0;
    }
out:
    return rc;
}

void metric_line_clear(metric *m)
{
    if (m->has_regex)
        regfree(&m->regex);
    *m = (metric){0};
}

/* ---- What a line says ---- */

static void value_take(metric *m, const char *text, size_t size)
{
    while (size && isspace((unsigned char)text[0])) {
        text++;
        size--;
    }
    while (size && isspace((unsigned char)text[size - 1]))
        size--;
    if (size == 0 || size >= METRIC_VALUE_SIZE)
        return;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] > '~')
            return;
    memcpy(m->value, text, size);
    m->value[size] = 0;
}

static void take_text(metric *m, const char *line)
{
    regmatch_t found[GROUPS_MAX];
    const size_t size = strlen(line);

    if (size > METRIC_TEXT_MAX)
        line += size - METRIC_TEXT_MAX;
    /* The last place of the line, as a progress bar that is redrawn has it. */
    for (int flags = 0; regexec(&m->regex, line, GROUPS_MAX, found, flags) == 0; flags = REG_NOTBOL) {
        const regmatch_t *const value = &found[m->group];
        if (value->rm_so >= 0)
            value_take(m, line + value->rm_so, (size_t)(value->rm_eo - value->rm_so));
        if (found[0].rm_eo <= 0)
            break;
        line += found[0].rm_eo;
    }
}

static bool is_shallow(const char *line)
{
    size_t depth = 0;

    for (; *line && depth <= JSON_DEPTH_MAX; line++)
        depth += *line == '{' || *line == '[';
    return depth <= JSON_DEPTH_MAX;
}

/* The member of that name; with dots in it also that of a member, and so on. */
static const json_t *member_of(const json_t *object, const char *key)
{
    const json_t *member = json_object_get(object, key);
    char part[METRIC_KEY_SIZE];

    for (const char *dot = strchr(key, '.'); !member && dot; dot = strchr(dot + 1, '.')) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - key), key);
        const json_t *const inner = json_object_get(object, part);
        if (json_is_object(inner))
            member = member_of(inner, dot + 1);
    }
    return member;
}

/* In as few digits as read back as the same number: 0.1, not 0.10000000000000001. */
static void real_print(char text[METRIC_VALUE_SIZE], double value)
{
    double back = 0;

    for (int digits = DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(text, METRIC_VALUE_SIZE, "%.*g", digits, value);
        if (parse_double(&back, text, NULL) == 0 && memcmp(&back, &value, sizeof back) == 0)
            break;
    }
}

bool metric_line_take_member(metric *m, const json_t *object)
{
    char text[METRIC_VALUE_SIZE];
    const json_t *const value = member_of(object, m->key);

    if (json_is_integer(value)) {
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        value_take(m, text, strlen(text));
    } else if (json_is_real(value)) {
        real_print(text, json_real_value(value));
        value_take(m, text, strlen(text));
    } else if (json_is_string(value)) {
        value_take(m, json_string_value(value), json_string_length(value));
    }
    return value != NULL;
}

/* False: the line is no JSON object. */
static bool take_json(metric *m, const char *line)
{
    json_t *const object = is_shallow(line) ? json_loads(line, 0, NULL) : NULL;
    const bool is_object = json_is_object(object);

    if (is_object)
        (void)metric_line_take_member(m, object);
    json_decref(object);
    return is_object;
}

/* The quote that ends a cell; two of them stand for one in it (RFC 4180). */
static const char *quote_end(const char *at)
{
    while (*at && (*at != '"' || at[1] == '"'))
        at += *at == '"' ? 2 : 1;
    return at;
}

/* The next cell of a line of CSV, without its quotes; NULL behind the last. */
static const char *cell_next(size_t *size, const char **at)
{
    const char *begin = *at, *end;

    if (!begin)
        return NULL;
    if (*begin == '"') {
        begin++;
        end = quote_end(begin);
        const char *const comma = strchr(end, ',');
        *at = comma ? comma + 1 : NULL;
    } else {
        end = begin + strcspn(begin, ",");
        *at = *end ? end + 1 : NULL;
    }
    *size = (size_t)(end - begin);
    return begin;
}

size_t metric_line_column(const char *header, const char *key)
{
    size_t column = 0, size;
    const char *cell;

    if (!strchr(header, ','))
        return SIZE_MAX;
    while ((cell = cell_next(&size, &header)) != NULL) {
        while (size && *cell == ' ') {
            cell++;
            size--;
        }
        if (size == strlen(key) && memcmp(cell, key, size) == 0)
            return column;
        column++;
    }
    return SIZE_MAX;
}

static void take_cell(metric *m, const char *line, size_t column)
{
    const char *cell;
    size_t size;

    while ((cell = cell_next(&size, &line)) != NULL && column > 0)
        column--;
    if (cell)
        value_take(m, cell, size);
}

void metric_line_take(metric *m, const char *line, size_t column)
{
    if (!m->plain)
        take_text(m, line);
    else if (column != SIZE_MAX)
        take_cell(m, line, column);
    else if (line[strspn(line, " ")] != '{' || !take_json(m, line))
        take_text(m, line);
}
