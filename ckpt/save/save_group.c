#include "plan_shape.h"
#include "save_internal.h"

#include "bytes.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

/* A small piece on its way into a group: groups hold one class and one dtype, in the order of canonical names, so that
 * the same tensors make the same group whatever file they come from. */
typedef struct member {
    piece *piece;
    char class_name[TENSOR_CLASS_SIZE];
    const char *canonical; /* "" for the bytes between tensors, which stay in the order of the file */
    unsigned char *bytes;  /* inside the batch's memory */
} member;

typedef struct group {
    member *members;
    size_t count;
    uint64_t size;
    save_candidates candidates;
    codec_plan plan;
    frame_at reference;
} group;

static int member_compare(const void *a, const void *b)
{
    const member *const x = a, *const y = b;
    const bool x_tensor = x->piece->tensor >= 0, y_tensor = y->piece->tensor >= 0;

    if (x_tensor != y_tensor)
        return x_tensor ? -1 : 1;
    if (x->piece->dtype != y->piece->dtype)
        return x->piece->dtype < y->piece->dtype ? -1 : 1;
    int order = strcmp(x->class_name, y->class_name);
    if (!order)
        order = strcmp(x->canonical, y->canonical);
    if (!order)
        order = x->piece->offset < y->piece->offset ? -1 : 1;
    return order;
}

static bool same_group(const member *a, const member *b)
{
    return (a->piece->tensor >= 0) == (b->piece->tensor >= 0) && a->piece->dtype == b->piece->dtype &&
           strcmp(a->class_name, b->class_name) == 0;
}

static const char *group_class(const group *g)
{
    return g->members[0].class_name;
}

static pack_frame_kind group_kind(const group *g)
{
    return g->members[0].piece->tensor >= 0 ? FRAME_GROUP : FRAME_OTHER;
}

/* That of any member: counters of steps, which stay exact, may be among them. */
static pack_transform group_transform(const saver *s, const group *g)
{
    for (size_t i = 0; i < g->count; i++) {
        const pack_transform done = save_transform_of(s, g->members[i].piece);
        if (done != TRANSFORM_NONE)
            return done;
    }
    return TRANSFORM_NONE;
}

/* Takes the next group off a sorted list. */
static group group_next(member *members, size_t count)
{
    group g = {.members = members};

    while (g.count < count && same_group(members, &members[g.count]) &&
           g.size + members[g.count].piece->size <= SAVE_GROUP_BYTES_MAX)
        g.size += members[g.count++].piece->size;
    return g;
}

/* The group's bytes, one member behind the other. */
static void group_gather(unsigned char *dst, const group *g)
{
    for (size_t i = 0; i < g->count; i++) {
        memcpy(dst, g->members[i].bytes, g->members[i].piece->size);
        dst += g->members[i].piece->size;
    }
}

static void group_place(const group *g, uint32_t pack_number, uint32_t frame, bool is_new)
{
    uint64_t offset = 0;

    for (size_t i = 0; i < g->count; i++) {
        piece *const p = g->members[i].piece;
        p->pack = pack_number;
        p->frame = frame;
        p->frame_offset = offset;
        if (is_new && p->size >= LOOKUP_BYTES_MIN && p->hash.low == 0 && p->hash.high == 0)
            p->hash = xxh128_of(g->members[i].bytes, (size_t)p->size);
        p->placed = true;
        offset += p->size;
    }
}

/* The whole group may stand in the store already: the same tensors under another file name. */
static int group_share(bool *shared, saver *s, const group *g, const unsigned char *bytes, ckpt_error *err)
{
    int rc = 0;
    frame_at twins[REFERENCE_FILES_MAX];
    const size_t count = save_group_twins(twins, s, g->members[0].piece);

    *shared = false;
    for (size_t i = 0; i < count && !*shared; i++) {
        if (twins[i].pack->index.frames[twins[i].frame].size != g->size ||
            !save_equal(s, twins[i], 0, bytes, (size_t)g->size))
            continue;
        uint32_t number = 0;
        rc = save_use_frame(&number, s, twins[i], err);
        if (rc == CKPT_ENOTFOUND) { /* a prune was quicker */
            rc = error_clear(err);
            continue;
        }
        TRY(rc);
        group_place(g, number, twins[i].frame, false);
        s->shared_bytes += g->size;
        *shared = true;
    }
out:
    return rc;
}

/* Takes out of the group what is in the store by itself. */
static int group_share_members(saver *s, group *g, ckpt_error *err)
{
    int rc = 0;
    size_t kept = 0;

    for (size_t i = 0; i < g->count; i++) {
        piece *const p = g->members[i].piece;
        bool shared = false;
        if (p->size >= LOOKUP_BYTES_MIN) {
            p->hash = xxh128_of(g->members[i].bytes, (size_t)p->size);
            TRY(save_share(&shared, s, p, g->members[i].bytes, false, err));
        }
        if (shared)
            g->size -= p->size;
        else
            g->members[kept++] = g->members[i];
    }
    g->count = kept;
out:
    return rc;
}

static int group_plan(double *estimate, saver *s, group *g, const unsigned char *bytes, ckpt_error *err)
{
    save_candidates_for_group(&g->candidates, s, g->members[0].piece);
    return save_plan_choose(&g->plan, &g->reference, estimate, s, &g->candidates, group_class(g),
                            g->members[0].piece->dtype, 0, g->size, bytes, err);
}

static int group_code(saver *s, const group *g, const unsigned char *bytes, ckpt_error *err)
{
    int rc = 0;
    uint32_t frame = 0;
    unsigned char *slot = NULL;
    size_t size = 0;

    const save_frame kind = {group_kind(g), g->members[0].piece->dtype, group_class(g), group_transform(s, g)};
    TRY(save_frame_begin(&frame, s, &kind, g->size, &g->plan, g->reference, err));
    TRY(frame_coder_chunk(&slot, &size, s->scratch.coder, err));
    memcpy(slot, bytes, size);
    TRY(frame_coder_submit(s->scratch.coder, err));
    group_place(g, 0, frame, true);
    for (size_t i = 0; i < g->count; i++)
        TRY(save_remember(s, g->members[i].piece, err));
out:
    return rc;
}

static int group_store(saver *s, group *g, ckpt_error *err)
{
    int rc = 0;
    bool shared = false;

    group_gather(s->scratch.buffer, g);
    TRY(group_share(&shared, s, g, s->scratch.buffer, err));
    if (shared)
        goto out;
    TRY(group_share_members(s, g, err));
    if (g->count == 0)
        goto out;
    group_gather(s->scratch.buffer, g); /* what is left */
    TRY(group_plan(NULL, s, g, s->scratch.buffer, err));
    TRY(group_code(s, g, s->scratch.buffer, err));
out:
    return rc;
}

static void member_init(member *m, const saver *s, piece *p, unsigned char *bytes)
{
    *m = (member){.piece = p, .canonical = "", .bytes = bytes};
    save_class_of(m->class_name, s, p);
    if (p->tensor >= 0)
        m->canonical = tensor_name_canonical(s->file.tensors[p->tensor].name);
}

/* ---- Large pieces ---- */

static int piece_hash(bool *zero, saver *s, piece *p, ckpt_error *err)
{
    int rc = 0;
    xxh128_stream *stream = xxh128_new();

    *zero = true;
    FAIL_IF_NULL(stream, err);
    for (uint64_t done = 0; done < p->size;) {
        const size_t n = p->size - done < CODEC_CHUNK_BYTES ? (size_t)(p->size - done) : CODEC_CHUNK_BYTES;
        const void *bytes = save_view(s, p->offset + done, n);
        if (!bytes) {
            TRY(s->source->read(s->source, s->scratch.buffer, p->offset + done, n, err));
            bytes = s->scratch.buffer;
        }
        xxh128_update(stream, bytes, n);
        *zero = *zero && bytes_are_zero(bytes, n);
        done += n;
    }
    p->hash = xxh128_finish(stream);
out:
    xxh128_free(stream);
    return rc;
}

/* A shared piece still passes through the file's SHA-256; its hash is taken again, since the file may have changed. */
static int piece_pass(saver *s, const piece *p, hash128 expected, ckpt_error *err)
{
    int rc = 0;
    xxh128_stream *stream = xxh128_new();

    FAIL_IF_NULL(stream, err);
    for (uint64_t done = 0; done < p->size;) {
        const size_t n = p->size - done < CODEC_CHUNK_BYTES ? (size_t)(p->size - done) : CODEC_CHUNK_BYTES;
        TRY(save_read(s, s->scratch.buffer, p->offset + done, n, err));
        xxh128_update(stream, s->scratch.buffer, n);
        done += n;
    }
    const hash128 seen = xxh128_finish(stream);
    FAIL_IF(seen.low != expected.low || seen.high != expected.high, err, CKPT_ECHANGED, "%s changed while it was read",
            s->path);
out:
    xxh128_free(stream);
    return rc;
}

static int piece_code(saver *s, piece *p, ckpt_error *err)
{
    int rc = 0;
    save_candidates candidates;
    codec_plan plan;
    frame_at reference = {0};
    char class_name[TENSOR_CLASS_SIZE];
    uint32_t frame = 0;

    save_class_of(class_name, s, p);
    save_candidates_for_piece(&candidates, s, p);
    TRY(save_plan_choose(&plan, &reference, NULL, s, &candidates, class_name, p->dtype, p->offset, p->size, NULL, err));
    plan_shape(&plan, p->tensor >= 0 ? &s->file.tensors[p->tensor] : NULL, p->offset);
    const save_frame kind = {p->tensor >= 0 ? FRAME_TENSOR : FRAME_OTHER, p->dtype, class_name,
                             save_transform_of(s, p)};
    TRY(save_frame_begin(&frame, s, &kind, p->size, &plan, reference, err));
    for (uint64_t done = 0; done < p->size;) {
        unsigned char *slot = NULL;
        size_t n = 0;
        TRY(frame_coder_chunk(&slot, &n, s->scratch.coder, err));
        const void *const view = save_view(s, p->offset + done, n);
        if (view)
            frame_coder_lend(s->scratch.coder, view);
        TRY(view ? save_take(s, view, p->offset + done, n, err) : save_read(s, slot, p->offset + done, n, err));
        TRY(frame_coder_submit(s->scratch.coder, err));
        done += n;
    }
    p->pack = 0;
    p->frame = frame;
    p->frame_offset = 0;
    p->placed = true;
    TRY(save_remember(s, p, err));
out:
    return rc;
}

static int piece_store(saver *s, piece *p, ckpt_error *err)
{
    int rc = 0;
    bool zero = false, shared = false;

    TRY(piece_hash(&zero, s, p, err));
    const hash128 hash = p->hash;
    if (!zero) /* zeros cost nothing anyway */
        TRY(save_share(&shared, s, p, NULL, true, err));
    if (shared)
        TRY(piece_pass(s, p, hash, err));
    else
        TRY(piece_code(s, p, err));
    if (zero)
        p->hash = (hash128){0};
out:
    return rc;
}

/* ---- Both ---- */

static int groups_store(saver *s, member *members, size_t count, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < count;) {
        group g = group_next(members + i, count - i);
        i += g.count;
        TRY(group_store(s, &g, err));
    }
out:
    return rc;
}

int save_batch(saver *s, size_t first, size_t last, ckpt_error *err)
{
    int rc = 0;
    size_t small_count = 0, small_bytes = 0;
    member *members = NULL;
    unsigned char *bytes = NULL;

    for (size_t i = first; i < last; i++) {
        if (s->pieces[i].size <= SAVE_GROUP_PIECE_MAX) {
            small_count++;
            small_bytes += s->pieces[i].size;
        }
    }
    members = calloc(small_count + 1, sizeof *members);
    bytes = malloc(small_bytes + 1);
    FAIL_IF_NULL(members && bytes, err);

    size_t n = 0, at = 0;
    for (size_t i = first; i < last; i++) {
        piece *const p = &s->pieces[i];
        if (p->size > SAVE_GROUP_PIECE_MAX) {
            TRY(piece_store(s, p, err));
            continue;
        }
        TRY(save_read(s, bytes + at, p->offset, (size_t)p->size, err));
        member_init(&members[n++], s, p, bytes + at);
        at += p->size;
    }
    qsort(members, n, sizeof *members, member_compare);
    TRY(groups_store(s, members, n, err));
out:
    free(members);
    free(bytes);
    return rc;
}

/* Expected size of the pieces in their groups; members are sorted. */
static int split_estimate(double *bytes, saver *s, member *members, size_t count, ckpt_error *err)
{
    int rc = 0;

    *bytes = 0;
    for (size_t i = 0; i < count;) {
        group g = group_next(members + i, count - i);
        double share = 0;
        group_gather(s->scratch.buffer, &g);
        TRY(group_plan(&share, s, &g, s->scratch.buffer, err));
        *bytes += share * (double)g.size + 1; /* the mode of its chunk */
        i += g.count;
    }
out:
    return rc;
}

/* Codes the file as one piece or in its groups, whichever promises to be smaller. `all` stands for the one piece. */
static int small_file_code(bool *whole, saver *s, piece *all, unsigned char *bytes, ckpt_error *err)
{
    int rc = 0;
    double whole_share = 1, split_bytes = 0;
    member one;
    group as_one = {.members = &one, .count = 1, .size = all->size};
    member *const members = calloc(s->piece_count, sizeof *members);

    FAIL_IF_NULL(members, err);
    member_init(&one, s, all, bytes);
    TRY(group_plan(&whole_share, s, &as_one, bytes, err));
    for (size_t i = 0; i < s->piece_count; i++)
        member_init(&members[i], s, &s->pieces[i], bytes + s->pieces[i].offset);
    qsort(members, s->piece_count, sizeof *members, member_compare);
    if (s->piece_count > 1)
        TRY(split_estimate(&split_bytes, s, members, s->piece_count, err));
    *whole = s->piece_count == 1 || split_bytes >= whole_share * (double)all->size;
    if (*whole)
        TRY(group_code(s, &as_one, bytes, err));
    else
        TRY(groups_store(s, members, s->piece_count, err));
out:
    free(members);
    return rc;
}

int save_small_file(saver *s, ckpt_error *err)
{
    int rc = 0;
    const size_t size = (size_t)s->source->size;
    piece all = {.size = size, .tensor = -1, .dtype = CKPT_OPAQUE};
    bool whole = true;
    unsigned char *const bytes = malloc(size);

    FAIL_IF_NULL(bytes, err);
    TRY(save_read(s, bytes, 0, size, err));
    all.hash = xxh128_of(bytes, size);
    bool shared = save_share_twin(s, &all, bytes);
    if (!shared)
        TRY(save_share(&shared, s, &all, bytes, false, err));
    if (!shared)
        TRY(small_file_code(&whole, s, &all, bytes, err));
    if (whole) {
        s->pieces[0] = all;
        s->piece_count = 1;
    }
out:
    free(bytes);
    return rc;
}
