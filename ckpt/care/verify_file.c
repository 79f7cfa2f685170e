/* Files decoded against their SHA-256. The bytes of all files of a checkpoint pass through slots: the pool decodes
 * several ahead, this thread hashes them in order.
 *
 *   files    | a.pt                      | b.json | c.pt ...
 *   extents  |  1  | 2 |        3        |   4    |
 *   units    |  1  | 2 |  3a   |   3b    |   4    |    see content.h
 *   slots    |    A    |   B   |    C    |   D    |    units of one file, at most CODEC_CHUNK_BYTES
 *
 * so that no large chunk is decoded twice. */
#include "verify.h"

#include "bytes.h"
#include "content.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX       (2 * STORE_WORKERS_MAX + 2) /* of CODEC_CHUNK_BYTES each */
#define SET_CHECKPOINTS 64                          /* then the indexes of all opened packs are dropped */

/* A place in the extents of a file. */
typedef struct cursor {
    uint32_t extent; /* in the index */
    uint64_t inside; /* the extent */
    uint64_t offset; /* in the file */
} cursor;

typedef struct slot {
    pool_task task; /* first, so that the task is the slot */
    struct file_verifier *owner;
    const pack_file *file;
    cursor from;
    size_t size;
    bool last;  /* of its file */
    sha256 key; /* of its file, for verifier.decoded */
    unsigned char *data;
    int rc;
    ckpt_error err;
} slot;

struct file_verifier {
    verifier *v;
    pool *pool;
    pack_set *set;
    frame_reader **readers; /* one for each worker, and one for this thread */
    unsigned workers, slot_count;
    slot slots[SLOTS_MAX];
    sha256_stream *stream, *key_stream;
    unsigned checkpoints; /* since the set was made */

    /* The checkpoint at work. */
    const snapshot_name *id;
    pack *own;
    uint32_t file; /* next to be cut into slots */
    cursor at;
    sha256 key;
    bool file_open;
    bool damaged; /* the file that is being hashed */
    bool *hurt;   /* tensors already named in a fault; NULL until one is hurt */
    size_t found;
};

/* ---- Units and slots ------------------------------------------------------------------------------------------ */

static void cursor_advance(cursor *at, const pack_index *index, size_t size)
{
    at->offset += size;
    at->inside += size;
    if (at->inside == index->extents[at->extent].size) {
        at->inside = 0;
        at->extent++;
    }
}

static size_t unit_size(const pack_index *index, const cursor *at)
{
    return content_unit_size(&index->extents[at->extent], at->inside);
}

static int unit_read(void *dst, frame_reader *reader, const file_verifier *f, const cursor *at, ckpt_error *err)
{
    int rc = 0;
    content_unit u;

    TRY(content_unit_place(&u, f->set, f->own, &f->own->index.extents[at->extent], at->inside, err));
    TRY(content_unit_decode(dst, reader, &u, err));
out:
    return rc;
}

static void slot_decode(pool_task *task, unsigned worker)
{
    slot *const p = (slot *)task;
    const file_verifier *const f = p->owner;
    cursor at = p->from;

    p->rc = 0;
    for (size_t done = 0; done < p->size && !p->rc;) {
        const size_t size = unit_size(&f->own->index, &at);
        p->rc = unit_read(p->data + done, f->readers[worker], f, &at, &p->err);
        cursor_advance(&at, &f->own->index, size);
        done += size;
    }
}

/* Names a file by its bytes and where they lie: what two checkpoints share is decoded once. */
static void file_key(sha256 *key, file_verifier *f, const pack_file *file)
{
    const pack_index *const index = &f->own->index;
    unsigned char number[8];

    sha256_restart(f->key_stream);
    sha256_update(f->key_stream, file->hash.bytes, sizeof file->hash.bytes);
    for (uint32_t i = 0; i < file->extent_count; i++) {
        const pack_extent *const e = &index->extents[file->extent_first + i];
        const sha256 *const name = e->pack == 0 ? &f->own->name : &index->packs[e->pack - 1];
        sha256_update(f->key_stream, name->bytes, sizeof name->bytes);
        store_u64(number, e->frame);
        sha256_update(f->key_stream, number, sizeof number);
        store_u64(number, e->frame_offset);
        sha256_update(f->key_stream, number, sizeof number);
        store_u64(number, e->size);
        sha256_update(f->key_stream, number, sizeof number);
    }
    sha256_finish(key, f->key_stream);
}

/* Moves on to the next file that has to be decoded; false when there is none. */
static int file_next(bool *more, file_verifier *f, ckpt_error *err)
{
    int rc = 0;
    const pack_index *const index = &f->own->index;

    for (; !f->file_open && f->file < index->file_count; f->file++) {
        const pack_file *const file = &index->files[f->file];
        if (file->kind != CKPT_FILE)
            continue;
        file_key(&f->key, f, file);
        if (hash_set_has(&f->v->decoded, &f->key)) {
            f->v->result->skipped_files += hash_set_has(&f->v->before, &f->key);
            TRY(verify_progress(f->v, file->size, err));
            continue;
        }
        f->at = (cursor){.extent = file->extent_first};
        f->file_open = true;
        break;
    }
    *more = f->file_open;
out:
    return rc;
}

/* Cuts the next slot; an empty file is one slot without bytes. */
static int slot_next(bool *more, slot *p, file_verifier *f, ckpt_error *err)
{
    int rc = 0;

    TRY(file_next(more, f, err));
    if (!*more)
        goto out;
    const pack_index *const index = &f->own->index;
    p->file = &index->files[f->file];
    p->from = f->at;
    p->size = 0;
    p->key = f->key;
    while (f->at.offset < p->file->size) {
        const size_t size = unit_size(index, &f->at);
        if (p->size + size > CODEC_CHUNK_BYTES)
            break;
        cursor_advance(&f->at, index, size);
        p->size += size;
    }
    p->last = f->at.offset == p->file->size;
    if (p->last) {
        f->file_open = false;
        f->file++;
    }
out:
    return rc;
}

/* ---- Damage ----------------------------------------------------------------------------------------------------- */

/* Which pack of a chunk's chain of references is the damaged or missing one: the deepest that fails. */
static void chain_culprit(sha256 *name, file_verifier *f, frame_at at, uint32_t chunk, unsigned char *scratch)
{
    for (unsigned depth = 0; depth <= PACK_DEPTH_READ_MAX; depth++) {
        const pack_index *const index = &at.pack->index;
        const pack_frame *const frame = &index->frames[at.frame];
        if (chunk >= pack_frame_chunks(frame) || !frame_read_chunk(scratch, f->readers[f->workers], at, chunk, NULL))
            return;
        *name = at.pack->name;
        if (frame->reference_pack == PACK_NONE)
            return;
        if (pack_set_follow(&at, f->set, at.pack, frame->reference_pack, frame->reference_frame, NULL)) {
            if (frame->reference_pack > 0)
                *name = index->packs[frame->reference_pack - 1];
            return;
        }
    }
}

static void unit_culprit(sha256 *name, file_verifier *f, const cursor *at, unsigned char *scratch)
{
    const pack_index *const index = &f->own->index;
    const pack_extent *const e = &index->extents[at->extent];
    frame_at place;

    *name = e->pack == 0 ? f->own->name : index->packs[e->pack - 1];
    if (pack_set_follow(&place, f->set, f->own, e->pack, e->frame, NULL) == 0)
        chain_culprit(name, f, place, (uint32_t)((e->frame_offset + at->inside) / CODEC_CHUNK_BYTES), scratch);
}

/* Do [a, a + a_size) and [b, b + b_size) have bytes in common? */
static bool overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
    return a_size > 0 && b_size > 0 && a < b + b_size && b < a + a_size;
}

/* One fault for each tensor that the bytes [offset, offset + size) of a file hurt and that was not named before; one
 * for the file where they belong to no tensor. */
static int hurt_report(file_verifier *f, const pack_file *file, uint64_t offset, size_t size, const sha256 *culprit,
                       const char *why, ckpt_error *err)
{
    int rc = 0;
    const pack_index *const index = &f->own->index;
    const char *const path = pack_string(index, file->path);
    bool any = false;

    if (!f->hurt)
        f->hurt = calloc((size_t)file->tensor_count + 1, sizeof *f->hurt); /* the last is for the bytes between */
    FAIL_IF_NULL(f->hurt, err);
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const pack_tensor *const tensor = &index->tensors[file->tensor_first + i];
        if (!overlap(offset, size, tensor->offset, tensor->span_bytes))
            continue;
        any = true;
        if (f->hurt[i])
            continue;
        f->hurt[i] = true;
        f->found++;
        TRY(verify_fault(f->v, culprit, f->id, err, "%s of %s: %s", pack_string(index, tensor->name), path, why));
    }
    if (!any && !f->hurt[file->tensor_count]) {
        f->hurt[file->tensor_count] = true;
        f->found++;
        TRY(verify_fault(f->v, culprit, f->id, err, "%s: %s", path, why));
    }
out:
    return rc;
}

/* Goes through a slot that failed unit by unit; p->data is free for scratch. */
static int slot_report(file_verifier *f, const slot *p, ckpt_error *err)
{
    int rc = 0;
    cursor at = p->from;
    sha256 culprit;
    ckpt_error why;

    for (size_t done = 0; done < p->size;) {
        const size_t size = unit_size(&f->own->index, &at);
        const int failed = unit_read(p->data, f->readers[f->workers], f, &at, &why);
        if (failed) {
            TRY(error_pass_own(err, &why));
            unit_culprit(&culprit, f, &at, p->data);
            TRY(hurt_report(f, p->file, at.offset, size, &culprit, why.message, err));
        }
        cursor_advance(&at, &f->own->index, size);
        done += size;
    }
out:
    return rc;
}

/* ---- The stream ------------------------------------------------------------------------------------------------- */

static int file_finish(file_verifier *f, const slot *p, ckpt_error *err)
{
    int rc = 0;
    sha256 hash;

    sha256_finish(&hash, f->stream);
    if (f->damaged && !f->hurt) { /* no slot of it failed twice */
        f->found++;
        TRY(verify_fault(f->v, &f->own->name, f->id, err, "%s: could not be read at the first attempt",
                         pack_string(&f->own->index, p->file->path)));
    }
    if (!f->damaged && sha256_compare(&hash, &p->file->hash) != 0) {
        f->damaged = true;
        f->found++;
        TRY(verify_fault(f->v, &f->own->name, f->id, err, "%s: its bytes are not those that were saved",
                         pack_string(&f->own->index, p->file->path)));
    }
    if (!f->damaged) {
        TRY(hash_set_add(&f->v->decoded, &p->key, err));
        f->v->result->files_decoded++;
    }
    free(f->hurt);
    f->hurt = NULL;
out:
    return rc;
}

static int slot_take(file_verifier *f, slot *p, ckpt_error *err)
{
    int rc = 0;

    pool_wait(f->pool, &p->task);
    if (p->from.offset == 0) {
        sha256_restart(f->stream);
        f->damaged = false;
    }
    if (p->rc) {
        TRY(error_pass_own(err, &p->err));
        f->damaged = true;
        TRY(slot_report(f, p, err));
    } else
        sha256_update(f->stream, p->data, p->size);
    TRY(verify_progress(f->v, p->size, err));
    if (p->last)
        TRY(file_finish(f, p, err));
out:
    return rc;
}

static int stream_run(file_verifier *f, ckpt_error *err)
{
    int rc = 0;
    size_t cut = 0, taken = 0;
    bool more = true;

    while (more || taken < cut) {
        while (more && cut - taken < f->slot_count) {
            slot *const p = &f->slots[cut % f->slot_count];
            TRY(slot_next(&more, p, f, err));
            if (more) {
                pool_submit(f->pool, &p->task);
                cut++;
            }
        }
        if (taken < cut) {
            TRY(slot_take(f, &f->slots[taken % f->slot_count], err));
            taken++;
        }
    }
out:
    for (unsigned i = 0; i < f->slot_count; i++) /* after an error they may still be at work */
        pool_wait(f->pool, &f->slots[i].task);
    free(f->hurt);
    f->hurt = NULL;
    return rc;
}

/* ---- Opening ---------------------------------------------------------------------------------------------------- */

static void set_close(file_verifier *f)
{
    for (unsigned i = 0; f->readers && i <= f->workers; i++)
        frame_reader_free(f->readers[i]);
    free(f->readers);
    f->readers = NULL;
    pack_set_free(f->set);
    f->set = NULL;
}

/* A set of packs of our own keeps their indexes; a new one now and then bounds the memory. */
static int set_open(file_verifier *f, ckpt_error *err)
{
    int rc = 0;

    TRY(pack_set_new(&f->set, f->v->store->packs_dir, err));
    f->readers = calloc((size_t)f->workers + 1, sizeof(frame_reader *));
    FAIL_IF_NULL(f->readers, err);
    for (unsigned i = 0; i <= f->workers; i++)
        TRY(frame_reader_new(&f->readers[i], f->set, err));
    f->checkpoints = 0;
out:
    return rc;
}

int file_verifier_new(file_verifier **out, verifier *v, ckpt_error *err)
{
    int rc = 0;
    file_verifier *f = calloc(1, sizeof *f);

    *out = NULL;
    FAIL_IF_NULL(f, err);
    f->v = v;
    TRY(store_pool(&f->pool, v->store, err));
    f->workers = pool_size(f->pool);
    f->stream = sha256_new();
    f->key_stream = sha256_new();
    FAIL_IF_NULL(f->stream, err);
    FAIL_IF_NULL(f->key_stream, err);
    const unsigned wanted = 2 * f->workers + 2; /* at most SLOTS_MAX */
    for (; f->slot_count < wanted; f->slot_count++) {
        slot *const p = &f->slots[f->slot_count];
        *p = (slot){.task.run = slot_decode, .owner = f, .data = malloc(CODEC_CHUNK_BYTES)};
        FAIL_IF_NULL(p->data, err);
    }
    TRY(set_open(f, err));
    *out = f;
    f = NULL;
out:
    file_verifier_free(f);
    return rc;
}

int file_verifier_run(size_t *found, file_verifier *f, const snapshot_name *id, const snapshot *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_error why;

    *found = 0;
    if (f->checkpoints++ == SET_CHECKPOINTS) {
        set_close(f);
        TRY(set_open(f, err));
    }
    f->id = id;
    f->file = 0;
    f->file_open = false;
    f->found = 0;
    if (pack_set_get(&f->own, f->set, &s->pack, &why)) {
        TRY(error_pass_own(err, &why));
        /* Without its tables there is nothing to decode; that was told before. */
        TRY(verify_progress(f->v, s->raw_bytes, err));
        goto out;
    }
    TRY(stream_run(f, err));
out:
    *found = f->found;
    return rc;
}

void file_verifier_free(file_verifier *f)
{
    if (!f)
        return;
    set_close(f);
    for (unsigned i = 0; i < f->slot_count; i++)
        free(f->slots[i].data);
    sha256_free(f->stream);
    sha256_free(f->key_stream);
    free(f);
}
