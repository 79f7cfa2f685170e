#include "report.h"

#include "clock.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT_SIZE 1024

/* ---- Time ---- */

/* Counts the time since the last mark as training. */
static void time_count(report *r)
{
    const double now = clock_seconds();
    r->train_seconds += now - r->mark;
    r->mark = now;
}

static void time_skip(report *r)
{
    r->mark = clock_seconds();
}

static double rate(uint64_t images, double seconds)
{
    return images && seconds > 0 ? (double)images / seconds : NOT_KNOWN;
}

static double seconds_left(const report *r, const state *s)
{
    if (!s || s->step <= r->steps_begin || s->step > r->steps)
        return -1;
    const double per_step = (clock_seconds() - r->begin) / (double)(s->step - r->steps_begin);
    return per_step * (double)(r->steps - s->step);
}

/* ---- Events ---- */

static ckpt_training_event event_of(const report *r, const state *s, ckpt_training_event_kind kind)
{
    return (ckpt_training_event){
        .kind = kind,
        .epoch = s ? s->epoch : 0,
        .epochs = r->epochs,
        .step = s ? s->step : 0,
        .steps = r->steps,
        .loss = NOT_KNOWN,
        .accuracy = NOT_KNOWN,
        .val_loss = NOT_KNOWN,
        .val_accuracy = NOT_KNOWN,
        .test_loss = NOT_KNOWN,
        .test_accuracy = NOT_KNOWN,
        .seconds_left = seconds_left(r, s),
    };
}

static void tell_caller(report *r, const ckpt_training_event *event)
{
    if (r->event && r->event(r->payload, event))
        r->stop = true;
}

/* A log that fails is tried again at each line, but told of once. */
static void log_write(report *r, const ckpt_training_event *event)
{
    if (!r->log)
        return;
    runlog_event(r->log, event);
    const char *const failure = runlog_failure(r->log);
    if (failure && !r->log_failed) {
        ckpt_training_event warning = *event;
        warning.kind = CKPT_TRAINING_WARNING;
        warning.text = failure;
        r->log_failed = true;
        tell_caller(r, &warning);
    }
}

double report_rate(const report *r)
{
    return rate(r->images, r->train_seconds);
}

static void tell(report *r, const ckpt_training_event *event)
{
    log_write(r, event);
    tell_caller(r, event);
}

static void tell_text(report *r, const state *s, ckpt_training_event_kind kind, const char *format, va_list list)
    __attribute__((format(printf, 4, 0)));

static void tell_text(report *r, const state *s, ckpt_training_event_kind kind, const char *format, va_list list)
{
    char text[TEXT_SIZE];
    ckpt_training_event event = event_of(r, s, kind);

    vsnprintf(text, sizeof text, format, list);
    event.text = text;
    tell(r, &event);
}

/* ---- What is told ---- */

void report_start(report *r, const state *s, uint64_t steps_total)
{
    r->epochs = s->recipe.epochs;
    r->steps = steps_total;
    r->steps_begin = s->step;
    r->begin = r->mark = clock_seconds();
    r->train_seconds = r->line_begin = r->epoch_begin = 0;
    r->line_images = r->epoch_images = r->images = 0;
}

void report_step(report *r, const state *s, size_t images)
{
    time_count(r);
    r->line_images += images;
    r->epoch_images += images;
    r->images += images;
    const ckpt_training_event event = event_of(r, s, CKPT_TRAINING_BATCH);
    tell_caller(r, &event);
}

void report_line(report *r, const state *s, double loss, double accuracy)
{
    ckpt_training_event event = event_of(r, s, CKPT_TRAINING_STEPS);

    event.loss = loss;
    event.accuracy = accuracy;
    event.images_per_s = rate(r->line_images, r->train_seconds - r->line_begin);
    r->line_begin = r->train_seconds;
    r->line_images = 0;
    tell(r, &event);
}

void report_validating(report *r, const state *s, uint64_t done, uint64_t total)
{
    ckpt_training_event event = event_of(r, s, CKPT_TRAINING_BATCH);

    if (done == 0) {
        time_count(r); /* a save, since the last step */
        return;
    }
    time_skip(r);
    event.evaluated = done;
    event.evaluation = total;
    tell_caller(r, &event);
}

void report_epoch(report *r, const state *s, double loss, double accuracy, double val_loss, double val_accuracy,
                  bool best)
{
    ckpt_training_event event = event_of(r, s, CKPT_TRAINING_EPOCH);

    event.loss = loss;
    event.accuracy = accuracy;
    event.val_loss = val_loss;
    event.val_accuracy = val_accuracy;
    event.best = best;
    event.images_per_s = rate(r->epoch_images, r->train_seconds - r->epoch_begin);
    r->epoch_begin = r->train_seconds;
    r->epoch_images = 0;
    tell(r, &event);
}

void report_finished(report *r, const state *s, double test_loss, double test_accuracy)
{
    ckpt_training_event event = event_of(r, s, CKPT_TRAINING_FINISHED);

    event.test_loss = test_loss;
    event.test_accuracy = test_accuracy;
    event.images_per_s = report_rate(r);
    tell(r, &event);
}

void report_stopped(report *r, const state *s)
{
    ckpt_training_event event = event_of(r, s, CKPT_TRAINING_NOTE);

    event.text = "stopped";
    log_write(r, &event);
}

void report_started(report *r, const state *s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tell_text(r, s, CKPT_TRAINING_STARTED, format, list);
    va_end(list);
}

void report_note(report *r, const state *s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tell_text(r, s, CKPT_TRAINING_NOTE, format, list);
    va_end(list);
}

void report_warning(report *r, const state *s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tell_text(r, s, CKPT_TRAINING_WARNING, format, list);
    va_end(list);
}
