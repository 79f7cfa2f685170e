/* ReLU: out = max(in, 0). As in PyTorch NaN stays NaN, -0 stays -0, and the gradient at 0 is 0. Comparisons are written
 * so that NaN fails them. */
#include "reference_backend.h"

static int relu_forward(op *o, const op_memory *m, ckpt_error *err)
{
    const size_t count = o->out.batch * dims_count(&o->out.shape);
    const float *const in = m->in[0];
    float *const out = m->out;
    (void)err;

    for (size_t i = 0; i < count; i++)
        out[i] = in[i] < 0 ? 0 : in[i];
    return 0;
}

static int relu_backward(op *o, const op_memory *m, ckpt_error *err)
{
    const size_t count = o->out.batch * dims_count(&o->out.shape);
    const float *const out = m->out, *const out_grad = m->out_grad;
    float *const in_grad = m->in_grad[0];
    (void)err;

    for (size_t i = 0; in_grad && i < count; i++)
        in_grad[i] = out[i] <= 0 ? 0 : out_grad[i];
    return 0;
}

int reference_relu_make(reference_op *r, const op_request *request, ckpt_error *err)
{
    (void)request;
    (void)err;
    r->base.reads_out = true;
    r->base.forward_flops = r->base.backward_flops = (double)(r->in.batch * dims_count(&r->layer.out));
    r->base.forward = relu_forward;
    r->base.backward = relu_backward;
    return 0;
}
