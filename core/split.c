#include "split.h"

#include "fail.h"
#include "order.h"

#include <stdlib.h>

int split_new(split *out, const recipe_values *values, const dataset *data, ckpt_error *err)
{
    int rc = 0;
    const size_t count = data->train.count;
    const double share = values->validate == VALIDATE_SPLIT ? values->validation : 0;
    const size_t held = (size_t)(share * (double)count + 0.5);

    if (held >= count) {
        rc = error_set(err, CKPT_EUSAGE, "data.validation %g holds back all of %zu samples", share, count);
        error_hint(err, "set a smaller data.validation, or data.validate = test");
        goto out;
    }
    out->indices = malloc(count * sizeof *out->indices);
    FAIL_IF_NULL(out->indices, err);
    order_split(out->indices, count, held, values->seed);
    out->train_count = count - held;
    out->held_count = held;
out:
    return rc;
}

void split_clear(split *s)
{
    free(s->indices);
    *s = (split){0};
}

void split_subset(subset *out, const split *s, const recipe_values *values, const dataset *data, ckpt_samples which)
{
    if (which == CKPT_SAMPLES_TRAIN)
        *out = (subset){&data->train, s->indices, s->train_count};
    else if (which == CKPT_SAMPLES_TEST || values->validate == VALIDATE_TEST)
        *out = (subset){&data->test, NULL, data->test.count};
    else
        *out = (subset){&data->train, s->indices + s->train_count, s->held_count};
}
