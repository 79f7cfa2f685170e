/* Retention: which checkpoints a policy keeps; a pure function of the list of checkpoints and the time.
 *
 *   policy := rule ("," rule)*
 *   rule   := "last" N                        the N newest
 *           | "best" N                        the N best by the metric of config.ini; of equal ones the newer
 *           | "best" N "by" KEY ("max"|"min") the same by another metric
 *           | "every" N ("steps"|"epochs")    of each range [k N, (k + 1) N) of steps, k >= 1, the first; of equal ones
 *                                             the newer; epochs are the numbers that meta has under `epoch`
 *           | "within" N ("h"|"d"|"w")        not older than N hours, days, weeks; the newest whatever the clock says
 *           | "tagged"
 *
 * A checkpoint stays when any rule keeps it. The first step of a range, not the last, is kept so that a policy applied
 * after each save keeps what it kept before. */
#ifndef CKPT_RETENTION_H
#define CKPT_RETENTION_H

#include "metric.h"

#define RETENTION_RULES_MAX   16
#define RETENTION_METRICS_MAX 8 /* that of the config, and those of the rules */
#define RETENTION_COUNT_MAX   1000000000000u
#define RETENTION_REASON_SIZE sizeof(((ckpt_prune_row *)0)->reason)

typedef struct retention_rule {
    const struct retention_kind *kind;
    uint64_t count;
    const char *unit; /* "steps", "epochs", "h", "d", "w"; "" without one */
    size_t metric;    /* of `best`: which of the policy's */
} retention_rule;

typedef struct retention_policy {
    size_t rule_count;
    retention_rule rules[RETENTION_RULES_MAX];
    size_t metric_count;
    metric metrics[RETENTION_METRICS_MAX]; /* the first is that of the config */
} retention_policy;

/* `best` is the metric of the config. CKPT_EUSAGE names the place: "policy `last five`: at 6: a number is missing". */
int retention_parse(retention_policy *out, const char *text, const metric *best, ckpt_error *err);

/* N of the largest rule `best N` by this metric; 0 without one. */
uint64_t retention_best_count(const retention_policy *policy, size_t metric_number);

/* What the rules look at. */
typedef struct retention_item {
    int64_t step; /* or CKPT_STEP_NONE */
    int64_t time;
    bool tagged, has_epoch;
    double epoch; /* a training may save within an epoch too */
    struct {
        bool has;
        double value;
    } values[RETENTION_METRICS_MAX]; /* of the policy's metrics */
} retention_item;

/* All but `tagged`. */
void retention_item_read(retention_item *out, const retention_policy *policy, const snapshot *s);

/* Fills `keep` and `reason` of rows[i] for items[i]; items stand newest first, `now` is in seconds since 1970. The
 * reason of a kept one lists the rules that keep it, that of another by how much the rules passed it over:
 * "7th of last 5; val_acc 0.91 is 4th of best 2". Errors: CKPT_ENOMEM. */
int retention_apply(ckpt_prune_row *rows, const retention_policy *policy, const retention_item *items, size_t count,
                    int64_t now, ckpt_error *err);

#endif
