/* The backend `cpu` as a whole: threads, instruction set, memory, batches and Adam. */
#include "cpu_backend.h"

#include "checked.h"
#include "fail.h"
#include "pool.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Large memory lies in pages of this size where the system has them: passes over values of many megabytes would else
 * wait for the translation of addresses. */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

static int cpu_memory_new(void **out, backend *b, size_t bytes, ckpt_error *err)
{
    const size_t alignment = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : BACKEND_ALIGNMENT;
    uint64_t room;
    void *memory = NULL;
    (void)b;

    /* aligned_alloc wants a multiple of the alignment; and nothing is no memory. */
    if (checked_add(&room, bytes ? bytes : 1, alignment - 1) && room <= SIZE_MAX) {
        room -= room % alignment;
        memory = aligned_alloc(alignment, (size_t)room);
    }
    *out = memory;
    if (!memory)
        return error_memory(err);
    if (alignment == HUGE_PAGE_BYTES)
        madvise(memory, (size_t)room, MADV_HUGEPAGE); /* a wish */
    memset(memory, 0, bytes);                         /* touches every page that is used */
    return 0;
}

static void cpu_memory_free(backend *b, void *memory)
{
    (void)b;
    free(memory);
}

static int copy(void *dst, const void *src, size_t bytes)
{
    if (bytes)
        memcpy(dst, src, bytes);
    return 0;
}

static int cpu_write(backend *b, void *device, const void *host, size_t bytes, ckpt_error *err)
{
    (void)b;
    (void)err;
    return copy(device, host, bytes);
}

static int cpu_read(backend *b, void *host, const void *device, size_t bytes, ckpt_error *err)
{
    (void)b;
    (void)err;
    return copy(host, device, bytes);
}

static int cpu_wait(backend *b, ckpt_error *err)
{
    (void)b;
    (void)err;
    return 0;
}

int cpu_gather(void *batch_rows, backend *b, const uint8_t *samples, size_t size, const uint32_t *indices, size_t count,
               size_t batch, float scale, ckpt_error *err)
{
    const cpu_backend *const c = (const cpu_backend *)b;
    gather_job job = {batch_rows, samples, size, indices, count, scale};
    (void)err;

    assert(count <= batch);
    cpu_run(c, c->passes->gather, &job, batch, PASS_VECTOR_UNIT / size + 1);
    return 0;
}

int cpu_adam(bool *finite, backend *b, const adam_memory *m, const adam_factors *f, ckpt_error *err)
{
    const cpu_backend *const c = (const cpu_backend *)b;
    const double t = (double)f->t;
    adam_job job = {.weights = m->weights,
                    .exp_avg = m->exp_avg,
                    .exp_avg_sq = m->exp_avg_sq,
                    .grads = m->grads,
                    .grad_share = (float)(1 - f->beta1),
                    .square_decay = (float)f->beta2,
                    .square_share = (float)(1 - f->beta2),
                    .step_size = (float)(f->lr / (1 - pow(f->beta1, t))),
                    .correction = (float)sqrt(1 - pow(f->beta2, t)),
                    .eps = (float)f->eps};
    (void)err;

    assert(f->t);
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
    unsigned threads = options ? options->threads : 0;
    cpu_backend *const c = calloc(1, sizeof *c);

    *out = NULL;
    FAIL_IF_NULL(c, err);
    if (!threads)
        TRY(pool_threads_default(&threads, err));
    FAIL_IF(threads > POOL_THREADS_MAX, err, CKPT_EUSAGE, "%u threads are more than %d", threads, POOL_THREADS_MAX);
    TRY(onednn_new(&c->onednn, threads, options ? options->isa : NULL, err));
    c->base = (backend){
        .name = "cpu",
        .threads = threads,
        .op_new = cpu_op_new,
        .loss = cpu_loss,
        .gather = cpu_gather,
        .adam = cpu_adam,
        .memory_new = cpu_memory_new,
        .memory_free = cpu_memory_free,
        .write = cpu_write,
        .read = cpu_read,
        .memory_is_host = true,
        .wait = cpu_wait,
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
