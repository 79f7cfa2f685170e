#include "backend.h"

#include "fail.h"

#include <assert.h>

int op_check_window(const layer *l, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(l->kernel_height * l->kernel_width > OP_WINDOW_MAX, err, CKPT_EUSAGE,
            "%s: windows of %zux%zu are larger than %u numbers", l->name, l->kernel_height, l->kernel_width,
            OP_WINDOW_MAX);
out:
    return rc;
}

/* The first layer says what the operation reads; what is between its layers stays inside. */
void op_count_bytes(op *o, const op_request *request)
{
    const net *const n = request->net;
    const layer *const first = &n->layers[request->layer];
    const double out = (double)value_bytes(&o->out), keep = (double)o->keep_bytes;
    double in = 0, in_grad = 0, params = 0;
    bool any_in_grad = false;

    assert(o->layer_count >= 1 && o->layer_count <= request->layers_max);
    for (unsigned i = 0; i < first->input_count; i++) {
        const double bytes = (double)value_bytes(&request->in[i]);
        in += bytes;
        in_grad += request->wants_in_grad[i] ? bytes : 0;
        any_in_grad |= request->wants_in_grad[i];
    }
    for (const layer *l = first; l < first + o->layer_count; l++)
        for (unsigned i = 0; i < l->param_count; i++)
            params += (double)(n->params[l->param_first + i].count * sizeof(float));
    o->forward_bytes = in + out + params + keep;
    o->backward_bytes =
        out + params + keep + (o->reads_in ? in : 0) + (o->reads_out ? out : 0) + in_grad + (any_in_grad ? params : 0);
}
