/* Dense layer:
 *
 *     out[n][o] = bias[o] + sum over i of in[n][i] * weight[o][i]
 *
 * Both gradients with many sums are made row by row, with a row of sums in the scratch memory, so that memory is read
 * in the order in which it lies; each sum still adds its terms in rising order. */
#include "reference_backend.h"

static int dense_forward(op *o, const op_memory *m, ckpt_error *err)
{
    const reference_op *const r = (const reference_op *)o;
    const size_t features = dims_count(&r->layer.in);
    const float *in = m->in[0]; /* [n][in features] */
    float *out = m->out;        /* [n][out features] */
    (void)err;

    for (size_t n = 0; n < r->in.batch; n++, in += features)
        for (size_t k = 0; k < r->layer.out.channels; k++) {
            const float *const weights = m->params[0] + k * features; /* [in features] */
            double sum = (double)m->params[1][k];
            for (size_t i = 0; i < features; i++)
                sum += (double)in[i] * (double)weights[i];
            *out++ = (float)sum;
        }
    return 0;
}

/* out[i] = sum over j of factors[j * factor_step] * rows[j][i] */
static void dense_sum_rows(float *out, double *sums, size_t width, const float *rows, const float *factors,
                           size_t factor_step, size_t count)
{
    for (size_t i = 0; i < width; i++)
        sums[i] = 0;
    for (size_t j = 0; j < count; j++)
        for (size_t i = 0; i < width; i++)
            sums[i] += (double)factors[j * factor_step] * (double)rows[j * width + i];
    for (size_t i = 0; i < width; i++)
        out[i] = (float)sums[i];
}

static int dense_backward(op *o, const op_memory *m, ckpt_error *err)
{
    const reference_op *const r = (const reference_op *)o;
    const size_t batch = r->in.batch, in_features = dims_count(&r->layer.in), out_features = r->layer.out.channels;
    const float *const out_grad = m->out_grad; /* [n][out features] */
    float *const in_grad = m->in_grad[0];      /* [n][in features] */
    (void)err;

    for (size_t k = 0; k < out_features; k++) {
        double sum = 0;
        for (size_t n = 0; n < batch; n++)
            sum += (double)out_grad[n * out_features + k];
        m->param_grads[1][k] = (float)sum;
        dense_sum_rows(m->param_grads[0] + k * in_features, m->scratch, in_features, m->in[0], out_grad + k,
                       out_features, batch);
    }
    for (size_t n = 0; in_grad && n < batch; n++)
        dense_sum_rows(in_grad + n * in_features, m->scratch, in_features, m->params[0], out_grad + n * out_features, 1,
                       out_features);
    return 0;
}

int reference_dense_make(reference_op *r, const op_request *request, ckpt_error *err)
{
    const size_t features = dims_count(&r->layer.in);
    (void)err;

    r->base.reads_in = true;
    r->base.backward_scratch_bytes = features * sizeof(double);
    r->base.forward_flops = 2 * (double)features * (double)(r->in.batch * r->layer.out.channels);
    r->base.backward_flops = r->base.forward_flops * (request->wants_in_grad[0] ? 2 : 1);
    r->base.forward = dense_forward;
    r->base.backward = dense_backward;
    return 0;
}
