#include "frame_coder.h"

#include "fail.h"
#include "thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct coder_slot {
    pool_task task; /* first, so that the task is the slot */
    frame_coder *coder;
    unsigned char *data, *coded; /* CODEC_CHUNK_BYTES, CODEC_CHUNK_CODED_MAX */
    const unsigned char *bytes;  /* of the chunk: data, or lent by the caller */
    size_t size, coded_size;
    uint64_t xxh64;
    codec_plan plan;
    frame_at reference; /* pack is NULL without one */
    const kept_frames *kept;
    uint32_t frame, chunk;
    bool first, last; /* of its frame */
    pack_frame row;   /* of the frame, when first */
    int rc;
    ckpt_error err;
} coder_slot;

/* slots[filled % count] is the caller's next one, slots[written % count] the writer thread's; written <= filled. */
struct frame_coder {
    pool *pool;
    frame_reader **readers;     /* one a worker */
    unsigned char **references; /* one a worker: a decoded reference chunk */
    coder_slot *slots;
    unsigned slot_count, worker_count;
    const kept_frames *kept; /* the caller's thread looks at it only */
    pack_writer *writer;
    sha256_stream *frame_stream;
    uint32_t next_frame;
    struct { /* the frame being filled */
        pack_frame row;
        codec_plan plan;
        frame_at reference;
        uint64_t filled_bytes;
        uint32_t number, chunk;
    } current;

    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t filled, written;
    bool stop;
    int rc; /* the first failure; from then on slots are only thrown away */
    ckpt_error err;
};

/* The decoded chunk that the slot's is coded against; NULL when it is damaged. */
static const void *slot_reference(const coder_slot *slot, unsigned worker)
{
    const frame_coder *const c = slot->coder;
    const uint64_t offset = (uint64_t)slot->chunk * CODEC_CHUNK_BYTES;
    const void *const kept = kept_chunk(slot->kept, slot->reference, slot->chunk, slot->size);

    if (kept)
        return kept;
    if (frame_read(c->references[worker], c->readers[worker], slot->reference, offset, slot->size, NULL))
        return NULL;
    return c->references[worker];
}

static void slot_code(pool_task *task, unsigned worker)
{
    coder_slot *const slot = (coder_slot *)task;
    frame_coder *const c = slot->coder;
    frame_reader *const reader = c->readers[worker];
    const void *const reference = slot->reference.pack ? slot_reference(slot, worker) : NULL;
    int rc = 0;

    if (slot->reference.pack && !reference) /* costs space, never a save: the chunk is coded by itself */
        slot->plan.mode = CODEC_PLANES;
    TRY(codec_encode(&slot->coded_size, slot->coded, frame_reader_codec(reader), &slot->plan, slot->bytes, slot->size,
                     reference, &slot->err));
    slot->xxh64 = xxh64_of(slot->bytes, slot->size);
out:
    slot->rc = rc;
}

static int slot_write(frame_coder *c, coder_slot *slot, ckpt_error *err)
{
    int rc = 0;

    if (slot->rc) {
        if (err)
            *err = slot->err;
        return slot->rc;
    }
    if (slot->first) {
        uint32_t number = 0;
        TRY(pack_writer_frame(&number, c->writer, &slot->row, err));
        assert(number == slot->frame);
        sha256_restart(c->frame_stream);
    }
    TRY(pack_writer_chunk_of(c->writer, slot->coded, slot->coded_size, slot->xxh64, c->frame_stream, slot->bytes,
                             slot->size, err));
    if (slot->last)
        sha256_finish(&c->writer->index.frames[slot->frame].hash, c->frame_stream);
out:
    return rc;
}

static void *writer_main(void *payload)
{
    frame_coder *const c = payload;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (c->written == c->filled && !c->stop)
            pthread_cond_wait(&c->changed, &c->lock);
        if (c->written == c->filled)
            break;
        coder_slot *const slot = &c->slots[c->written % c->slot_count];
        const bool failed = c->rc != 0;
        pthread_mutex_unlock(&c->lock);

        pool_wait(c->pool, &slot->task);
        ckpt_error err = {0};
        const int rc = failed ? 0 : slot_write(c, slot, &err);

        pthread_mutex_lock(&c->lock);
        if (rc && !c->rc) {
            c->rc = rc;
            c->err = err;
        }
        c->written++;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int frame_coder_new(frame_coder **out, pool *p, pack_set *packs, ckpt_error *err)
{
    int rc = 0;
    frame_coder *c = calloc(1, sizeof *c);

    FAIL_IF_NULL(c, err);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->pool = p;
    c->worker_count = pool_size(p);
    c->readers = calloc(c->worker_count, sizeof *c->readers);
    c->references = calloc(c->worker_count, sizeof *c->references);
    c->slots = calloc(FRAME_CODER_SLOTS(c->worker_count), sizeof *c->slots);
    c->frame_stream = sha256_new();
    FAIL_IF_NULL(c->readers && c->references && c->slots && c->frame_stream, err);
    for (unsigned i = 0; i < c->worker_count; i++) {
        TRY(frame_reader_new(&c->readers[i], packs, err));
        c->references[i] = malloc(CODEC_CHUNK_BYTES);
        FAIL_IF_NULL(c->references[i], err);
    }
    while (c->slot_count < FRAME_CODER_SLOTS(c->worker_count)) {
        coder_slot *const slot = &c->slots[c->slot_count++];
        slot->coder = c;
        slot->task.run = slot_code;
        slot->data = malloc(CODEC_CHUNK_BYTES);
        slot->coded = malloc(CODEC_CHUNK_CODED_MAX);
        FAIL_IF_NULL(slot->data && slot->coded, err);
    }
    TRY(thread_start(&c->thread, writer_main, c, err));
    c->thread_runs = true;
    *out = c;
    c = NULL;
out:
    frame_coder_free(c);
    return rc;
}

void frame_coder_free(frame_coder *c)
{
    if (!c)
        return;
    if (c->thread_runs) {
        pthread_mutex_lock(&c->lock);
        c->stop = true;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
        pthread_join(c->thread, NULL);
    }
    for (unsigned i = 0; i < c->slot_count; i++) {
        free(c->slots[i].data);
        free(c->slots[i].coded);
    }
    for (unsigned i = 0; i < c->worker_count; i++) {
        if (c->readers)
            frame_reader_free(c->readers[i]);
        if (c->references)
            free(c->references[i]);
    }
    free(c->readers);
    free(c->references);
    free(c->slots);
    sha256_free(c->frame_stream);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void frame_coder_forget(frame_coder *c)
{
    assert(c->written == c->filled);
    for (unsigned i = 0; i < c->worker_count; i++)
        frame_reader_forget(c->readers[i]);
}

void frame_coder_keep(frame_coder *c, const kept_frames *kept)
{
    c->kept = kept;
}

void frame_coder_target(frame_coder *c, pack_writer *writer)
{
    assert(c->written == c->filled);
    c->writer = writer;
    c->next_frame = writer->index.frame_count;
}

int frame_coder_begin(uint32_t *number, frame_coder *c, const pack_frame *frame, const codec_plan *plan,
                      const frame_at *reference, ckpt_error *err)
{
    assert(frame->size > 0 && frame->size <= PACK_FRAME_BYTES_MAX);
    if (c->next_frame == UINT32_MAX - 1)
        return error_set(err, CKPT_EUSAGE, "too many tensors in one save");
    c->current.row = *frame;
    c->current.plan = *plan;
    c->current.reference = reference ? *reference : (frame_at){0};
    c->current.filled_bytes = 0;
    c->current.chunk = 0;
    c->current.number = c->next_frame++;
    *number = c->current.number;
    return 0;
}

int frame_coder_chunk(unsigned char **data, size_t *size, frame_coder *c, ckpt_error *err)
{
    const uint64_t left = c->current.row.size - c->current.filled_bytes;
    int rc = 0;

    assert(left > 0);
    pthread_mutex_lock(&c->lock);
    while (c->filled - c->written == c->slot_count)
        pthread_cond_wait(&c->changed, &c->lock);
    if (c->rc && err)
        *err = c->err;
    rc = c->rc;
    pthread_mutex_unlock(&c->lock);

    coder_slot *const slot = &c->slots[c->filled % c->slot_count];
    slot->size = left < CODEC_CHUNK_BYTES ? (size_t)left : CODEC_CHUNK_BYTES;
    slot->bytes = slot->data;
    *data = slot->data;
    *size = slot->size;
    return rc;
}

void frame_coder_lend(frame_coder *c, const void *bytes)
{
    c->slots[c->filled % c->slot_count].bytes = bytes;
}

int frame_coder_submit(frame_coder *c, ckpt_error *err)
{
    coder_slot *const slot = &c->slots[c->filled % c->slot_count];
    int rc = 0;

    slot->plan = c->current.plan;
    slot->plan.grid.first_byte += c->current.filled_bytes;
    slot->reference = c->current.reference;
    slot->kept = c->kept;
    slot->frame = c->current.number;
    slot->chunk = c->current.chunk++;
    slot->plan.check = true;
    slot->first = c->current.filled_bytes == 0;
    if (slot->first)
        slot->row = c->current.row;
    c->current.filled_bytes += slot->size;
    slot->last = c->current.filled_bytes == c->current.row.size;
    slot->rc = 0;
    pool_submit(c->pool, &slot->task);

    pthread_mutex_lock(&c->lock);
    c->filled++;
    if (c->rc && err)
        *err = c->err;
    rc = c->rc;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

int frame_coder_pad(frame_coder *c, ckpt_error *err)
{
    int rc = 0;

    while (c->current.filled_bytes < c->current.row.size) {
        unsigned char *data = NULL;
        size_t size = 0;
        TRY(frame_coder_chunk(&data, &size, c, err));
        memset(data, 0, size);
        TRY(frame_coder_submit(c, err));
    }
out:
    return rc;
}

size_t frame_coder_faults(const frame_coder *c)
{
    size_t faults = 0;

    for (unsigned i = 0; i < c->worker_count; i++)
        faults += codec_faults(frame_reader_codec(c->readers[i]));
    return faults;
}

int frame_coder_drain(frame_coder *c, ckpt_error *err)
{
    pthread_mutex_lock(&c->lock);
    while (c->written != c->filled)
        pthread_cond_wait(&c->changed, &c->lock);
    if (c->rc && err)
        *err = c->err;
    const int rc = c->rc;
    pthread_mutex_unlock(&c->lock);
    return rc;
}
