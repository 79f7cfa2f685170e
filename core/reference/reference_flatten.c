/* Flatten: block 1 has the features in PyTorch's order already, so that it is a copy. */
#include "reference_backend.h"

#include <string.h>

static int flatten_forward(op *o, const op_memory *m, ckpt_error *err)
{
    (void)err;
    memcpy(m->out, m->in[0], value_bytes(&o->out));
    return 0;
}

static int flatten_backward(op *o, const op_memory *m, ckpt_error *err)
{
    (void)err;
    if (m->in_grad[0])
        memcpy(m->in_grad[0], m->out_grad, value_bytes(&o->out));
    return 0;
}

int reference_flatten_make(reference_op *r, const op_request *request, ckpt_error *err)
{
    (void)request;
    (void)err;
    r->base.forward = flatten_forward;
    r->base.backward = flatten_backward;
    return 0;
}
