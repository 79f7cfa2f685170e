/* Reading a training state out of a checkpoint, which may be damaged or somebody else's. */
#include "state_fields.h"

#include "dataset.h"
#include "fail.h"
#include "real.h"
#include "units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE_TEXT_SIZE (CKPT_RANK_MAX * 21 + 3)
#define SHOWN_MAX       64 /* bytes of a value from the file in a message */

/* ---- Values ----------------------------------------------------------------------------------------------------- */

/* NULL: no such value. */
static const char *value_get(const ckpt_content *content, size_t file, const char *key)
{
    ckpt_value v;

    for (size_t i = 0; ckpt_content_value(&v, content, file, i) == 0; i++)
        if (strcmp(v.key, key) == 0)
            return v.value;
    return NULL;
}

int state_find(size_t *file, const ckpt_content *content, ckpt_error *err)
{
    const size_t count = ckpt_content_file_count(content);

    for (size_t i = 0; i < count; i++)
        if (value_get(content, i, STATE_KEY_VERSION)) {
            *file = i;
            return 0;
        }
    const int rc = error_set(err, CKPT_EUSAGE, "there is no state of a training in it");
    error_hint(err, "checkpoints that `ckpt train` makes have one");
    return rc;
}

static int version_check(const char *version, ckpt_error *err)
{
    int rc = 0;
    uint64_t number = 0;

    if (version && strcmp(version, STATE_VERSION) == 0)
        return 0;
    FAIL_IF(!version || parse_u64(&number, version, NULL) || number == 0, err, CKPT_EDATA,
            STATE_KEY_VERSION ": \"%.*s\" is no version of a training state", SHOWN_MAX, version ? version : "");
    FAIL(err, CKPT_EVERSION, "the training state is of version %.*s; this program reads version " STATE_VERSION,
         SHOWN_MAX, version);
out:
    if (rc == CKPT_EVERSION)
        error_hint(err, "use a newer ckpt");
    return rc;
}

/* ckpt.training and recipe. */
static int head_read(state *s, const ckpt_content *content, size_t file, ckpt_error *err)
{
    int rc = 0;
    ckpt_recipe read = {0};

    TRY(version_check(value_get(content, file, STATE_KEY_VERSION), err));
    const char *const recipe = value_get(content, file, STATE_KEY_RECIPE);
    FAIL_IF(!recipe, err, CKPT_EDATA, STATE_KEY_RECIPE " is missing");
    rc = recipe_parse(&read.values, recipe, strlen(recipe), STATE_KEY_RECIPE, err);
    if (rc == 0)
        rc = ckpt_recipe_check(&read, err);
    s->recipe = read.values;
    if (rc == CKPT_EUSAGE || rc == CKPT_EFORMAT) /* what a person may not write is damage where we wrote it */
        rc = error_recode(err, CKPT_EDATA);
    if (rc == CKPT_EDATA)
        error_prefix(err, STATE_KEY_RECIPE);
out:
    return rc;
}

static bool text_fits(char *out, const char *text, size_t size)
{
    const size_t length = strlen(text);

    if (length >= size)
        return false;
    memcpy(out, text, length + 1);
    return true;
}

/* Does the text make sense as this field, which then is set? */
static bool field_read(state *s, const state_field *f, const char *text)
{
    void *const member = (unsigned char *)s + f->offset;
    uint64_t count = 0;
    double real = 0;
    sha256 digest;

    switch (f->kind) {
    case STATE_COUNT:
        return parse_u64(member, text, NULL) == 0 && *(const uint64_t *)member <= f->max;
    case STATE_THREADS:
        if (parse_u64(&count, text, NULL) || count == 0 || count > f->max)
            return false;
        *(unsigned *)member = (unsigned)count;
        return true;
    case STATE_REAL:
        if (!real_parse(&real, text) || !isfinite(real))
            return false;
        *(double *)member = real;
        return true;
    case STATE_BEST:
        s->has_best = strcmp(text, "none") != 0;
        if (s->has_best && (!real_parse(&real, text) || !(real >= 0 && real <= 1)))
            return false;
        *(double *)member = real;
        return true;
    case STATE_DIGEST:
        return sha256_parse(&digest, text, NULL) == 0 && text_fits(member, text, SHA256_HEX_SIZE);
    case STATE_TEXT:
        return text_fits(member, text, BACKEND_TEXT_SIZE);
    }
    return false;
}

static int fields_read(state *s, const ckpt_content *content, size_t file, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < STATE_FIELD_COUNT; i++) {
        const state_field *const f = &STATE_FIELDS[i];
        const char *const text = value_get(content, file, f->key);
        FAIL_IF(!text, err, CKPT_EDATA, "%s is missing", f->key);
        FAIL_IF(!field_read(s, f, text), err, CKPT_EDATA, "%s: \"%.*s\" makes no sense", f->key, SHOWN_MAX, text);
    }
out:
    return rc;
}

/* What no training can have reached: counts that contradict each other. */
static int fields_check(const state *s, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(s->epoch > s->step, err, CKPT_EDATA, "epoch: %llu epochs in %llu steps", (unsigned long long)s->epoch,
            (unsigned long long)s->step);
    FAIL_IF(s->position > 0 && s->recipe.batch > 0 && (s->position - 1) / s->recipe.batch >= s->step - s->epoch, err,
            CKPT_EDATA, "position: %llu samples of an epoch in %llu steps", (unsigned long long)s->position,
            (unsigned long long)(s->step - s->epoch));
    FAIL_IF(s->correct > s->seen, err, CKPT_EDATA, "correct: %llu of %llu samples", (unsigned long long)s->correct,
            (unsigned long long)s->seen);
    FAIL_IF(s->epoch_correct > s->position, err, CKPT_EDATA, "epoch_correct: %llu of %llu samples",
            (unsigned long long)s->epoch_correct, (unsigned long long)s->position);
out:
    return rc;
}

/* ---- Tensors ---------------------------------------------------------------------------------------------------- */

/* Finds a tensor of the file, first behind the one found before (`at`, which moves on): they stand in our order. */
static const ckpt_tensor_info *tensor_get(size_t *at, const ckpt_content *content, size_t file, const char *name)
{
    const ckpt_file_info *const f = ckpt_content_file(content, file);

    for (size_t i = 0; i < f->tensor_count; i++) {
        const size_t number = f->tensor_first + (*at + i) % f->tensor_count;
        const ckpt_tensor_info *const t = ckpt_content_tensor(content, number);
        if (strcmp(t->name, name) == 0) {
            *at = number - f->tensor_first + 1;
            return t;
        }
    }
    return NULL;
}

/* "[32,1,3,3]" */
static void shape_text(char out[SHAPE_TEXT_SIZE], const uint64_t *shape, unsigned rank)
{
    size_t size = (size_t)snprintf(out, SHAPE_TEXT_SIZE, "[");

    for (unsigned i = 0; i < rank; i++)
        size +=
            (size_t)snprintf(out + size, SHAPE_TEXT_SIZE - size, "%s%llu", i ? "," : "", (unsigned long long)shape[i]);
    snprintf(out + size, SHAPE_TEXT_SIZE - size, "]");
}

/* Finds the tensor of the dtype and shape wanted. */
static int tensor_check(size_t *at, const ckpt_content *content, size_t file, const ckpt_tensor *want, ckpt_error *err)
{
    int rc = 0;
    char is[SHAPE_TEXT_SIZE], wanted[SHAPE_TEXT_SIZE];
    const ckpt_tensor_info *const t = tensor_get(at, content, file, want->name);

    FAIL_IF(!t, err, CKPT_EDATA, "%s is missing", want->name);
    shape_text(is, t->shape, t->rank);
    shape_text(wanted, want->shape, want->rank);
    FAIL_IF(t->dtype != want->dtype || strcmp(is, wanted) != 0, err, CKPT_EDATA, "%s is %s %s instead of %s %s",
            want->name, ckpt_dtype_name(t->dtype), is, ckpt_dtype_name(want->dtype), wanted);
out:
    return rc;
}

/* Reads the whole of it. */
static int tensor_read(void *dst, size_t *at, ckpt_content *content, size_t file, const ckpt_tensor *want,
                       ckpt_error *err)
{
    int rc = 0;
    uint64_t count = 1;

    TRY(tensor_check(at, content, file, want, err));
    for (unsigned i = 0; i < want->rank; i++)
        count *= want->shape[i];
    const ckpt_file_info *const f = ckpt_content_file(content, file);
    rc = ckpt_content_read(dst, content, f->tensor_first + *at - 1, 0, count, err);
    if (rc)
        error_prefix(err, "%s", want->name);
out:
    return rc;
}

static int history_check(const history *h, uint64_t step, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < h->count; i++)
        FAIL_IF(h->step[i] < (i ? h->step[i - 1] : 0) || (uint64_t)h->step[i] > step, err, CKPT_EDATA,
                "history.step: row %zu is step %lld", i, (long long)h->step[i]);
out:
    return rc;
}

static int history_read(history *h, ckpt_content *content, size_t file, uint64_t step, ckpt_error *err)
{
    int rc = 0;
    size_t at = 0;
    const char *const first = history_column_name(HISTORY_STEP);
    const ckpt_tensor_info *const t = tensor_get(&at, content, file, first);

    FAIL_IF(!t, err, CKPT_EDATA, "%s is missing", first);
    FAIL_IF(t->rank != 1 || t->shape[0] > HISTORY_ROWS_MAX, err, CKPT_EDATA, "%s is no list of at most %u rows", first,
            HISTORY_ROWS_MAX);
    /* All that there can be: the recipe may be changed to a longer one, and untouched memory costs nothing. */
    TRY(history_reserve(h, HISTORY_ROWS_MAX, err));
    h->count = (size_t)t->shape[0];
    at = 0;
    for (int c = 0; c < HISTORY_COLUMNS; c++) {
        const ckpt_tensor want = {.name = history_column_name((history_column)c),
                                  .dtype = history_column_dtype((history_column)c),
                                  .rank = 1,
                                  .shape = {h->count}};
        TRY(tensor_read(history_column_rows(h, (history_column)c), &at, content, file, &want, err));
    }
    TRY(history_check(h, step, err));
out:
    return rc;
}

int state_read_values(state *s, ckpt_content *content, size_t file, ckpt_error *err)
{
    int rc = 0;
    state found = {.weights = s->weights, .exp_avg = s->exp_avg, .exp_avg_sq = s->exp_avg_sq};

    TRY(head_read(&found, content, file, err));
    TRY(fields_read(&found, content, file, err));
    TRY(fields_check(&found, err));
    TRY(history_read(&found.history, content, file, found.step, err));
    history_clear(&s->history);
    *s = found;
    found.history = (history){0};
out:
    history_clear(&found.history);
    return rc;
}

/* `name` holds the name that *out points to. */
static void tensor_want(ckpt_tensor *out, char name[STATE_TENSOR_NAME_SIZE], state_vector v, const param *p)
{
    state_tensor_name(name, v, p);
    *out = (ckpt_tensor){.name = name, .dtype = CKPT_F32, .rank = p->rank};
    for (unsigned d = 0; d < p->rank; d++)
        out->shape[d] = p->shape[d];
}

int state_check_tensors(const ckpt_content *content, size_t file, const net *n, ckpt_error *err)
{
    int rc = 0;
    size_t at = 0;

    for (size_t i = 0; i < n->param_count; i++) {
        char name[STATE_TENSOR_NAME_SIZE];
        ckpt_tensor want;
        tensor_want(&want, name, STATE_WEIGHTS, &n->params[i]);
        TRY(tensor_check(&at, content, file, &want, err));
    }
out:
    return rc;
}

int state_read_tensors(float *weights, float *exp_avg, float *exp_avg_sq, ckpt_content *content, size_t file,
                       const net *n, ckpt_error *err)
{
    int rc = 0;
    size_t at = 0;
    float *const vectors[STATE_VECTORS] = {
        [STATE_WEIGHTS] = weights, [STATE_EXP_AVG] = exp_avg, [STATE_EXP_AVG_SQ] = exp_avg_sq};

    for (int v = 0; v < STATE_VECTORS; v++)
        for (size_t i = 0; vectors[v] && i < n->param_count; i++) {
            const param *const p = &n->params[i];
            char name[STATE_TENSOR_NAME_SIZE];
            ckpt_tensor want;
            tensor_want(&want, name, (state_vector)v, p);
            TRY(tensor_read(vectors[v] + p->offset, &at, content, file, &want, err));
        }
out:
    return rc;
}
