#include "backend.h"

#include <assert.h>

size_t value_bytes(const value *v)
{
    assert(v->block > 0);
    const size_t channels = (v->shape.channels + v->block - 1) / v->block * v->block;

    return v->batch * channels * v->shape.height * v->shape.width * ckpt_dtype_size(v->dtype);
}
