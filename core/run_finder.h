/* Finder of a run: which checkpoint of it to go on from. */
#ifndef CORE_RUN_FINDER_H
#define CORE_RUN_FINDER_H

#include "report.h"

/* Opens checkpoints of the run (NULL: of any), newest first, until one has a good state: values, and then tensors by
 * `take`, which gets the opened content. Damaged ones are passed over with a warning. CKPT_ENOTFOUND when no checkpoint
 * of the run is there, CKPT_EDATA when all are damaged. */
typedef int (*run_take_fn)(void *payload, ckpt_content *content, size_t file, const ckpt_info *info, ckpt_error *err);
int run_find(ckpt_store *store, const char *run, report *r, run_take_fn take, void *payload, ckpt_error *err);
/* Has the store a checkpoint of this run? */
int run_exists(bool *exists, ckpt_store *store, const char *run, ckpt_error *err);

#endif
