/* How a network grows, layer by layer; private to net.c and net_text.c. */
#ifndef CORE_NET_INTERNAL_H
#define CORE_NET_INTERNAL_H

#include "net.h"

/* An empty net with room for so many layers. CKPT_EUSAGE when `input` is out of range. */
int net_new(net **out, dims input, size_t layers_max, ckpt_error *err);

/* Puts a layer behind the last one. Of `asked` count kind, window, stride, padding and, for a convolution or a dense
 * layer, out.channels; each within 1 (padding: 0) and NET_DIM_MAX. CKPT_EUSAGE when it does not fit what it reads. */
int net_add(net *n, const layer *asked, ckpt_error *err);

/* CKPT_EUSAGE when the last layer does not give `classes` numbers. */
int net_finish(net *n, size_t classes, ckpt_error *err);

#endif
