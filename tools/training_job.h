/* Training job: what `train` and `resume` have in common: the plugin, a recipe with what the options change, the store,
 * and running until the end or a signal. */
#ifndef TOOLS_TRAINING_JOB_H
#define TOOLS_TRAINING_JOB_H

#include "plugin.h"
#include "session.h"
#include "training_view.h"

#define TRAINING_NAME_SIZE 64 /* of the name of a run */

typedef struct training_job {
    session *s;
    plugin plugin;
    training_view view;
    ckpt_training_options options;
    ckpt_recipe *recipe;           /* NULL: that of the checkpoint */
    char name[TRAINING_NAME_SIZE]; /* of the run, as the recipe has it */
    ckpt_training *training;
} training_job;

int training_job_open(training_job *job, session *s, ckpt_error *err);
void training_job_close(training_job *job); /* a zeroed one is fine */

/* Opens the recipe `name` and changes it as --set and the options say that stand for keys. */
int training_job_recipe(training_job *job, const char *name, ckpt_error *err);
/* Applies --set and those options once more, to a recipe that was opened otherwise, and learns its name. */
int training_job_change(training_job *job, ckpt_error *err);

/* CKPT_EUSAGE without --data. */
int training_job_check_data(const training_job *job, ckpt_error *err);
/* Opens the store; where none is found and none was named, one is made in the current folder, and a note says so. */
int training_job_store(training_job *job, ckpt_error *err);
/* Has the store a checkpoint of the run `name` (NULL: of any)? */
int training_job_has_run(bool *has, training_job *job, const char *name, ckpt_error *err);

/* Begins the run of the recipe at epoch 0. */
int training_job_new(training_job *job, ckpt_error *err);

/* Trains, and prints the summary. A signal ends it with the state saved: SIGTERM with CKPT_EWINDOW, SIGINT with
 * CKPT_EINTERRUPTED. */
int training_job_run(training_job *job, ckpt_error *err);

#endif
