/* The rows of golden/expected/random.txt, as tests/core/expect_random.py describes them. */
#ifndef TESTS_RANDOM_ROWS_H
#define TESTS_RANDOM_ROWS_H

#include "file.h"
#include "hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANDOM_COLUMNS_MAX 6

/* Calls `each` with the columns behind the kind, of every row of that kind. */
static inline void random_rows(const char *kind, void (*each)(char *const *columns))
{
    char *text = NULL, *line, *next;
    size_t size, rows = 0;
    assert_int_equal(file_read_all(&text, &size, GOLDEN_DIR "/expected/random.txt", (size_t)1 << 20, NULL), 0);
    for (next = text; (line = strsep(&next, "\n")) && line[0];) {
        char *columns[RANDOM_COLUMNS_MAX];
        size_t count = 0;
        for (char *column; (column = strsep(&line, "\t"));) {
            assert_true(count < RANDOM_COLUMNS_MAX);
            columns[count++] = column;
        }
        if (strcmp(columns[0], kind) != 0)
            continue;
        each(columns + 1);
        rows++;
    }
    assert_true(rows > 0);
    free(text);
}

static inline uint64_t column_u64(const char *column)
{
    return strtoull(column, NULL, 10);
}

static inline void assert_sha256(const void *data, size_t size, const char *expected)
{
    sha256 hash;
    char hex[SHA256_HEX_SIZE];
    sha256_of(&hash, data, size);
    sha256_hex(hex, &hash);
    assert_string_equal(hex, expected);
}

#endif
