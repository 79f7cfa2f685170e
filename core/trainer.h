/* Trainer: memory, plans and data of a training, and one step of it. When it saves and what it tells is the matter of
 * others: see training.h. */
#ifndef CORE_TRAINER_H
#define CORE_TRAINER_H

#include "evaluator.h"
#include "report.h"
#include "state.h"

typedef struct trainer {
    backend *backend;
    net *net;
    dataset *data;
    state state;
    split split;
    uint32_t *order; /* of this epoch */
    uint64_t order_epoch;
    plan *full, *rest; /* NULL: no batch of that size */
    evaluator evaluator;
    void *arena;
    size_t arena_bytes;
    float *grads;
    uint8_t *batch_labels;
    double gather_seconds, adam_seconds, save_seconds, validation_seconds;
    uint64_t gather_calls, gather_samples, adam_calls, save_calls, validation_calls;
} trainer;

/* Makes everything that a training of `values` needs, with first weights; the backend stays the caller's. The data are
 * taken over, also on failure. CKPT_EUSAGE when recipe and data do not fit together. */
int trainer_open(trainer *t, const recipe_values *values, backend *b, dataset *data, bool profile, ckpt_error *err);
/* Takes over what was read from a checkpoint but for recipe and environment, and `recorded`'s history with it, and
 * reads the tensors. CKPT_EDATA when it cannot be the state of such a training. */
int trainer_restore(trainer *t, state *recorded, ckpt_content *content, size_t file, ckpt_error *err);
/* One step: the next batch of the epoch; the state moves on. CKPT_EDIFFER names the first bad tensor: when the loss is
 * bad, the state is as before the step; when the update went wrong, the weights are bad. */
int trainer_step(trainer *t, ckpt_error *err);
size_t trainer_epoch_samples(const trainer *t); /* that an epoch trains with: drop_last taken into account */
uint64_t trainer_steps_total(const trainer *t); /* as the recipe has it */
bool trainer_epoch_is_over(const trainer *t);   /* all its samples are done: it is to be validated */
uint64_t trainer_memory_bytes(const trainer *t);
/* CKPT_EINTERRUPTED when the callback of `tell` asked for it. */
int trainer_evaluate(ckpt_evaluation *out, trainer *t, ckpt_samples which, report *tell, ckpt_error *err);
void trainer_close(trainer *t);

#endif
