/* The backend `cpu`: oneDNN for convolutions and matrix products, our own passes for all else, both on the same threads
 * of OpenMP.
 *
 *     conv                          oneDNN; a pass for the gradient of small filters where oneDNN is slow at it
 *     relu, maxpool, flatten        one pass each; relu goes along with a maxpool or flatten behind it, so that a value
 *                                   is read and written once
 *     dense                         a matrix product and one pass for the bias, with which a relu behind it goes along
 *
 * What results depend on: oneDNN's on the number of threads and the instruction set, those of passes on neither. */
#ifndef CORE_CPU_BACKEND_H
#define CORE_CPU_BACKEND_H

#include "backend.h"
#include "convolution.h"
#include "passes.h"

#define CPU_LOSS_ROWS ((size_t)1024) /* whose losses wait to be added in order */

typedef struct cpu_backend {
    backend base; /* first, so that a backend * is a cpu_backend * too */
    onednn *onednn;
    const pass_table *passes;
    double row_loss[CPU_LOSS_ROWS];
    bool row_correct[CPU_LOSS_ROWS];
} cpu_backend;

/* All operations begin with it. */
typedef struct cpu_op {
    op base;
    cpu_backend *backend;
    value in;
    bool relu;                /* a ReLU is done too */
    convolution *convolution; /* of a conv, else NULL */
    bool small_filter;        /* its parameters' gradient is a pass of ours */
    layer layer;              /* that is not the relu, unless there is no other */
} cpu_op;

/* Each fills in what `base` says beside name, layer_count, out.shape, bytes and free. */
int cpu_conv_make(cpu_op *o, const op_request *request, ckpt_error *err);
int cpu_dense_make(cpu_op *o, const op_request *request, ckpt_error *err);
int cpu_flatten_make(cpu_op *o, const op_request *request, ckpt_error *err);
int cpu_maxpool_make(cpu_op *o, const op_request *request, ckpt_error *err);
int cpu_relu_make(cpu_op *o, const op_request *request, ckpt_error *err);

/* Members of the backend. */
int cpu_op_new(op **out, backend *b, const op_request *request, ckpt_error *err);
int cpu_loss(loss_result *out, backend *b, const loss_memory *m, ckpt_error *err);

/* The floor of passes.h. */
float cpu_op_floor(const cpu_op *o);
/* All units of a pass. */
void cpu_run(const cpu_backend *b, team_fn pass, void *job, size_t units, size_t grain);

#endif
