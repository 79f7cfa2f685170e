/* What the shape of a tensor tells a plan. */
#ifndef CKPT_PLAN_SHAPE_H
#define CKPT_PLAN_SHAPE_H

#include "codec.h"
#include "tensor_file.h"

/* For the bytes of a tensor from `offset` of its file on; without `view` nothing is known. */
void plan_shape(codec_plan *plan, const tensor_view *view, uint64_t offset);

#endif
