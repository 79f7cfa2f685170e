/* What zstd makes of bytes, and of byte planes: the peers of the codec that need nothing but libzstd. */
#include "bench.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { WIDTH = 4, LEVEL = 3 };

int bench_zstd_size(size_t *coded, const void *data, size_t size, int level, ckpt_error *err)
{
    int rc = 0;
    const size_t room = ZSTD_compressBound(size);
    void *const out = malloc(room);

    FAIL_IF_NULL(out, err);
    *coded = ZSTD_compress(out, room, data, size, level);
    FAIL_IF(ZSTD_isError(*coded), err, CKPT_ENOMEM, "zstd: %s", ZSTD_getErrorName(*coded));
out:
    free(out);
    return rc;
}

/* All f32 numbers of a state, one tensor behind the other, cut into WIDTH planes of `count` bytes each. */
typedef struct floats {
    unsigned char *planes;
    size_t count, room;
} floats;

static uint32_t number_at(const void *data, size_t i)
{
    uint32_t number;

    memcpy(&number, (const unsigned char *)data + i * sizeof number, sizeof number);
    return number;
}

/* Rotated by a bit, so that the exponent is a whole byte and the sign stands below the mantissa. */
static void floats_add(floats *f, const ckpt_tensor *tensor, size_t count, const void *reference)
{
    for (size_t i = 0; i < count; i++, f->count++) {
        const uint32_t number = number_at(tensor->data, i) ^ (reference ? number_at(reference, i) : 0);
        const uint32_t rotated = number << 1 | number >> 31;
        for (size_t p = 0; p < WIDTH; p++)
            f->planes[p * f->room + f->count] = (unsigned char)(rotated >> 8 * p);
    }
}

/* The tensor of that name and size, or NULL. */
static const void *reference_of(const bench_state *state, const ckpt_tensor *tensor)
{
    for (size_t i = 0; state && i < state->count; i++)
        if (strcmp(state->tensors[i].name, tensor->name) == 0 &&
            bench_tensor_bytes(&state->tensors[i]) == bench_tensor_bytes(tensor))
            return state->tensors[i].data;
    return NULL;
}

int bench_planes_share(double *share, const char *path, const char *reference, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t file_bytes = 0;
    bench_state state = {0}, before = {0};
    floats f = {0};
    size_t coded = 0, sum = 0;

    TRY(file_open(&fd, &file_bytes, path, err));
    TRY(bench_state_load(&state, path, err));
    if (reference)
        TRY(bench_state_load(&before, reference, err));
    f.room = (size_t)state.bytes / WIDTH + 1;
    f.planes = malloc(WIDTH * f.room);
    FAIL_IF_NULL(f.planes, err);
    for (size_t i = 0; i < state.count; i++) {
        const ckpt_tensor *const tensor = &state.tensors[i];
        if (tensor->dtype == CKPT_F32)
            floats_add(&f, tensor, bench_tensor_bytes(tensor) / WIDTH, reference_of(&before, tensor));
    }
    for (size_t p = 0; p < WIDTH; p++, sum += coded)
        TRY(bench_zstd_size(&coded, f.planes + p * f.room, f.count, LEVEL, err));
    /* All else counts as it is: it is little. */
    *share = (double)(sum + file_bytes - f.count * WIDTH) / (double)file_bytes;
out:
    free(f.planes);
    file_close(&fd);
    bench_state_clear(&state);
    bench_state_clear(&before);
    return rc;
}
