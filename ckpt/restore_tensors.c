#include "content.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

#define DIRECT_SMALL_BYTES ((size_t)64 << 10) /* smaller units are copied from kept chunks */

/* A chunk that the pool decodes straight into the caller's memory. */
typedef struct direct_task {
    pool_task task; /* first, so that the task is this struct */
    frame_reader *const *readers;
    content_unit unit;
    unsigned char *dst;
    int rc;
    ckpt_error err;
} direct_task;

static void direct_decode(pool_task *task, unsigned worker)
{
    direct_task *const d = (direct_task *)task;
    const content_unit *const u = &d->unit;
    const uint64_t start = (uint64_t)u->chunk * CODEC_CHUNK_BYTES;
    const uint64_t frame_left = u->at.pack->index.frames[u->at.frame].size - start;

    if (u->from == 0 && (u->size == CODEC_CHUNK_BYTES || u->size == frame_left))
        d->rc = frame_read_chunk(d->dst, d->readers[worker], u->at, u->chunk, &d->err);
    else
        d->rc = frame_read(d->dst, d->readers[worker], u->at, start + u->from, u->size, &d->err);
}

typedef struct direct {
    ckpt_content *content;
    pool *pool;
    frame_reader **readers;
    unsigned worker_count;
    direct_task *tasks;
    size_t task_count, submitted;
} direct;

/* Which tensor of the content is meant, and does it fit the caller's? */
static int find_tensor(size_t *out, const ckpt_content *c, const ckpt_tensor *wanted, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < c->tensor_count; i++) {
        const ckpt_tensor_info *const t = &c->tensors[i];
        if (strcmp(t->name, wanted->name) != 0)
            continue;
        FAIL_IF(t->dtype != wanted->dtype, err, CKPT_EUSAGE, "%s is %s, not %s", t->name, ckpt_dtype_name(t->dtype),
                ckpt_dtype_name(wanted->dtype) ? ckpt_dtype_name(wanted->dtype) : "of an unknown type");
        FAIL_IF(t->rank != wanted->rank || memcmp(t->shape, wanted->shape, t->rank * sizeof *t->shape) != 0, err,
                CKPT_EUSAGE, "%s has another shape", t->name);
        *out = i;
        goto out;
    }
    rc = error_set(err, CKPT_ENOTFOUND, "no tensor named %s", wanted->name);
    error_hint(err, "ckpt show --tensors lists the names");
out:
    return rc;
}

/* Walks over the large units of a tensor, or counts them when there are no tasks yet. */
static int direct_plan(direct *d, size_t tensor, unsigned char *dst, ckpt_error *err)
{
    int rc = 0;
    const ckpt_tensor_info *const t = &d->content->tensors[tensor];
    const uint64_t offset = d->content->tensor_offsets[tensor];

    for (uint64_t done = 0; done < t->bytes && t->contiguous;) {
        content_unit u;
        TRY(content_unit_at(&u, d->content, t->file, offset + done, t->bytes - done, err));
        if (u.size > DIRECT_SMALL_BYTES) {
            if (d->tasks)
                d->tasks[d->task_count] =
                    (direct_task){.task.run = direct_decode, .readers = d->readers, .unit = u, .dst = dst + done};
            d->task_count++;
        }
        done += u.size;
    }
out:
    return rc;
}

/* What the pool does not do: small units and tensors whose elements do not stand in row-major order. */
static int direct_small(direct *d, size_t tensor, unsigned char *dst, ckpt_error *err)
{
    int rc = 0;
    const ckpt_tensor_info *const t = &d->content->tensors[tensor];
    const uint64_t offset = d->content->tensor_offsets[tensor];

    if (!t->contiguous)
        return ckpt_content_read(dst, d->content, tensor, 0, t->bytes / ckpt_dtype_size(t->dtype), err);
    for (uint64_t done = 0; done < t->bytes;) {
        content_unit u;
        TRY(content_unit_at(&u, d->content, t->file, offset + done, t->bytes - done, err));
        if (u.size <= DIRECT_SMALL_BYTES)
            TRY(content_read_bytes(dst + done, d->content, t->file, offset + done, u.size, err));
        done += u.size;
    }
out:
    return rc;
}

static int direct_open(direct *d, ckpt_store *store, const char *name, ckpt_error *err)
{
    int rc = 0;

    TRY(ckpt_content_open(&d->content, store, name, err));
    TRY(store_pool(&d->pool, store, err));
    d->worker_count = pool_size(d->pool);
    d->readers = calloc(d->worker_count, sizeof *d->readers);
    FAIL_IF_NULL(d->readers, err);
    for (unsigned i = 0; i < d->worker_count; i++)
        TRY(frame_reader_new(&d->readers[i], store->packs, err));
out:
    return rc;
}

static void direct_close(direct *d)
{
    for (size_t i = 0; i < d->submitted; i++)
        pool_wait(d->pool, &d->tasks[i].task);
    for (unsigned i = 0; d->readers && i < d->worker_count; i++)
        frame_reader_free(d->readers[i]);
    free(d->readers);
    free(d->tasks);
    ckpt_content_close(d->content);
}

int ckpt_restore_tensors(ckpt_store *store, const char *name, const ckpt_tensor *tensors, size_t count, ckpt_error *err)
{
    int rc = 0;
    direct d = {0};
    size_t *const places = calloc(count + 1, sizeof *places);

    FAIL_IF_NULL(places, err);
    TRY(direct_open(&d, store, name, err));
    for (size_t i = 0; i < count; i++) {
        TRY(find_tensor(&places[i], d.content, &tensors[i], err));
        TRY(direct_plan(&d, places[i], NULL, err));
    }
    d.tasks = calloc(d.task_count + 1, sizeof *d.tasks);
    FAIL_IF_NULL(d.tasks, err);
    d.task_count = 0;
    for (size_t i = 0; i < count; i++)
        TRY(direct_plan(&d, places[i], tensors[i].data, err));
    for (; d.submitted < d.task_count; d.submitted++)
        pool_submit(d.pool, &d.tasks[d.submitted].task);
    for (size_t i = 0; i < count; i++)
        TRY(direct_small(&d, places[i], tensors[i].data, err));
    for (size_t i = 0; i < d.task_count; i++) {
        pool_wait(d.pool, &d.tasks[i].task);
        if (d.tasks[i].rc) {
            rc = d.tasks[i].rc;
            if (err)
                *err = d.tasks[i].err;
            goto out;
        }
    }
out:
    direct_close(&d);
    free(places);
    return rc;
}
