#include "backend.h"

#include <assert.h>

size_t value_planes(const value *v)
{
    assert(v->block > 0);
    return v->batch * ((v->shape.channels + v->block - 1) / v->block);
}

size_t value_bytes(const value *v)
{
    return value_planes(v) * v->shape.height * v->shape.width * v->block * ckpt_dtype_size(v->dtype);
}
