#include "log.h"

#include "units.h"
#include "visible.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOG_LINE_MAX 8192 /* of the message, before it is made visible */

static const char *const LEVEL_NAMES[] = {[LOG_NOTE] = "note", [LOG_WARNING] = "warning"};

void log_line_list(const log_sink *l, log_level level, const char *format, va_list list)
{
    char message[LOG_LINE_MAX], time_text[UNITS_TEXT_SIZE] = "";

    if (level < l->least)
        return;
    vsnprintf(message, sizeof message, format, list);
    char *const visible = visible_text(NULL, message, strlen(message));
    if (l->times)
        format_time_iso(time_text, (int64_t)time(NULL));
    fprintf(l->out, "%s%s%s: %s\n", time_text, l->times ? " " : "", LEVEL_NAMES[level],
            visible ? visible : "(no memory to show it)");
    fflush(l->out);
    free(visible);
}

void log_line(const log_sink *l, log_level level, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    log_line_list(l, level, format, list);
    va_end(list);
}
