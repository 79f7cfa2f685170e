#include "progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1ull << 20)

/* A clock that stands where the test puts it, and a stream that keeps what was written. */
typedef struct watch {
    double now;
    char *text;
    size_t size;
    FILE *out;
    progress p;
} watch;

static double watch_now(void *payload)
{
    const watch *w = payload;
    return w->now;
}

static void watch_start(watch *w, progress_mode mode, const char *label, size_t columns, bool counts)
{
    *w = (watch){.now = 1000};
    w->out = open_memstream(&w->text, &w->size);
    assert_non_null(w->out);
    progress_start(&w->p, &(progress_options){.out = w->out,
                                              .mode = mode,
                                              .label = label,
                                              .columns = columns,
                                              .counts = counts,
                                              .clock = watch_now,
                                              .payload = w});
}

static void watch_update(watch *w, double seconds, uint64_t done, uint64_t total)
{
    w->now = 1000 + seconds;
    progress_update(&w->p, done, total);
}

static void assert_shown(watch *w, const char *expected)
{
    fflush(w->out);
    assert_string_equal(w->text, expected);
    rewind(w->out);
    fflush(w->out);
}

static void watch_end(watch *w)
{
    progress_finish(&w->p);
    fclose(w->out);
    free(w->text);
}

static void work_of_less_than_a_second_shows_nothing(void **state)
{
    (void)state;
    static const progress_mode MODES[] = {PROGRESS_TERMINAL, PROGRESS_NOTEBOOK, PROGRESS_LINES};
    for (size_t i = 0; i < 3; i++) {
        watch w;
        watch_start(&w, MODES[i], "save", 80, false);
        watch_update(&w, 0.5, 50 * MIB, 100 * MIB);
        watch_update(&w, 0.99, 99 * MIB, 100 * MIB);
        progress_finish(&w.p);
        assert_shown(&w, "");
        watch_end(&w);
    }
}

static void a_terminal_shows_a_bar_rate_and_time_left(void **state)
{
    (void)state;
    watch w;
    watch_start(&w, PROGRESS_TERMINAL, "save", 100, false);
    watch_update(&w, 2, 50 * MIB, 200 * MIB);
    assert_shown(&w, "\rsave  [=======>                    ]   25 %  50.0 MiB of 200.0 MiB  25.0 MiB/s  6 s left");
    watch_end(&w);
}

static void a_terminal_is_redrawn_at_most_ten_times_a_second_and_erased(void **state)
{
    (void)state;
    watch w;
    watch_start(&w, PROGRESS_TERMINAL, "", 40, true);
    watch_update(&w, 1, 1000, 0);
    watch_update(&w, 1.05, 2000, 0);
    assert_shown(&w, "\r1000  1.0 k/s");
    watch_update(&w, 2, 9, 0); /* shorter: the rest of the old line is blanked */
    progress_finish(&w.p);
    assert_shown(&w, "\r9  1.0 k/s   \r          \r");
    watch_end(&w);
}

static void a_narrow_terminal_loses_the_bar_then_the_label(void **state)
{
    (void)state;
    watch w;
    watch_start(&w, PROGRESS_TERMINAL, "restore epoch_1.pt", 71, false);
    watch_update(&w, 2, 50 * MIB, 200 * MIB);
    assert_shown(&w, "\rrestore epoch_1.pt   25 %  50.0 MiB of 200.0 MiB  25.0 MiB/s  6 s left");
    watch_end(&w);
    watch_start(&w, PROGRESS_TERMINAL, "restore epoch_1.pt", 60, false);
    watch_update(&w, 2, 50 * MIB, 200 * MIB);
    assert_shown(&w, "\rrestore   25 %  50.0 MiB of 200.0 MiB  25.0 MiB/s  6 s left");
    watch_end(&w);
    watch_start(&w, PROGRESS_TERMINAL, "restore epoch_1.pt", 20, false);
    watch_update(&w, 2, 50 * MIB, 200 * MIB);
    assert_shown(&w, "\r 25 %  50.0 MiB of ");
    watch_end(&w);
}

static void a_log_file_gets_a_line_every_five_seconds(void **state)
{
    (void)state;
    watch w;
    watch_start(&w, PROGRESS_LINES, "save", 0, false);
    watch_update(&w, 4, 4 * MIB, 20 * MIB);
    watch_update(&w, 5, 5 * MIB, 20 * MIB);
    watch_update(&w, 6, 6 * MIB, 20 * MIB);
    watch_update(&w, 10, 10 * MIB, 20 * MIB);
    progress_finish(&w.p);
    assert_shown(&w, "save   25 %  5.0 MiB of 20.0 MiB  1.0 MiB/s  15 s left\n"
                     "save   50 %  10.0 MiB of 20.0 MiB  1.0 MiB/s  10 s left\n");
    watch_end(&w);
}

static void a_notebook_is_redrawn_without_a_bar(void **state)
{
    (void)state;
    watch w;
    watch_start(&w, PROGRESS_NOTEBOOK, "save", 80, false);
    watch_update(&w, 1, 5 * MIB, 20 * MIB);
    watch_update(&w, 1.4, 6 * MIB, 20 * MIB);
    assert_shown(&w, "\rsave   25 %  5.0 MiB of 20.0 MiB  5.0 MiB/s  3 s left");
    watch_end(&w);
}

static void quiet_shows_nothing(void **state)
{
    (void)state;
    watch w;
    watch_start(&w, PROGRESS_NONE, "save", 80, false);
    watch_update(&w, 100, 5 * MIB, 20 * MIB);
    progress_finish(&w.p);
    assert_shown(&w, "");
    watch_end(&w);
}

static void a_hostile_label_is_made_visible_and_bounded(void **state)
{
    (void)state;
    enum { MARKS = 100000 };
    char *label = malloc(2 * MARKS + 8);
    assert_non_null(label);
    size_t size = (size_t)snprintf(label, 8, "\x1b[2J");
    for (size_t i = 0; i < MARKS; i++)
        memcpy(label + size + 2 * i, "\xcc\x81", 3); /* combining: no column however many */
    watch w;
    watch_start(&w, PROGRESS_TERMINAL, label, 80, false);
    watch_update(&w, 2, 5 * MIB, 20 * MIB);
    fflush(w.out);
    assert_memory_equal(w.text, "\r\\x1b[2J", 8);
    assert_true(w.size < 2048);
    watch_end(&w);
    free(label);
}

static void more_than_the_total_is_shown_as_the_total(void **state)
{
    (void)state;
    watch w;
    watch_start(&w, PROGRESS_NOTEBOOK, "", 80, false);
    watch_update(&w, 1, 30 * MIB, 20 * MIB);
    assert_shown(&w, "\r100 %  20.0 MiB of 20.0 MiB  30.0 MiB/s  0 s left");
    watch_update(&w, 2, 10 * MIB, 20 * MIB); /* goes back: the rate stays */
    assert_shown(&w, "\r 50 %  10.0 MiB of 20.0 MiB  30.0 MiB/s  0.3 s left");
    watch_end(&w);
}

static void the_mode_follows_stream_and_environment(void **state)
{
    (void)state;
    FILE *pipe = fopen("/dev/null", "w");
    assert_non_null(pipe);
    unsetenv("JPY_PARENT_PID");
    unsetenv("JPY_SESSION_NAME");
    assert_int_equal(progress_mode_of(pipe, true), PROGRESS_NONE);
    assert_int_equal(progress_mode_of(pipe, false), PROGRESS_LINES);
    setenv("JPY_PARENT_PID", "17", 1);
    assert_int_equal(progress_mode_of(pipe, false), PROGRESS_NOTEBOOK);
    assert_int_equal(progress_mode_of(pipe, true), PROGRESS_NONE);
    unsetenv("JPY_PARENT_PID");
    fclose(pipe);
}

static void what_was_done_before_is_no_part_of_the_rate(void **state)
{
    watch w;
    (void)state;

    watch_start(&w, PROGRESS_LINES, "train", 80, true);
    progress_finish(&w.p);
    progress_start(&w.p, &(progress_options){.out = w.out,
                                             .mode = PROGRESS_LINES,
                                             .label = "train",
                                             .counts = true,
                                             .begun = 500,
                                             .columns = 80,
                                             .clock = watch_now,
                                             .payload = &w});
    watch_update(&w, 5, 510, 600);
    assert_shown(&w, "train   85 %  510 of 600  2/s  45 s left\n");
    watch_end(&w);
}

static void the_caller_may_know_how_long_it_takes(void **state)
{
    (void)state;
    watch w;
    watch_start(&w, PROGRESS_LINES, "train", 80, true);
    progress_left(&w.p, 90);
    watch_update(&w, 5, 10, 110);
    progress_left(&w.p, -1);
    watch_update(&w, 10, 20, 110);
    assert_shown(&w, "train    9 %  10 of 110  2/s  1m 30s left\ntrain   18 %  20 of 110  2/s  45 s left\n");
    watch_end(&w);
}

static void counts_below_a_million_are_shown_whole(void **state)
{
    (void)state;
    watch w;
    watch_start(&w, PROGRESS_LINES, "train", 80, true);
    watch_update(&w, 5, 1050, 1060);
    watch_update(&w, 10, 2100, 1000000);
    assert_shown(&w, "train   99 %  1050 of 1060  210/s  0 s left\ntrain    0 %  2100 of 1.0 M  210/s  1h 19m left\n");
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_caller_may_know_how_long_it_takes),
        cmocka_unit_test(counts_below_a_million_are_shown_whole),
        cmocka_unit_test(what_was_done_before_is_no_part_of_the_rate),
        cmocka_unit_test(work_of_less_than_a_second_shows_nothing),
        cmocka_unit_test(a_terminal_shows_a_bar_rate_and_time_left),
        cmocka_unit_test(a_terminal_is_redrawn_at_most_ten_times_a_second_and_erased),
        cmocka_unit_test(a_narrow_terminal_loses_the_bar_then_the_label),
        cmocka_unit_test(a_log_file_gets_a_line_every_five_seconds),
        cmocka_unit_test(a_notebook_is_redrawn_without_a_bar),
        cmocka_unit_test(quiet_shows_nothing),
        cmocka_unit_test(a_hostile_label_is_made_visible_and_bounded),
        cmocka_unit_test(more_than_the_total_is_shown_as_the_total),
        cmocka_unit_test(the_mode_follows_stream_and_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
