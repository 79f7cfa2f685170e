/* The reference backend as a whole: which function makes which layer, and batches. */
#include "reference_backend.h"

#include "host_memory.h"

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

static int reference_op_new(op **out, backend *b, const op_request *request, ckpt_error *err)
{
    const layer *const l = &request->net->layers[request->layer];
    int rc = 0;
    (void)b;

    assert(request->layer < request->net->layer_count && request->layers_max >= 1);
    assert(request->in[0].block == 1 && request->in[0].dtype == CKPT_F32);
    *out = NULL;
    reference_op *const r = calloc(1, sizeof *r);
    FAIL_IF_NULL(r, err);
    r->layer = *l;
    r->in = request->in[0];
    r->base.layer_count = 1;
    r->base.out = (value){request->in[0].batch, l->out, 1, CKPT_F32};
    r->base.free = reference_op_free;
    snprintf(r->base.name, sizeof r->base.name, "%s", l->name);
    TRY(MAKE[l->kind](r, request, err));
    op_count_bytes(&r->base, request);
    *out = &r->base;
out:
    if (rc)
        free(r);
    return rc;
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
        .memory_new = host_memory_new,
        .memory_free = host_memory_free,
        .write = host_memory_write,
        .read = host_memory_read,
        .memory_is_host = true,
        .wait = host_memory_wait,
        .free = reference_free,
    };
    return 0;
}
