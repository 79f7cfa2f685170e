#include "model_use.h"

#include "clock.h"
#include "output.h"
#include "print.h"

#include "fail.h"

#include <inttypes.h>

static const option OPTIONS[] = {MODEL_OPTION_DATA, MODEL_OPTION_SAMPLES, {0}};

static int print_json(const model_use *use, const ckpt_evaluation *e, double seconds, ckpt_error *err)
{
    int rc = 0;
    json_t *const object = json_object();

    TRY(json_out_set(object, "name", print_json_text(use->name), err));
    TRY(json_out_set(object, "samples", print_json_text(use->samples_name), err));
    TRY(json_out_set(object, "count", json_out_count(e->samples), err));
    TRY(json_out_set(object, "correct", json_out_count(e->correct), err));
    TRY(json_out_set(object, "accuracy", json_out_real(e->accuracy), err));
    TRY(json_out_set(object, "loss", json_out_real(e->loss), err));
    TRY(json_out_set(object, "seconds", json_out_real(seconds), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static void print_line(const model_use *use, const ckpt_evaluation *e, double seconds)
{
    char time[UNITS_TEXT_SIZE];

    output_text(stdout, use->name);
    printf(" on %s samples: accuracy %.2f %% (%" PRIu64 " of %" PRIu64 "), loss %.4f, %s\n", use->samples_name,
           100 * e->accuracy, e->correct, e->samples, e->loss, print_seconds(time, seconds));
}

static int cmd_eval(session *s, ckpt_error *err)
{
    int rc = 0;
    model_use use = {0};
    ckpt_evaluation evaluation;

    TRY(model_use_open(&use, s, err));
    const double begin = clock_seconds();
    rc = use.plugin.model_evaluate(&evaluation, use.model, use.samples, err);
    session_work_end(s);
    TRY(rc);
    if (s->json)
        TRY(print_json(&use, &evaluation, clock_seconds() - begin, err));
    else if (!s->quiet)
        print_line(&use, &evaluation, clock_seconds() - begin);
out:
    model_use_close(&use);
    return rc;
}

const command CMD_EVAL = {
    .name = "eval",
    .args = "[NAME]",
    .summary = "Measure the accuracy of a trained network",
    .about = "NAME is a checkpoint of a training, `latest` without one, or a restored file. Validation samples are "
             "those that the training held back.",
    .examples = "ckpt eval best\ton the test samples\n"
                "ckpt eval out/mnist-cnn/state.safetensors --data DIR\ta restored file\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 9, 10, 130),
    .words_max = 1,
    .group = GROUP_TRAINING,
    .completes = COMPLETES_NAMES_AND_PATHS,
    .run = cmd_eval,
};
