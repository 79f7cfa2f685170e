/* A folder for each test of files, and short names for files in it. Included by one test each. */
#ifndef TESTS_FILE_FIXTURE_H
#define TESTS_FILE_FIXTURE_H

#include "file.h"
#include "temp_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char dir[TEMP_PATH_MAX];

static inline int setup(void **state)
{
    (void)state;
    umask(022);
    return temp_dir_make(dir);
}

static inline int teardown(void **state)
{
    (void)state;
    return temp_dir_remove(dir);
}

/* A path in the folder of this test. Two at a time. */
static inline const char *in_dir(const char *name)
{
    static char paths[2][FILE_PATH_MAX];
    static unsigned turn;
    char *const path = paths[turn++ % 2];
    assert_int_equal(path_join(path, dir, name, NULL), 0);
    return path;
}

static inline void put(const char *name, const char *text)
{
    FILE *const file = fopen(in_dir(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static inline void assert_holds(const char *name, const char *text)
{
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(file_read_all(&data, &size, in_dir(name), 1000, NULL), 0);
    assert_int_equal(size, strlen(text));
    assert_string_equal(data, text);
    free(data);
}

static inline int count_one(void *payload, const char *name, ckpt_error *err)
{
    (void)name, (void)err;
    ++*(int *)payload;
    return 0;
}

/* How many files and folders there are in the folder. */
static inline int entries(void)
{
    int count = 0;
    assert_int_equal(dir_each(dir, count_one, &count, NULL), 0);
    return count;
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
