#include "verify.h"

#include "fail.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define READ_BYTES   ((size_t)1 << 20)
#define READ_POLL_MS 20

/* What all tasks share; `read_bytes` is added up by the workers and told by the thread that waits. */
typedef struct pack_reader {
    const char *packs_dir;
    unsigned workers;
    unsigned char *buffers; /* READ_BYTES for each worker */
    sha256_stream **streams;
    atomic_uint_fast64_t read_bytes;
    atomic_bool stop;
} pack_reader;

typedef struct pack_task {
    pool_task task; /* first, so that the task is the pack_task */
    pack_reader *reader;
    reach_pack *pack;
    bool differs;
    int rc;
    ckpt_error err;
} pack_task;

static int pack_hash(sha256 *out, const pack_task *t, unsigned worker, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size;
    char path[FILE_PATH_MAX];
    pack_reader *const r = t->reader;
    unsigned char *const buffer = r->buffers + worker * READ_BYTES;

    TRY(pack_path(path, r->packs_dir, &t->pack->name, err));
    TRY(file_open(&fd, &size, path, err));
    sha256_restart(r->streams[worker]);
    for (uint64_t done = 0; done < size && !atomic_load(&r->stop);) {
        const size_t n = size - done < READ_BYTES ? (size_t)(size - done) : READ_BYTES;
        TRY(file_read_at(buffer, fd, done, n, path, err));
        sha256_update(r->streams[worker], buffer, n);
        atomic_fetch_add(&r->read_bytes, n);
        done += n;
    }
    sha256_finish(out, r->streams[worker]);
out:
    file_close(&fd);
    return rc;
}

static void pack_task_run(pool_task *task, unsigned worker)
{
    pack_task *const t = (pack_task *)task;
    sha256 hash;

    if (atomic_load(&t->reader->stop))
        return;
    t->rc = pack_hash(&hash, t, worker, &t->err);
    t->differs = t->rc == 0 && sha256_compare(&hash, &t->pack->name) != 0;
}

static int reader_open(pack_reader *r, const verifier *v, const pool *p, ckpt_error *err)
{
    int rc = 0;

    r->packs_dir = v->store->packs_dir;
    r->workers = pool_size(p);
    r->buffers = malloc(r->workers * READ_BYTES);
    r->streams = calloc(r->workers, sizeof *r->streams);
    FAIL_IF_NULL(r->buffers, err);
    FAIL_IF_NULL(r->streams, err);
    for (unsigned i = 0; i < r->workers; i++) {
        r->streams[i] = sha256_new();
        FAIL_IF_NULL(r->streams[i], err);
    }
out:
    return rc;
}

static void reader_close(pack_reader *r)
{
    for (unsigned i = 0; r->streams && i < r->workers; i++)
        sha256_free(r->streams[i]);
    free(r->streams);
    free(r->buffers);
}

static int bytes_tell(verifier *v, pack_reader *r, ckpt_error *err)
{
    const uint64_t bytes = atomic_exchange(&r->read_bytes, 0);

    v->result->bytes_read += bytes;
    return verify_progress(v, bytes, err);
}

/* Waits for one task, telling the progress of all meanwhile. */
static int task_await(verifier *v, pack_reader *r, pool *p, pack_task *t, ckpt_error *err)
{
    int rc = 0;
    const struct timespec pause = {.tv_nsec = READ_POLL_MS * 1000000};

    while (!pool_done(p, &t->task)) {
        TRY(bytes_tell(v, r, err));
        nanosleep(&pause, NULL);
    }
    TRY(bytes_tell(v, r, err));
out:
    return rc;
}

static int task_judge(verifier *v, const pack_task *t, ckpt_error *err)
{
    int rc = 0;
    const char *const why = t->rc ? t->err.message : "its bytes are not those of its name";
    char hex[SHA256_HEX_SIZE];

    if (!t->rc && !t->differs) {
        TRY(hash_set_add(&v->read, &t->pack->name, err));
        v->result->packs_read++;
        goto out;
    }
    if (t->rc)
        TRY(error_pass_own(err, &t->err));
    sha256_hex(hex, &t->pack->name);
    t->pack->why = strdup(why);
    FAIL_IF_NULL(t->pack->why, err);
    TRY(verify_fault(v, &t->pack->name, NULL, err, "pack %.8s: %s", hex, why));
out:
    return rc;
}

static bool is_to_read(verifier *v, const reach_pack *p)
{
    if (p->why || !verify_wants(v, p))
        return false;
    if (!hash_set_has(&v->read, &p->name))
        return true;
    v->result->skipped_packs++;
    return false;
}

int verify_packs(verifier *v, ckpt_error *err)
{
    int rc = 0;
    pool *p = NULL;
    pack_reader r = {0};
    const uint32_t count = v->reach.count;
    pack_task *const tasks = calloc(count ? count : 1, sizeof *tasks);
    bool *const submitted = calloc(count ? count : 1, sizeof *submitted);

    FAIL_IF_NULL(tasks, err);
    FAIL_IF_NULL(submitted, err);
    TRY(store_pool(&p, v->store, err));
    TRY(reader_open(&r, v, p, err));
    for (uint32_t i = 0; i < count; i++) {
        tasks[i] = (pack_task){.task.run = pack_task_run, .reader = &r, .pack = &v->reach.packs[i]};
        submitted[i] = is_to_read(v, &v->reach.packs[i]);
        if (submitted[i])
            pool_submit(p, &tasks[i].task);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!submitted[i])
            continue;
        TRY(task_await(v, &r, p, &tasks[i], err));
        TRY(task_judge(v, &tasks[i], err));
    }
out:
    atomic_store(&r.stop, true);
    for (uint32_t i = 0; tasks && p && i < count; i++)
        pool_wait(p, &tasks[i].task);
    reader_close(&r);
    free(submitted);
    free(tasks);
    return rc;
}
