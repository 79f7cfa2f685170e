/* oneDNN, as little of it as we use: its engine, matrix products, and convolutions (convolution.h). Its own interface,
 * which differs in kind between its versions 2 and 3, is known to onednn_api.h and the two files behind it. */
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

#endif
