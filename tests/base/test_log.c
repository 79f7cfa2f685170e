#include "log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What a log writes, in memory. */
typedef struct written {
    char *text;
    size_t size;
    log_sink l;
} written;

static int setup(void **state)
{
    written *const w = calloc(1, sizeof *w);
    if (!w || !(w->l.out = open_memstream(&w->text, &w->size)))
        return -1;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    written *const w = *state;
    fclose(w->l.out);
    free(w->text);
    free(w);
    return 0;
}

static void lines_say_what_kind_they_are(void **state)
{
    written *const w = *state;
    log_line(&w->l, LOG_NOTE, "%d files", 3);
    log_line(&w->l, LOG_WARNING, "the disk is nearly full");
    assert_string_equal(w->text, "note: 3 files\nwarning: the disk is nearly full\n");
}

static void notes_are_left_out_where_only_warnings_count(void **state)
{
    written *const w = *state;
    w->l.least = LOG_WARNING;
    log_line(&w->l, LOG_NOTE, "quiet");
    log_line(&w->l, LOG_WARNING, "loud");
    assert_string_equal(w->text, "warning: loud\n");
}

static void a_message_stays_on_its_line(void **state)
{
    written *const w = *state;
    log_line(&w->l, LOG_NOTE, "%s", "a\nb\x1b[31m");
    assert_string_equal(w->text, "note: a\\nb\\x1b[31m\n");
}

static void times_are_in_utc_and_stand_in_front(void **state)
{
    written *const w = *state;
    w->l.times = true;
    log_line(&w->l, LOG_NOTE, "x");
    int year, month, day, hour, minute, second;
    char *at = w->text;
    year = (int)strtol(at, &at, 10);
    month = (int)strtol(at + 1, &at, 10);
    day = (int)strtol(at + 1, &at, 10);
    assert_int_equal(*at, 'T');
    hour = (int)strtol(at + 1, &at, 10);
    minute = (int)strtol(at + 1, &at, 10);
    second = (int)strtol(at + 1, &at, 10);
    assert_true(year >= 2024 && month >= 1 && month <= 12 && day >= 1 && day <= 31);
    assert_true(hour < 24 && minute < 60 && second <= 60);
    assert_string_equal(at, "Z note: x\n");
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOG_TEST(lines_say_what_kind_they_are),
        LOG_TEST(notes_are_left_out_where_only_warnings_count),
        LOG_TEST(a_message_stays_on_its_line),
        LOG_TEST(times_are_in_utc_and_stand_in_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
