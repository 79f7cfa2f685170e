#include "file.h"
#include "temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char dir[TEMP_PATH_MAX];

static int setup(void **state)
{
    (void)state;
    umask(022);
    return temp_dir_make(dir);
}

static int teardown(void **state)
{
    (void)state;
    return temp_dir_remove(dir);
}

/* A path in the folder of this test. Two at a time. */
static const char *in_dir(const char *name)
{
    static char paths[2][FILE_PATH_MAX];
    static unsigned turn;
    char *const path = paths[turn++ % 2];
    assert_int_equal(path_join(path, dir, name, NULL), 0);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *const file = fopen(in_dir(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void assert_holds(const char *name, const char *text)
{
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(file_read_all(&data, &size, in_dir(name), 1000, NULL), 0);
    assert_int_equal(size, strlen(text));
    assert_string_equal(data, text);
    free(data);
}

static void keep_gives_a_second_name_that_outlives_the_first(void **state)
{
    (void)state;
    bool exists = true;
    put("a", "damaged");
    assert_int_equal(file_keep(&exists, in_dir("kept"), in_dir("a"), NULL), 0);
    assert_false(exists);
    assert_int_equal(file_replace(in_dir("a"), dir, "good", 4, NULL), 0);
    assert_holds("a", "good");
    assert_holds("kept", "damaged");
    assert_int_equal(file_keep(&exists, in_dir("kept"), in_dir("a"), NULL), 0);
    assert_true(exists);
    assert_holds("kept", "damaged");
    assert_int_equal(file_keep(&exists, in_dir("other"), in_dir("none"), NULL), CKPT_ENOTFOUND);
}

static void write_at_changes_exactly_the_range(void **state)
{
    (void)state;
    put("a", "0123456789");
    const int fd = open(in_dir("a"), O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(file_write_at(fd, 3, "abc", 3, "a", NULL), 0);
    assert_int_equal(file_write_at(fd, 12, "z", 1, "a", NULL), 0);
    close(fd);
    const int read_only = open(in_dir("a"), O_RDONLY);
    assert_int_equal(file_write_at(read_only, 0, "x", 1, "a", NULL), CKPT_EIO);
    char bytes[13];
    assert_int_equal(file_read_at(bytes, read_only, 0, sizeof bytes, "a", NULL), 0);
    assert_memory_equal(bytes, "012abc6789\0\0z", sizeof bytes);
    close(read_only);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(keep_gives_a_second_name_that_outlives_the_first),
        IN_DIR(write_at_changes_exactly_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
