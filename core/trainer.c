#include "trainer.h"

#include "checked.h"
#include "clock.h"
#include "fail.h"
#include "order.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_EPOCH UINT64_MAX
#define SCAN     1024 /* weights that are looked at in one go */

/* ---- Batches of an epoch ---- */

size_t trainer_epoch_samples(const trainer *t)
{
    const size_t count = t->split.train_count;
    return t->state.recipe.drop_last ? count - count % t->state.recipe.batch : count;
}

static uint64_t epoch_steps(const trainer *t)
{
    const size_t batch = t->state.recipe.batch;
    return (trainer_epoch_samples(t) + batch - 1) / batch;
}

uint64_t trainer_steps_total(const trainer *t)
{
    const recipe_values *const r = &t->state.recipe;
    uint64_t total = 0;

    if (!checked_mul(&total, r->epochs, epoch_steps(t)))
        total = UINT64_MAX;
    return r->steps && r->steps < total ? r->steps : total;
}

bool trainer_epoch_is_over(const trainer *t)
{
    return t->state.position >= trainer_epoch_samples(t);
}

/* ---- Memory ---- */

uint64_t trainer_memory_bytes(const trainer *t)
{
    return t->arena_bytes +
           (STATE_VECTORS + 1) * (uint64_t)t->net->weight_count * sizeof(float); /* and the gradients */
}

static int vector_new(float **out, trainer *t, ckpt_error *err)
{
    void *memory = NULL;
    const int rc = t->backend->memory_new(&memory, t->backend, t->net->weight_count * sizeof(float), err);

    *out = memory;
    return rc;
}

static int vectors_new(trainer *t, ckpt_error *err)
{
    int rc = 0;
    float *first = NULL;

    TRY(vector_new(&t->state.weights, t, err));
    TRY(vector_new(&t->state.exp_avg, t, err));
    TRY(vector_new(&t->state.exp_avg_sq, t, err));
    TRY(vector_new(&t->grads, t, err));
    first = malloc(t->net->weight_count * sizeof *first);
    FAIL_IF_NULL(first, err);
    net_init(first, t->net, t->state.recipe.seed);
    TRY(t->backend->write(t->backend, t->state.weights, first, t->net->weight_count * sizeof *first, err));
out:
    free(first);
    return rc;
}

static void arena_need(trainer *t, const plan *p)
{
    const size_t bytes = p ? plan_bytes(p) : 0;
    t->arena_bytes = bytes > t->arena_bytes ? bytes : t->arena_bytes;
}

/* A plan for batches of `count` samples, of which there are none in an epoch when that is 0. */
static int train_plan_new(plan **out, trainer *t, size_t count, bool profile, ckpt_error *err)
{
    int rc = 0;

    if (count) {
        TRY(plan_new(out, t->backend, t->net, count, PLAN_TRAIN, err));
        plan_profile(*out, profile);
        arena_need(t, *out);
    }
out:
    return rc;
}

static int plans_new(trainer *t, bool profile, ckpt_error *err)
{
    int rc = 0;
    const size_t batch = t->state.recipe.batch, count = trainer_epoch_samples(t);

    TRY(train_plan_new(&t->full, t, count >= batch ? batch : 0, profile, err));
    TRY(train_plan_new(&t->rest, t, count % batch, profile, err));
    TRY(evaluator_new(&t->evaluator, t->backend, t->net, t->data, batch, false, err));
    plan_profile(t->evaluator.plan, profile);
    arena_need(t, t->evaluator.plan);
    TRY(t->backend->memory_new(&t->arena, t->backend, t->arena_bytes, err));
    if (t->full)
        plan_bind(t->full, t->arena, t->state.weights, t->grads);
    if (t->rest)
        plan_bind(t->rest, t->arena, t->state.weights, t->grads);
    plan_bind(t->evaluator.plan, t->arena, t->state.weights, NULL);
out:
    return rc;
}

/* A row for each line and each epoch that may still come. */
static int history_room(trainer *t, ckpt_error *err)
{
    const recipe_values *const r = &t->state.recipe;
    const uint64_t lines = r->every ? trainer_steps_total(t) / r->every : 0;
    uint64_t rows = 0;

    if (!checked_add(&rows, lines, r->epochs) || !checked_add(&rows, rows, t->state.history.count) ||
        rows > HISTORY_ROWS_MAX)
        rows = HISTORY_ROWS_MAX;
    return history_reserve(&t->state.history, (size_t)rows, err);
}

int trainer_open(trainer *t, const recipe_values *values, backend *b, dataset *data, bool profile, ckpt_error *err)
{
    int rc = 0;

    *t = (trainer){.backend = b, .data = data, .order_epoch = NO_EPOCH};
    t->state.recipe = *values;
    environment_get(&t->state.environment, b);
    memcpy(t->state.data_digest, data->digest, sizeof t->state.data_digest);

    rc = net_parse(&t->net, values->layers, data->shape, (size_t)values->classes, err);
    if (rc == CKPT_EUSAGE)
        error_prefix(err, "net.layers");
    TRY(rc);
    if (t->net->weight_count == 0) {
        rc = error_set(err, CKPT_EUSAGE, "net.layers has nothing that could be trained");
        error_hint(err, "put `dense %" PRIu64 "` behind it", values->classes);
        goto out;
    }
    TRY(split_new(&t->split, values, data, err));
    if (trainer_epoch_samples(t) == 0) {
        rc = error_set(err, CKPT_EUSAGE, "data.batch %" PRIu64 " with data.drop_last leaves none of %zu samples",
                       values->batch, t->split.train_count);
        error_hint(err, "set data.drop_last = no, or data.batch to at most %zu", t->split.train_count);
        goto out;
    }
    t->order = malloc(t->split.train_count * sizeof *t->order);
    FAIL_IF_NULL(t->order, err);
    t->batch_labels = calloc((size_t)values->batch, sizeof *t->batch_labels);
    FAIL_IF_NULL(t->batch_labels, err);
    TRY(vectors_new(t, err));
    TRY(plans_new(t, profile, err));
    TRY(history_room(t, err));
out:
    return rc;
}

void trainer_close(trainer *t)
{
    plan_free(t->full);
    plan_free(t->rest);
    evaluator_clear(&t->evaluator);
    if (t->backend) {
        float *const vectors[] = {t->state.weights, t->state.exp_avg, t->state.exp_avg_sq, t->grads};
        for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
            t->backend->memory_free(t->backend, vectors[i]);
        t->backend->memory_free(t->backend, t->arena);
    }
    state_clear(&t->state);
    split_clear(&t->split);
    free(t->order);
    free(t->batch_labels);
    net_free(t->net);
    dataset_free(t->data);
    *t = (trainer){0};
}

/* ---- From a checkpoint ---- */

/* Epoch, position and step tell the same twice. */
static int counters_check(const trainer *t, const state *s, ckpt_error *err)
{
    int rc = 0;
    const uint64_t batch = t->state.recipe.batch, count = trainer_epoch_samples(t);
    uint64_t step = 0;

    FAIL_IF(s->position > count || (s->position % batch && s->position != count), err, CKPT_EDATA,
            "position %" PRIu64 " is between the batches of an epoch of %" PRIu64 " samples", s->position, count);
    FAIL_IF(!checked_mul(&step, s->epoch, epoch_steps(t)) ||
                !checked_add(&step, step, (s->position + batch - 1) / batch) || step != s->step,
            err, CKPT_EDATA, "step %" PRIu64 " does not fit epoch %" PRIu64 " and position %" PRIu64, s->step, s->epoch,
            s->position);
    FAIL_IF(s->correct > s->seen || s->epoch_correct > s->position, err, CKPT_EDATA,
            "more samples were right than were seen");
out:
    return rc;
}

static int tensors_restore(trainer *t, ckpt_content *content, size_t file, ckpt_error *err)
{
    int rc = 0;
    backend *const b = t->backend;
    const size_t count = t->net->weight_count;
    float *host = NULL; /* weights, exp_avg, exp_avg_sq */

    if (b->memory_is_host) {
        TRY(state_read_tensors(t->state.weights, t->state.exp_avg, t->state.exp_avg_sq, content, file, t->net, err));
        goto out;
    }
    host = calloc(count, STATE_VECTORS * sizeof *host);
    FAIL_IF_NULL(host, err);
    TRY(state_read_tensors(host, host + count, host + 2 * count, content, file, t->net, err));
    for (int v = 0; v < STATE_VECTORS; v++)
        TRY(b->write(b, state_vector_get(&t->state, (state_vector)v), host + (size_t)v * count, count * sizeof *host,
                     err));
out:
    free(host);
    return rc;
}

int trainer_restore(trainer *t, state *recorded, ckpt_content *content, size_t file, ckpt_error *err)
{
    int rc = 0;
    state *const s = &t->state;

    TRY(counters_check(t, recorded, err));
    TRY(tensors_restore(t, content, file, err));
    s->epoch = recorded->epoch;
    s->step = recorded->step;
    s->position = recorded->position;
    s->loss_sum = recorded->loss_sum;
    s->correct = recorded->correct;
    s->seen = recorded->seen;
    s->epoch_loss_sum = recorded->epoch_loss_sum;
    s->epoch_correct = recorded->epoch_correct;
    s->has_best = recorded->has_best;
    s->best_val_accuracy = recorded->best_val_accuracy;
    history_clear(&s->history);
    s->history = recorded->history;
    recorded->history = (history){0};
    TRY(history_room(t, err));
out:
    return rc;
}

/* ---- What went wrong ---- */

/* *found: the place in the vector of all weights of the first that is not finite, or weight_count. */
static int weight_find_bad(size_t *found, float *bad, const trainer *t, ckpt_error *err)
{
    int rc = 0;
    float some[SCAN];
    const size_t count = t->net->weight_count;

    *found = count;
    for (size_t at = 0; at < count; at += SCAN) {
        const size_t n = count - at < SCAN ? count - at : SCAN;
        TRY(t->backend->read(t->backend, some, t->state.weights + at, n * sizeof some[0], err));
        for (size_t i = 0; i < n; i++)
            if (!isfinite(some[i])) {
                *found = at + i;
                *bad = some[i];
                goto out;
            }
    }
out:
    return rc;
}

static const param *param_of(const net *n, size_t weight)
{
    size_t i = 0;
    while (weight - n->params[i].offset >= n->params[i].count)
        i++;
    return &n->params[i];
}

/* Fails with "<what> at step N: conv1.weight holds NaN at element 5", or else with what the forward pass shows. */
static int refuse(const trainer *t, const char *what, const plan *p, ckpt_error *err)
{
    int rc = 0;
    const uint64_t step = t->state.step + 1;
    size_t at = 0;
    float bad = 0;

    TRY(weight_find_bad(&at, &bad, t, err));
    if (at < t->net->weight_count) {
        const param *const owner = param_of(t->net, at);
        FAIL(err, CKPT_EDIFFER, "%s at step %" PRIu64 ": %s holds %s at element %zu", what, step, owner->name,
             isnan(bad) ? "NaN" : "infinity", at - owner->offset);
    }
    const char *const name = plan_first_bad(p);
    FAIL_IF(name, err, CKPT_EDIFFER, "%s at step %" PRIu64 ": all weights are finite, the output of %s is not", what,
            step, name);
    FAIL(err, CKPT_EDIFFER, "%s at step %" PRIu64, what, step);
out:
    return rc;
}

static int refuse_loss(const trainer *t, double loss, const plan *p, ckpt_error *err)
{
    return refuse(t, isnan(loss) ? "loss is nan" : "loss is infinite", p, err);
}

/* ---- A step ---- */

static void order_prepare(trainer *t)
{
    const state *const s = &t->state;

    if (t->order_epoch == s->epoch)
        return;
    memcpy(t->order, t->split.indices, t->split.train_count * sizeof *t->order);
    order_shuffle(t->order, t->split.train_count, s->recipe.seed, RANDOM_ORDER, (uint32_t)s->epoch);
    t->order_epoch = s->epoch;
}

static int batch_gather(trainer *t, plan *p, const uint32_t *indices, size_t count, ckpt_error *err)
{
    backend *const b = t->backend;
    const samples *const from = &t->data->train;
    const double begin = clock_seconds();

    for (size_t i = 0; i < count; i++)
        t->batch_labels[i] = from->labels[indices[i]];
    const int rc = b->gather(plan_batch(p), b, from->images, dims_count(&t->data->shape), indices, count,
                             plan_batch_size(p), DATASET_SCALE, err);
    t->gather_seconds += clock_seconds() - begin;
    t->gather_calls++;
    t->gather_samples += count;
    return rc;
}

static int weights_update(bool *finite, trainer *t, ckpt_error *err)
{
    const state *const s = &t->state;
    const recipe_values *const r = &s->recipe;
    const adam_memory memory = {s->weights, s->exp_avg, s->exp_avg_sq, t->grads, t->net->weight_count};
    const adam_factors factors = {r->lr, r->beta1, r->beta2, r->eps, s->step + 1};
    const double begin = clock_seconds();

    const int rc = t->backend->adam(finite, t->backend, &memory, &factors, err);
    t->adam_seconds += clock_seconds() - begin;
    t->adam_calls++;
    return rc;
}

int trainer_step(trainer *t, ckpt_error *err)
{
    int rc = 0;
    state *const s = &t->state;
    const size_t left = trainer_epoch_samples(t) - (size_t)s->position, batch = (size_t)s->recipe.batch;
    const size_t count = left < batch ? left : batch;
    plan *const p = count == batch ? t->full : t->rest;
    loss_result loss;
    bool finite = false;

    assert(!trainer_epoch_is_over(t) && plan_batch_size(p) == count);
    order_prepare(t);
    TRY(batch_gather(t, p, t->order + s->position, count, err));
    TRY(plan_run(&loss, p, t->batch_labels, count, NULL, err));
    if (!isfinite(loss.sum))
        TRY(refuse_loss(t, loss.sum, p, err));
    TRY(weights_update(&finite, t, err));
    if (!finite)
        TRY(refuse(t, "update is not finite", p, err));
    s->step++;
    s->position += count;
    s->seen += count;
    s->loss_sum += loss.sum;
    s->correct += loss.correct;
    s->epoch_loss_sum += loss.sum;
    s->epoch_correct += loss.correct;
out:
    return rc;
}

/* ---- Evaluation ---- */

/* Who is told of an evaluation. */
typedef struct listener {
    report *tell;
    const state *state;
} listener;

static int batch_tell(void *payload, const evaluator *e, size_t count, size_t done, size_t total, ckpt_error *err)
{
    const listener *const l = payload;

    (void)e, (void)count;
    report_validating(l->tell, l->state, done, total);
    return l->tell->stop ? error_set(err, CKPT_EINTERRUPTED, "evaluation stopped") : 0;
}

int trainer_evaluate(ckpt_evaluation *out, trainer *t, ckpt_samples which, report *tell, ckpt_error *err)
{
    subset p;
    listener l = {tell, &t->state};
    const double begin = clock_seconds();

    split_subset(&p, &t->split, &t->state.recipe, t->data, which);
    report_validating(tell, &t->state, 0, p.count);
    const int rc = evaluator_run(out, &t->evaluator, &p, batch_tell, &l, err);
    t->validation_seconds += clock_seconds() - begin;
    t->validation_calls++;
    return rc;
}
