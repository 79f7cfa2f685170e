/* Training summary: what is told once, at the end of a training. */
#ifndef TOOLS_TRAINING_SUMMARY_H
#define TOOLS_TRAINING_SUMMARY_H

#include "plugin.h"
#include "session.h"

/* Accuracy, rate, checkpoints, bytes, time and memory; with --json one object on a line. */
int training_summary_print(const session *s, const ckpt_training_result *result, ckpt_error *err);

/* Where time went, operation by operation, beside what the machine can do at best; measures that first. */
int training_profile_print(const session *s, const plugin *p, const ckpt_training *training, ckpt_error *err);

#endif
