/* Retention: which checkpoints a policy keeps; a pure function of the list of checkpoints.
 *
 *   policy := rule ("," rule)*
 *   rule   := "last" N            the N newest
 *           | "best" N            the N best by the metric of config.ini; of equal ones the newer
 *           | "every" N "steps"   of each range [k N, (k + 1) N) of steps, k >= 1, the first step; of equal ones
 *                                 the newer
 *           | "tagged"
 *
 * A checkpoint stays when any rule keeps it. The first step of a range, not the last, is kept so that a policy applied
 * after each save keeps what it kept before. */
#ifndef CKPT_RETENTION_H
#define CKPT_RETENTION_H

#include "metric.h"

#define RETENTION_RULES_MAX   16
#define RETENTION_COUNT_MAX   1000000000000u
#define RETENTION_REASON_SIZE sizeof(((ckpt_prune_row *)0)->reason)

typedef struct retention_rule {
    const struct retention_kind *kind;
    uint64_t count;
} retention_rule;

typedef struct retention_policy {
    size_t rule_count;
    retention_rule rules[RETENTION_RULES_MAX];
} retention_policy;

/* CKPT_EUSAGE names the place: "policy `last five`: at 6: a number is missing". */
int retention_parse(retention_policy *out, const char *text, ckpt_error *err);

/* N of the rule `best N`; 0 without one. */
uint64_t retention_best_count(const retention_policy *policy);

/* What the rules look at. */
typedef struct retention_item {
    int64_t step; /* or CKPT_STEP_NONE */
    bool tagged, has_value;
    double value; /* of the metric */
} retention_item;

/* Fills `keep` and `reason` of rows[i] for items[i]; items stand newest first. The reason of a kept one lists the rules
 * that keep it, that of another is "no rule keeps it". Errors: CKPT_ENOMEM. */
int retention_apply(ckpt_prune_row *rows, const retention_policy *policy, const metric *m, const retention_item *items,
                    size_t count, ckpt_error *err);

#endif
