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
        if (t->columns[i].align == TABLE_LEFT && widths[i] > TABLE_CUT_MIN &&
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

static void write_blanks(FILE *out, size_t count)
{
    fprintf(out, "%*s", (int)count, "");
}

static void write_text(FILE *out, const table_cell *cell, size_t width, bool color)
{
    static const char *const START[] = {
        [TABLE_PLAIN] = "",       [TABLE_BOLD] = "\x1b[1m",   [TABLE_DIM] = "\x1b[2m",
        [TABLE_RED] = "\x1b[31m", [TABLE_GREEN] = "\x1b[32m", [TABLE_YELLOW] = "\x1b[33m"};
    bool colored = color && cell->color != TABLE_PLAIN;
    if (colored)
        fputs(START[cell->color], out);
    if (cell->columns <= width)
        fputs(cell->text, out);
    else
        fprintf(out, "%.*s%s", (int)visible_cut(cell->text, width - 1), cell->text, ELLIPSIS);
    if (colored)
        fputs("\x1b[0m", out);
}

/* `last`: no blanks are written behind it. */
static void write_cell(FILE *out, const table_cell *cell, size_t width, table_align align, bool last, bool color)
{
    /* A cut text may be one column short, when a wide character did not fit. */
    size_t used =
        cell->columns <= width ? cell->columns : visible_columns(cell->text, visible_cut(cell->text, width - 1)) + 1;
    if (align == TABLE_RIGHT)
        write_blanks(out, width - used);
    write_text(out, cell, width, color);
    if (!last)
        write_blanks(out, (align == TABLE_LEFT ? width - used : 0) + GAP);
}

int table_write(FILE *out, const table *t, size_t width, bool color, ckpt_error *err)
{
    size_t widths[TABLE_COLUMNS_MAX];

    assert(t->count % t->column_count == 0);
    widths_measure(widths, t);
    if (width)
        widths_fit(widths, t, width);
    for (size_t i = 0; i < t->count; i++) {
        size_t column = i % t->column_count;
        bool last = column + 1 == t->column_count;
        write_cell(out, &t->cells[i], widths[column], t->columns[column].align, last, color);
        if (last)
            fputc('\n', out);
    }
    return ferror(out) ? error_errno(err, errno, "write table") : 0;
}
