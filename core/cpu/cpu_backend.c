/* The backend `cpu` as a whole: threads, instruction set, batches and Adam. */
#include "cpu_backend.h"

#include "host_memory.h"

#include "fail.h"

#include <assert.h>
#include <stdlib.h>

static int cpu_gather(void *batch_rows, backend *b, const uint8_t *samples, size_t size, const uint32_t *indices,
                      size_t count, size_t batch, float scale, ckpt_error *err)
{
    const cpu_backend *const c = (const cpu_backend *)b;
    gather_job job = {batch_rows, samples, size, indices, count, scale};
    (void)err;

    assert(count <= batch);
    cpu_run(c, c->passes->gather, &job, batch, PASS_VECTOR_UNIT / size + 1);
    return 0;
}

static int cpu_adam(bool *finite, backend *b, const adam_memory *m, const adam_factors *f, ckpt_error *err)
{
    const cpu_backend *const c = (const cpu_backend *)b;
    adam_job job = {.memory = m, .rounded = adam_factors_round(f)};
    (void)err;

    cpu_run(c, c->passes->adam, &job, m->count, PASS_VECTOR_UNIT);
    *finite = !job.bad;
    return 0;
}

static void cpu_free(backend *b)
{
    cpu_backend *const c = (cpu_backend *)b;
    onednn_free(c->onednn);
    free(c);
}

int backend_cpu_new(backend **out, const backend_options *options, ckpt_error *err)
{
    int rc = 0;
    unsigned threads;
    cpu_backend *const c = calloc(1, sizeof *c);

    *out = NULL;
    FAIL_IF_NULL(c, err);
    TRY(team_threads(&threads, options ? options->threads : 0, err));
    TRY(onednn_new(&c->onednn, threads, options ? options->isa : NULL, err));
    c->base = (backend){
        .name = "cpu",
        .threads = threads,
        .op_new = cpu_op_new,
        .loss = cpu_loss,
        .gather = cpu_gather,
        .adam = cpu_adam,
        .memory_new = host_memory_new,
        .memory_free = host_memory_free,
        .write = host_memory_write,
        .read = host_memory_read,
        .memory_is_host = true,
        .wait = host_memory_wait,
        .free = cpu_free,
    };
    onednn_isa(c->base.isa);
    onednn_version(c->base.library);
    c->passes = passes_best(c->base.isa);
    *out = &c->base;
out:
    if (rc && c)
        cpu_free(&c->base);
    return rc;
}
