#include "table.h"

#include "fail.h"
#include "visible.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2 /* blanks between columns */

static const char ELLIPSIS[] = "\xe2\x80\xa6";

typedef struct table_cell {
    char *text; /* in visible form */
    size_t columns;
    table_color color;
} table_cell;

struct table {
    const table_column *columns;
    size_t column_count;
    table_cell *cells; /* [row][column]; the header is row 0 */
    size_t count, room;
};

int table_new(table **out, const table_column *columns, size_t column_count, ckpt_error *err)
{
    int rc = 0;
    assert(column_count > 0 && column_count <= TABLE_COLUMNS_MAX);
    *out = NULL;
    table *t = calloc(1, sizeof *t);

    FAIL_IF_NULL(t, err);
    t->columns = columns;
    t->column_count = column_count;
    for (size_t i = 0; columns[0].header && i < column_count; i++)
        TRY(table_add(t, columns[i].header, TABLE_BOLD, err));
    *out = t;
    t = NULL;
out:
    table_free(t);
    return rc;
}

void table_free(table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i].text);
    free(t->cells);
    free(t);
}

int table_add(table *t, const char *text, table_color color, ckpt_error *err)
{
    int rc = 0;
    if (t->count == t->room) {
        size_t room = 2 * t->room + 16;
        table_cell *cells = realloc(t->cells, room * sizeof *cells);
        FAIL_IF_NULL(cells, err);
        t->cells = cells;
        t->room = room;
    }
    table_cell cell = {.color = color};
    cell.text = visible_text(&cell.columns, text, strlen(text));
    FAIL_IF_NULL(cell.text, err);
    t->cells[t->count++] = cell;
out:
    return rc;
}

static void widths_measure(size_t widths[TABLE_COLUMNS_MAX], const table *t)
{
    memset(widths, 0, TABLE_COLUMNS_MAX * sizeof *widths);
    for (size_t i = 0; i < t->count; i++) {
        size_t *width = &widths[i % t->column_count];
        if (*width < t->cells[i].columns)
            *width = t->cells[i].columns;
    }
}

/* The widest text column that can still be cut, or column_count. */
static size_t widest_text(const size_t widths[TABLE_COLUMNS_MAX], const table *t)
{
    size_t widest = t->column_count;
    for (size_t i = 0; i < t->column_count; i++)
        if (t->columns[i].align != TABLE_RIGHT && widths[i] > TABLE_CUT_MIN &&
            (widest == t->column_count || widths[i] > widths[widest]))
            widest = i;
    return widest;
}

static void widths_fit(size_t widths[TABLE_COLUMNS_MAX], const table *t, size_t limit)
{
    size_t total = GAP * (t->column_count - 1);
    for (size_t i = 0; i < t->column_count; i++)
        total += widths[i];
    for (; total > limit; total--) {
        size_t widest = widest_text(widths, t);
        if (widest == t->column_count)
            break;
        widths[widest]--;
    }
}

/* What is shown of a text: all of it, or a head, an ellipsis and a tail (which may be empty). */
typedef struct shown_text {
    size_t head_bytes;
    const char *tail; /* NULL: not cut */
    size_t columns;   /* a cut text may be one or two short, where a wide character did not fit */
} shown_text;

/* Where the end of `text` begins that takes at most `columns`. */
static const char *tail_of(const char *text, size_t text_columns, size_t columns)
{
    text += visible_cut(text, text_columns - columns);
    while (visible_columns(text, strlen(text)) > columns)
        do
            text++;
        while (((unsigned char)*text & 0xC0) == 0x80);
    return text;
}

static shown_text text_fit(const table_cell *cell, size_t width, table_align align)
{
    const size_t size = strlen(cell->text);
    if (cell->columns <= width)
        return (shown_text){.head_bytes = size, .columns = cell->columns};
    /* Names that stand below each other mostly begin alike. */
    const size_t tail_columns = align == TABLE_NAME ? (width - 1) * 2 / 3 : 0;
    shown_text shown = {.head_bytes = visible_cut(cell->text, width - 1 - tail_columns), .tail = cell->text + size};
    if (tail_columns)
        shown.tail = tail_of(cell->text, cell->columns, tail_columns);
    shown.columns = visible_columns(cell->text, shown.head_bytes) + 1 + visible_columns(shown.tail, strlen(shown.tail));
    return shown;
}

/* Blanks are owed in *blanks until something stands behind them, so that no line ends in one. */
static void write_cell(FILE *out, size_t *blanks, const table_cell *cell, size_t width, table_align align, bool color)
{
    static const char *const START[] = {
        [TABLE_PLAIN] = "",       [TABLE_BOLD] = "\x1b[1m",   [TABLE_DIM] = "\x1b[2m",
        [TABLE_RED] = "\x1b[31m", [TABLE_GREEN] = "\x1b[32m", [TABLE_YELLOW] = "\x1b[33m"};
    const shown_text shown = text_fit(cell, width, align);
    const bool colored = color && cell->color != TABLE_PLAIN;

    *blanks += align == TABLE_RIGHT ? width - shown.columns : 0;
    if (shown.columns) {
        fprintf(out, "%*s%s%.*s%s%s%s", (int)*blanks, "", colored ? START[cell->color] : "", (int)shown.head_bytes,
                cell->text, shown.tail ? ELLIPSIS : "", shown.tail ? shown.tail : "", colored ? "\x1b[0m" : "");
        *blanks = 0;
    }
    *blanks += (align == TABLE_RIGHT ? 0 : width - shown.columns) + GAP;
}

int table_write(FILE *out, const table *t, size_t width, bool color, ckpt_error *err)
{
    size_t widths[TABLE_COLUMNS_MAX], blanks = 0;

    assert(t->count % t->column_count == 0);
    widths_measure(widths, t);
    if (width)
        widths_fit(widths, t, width);
    for (size_t i = 0; i < t->count; i++) {
        size_t column = i % t->column_count;
        write_cell(out, &blanks, &t->cells[i], widths[column], t->columns[column].align, color);
        if (column + 1 == t->column_count) {
            fputc('\n', out);
            blanks = 0;
        }
    }
    return ferror(out) ? error_errno(err, errno, "write table") : 0;
}
