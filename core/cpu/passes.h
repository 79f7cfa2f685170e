/* Passes: our own loops over values, in one implementation for each instruction set; all give the same bits.
 *
 * Each is made for team_run: it does units [begin, end) of a job, and what it gives for one unit depends on nothing
 * else. Values lie in blocks (backend.h); what fills up channels is 0 in what comes in and becomes 0 in what goes out.
 *
 * Where a pass takes a ReLU along, forward has a floor, to which numbers below are raised: 0, or NaN for no ReLU, since
 * nothing is below NaN. Backward has the output, and gives nothing back where that is 0 or below; NULL for no ReLU. NaN
 * passes both, as in PyTorch. */
#ifndef CORE_PASSES_H
#define CORE_PASSES_H

#include "adam.h"
#include "team.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PASS_LINE        ((size_t)16)   /* floats of a cache line */
#define PASS_VECTOR_UNIT ((size_t)4096) /* floats of a long vector that one thread takes at least */

/* Units: floats. */
typedef struct relu_job {
    float *out;
    const float *in;
} relu_job;
typedef struct relu_grad_job {
    float *in_grad;
    const float *out, *out_grad;
} relu_grad_job;

/* Max-pool. Units: planes [height][width][block]. */
typedef struct pool_shape {
    size_t in_height, in_width, out_height, out_width;
    size_t kernel_height, kernel_width, stride, block;
} pool_shape;
typedef struct pool_job {
    pool_shape shape;
    float floor;
    float *out;      /* [plane][out_height][out_width][block] */
    uint8_t *winner; /* the same; its place in the window, row by row; NULL: not wanted */
    const float *in; /* [plane][in_height][in_width][block] */
} pool_job;
typedef struct pool_grad_job {
    pool_shape shape;
    float *in_grad;
    const float *out, *out_grad;
    const uint8_t *winner;
} pool_grad_job;

/* Gradient of the parameters of a convolution whose windows hold few numbers, for machines on which oneDNN is slow at
 * it. The sums over PASS_FILTER_SAMPLES samples each are units, as many times as there are blocks of output channels;
 * pass_filter_sum adds them in their order. */
#define PASS_FILTER_TAPS_MAX ((size_t)32) /* numbers of a window: channels * kernel_height * kernel_width */
#define PASS_FILTER_SAMPLES  ((size_t)8)
typedef struct filter_shape {
    size_t batch, in_channels, in_height, in_width, out_channels, out_height, out_width, block;
    size_t kernel_height, kernel_width, stride, padding;
} filter_shape;
typedef struct filter_grad_job {
    filter_shape shape;
    float *sums;           /* [group of samples][out_channels / block][taps and one for the bias][block] */
    const float *in;       /* [batch][in_channels][in_height][in_width] */
    const float *out_grad; /* [batch][out_channels / block][out_height][out_width][block] */
} filter_grad_job;

/* From blocks to channel, height, width, and back. Units: blocks of channels of a sample. */
typedef struct flatten_shape {
    size_t channels, places, block; /* places: height * width */
} flatten_shape;
typedef struct flatten_job {
    flatten_shape shape;
    float floor;
    float *out;      /* [batch][channels][places] */
    const float *in; /* [batch][channels / block][places][block] */
} flatten_job;
typedef struct flatten_grad_job {
    flatten_shape shape;
    float *in_grad;              /* as in */
    const float *out, *out_grad; /* as out */
} flatten_grad_job;

/* Adds a bias to what a dense layer gave, and raises it to the floor. Units: rows. */
typedef struct bias_job {
    float *out;        /* [rows][columns] */
    const float *bias; /* [columns] */
    size_t columns;
    float floor;
} bias_job;
/* The gradient of the bias, the rows added in their order; and the masked gradient, where it is wanted. Units: groups
 * of PASS_LINE columns. */
typedef struct bias_grad_job {
    float *bias_grad;      /* [columns] */
    float *masked;         /* [rows][columns]; NULL: there is no ReLU */
    const float *out;      /* [rows][columns]; read with `masked` */
    const float *out_grad; /* [rows][columns] */
    size_t rows, columns;
} bias_grad_job;

/* Samples of bytes into rows of floats, see backend.h. Units: rows. */
typedef struct gather_job {
    float *rows; /* [batch][size] */
    const uint8_t *samples;
    size_t size;
    const uint32_t *indices;
    size_t count;
    float scale;
} gather_job;

/* Adam, see adam.h. Units: floats. */
typedef struct adam_job {
    const adam_memory *memory;
    adam_rounded rounded;
    atomic_bool bad; /* set when a weight became NaN or infinite */
} adam_job;

/* Multiply-adds on registers only, to learn what the machine can do: `rounds` of them by every unit, which is a
 * thread. Each round is `flops_per_round` operations. */
typedef struct multiply_add_job {
    size_t rounds;
    atomic_uint sink; /* so that the compiler keeps the work */
} multiply_add_job;

typedef struct pass_table {
    const char *name; /* "scalar", "avx2", "avx512" */
    team_fn relu, relu_grad, pool, pool_grad, filter_grad, flatten, flatten_grad, bias, bias_grad, gather, adam,
        multiply_add;
    size_t flops_per_round;
} pass_table;

/* Members of all tables. */
void pass_flatten(void *job, size_t begin, size_t end);
void pass_flatten_grad(void *job, size_t begin, size_t end);

/* What belongs to filter_grad: numbers of a window, units of the job, bytes of its sums; and their sum. */
size_t pass_filter_taps(const filter_shape *s);
size_t pass_filter_units(const filter_shape *s);
size_t pass_filter_sums_bytes(const filter_shape *s);
void pass_filter_sum(float *weight_grad /* [out_channels][taps] */, float *bias_grad /* [out_channels] */,
                     const filter_grad_job *job);

extern const pass_table PASSES_SCALAR, PASSES_AVX2, PASSES_AVX512;

/* The widest that the machine has, CKPT_CPU allows, and oneDNN's word for instruction sets includes ("": all do). */
const pass_table *passes_best(const char *isa);

#endif
