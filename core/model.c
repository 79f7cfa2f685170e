/* Models: see <ckpt/train.h>. */
#include "evaluator.h"
#include "report.h"
#include "row.h"
#include "run_meta.h"
#include "state.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct ckpt_model {
    state state; /* recipe and digest; the weights are in the backend's memory */
    backend *backend;
    net *net;
    dataset *data;
    split split;
    evaluator evaluator;
    void *arena;
    report report;
};

/* ---- Opening ---- */

static int weights_read(ckpt_model *m, ckpt_content *content, size_t file, ckpt_error *err)
{
    int rc = 0;
    backend *const b = m->backend;
    const size_t bytes = m->net->weight_count * sizeof(float);
    void *weights = NULL;
    float *host = NULL;

    TRY(state_check_tensors(content, file, m->net, err));
    host = malloc(bytes);
    FAIL_IF_NULL(host, err);
    TRY(b->memory_new(&weights, b, bytes, err));
    m->state.weights = weights;
    TRY(state_read_tensors(host, NULL, NULL, content, file, m->net, err));
    TRY(b->write(b, weights, host, bytes, err));
out:
    free(host);
    return rc;
}

static int data_read(ckpt_model *m, const char *path, const ckpt_content *content, ckpt_error *err)
{
    int rc = 0;
    const ckpt_info *const info = ckpt_content_info(content);
    const char *const given = path ? path : info ? run_meta_get(info, RUN_META_DATA) : NULL;

    if (!given) {
        rc = error_set(err, CKPT_EUSAGE, "the state does not say where its data are");
        error_hint(err, "--data FOLDER says it");
        goto out;
    }
    /* Damage of the data is none of the checkpoint, which would be passed over. */
    rc = dataset_open(&m->data, given, (size_t)m->state.recipe.classes, err);
    TRY(rc == CKPT_EDATA ? error_recode(err, CKPT_EFORMAT) : rc);
out:
    return rc;
}

/* Are they those that it was trained with? */
static bool data_are_own(const ckpt_model *m)
{
    return strcmp(m->state.data_digest, m->data->digest) == 0;
}

/* The parts that work on samples, of the size that the training had. */
static int evaluator_make(ckpt_model *m, ckpt_error *err)
{
    int rc = 0;
    backend *const b = m->backend;

    TRY(split_new(&m->split, &m->state.recipe, m->data, err));
    TRY(evaluator_new(&m->evaluator, b, m->net, m->data, (size_t)m->state.recipe.batch, true, err));
    TRY(b->memory_new(&m->arena, b, plan_bytes(m->evaluator.plan), err));
    plan_bind(m->evaluator.plan, m->arena, m->state.weights, NULL);
out:
    return rc;
}

static void model_clear(ckpt_model *m)
{
    evaluator_clear(&m->evaluator);
    if (m->backend) {
        m->backend->memory_free(m->backend, m->arena);
        m->backend->memory_free(m->backend, m->state.weights);
    }
    backend_free(m->backend);
    split_clear(&m->split);
    net_free(m->net);
    dataset_free(m->data);
    state_clear(&m->state);
    *m = (ckpt_model){.report = m->report};
}

typedef struct model_request {
    ckpt_model *model;
    const ckpt_model_options *options;
} model_request;

/* Makes the model of a content: a ckpt_content_fn. */
static int use(void *payload, ckpt_content *content, ckpt_error *err)
{
    int rc = 0;
    const model_request *const r = payload;
    ckpt_model *const m = r->model;
    const backend_options how = {.threads = r->options->threads};
    size_t file = 0;

    model_clear(m); /* what was made of a damaged one */
    TRY(state_find(&file, content, err));
    TRY(state_read_values(&m->state, content, file, err));
    TRY(data_read(m, r->options->data, content, err));
    TRY(backend_new(&m->backend, m->state.recipe.backend, &how, err));
    TRY(net_parse(&m->net, m->state.recipe.layers, m->data->shape, (size_t)m->state.recipe.classes, err));
    rc = weights_read(m, content, file, err);
    if (rc == CKPT_EDATA && !data_are_own(m)) { /* images of another size need other weights */
        error_prefix(err, "the network was trained with other data");
        error_recode(err, rc = CKPT_EUSAGE);
    }
    TRY(rc);
    TRY(evaluator_make(m, err));
out:
    return rc;
}

/* What is no name of a checkpoint may be one of a file; damage of a checkpoint is not to be papered over. */
static bool may_be_file(int rc, const char *name)
{
    struct stat st;
    return (rc == CKPT_ENOTFOUND || rc == CKPT_ENOSTORE || rc == CKPT_EUSAGE) && stat(name, &st) == 0;
}

static void on_note(void *payload, const char *note)
{
    report_note(payload, NULL, "%s", note);
}

int ckpt_model_open(ckpt_model **out, const char *name, const ckpt_model_options *options, ckpt_error *err)
{
    int rc = 0;
    const ckpt_model_options defaults = {.size = sizeof defaults};
    model_request request = {.options = options ? options : &defaults};
    ckpt_open_options open = {.size = sizeof open, .note = on_note};
    char id[CKPT_ID_SIZE];
    ckpt_store *store = NULL;
    ckpt_content *content = NULL;
    ckpt_model *m = NULL;

    FAIL_IF(request.options->size != sizeof defaults, err, CKPT_EUSAGE, "ckpt_model_options.size is %zu, expected %zu",
            request.options->size, sizeof defaults);
    m = calloc(1, sizeof *m);
    FAIL_IF_NULL(m, err);
    request.model = m;
    m->report = (report){.event = request.options->event, .payload = request.options->payload};
    open.payload = &m->report;
    rc = ckpt_store_open(&store, request.options->store_path, &open, err);
    if (!rc)
        rc = ckpt_find(id, store, name, err);
    if (may_be_file(rc, name)) {
        error_clear(err);
        TRY(ckpt_content_open_file(&content, name, err));
        TRY(use(&request, content, err));
    } else {
        TRY(rc);
        TRY(ckpt_content_use(store, name, use, &request, err));
    }
    *out = m;
    m = NULL;
out:
    ckpt_content_close(content);
    ckpt_store_close(store);
    ckpt_model_free(m);
    return rc;
}

void ckpt_model_free(ckpt_model *model)
{
    if (model)
        model_clear(model);
    free(model);
}

/* ---- Use ---- */

static int subset_choose(subset *out, const ckpt_model *m, ckpt_samples which, ckpt_error *err)
{
    int rc = 0;
    const recipe_values *const recipe = &m->state.recipe;
    const bool of_split =
        which == CKPT_SAMPLES_TRAIN || (which == CKPT_SAMPLES_VALIDATION && recipe->validate == VALIDATE_SPLIT);

    FAIL_IF(of_split && !data_are_own(m), err, CKPT_EUSAGE,
            "these are not the data that the run was trained with, so none of them were its own %s samples",
            which == CKPT_SAMPLES_TRAIN ? "training" : "validation");
    split_subset(out, &m->split, recipe, m->data, which);
    FAIL_IF(out->count == 0, err, CKPT_EUSAGE, "the run has no such samples: data.validation is %g",
            recipe->validation);
out:
    return rc;
}

/* What is done with each batch. */
typedef struct batch_user {
    ckpt_model *model;
    ckpt_prediction_fn each; /* or NULL: only tell */
    void *payload;
} batch_user;

static int batch_use(void *payload, const evaluator *e, size_t count, size_t done, size_t total, ckpt_error *err)
{
    int rc = 0;
    const batch_user *const u = payload;
    report *const r = &u->model->report;

    for (size_t i = 0; u->each && i < count; i++) {
        const float *const row = e->probabilities + i * e->classes; /* [classes] */
        const size_t best = row_largest(row, e->classes);
        const ckpt_prediction prediction = {e->indices[i],     e->labels[i], (unsigned)best,
                                            (double)row[best], row,          e->classes};
        TRY(u->each(u->payload, &prediction, err));
    }
    report_validating(r, NULL, done, total);
    FAIL_IF(r->stop, err, CKPT_EINTERRUPTED, "stopped after %zu of %zu samples", done, total);
out:
    return rc;
}

static int model_run(ckpt_evaluation *out, ckpt_model *m, ckpt_samples which, batch_user *user, ckpt_error *err)
{
    int rc = 0;
    subset p;

    m->report.stop = false;
    TRY(subset_choose(&p, m, which, err));
    TRY(evaluator_run(out, &m->evaluator, &p, batch_use, user, err));
out:
    return rc;
}

int ckpt_model_evaluate(ckpt_evaluation *out, ckpt_model *model, ckpt_samples which, ckpt_error *err)
{
    batch_user user = {.model = model};
    return model_run(out, model, which, &user, err);
}

int ckpt_model_predict(ckpt_model *model, ckpt_samples which, ckpt_prediction_fn each, void *payload, ckpt_error *err)
{
    ckpt_evaluation unused;
    batch_user user = {model, each, payload};
    return model_run(&unused, model, which, &user, err);
}
