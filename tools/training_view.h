/* Training view: what a training tells while it runs, as aligned lines of 80 columns with a bar between them, or with
 * --json as one object a line.
 *
 *       EPOCH           STEP      LOSS  ACCURACY  IMAGES/S      LEFT  VALIDATION
 *        1/10        50/1060    0.9421   66.90 %      3412    2m 32s
 *        1/10       106/1060    0.5120   81.33 %      3398    2m 25s  85.12 %, best */
#ifndef TOOLS_TRAINING_VIEW_H
#define TOOLS_TRAINING_VIEW_H

#include "session.h"

#include <ckpt/train.h>

#define TRAINING_LABEL_SIZE 64

typedef enum training_phase { PHASE_NONE, PHASE_STEPS, PHASE_EVALUATION } training_phase;

typedef struct training_view {
    session *s;
    bool header_printed;
    training_phase phase; /* what the bar is of */
    char label[TRAINING_LABEL_SIZE];
} training_view;

void training_view_init(training_view *v, session *s);

/* The callback of a training or a model; `payload` is the view. Non-zero once a signal has come. */
int training_view_event(void *payload, const ckpt_training_event *event);

#endif
