#include "model_use.h"

#include "fail.h"

#include <string.h>

static const struct {
    const char *name;
    ckpt_samples samples;
} SAMPLES[] = {{"test", CKPT_SAMPLES_TEST}, {"validation", CKPT_SAMPLES_VALIDATION}, {"train", CKPT_SAMPLES_TRAIN}};

static void samples_choose(model_use *use)
{
    const char *const wanted = arguments_text(&use->s->args, "samples");
    size_t row = 0;

    for (size_t i = 0; wanted && i < sizeof SAMPLES / sizeof *SAMPLES; i++)
        if (strcmp(wanted, SAMPLES[i].name) == 0)
            row = i;
    use->samples = SAMPLES[row].samples;
    use->samples_name = SAMPLES[row].name;
}

int model_use_open(model_use *use, session *s, ckpt_error *err)
{
    int rc = 0;

    *use = (model_use){.s = s, .name = s->args.word_count ? s->args.words[0] : "latest"};
    samples_choose(use);
    training_view_init(&use->view, s);
    const ckpt_model_options options = {.size = sizeof options,
                                        .store_path = s->store_path,
                                        .data = arguments_text(&s->args, "data"),
                                        .threads = s->threads,
                                        .event = training_view_event,
                                        .payload = &use->view};
    TRY(plugin_open(&use->plugin, err));
    session_catch_signals(s);
    rc = use->plugin.model_open(&use->model, use->name, &options, err);
    if (rc == CKPT_EUSAGE)
        error_prefix(err, "%s", use->name);
    TRY(rc);
out:
    return rc;
}

void model_use_close(model_use *use)
{
    if (use->model)
        use->plugin.model_free(use->model);
    *use = (model_use){0};
}
