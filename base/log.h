/* Log: what a program says beside its answer, one line each.
 *
 *     note: state.bin saved as opaque bytes: ...           for a person who looks on
 *     2026-11-30T12:01:05Z warning: the disk is nearly full    in the file of a job that nobody watches
 *
 * Text of strangers is made safe to show (visible.h). A line is written with one call, so that lines of several
 * processes do not mix. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

typedef enum log_level { LOG_NOTE, LOG_WARNING } log_level;

typedef struct log_sink {
    FILE *out;
    log_level least; /* LOG_WARNING: notes are left out */
    bool times;      /* in front, in UTC */
} log_sink;

void log_line(const log_sink *l, log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
void log_line_list(const log_sink *l, log_level level, const char *format, va_list list)
    __attribute__((format(printf, 3, 0)));

#endif
