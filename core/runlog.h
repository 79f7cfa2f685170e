/* Log of a run: .ckpt/runs/NAME.jsonl, one JSON object a line, appended to by each training of that name: what stood on
 * the screen, with wall times, rates, host and consumed seconds, which have no place in a checkpoint. And its lease,
 * .ckpt/runs/NAME.lease: of one run one process trains. */
#ifndef CORE_RUNLOG_H
#define CORE_RUNLOG_H

#include <ckpt/train.h>

typedef struct runlog runlog;

/* `store_path` is the .ckpt folder. CKPT_EBUSY when another process trains this run. */
int runlog_open(runlog **out, const char *store_path, const char *run, ckpt_error *err);
/* A line for everything but BATCH. A log that cannot be written does not stop a training; the first failure is told by
 * runlog_failure. */
void runlog_event(runlog *l, const ckpt_training_event *event);
const char *runlog_failure(const runlog *l); /* NULL: none */
/* Seconds that trainings of this run have used before this one, as far as the log tells. */
double runlog_seconds_before(const runlog *l);
void runlog_close(runlog *l); /* NULL is fine */

#endif
