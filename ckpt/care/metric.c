#define _GNU_SOURCE /* strtod_l */
#include "metric.h"

#include "fail.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t"

int metric_parse(metric *out, const char *text, ckpt_error *err)
{
    int rc = 0;

    *out = (metric){0};
    const char *const key = (text ? text : "") + strspn(text ? text : "", BLANKS);
    if (!*key)
        goto out;
    const size_t length = strcspn(key, BLANKS);
    const char *const way = key + length + strspn(key + length, BLANKS);
    const size_t way_length = strcspn(way, BLANKS);
    const bool max = way_length == 3 && memcmp(way, "max", 3) == 0;
    const bool min = way_length == 3 && memcmp(way, "min", 3) == 0;

    FAIL_IF(length > METRIC_KEY_MAX, err, CKPT_EUSAGE, "the key of `best` is longer than %d bytes", METRIC_KEY_MAX);
    FAIL_IF((!max && !min) || way[way_length + strspn(way + way_length, BLANKS)], err, CKPT_EUSAGE,
            "`best = %s` is not a key of meta and then `max` or `min`", text);
    memcpy(out->key, key, length);
    out->max = max;
out:
    return rc;
}

/* strtod of the C locale: a program that uses us may have set another one. */
static bool number_read(double *out, const char *text)
{
    char *end;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);

    if (!plain)
        return false;
    *out = strtod_l(text, &end, plain);
    freelocale(plain);
    return end != text && end[strspn(end, BLANKS)] == 0 && !isnan(*out);
}

bool metric_value(double *out, const metric *m, const snapshot *s)
{
    if (!m->key[0])
        return false;
    for (size_t i = 0; i < s->meta_count; i++)
        if (strcmp(s->meta[i].key, m->key) == 0)
            return number_read(out, s->meta[i].value);
    return false;
}

bool metric_better(const metric *m, double a, double b)
{
    return m->max ? a > b : a < b;
}
