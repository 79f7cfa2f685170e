/* Metric: the value by which checkpoints are compared, named by `best = val_acc max` in config.ini. */
#ifndef CKPT_METRIC_H
#define CKPT_METRIC_H

#include "snapshot.h"

#define METRIC_KEY_MAX 255

typedef struct metric {
    char key[METRIC_KEY_MAX + 1]; /* of a pair of meta; "" when no metric is named */
    bool max;                     /* else the smallest is best */
} metric;

/* "KEY max" or "KEY min": CKPT_EUSAGE otherwise. NULL and "" give a metric that nothing has. */
int metric_parse(metric *out, const char *text, ckpt_error *err);

/* The value of a checkpoint. False when it has none, or one that is not a number: NaN is never the best. The decimal
 * point is "." in every locale. */
bool metric_value(double *out, const metric *m, const snapshot *s);

/* Is a better than b? Never true of equal ones. */
bool metric_better(const metric *m, double a, double b);

#endif
