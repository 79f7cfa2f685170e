#include "retention.h"

#include "fail.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"

/* A checkpoint that a rule may choose, and the order in which it chooses. */
typedef struct candidate {
    size_t item;
    uint64_t range; /* equal for all by which the rule keeps the first only */
    double order;   /* smaller first */
} candidate;

typedef struct scene {
    ckpt_prune_row *rows;
    const retention_item *items;
    size_t count;
    const metric *metric;
    candidate *candidates; /* room for count */
} scene;

/* ---- Rules ------------------------------------------------------------------------------------------------------ */

/* Keeps an item and puts the rule behind the reasons that are there already, as far as there is room. */
__attribute__((format(printf, 3, 4))) static void keep(scene *s, size_t item, const char *format, ...)
{
    ckpt_prune_row *const row = &s->rows[item];
    size_t used = row->keep ? strlen(row->reason) : 0;
    va_list args;

    if (row->keep && used + 2 < sizeof row->reason) {
        memcpy(row->reason + used, ", ", 3);
        used += 2;
    }
    row->keep = true;
    va_start(args, format);
    vsnprintf(row->reason + used, sizeof row->reason - used, format, args);
    va_end(args);
}

static int candidate_compare(const void *a, const void *b)
{
    const candidate *const x = a, *const y = b;

    if (x->range != y->range)
        return x->range < y->range ? -1 : 1;
    if (x->order < y->order || x->order > y->order)
        return x->order < y->order ? -1 : 1;
    return x->item < y->item ? -1 : 1; /* the newer first */
}

static void candidates_sort(scene *s, size_t count)
{
    if (count > 1)
        qsort(s->candidates, count, sizeof *s->candidates, candidate_compare);
}

static void keep_last(scene *s, uint64_t count)
{
    for (size_t i = 0; i < s->count && i < count; i++)
        keep(s, i, "last %" PRIu64, count);
}

static void keep_best(scene *s, uint64_t count)
{
    size_t found = 0;

    for (size_t i = 0; i < s->count; i++)
        if (s->items[i].has_value)
            s->candidates[found++] =
                (candidate){.item = i, .order = s->metric->max ? -s->items[i].value : s->items[i].value};
    candidates_sort(s, found);
    for (size_t i = 0; i < found && i < count; i++) {
        const size_t item = s->candidates[i].item;
        keep(s, item, "best %" PRIu64 " (%.24s %.6g)", count, s->metric->key, s->items[item].value);
    }
}

static void keep_every_steps(scene *s, uint64_t steps)
{
    size_t found = 0;

    for (size_t i = 0; i < s->count; i++) {
        const int64_t step = s->items[i].step;
        if (step > 0 && (uint64_t)step >= steps)
            s->candidates[found++] =
                (candidate){.item = i, .range = (uint64_t)step / steps, .order = (double)((uint64_t)step % steps)};
    }
    candidates_sort(s, found);
    for (size_t i = 0; i < found; i++)
        if (i == 0 || s->candidates[i].range != s->candidates[i - 1].range)
            keep(s, s->candidates[i].item, "every %" PRIu64 " steps", steps);
}

static void keep_tagged(scene *s, uint64_t count)
{
    (void)count;
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i].tagged)
            keep(s, i, "tagged");
}

/* A new rule is one function and one row. */
struct retention_kind {
    const char *word;
    bool counted;
    const char *unit; /* word behind the number, or NULL */
    void (*apply)(scene *s, uint64_t count);
};

static const struct retention_kind KINDS[] = {
    {"last", true, NULL, keep_last},
    {"best", true, NULL, keep_best},
    {"every", true, "steps", keep_every_steps},
    {"tagged", false, NULL, keep_tagged},
};

int retention_apply(ckpt_prune_row *rows, const retention_policy *policy, const metric *m, const retention_item *items,
                    size_t count, ckpt_error *err)
{
    int rc = 0;
    scene s = {rows, items, count, m, calloc(count ? count : 1, sizeof(candidate))};

    FAIL_IF_NULL(s.candidates, err);
    for (size_t i = 0; i < count; i++)
        rows[i].keep = false;
    for (size_t i = 0; i < policy->rule_count; i++)
        policy->rules[i].kind->apply(&s, policy->rules[i].count);
    for (size_t i = 0; i < count; i++)
        if (!rows[i].keep)
            snprintf(rows[i].reason, sizeof rows[i].reason, "no rule keeps it");
out:
    free(s.candidates);
    return rc;
}

uint64_t retention_best_count(const retention_policy *policy)
{
    uint64_t count = 0;

    for (size_t i = 0; i < policy->rule_count; i++)
        if (policy->rules[i].kind->apply == keep_best && policy->rules[i].count > count)
            count = policy->rules[i].count;
    return count;
}

/* ---- Text ------------------------------------------------------------------------------------------------------- */

typedef struct cursor {
    const char *text, *at;
} cursor;

static int complain(const cursor *c, const char *what, ckpt_error *err)
{
    error_set(err, CKPT_EUSAGE, "policy `%.200s`: at %zu: %s", c->text, (size_t)(c->at - c->text) + 1, what);
    error_hint(err, "for instance: last 5, best 2, every 10000 steps, tagged");
    return CKPT_EUSAGE;
}

/* Moves over the next word, which ends at a blank or comma; returns its length. */
static size_t word_take(const char **word, cursor *c)
{
    c->at += strspn(c->at, BLANKS);
    *word = c->at;
    const size_t length = strcspn(c->at, BLANKS ",");
    c->at += length;
    return length;
}

static bool word_is(const char *word, size_t length, const char *wanted)
{
    return strlen(wanted) == length && memcmp(word, wanted, length) == 0;
}

static int count_take(uint64_t *out, cursor *c, ckpt_error *err)
{
    const char *word;
    const size_t length = word_take(&word, c);
    const size_t digits = strspn(word, "0123456789");

    c->at = word;
    if (length == 0 || digits != length)
        return complain(c, "a number is missing", err);
    *out = strtoull(word, NULL, 10); /* saturates */
    if (*out == 0 || *out > RETENTION_COUNT_MAX)
        return complain(c, "the number is out of range", err);
    c->at = word + length;
    return 0;
}

static int rule_take(retention_rule *out, cursor *c, ckpt_error *err)
{
    int rc = 0;
    const char *word;
    size_t length = word_take(&word, c);

    *out = (retention_rule){0};
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (word_is(word, length, KINDS[i].word))
            out->kind = &KINDS[i];
    if (!out->kind) {
        c->at = word;
        TRY(complain(c, "expected `last N`, `best N`, `every N steps` or `tagged`", err));
    }
    if (out->kind->counted)
        TRY(count_take(&out->count, c, err));
    if (out->kind->unit) {
        length = word_take(&word, c);
        c->at = word;
        if (!word_is(word, length, out->kind->unit))
            TRY(complain(c, "expected `steps`", err));
        c->at += length;
    }
out:
    return rc;
}

int retention_parse(retention_policy *out, const char *text, ckpt_error *err)
{
    int rc = 0;
    cursor c = {text, text};

    *out = (retention_policy){0};
    for (;;) {
        if (out->rule_count == RETENTION_RULES_MAX)
            TRY(complain(&c, "too many rules", err));
        TRY(rule_take(&out->rules[out->rule_count++], &c, err));
        c.at += strspn(c.at, BLANKS);
        if (*c.at == 0)
            break;
        if (*c.at != ',')
            TRY(complain(&c, "expected a comma", err));
        c.at++;
    }
out:
    return rc;
}

int ckpt_policy_check(const char *keep, ckpt_error *err)
{
    retention_policy policy;
    return retention_parse(&policy, keep, err);
}
