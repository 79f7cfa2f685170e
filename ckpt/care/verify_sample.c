/* A sample of all chunks, decoded. Whether a chunk is in it follows from its pack, its place and a number, so that the
 * same number finds the same fault again. */
#include "verify.h"

#include "array.h"
#include "bytes.h"
#include "fail.h"
#include "random.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLE_POLL_MS 20

typedef struct sample_chunk {
    uint32_t pack; /* row in the reach */
    uint32_t frame, chunk;
} sample_chunk;

typedef struct sample {
    verifier *v;
    pack_set *set;
    sample_chunk *chunks;
    size_t count, capacity;
    uint64_t bytes;
    /* The one with the smallest number, for when none is small enough. */
    sample_chunk least;
    uint64_t least_number;
    bool any;
    atomic_size_t next;
    atomic_uint_fast64_t done_bytes;
    atomic_bool stop;
} sample;

typedef struct sample_fault {
    sample_chunk at;
    ckpt_error err;
} sample_fault;

/* Takes chunks until there are no more. */
typedef struct sampler {
    pool_task task; /* first, so that the task is the sampler */
    sample *sample;
    frame_reader *reader;
    unsigned char *chunk;
    sample_fault *faults;
    size_t fault_count, fault_capacity;
    int rc;
} sampler;

/* ---- Choosing --------------------------------------------------------------------------------------------------- */

static uint64_t chunk_number(uint64_t seed, const sha256 *name, uint32_t frame, uint32_t chunk)
{
    unsigned char bytes[8 + SHA256_SIZE + 4 + 4];

    store_u64(bytes, seed);
    memcpy(bytes + 8, name->bytes, SHA256_SIZE);
    store_u32(bytes + 40, frame);
    store_u32(bytes + 44, chunk);
    return xxh64_of(bytes, sizeof bytes);
}

static uint64_t chunk_bytes(const pack_frame *frame, uint32_t chunk)
{
    const uint64_t left = frame->size - (uint64_t)chunk * CODEC_CHUNK_BYTES;

    return left < CODEC_CHUNK_BYTES ? left : CODEC_CHUNK_BYTES;
}

static int chunk_take(sample *s, const sample_chunk *chunk, uint64_t bytes, ckpt_error *err)
{
    int rc = 0;
    sample_chunk *const grown = array_room(s->chunks, &s->capacity, s->count + 1, sizeof *grown);

    FAIL_IF_NULL(grown, err);
    s->chunks = grown;
    grown[s->count++] = *chunk;
    s->bytes += bytes;
out:
    return rc;
}

static int pack_choose(sample *s, uint32_t number, uint64_t limit, ckpt_error *err)
{
    int rc = 0;
    pack *p = NULL;
    ckpt_error why = {0};
    const reach_pack *const row = &s->v->reach.packs[number];

    if (pack_set_get(&p, s->set, &row->name, &why)) {
        TRY(error_pass_own(err, &why));
        goto out;
    }
    for (uint32_t f = 0; f < p->index.frame_count; f++)
        for (uint32_t c = 0; c < pack_frame_chunks(&p->index.frames[f]); c++) {
            const uint64_t n = chunk_number(s->v->result->seed, &row->name, f, c);
            const sample_chunk at = {number, f, c};
            if (n <= limit)
                TRY(chunk_take(s, &at, chunk_bytes(&p->index.frames[f], c), err));
            if (!s->any || n < s->least_number) {
                s->least = at;
                s->least_number = n;
            }
            s->any = true;
        }
out:
    return rc;
}

/* ---- Decoding --------------------------------------------------------------------------------------------------- */

static int fault_note(sampler *w, const sample_chunk *at, const ckpt_error *why)
{
    sample_fault *const grown = array_room(w->faults, &w->fault_capacity, w->fault_count + 1, sizeof *grown);

    if (!grown)
        return CKPT_ENOMEM;
    w->faults = grown;
    grown[w->fault_count++] = (sample_fault){*at, *why};
    return 0;
}

static void sampler_run(pool_task *task, unsigned worker)
{
    sampler *const w = (sampler *)task;
    sample *const s = w->sample;

    (void)worker;
    while (!w->rc && !atomic_load(&s->stop)) {
        const size_t i = atomic_fetch_add(&s->next, 1);
        if (i >= s->count)
            break;
        const sample_chunk *const at = &s->chunks[i];
        pack *p = NULL;
        ckpt_error why = {0};
        int failed = pack_set_get(&p, s->set, &s->v->reach.packs[at->pack].name, &why);
        if (!failed)
            failed = frame_read_chunk(w->chunk, w->reader, (frame_at){p, at->frame}, at->chunk, &why);
        if (failed)
            w->rc = fault_note(w, at, &why);
        else
            atomic_fetch_add(&s->done_bytes, chunk_bytes(&p->index.frames[at->frame], at->chunk));
    }
}

static int faults_judge(verifier *v, const sampler *w, ckpt_error *err)
{
    int rc = 0;
    char hex[SHA256_HEX_SIZE];

    for (size_t i = 0; i < w->fault_count; i++) {
        const sample_fault *const fault = &w->faults[i];
        reach_pack *const p = &v->reach.packs[fault->at.pack];
        TRY(error_pass_own(err, &fault->err));
        if (p->why)
            continue; /* one fault tells of the pack; its files tell the rest */
        p->why = strdup(fault->err.message);
        FAIL_IF_NULL(p->why, err);
        sha256_hex(hex, &p->name);
        TRY(verify_fault(v, &p->name, NULL, err, "%s", fault->err.message));
    }
out:
    return rc;
}

static int samplers_run(sample *s, sampler *workers, unsigned count, pool *p, ckpt_error *err)
{
    int rc = 0;
    const struct timespec pause = {.tv_nsec = SAMPLE_POLL_MS * 1000000};

    for (unsigned i = 0; i < count; i++) {
        sampler *const w = &workers[i];
        *w = (sampler){.task.run = sampler_run, .sample = s, .chunk = malloc(CODEC_CHUNK_BYTES)};
        FAIL_IF_NULL(w->chunk, err);
        TRY(frame_reader_new(&w->reader, s->set, err));
    }
    for (unsigned i = 0; i < count; i++)
        pool_submit(p, &workers[i].task);
    for (unsigned i = 0; i < count; i++) {
        while (!pool_done(p, &workers[i].task)) {
            TRY(verify_progress(s->v, atomic_exchange(&s->done_bytes, 0), err));
            nanosleep(&pause, NULL);
        }
        TRY(verify_progress(s->v, atomic_exchange(&s->done_bytes, 0), err));
        FAIL_IF(workers[i].rc, err, CKPT_ENOMEM, "no memory for faults");
        TRY(faults_judge(s->v, &workers[i], err));
    }
out:
    atomic_store(&s->stop, true);
    for (unsigned i = 0; i < count; i++) {
        if (workers[i].sample)
            pool_wait(p, &workers[i].task);
        frame_reader_free(workers[i].reader);
        free(workers[i].chunk);
        free(workers[i].faults);
    }
    return rc;
}

int verify_sample(verifier *v, double share, uint64_t seed, ckpt_error *err)
{
    int rc = 0;
    pool *p = NULL;
    sampler *workers = NULL;
    sample s = {.v = v};
    const uint64_t limit = share >= 1 ? UINT64_MAX : (uint64_t)(share * 0x1p64);

    v->result->seed = seed;
    while (v->result->seed == 0) {
        TRY(random_u64(&v->result->seed, err));
        v->result->seed >>= 32; /* short enough to be typed */
    }
    TRY(pack_set_new(&s.set, v->store->packs_dir, err));
    for (uint32_t i = 0; i < v->reach.count; i++)
        if (!v->reach.packs[i].why && verify_wants(v, &v->reach.packs[i]))
            TRY(pack_choose(&s, i, limit, err));
    if (s.count == 0 && s.any)
        TRY(chunk_take(&s, &s.least, 0, err));
    v->result->chunks = s.count;
    v->total_bytes += s.bytes;
    TRY(store_pool(&p, v->store, err));
    workers = calloc(pool_size(p), sizeof *workers);
    FAIL_IF_NULL(workers, err);
    TRY(samplers_run(&s, workers, pool_size(p), p, err));
out:
    free(workers);
    free(s.chunks);
    pack_set_free(s.set);
    return rc;
}
