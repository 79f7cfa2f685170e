/* Training: what stands behind a ckpt_training, for train.c, train_run.c and train_profile.c. */
#ifndef CORE_TRAINING_H
#define CORE_TRAINING_H

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
