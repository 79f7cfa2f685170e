/* Tables for people: aligned columns under a header.
 *
 *     static const table_column COLUMNS[] = {{"NAME", TABLE_LEFT}, {"SIZE", TABLE_RIGHT}};
 *
 *     TRY(table_new(&t, COLUMNS, 2, err));
 *     TRY(table_add(t, "model.pt", TABLE_PLAIN, err));
 *     TRY(table_add(t, "12.3 MiB", TABLE_PLAIN, err));
 *     TRY(table_write(stdout, t, columns, color, err));
 *
 * Cells may hold any bytes: they are shown in visible form (visible.h), and take the columns that a terminal gives
 * them. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 32
#define TABLE_CUT_MIN     8u /* columns that a cut text keeps at least */

typedef enum table_align {
    TABLE_LEFT,  /* text, which is cut at its end where there is no room */
    TABLE_NAME,  /* names, which are cut in the middle: their ends tell them apart */
    TABLE_RIGHT, /* numbers, which are never cut */
} table_align;
typedef enum table_color { TABLE_PLAIN, TABLE_BOLD, TABLE_DIM, TABLE_RED, TABLE_GREEN, TABLE_YELLOW } table_color;

typedef struct table_column {
    const char *header; /* NULL in the first column: no header line */
    table_align align;
} table_column;

typedef struct table table;

/* `columns` must outlive the table. */
int table_new(table **out, const table_column *columns, size_t column_count, ckpt_error *err);
void table_free(table *t); /* NULL is fine */

/* Adds the next cell, from left to right, row by row; `text` is copied. */
int table_add(table *t, const char *text, table_color color, ckpt_error *err);

/* Writes all rows. Lines wider than `width` columns are made to fit by cutting the widest text columns, with an
 * ellipsis; 0 is for no limit, as for a pipe. Colours are written only if `color`. Errors: CKPT_EIO and others of a
 * failed write. */
int table_write(FILE *out, const table *t, size_t width, bool color, ckpt_error *err);

#endif
