/* Convolution (in truth cross-correlation, as everywhere in the field):
 *
 *     out[n][o][y][x] = bias[o] + sum over c, i, j of in[n][c][y s + i - p][x s + j - p] * weight[o][c][i][j]
 *
 * with stride s and padding p, what lies beyond the edge being 0. The gradients are its derivatives, term by term. */
#include "reference_backend.h"

#include "reference_axis.h"

/* One number of the output. */
static float conv_point(const layer *l, const float *image /* [in channels][height][width] */,
                        const float *filter /* [in channels][kernel height][kernel width] */, float bias, size_t y,
                        size_t x)
{
    const axis rows = axis_of_rows(l), columns = axis_of_columns(l);
    const span is = axis_places(&rows, y), js = axis_places(&columns, x);
    double sum = (double)bias;

    for (size_t c = 0; c < l->in.channels; c++)
        for (size_t i = is.first; i < is.end; i++) {
            const float *const pixels = image + (c * rows.in + y * rows.stride + i - rows.padding) * columns.in;
            const float *const weights = filter + (c * rows.kernel + i) * columns.kernel;
            for (size_t j = js.first; j < js.end; j++)
                sum += (double)pixels[x * columns.stride + j - columns.padding] * (double)weights[j];
        }
    return (float)sum;
}

static int conv_forward(op *o, const op_memory *m, ckpt_error *err)
{
    const reference_op *const r = (const reference_op *)o;
    const layer *const l = &r->layer;
    const size_t filter_count = l->in.channels * l->kernel_height * l->kernel_width;
    const float *image = m->in[0]; /* [n][in channels][in height][in width] */
    float *out = m->out;           /* [n][out channels][out height][out width] */
    (void)err;

    for (size_t n = 0; n < r->in.batch; n++, image += dims_count(&l->in))
        for (size_t k = 0; k < l->out.channels; k++)
            for (size_t y = 0; y < l->out.height; y++)
                for (size_t x = 0; x < l->out.width; x++)
                    *out++ = conv_point(l, image, m->params[0] + k * filter_count, m->params[1][k], y, x);
    return 0;
}

static void conv_bias_grad(float *bias_grad /* [out channels] */, const reference_op *r, const float *out_grad)
{
    const size_t channels = r->layer.out.channels, plane = r->layer.out.height * r->layer.out.width;

    for (size_t k = 0; k < channels; k++) {
        double sum = 0;
        for (size_t n = 0; n < r->in.batch; n++)
            for (size_t i = 0; i < plane; i++)
                sum += (double)out_grad[(n * channels + k) * plane + i];
        bias_grad[k] = (float)sum;
    }
}

/* What one image adds to the gradient of the weight at place (i, j) of the filter between two of its channels. */
static double conv_weight_sum(const layer *l, const float *in /* [in height][in width] */,
                              const float *out_grad /* [out height][out width] */, size_t i, size_t j)
{
    const axis rows = axis_of_rows(l), columns = axis_of_columns(l);
    const span ys = axis_outputs_of_place(&rows, i), xs = axis_outputs_of_place(&columns, j);
    double sum = 0;

    for (size_t y = ys.first; y < ys.end; y++) {
        const float *const pixels = in + (y * rows.stride + i - rows.padding) * columns.in;
        for (size_t x = xs.first; x < xs.end; x++)
            sum += (double)out_grad[y * columns.out + x] * (double)pixels[x * columns.stride + j - columns.padding];
    }
    return sum;
}

static void conv_weight_grad(float *weight_grad /* [out channels][in channels][kernel height][kernel width] */,
                             const reference_op *r, const float *in, const float *out_grad)
{
    const layer *const l = &r->layer;
    const size_t in_plane = l->in.height * l->in.width, out_plane = l->out.height * l->out.width;

    for (size_t k = 0; k < l->out.channels; k++)
        for (size_t c = 0; c < l->in.channels; c++)
            for (size_t i = 0; i < l->kernel_height; i++)
                for (size_t j = 0; j < l->kernel_width; j++) {
                    double sum = 0;
                    for (size_t n = 0; n < r->in.batch; n++)
                        sum += conv_weight_sum(l, in + (n * l->in.channels + c) * in_plane,
                                               out_grad + (n * l->out.channels + k) * out_plane, i, j);
                    *weight_grad++ = (float)sum;
                }
}

/* One number of the input's gradient, of channel c of one image. */
static float conv_in_grad_point(const layer *l, const float *out_grad /* [out channels][out height][out width] */,
                                const float *weights, size_t c, size_t y_in, size_t x_in)
{
    const axis rows = axis_of_rows(l), columns = axis_of_columns(l);
    const span ys = axis_outputs_of_input(&rows, y_in), xs = axis_outputs_of_input(&columns, x_in);
    double sum = 0;

    for (size_t k = 0; k < l->out.channels; k++)
        for (size_t y = ys.first; y < ys.end; y++) {
            const size_t i = y_in + rows.padding - y * rows.stride;
            const float *const grads = out_grad + (k * rows.out + y) * columns.out;
            const float *const row = weights + ((k * l->in.channels + c) * rows.kernel + i) * columns.kernel;
            for (size_t x = xs.first; x < xs.end; x++)
                sum += (double)grads[x] * (double)row[x_in + columns.padding - x * columns.stride];
        }
    return (float)sum;
}

static void conv_in_grad(float *in_grad /* [n][in channels][in height][in width] */, const reference_op *r,
                         const float *out_grad, const float *weights)
{
    const layer *const l = &r->layer;

    for (size_t n = 0; n < r->in.batch; n++, out_grad += dims_count(&l->out))
        for (size_t c = 0; c < l->in.channels; c++)
            for (size_t y = 0; y < l->in.height; y++)
                for (size_t x = 0; x < l->in.width; x++)
                    *in_grad++ = conv_in_grad_point(l, out_grad, weights, c, y, x);
}

static int conv_backward(op *o, const op_memory *m, ckpt_error *err)
{
    const reference_op *const r = (const reference_op *)o;
    (void)err;

    conv_bias_grad(m->param_grads[1], r, m->out_grad);
    conv_weight_grad(m->param_grads[0], r, m->in[0], m->out_grad);
    if (m->in_grad[0])
        conv_in_grad(m->in_grad[0], r, m->out_grad, m->params[0]);
    return 0;
}

int reference_conv_make(reference_op *r, const op_request *request, ckpt_error *err)
{
    const layer *const l = &r->layer;
    const double window = (double)(l->in.channels * l->kernel_height * l->kernel_width);
    (void)err;

    r->base.reads_in = true;
    r->base.forward_flops = 2 * window * (double)(r->in.batch * dims_count(&l->out));
    r->base.backward_flops = r->base.forward_flops * (request->wants_in_grad[0] ? 2 : 1);
    r->base.forward = conv_forward;
    r->base.backward = conv_backward;
    return 0;
}
