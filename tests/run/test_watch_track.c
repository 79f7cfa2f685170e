#include "watch_track.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "must.h"

/* Intervals of 10 s that begin at 1,000 ms; a file is settled after 2 s. */
static const watch_timing TIMING = {.every_ms = 10000, .settle_ms = 2000, .start_ms = 1000};

static watch_track *track_of(void)
{
    watch_track *t = NULL;
    MUST(watch_track_new(&t, &TIMING, ERR));
    return t;
}

static watch_item *item_of(watch_track *t, const char *path)
{
    watch_item *item = NULL;
    MUST(watch_track_add(&item, t, path, ERR));
    return item;
}

static watch_mark mark_of(uint64_t size)
{
    return (watch_mark){.size = size, .inode = 7, .mtime_ns = (int64_t)size};
}

static void look(watch_track *t, watch_item *item, uint64_t size, bool closed, uint64_t now_ms)
{
    const watch_mark mark = mark_of(size);
    watch_item_look(t, item, &mark, false, closed, now_ms);
}

static void saved(watch_track *t, watch_item *item, uint64_t size, uint64_t now_ms)
{
    const watch_mark mark = mark_of(size);
    watch_item_saved(t, item, &mark, now_ms);
}

static watch_verdict verdict_at(const watch_track *t, const watch_item *item, uint64_t now_ms)
{
    uint64_t at;
    return watch_item_judge(&at, t, item, now_ms);
}

static uint64_t wait_until(const watch_track *t, const watch_item *item, uint64_t now_ms)
{
    uint64_t at = 0;
    assert_int_equal(watch_item_judge(&at, t, item, now_ms), WATCH_WAIT);
    return at;
}

static void a_file_that_was_closed_is_saved_at_once(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, true, 1500);
    assert_int_equal(verdict_at(t, item, 1500), WATCH_SAVE);
    watch_track_free(t);
}

static void a_file_of_which_no_event_tells_is_saved_once_it_stood_still(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, false, 1500);
    assert_int_equal(wait_until(t, item, 1500), 3500);
    look(t, item, 200, false, 3400); /* it has grown */
    assert_int_equal(wait_until(t, item, 3500), 5400);
    assert_int_equal(verdict_at(t, item, 5400), WATCH_SAVE);
    watch_track_free(t);
}

static void a_file_that_is_written_on_after_it_was_closed_is_not_whole(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, true, 1500);
    watch_item_written(item, true, 1600); /* in the same tick of the file's clock: its mark is the same */
    assert_int_equal(verdict_at(t, item, 1600), WATCH_WAIT);
    watch_track_free(t);
}

static void a_file_that_is_open_for_writing_has_to_stand_still_for_longer(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, false, 1500);
    watch_item_written(item, true, 1600);
    look(t, item, 200, false, 1600);
    assert_int_equal(verdict_at(t, item, 3600), WATCH_WAIT); /* its writer is slow */
    look(t, item, 300, true, 5000);
    assert_int_equal(verdict_at(t, item, 5000), WATCH_SAVE);
    saved(t, item, 300, 5100);
    watch_item_written(item, false, 20000); /* another file was moved there */
    look(t, item, 400, false, 20000);
    assert_int_equal(wait_until(t, item, 21000), 22000);
    watch_track_free(t);
}

static void what_was_saved_is_not_saved_again(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, true, 1500);
    saved(t, item, 100, 1600);
    look(t, item, 100, false, 50000);
    assert_int_equal(verdict_at(t, item, 50000), WATCH_REST);
    watch_track_free(t);
}

static void what_an_earlier_watch_saved_is_not_saved_again(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    const watch_mark mark = mark_of(100);
    watch_item_known(item, &mark);
    look(t, item, 100, false, 1500);
    assert_int_equal(verdict_at(t, item, 50000), WATCH_REST);
    look(t, item, 101, false, 60000);
    assert_int_equal(verdict_at(t, item, 62000), WATCH_SAVE);
    watch_track_free(t);
}

static void a_path_is_saved_once_in_each_interval_of_the_grid(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, true, 9000);
    saved(t, item, 100, 9500);
    look(t, item, 200, true, 9800);
    assert_int_equal(wait_until(t, item, 9900), 11000); /* where the next interval begins, not 10 s later */
    assert_int_not_equal(verdict_at(t, item, 11000), WATCH_WAIT);
    saved(t, item, 200, 11500);
    look(t, item, 300, true, 12000);
    assert_int_equal(wait_until(t, item, 12000), 21000);
    watch_track_free(t);
}

static void a_file_that_is_closed_twice_in_a_short_time_is_copied(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, true, 1500);
    watch_item_written(item, true, 1900);
    look(t, item, 200, true, 2000);
    assert_int_equal(verdict_at(t, item, 2000), WATCH_COPY);
    watch_track_free(t);
}

static void a_file_that_changed_while_it_was_saved_is_copied_when_it_is_closed_again(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, true, 1500);
    watch_item_changed(item, 1600);
    look(t, item, 200, false, 1600);
    assert_int_equal(verdict_at(t, item, 1600), WATCH_WAIT);
    look(t, item, 200, true, 4000);
    assert_int_equal(verdict_at(t, item, 4000), WATCH_COPY);
    watch_track_free(t);
}

static void a_file_that_never_stands_still_is_forced_after_an_interval(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    for (uint64_t now = 1500; now <= 11500; now += 1000)
        look(t, item, now, false, now);
    assert_int_equal(verdict_at(t, item, 11499), WATCH_WAIT);
    assert_int_equal(verdict_at(t, item, 11500), WATCH_FORCED);
    watch_item_changed(item, 11500);
    assert_int_equal(wait_until(t, item, 11500), 11500 + WATCH_RETRY_MS);
    watch_track_free(t);
}

static void a_folder_is_whole_only_when_it_stands_still(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "checkpoint-5");
    const watch_mark mark = mark_of(100);
    watch_item_look(t, item, &mark, true, true, 1500); /* one of its files was closed */
    assert_int_equal(wait_until(t, item, 1500), 3500);
    assert_int_equal(verdict_at(t, item, 3500), WATCH_SAVE);
    watch_track_free(t);
}

static void what_looks_cut_off_rests_until_it_changes(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, true, 1500);
    watch_item_refused(item);
    assert_int_equal(verdict_at(t, item, 90000), WATCH_REST);
    look(t, item, 200, true, 90000);
    assert_int_equal(verdict_at(t, item, 90000), WATCH_SAVE);
    watch_track_free(t);
}

static void what_failed_is_tried_again_in_the_next_interval(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, true, 1500);
    watch_item_failed(t, item, 2000);
    assert_int_equal(wait_until(t, item, 2000), 11000);
    assert_int_equal(verdict_at(t, item, 11000), WATCH_SAVE);
    watch_track_free(t);
}

static void what_is_gone_rests(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, true, 1500);
    watch_item_gone(item, 1600);
    assert_int_equal(verdict_at(t, item, 5000), WATCH_REST);
    look(t, item, 100, false, 6000); /* and comes back, perhaps as another file */
    assert_int_equal(wait_until(t, item, 6000), 8000);
    watch_track_free(t);
}

static void the_one_written_first_is_saved_first(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_verdict verdict;
    uint64_t at;
    look(t, item_of(t, "epoch_1"), 300, true, 1500); /* sizes are times here, too */
    look(t, item_of(t, "epoch_2"), 200, true, 1500);
    look(t, item_of(t, "epoch_3"), 400, true, 1500);
    assert_string_equal(watch_track_next(&verdict, &at, t, 1500)->path, "epoch_2");
    watch_track_free(t);
}

static void together_waits_for_all_to_stand_still(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const model = item_of(t, "model"), *const optimizer = item_of(t, "optimizer");
    uint64_t at;
    look(t, model, 100, true, 1500);
    look(t, optimizer, 100, true, 1500);
    assert_int_equal(watch_track_judge_all(&at, t, 1600), WATCH_WAIT);
    look(t, optimizer, 200, false, 3000);
    assert_int_equal(watch_track_judge_all(&at, t, 3500), WATCH_WAIT);
    assert_int_equal(at, 5000);
    assert_int_equal(watch_track_judge_all(&at, t, 5000), WATCH_SAVE);
    watch_track_free(t);
}

static void together_rests_while_a_part_is_cut_off(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const model = item_of(t, "model"), *const optimizer = item_of(t, "optimizer");
    uint64_t at;
    look(t, model, 100, true, 1500);
    look(t, optimizer, 100, true, 1500);
    watch_item_refused(optimizer);
    assert_int_equal(watch_track_judge_all(&at, t, 9000), WATCH_REST);
    watch_track_free(t);
}

static void an_event_in_a_watched_folder_is_about_the_folder(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const folder = item_of(t, "runs/checkpoint-5");
    (void)item_of(t, "runs/checkpoint-50");
    assert_ptr_equal(watch_track_around(t, "runs/checkpoint-5/model/a.bin"), folder);
    assert_ptr_equal(watch_track_around(t, "runs/checkpoint-5"), folder);
    assert_null(watch_track_around(t, "runs/checkpoint-"));
    assert_null(watch_track_around(t, "runs"));
    watch_track_free(t);
}

static void a_file_that_was_seen_before_it_was_closed_is_whole_then(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, false, 1500);
    look(t, item, 100, true, 1600);
    assert_int_equal(verdict_at(t, item, 1600), WATCH_SAVE);
    look(t, item, 100, true, 1700); /* the same close once more, not a second one */
    assert_int_equal(verdict_at(t, item, 1700), WATCH_SAVE);
    watch_track_free(t);
}

static void what_an_earlier_watch_saved_otherwise_is_saved(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    const watch_mark before = mark_of(99), now = mark_of(100);
    look(t, item, 100, true, 1500);
    watch_item_known(item, &before);
    assert_int_equal(verdict_at(t, item, 1500), WATCH_SAVE);
    watch_item_known(item, &now);
    assert_int_equal(verdict_at(t, item, 1500), WATCH_REST);
    watch_track_free(t);
}

static void what_is_gone_is_so_since_it_was_first_missed(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const item = item_of(t, "a");
    look(t, item, 100, true, 1500);
    watch_item_gone(item, 1600);
    watch_item_gone(item, 9000);
    assert_int_equal(item->since_ms, 1600);
    watch_track_free(t);
}

static void where_all_rest_none_is_next(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_verdict verdict;
    uint64_t at;
    watch_item *const one = item_of(t, "a"), *const other = item_of(t, "b");
    look(t, one, 100, true, 1500);
    saved(t, one, 100, 1600);
    assert_null(watch_track_next(&verdict, &at, t, 1600));
    assert_int_equal(at, WATCH_NEVER);
    look(t, other, 200, false, 1700);
    assert_null(watch_track_next(&verdict, &at, t, 1700));
    assert_int_equal(at, 3700);
    watch_track_free(t);
}

static void together_rests_only_until_the_part_that_was_cut_off_changes(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const model = item_of(t, "model"), *const optimizer = item_of(t, "optimizer");
    uint64_t at;
    look(t, model, 100, true, 1500);
    look(t, optimizer, 100, true, 1500);
    watch_item_refused(optimizer);
    look(t, optimizer, 200, true, 5000);
    assert_int_equal(watch_track_judge_all(&at, t, 7000), WATCH_SAVE);
    watch_track_free(t);
}

static void together_takes_parts_that_never_stand_still_when_all_are_closed(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    watch_item *const model = item_of(t, "model"), *const optimizer = item_of(t, "optimizer");
    uint64_t at;
    for (uint64_t now = 1500; now <= 11000; now += 500) {
        look(t, model, now, true, now);
        look(t, optimizer, now, false, now); /* which is at work on it */
    }
    assert_int_equal(watch_track_judge_all(&at, t, 11500), WATCH_WAIT);
    look(t, model, 11500, true, 11500);
    look(t, optimizer, 11500, true, 11500);
    assert_int_equal(watch_track_judge_all(&at, t, 11500), WATCH_COPY);
    watch_track_free(t);
}

static void items_are_sorted_however_they_come(void **state)
{
    (void)state;
    watch_track *const t = track_of();
    static const char *const PATHS[] = {"c", "a", "d", "b"};
    for (size_t i = 0; i < 4; i++)
        (void)item_of(t, PATHS[i]);
    assert_int_equal(watch_track_count(t), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(watch_track_at(t, i)->path[0], 'a' + (int)i);
    watch_track_forget(t, watch_track_find(t, "b"));
    assert_null(watch_track_find(t, "b"));
    assert_string_equal(watch_track_at(t, 1)->path, "c");
    watch_track_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_was_closed_is_saved_at_once),
        cmocka_unit_test(a_file_of_which_no_event_tells_is_saved_once_it_stood_still),
        cmocka_unit_test(a_file_that_is_written_on_after_it_was_closed_is_not_whole),
        cmocka_unit_test(a_file_that_is_open_for_writing_has_to_stand_still_for_longer),
        cmocka_unit_test(what_was_saved_is_not_saved_again),
        cmocka_unit_test(what_an_earlier_watch_saved_is_not_saved_again),
        cmocka_unit_test(a_path_is_saved_once_in_each_interval_of_the_grid),
        cmocka_unit_test(a_file_that_is_closed_twice_in_a_short_time_is_copied),
        cmocka_unit_test(a_file_that_changed_while_it_was_saved_is_copied_when_it_is_closed_again),
        cmocka_unit_test(a_file_that_never_stands_still_is_forced_after_an_interval),
        cmocka_unit_test(a_folder_is_whole_only_when_it_stands_still),
        cmocka_unit_test(what_looks_cut_off_rests_until_it_changes),
        cmocka_unit_test(what_failed_is_tried_again_in_the_next_interval),
        cmocka_unit_test(what_is_gone_rests),
        cmocka_unit_test(the_one_written_first_is_saved_first),
        cmocka_unit_test(together_waits_for_all_to_stand_still),
        cmocka_unit_test(together_rests_while_a_part_is_cut_off),
        cmocka_unit_test(an_event_in_a_watched_folder_is_about_the_folder),
        cmocka_unit_test(a_file_that_was_seen_before_it_was_closed_is_whole_then),
        cmocka_unit_test(what_an_earlier_watch_saved_otherwise_is_saved),
        cmocka_unit_test(what_is_gone_is_so_since_it_was_first_missed),
        cmocka_unit_test(where_all_rest_none_is_next),
        cmocka_unit_test(together_rests_only_until_the_part_that_was_cut_off_changes),
        cmocka_unit_test(together_takes_parts_that_never_stand_still_when_all_are_closed),
        cmocka_unit_test(items_are_sorted_however_they_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
