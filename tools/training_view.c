#include "training_view.h"

#include "output.h"
#include "print.h"

#include "fail.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LOSS_PLAIN_MAX 999.9

void training_view_init(training_view *v, session *s)
{
    *v = (training_view){.s = s};
}

/* ---- The bar ---- */

static void show_progress(training_view *v, const ckpt_training_event *e)
{
    const training_phase phase = e->evaluation ? PHASE_EVALUATION : PHASE_STEPS;

    if (v->phase != phase) {
        session_work_end(v->s);
        v->phase = phase;
        if (phase == PHASE_EVALUATION)
            snprintf(v->label, sizeof v->label, "evaluate");
        else
            snprintf(v->label, sizeof v->label, "epoch %" PRIu64 "/%" PRIu64, e->epoch + 1, e->epochs);
        session_count_begin(v->s, v->label, phase == PHASE_EVALUATION ? 0 : e->step);
    }
    if (phase == PHASE_EVALUATION)
        session_count(v->s, e->evaluated, e->evaluation);
    else {
        session_count_left(v->s, e->seconds_left); /* as the lines have it: with validation, and over many epochs */
        session_count(v->s, e->step, e->steps);
    }
}

/* Makes room for a line; the next BATCH draws a new bar. */
static void hide_progress(training_view *v)
{
    session_work_end(v->s);
    v->phase = PHASE_NONE;
}

/* ---- Lines ---- */

/* A loss that went far astray stays in its column. */
static void print_loss(double loss)
{
    if (loss < LOSS_PLAIN_MAX)
        printf("  %8.4f", loss);
    else
        printf("  %8.2e", loss);
}

/* Without steps of this process there is no rate: an epoch that was only validated. */
static void print_rate(double images_per_s)
{
    if (isfinite(images_per_s))
        printf("  %8.0f", images_per_s);
    else
        printf("  %8s", "-");
}

static void print_numbers(training_view *v, const ckpt_training_event *e)
{
    char epoch[UNITS_TEXT_SIZE], step[2 * UNITS_TEXT_SIZE], left[UNITS_TEXT_SIZE];

    if (!v->header_printed)
        printf("%7s  %13s  %8s  %8s  %8s  %8s  %s\n", "EPOCH", "STEP", "LOSS", "ACCURACY", "IMAGES/S", "LEFT",
               "VALIDATION");
    v->header_printed = true;
    snprintf(epoch, sizeof epoch, "%" PRIu64 "/%" PRIu64, e->epoch + 1, e->epochs);
    snprintf(step, sizeof step, "%" PRIu64 "/%" PRIu64, e->step, e->steps);
    format_duration(left, e->seconds_left);
    printf("%7s  %13s", epoch, step);
    print_loss(e->loss);
    printf("  %6.2f %%", 100 * e->accuracy);
    print_rate(e->images_per_s);
    printf("  %8s", left);
    if (e->kind == CKPT_TRAINING_EPOCH && isfinite(e->val_accuracy))
        printf("  %.2f %%%s", 100 * e->val_accuracy, e->best ? ", best" : "");
    putchar('\n');
}

static void print_text(training_view *v, const ckpt_training_event *e)
{
    if (e->kind == CKPT_TRAINING_WARNING)
        session_warn(v->s, "%s", e->text);
    else if (e->kind == CKPT_TRAINING_NOTE)
        session_library_note(v->s, e->text);
    else if (!v->s->quiet && !v->s->json) {
        output_text(stdout, e->text);
        putchar('\n');
    }
}

/* ---- JSON ---- */

static const char *kind_name(ckpt_training_event_kind kind)
{
    static const char *const NAMES[] = {"batch", "steps", "epoch", "started", "note", "warning", "finished"};
    return (size_t)kind < sizeof NAMES / sizeof *NAMES ? NAMES[kind] : "other";
}

static int set_numbers(json_t *object, const ckpt_training_event *e, ckpt_error *err)
{
    int rc = 0;

    TRY(json_out_set(object, "loss", json_out_real(e->loss), err));
    TRY(json_out_set(object, "accuracy", json_out_real(e->accuracy), err));
    TRY(json_out_set(object, "images_per_s", json_out_real(e->images_per_s), err));
    TRY(json_out_set(object, "seconds_left", e->seconds_left < 0 ? json_null() : json_out_real(e->seconds_left), err));
    if (e->kind == CKPT_TRAINING_EPOCH) {
        TRY(json_out_set(object, "val_loss", json_out_real(e->val_loss), err));
        TRY(json_out_set(object, "val_accuracy", json_out_real(e->val_accuracy), err));
        TRY(json_out_set(object, "best", json_boolean(e->best), err));
    }
out:
    return rc;
}

static int print_json(const ckpt_training_event *e, ckpt_error *err)
{
    int rc = 0;
    json_t *const object = json_object();

    TRY(json_out_set(object, "event", print_json_text(kind_name(e->kind)), err));
    TRY(json_out_set(object, "epoch", json_out_count(e->epoch), err));
    TRY(json_out_set(object, "epochs", json_out_count(e->epochs), err));
    TRY(json_out_set(object, "step", json_out_count(e->step), err));
    TRY(json_out_set(object, "steps", json_out_count(e->steps), err));
    if (e->kind == CKPT_TRAINING_STEPS || e->kind == CKPT_TRAINING_EPOCH)
        TRY(set_numbers(object, e, err));
    if (e->kind == CKPT_TRAINING_FINISHED) {
        TRY(json_out_set(object, "test_loss", json_out_real(e->test_loss), err));
        TRY(json_out_set(object, "test_accuracy", json_out_real(e->test_accuracy), err));
    }
    if (e->text)
        TRY(json_out_set(object, "text", print_json_text(e->text), err));
    TRY(json_out_line(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* ---- Events ---- */

int training_view_event(void *payload, const ckpt_training_event *event)
{
    training_view *const v = payload;

    if (event->kind == CKPT_TRAINING_BATCH) {
        show_progress(v, event);
        return session_stopped();
    }
    hide_progress(v);
    if (event->text)
        print_text(v, event);
    if (v->s->json)
        (void)print_json(event, NULL); /* a reader that went away is no reason to stop a training */
    else if (!v->s->quiet && (event->kind == CKPT_TRAINING_STEPS || event->kind == CKPT_TRAINING_EPOCH))
        print_numbers(v, event);
    fflush(stdout); /* who follows a log wants each line when it happens; main() finds out about failures */
    return session_stopped();
}
