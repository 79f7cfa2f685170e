/* Convolution: one of oneDNN's, with bias.
 *
 * Weights and their gradients are PyTorch's order outside and whatever oneDNN likes inside: they are small, and are
 * reordered at each call. Values are taken in the block in which they come (backend.h), and oneDNN chooses that of what
 * it gives. Errors: CKPT_ENOMEM, CKPT_EMISSING for what oneDNN cannot do, CKPT_EBUG. */
#ifndef CORE_CONVOLUTION_H
#define CORE_CONVOLUTION_H

#include "onednn.h"

typedef struct convolution convolution;
typedef struct convolution_request {
    const layer *layer;
    size_t batch, in_block;
    bool training;      /* with its gradients */
    bool wants_in_grad; /* also that of the input */
} convolution_request;
/* `o` must outlive it. */
int convolution_new(convolution **out, onednn *o, const convolution_request *request, ckpt_error *err);
void convolution_free(convolution *c); /* NULL is fine */

size_t convolution_out_block(const convolution *c);
size_t convolution_forward_scratch_bytes(const convolution *c);
size_t convolution_in_grad_scratch_bytes(const convolution *c);
size_t convolution_param_grad_scratch_bytes(const convolution *c);
/* Is the gradient of the parameters nothing that oneDNN does well in these orders on this machine? */
bool convolution_param_grad_is_slow(const convolution *c);

/* Memory as operations get it; params are weight [out][in][height][width] and bias [out]. */
int convolution_forward(convolution *c, const op_memory *m, ckpt_error *err);
int convolution_in_grad(convolution *c, const op_memory *m, ckpt_error *err);
int convolution_param_grad(convolution *c, const op_memory *m, ckpt_error *err);

#endif
