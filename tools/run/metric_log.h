/* Metric log: numbers that a training writes into log files, for the checkpoints that it saves.
 *
 *     'val_acc=([0-9.]+)'           a POSIX extended regular expression; its key is the name before the `=`
 *     'acc~Accuracy: +([0-9.]+)%'   KEY~EXPRESSION, where the log calls it something else
 *     val_acc                       a plain key, found as each kind of log has it:
 *
 *       {"step": 5, "eval": {"loss": 0.3}}    JSON lines: a member, or with dots one further in: eval.loss
 *       epoch,val_acc                         CSV: a column of the header
 *       epoch 3: val_acc=0.91, lr: 0.1        text: a number behind the name and `=` or `:`
 *
 * The value is what the first parentheses hold, or all that fits where there are none; the last one in the log counts.
 * Logs are followed as they grow, are truncated, or replaced. A last line without its end is waited for. Lines are
 * strangers' bytes: what is too long or holds other than printable ASCII as a value is passed over. */
#ifndef RUN_METRIC_LOG_H
#define RUN_METRIC_LOG_H

#include <ckpt/error.h>
#include <stddef.h>

#define METRICS_MAX           32
#define METRIC_LOGS_MAX       16
#define METRIC_KEY_SIZE       64
#define METRIC_VALUE_SIZE     64
#define METRIC_LINE_MAX       (64u << 10) /* bytes of a line; a longer one says nothing */
#define METRIC_TEXT_MAX       (8u << 10)  /* of a longer line expressions are tried on the end */
#define METRIC_READ_MS        2000        /* after so long only the very end of each log is looked at */
#define METRIC_LOG_TAIL_MAX   (8u << 20)  /* bytes read at a time; of more that has come only the end is */
#define METRIC_EXPRESSION_MAX 1024

typedef struct metric_log metric_log;

/* CKPT_EUSAGE: no key, or not an expression. Logs need not exist yet. The texts are copied. */
int metric_log_new(metric_log **out, const char *const *metrics, size_t metric_count, const char *const *logs,
                   size_t log_count, ckpt_error *err);
void metric_log_free(metric_log *m); /* NULL is fine */

/* Reads what has come since. A log that is not there is no error. */
int metric_log_read(metric_log *m, ckpt_error *err);

/* Takes over what the history of a saved folder says, see metric_history.h. */
void metric_log_history(metric_log *m, const char *folder);

/* In the order in which they were given; NULL: no value has come. */
size_t metric_log_count(const metric_log *m);
const char *metric_log_key(const metric_log *m, size_t i);
const char *metric_log_value(const metric_log *m, size_t i);

#endif
