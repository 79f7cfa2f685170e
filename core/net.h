/* Network: a list of layers with static shapes, and where its parameters lie.
 *
 *     net *n = NULL;
 *     TRY(net_parse(&n, "conv 32 3x3, relu, maxpool 2, flatten, dense 10", (dims){1, 28, 28}, 10, err));
 *
 *     layers := layer ("," layer)*
 *     layer  := "conv" channels SIZE ("stride" n)? ("pad" n)?     SIZE is "3x3" (height x width) or "3"; stride and pad
 *                                                                 may change places; pad is smaller than SIZE
 *             | "maxpool" SIZE ("stride" n)?                      stride: SIZE unless given; windows beyond the edge
 *             | "relu" | "flatten"                                are left out, as PyTorch does
 *             | "dense" features
 *
 * Values are numbered: 0 is the batch that comes in, i + 1 what layer i gives. A layer names the values it reads, so
 * that nets with branches need no other structure; what net_parse makes is a chain.
 *
 * Parameters lie one behind the other in one vector of weight_count numbers, each in PyTorch's order (convolution
 * [out][in][height][width], dense [out][in]), whatever a backend makes of them: checkpoints do not depend on the
 * backend, and the optimizer is one pass over vectors. Names are "conv1.weight", "conv1.bias", "dense2.weight": the
 * kind, and which of its kind it is. */
#ifndef CORE_NET_H
#define CORE_NET_H

#include <ckpt/error.h>
#include <stddef.h>
#include <stdint.h>

#define NET_LAYERS_MAX     256
#define NET_NAME_SIZE      32
#define NET_INPUTS_MAX     2
#define NET_PARAMS_MAX     2 /* of one layer: weight, bias */
#define NET_DIM_MAX        65536u
#define NET_ELEMENTS_MAX   ((size_t)1 << 31) /* of a parameter, and of a value of one sample */
#define NET_PARAM_RANK_MAX 4

/* One sample of a value; a vector has height and width 1. */
typedef struct dims {
    size_t channels, height, width;
} dims;

static inline size_t dims_count(const dims *d)
{
    return d->channels * d->height * d->width;
}

typedef enum layer_kind { LAYER_CONV, LAYER_RELU, LAYER_MAXPOOL, LAYER_FLATTEN, LAYER_DENSE, LAYER_KINDS } layer_kind;

typedef struct layer {
    layer_kind kind;
    char name[NET_NAME_SIZE]; /* "conv1" */
    size_t inputs[NET_INPUTS_MAX];
    unsigned input_count;
    dims in, out;                       /* in: of inputs[0] */
    size_t kernel_height, kernel_width; /* conv, maxpool */
    size_t stride, padding;             /* the same in both directions */
    size_t param_first;                 /* into net.params */
    unsigned param_count;
} layer;

typedef struct param {
    char name[NET_NAME_SIZE + 8]; /* "conv1.weight" */
    unsigned rank;
    size_t shape[NET_PARAM_RANK_MAX];
    size_t offset, count; /* into the vector of all parameters */
    size_t fan_in;        /* inputs that one output adds up: of the weight, for its bias too */
} param;

typedef struct net {
    dims input;
    size_t classes; /* what the last layer gives */
    layer *layers;
    size_t layer_count;
    param *params;
    size_t param_count;
    size_t weight_count; /* numbers in all parameters */
} net;

const char *layer_kind_name(layer_kind kind); /* "conv" */

/* CKPT_EUSAGE says which layer is wrong and why (an unknown word, with the nearest known one; a window larger than its
 * input; a dense layer behind one that was not flattened; a last layer that does not give `classes` numbers). */
int net_parse(net **out, const char *layers, dims input, size_t classes, ckpt_error *err);
void net_free(net *n); /* NULL is fine */

/* First weights as PyTorch draws them for convolutions and dense layers: uniform in (-b, b), b = 1 / sqrt(fan_in), for
 * weights and biases (kaiming_uniform_ with a = sqrt(5); nn.Linear.reset_parameters). Number i of parameter p is made
 * of random_word(seed, RANDOM_INIT, p, i): its upper 24 bits plus one half, over 2^24. */
void net_init(float *weights, const net *n, uint64_t seed);

#endif
