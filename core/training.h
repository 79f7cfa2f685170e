/* Training: what stands behind a ckpt_training, and who does what.
 *
 *   train.c          the public functions new, resume and free; what they refuse
 *   train_run.c      the loop over steps and epochs, and when it saves
 *   train_profile.c  where the time went
 *   trainer.c        memory and plans of a training; one step
 *   split.c          which samples are trained with, validated on, tested on
 *   evaluator.c      loss, accuracy and probabilities of samples
 *   state*.c         what a checkpoint holds; history.c and environment.c are parts of it
 *   run_saver.c      checkpoints of a run, through the background writer; pruning; what failed
 *   run_meta.c       what the meta of such a checkpoint says
 *   run_finder.c     which checkpoint of a run to go on from
 *   report.c         rates, time left, events to the caller and to the run's log
 *   model.c          networks of checkpoints, for evaluation and prediction
 *
 * The rhythm. A checkpoint is made when step % every == 0, at the end of each epoch (after its validation, so that it
 * can be `best`), at the very end (importance KEEP, tag NAME-final), and when the caller stops it (KEEP). A state whose
 * position is the end of its epoch has not been validated yet: who resumes it validates first. So a checkpoint that
 * falls on the end of an epoch by its step is made once, after the validation. */
#ifndef CORE_TRAINING_H
#define CORE_TRAINING_H

#include "run_finder.h"
#include "run_meta.h"
#include "run_saver.h"
#include "trainer.h"

#define TRAINING_TEXT_SIZE 512

struct ckpt_training {
    char *store_path; /* the .ckpt folder */
    char *data_path;  /* absolute */
    backend *backend;
    trainer trainer;
    report report;
    runlog *log;
    run_saver *saver;                 /* NULL when the run is finished */
    char started[TRAINING_TEXT_SIZE]; /* for the event STARTED */
    bool anew;                        /* older checkpoints of this run are to be left behind */
    bool finished;                    /* the checkpoint that it was resumed from is the last one */
    bool ran;
    double test_accuracy; /* NaN: not known */
};

/* Nothing is left to be trained. */
bool training_is_done(const ckpt_training *g);

#endif
