/* Convolution: oneDNN does it, but for the gradient of small filters on machines for which it has no code of its own
 * (AVX2 with one input channel, as images in grey have). */
#include "cpu_backend.h"

#include "fail.h"

static int conv_forward(op *o, const op_memory *m, ckpt_error *err)
{
    return convolution_forward(((cpu_op *)o)->convolution, m, err);
}

static filter_shape shape_of(const cpu_op *o)
{
    const layer *const l = &o->layer;
    return (filter_shape){.batch = o->in.batch,
                          .in_channels = l->in.channels,
                          .in_height = l->in.height,
                          .in_width = l->in.width,
                          .out_channels = l->out.channels,
                          .out_height = l->out.height,
                          .out_width = l->out.width,
                          .block = o->base.out.block,
                          .kernel_height = l->kernel_height,
                          .kernel_width = l->kernel_width,
                          .stride = l->stride,
                          .padding = l->padding};
}

static void small_filter_grad(const cpu_op *o, const op_memory *m)
{
    filter_grad_job job = {shape_of(o), m->scratch, m->in[0], m->out_grad};

    cpu_run(o->backend, o->backend->passes->filter_grad, &job, pass_filter_units(&job.shape), 1);
    pass_filter_sum(m->param_grads[0], m->param_grads[1], &job);
}

static int conv_backward(op *base, const op_memory *m, ckpt_error *err)
{
    int rc = 0;
    const cpu_op *const o = (const cpu_op *)base;

    if (o->small_filter)
        small_filter_grad(o, m);
    else
        TRY(convolution_param_grad(o->convolution, m, err));
    if (m->in_grad[0])
        TRY(convolution_in_grad(o->convolution, m, err));
out:
    return rc;
}

static bool filter_is_small(const cpu_op *o)
{
    const filter_shape s = shape_of(o);
    const bool vectors = s.block == 8 || s.block == 16;

    return vectors && o->in.block == 1 && pass_filter_taps(&s) <= PASS_FILTER_TAPS_MAX &&
           convolution_param_grad_is_slow(o->convolution);
}

static void conv_scratch_set(cpu_op *o)
{
    const filter_shape s = shape_of(o);
    const size_t in_grad = convolution_in_grad_scratch_bytes(o->convolution);
    const size_t param_grad =
        o->small_filter ? pass_filter_sums_bytes(&s) : convolution_param_grad_scratch_bytes(o->convolution);

    o->base.forward_scratch_bytes = convolution_forward_scratch_bytes(o->convolution);
    o->base.backward_scratch_bytes = in_grad > param_grad ? in_grad : param_grad;
}

int cpu_conv_make(cpu_op *o, const op_request *request, ckpt_error *err)
{
    int rc = 0;
    const layer *const l = &o->layer;
    const convolution_request wanted = {l, o->in.batch, o->in.block, request->training, request->wants_in_grad[0]};
    const double products =
        (double)(l->in.channels * l->kernel_height * l->kernel_width) * (double)(o->in.batch * dims_count(&l->out));

    TRY(convolution_new(&o->convolution, o->backend->onednn, &wanted, err));
    o->base.out.block = convolution_out_block(o->convolution);
    o->small_filter = request->training && filter_is_small(o);
    conv_scratch_set(o);
    o->base.reads_in = true;
    o->base.forward_flops = 2 * products;
    o->base.backward_flops = (request->wants_in_grad[0] ? 4 : 2) * products;
    o->base.forward = conv_forward;
    o->base.backward = conv_backward;
out:
    if (rc)
        error_prefix(err, "%s", l->name);
    return rc;
}
