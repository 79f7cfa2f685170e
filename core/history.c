#include "history.h"

#include "fail.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Gives a column another length; what is there stays. */
static int column_resize(void *column, size_t rows, ckpt_error *err)
{
    void *old, *grown;

    memcpy(&old, column, sizeof old); /* a pointer to any type */
    grown = realloc(old, rows * sizeof(int64_t));
    if (!grown)
        return error_memory(err);
    memcpy(column, &grown, sizeof grown);
    return 0;
}

_Static_assert(sizeof(double) == sizeof(int64_t), "rows of all columns are of one size");

int history_reserve(history *h, size_t rows, ckpt_error *err)
{
    int rc = 0;

    rows = rows < HISTORY_ROWS_MAX ? rows : HISTORY_ROWS_MAX;
    if (rows <= h->capacity)
        goto out;
    TRY(column_resize(&h->step, rows, err));
    TRY(column_resize(&h->loss, rows, err));
    TRY(column_resize(&h->accuracy, rows, err));
    TRY(column_resize(&h->val_accuracy, rows, err));
    h->capacity = rows;
out:
    return rc;
}

static void drop_oldest(history *h)
{
    const size_t bytes = --h->count * sizeof(int64_t);

    memmove(h->step, h->step + 1, bytes);
    memmove(h->loss, h->loss + 1, bytes);
    memmove(h->accuracy, h->accuracy + 1, bytes);
    memmove(h->val_accuracy, h->val_accuracy + 1, bytes);
}

void history_add(history *h, int64_t step, double loss, double accuracy, double val_accuracy)
{
    /* Which rows are dropped must not depend on how much was reserved: it would show in the checkpoint. */
    assert(h->count < h->capacity || h->capacity == HISTORY_ROWS_MAX);
    if (h->count == h->capacity)
        drop_oldest(h);
    h->step[h->count] = step;
    h->loss[h->count] = loss;
    h->accuracy[h->count] = accuracy;
    h->val_accuracy[h->count] = val_accuracy;
    h->count++;
}

void history_clear(history *h)
{
    free(h->step);
    free(h->loss);
    free(h->accuracy);
    free(h->val_accuracy);
    *h = (history){0};
}
