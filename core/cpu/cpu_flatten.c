/* Flatten, with a ReLU before it or without: the change from blocks of channels to PyTorch's order of features. */
#include "cpu_backend.h"

static flatten_shape shape_of(const cpu_op *o)
{
    const dims *const in = &o->in.shape;
    return (flatten_shape){in->channels, in->height * in->width, o->in.block};
}

static int flatten_forward(op *base, const op_memory *m, ckpt_error *err)
{
    const cpu_op *const o = (const cpu_op *)base;
    flatten_job job = {shape_of(o), cpu_op_floor(o), m->out, m->in[0]};
    (void)err;

    cpu_run(o->backend, o->backend->passes->flatten, &job, value_planes(&o->in), 1);
    return 0;
}

static int flatten_backward(op *base, const op_memory *m, ckpt_error *err)
{
    const cpu_op *const o = (const cpu_op *)base;
    flatten_grad_job job = {shape_of(o), m->in_grad[0], o->relu ? m->out : NULL, m->out_grad};
    (void)err;

    if (m->in_grad[0])
        cpu_run(o->backend, o->backend->passes->flatten_grad, &job, value_planes(&o->in), 1);
    return 0;
}

int cpu_flatten_make(cpu_op *o, const op_request *request, ckpt_error *err)
{
    (void)request;
    (void)err;
    o->base.reads_out = o->relu;
    if (o->relu)
        o->base.forward_flops = o->base.backward_flops = (double)(o->in.batch * dims_count(&o->in.shape));
    o->base.forward = flatten_forward;
    o->base.backward = flatten_backward;
    return 0;
}
