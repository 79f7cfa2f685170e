/* What the name of a checkpoint says of where the training stood. */
#ifndef RUN_NAME_STEP_H
#define RUN_NAME_STEP_H

#include <stdint.h>

#define NAME_STEP_NONE (-1)

/* Of the last component of a path, NAME_STEP_NONE for what it does not say:
 *
 *     checkpoint-500   step_001500.pt   global_step200   model-iter-30.ckpt    a step
 *     epoch_12.pt   epoch=3-step=500.ckpt   ep7.pth   model_epoch12.h5         an epoch; the second one both
 *     ckpt-12.pt   weights.05-0.43.h5   model_best.pt                          neither: a number alone may be either */
void name_step(int64_t *step, int64_t *epoch, const char *path);

#endif
