#include "backend.h"

void op_count_bytes(op *o, const op_request *request)
{
    const net *const n = request->net;
    const double in = (double)value_bytes(&request->in), out = (double)value_bytes(&o->out);
    const double keep = (double)o->keep_bytes;
    double params = 0;

    for (const layer *l = &n->layers[request->layer]; l < &n->layers[request->layer + o->layer_count]; l++)
        for (unsigned i = 0; i < l->param_count; i++)
            params += (double)(n->params[l->param_first + i].count * sizeof(float));
    o->forward_bytes = in + out + params + keep;
    o->backward_bytes = out + params + keep + (o->reads_in ? in : 0) + (o->reads_out ? out : 0) +
                        (request->wants_in_grad ? in + params : 0);
}
