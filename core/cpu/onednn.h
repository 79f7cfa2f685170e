/* oneDNN, as little of it as we use: convolutions and matrix products. The only place that knows its interface, which
 * differs in kind between its versions 2 and 3; both are known here.
 *
 * Weights and their gradients are PyTorch's order outside and whatever oneDNN likes inside: they are small, and are
 * reordered at each call. Values are taken in the block in which they come (backend.h), and oneDNN chooses that of what
 * it gives. */
#ifndef CORE_ONEDNN_H
#define CORE_ONEDNN_H

#include "backend.h"

typedef struct onednn onednn;

/* `isa` as in backend_options. The instruction set is a matter of the whole process and is decided before its first
 * primitive; later wishes cannot be met, and onednn_isa tells what is in use. CKPT_EMISSING: `isa` is not a word that
 * this library knows. */
int onednn_new(onednn **out, unsigned threads, const char *isa, ckpt_error *err);
void onednn_free(onednn *o); /* NULL is fine */

/* "avx512_core_bf16"; "" where oneDNN does not tell. */
void onednn_isa(char out[BACKEND_TEXT_SIZE]);
void onednn_version(char out[BACKEND_TEXT_SIZE]); /* "oneDNN 2.6.3" */

/* c[rows][columns] = a b, in plain order. The transposed ones are given as they stand in memory:
 * a is [rows][inner], or [inner][rows] with a_transposed; b is [inner][columns], or [columns][inner]. */
typedef struct matrix_product {
    float *c;
    const float *a, *b;
    bool a_transposed, b_transposed;
    size_t rows, columns, inner;
} matrix_product;
int onednn_multiply(onednn *o, const matrix_product *p, ckpt_error *err);

/* A convolution with bias; backward with `training`. */
typedef struct convolution convolution;
typedef struct convolution_request {
    const layer *layer;
    size_t batch, in_block;
    bool training, wants_in_grad;
} convolution_request;
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
