/* Lines of logs: whatever a line holds, a metric has afterwards a short text of printable ASCII as its value, or none.
 * The input is a header of CSV and lines behind it. */
#include "fuzz.h"

#include "metric_line.h"

#include <stdint.h>
#include <string.h>

static void check_value(const metric *m)
{
    const char *const end = memchr(m->value, 0, sizeof m->value);
    CHECK(end);
    for (const char *c = m->value; c < end; c++)
        CHECK(*c >= ' ' && *c <= '~');
}

static void take_lines(metric *m, char *text)
{
    size_t column = SIZE_MAX;

    for (char *line = text, *end; line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        if (line == text)
            column = metric_line_column(line, m->key);
        metric_line_take(m, line, column);
        check_value(m);
        metric_line_take(m, line, SIZE_MAX);
        check_value(m);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const METRICS[] = {"acc", "eval.loss", "acc=([0-9.]+)", "acc~a(.*)"};
    char *const text = malloc(size + 1);

    CHECK(text);
    for (size_t i = 0; i < sizeof METRICS / sizeof *METRICS; i++) {
        metric m = {0};
        memcpy(text, data, size);
        text[size] = 0;
        CHECK(metric_line_parse(&m, METRICS[i], NULL) == 0);
        take_lines(&m, text);
        metric_line_clear(&m);
    }
    free(text);
    return 0;
}
