/* What the shape of a tensor tells a plan. */
#ifndef CKPT_PLAN_SHAPE_H
#define CKPT_PLAN_SHAPE_H

#include "codec.h"
#include "tensor_file.h"

/* For the bytes of a tensor from `offset` of its file on; without `view` nothing is known. With a reference its rows
 * and the kernels of convolutions count, each kernel predicted from its neighbours: 1 to 2 % smaller, 1.6 times as long
 * both ways. Without one they gain little (columns 0.2 %, decoded a third slower) and are for thorough plans alone. */
void plan_shape(codec_plan *plan, const tensor_view *view, uint64_t offset);

#endif
