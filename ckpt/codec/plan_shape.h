/* What the shape of a tensor tells a plan. */
#ifndef CKPT_PLAN_SHAPE_H
#define CKPT_PLAN_SHAPE_H

#include "codec.h"
#include "tensor_file.h"

/* For the bytes of a tensor from `offset` of its file on; without `view` nothing is known. What takes longer than it
 * gains is for thorough plans alone: columns without a reference (0.2 % smaller, decoded a third slower), and kernels
 * of convolutions, each predicted from its neighbours (1 to 2 % smaller, 1.6 times as long both ways). */
void plan_shape(codec_plan *plan, const tensor_view *view, uint64_t offset);

#endif
