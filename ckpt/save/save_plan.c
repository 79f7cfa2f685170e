#include "save_internal.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_WINDOWS     2 /* of CODEC_SAMPLES_MAX: each costs a decoded chunk of every candidate */
#define SAMPLE_WINDOW      ((size_t)32 << 10)
#define SAMPLE_AGAIN_BYTES ((uint64_t)4 << 20) /* a class is sampled anew after so many bytes */
#define SAMPLE_SHARE_MIN   (1.0 / 64)          /* samples that cost less (zeros) say nothing about other tensors */

static void candidates_add(save_candidates *out, const saver *s, frame_at at, int rank)
{
    if (out->count == CODEC_REFERENCES_MAX || !reference_usable(&at, s->store->packs))
        return;
    for (unsigned i = 0; i < out->count; i++)
        if (out->at[i].pack == at.pack && out->at[i].frame == at.frame)
            return;
    out->at[out->count] = at;
    out->rank[out->count++] = rank;
}

void save_candidates_for_piece(save_candidates *out, const saver *s, const piece *p)
{
    frame_at at;

    out->count = 0;
    if (s->level == CKPT_LEVEL_FAST)
        return;
    for (size_t i = 0; i < s->candidate_count; i++) {
        const bool found =
            p->tensor >= 0 ? reference_tensor(&at, s->library, s->candidates[i], &s->file.tensors[p->tensor], p->number)
                           : reference_other(&at, s->library, s->candidates[i], p->offset);
        if (found)
            candidates_add(out, s, at, (int)i);
    }
}

static bool group_frame(frame_at *at, const saver *s, size_t candidate, const piece *p)
{
    return p->tensor >= 0 ? reference_group(at, s->library, s->candidates[candidate], &s->file.tensors[p->tensor])
                          : reference_other(at, s->library, s->candidates[candidate], p->offset);
}

void save_candidates_for_group(save_candidates *out, const saver *s, const piece *p)
{
    frame_at at;

    out->count = 0;
    for (size_t i = 0; i < s->candidate_count && s->level != CKPT_LEVEL_FAST; i++)
        if (group_frame(&at, s, i, p))
            candidates_add(out, s, at, (int)i);
}

size_t save_group_twins(frame_at out[REFERENCE_FILES_MAX], const saver *s, const piece *p)
{
    size_t n = 0;

    for (size_t i = 0; i < s->candidate_count; i++)
        n += group_frame(&out[n], s, i, p);
    return n;
}

static plan_memory *plan_recall(saver *s, const char *class_name, ckpt_dtype dtype)
{
    for (size_t i = 0; i < s->plan_count; i++)
        if (s->plans[i].dtype == dtype && strcmp(s->plans[i].class_name, class_name) == 0)
            return &s->plans[i];
    return NULL;
}

static void plan_remember(saver *s, const char *class_name, ckpt_dtype dtype, const codec_plan *plan, int rank,
                          unsigned candidates)
{
    plan_memory *m = plan_recall(s, class_name, dtype);

    if (!m && s->plan_count < SAVE_PLANS_MAX)
        m = &s->plans[s->plan_count++];
    if (!m)
        return;
    *m = (plan_memory){.dtype = dtype, .plan = *plan, .rank = rank, .candidates = candidates};
    memcpy(m->class_name, class_name, strlen(class_name) + 1);
}

/* Fits what was found for an earlier member of the class this frame too? */
static bool plan_reuse(codec_plan *plan, frame_at *reference, saver *s, const save_candidates *c,
                       const char *class_name, ckpt_dtype dtype, uint64_t size)
{
    plan_memory *const m = plan_recall(s, class_name, dtype);

    if (!m || size >= SAMPLE_AGAIN_BYTES || m->bytes_since + size > SAMPLE_AGAIN_BYTES)
        return false;
    if (c->count > m->candidates) /* a tensor that is new says nothing about one that is not */
        return false;
    reference->pack = NULL;
    for (unsigned i = 0; i < c->count && m->rank >= 0; i++)
        if (c->rank[i] == m->rank)
            *reference = c->at[i];
    if (m->rank >= 0 && !reference->pack)
        return false;
    m->bytes_since += size;
    *plan = m->plan;
    return true;
}

/* Windows of the frame: all of a small one, else some with as much between them. */
static size_t sample_windows(uint64_t at[CODEC_SAMPLES_MAX], size_t length[CODEC_SAMPLES_MAX], uint64_t size,
                             ckpt_level level)
{
    const size_t windows = level == CKPT_LEVEL_MAX ? CODEC_SAMPLES_MAX : SAMPLE_WINDOWS;
    const size_t window = level == CKPT_LEVEL_MAX ? CODEC_SAMPLE_BYTES : SAMPLE_WINDOW;

    if (size <= CODEC_SAMPLE_BYTES) {
        at[0] = 0;
        length[0] = (size_t)size;
        return 1;
    }
    for (size_t i = 0; i < windows; i++) {
        at[i] = size / (windows + 1) * (i + 1) / 8 * 8;
        length[i] = size - at[i] < window ? (size_t)(size - at[i]) : window;
    }
    return windows;
}

/* What a plan is wanted for. */
typedef struct plan_request {
    const save_candidates *candidates;
    ckpt_dtype dtype;
    uint64_t offset, size;
    const unsigned char *data; /* NULL: in the file */
} plan_request;

/* By coding samples; *chosen is the candidate, or -1. */
static int plan_sample(codec_plan *plan, int *chosen, double *share, saver *s, const plan_request *r, ckpt_error *err)
{
    int rc = 0;
    uint64_t at[CODEC_SAMPLES_MAX];
    size_t length[CODEC_SAMPLES_MAX];
    codec_sample samples[CODEC_SAMPLES_MAX] = {0};
    const save_candidates *const c = r->candidates;
    const size_t count = sample_windows(at, length, r->size, s->level);

    for (size_t i = 0; i < count; i++) {
        unsigned char *const window = s->scratch.sample + i * CODEC_SAMPLE_BYTES;
        samples[i].size = length[i];
        samples[i].data = r->data ? r->data + at[i] : window;
        if (!r->data)
            TRY(s->source->read(s->source, window, r->offset + at[i], length[i], err));
    }
    /* Candidates outside: windows of one chunk then decode it once. */
    for (unsigned k = 0; k < c->count; k++) {
        for (size_t i = 0; i < count; i++) {
            unsigned char *const room =
                s->scratch.sample_references + (i * CODEC_REFERENCES_MAX + k) * CODEC_SAMPLE_BYTES;
            if (kept_read(room, s->kept, c->at[k], at[i], length[i]) ||
                frame_read(room, s->scratch.reader, c->at[k], at[i], length[i], NULL) == 0)
                samples[i].reference[k] = room;
        }
    }
    TRY(codec_plan_choose(plan, chosen, share, frame_reader_codec(s->scratch.reader), r->dtype, samples, count,
                          c->count, err));
out:
    return rc;
}

int save_plan_choose(codec_plan *plan, frame_at *reference, double *estimate, saver *s, const save_candidates *c,
                     const char *class_name, ckpt_dtype dtype, uint64_t offset, uint64_t size,
                     const unsigned char *data, ckpt_error *err)
{
    int rc = 0, chosen = -1;
    double share = 1;
    const plan_request request = {c, dtype, offset, size, data};

    reference->pack = NULL;
    if (!estimate && s->level == CKPT_LEVEL_FAST && dtype != CKPT_OPAQUE) {
        *plan = codec_plan_fast(dtype);
        goto out;
    }
    if (!estimate && s->level != CKPT_LEVEL_MAX && plan_reuse(plan, reference, s, c, class_name, dtype, size))
        goto out;
    TRY(plan_sample(plan, &chosen, &share, s, &request, err));
    plan->thorough = s->level == CKPT_LEVEL_MAX;
    if (chosen >= 0)
        *reference = c->at[chosen];
    if (share >= SAMPLE_SHARE_MIN)
        plan_remember(s, class_name, dtype, plan, chosen >= 0 ? c->rank[chosen] : -1, c->count);
    if (estimate)
        *estimate = share;
out:
    return rc;
}

/* Number, among the packs of the open pack, of that of a reference. Only the packs of its chain are listed, not all
 * that its pack knows: else no pack would ever be free of the ones before. */
static int frame_use_reference(uint32_t *number, saver *s, frame_at reference, ckpt_error *err)
{
    int rc = 0;
    const pack *chain[REFERENCE_CHAIN_MAX];
    size_t count = 0;
    uint32_t ignored;

    TRY(reference_chain(chain, &count, s->store->packs, reference, err));
    for (size_t i = 0; i < count; i++)
        TRY(pack_index_add_pack(i ? &ignored : number, &s->writer.index, &chain[i]->name, err));
out:
    return rc;
}

int save_frame_begin(uint32_t *number, saver *s, const save_frame *frame, uint64_t size, const codec_plan *plan,
                     frame_at reference, ckpt_error *err)
{
    int rc = 0;
    pack_frame row = {.size = size,
                      .reference_pack = PACK_NONE,
                      .dtype = (uint8_t)frame->dtype,
                      .kind = (uint8_t)frame->kind,
                      .transform = (uint8_t)frame->transform};

    row.level = pack_level(plan->level, s->level);
    TRY(pack_index_add_string(&row.class_name, &s->writer.index, frame->class_name, err));
    if (reference.pack) {
        const pack_frame *const r = &reference.pack->index.frames[reference.frame];
        TRY(frame_use_reference(&row.reference_pack, s, reference, err));
        row.reference_frame = reference.frame;
        row.reference_hash = r->hash;
        row.depth = (uint8_t)(r->depth + 1);
    }
    TRY(frame_coder_begin(number, s->scratch.coder, &row, plan, reference.pack ? &reference : NULL, err));
    s->open_bytes += size;
out:
    return rc;
}
