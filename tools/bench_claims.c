/* What others promise of checkpoints made smaller, beside what these samples of real trainings give. Savings of "30 %
 * by compression" and "50 % by incremental saving" are claimed without saying of what, and lossless coding of dense
 * float weights does not reach them; what reaches them is said with what it gives up. */
#include "bench.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

#define CLAIM_COMPRESSED  0.70
#define CLAIM_INCREMENTAL 0.50

/* Neighbouring checkpoints of one training. */
typedef struct sample {
    const char *what, *reference, *current;
} sample;

static const sample SAMPLES[] = {
    {"SGD 150", "resnet18w16-sgd-step0100.pt", "resnet18w16-sgd-step0150.pt"},
    {"SGD 550", "resnet18w16-sgd-step0500.pt", "resnet18w16-sgd-step0550.pt"},
    {"SGD 600", "resnet18w16-sgd-step0550.pt", "resnet18w16-sgd-step0600.pt"},
    {"AdamW 250", "resnet18w16-adam-step0200.pt", "resnet18w16-adam-step0250.pt"},
    {"AdamW 300", "resnet18w16-adam-step0250.pt", "resnet18w16-adam-step0300.pt"},
};

/* How it is saved. `loses` is what does not come back. */
typedef struct way {
    const char *loses;
    bool optimizer_bf16, weights_only;
} way;

static const way WAYS[] = {
    {"lossless", false, false},
    {"--optimizer bf16", true, false},
    {"--weights-only", false, true},
};

/* Bytes added as a share of the whole state, whatever is left of it. */
static int state_save(double *share, ckpt_store *store, const bench_state *state, const way *w, ckpt_error *err)
{
    int rc = 0;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    ckpt_save_result saved;

    options.optimizer_bf16 = w->optimizer_bf16;
    options.weights_only = w->weights_only;
    TRY(ckpt_save_tensors(&saved, store, NULL, state->tensors, state->count, NULL, 0, &options, err));
    *share = (double)saved.stored_bytes / (double)state->bytes;
out:
    return rc;
}

static int way_rows(bench *b, const sample *s, const bench_state *before, const bench_state *now, const way *w,
                    ckpt_error *err)
{
    int rc = 0;
    ckpt_store *store = NULL;
    double keyframe = 0, delta = 0;
    char what[96];

    TRY(bench_store_new(&store, b, "alone", err));
    TRY(state_save(&keyframe, store, now, w, err));
    ckpt_store_close(store);
    store = NULL;
    TRY(bench_store_new(&store, b, "behind", err));
    TRY(state_save(&delta, store, before, w, err));
    TRY(state_save(&delta, store, now, w, err));
    snprintf(what, sizeof what, "%s, %s: compressed", s->what, w->loses);
    TRY(bench_row(b, what, "of raw", keyframe, "claim: -30 %", CLAIM_COMPRESSED, "", err));
    snprintf(what, sizeof what, "%s, %s: incremental", s->what, w->loses);
    TRY(bench_row(b, what, "of raw", delta, "claim: -50 %", CLAIM_INCREMENTAL, "", err));
out:
    ckpt_store_close(store);
    return rc;
}

static int sample_load(bench_state *state, const bench *b, const char *name, ckpt_error *err)
{
    int rc = 0;
    char dir[FILE_PATH_MAX], path[FILE_PATH_MAX];

    TRY(path_join(dir, b->samples, "trajectory", err));
    TRY(path_join(path, dir, name, err));
    TRY(bench_state_load(state, path, err));
out:
    return rc;
}

static int sample_rows(bench *b, const sample *s, ckpt_error *err)
{
    int rc = 0;
    bench_state before = {0}, now = {0};

    TRY(sample_load(&before, b, s->reference, err));
    TRY(sample_load(&now, b, s->current, err));
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
        TRY(way_rows(b, s, &before, &now, &WAYS[i], err));
out:
    bench_state_clear(&before);
    bench_state_clear(&now);
    return rc;
}

int bench_claims(bench *b, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < sizeof SAMPLES / sizeof *SAMPLES; i++)
        TRY(sample_rows(b, &SAMPLES[i], err));
out:
    return rc;
}
