#include "progress.h"

#include "clock.h"
#include "terminal.h"
#include "units.h"
#include "utf8.h"
#include "visible.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS_DEFAULT 80u
#define COLUMNS_MAX     512u
#define BAR_MIN         10u
#define BAR_MAX         30u
#define INFO_SIZE       192u               /* four printed units and the words between them */
#define LABEL_SIZE_MAX  (2u * COLUMNS_MAX) /* bytes; characters of no width could be any number */
#define LINE_SIZE       (LABEL_SIZE_MAX + BAR_MAX + INFO_SIZE + 8)

#define COUNT_PLAIN_MAX 999999u /* steps of a training are looked up elsewhere by their number */

#define FIRST_S    1.0 /* shorter work is not shown */
#define SMOOTH_S   5.0 /* how far back the rate looks */
#define TERMINAL_S 0.1
#define NOTEBOOK_S 0.5
#define LINES_S    5.0

progress_mode progress_mode_of(FILE *out, bool quiet)
{
    if (quiet)
        return PROGRESS_NONE;
    /* Set by Jupyter for its kernels, and so for what a cell starts; such a child may or may not get a terminal. */
    if (getenv("JPY_PARENT_PID") || getenv("JPY_SESSION_NAME"))
        return PROGRESS_NOTEBOOK;
    const char *term = getenv("TERM");
    bool dumb = term && strcmp(term, "dumb") == 0;
    return isatty(fileno(out)) && !dumb ? PROGRESS_TERMINAL : PROGRESS_LINES;
}

static double clock_monotonic(void *payload)
{
    (void)payload;
    return clock_seconds();
}

static double interval(progress_mode mode)
{
    return mode == PROGRESS_TERMINAL ? TERMINAL_S : mode == PROGRESS_NOTEBOOK ? NOTEBOOK_S : LINES_S;
}

void progress_start(progress *p, const progress_options *options)
{
    *p = (progress){.options = *options, .mark_done = options->begun, .rate = -1, .left_s = -1};
    progress_options *o = &p->options;
    if (!o->clock)
        o->clock = clock_monotonic;
    if (o->columns == 0)
        o->columns = terminal_columns(o->out);
    if (o->columns == 0)
        o->columns = COLUMNS_DEFAULT;
    if (o->columns > COLUMNS_MAX)
        o->columns = COLUMNS_MAX;
    if (o->mode == PROGRESS_NONE)
        return;
    const char *label = o->label ? o->label : "";
    p->label = visible_text(NULL, label, strlen(label)); /* NULL: shown without a label */
    p->start = p->mark = o->clock(o->payload);
    p->next_draw = p->start + (o->mode == PROGRESS_LINES ? LINES_S : FIRST_S);
}

static void rate_measure(progress *p, uint64_t done, double now)
{
    double elapsed = now - p->mark;
    if (elapsed <= 0)
        return;
    if (done >= p->mark_done) {
        double rate = (double)(done - p->mark_done) / elapsed;
        double weight = p->rate < 0 ? 1 : elapsed / (elapsed + SMOOTH_S);
        p->rate = p->rate < 0 ? rate : p->rate + weight * (rate - p->rate);
    }
    p->mark = now;
    p->mark_done = done;
}

static void format_amount(char out[UNITS_TEXT_SIZE], uint64_t amount, bool counts)
{
    if (counts && amount <= COUNT_PLAIN_MAX)
        snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64, amount);
    else if (counts)
        format_count(out, amount);
    else
        format_size(out, amount);
}

static void format_speed(char out[UNITS_TEXT_SIZE], double rate, bool counts)
{
    char count[UNITS_TEXT_SIZE];
    if (!counts) {
        format_rate(out, rate);
        return;
    }
    format_count(count, rate >= 0 && rate < 0x1p63 ? (uint64_t)rate : 0);
    snprintf(out, UNITS_TEXT_SIZE, "%.20s/s", count);
}

/* "45 %  121.5 MiB of 270.0 MiB  31.2 MiB/s  4 s left", or without a total "121.5 MiB  31.2 MiB/s". */
static void info_write(char info[INFO_SIZE], const progress *p, uint64_t done, uint64_t total)
{
    char amount[UNITS_TEXT_SIZE], whole[UNITS_TEXT_SIZE], speed[UNITS_TEXT_SIZE], left[UNITS_TEXT_SIZE];
    bool counts = p->options.counts;

    format_amount(amount, done, counts);
    format_speed(speed, p->rate, counts);
    if (total == 0) {
        snprintf(info, INFO_SIZE, "%s  %s", amount, speed);
        return;
    }
    format_amount(whole, total, counts);
    format_duration(left, p->left_s >= 0 ? p->left_s : p->rate > 0 ? (double)(total - done) / p->rate : -1);
    snprintf(info, INFO_SIZE, "%3u %%  %s of %s  %s  %s left", (unsigned)((double)done / (double)total * 100), amount,
             whole, speed, left);
}

/* Appends a bar for what is done, `size` columns wide with its ends. */
static size_t bar_write(char *line, size_t size, uint64_t done, uint64_t total)
{
    size_t inside = size - 2;
    size_t full = (size_t)((double)done / (double)total * (double)inside);
    line[0] = '[';
    memset(line + 1, '=', full);
    memset(line + 1 + full, ' ', inside - full);
    if (full < inside)
        line[1 + full] = '>';
    line[size - 1] = ']';
    return size;
}

/* "label  [===>   ]  info": the label is cut and the bar left out where there is no room. Returns the columns used. */
static size_t line_write(char line[LINE_SIZE], const progress *p, uint64_t done, uint64_t total)
{
    char info[INFO_SIZE];
    bool redrawn = p->options.mode != PROGRESS_LINES;
    size_t room = redrawn ? p->options.columns - 1 : COLUMNS_MAX; /* a full line would wrap */
    size_t used = 0;
    size_t columns = 0;

    info_write(info, p, done, total);
    size_t info_columns = strlen(info); /* ASCII */
    if (p->label && room > info_columns + 2) {
        size_t size = visible_cut(p->label, room - info_columns - 2);
        size = utf8_cut(p->label, size, LABEL_SIZE_MAX);
        columns = visible_columns(p->label, size);
        used = (size_t)snprintf(line, LINE_SIZE, "%.*s%s", (int)size, p->label, size ? "  " : "");
        columns += size ? 2 : 0;
    }
    if (p->options.mode == PROGRESS_TERMINAL && total && columns + info_columns + 2 + BAR_MIN <= room) {
        size_t bar = room - columns - info_columns - 2;
        bar = bar_write(line + used, bar < BAR_MAX ? bar : BAR_MAX, done, total);
        memcpy(line + used + bar, "  ", 2);
        used += bar + 2;
        columns += bar + 2;
    }
    size_t info_size = info_columns;
    if (columns + info_size > room)
        info_size = room - columns;
    memcpy(line + used, info, info_size);
    line[used + info_size] = 0;
    return columns + info_size;
}

void progress_left(progress *p, double seconds)
{
    p->left_s = seconds;
}

void progress_update(progress *p, uint64_t done, uint64_t total)
{
    const progress_options *o = &p->options;
    if (o->mode == PROGRESS_NONE)
        return;
    double now = o->clock(o->payload);
    if (now < p->next_draw)
        return;
    p->next_draw = now + interval(o->mode);
    rate_measure(p, done, now);
    if (total && done > total)
        done = total;

    char line[LINE_SIZE];
    size_t columns = line_write(line, p, done, total);
    if (o->mode == PROGRESS_LINES) {
        fprintf(o->out, "%s\n", line);
    } else {
        size_t rest = p->drawn_columns > columns ? p->drawn_columns - columns : 0;
        fprintf(o->out, "\r%s%*s", line, (int)rest, "");
        p->drawn_columns = columns;
    }
    fflush(o->out);
}

void progress_finish(progress *p)
{
    if (p->drawn_columns) {
        fprintf(p->options.out, "\r%*s\r", (int)p->drawn_columns, "");
        fflush(p->options.out);
    }
    free(p->label);
    *p = (progress){0};
}
