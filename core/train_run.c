#include "training.h"

#include "clock.h"
#include "fail.h"

#include <inttypes.h>
#include <string.h>

bool training_is_done(const ckpt_training *g)
{
    const state *const s = &g->trainer.state;

    if (s->epoch >= s->recipe.epochs)
        return true;
    return s->recipe.steps && s->step >= s->recipe.steps && !trainer_epoch_is_over(&g->trainer);
}

static int save(ckpt_training *g, save_reason reason, double val_accuracy, double test_accuracy, ckpt_error *err)
{
    trainer *const t = &g->trainer;
    const double begin = clock_seconds();
    const int rc = run_saver_save(g->saver, reason, val_accuracy, test_accuracy, err);

    t->save_seconds += clock_seconds() - begin;
    t->save_calls++;
    return rc;
}

/* ---- Steps and epochs ---- */

static void line_end(ckpt_training *g)
{
    state *const s = &g->trainer.state;
    const double loss = s->loss_sum / (double)s->seen, accuracy = (double)s->correct / (double)s->seen;

    history_add(&s->history, (int64_t)s->step, loss, accuracy, NOT_KNOWN);
    s->loss_sum = 0;
    s->correct = s->seen = 0;
    report_line(&g->report, s, loss, accuracy);
}

static int step_make(ckpt_training *g, ckpt_error *err)
{
    int rc = 0;
    trainer *const t = &g->trainer;
    state *const s = &t->state;
    const uint64_t position = s->position;

    TRY(trainer_step(t, err));
    report_step(&g->report, s, (size_t)(s->position - position));
    if (!s->recipe.every || s->step % s->recipe.every)
        goto out;
    line_end(g);
    /* At the end of an epoch it is saved after the validation, and on a stop by the one who handles that. */
    if (!trainer_epoch_is_over(t) && !g->report.stop)
        TRY(save(g, SAVE_RHYTHM, NOT_KNOWN, NOT_KNOWN, err));
out:
    return rc;
}

/* The epoch is validated, and the next one begins; or else, on a stop, nothing has changed. */
static int epoch_end(ckpt_training *g, ckpt_error *err)
{
    int rc = 0;
    trainer *const t = &g->trainer;
    state *const s = &t->state;
    const double loss = s->epoch_loss_sum / (double)s->position;
    const double accuracy = (double)s->epoch_correct / (double)s->position;
    ckpt_evaluation validation;

    rc = trainer_evaluate(&validation, t, CKPT_SAMPLES_VALIDATION, &g->report, err);
    if (rc == CKPT_EINTERRUPTED && g->report.stop)
        return error_clear(err);
    TRY(rc);
    const bool best = validation.samples && (!s->has_best || validation.accuracy > s->best_val_accuracy);
    if (best) {
        s->has_best = true;
        s->best_val_accuracy = validation.accuracy;
    }
    history_add(&s->history, (int64_t)s->step, loss, accuracy, validation.accuracy);
    report_epoch(&g->report, s, loss, accuracy, validation.loss, validation.accuracy, best);
    s->epoch_loss_sum = 0;
    s->epoch_correct = 0;
    s->position = 0;
    s->epoch++;
    TRY(save(g, best ? SAVE_BEST : SAVE_EPOCH, validation.accuracy, NOT_KNOWN, err));
out:
    return rc;
}

/* ---- The ends of a run ---- */

static int stop(ckpt_training *g, ckpt_error *err)
{
    int rc = 0;
    const state *const s = &g->trainer.state;

    report_stopped(&g->report, s);
    rc = save(g, SAVE_STOPPED, NOT_KNOWN, NOT_KNOWN, err);
    if (rc) {
        error_prefix(err, "stopped at step %" PRIu64 ", not saved", s->step);
        goto out;
    }
    rc = error_set(err, CKPT_EWINDOW, "stopped at step %" PRIu64 " of %" PRIu64 ", saved", s->step,
                   trainer_steps_total(&g->trainer));
    error_hint(err, "`ckpt resume` goes on");
out:
    return rc;
}

static int finish(ckpt_training *g, ckpt_error *err)
{
    int rc = 0;
    trainer *const t = &g->trainer;
    ckpt_evaluation test;

    rc = trainer_evaluate(&test, t, CKPT_SAMPLES_TEST, &g->report, err);
    if (rc == CKPT_EINTERRUPTED && g->report.stop) {
        error_clear(err);
        return stop(g, err);
    }
    TRY(rc);
    g->test_accuracy = test.accuracy; /* known, though it may not be saved */
    TRY(save(g, SAVE_FINAL, NOT_KNOWN, test.accuracy, err));
    report_finished(&g->report, &t->state, test.loss, test.accuracy);
out:
    return rc;
}

/* Says from where one may go on after the numbers went bad. */
static void last_good_hint(const ckpt_training *g, ckpt_error *err)
{
    ckpt_store *store = NULL;
    ckpt_list *list = NULL;
    const ckpt_info *last = NULL;

    if (ckpt_store_open(&store, g->store_path, NULL, NULL) == 0 && ckpt_list_new(&list, store, NULL) == 0)
        last = run_meta_newest(list, g->trainer.state.recipe.name);
    if (last)
        error_hint(err, "the last good checkpoint is step:%" PRId64 "; a lower optimizer.lr may help", last->step);
    else
        error_hint(err, "no checkpoint was made yet; a lower optimizer.lr may help");
    ckpt_list_free(list);
    ckpt_store_close(store);
}

static void result_fill(ckpt_training_result *out, const ckpt_training *g)
{
    const state *const s = &g->trainer.state;
    const report *const r = &g->report;

    *out = (ckpt_training_result){
        .epoch = s->epoch,
        .step = s->step,
        .test_accuracy = g->test_accuracy,
        .best_val_accuracy = s->has_best ? s->best_val_accuracy : NOT_KNOWN,
        .seconds = r->train_seconds,
        .images_per_s = report_rate(r),
        .memory_bytes = trainer_memory_bytes(&g->trainer),
    };
    if (g->saver)
        run_saver_result(out, g->saver);
}

/* ---- The run ---- */

static int train(ckpt_training *g, ckpt_error *err)
{
    int rc = 0;
    trainer *const t = &g->trainer;
    report *const r = &g->report;

    report_started(r, &t->state, "%s", g->started);
    if (g->anew) /* so that a resume finds this beginning, not the end of what was before */
        TRY(save(g, SAVE_ANEW, NOT_KNOWN, NOT_KNOWN, err));
    while (!r->stop && !training_is_done(g))
        TRY(trainer_epoch_is_over(t) ? epoch_end(g, err) : step_make(g, err));
    TRY(r->stop ? stop(g, err) : finish(g, err));
out:
    return rc;
}

int ckpt_training_run(ckpt_training_result *result, ckpt_training *training, ckpt_error *err)
{
    int rc = 0;
    ckpt_training *const g = training;
    const state *const s = &g->trainer.state;

    if (g->ran)
        return error_set(err, CKPT_EUSAGE, "a training runs once");
    g->ran = true;
    report_start(&g->report, s, trainer_steps_total(&g->trainer));
    if (g->finished) {
        report_note(&g->report, s, "run %s is finished, at step %" PRIu64 "; --epochs or --steps train it longer",
                    s->recipe.name, s->step);
    } else {
        rc = train(g, err);
    }
    if (result)
        result_fill(result, g);
    if (g->saver) {
        const int close_rc = run_saver_close(g->saver, rc ? NULL : err);
        rc = rc ? rc : close_rc;
        g->saver = NULL;
    }
    if (rc == CKPT_EDIFFER)
        last_good_hint(g, err);
    return rc;
}
