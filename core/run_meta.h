/* Meta of a run: what the meta of its checkpoints says beside the state, which holds nothing of clock, host and path.
 *
 *     run           name of the run, by which its checkpoints are found
 *     epoch         in which it is
 *     data          path of the data, where a resume looks for them
 *     host          on which the checkpoint was made
 *     seconds       that trainings of the run have used in all
 *     images_per_s  of this training so far; not before its first step
 *     reason        why it was made: see save_reason
 *     val_acc       at the end of an epoch: what `best` is chosen by
 *     test_acc      of the last checkpoint alone, by which a finished run is known */
#ifndef CORE_RUN_META_H
#define CORE_RUN_META_H

#include "real.h"

#include <ckpt/store.h>

#define RUN_META_RUN      "run"
#define RUN_META_REASON   "reason"
#define RUN_META_DATA     "data"
#define RUN_META_TEST_ACC "test_acc"

#define RUN_META_PAIRS     9
#define RUN_META_VALUE_MAX 1024 /* bytes of a text from outside: the other pairs fit beside it at their longest */

/* What is to be said. Texts are such as run_meta_is_plain accepts, and live as long as the meta. */
typedef struct run_facts {
    const char *run, *host, *reason;
    const char *data; /* NULL: it cannot be said */
    uint64_t epoch;
    double seconds, images_per_s, val_accuracy, test_accuracy; /* what is NaN is left out */
} run_facts;

/* Pairs as ckpt_save_options takes them, and the texts that they point into: it is not to be copied. */
typedef struct run_meta {
    ckpt_value pairs[RUN_META_PAIRS];
    size_t count;
    char epoch[24], numbers[4][REAL_TEXT_SIZE];
} run_meta;
void run_meta_fill(run_meta *m, const run_facts *facts);
/* Can the text be a value of a checkpoint's meta, which is short, UTF-8 and without control characters? */
bool run_meta_is_plain(const char *text);

/* Value of a key, or NULL. */
const char *run_meta_get(const ckpt_info *info, const char *key);
/* Is it a checkpoint of the run, or with NULL of any? People call their own checkpoints' meta `run` too; those give no
 * reason. */
bool run_meta_is_of(const ckpt_info *info, const char *run);
/* The newest checkpoint of the run (NULL: of any) in the list; NULL: none. */
const ckpt_info *run_meta_newest(const ckpt_list *list, const char *run);

#endif
