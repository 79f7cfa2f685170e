/* History: how a training went, a row for each line and each epoch. It is part of the state, and so holds nothing that
 * depends on the clock. */
#ifndef CORE_HISTORY_H
#define CORE_HISTORY_H

#include <ckpt/error.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_ROWS_MAX 65536u /* the oldest are dropped beyond */

typedef struct history {
    int64_t *step;                          /* [count] */
    double *loss, *accuracy, *val_accuracy; /* [count]; val_accuracy is NaN but for the rows of epochs */
    size_t count, capacity;
} history;

/* Room for so many rows, or HISTORY_ROWS_MAX if that is less; what is there stays. CKPT_ENOMEM. */
int history_reserve(history *h, size_t rows, ckpt_error *err);
/* There is room, or HISTORY_ROWS_MAX rows are reserved, and the oldest goes when all are used. */
void history_add(history *h, int64_t step, double loss, double accuracy, double val_accuracy);
void history_clear(history *h);

#endif
