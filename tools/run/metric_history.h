/* The history that the Trainer of Hugging Face keeps beside each checkpoint, trainer_state.json:
 *
 *     {"global_step": 500, "log_history": [{"loss": 2.1, "step": 250}, {"eval_loss": 1.9, "step": 500}, ...], ...} */
#ifndef RUN_METRIC_HISTORY_H
#define RUN_METRIC_HISTORY_H

#include "metric_line.h"

#define METRIC_HISTORY_BYTES_MAX (16u << 20)

/* Gives each plain metric the last value that the file of `folder` has of it; all stay as they are where there is no
 * such file, or it is something else. */
void metric_history_take(metric *metrics, size_t count, const char *folder);

#endif
