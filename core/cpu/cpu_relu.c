/* ReLU by itself: where neither a max-pool nor a flatten follows, nor a dense layer goes before. */
#include "cpu_backend.h"

static int relu_forward(op *base, const op_memory *m, ckpt_error *err)
{
    const cpu_op *const o = (const cpu_op *)base;
    relu_job job = {m->out, m->in[0]};
    (void)err;

    cpu_run(o->backend, o->backend->passes->relu, &job, value_bytes(&o->in) / sizeof(float), PASS_VECTOR_UNIT);
    return 0;
}

static int relu_backward(op *base, const op_memory *m, ckpt_error *err)
{
    const cpu_op *const o = (const cpu_op *)base;
    relu_grad_job job = {m->in_grad[0], m->out, m->out_grad};
    (void)err;

    if (m->in_grad[0])
        cpu_run(o->backend, o->backend->passes->relu_grad, &job, value_bytes(&o->in) / sizeof(float), PASS_VECTOR_UNIT);
    return 0;
}

int cpu_relu_make(cpu_op *o, const op_request *request, ckpt_error *err)
{
    (void)request;
    (void)err;
    o->base.out.block = o->in.block;
    o->base.reads_out = true;
    o->base.forward_flops = o->base.backward_flops = (double)(o->in.batch * dims_count(&o->in.shape));
    o->base.forward = relu_forward;
    o->base.backward = relu_backward;
    return 0;
}
