#include "content.h"

#include "fail.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct direct direct;

/* A unit that the pool decodes straight into the caller's memory. */
typedef struct direct_task {
    pool_task task; /* first, so that the task is this struct */
    direct *owner;
    content_unit unit;
    unsigned char *dst;
} direct_task;

/* A tensor of the content by its name. */
typedef struct named_tensor {
    const char *name;
    size_t number;
} named_tensor;

struct direct {
    ckpt_content *content; /* borrowed */
    pool *pool;
    frame_reader **readers; /* one a worker */
    unsigned worker_count;
    named_tensor *names; /* sorted */
    direct_task *tasks;
    size_t task_count, submitted;

    atomic_bool failed; /* by the task whose `rc` and `err` these are: the first one */
    int rc;
    ckpt_error err;
};

static void direct_decode(pool_task *task, unsigned worker)
{
    direct_task *const t = (direct_task *)task;
    direct *const d = t->owner;
    ckpt_error err = {0};

    if (atomic_load(&d->failed))
        return;
    const int rc = content_unit_decode(t->dst, d->readers[worker], &t->unit, &err);
    if (rc && !atomic_exchange(&d->failed, true)) {
        d->rc = rc;
        d->err = err;
    }
}

/* ---- Names ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const named_tensor *)a)->name, ((const named_tensor *)b)->name);
}

static int names_sort(direct *d, ckpt_error *err)
{
    int rc = 0;
    const ckpt_content *const c = d->content;

    d->names = calloc(c->tensor_count + 1, sizeof *d->names);
    FAIL_IF_NULL(d->names, err);
    for (size_t i = 0; i < c->tensor_count; i++)
        d->names[i] = (named_tensor){c->tensors[i].name, i};
    qsort(d->names, c->tensor_count, sizeof *d->names, compare_names);
out:
    return rc;
}

/* The only tensor of this name. */
static int find_name(const named_tensor **out, const direct *d, const char *name, ckpt_error *err)
{
    int rc = 0;
    const ckpt_content *const c = d->content;
    const named_tensor wanted = {.name = name}, *const end = d->names + c->tensor_count;
    const named_tensor *const found = bsearch(&wanted, d->names, c->tensor_count, sizeof *d->names, compare_names);

    if (!found) {
        rc = error_set(err, CKPT_ENOTFOUND, "no tensor named %s", name);
        error_hint(err, "ckpt_content_tensor() tells the names that are there");
        goto out;
    }
    const named_tensor *const other = found > d->names && compare_names(found - 1, found) == 0  ? found - 1
                                      : found + 1 < end && compare_names(found, found + 1) == 0 ? found + 1
                                                                                                : NULL;
    if (other) {
        const char *const path = c->files[c->tensors[found->number].file].info.path;
        const char *const other_path = c->files[c->tensors[other->number].file].info.path;
        rc = error_set(err, CKPT_EUSAGE, "%s is in %s and in %s", name, path, other_path);
        error_hint(err, "ckpt_content_read() reads a tensor by its number");
        goto out;
    }
    *out = found;
out:
    return rc;
}

/* Which tensor of the content is meant, and does it fit the caller's? */
static int find_tensor(size_t *out, const direct *d, const ckpt_tensor *wanted, ckpt_error *err)
{
    int rc = 0;
    const named_tensor *found = NULL;

    TRY(find_name(&found, d, wanted->name, err));
    const ckpt_tensor_info *const t = &d->content->tensors[found->number];
    FAIL_IF(t->dtype != wanted->dtype, err, CKPT_EUSAGE, "%s is %s, not %s", t->name, ckpt_dtype_name(t->dtype),
            ckpt_dtype_name(wanted->dtype) ? ckpt_dtype_name(wanted->dtype) : "of an unknown type");
    FAIL_IF(t->rank != wanted->rank || memcmp(t->shape, wanted->shape, t->rank * sizeof *t->shape) != 0, err,
            CKPT_EUSAGE, "%s has another shape", t->name);
    *out = found->number;
out:
    return rc;
}

/* ---- Decoding ---- */

/* Walks over the large units of a tensor, or counts them when there are no tasks yet. */
static int direct_plan(direct *d, size_t tensor, unsigned char *dst, ckpt_error *err)
{
    int rc = 0;
    const ckpt_tensor_info *const t = &d->content->tensors[tensor];
    const uint64_t offset = d->content->tensor_offsets[tensor];

    for (uint64_t done = 0; done < t->bytes && t->contiguous;) {
        content_unit u;
        TRY(content_unit_at(&u, d->content, t->file, offset + done, t->bytes - done, err));
        if (u.size > CONTENT_SMALL_BYTES) {
            if (d->tasks)
                d->tasks[d->task_count] =
                    (direct_task){.task.run = direct_decode, .owner = d, .unit = u, .dst = dst + done};
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
        if (u.size <= CONTENT_SMALL_BYTES)
            TRY(content_read_bytes(dst + done, d->content, t->file, offset + done, u.size, err));
        done += u.size;
    }
out:
    return rc;
}

static int direct_open(direct *d, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;

    TRY(names_sort(d, err));
    TRY(store_pool(&d->pool, store, err));
    d->worker_count = pool_size(d->pool);
    d->readers = calloc(d->worker_count, sizeof *d->readers);
    FAIL_IF_NULL(d->readers, err);
    for (unsigned i = 0; i < d->worker_count; i++)
        TRY(frame_reader_new(&d->readers[i], store->packs, err));
out:
    return rc;
}

static void direct_await(direct *d)
{
    for (; d->submitted > 0; d->submitted--)
        pool_wait(d->pool, &d->tasks[d->submitted - 1].task);
}

static void direct_close(direct *d)
{
    direct_await(d);
    for (unsigned i = 0; d->readers && i < d->worker_count; i++)
        frame_reader_free(d->readers[i]);
    free(d->readers);
    free(d->tasks);
    free(d->names);
}

typedef struct tensors_work {
    ckpt_store *store;
    const ckpt_tensor *tensors;
    size_t count;
    size_t *places; /* room for `count` numbers of tensors */
} tensors_work;

static int restore_content(void *payload, ckpt_content **content, ckpt_error *err)
{
    int rc = 0;
    const tensors_work *const work = payload;
    direct d = {.content = *content};

    TRY(direct_open(&d, work->store, err));
    for (size_t i = 0; i < work->count; i++) {
        TRY(find_tensor(&work->places[i], &d, &work->tensors[i], err));
        TRY(direct_plan(&d, work->places[i], NULL, err));
    }
    d.tasks = calloc(d.task_count + 1, sizeof *d.tasks);
    FAIL_IF_NULL(d.tasks, err);
    d.task_count = 0;
    for (size_t i = 0; i < work->count; i++)
        TRY(direct_plan(&d, work->places[i], work->tensors[i].data, err));
    for (; d.submitted < d.task_count; d.submitted++)
        pool_submit(d.pool, &d.tasks[d.submitted].task);
    for (size_t i = 0; i < work->count; i++)
        TRY(direct_small(&d, work->places[i], work->tensors[i].data, err));
    direct_await(&d);
    if (d.rc && err)
        *err = d.err;
    rc = d.rc;
out:
    direct_close(&d);
    return rc;
}

int ckpt_restore_tensors(ckpt_store *store, const char *name, const ckpt_tensor *tensors, size_t count, ckpt_error *err)
{
    int rc = 0;
    bool fell_back;
    tensors_work work = {store, tensors, count, calloc(count + 1, sizeof *work.places)};

    FAIL_IF_NULL(work.places, err);
    TRY(content_work(&fell_back, store, name ? name : "latest", restore_content, &work, err));
out:
    free(work.places);
    return rc;
}
