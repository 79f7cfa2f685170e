/* Choosing a plan by coding samples: first everything that might pay on one sample, then the best without and the best
 * with a reference on all of them. */
#include "codec_internal.h"

#include "fail.h"

#include <string.h>

enum {
    SEARCH_BYTES = 32 << 10, /* of the one sample that candidates compete on */
    ROTATE_MAX = 7,          /* by 8 bits, planes only change places */
    LEVEL_BYTES = 3,         /* of zstd on bytes */
    LEVEL_SLOW = 9,
    FIXED_SHARE = 4, /* of the tables' size that counts in a sample, since they are as large in a chunk */
};

/* By how much a candidate must be smaller to be taken, in 1/1000: a reference makes restoring slower and its loss a
 * loss of this tensor too; searches for repeats take time. */
enum { GAIN_ANY = 0, GAIN_LATER_REFERENCE = 5, GAIN_REFERENCE = 10, GAIN_LEVEL = 20, GAIN_CLEAR = 50 };

#define COST_UNKNOWN (SIZE_MAX / 1000)

typedef struct candidate {
    codec_plan plan;
    int reference; /* -1: none */
    size_t cost;   /* coded bytes of the sample that candidates compete on */
} candidate;

typedef struct contest {
    codec *c;
    const codec_sample *sample; /* that candidates compete on */
    size_t size;                /* of it */
    ckpt_error *err;
} contest;

static bool is_smaller(size_t cost, size_t other, unsigned gain_permille)
{
    return cost * 1000 < other * (1000 - gain_permille);
}

static bool has_tables(codec_mode mode)
{
    return mode == CODEC_CONTEXT || mode == CODEC_SYMBOLS;
}

/* What a codec_encode with this plan would make of a sample, as far as the plan decides it. */
static int sample_cost(size_t *cost, codec *c, const codec_plan *plan, int reference, const codec_sample *sample,
                       size_t size, ckpt_error *err)
{
    int rc = 0;
    const codec_chunk chunk = {
        .src = sample->data, .size = size, .reference = reference < 0 ? NULL : sample->reference[reference]};

    TRY(codec_encode_mode(cost, c->trial, size, c, plan, &chunk, err));
    if (*cost == CODEC_NO_GAIN)
        *cost = size + 1;
    else if (has_tables(plan->mode) && size >= SEARCH_BYTES)
        *cost -= c->context->fixed_size - c->context->fixed_size / FIXED_SHARE; /* a chunk is longer than this */
out:
    return rc;
}

static int compete(candidate *best, const contest *t, const codec_plan *plan, int reference, unsigned gain_permille)
{
    int rc = 0;
    size_t cost = 0;

    TRY(sample_cost(&cost, t->c, plan, reference, t->sample, t->size, t->err));
    if (is_smaller(cost, best->cost, gain_permille))
        *best = (candidate){.plan = *plan, .reference = reference, .cost = cost};
out:
    return rc;
}

static bool has_planes(codec_mode mode)
{
    return mode == CODEC_PLANES || mode == CODEC_SUB || mode == CODEC_XOR;
}

/* Where to begin the search: coding usually gets better towards a rotation from both sides. For floats the exponent
 * then ends inside the top plane. */
static unsigned rotate_first(unsigned width, bool is_float)
{
    if (!is_float || width == 1)
        return 0;
    return width == 2 ? 1 : 4;
}

static int compete_rotations(candidate *best, const contest *t)
{
    int rc = 0;
    const candidate first = *best;

    if (!has_planes(first.plan.mode) || first.plan.width == 1)
        goto out;
    for (int step = -1; step <= 1; step += 2) {
        codec_plan plan = first.plan;
        while (plan.rotate == best->plan.rotate && (step < 0 ? plan.rotate > 0 : plan.rotate < ROTATE_MAX)) {
            plan.rotate = (unsigned)((int)plan.rotate + step);
            TRY(compete(best, t, &plan, best->reference, GAIN_ANY));
        }
    }
    if (best->plan.rotate != 0 && first.plan.rotate != 0) {
        codec_plan plan = first.plan;
        plan.rotate = 0;
        TRY(compete(best, t, &plan, best->reference, GAIN_ANY));
    }
out:
    return rc;
}

/* Do repeats further apart pay? The slow level is for bytes of unknown meaning, which are seldom many. */
static int compete_levels(candidate *best, const contest *t)
{
    static const int LEVELS[] = {1, 3, LEVEL_SLOW};
    int rc = 0;
    codec_plan plan = best->plan;

    for (size_t i = 0; plan.mode != CODEC_STORED && i < sizeof LEVELS / sizeof *LEVELS; i++) {
        if (LEVELS[i] <= plan.level || (LEVELS[i] == LEVEL_SLOW && plan.dtype != CKPT_OPAQUE))
            continue;
        plan.level = LEVELS[i];
        TRY(compete(best, t, &plan, best->reference, LEVELS[i] == LEVEL_SLOW ? GAIN_CLEAR : GAIN_LEVEL));
    }
out:
    return rc;
}

/* The types that elements may be of: the given one, or for opaque bytes all that make a difference to planes. */
static size_t guess_dtypes(ckpt_dtype guesses[6], ckpt_dtype dtype, bool with_reference)
{
    /* Floats and integers of one width differ only in the order that SUB gives them. */
    static const ckpt_dtype GUESSES[] = {CKPT_F32, CKPT_BF16, CKPT_F64, CKPT_U16, CKPT_U32, CKPT_U64};
    const size_t count = with_reference ? 6 : 3;

    guesses[0] = dtype;
    if (dtype != CKPT_OPAQUE)
        return 1;
    memcpy(guesses, GUESSES, count * sizeof *guesses);
    return count;
}

codec_plan codec_plan_of(codec_mode mode, ckpt_dtype dtype)
{
    const unsigned width = codec_dtype_width(dtype);

    return (codec_plan){.mode = mode,
                        .width = width,
                        .dtype = dtype,
                        .level = mode == CODEC_ZSTD || mode == CODEC_PATCH ? LEVEL_BYTES : 0,
                        .rotate = rotate_first(width, codec_dtype_is_float(dtype))};
}

static int compete_without_reference(candidate *best, const contest *t, ckpt_dtype dtype)
{
    int rc = 0;
    ckpt_dtype guesses[6];
    const size_t guess_count = guess_dtypes(guesses, dtype, false);
    codec_plan plan = codec_plan_of(CODEC_ZSTD, dtype);

    *best = (candidate){.plan = codec_plan_of(CODEC_STORED, dtype), .reference = -1, .cost = t->size + 1};
    TRY(compete(best, t, &plan, -1, GAIN_ANY));
    for (size_t i = 0; i < guess_count; i++) {
        plan = codec_plan_of(CODEC_PLANES, guesses[i]);
        TRY(compete(best, t, &plan, -1, GAIN_ANY));
        plan = codec_plan_of(CODEC_PALETTE, guesses[i]); /* gives up early where there are many elements */
        TRY(compete(best, t, &plan, -1, GAIN_ANY));
    }
    TRY(compete_rotations(best, t));
    TRY(compete_levels(best, t));
    for (size_t i = 0; i < guess_count; i++) {
        plan = codec_plan_of(CODEC_SYMBOLS, guesses[i]);
        TRY(compete(best, t, &plan, -1, GAIN_ANY));
    }
out:
    return rc;
}

/* With the reference that byte planes found best, for its type of elements. */
static int compete_contexts(candidate *best, const contest *t, const candidate *planes, ckpt_dtype dtype)
{
    int rc = 0;
    codec_plan plan = codec_plan_of(CODEC_CONTEXT, dtype == CKPT_OPAQUE ? planes->plan.dtype : dtype);

    for (plan.number = CONTEXT_RAW; plan.number <= CONTEXT_XOR; plan.number++)
        TRY(compete(best, t, &plan, planes->reference, GAIN_ANY));
out:
    return rc;
}

static int compete_with_reference(candidate *best, const contest *t, ckpt_dtype dtype, unsigned reference_count)
{
    int rc = 0;
    ckpt_dtype guesses[6];
    const size_t guess_count = guess_dtypes(guesses, dtype, true);

    *best = (candidate){.plan = codec_plan_of(CODEC_STORED, dtype), .reference = -1, .cost = t->size + 1};
    for (unsigned r = 0; r < reference_count; r++) {
        candidate best_of_reference = *best;

        if (!t->sample->reference[r])
            continue;
        best_of_reference.cost = t->size + 1;
        for (size_t i = 0; i < guess_count; i++) {
            const codec_plan sub = codec_plan_of(CODEC_SUB, guesses[i]), xor = codec_plan_of(CODEC_XOR, guesses[i]);
            TRY(compete(&best_of_reference, t, &sub, (int)r, GAIN_ANY));
            TRY(compete(&best_of_reference, t, &xor, (int)r, GAIN_ANY));
        }
        if (dtype == CKPT_OPAQUE) {
            const codec_plan patch = codec_plan_of(CODEC_PATCH, dtype);
            TRY(compete(&best_of_reference, t, &patch, (int)r, GAIN_ANY));
        }
        if (is_smaller(best_of_reference.cost, best->cost, best->reference < 0 ? GAIN_ANY : GAIN_LATER_REFERENCE))
            *best = best_of_reference;
    }
    if (best->reference < 0)
        goto out;
    const candidate planes = *best;
    TRY(compete_rotations(best, t));
    TRY(compete_levels(best, t));
    TRY(compete_contexts(best, t, &planes, dtype));
out:
    return rc;
}

/* Are all samples the same as in this reference? With reference -1: is each one element repeated? */
static bool samples_are_trivial(const codec_sample *samples, size_t count, int reference)
{
    for (size_t i = 0; i < count; i++) {
        const codec_sample *s = &samples[i];
        if (reference < 0 && !codec_constant_period(s->data, s->size))
            return false;
        if (reference >= 0 && (!s->reference[reference] || memcmp(s->data, s->reference[reference], s->size)))
            return false;
    }
    return true;
}

/* The next best thing for chunks that are not as trivial as the samples: what changed is probably little. */
static codec_plan plan_trivial(codec_mode mode, ckpt_dtype dtype)
{
    codec_plan plan = codec_plan_of(mode, dtype);
    plan.rotate = 0;
    return plan;
}

static int total_cost(size_t *total, codec *c, const candidate *a, const codec_sample *samples, size_t count,
                      ckpt_error *err)
{
    int rc = 0;

    *total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t cost = 0;
        TRY(sample_cost(&cost, c, &a->plan, a->reference, &samples[i], samples[i].size, err));
        *total += cost;
    }
out:
    return rc;
}

int codec_plan_choose(codec_plan *plan, int *reference, double *estimate, codec *c, ckpt_dtype dtype,
                      const codec_sample *samples, size_t sample_count, unsigned reference_count, ckpt_error *err)
{
    int rc = 0;
    candidate alone, delta;
    size_t size = 0, cost_alone = COST_UNKNOWN, cost_delta = COST_UNKNOWN;

    FAIL_IF(sample_count < 1 || sample_count > CODEC_SAMPLES_MAX || reference_count > CODEC_REFERENCES_MAX, err,
            CKPT_EUSAGE, "%zu samples with %u references", sample_count, reference_count);
    for (size_t i = 0; i < sample_count; i++) {
        FAIL_IF(samples[i].size < 1 || samples[i].size > CODEC_SAMPLE_BYTES, err, CKPT_EUSAGE, "sample of %zu bytes",
                samples[i].size);
        size += samples[i].size;
    }

    *estimate = 0;
    for (int r = -1; r < (int)reference_count; r++)
        if (samples_are_trivial(samples, sample_count, r)) {
            *plan = plan_trivial(r < 0 ? CODEC_CONSTANT : CODEC_COPY, dtype);
            *reference = r;
            goto out;
        }

    const codec_sample *middle = &samples[sample_count / 2];
    const contest t = {
        .c = c, .sample = middle, .size = middle->size < SEARCH_BYTES ? middle->size : SEARCH_BYTES, .err = err};
    TRY(compete_without_reference(&alone, &t, dtype));
    TRY(compete_with_reference(&delta, &t, dtype, reference_count));
    /* The second look is only for what the first did not decide. */
    if (!is_smaller(delta.cost, alone.cost, GAIN_CLEAR))
        TRY(total_cost(&cost_alone, c, &alone, samples, sample_count, err));
    if (is_smaller(delta.cost, alone.cost, GAIN_ANY))
        TRY(total_cost(&cost_delta, c, &delta, samples, sample_count, err));

    const bool with_reference = is_smaller(cost_delta, cost_alone, GAIN_REFERENCE);
    const candidate *best = with_reference ? &delta : &alone;
    *plan = best->plan;
    *reference = best->reference;
    *estimate = (double)(with_reference ? cost_delta : cost_alone) / (double)size;
out:
    return rc;
}
