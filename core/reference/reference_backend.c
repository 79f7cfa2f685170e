/* The reference backend as a whole: which function makes which layer, memory, which is plain memory, and batches. */
#include "reference_backend.h"

#include "checked.h"
#include "fail.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*reference_make_fn)(reference_op *r, const op_request *request, ckpt_error *err);

static const reference_make_fn MAKE[LAYER_KINDS] = {
    [LAYER_CONV] = reference_conv_make,       [LAYER_RELU] = reference_relu_make,
    [LAYER_MAXPOOL] = reference_maxpool_make, [LAYER_FLATTEN] = reference_flatten_make,
    [LAYER_DENSE] = reference_dense_make,
};

static void reference_op_free(op *o)
{
    free(o);
}

/* Each operand once; what backward reads and writes follows from what it asked for. */
static void reference_op_count_bytes(reference_op *r, const op_request *request)
{
    op *const o = &r->base;
    const net *const n = request->net;
    const double in = (double)value_bytes(&r->in), out = (double)value_bytes(&o->out), keep = (double)o->keep_bytes;
    double params = 0;

    for (unsigned i = 0; i < r->layer.param_count; i++)
        params += (double)(n->params[r->layer.param_first + i].count * sizeof(float));
    o->forward_bytes = in + out + params + keep;
    o->backward_bytes = out + params + keep + (o->reads_in ? in : 0) + (o->reads_out ? out : 0) +
                        (request->wants_in_grad ? in + params : 0);
}

static int reference_op_new(op **out, backend *b, const op_request *request, ckpt_error *err)
{
    const layer *const l = &request->net->layers[request->layer];
    int rc = 0;
    (void)b;

    assert(request->layer < request->net->layer_count && request->layers_max >= 1);
    assert(request->in.block == 1 && request->in.dtype == CKPT_F32);
    *out = NULL;
    reference_op *const r = calloc(1, sizeof *r);
    FAIL_IF_NULL(r, err);
    r->layer = *l;
    r->in = request->in;
    r->base.layer_count = 1;
    r->base.out = (value){request->in.batch, l->out, 1, CKPT_F32};
    r->base.free = reference_op_free;
    snprintf(r->base.name, sizeof r->base.name, "%s", l->name);
    TRY(MAKE[l->kind](r, request, err));
    reference_op_count_bytes(r, request);
    *out = &r->base;
out:
    if (rc)
        free(r);
    return rc;
}

static int reference_memory_new(void **out, backend *b, size_t bytes, ckpt_error *err)
{
    uint64_t room;
    void *memory = NULL;
    (void)b;

    /* aligned_alloc wants a multiple of the alignment; and nothing is no memory. */
    if (checked_add(&room, bytes ? bytes : 1, BACKEND_ALIGNMENT - 1) && room <= SIZE_MAX) {
        room -= room % BACKEND_ALIGNMENT;
        memory = aligned_alloc(BACKEND_ALIGNMENT, (size_t)room);
    }
    *out = memory;
    if (!memory)
        return error_memory(err);
    memset(memory, 0, (size_t)room); /* touches every page too */
    return 0;
}

static void reference_memory_free(backend *b, void *memory)
{
    (void)b;
    free(memory);
}

static int reference_copy(void *dst, const void *src, size_t bytes)
{
    if (bytes)
        memcpy(dst, src, bytes);
    return 0;
}

static int reference_write(backend *b, void *device, const void *host, size_t bytes, ckpt_error *err)
{
    (void)b;
    (void)err;
    return reference_copy(device, host, bytes);
}

static int reference_read(backend *b, void *host, const void *device, size_t bytes, ckpt_error *err)
{
    (void)b;
    (void)err;
    return reference_copy(host, device, bytes);
}

static int reference_wait(backend *b, ckpt_error *err)
{
    (void)b;
    (void)err;
    return 0;
}

static int reference_gather(void *batch_rows, backend *b, const uint8_t *samples, size_t size, const uint32_t *indices,
                            size_t count, size_t batch, float scale, ckpt_error *err)
{
    float *const rows = batch_rows; /* [batch][size] */
    (void)b;
    (void)err;

    assert(count <= batch);
    for (size_t n = 0; n < count; n++)
        for (size_t i = 0; i < size; i++)
            rows[n * size + i] = (float)samples[indices[n] * size + i] * scale;
    memset(rows + count * size, 0, (batch - count) * size * sizeof *rows);
    return 0;
}

static void reference_free(backend *b)
{
    free(b);
}

int backend_reference_new(backend **out, ckpt_error *err)
{
    backend *const b = malloc(sizeof *b);
    *out = b;
    if (!b)
        return error_memory(err);
    *b = (backend){
        .name = "reference",
        .threads = 1,
        .op_new = reference_op_new,
        .loss = reference_loss,
        .gather = reference_gather,
        .adam = reference_adam,
        .memory_new = reference_memory_new,
        .memory_free = reference_memory_free,
        .write = reference_write,
        .read = reference_read,
        .memory_is_host = true,
        .wait = reference_wait,
        .free = reference_free,
    };
    return 0;
}
