/* Backend: who computes. There is `reference` (plain loops, the truth for tests) and `cpu` (oneDNN and our own passes);
 * one for accelerators fits the same interface.
 *
 * A backend is asked once, for each layer of a network and each batch size, to make an operation; a step then only runs
 * operations and allocates nothing. The plan (plan.h) asks, and owns all memory: an operation says what it needs.
 *
 *     forward :  in, params              ->  out, keep
 *     backward:  out_grad, keep, params  ->  in_grad, param_grads       and in, out where it says that it reads them
 *
 * Functions that can fail return CKPT_ENOMEM, CKPT_EMISSING where the device or its library cannot do what is asked,
 * and CKPT_EBUG for a failure of theirs that nobody foresaw.
 *
 * Layout of a value. [batch][channels][height][width] of fp32 is stored as
 *
 *     [batch][channels / block][height][width][block]
 *
 * with `block` channels side by side and the channels filled up with zeros to a multiple of it. block 1 is the plain
 * order (NCHW); block = channels is NHWC; 8 and 16 are what vector units like. The batch comes in with block 1. An
 * operation takes its input in the block in which it comes and chooses that of its output; a vector (after flatten)
 * always has block 1 and counts its features in the order channel, height, width, as PyTorch's Flatten does. Gradients
 * have the layout of their value.
 *
 * All memory that operations see was made by the backend (memory_new) and is the device's; `write` and `read` carry
 * bytes there and back. On a CPU that is plain memory. Calls return before the work is done where the device works by
 * itself; `read` and `wait` wait. */
#ifndef CORE_BACKEND_H
#define CORE_BACKEND_H

#include "adam.h"
#include "net.h"

#include <ckpt/store.h> /* ckpt_dtype */
#include <stdbool.h>

#define BACKEND_ALIGNMENT 64 /* bytes; of all memory that operations get, but for parameters inside their vector */
#define BACKEND_TEXT_SIZE 96
#define OP_WINDOW_MAX     (UINT8_MAX + 1u)
#define OP_PARAMS_MAX     (2 * NET_PARAMS_MAX) /* of all layers that one operation does */

typedef struct backend backend;
typedef struct op op;

/* How a value is stored. */
typedef struct value {
    size_t batch;
    dims shape;
    size_t block;
    ckpt_dtype dtype; /* CKPT_F32; others come with mixed precision */
} value;

/* Bytes of a value, fill-up included. */
size_t value_bytes(const value *v);
/* Its planes [height][width][block], of all samples. */
size_t value_planes(const value *v);

/* What an operation works on in one call. What it did not ask for is NULL. */
typedef struct op_memory {
    const void *in[NET_INPUTS_MAX];
    void *in_grad[NET_INPUTS_MAX]; /* overwritten; NULL: nobody wants it (the batch itself has no gradient) */
    void *out;                     /* written by forward; read by backward only with reads_out */
    const void *out_grad;
    const float *params[OP_PARAMS_MAX]; /* of all its layers, in their order */
    float *param_grads[OP_PARAMS_MAX];  /* overwritten, not added to */
    void *keep, *scratch;
} op_memory;

/* What is made for one layer, or for several that the backend does in one go. */
struct op {
    char name[3 * NET_NAME_SIZE]; /* "relu1+maxpool1", for profiles and messages */
    size_t layer_count;           /* layers done by this operation, the first being the one asked for; at least 1 */
    value out;
    size_t keep_bytes;                                    /* from forward to backward */
    size_t forward_scratch_bytes, backward_scratch_bytes; /* during one call */
    bool reads_in, reads_out;                             /* backward reads them */
    double forward_flops, backward_flops;                 /* floating-point operations; a multiply-add counts two */
    double forward_bytes, backward_bytes;                 /* least traffic with memory: each operand once */
    int (*forward)(op *o, const op_memory *m, ckpt_error *err);
    int (*backward)(op *o, const op_memory *m, ckpt_error *err);
    void (*free)(op *o);
};

typedef struct op_request {
    const net *net;
    size_t layer;      /* the first that is to be done */
    size_t layers_max; /* how many may be done in one go: the next ones read nothing but the one before, and nobody else
                          reads what is between */
    value in[NET_INPUTS_MAX];           /* as they will come: those that the first layer reads */
    bool training;                      /* backward will be called */
    bool wants_in_grad[NET_INPUTS_MAX]; /* false for the batch, and where no layer before has parameters */
} op_request;

/* Sets forward_bytes and backward_bytes from all else that is set already: each operand once, and what backward reads
 * and writes as it asked for it. */
void op_count_bytes(op *o, const op_request *request);
/* For backends that keep the place of a window's largest number in a byte. CKPT_EUSAGE for a max-pool whose windows
 * hold more than OP_WINDOW_MAX numbers. */
int op_check_window(const layer *l, ckpt_error *err);

/* Softmax and cross-entropy of a batch, in one pass. */
typedef struct loss_memory {
    const void *logits;    /* [batch][classes] */
    const uint8_t *labels; /* [batch]; in host memory, below `classes` */
    void *logits_grad;     /* (softmax - onehot) / count; rows from count on are 0; NULL: not wanted */
    float *probabilities;  /* [batch][classes], in host memory; NULL: not wanted */
    size_t batch, classes;
    size_t count; /* rows that hold samples; the rest are filler */
} loss_memory;

typedef struct loss_result {
    double sum;     /* of the losses of the rows, added in their order; NaN or infinite when a row is */
    size_t correct; /* rows whose largest logit is the label's; of equal ones the first counts */
} loss_result;

struct backend {
    const char *name;                /* "cpu" */
    unsigned threads;                /* that its results depend on; 1 where they do not */
    char isa[BACKEND_TEXT_SIZE];     /* instruction set in use: "avx512_core_bf16"; "" where it does not matter */
    char library[BACKEND_TEXT_SIZE]; /* "oneDNN 2.6.3"; "" */

    /* The operation belongs to the caller, who frees it before the backend; `net` need not live as long. CKPT_EUSAGE
     * names the layer that this backend cannot do and why. */
    int (*op_new)(op **out, backend *b, const op_request *request, ckpt_error *err);
    int (*loss)(loss_result *out, backend *b, const loss_memory *m, ckpt_error *err);
    /* Samples `indices` of `samples` (bytes of `size` each, in host memory) times `scale` into rows of the batch; rows
     * from count on become 0. */
    int (*gather)(void *batch_rows, backend *b, const uint8_t *samples, size_t size, const uint32_t *indices,
                  size_t count, size_t batch, float scale, ckpt_error *err);
    /* *finite: no weight became NaN or infinite. */
    int (*adam)(bool *finite, backend *b, const adam_memory *m, const adam_factors *f, ckpt_error *err);

    /* Zeroed and faulted in, aligned to BACKEND_ALIGNMENT. */
    int (*memory_new)(void **out, backend *b, size_t bytes, ckpt_error *err);
    void (*memory_free)(backend *b, void *memory); /* NULL is fine */
    int (*write)(backend *b, void *device, const void *host, size_t bytes, ckpt_error *err);
    int (*read)(backend *b, void *host, const void *device, size_t bytes, ckpt_error *err);
    /* Can the host read the memory where it lies? Then checkpoints take it from there. */
    bool memory_is_host;
    int (*wait)(backend *b, ckpt_error *err);
    void (*free)(backend *b);
};

typedef struct backend_options {
    unsigned threads; /* 0: as many as the machine allows this process */
    const char *isa;  /* not above this one ("avx2", as backend.isa has it); NULL or "": the best there is */
} backend_options;

/* `name` is "reference" or "cpu". CKPT_EUSAGE for another name; CKPT_EMISSING when `isa` is not known here. Where the
 * machine lacks `isa` the best below it is taken, and where OpenMP gives fewer `threads`, these: compare backend->isa
 * and backend->threads. One backend of a process computes at a time. */
int backend_new(backend **out, const char *name, const backend_options *options, ckpt_error *err);
void backend_free(backend *b); /* NULL is fine */

/* Made by backend_new; each in its folder. */
int backend_reference_new(backend **out, ckpt_error *err);
int backend_cpu_new(backend **out, const backend_options *options, ckpt_error *err);

#endif
