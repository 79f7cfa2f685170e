/* Max-pool, with a ReLU before it or without. Of equal numbers the first wins, and NaN wins over all. Which place of
 * its window won is kept for the way back, in a byte for each output; what the ReLU stopped shows in the output itself.
 */
#include "cpu_backend.h"

#include "fail.h"

#include <assert.h>

static pool_shape shape_of(const cpu_op *o)
{
    const layer *const l = &o->layer;
    return (pool_shape){l->in.height,     l->in.width,     l->out.height, l->out.width,
                        l->kernel_height, l->kernel_width, l->stride,     o->in.block};
}

static int maxpool_forward(op *base, const op_memory *m, ckpt_error *err)
{
    const cpu_op *const o = (const cpu_op *)base;
    pool_job job = {shape_of(o), cpu_op_floor(o), m->out, m->keep, m->in[0]};
    (void)err;

    cpu_run(o->backend, o->backend->passes->pool, &job, value_planes(&o->in), 1);
    return 0;
}

static int maxpool_backward(op *base, const op_memory *m, ckpt_error *err)
{
    const cpu_op *const o = (const cpu_op *)base;
    pool_grad_job job = {shape_of(o), m->in_grad[0], o->relu ? m->out : NULL, m->out_grad, m->keep};
    (void)err;

    if (m->in_grad[0])
        cpu_run(o->backend, o->backend->passes->pool_grad, &job, value_planes(&o->in), 1);
    return 0;
}

int cpu_maxpool_make(cpu_op *o, const op_request *request, ckpt_error *err)
{
    int rc = 0;
    const layer *const l = &o->layer;
    const double window = (double)(l->kernel_height * l->kernel_width);

    assert(l->padding == 0);
    TRY(op_check_window(l, err));
    o->base.out.block = o->in.block;
    o->base.reads_out = o->relu;
    o->base.keep_bytes = request->training ? value_bytes(&o->base.out) / sizeof(float) : 0;
    o->base.forward_flops = window * (double)(o->in.batch * dims_count(&l->out));
    o->base.backward_flops = (double)(o->in.batch * dims_count(&l->out));
    o->base.forward = maxpool_forward;
    o->base.backward = maxpool_backward;
out:
    return rc;
}
