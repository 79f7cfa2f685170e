#include "retention.h"

#include "fail.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"

#define EPOCH_KEY  "epoch"
#define EPOCHS_MAX 1e15 /* what is larger is no epoch */

/* A checkpoint that a rule may choose, and the order in which it chooses. */
typedef struct candidate {
    size_t item;
    uint64_t range; /* equal for all by which the rule keeps the first only */
    double order;   /* smaller first */
} candidate;

/* By how much the rules that say so passed a checkpoint over. */
typedef struct near_miss {
    char text[RETENTION_REASON_SIZE];
} near_miss;

typedef struct scene {
    ckpt_prune_row *rows;
    near_miss *misses; /* count of them */
    const retention_policy *policy;
    const retention_item *items;
    size_t count;
    int64_t now;
    candidate *candidates; /* room for count */
} scene;

/* ---- Rules ------------------------------------------------------------------------------------------------------ */

/* Puts text behind what is there already, as far as there is room. */
__attribute__((format(printf, 3, 0))) static void reason_add(char reason[RETENTION_REASON_SIZE], const char *separator,
                                                             const char *format, va_list args)
{
    size_t used = strlen(reason);
    const size_t length = strlen(separator);

    if (used > 0 && used + length < RETENTION_REASON_SIZE) {
        memcpy(reason + used, separator, length + 1);
        used += length;
    }
    vsnprintf(reason + used, RETENTION_REASON_SIZE - used, format, args);
}

__attribute__((format(printf, 3, 4))) static void keep(scene *s, size_t item, const char *format, ...)
{
    va_list args;

    s->rows[item].keep = true;
    va_start(args, format);
    reason_add(s->rows[item].reason, ", ", format, args);
    va_end(args);
}

__attribute__((format(printf, 3, 4))) static void miss(scene *s, size_t item, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    reason_add(s->misses[item].text, "; ", format, args);
    va_end(args);
}

/* Behind a number: 1st, 2nd, 3rd, 4th, 11th. */
static const char *ordinal(size_t n)
{
    static const char *const ENDS[] = {"th", "st", "nd", "rd"};

    return n % 100 / 10 != 1 && n % 10 < 4 ? ENDS[n % 10] : "th";
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

static void keep_last(scene *s, const retention_rule *rule)
{
    for (size_t i = 0; i < s->count; i++)
        if (i < rule->count)
            keep(s, i, "last %" PRIu64, rule->count);
        else
            miss(s, i, "%zu%s of last %" PRIu64, i + 1, ordinal(i + 1), rule->count);
}

static void keep_best(scene *s, const retention_rule *rule)
{
    const metric *const m = &s->policy->metrics[rule->metric];
    size_t found = 0;

    for (size_t i = 0; i < s->count; i++) {
        const double value = s->items[i].values[rule->metric].value;
        if (s->items[i].values[rule->metric].has)
            s->candidates[found++] = (candidate){.item = i, .order = m->max ? -value : value};
    }
    candidates_sort(s, found);
    for (size_t i = 0; i < found; i++) {
        const size_t item = s->candidates[i].item;
        const double value = s->items[item].values[rule->metric].value;
        if (i < rule->count)
            keep(s, item, "best %" PRIu64 " (%.24s %.6g)", rule->count, m->key, value);
        else
            miss(s, item, "%.24s %.6g is %zu%s of best %" PRIu64, m->key, value, i + 1, ordinal(i + 1), rule->count);
    }
}

/* Which range of steps or epochs a checkpoint is in, and how far from its beginning; false when it is in none. */
static bool place_in_range(candidate *out, const retention_item *item, const retention_rule *rule)
{
    if (strcmp(rule->unit, "epochs") == 0) {
        if (!item->has_epoch || item->epoch < (double)rule->count)
            return false;
        out->range = (uint64_t)(item->epoch / (double)rule->count);
        out->order = item->epoch - (double)out->range * (double)rule->count;
        return true;
    }
    if (item->step < 0 || (uint64_t)item->step < rule->count)
        return false;
    out->range = (uint64_t)item->step / rule->count;
    out->order = (double)((uint64_t)item->step % rule->count);
    return true;
}

static void keep_every(scene *s, const retention_rule *rule)
{
    size_t found = 0;

    for (size_t i = 0; i < s->count; i++) {
        s->candidates[found].item = i;
        found += place_in_range(&s->candidates[found], &s->items[i], rule);
    }
    candidates_sort(s, found);
    for (size_t i = 0; i < found; i++)
        if (i == 0 || s->candidates[i].range != s->candidates[i - 1].range)
            keep(s, s->candidates[i].item, "every %" PRIu64 " %s", rule->count, rule->unit);
}

static uint64_t unit_seconds(const char *unit)
{
    return *unit == 'h' ? 3600 : *unit == 'd' ? 86400 : 7 * 86400;
}

/* Ages are by this machine's clock. One that runs ahead would make all look old: the newest counts as new in any case;
 * one that is behind makes them look younger than 0, which is new. */
static void keep_within(scene *s, const retention_rule *rule)
{
    const uint64_t limit = rule->count * unit_seconds(rule->unit); /* no more than RETENTION_COUNT_MAX weeks */

    for (size_t i = 0; i < s->count; i++) {
        const int64_t time = s->items[i].time;
        const uint64_t age = time < s->now ? (uint64_t)s->now - (uint64_t)time : 0;
        if (i == 0 || age <= limit)
            keep(s, i, "within %" PRIu64 "%s", rule->count, rule->unit);
        else
            miss(s, i, "older than %" PRIu64 "%s", rule->count, rule->unit);
    }
}

static void keep_tagged(scene *s, const retention_rule *rule)
{
    (void)rule;
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i].tagged)
            keep(s, i, "tagged");
}

#define UNITS_MAX 3
/* A new rule is one function and one row. */
struct retention_kind {
    const char *word;
    bool counted, measured;                 /* a number follows; `by KEY max` may */
    bool glued;                             /* the unit stands right behind the number */
    const char *const units[UNITS_MAX + 1]; /* one must follow */
    void (*apply)(scene *s, const retention_rule *rule);
};

static const struct retention_kind KINDS[] = {
    {"last", true, false, false, {NULL}, keep_last},
    {"best", true, true, false, {NULL}, keep_best},
    {"every", true, false, false, {"steps", "epochs", NULL}, keep_every},
    {"within", true, false, true, {"h", "d", "w", NULL}, keep_within},
    {"tagged", false, false, false, {NULL}, keep_tagged},
};

void retention_item_read(retention_item *out, const retention_policy *policy, const snapshot *s)
{
    static const metric EPOCH = {EPOCH_KEY, true};

    *out = (retention_item){.step = s->step, .time = s->time};
    out->has_epoch = metric_value(&out->epoch, &EPOCH, s) && out->epoch >= 0 && out->epoch <= EPOCHS_MAX;
    for (size_t i = 0; i < policy->metric_count; i++)
        out->values[i].has = metric_value(&out->values[i].value, &policy->metrics[i], s);
}

int retention_apply(ckpt_prune_row *rows, const retention_policy *policy, const retention_item *items, size_t count,
                    int64_t now, ckpt_error *err)
{
    int rc = 0;
    scene s = {.rows = rows, .policy = policy, .items = items, .count = count, .now = now};

    s.candidates = calloc(count + 1, sizeof *s.candidates);
    s.misses = calloc(count + 1, sizeof *s.misses);
    FAIL_IF_NULL(s.candidates && s.misses, err);
    for (size_t i = 0; i < count; i++) {
        rows[i].keep = false;
        rows[i].reason[0] = 0;
    }
    for (size_t i = 0; i < policy->rule_count; i++)
        policy->rules[i].kind->apply(&s, &policy->rules[i]);
    for (size_t i = 0; i < count; i++)
        if (!rows[i].keep)
            snprintf(rows[i].reason, sizeof rows[i].reason, "%s",
                     s.misses[i].text[0] ? s.misses[i].text : "no rule keeps it");
out:
    free(s.misses);
    free(s.candidates);
    return rc;
}

uint64_t retention_best_count(const retention_policy *policy, size_t metric_number)
{
    uint64_t count = 0;

    for (size_t i = 0; i < policy->rule_count; i++) {
        const retention_rule *const rule = &policy->rules[i];
        if (rule->kind->measured && rule->metric == metric_number && rule->count > count)
            count = rule->count;
    }
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

static int count_take(uint64_t *out, const struct retention_kind *kind, cursor *c, ckpt_error *err)
{
    const char *word;
    const size_t length = word_take(&word, c);
    const size_t digits = strspn(word, "0123456789");

    c->at = word;
    if (digits == 0 || (digits < length && !kind->glued))
        return complain(c, "a number is missing", err);
    *out = strtoull(word, NULL, 10); /* saturates */
    if (*out == 0 || *out > RETENTION_COUNT_MAX)
        return complain(c, "the number is out of range", err);
    c->at = word + digits;
    return 0;
}

/* The unit behind the number: a word of its own, or a letter that belongs to it. */
static int unit_take(retention_rule *rule, cursor *c, ckpt_error *err)
{
    static const char *const EXPECTED[] = {"expected `steps` or `epochs`", "expected `h`, `d` or `w`"};
    const bool apart = *c->at == 0 || strchr(BLANKS ",", *c->at);
    const char *word;
    const size_t length = rule->kind->glued && apart ? 0 : word_take(&word, c);

    for (size_t i = 0; rule->kind->units[i]; i++)
        if (length > 0 && word_is(word, length, rule->kind->units[i])) {
            rule->unit = rule->kind->units[i];
            return 0;
        }
    if (length > 0)
        c->at = word;
    return complain(c, EXPECTED[rule->kind->glued], err);
}

/* "by KEY max", when it is there. */
static int metric_take(retention_policy *policy, retention_rule *rule, cursor *c, ckpt_error *err)
{
    int rc = 0;
    const char *word, *way;
    const cursor before = *c;
    size_t length = word_take(&word, c);

    rule->metric = 0;
    if (!word_is(word, length, "by")) {
        *c = before;
        goto out;
    }
    length = word_take(&word, c);
    if (length == 0 || length > METRIC_KEY_MAX)
        TRY(complain(c, "expected the key of a value", err));
    const size_t way_length = word_take(&way, c);
    const bool max = word_is(way, way_length, "max");
    if (!max && !word_is(way, way_length, "min")) {
        c->at = way;
        TRY(complain(c, "expected `max` or `min`", err));
    }
    if (policy->metric_count == RETENTION_METRICS_MAX)
        TRY(complain(c, "too many values to compare by", err));
    rule->metric = policy->metric_count++;
    metric *const m = &policy->metrics[rule->metric];
    *m = (metric){.max = max};
    memcpy(m->key, word, length);
out:
    return rc;
}

static int rule_take(retention_policy *policy, cursor *c, ckpt_error *err)
{
    int rc = 0;
    const char *word;
    const size_t length = word_take(&word, c);
    retention_rule *const rule = &policy->rules[policy->rule_count++];

    *rule = (retention_rule){.unit = ""};
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (word_is(word, length, KINDS[i].word))
            rule->kind = &KINDS[i];
    if (!rule->kind) {
        c->at = word;
        TRY(complain(c, "expected `last N`, `best N`, `every N steps`, `every N epochs`, `within 7d` or `tagged`",
                     err));
    }
    if (rule->kind->counted)
        TRY(count_take(&rule->count, rule->kind, c, err));
    if (rule->kind->units[0])
        TRY(unit_take(rule, c, err));
    if (rule->kind->measured)
        TRY(metric_take(policy, rule, c, err));
out:
    return rc;
}

int retention_parse(retention_policy *out, const char *text, const metric *best, ckpt_error *err)
{
    int rc = 0;
    cursor c = {text, text};

    *out = (retention_policy){.metric_count = 1, .metrics = {*best}};
    for (;;) {
        if (out->rule_count == RETENTION_RULES_MAX)
            TRY(complain(&c, "too many rules", err));
        TRY(rule_take(out, &c, err));
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
    static const metric NONE = {.key = ""};
    retention_policy policy;

    return retention_parse(&policy, keep, &NONE, err);
}
