/* State: all that a training is at one moment, and how it stands in a checkpoint.
 *
 * A checkpoint of a run is one safetensors file, RUN/state.safetensors, the same bytes for the same state whatever the
 * clock, the host or the path:
 *
 *     model.<param>                  f32 [as PyTorch has it]     model.conv1.weight
 *     optimizer.exp_avg.<param>      f32
 *     optimizer.exp_avg_sq.<param>   f32
 *     history.step                   i64 [rows]                  one row each `checkpoint.every` steps and each epoch
 *     history.loss                   f64 [rows]
 *     history.accuracy               f64 [rows]
 *     history.val_accuracy           f64 [rows]                  NaN but for the rows of epochs
 *
 * and in its metadata, floats as hexadecimal ("0x1.8p+1"):
 *
 *     ckpt.training    "1", the version of this list
 *     recipe           canonical text
 *     epoch step position        position: samples of the epoch that are done
 *     loss_sum correct seen      since the line before
 *     epoch_loss_sum epoch_correct
 *     best_val_accuracy          or "none"
 *     data_digest
 *     environment.threads .isa .library .cpu .version       what the bits depend on
 *
 * Times, rates, host, path of the data and consumed seconds are in the snapshot's meta (run, data, val_acc, ...) and in
 * the run's log only. */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include "environment.h"
#include "history.h"
#include "net.h"
#include "recipe.h"

#include "hash.h"

#include <ckpt/store.h>

#define STATE_VERSION   "1"
#define STATE_FILE_NAME "state.safetensors"

typedef struct state {
    recipe_values recipe;
    environment environment;
    char data_digest[SHA256_HEX_SIZE];
    uint64_t epoch, step, position;
    double loss_sum;
    uint64_t correct, seen;
    double epoch_loss_sum;
    uint64_t epoch_correct;
    bool has_best;
    double best_val_accuracy;
    history history; /* allocated once, with room for HISTORY_ROWS_MAX rows or as many as the recipe needs */

    /* net.weight_count numbers each, in the backend's memory; owned by the trainer */
    float *weights, *exp_avg, *exp_avg_sq;
} state;

/* The vectors that training changes; each has a tensor for each parameter. */
typedef enum state_vector { STATE_WEIGHTS, STATE_EXP_AVG, STATE_EXP_AVG_SQ, STATE_VECTORS } state_vector;
float *state_vector_get(const state *s, state_vector v);

/* Tensors and values of a checkpoint: pointers into `s` and `n`, and texts. Made once; state_view_update brings the
 * texts and the history up to date without allocating. */
typedef struct state_view state_view;
int state_view_new(state_view **out, const state *s, const net *n, ckpt_error *err);
void state_view_update(state_view *v);
const ckpt_tensor *state_view_tensors(size_t *count, const state_view *v);
const ckpt_value *state_view_values(size_t *count, const state_view *v);
void state_view_free(state_view *v); /* NULL is fine */

/* What stands before the tensors: everything but weights and optimizer. `file` is the state's file in `content`, of
 * which state_find tells the first (CKPT_EUSAGE: none is a training state). CKPT_EDATA for a value that is missing or
 * makes no sense, naming it; CKPT_EVERSION for a newer version. */
int state_find(size_t *file, const ckpt_content *content, ckpt_error *err);
int state_read_values(state *s, ckpt_content *content, size_t file, ckpt_error *err);
/* Are the weights there, in the shapes that the net gives them? To be asked before memory is made for what a recipe
 * only says. CKPT_EDATA as below. */
int state_check_tensors(const ckpt_content *content, size_t file, const net *n, ckpt_error *err);
/* Then weights, and the optimizer's vectors where they are not NULL, into host memory. CKPT_EDATA names a tensor that
 * is missing or of another shape. */
int state_read_tensors(float *weights, float *exp_avg, float *exp_avg_sq, ckpt_content *content, size_t file,
                       const net *n, ckpt_error *err);
void state_clear(state *s); /* frees the history */

#endif
