/* Reference: the backend of plain loops, the truth that others are tested against.
 *
 * Values always have block 1. Every sum is made in double, in the order in which the loops stand, and rounded once to
 * float; so the results depend on nothing but the numbers that come in and the exp, log and pow of the C library. Where
 * PyTorch says what happens to NaN, equal maxima and windows beyond the edge, the same happens here. */
#ifndef CORE_REFERENCE_BACKEND_H
#define CORE_REFERENCE_BACKEND_H

#include "backend.h"

/* An operation is one layer. */
typedef struct reference_op {
    op base; /* first, so that an op * is a reference_op * too */
    layer layer;
    value in;
} reference_op;

/* One for each kind of layer: fills in what `base` says of the operation beside name, layer_count, out, bytes and free.
 * CKPT_EUSAGE for a layer that cannot be done. */
int reference_conv_make(reference_op *r, const op_request *request, ckpt_error *err);
int reference_dense_make(reference_op *r, const op_request *request, ckpt_error *err);
int reference_flatten_make(reference_op *r, const op_request *request, ckpt_error *err);
int reference_maxpool_make(reference_op *r, const op_request *request, ckpt_error *err);
int reference_relu_make(reference_op *r, const op_request *request, ckpt_error *err);

/* Members of the backend. */
int reference_loss(loss_result *out, backend *b, const loss_memory *m, ckpt_error *err);
int reference_adam(bool *finite, backend *b, const adam_memory *m, const adam_factors *factors, ckpt_error *err);

#endif
