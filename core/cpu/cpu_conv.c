/* Convolution: oneDNN does all of it. */
#include "cpu_backend.h"

#include "fail.h"

static int conv_forward(op *o, const op_memory *m, ckpt_error *err)
{
    return convolution_forward(((cpu_op *)o)->convolution, m, err);
}

static int conv_backward(op *o, const op_memory *m, ckpt_error *err)
{
    return convolution_backward(((cpu_op *)o)->convolution, m, err);
}

int cpu_conv_make(cpu_op *o, const op_request *request, ckpt_error *err)
{
    int rc = 0;
    const layer *const l = &o->layer;
    const convolution_request wanted = {l, o->in.batch, o->in.block, request->training, request->wants_in_grad};
    const double products =
        (double)(l->in.channels * l->kernel_height * l->kernel_width) * (double)(o->in.batch * dims_count(&l->out));

    TRY(convolution_new(&o->convolution, o->backend->onednn, &wanted, err));
    o->base.out.block = convolution_out_block(o->convolution);
    o->base.reads_in = true;
    o->base.forward_scratch_bytes = convolution_forward_scratch_bytes(o->convolution);
    o->base.backward_scratch_bytes = convolution_backward_scratch_bytes(o->convolution);
    o->base.forward_flops = 2 * products;
    o->base.backward_flops = (request->wants_in_grad ? 4 : 2) * products;
    o->base.forward = conv_forward;
    o->base.backward = conv_backward;
out:
    if (rc)
        error_prefix(err, "%s", l->name);
    return rc;
}
