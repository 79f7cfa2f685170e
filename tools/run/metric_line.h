/* One metric, and what a line of a log says of it; see metric_log.h. */
#ifndef RUN_METRIC_LINE_H
#define RUN_METRIC_LINE_H

#include "metric_log.h"

#include <jansson.h>
#include <regex.h>
#include <stdbool.h>

typedef struct metric {
    char key[METRIC_KEY_SIZE];
    bool plain; /* a key alone */
    bool has_regex;
    regex_t regex;                 /* of a plain one: how text has it */
    size_t group;                  /* which holds the value */
    char value[METRIC_VALUE_SIZE]; /* "": none */
} metric;

/* `out` starts zeroed and is for metric_line_clear, also after a failure. */
int metric_line_parse(metric *out, const char *text, ckpt_error *err);
void metric_line_clear(metric *m);

/* Which column of a CSV header holds the metric; SIZE_MAX: none. */
size_t metric_line_column(const char *header, const char *key);

/* Takes over what a member of that name holds; false: there is none. */
bool metric_line_take_member(metric *m, const json_t *object);

/* Takes the value over if the line, a text without its end, has one. `column` is that of CSV or SIZE_MAX. */
void metric_line_take(metric *m, const char *line, size_t column);

#endif
