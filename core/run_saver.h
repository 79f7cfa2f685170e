/* Saver of a run: its checkpoints, through the background writer; pruning; what failed. */
#ifndef CORE_RUN_SAVER_H
#define CORE_RUN_SAVER_H

#include "report.h"
#include "run_meta.h"

typedef struct run_saver run_saver;

/* `store_path` is the .ckpt folder. Saves are of `s` as it stands at the call. `data_path` goes into the meta. */
int run_saver_open(run_saver **out, const char *store_path, const state *s, const net *n, backend *b,
                   const char *data_path, report *r, ckpt_error *err);
typedef enum save_reason {
    SAVE_RHYTHM,
    SAVE_EPOCH,
    SAVE_BEST,
    SAVE_ANEW, /* the first step of a run of which there are older checkpoints */
    SAVE_STOPPED,
    SAVE_FINAL
} save_reason;
/* Copies the state and returns; meta: run, epoch, data, host, seconds, images_per_s, reason, and val_acc for SAVE_EPOCH
 * and SAVE_BEST, test_acc for SAVE_FINAL. A save that failed since the last call is told as a warning, once for each
 * cause until one succeeds again, which is told too. SAVE_ANEW, SAVE_STOPPED and SAVE_FINAL wait until all is on disk
 * and return its error. */
int run_saver_save(run_saver *v, save_reason reason, double val_accuracy, double test_accuracy, ckpt_error *err);
void run_saver_result(ckpt_training_result *out, run_saver *v);
/* Waits, and tells what failed meanwhile; returns the error of a save that nobody has waited for. NULL is fine. */
int run_saver_close(run_saver *v, ckpt_error *err);

#endif
