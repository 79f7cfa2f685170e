/* The state of a training in memory, as a bench saves it. */
#include "bench.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t bench_tensor_bytes(const ckpt_tensor *tensor)
{
    size_t bytes = ckpt_dtype_size(tensor->dtype);

    for (unsigned i = 0; i < tensor->rank; i++)
        bytes *= (size_t)tensor->shape[i];
    return bytes;
}

int bench_state_load(bench_state *out, const char *path, ckpt_error *err)
{
    int rc = 0;

    *out = (bench_state){0};
    TRY(ckpt_content_open_file(&out->content, path, err));
    const size_t count = ckpt_content_tensor_count(out->content);
    out->tensors = calloc(count + 1, sizeof *out->tensors);
    FAIL_IF_NULL(out->tensors, err);
    for (size_t i = 0; i < count; i++) {
        const ckpt_tensor_info *const t = ckpt_content_tensor(out->content, i);
        ckpt_tensor *const to = &out->tensors[i];
        *to = (ckpt_tensor){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = malloc(t->bytes + 1)};
        out->count = i + 1;
        FAIL_IF_NULL(to->data, err);
        memcpy(to->shape, t->shape, sizeof to->shape);
        TRY(ckpt_content_read(to->data, out->content, i, 0, t->bytes / ckpt_dtype_size(t->dtype), err));
        out->bytes += t->bytes;
    }
out:
    if (rc)
        bench_state_clear(out);
    return rc;
}

void bench_state_clear(bench_state *state)
{
    for (size_t i = 0; i < state->count; i++)
        free(state->tensors[i].data);
    free(state->tensors);
    ckpt_content_close(state->content);
    *state = (bench_state){0};
}

void bench_state_keep(bench_state *state, const char *prefix)
{
    size_t kept = 0;

    state->bytes = 0;
    for (size_t i = 0; i < state->count; i++) {
        if (strncmp(state->tensors[i].name, prefix, strlen(prefix)) != 0) {
            free(state->tensors[i].data);
            continue;
        }
        state->bytes += bench_tensor_bytes(&state->tensors[i]);
        state->tensors[kept++] = state->tensors[i];
    }
    state->count = kept;
}

/* To the nearest, ties to even. The states of benches hold no NaN, which would need more care. */
static uint16_t bf16_of(uint32_t f32)
{
    return (uint16_t)((f32 + 0x7fff + (f32 >> 16 & 1)) >> 16);
}

void bench_state_to_bf16(bench_state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        ckpt_tensor *const t = &state->tensors[i];
        unsigned char *const data = t->data;
        const size_t bytes = bench_tensor_bytes(t);
        if (t->dtype != CKPT_F32)
            continue;
        for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) { /* in place: a number is written behind those read */
            uint32_t f32;
            memcpy(&f32, data + at, sizeof f32);
            const uint16_t bf16 = bf16_of(f32);
            memcpy(data + at / 2, &bf16, sizeof bf16);
        }
        t->dtype = CKPT_BF16;
        state->bytes -= bytes / 2;
    }
}

bool bench_has_states(const bench *b)
{
    char path[FILE_PATH_MAX];

    return path_join(path, b->peers, BENCH_STATES_END, NULL) == 0 && access(path, R_OK) == 0;
}
