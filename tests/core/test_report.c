/* What a training tells, but for its clock. */
#include "report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define EVENTS_MAX 16

typedef struct listener {
    ckpt_training_event events[EVENTS_MAX];
    char text[64];
    size_t count;
    int answer;
} listener;

static int listen(void *payload, const ckpt_training_event *event)
{
    listener *const l = payload;

    assert_in_range(l->count, 0, EVENTS_MAX - 1);
    l->events[l->count++] = *event;
    if (event->text)
        snprintf(l->text, sizeof l->text, "%s", event->text);
    return l->answer;
}

/* A training of 20 steps in two epochs, resumed at step 5. */
static report report_begun(listener *l, state *s)
{
    report r = {.event = listen, .payload = l};

    *l = (listener){0};
    *s = (state){.step = 5, .position = 40};
    s->recipe.epochs = 2;
    report_start(&r, s, 20);
    return r;
}

static void a_step_tells_where_it_is(void **unused)
{
    listener l;
    state s;
    report r = report_begun(&l, &s);

    (void)unused;
    s.step = 6;
    report_step(&r, &s, 8);
    assert_int_equal(l.count, 1);
    assert_int_equal(l.events[0].kind, CKPT_TRAINING_BATCH);
    assert_int_equal(l.events[0].step, 6);
    assert_int_equal(l.events[0].steps, 20);
    assert_int_equal(l.events[0].epochs, 2);
    assert_int_equal(l.events[0].evaluation, 0);
    assert_true(l.events[0].seconds_left >= 0);
    assert_int_equal(r.images, 8);
}

static void time_left_is_not_known_before_a_step(void **unused)
{
    listener l;
    state s;
    report r = report_begun(&l, &s);

    (void)unused;
    report_note(&r, &s, "at step %d", 5);
    assert_int_equal(l.events[0].kind, CKPT_TRAINING_NOTE);
    assert_string_equal(l.text, "at step 5");
    assert_true(l.events[0].seconds_left < 0);
}

static void a_line_tells_what_was_not_told_before(void **unused)
{
    listener l;
    state s;
    report r = report_begun(&l, &s);

    (void)unused;
    s.step = 6;
    report_step(&r, &s, 8);
    report_line(&r, &s, 1.5, 0.25);
    assert_int_equal(l.events[1].kind, CKPT_TRAINING_STEPS);
    assert_true(l.events[1].loss == 1.5 && l.events[1].accuracy == 0.25);
    assert_true(isnan(l.events[1].val_accuracy));
    assert_int_equal(r.line_images, 0);
    assert_int_equal(r.epoch_images, 8);
}

static void an_epoch_tells_its_validation(void **unused)
{
    listener l;
    state s;
    report r = report_begun(&l, &s);

    (void)unused;
    report_step(&r, &s, 8);
    report_epoch(&r, &s, 1.5, 0.25, 1.25, 0.5, true);
    assert_int_equal(l.events[1].kind, CKPT_TRAINING_EPOCH);
    assert_true(l.events[1].val_loss == 1.25 && l.events[1].val_accuracy == 0.5 && l.events[1].best);
    assert_int_equal(r.epoch_images, 0);
    assert_int_equal(r.images, 8);
}

static void validation_is_no_training_time(void **unused)
{
    listener l;
    state s;
    report r = report_begun(&l, &s);

    (void)unused;
    report_validating(&r, &s, 0, 100);
    const double before = r.train_seconds;
    report_validating(&r, &s, 60, 100);
    report_validating(&r, &s, 100, 100);
    assert_true(r.train_seconds == before);
    assert_int_equal(l.count, 2); /* the beginning is not told */
    assert_int_equal(l.events[0].evaluated, 60);
    assert_int_equal(l.events[0].evaluation, 100);
}

static void the_end_tells_the_test(void **unused)
{
    listener l;
    state s;
    report r = report_begun(&l, &s);

    (void)unused;
    report_finished(&r, &s, 0.75, 0.625);
    assert_int_equal(l.events[0].kind, CKPT_TRAINING_FINISHED);
    assert_true(l.events[0].test_loss == 0.75 && l.events[0].test_accuracy == 0.625);
}

static void an_epoch_that_was_only_validated_has_no_rate(void **unused)
{
    listener l;
    state s;
    report r = report_begun(&l, &s);

    (void)unused;
    report_validating(&r, &s, 0, 100);
    report_epoch(&r, &s, 1.5, 0.25, 1.25, 0.5, true);
    assert_true(isnan(l.events[0].images_per_s));
    assert_true(isnan(report_rate(&r)));
}

static void a_stop_is_for_the_log_alone(void **unused)
{
    listener l;
    state s;
    report r = report_begun(&l, &s);

    (void)unused;
    report_stopped(&r, &s);
    assert_int_equal(l.count, 0);
}

static void the_callback_asks_for_a_stop(void **unused)
{
    listener l;
    state s;
    report r = report_begun(&l, &s);

    (void)unused;
    report_step(&r, &s, 8);
    assert_false(r.stop);
    l.answer = 1;
    report_step(&r, &s, 8);
    l.answer = 0;
    report_step(&r, &s, 8);
    assert_true(r.stop); /* once is enough */
}

static void warnings_come_before_there_is_a_state(void **unused)
{
    listener l = {0};
    report r = {.event = listen, .payload = &l};

    (void)unused;
    report_warning(&r, NULL, "%s", "passed over");
    assert_int_equal(l.events[0].kind, CKPT_TRAINING_WARNING);
    assert_string_equal(l.text, "passed over");
}

static void nobody_needs_to_listen(void **unused)
{
    state s = {.step = 1};
    report r = {0};

    (void)unused;
    report_start(&r, &s, 20);
    report_step(&r, &s, 8);
    report_started(&r, &s, "begun");
    assert_false(r.stop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_tells_where_it_is),
        cmocka_unit_test(time_left_is_not_known_before_a_step),
        cmocka_unit_test(a_line_tells_what_was_not_told_before),
        cmocka_unit_test(an_epoch_tells_its_validation),
        cmocka_unit_test(validation_is_no_training_time),
        cmocka_unit_test(the_end_tells_the_test),
        cmocka_unit_test(an_epoch_that_was_only_validated_has_no_rate),
        cmocka_unit_test(a_stop_is_for_the_log_alone),
        cmocka_unit_test(the_callback_asks_for_a_stop),
        cmocka_unit_test(warnings_come_before_there_is_a_state),
        cmocka_unit_test(nobody_needs_to_listen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
