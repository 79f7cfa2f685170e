/* Dense layer, with a ReLU behind it or without:
 *
 *     out     = max(in weight^T + bias, 0)
 *     g       = out_grad where out > 0, else 0
 *     in_grad = g weight        weight_grad = g^T in        bias_grad = sum of the rows of g
 *
 * Weights stay in PyTorch's order, which the matrix product takes as it is. */
#include "cpu_backend.h"

#include "fail.h"

static int dense_forward(op *base, const op_memory *m, ckpt_error *err)
{
    int rc = 0;
    cpu_op *const o = (cpu_op *)base;
    const size_t rows = o->in.batch, features = dims_count(&o->layer.in), columns = o->layer.out.channels;
    bias_job job = {m->out, m->params[1], columns, cpu_op_floor(o)};
    const matrix_product p = {.c = m->out,       /* [rows][columns] */
                              .a = m->in[0],     /* [rows][features] */
                              .b = m->params[0], /* [columns][features] */
                              .b_transposed = true,
                              .rows = rows,
                              .columns = columns,
                              .inner = features};

    TRY(onednn_multiply(o->backend->onednn, &p, err));
    cpu_run(o->backend, o->backend->passes->bias, &job, rows, PASS_VECTOR_UNIT / columns + 1);
out:
    return rc;
}

static int dense_backward(op *base, const op_memory *m, ckpt_error *err)
{
    int rc = 0;
    cpu_op *const o = (cpu_op *)base;
    const size_t rows = o->in.batch, features = dims_count(&o->layer.in), columns = o->layer.out.channels;
    const float *const grad = o->relu ? m->scratch : m->out_grad; /* [rows][columns] */
    bias_grad_job job = {.bias_grad = m->param_grads[1],
                         .masked = o->relu ? m->scratch : NULL,
                         .out = m->out,
                         .out_grad = m->out_grad,
                         .rows = rows,
                         .columns = columns};
    const matrix_product weight_grad = {.c = m->param_grads[0], /* [columns][features] */
                                        .a = grad,
                                        .a_transposed = true,
                                        .b = m->in[0],
                                        .rows = columns,
                                        .columns = features,
                                        .inner = rows};
    const matrix_product in_grad = {.c = m->in_grad[0], /* [rows][features] */
                                    .a = grad,
                                    .b = m->params[0],
                                    .rows = rows,
                                    .columns = features,
                                    .inner = columns};

    cpu_run(o->backend, o->backend->passes->bias_grad, &job, (columns + PASS_LINE - 1) / PASS_LINE, 1);
    TRY(onednn_multiply(o->backend->onednn, &weight_grad, err));
    if (m->in_grad[0])
        TRY(onednn_multiply(o->backend->onednn, &in_grad, err));
out:
    return rc;
}

int cpu_dense_make(cpu_op *o, const op_request *request, ckpt_error *err)
{
    const layer *const l = &o->layer;
    const double products = (double)o->in.batch * (double)dims_count(&l->in) * (double)l->out.channels;
    (void)err;

    o->base.reads_in = true;
    o->base.reads_out = o->relu;
    o->base.backward_scratch_bytes = o->relu ? value_bytes(&o->base.out) : 0;
    o->base.forward_flops = 2 * products;
    o->base.backward_flops = (request->wants_in_grad[0] ? 4 : 2) * products;
    o->base.forward = dense_forward;
    o->base.backward = dense_backward;
    return 0;
}
