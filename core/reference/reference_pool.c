/* Max-pool. Of equal numbers the first wins, and NaN wins over all, the last one over other NaN: as PyTorch's
 * max_pool2d does. Which place of its window won is kept for the way back, in a byte for each output. */
#include "reference_backend.h"

#include "reference_axis.h"

#include "fail.h"

#include <math.h>

/* Finds the winner of the window at (y, x): its value, and its place counted row by row in the whole window. */
static float maxpool_point(size_t *place, const layer *l, const float *in /* [in height][in width] */, size_t y,
                           size_t x)
{
    const axis rows = axis_of_rows(l), columns = axis_of_columns(l);
    const span is = axis_places(&rows, y), js = axis_places(&columns, x);
    float best = -INFINITY;

    *place = is.first * columns.kernel + js.first;
    for (size_t i = is.first; i < is.end; i++)
        for (size_t j = js.first; j < js.end; j++) {
            const float number =
                in[(y * rows.stride + i - rows.padding) * columns.in + x * columns.stride + j - columns.padding];
            if (number > best || isnan(number)) {
                best = number;
                *place = i * columns.kernel + j;
            }
        }
    return best;
}

static int maxpool_forward(op *o, const op_memory *m, ckpt_error *err)
{
    const layer *const l = &((const reference_op *)o)->layer;
    const float *in = m->in[0];      /* [n][channels][in height][in width] */
    float *out = m->out;             /* [n][channels][out height][out width] */
    uint8_t *const winner = m->keep; /* as out; NULL without training */
    size_t at = 0;
    (void)err;

    for (size_t plane = 0; plane < o->out.batch * l->in.channels; plane++, in += l->in.height * l->in.width)
        for (size_t y = 0; y < l->out.height; y++)
            for (size_t x = 0; x < l->out.width; x++, at++) {
                size_t place;
                out[at] = maxpool_point(&place, l, in, y, x);
                if (winner)
                    winner[at] = (uint8_t)place;
            }
    return 0;
}

/* What comes back to one place of the input: from all windows that it won. */
static float maxpool_in_grad_point(const layer *l, const float *out_grad /* [out height][out width] */,
                                   const uint8_t *winner, size_t y_in, size_t x_in)
{
    const axis rows = axis_of_rows(l), columns = axis_of_columns(l);
    const span ys = axis_outputs_of_input(&rows, y_in), xs = axis_outputs_of_input(&columns, x_in);
    double sum = 0;

    for (size_t y = ys.first; y < ys.end; y++)
        for (size_t x = xs.first; x < xs.end; x++) {
            const size_t i = y_in + rows.padding - y * rows.stride, j = x_in + columns.padding - x * columns.stride;
            if (winner[y * columns.out + x] == i * columns.kernel + j)
                sum += (double)out_grad[y * columns.out + x];
        }
    return (float)sum;
}

static int maxpool_backward(op *o, const op_memory *m, ckpt_error *err)
{
    const layer *const l = &((const reference_op *)o)->layer;
    const size_t out_plane = l->out.height * l->out.width;
    const float *out_grad = m->out_grad;
    const uint8_t *winner = m->keep;
    float *in_grad = m->in_grad[0];
    (void)err;

    if (!in_grad)
        return 0;
    for (size_t plane = 0; plane < o->out.batch * l->in.channels; plane++, out_grad += out_plane, winner += out_plane)
        for (size_t y = 0; y < l->in.height; y++)
            for (size_t x = 0; x < l->in.width; x++)
                *in_grad++ = maxpool_in_grad_point(l, out_grad, winner, y, x);
    return 0;
}

int reference_maxpool_make(reference_op *r, const op_request *request, ckpt_error *err)
{
    const layer *const l = &r->layer;
    const size_t window = l->kernel_height * l->kernel_width, out_count = r->in.batch * dims_count(&l->out);
    int rc = 0;

    TRY(op_check_window(l, err));
    r->base.keep_bytes = request->training ? out_count : 0;
    r->base.forward_flops = (double)window * (double)out_count;
    r->base.backward_flops = (double)out_count;
    r->base.forward = maxpool_forward;
    r->base.backward = maxpool_backward;
out:
    return rc;
}
