#include "training.h"

#include "fail.h"

#include <string.h>

/* Of one element, as the formulas in adam.h have it: of the mean, of the mean of squares, of the weight. */
#define ADAM_FLOPS 13
/* Weight and both means are read and written, the gradient is read. */
#define ADAM_BYTES (7 * sizeof(float))
/* A byte is read, a number written. */
#define GATHER_BYTES (1 + sizeof(float))

static void row_add(ckpt_profile_row *row, const plan_row *p)
{
    const double calls = (double)p->calls;

    row->calls += p->calls;
    row->forward_seconds += p->forward_seconds;
    row->backward_seconds += p->backward_seconds;
    row->seconds = row->forward_seconds + row->backward_seconds;
    row->flops += calls * (p->forward_flops + p->backward_flops);
    row->bytes += calls * (p->forward_bytes + p->backward_bytes);
}

static void rows_add(ckpt_profile_row *row, const plan *p, const char *name)
{
    for (size_t i = 0; p && i < plan_row_count(p); i++) {
        plan_row r;
        plan_row_get(&r, p, i);
        if (!name || strcmp(r.name, name) == 0)
            row_add(row, &r);
    }
}

static ckpt_profile_row adam_row(const trainer *t)
{
    const double elements = (double)t->adam_calls * (double)t->net->weight_count;

    return (ckpt_profile_row){.name = "adam",
                              .calls = t->adam_calls,
                              .seconds = t->adam_seconds,
                              .flops = elements * ADAM_FLOPS,
                              .bytes = elements * ADAM_BYTES};
}

static ckpt_profile_row gather_row(const trainer *t)
{
    const double elements = (double)t->gather_samples * (double)dims_count(&t->data->shape);

    return (ckpt_profile_row){.name = "gather",
                              .calls = t->gather_calls,
                              .seconds = t->gather_seconds,
                              .flops = elements,
                              .bytes = elements * GATHER_BYTES};
}

static ckpt_profile_row save_row(const trainer *t)
{
    const double state_bytes = (double)STATE_VECTORS * (double)t->net->weight_count * sizeof(float);

    return (ckpt_profile_row){.name = "save",
                              .calls = t->save_calls,
                              .seconds = t->save_seconds,
                              .bytes = 2 * state_bytes * (double)t->save_calls /* read, and written */};
}

static ckpt_profile_row validation_row(const trainer *t)
{
    ckpt_profile_row row = {.name = "validation"};

    rows_add(&row, t->evaluator.plan, NULL);
    row.calls = t->validation_calls;
    row.seconds = row.forward_seconds = t->validation_seconds;
    return row;
}

int ckpt_training_profile_row(ckpt_profile_row *out, const ckpt_training *training, size_t i)
{
    static ckpt_profile_row (*const OTHERS[])(const trainer *t) = {adam_row, gather_row, save_row, validation_row};
    const trainer *const t = &training->trainer;
    const plan *const names = t->full ? t->full : t->rest;
    const size_t operations = plan_row_count(names);

    if (i < operations) {
        plan_row named;
        plan_row_get(&named, names, i);
        *out = (ckpt_profile_row){.name = named.name};
        rows_add(out, t->full, named.name);
        rows_add(out, t->rest, named.name);
        return 0;
    }
    if (i - operations >= sizeof OTHERS / sizeof OTHERS[0])
        return CKPT_ENOTFOUND;
    *out = OTHERS[i - operations](t);
    return 0;
}
