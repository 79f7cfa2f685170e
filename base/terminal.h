/* The terminal behind a stream, if there is one. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stddef.h>
#include <stdio.h>

/* Its width in columns, or 0 when `out` is no terminal or does not say. */
size_t terminal_columns(FILE *out);

#endif
