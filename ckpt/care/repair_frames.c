/* A pack whose damaged frames stand elsewhere.
 *
 *   pack P, frame 3 damaged      pack D, frame 9: the same SHA-256
 *
 * Often D has the very coded bytes, as when the files were saved again after the damage: put into P they make it whole.
 * Else P is written anew as P', with frame 3 coded from what D's frame decodes to. P' has another name, so each pack Q
 * that names P is written anew too, with nothing but that name changed, and the snapshots get new own packs. */
#include "repair.h"

#include "array.h"
#include "fail.h"
#include "lease.h"
#include "save_internal.h"
#include "setting.h"
#include "tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES ((size_t)1 << 20)

/* A damaged frame and where equal bytes are. */
typedef struct wound {
    uint32_t frame;
    sha256 hash;
    frame_at donor; /* pack is NULL: nobody has them */
    frame_reader *reader;
} wound;

/* A pack that was written anew. */
typedef struct renaming {
    sha256 from, to;
    uint64_t bytes; /* of the new one and its parity */
} renaming;

typedef struct surgery {
    repairer *r;
    const repair_patient *patient;
    pack_set *set, *other_set;           /* of both stores, as their packs are now */
    frame_reader *reader, *other_reader; /* the second ones are NULL without another store */
    pack *pack;                          /* the patient's, from `set` */
    unsigned char *chunk, *coded;
    wound *wounds;
    size_t wound_count, wound_capacity;
    renaming *renamings;
    size_t renaming_count, renaming_capacity;
    file_commit_plan plan;
} surgery;

/* ---- Damaged frames and equal ones ------------------------------------------------------------------------------ */

/* Decodes a frame; is it what its row says? */
static int frame_look(bool *good, surgery *s, frame_reader *reader, frame_at at, sha256_stream *stream, ckpt_error *err)
{
    int rc = 0;
    sha256 hash;
    ckpt_error why = {0};
    const pack_frame *const frame = &at.pack->index.frames[at.frame];

    *good = false;
    sha256_restart(stream);
    for (uint32_t i = 0; i < pack_frame_chunks(frame); i++) {
        const uint64_t left = frame->size - (uint64_t)i * CODEC_CHUNK_BYTES;
        if (frame_read_chunk(s->chunk, reader, at, i, &why)) {
            TRY(error_pass_own(err, &why));
            goto out;
        }
        sha256_update(stream, s->chunk, left < CODEC_CHUNK_BYTES ? (size_t)left : CODEC_CHUNK_BYTES);
    }
    sha256_finish(&hash, stream);
    *good = sha256_compare(&hash, &frame->hash) == 0;
out:
    return rc;
}

static int wounds_find(surgery *s, sha256_stream *stream, ckpt_error *err)
{
    int rc = 0;
    bool good;

    for (uint32_t i = 0; i < s->pack->index.frame_count; i++) {
        TRY(frame_look(&good, s, s->reader, (frame_at){s->pack, i}, stream, err));
        if (good)
            continue;
        wound *const grown = array_room(s->wounds, &s->wound_capacity, s->wound_count + 1, sizeof *grown);
        FAIL_IF_NULL(grown, err);
        s->wounds = grown;
        grown[s->wound_count++] = (wound){.frame = i, .hash = s->pack->index.frames[i].hash};
    }
out:
    return rc;
}

/* Takes from one pack what it has of the wanted frames. */
static int donors_take(surgery *s, pack_set *set, frame_reader *reader, const sha256 *name, sha256_stream *stream,
                       ckpt_error *err)
{
    int rc = 0;
    pack *p = NULL;
    bool good;
    ckpt_error why = {0};

    if (sha256_compare(name, &s->patient->name) == 0 && set == s->set)
        goto out;
    if (pack_set_get(&p, set, name, &why)) {
        TRY(error_pass_own(err, &why));
        goto out;
    }
    for (size_t w = 0; w < s->wound_count; w++)
        for (uint32_t i = 0; i < p->index.frame_count && !s->wounds[w].donor.pack; i++) {
            const frame_at at = {p, i};
            if (sha256_compare(&p->index.frames[i].hash, &s->wounds[w].hash) != 0)
                continue;
            TRY(frame_look(&good, s, reader, at, stream, err));
            if (!good)
                continue;
            s->wounds[w].donor = at;
            s->wounds[w].reader = reader;
        }
out:
    return rc;
}

static size_t wounds_open(const surgery *s)
{
    size_t count = 0;

    for (size_t i = 0; i < s->wound_count; i++)
        count += s->wounds[i].donor.pack == NULL;
    return count;
}

static int donors_find(surgery *s, sha256_stream *stream, ckpt_error *err)
{
    int rc = 0;
    reach others = {0};

    for (uint32_t i = 0; i < s->r->reach.count && wounds_open(s) > 0; i++)
        TRY(donors_take(s, s->set, s->reader, &s->r->reach.packs[i].name, stream, err));
    if (!s->other_set)
        goto out;
    TRY(reach_new(&others, s->r->other, err));
    for (uint32_t i = 0; i < others.count && wounds_open(s) > 0; i++)
        TRY(donors_take(s, s->other_set, s->other_reader, &others.packs[i].name, stream, err));
out:
    reach_clear(&others);
    return rc;
}

/* ---- The same pack ---------------------------------------------------------------------------------------------- */

static int file_copy(file_tmp *tmp, surgery *s, const char *path, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size;

    TRY(file_open(&fd, &size, path, err));
    for (uint64_t done = 0; done < size;) {
        const size_t n = size - done < COPY_BYTES ? (size_t)(size - done) : COPY_BYTES;
        TRY(file_read_at(s->chunk, fd, done, n, path, err));
        TRY(file_tmp_write(tmp, s->chunk, n, err));
        done += n;
    }
out:
    file_close(&fd);
    return rc;
}

/* Puts the donor's coded chunks into the copy where they are as long. */
static int wound_graft(const file_tmp *tmp, surgery *s, const wound *w, ckpt_error *err)
{
    int rc = 0;
    const pack_frame *const frame = &s->pack->index.frames[w->frame];
    const pack_frame *const donor = &w->donor.pack->index.frames[w->donor.frame];
    const pack_chunk *const chunks = &s->pack->index.chunks[frame->chunk_first];
    uint64_t offset = frame->offset;
    size_t coded_size;

    for (uint32_t i = 0; i < pack_frame_chunks(frame); i++) {
        TRY(pack_read_chunk(&coded_size, s->coded, w->donor.pack, donor, i, err));
        if (coded_size == chunks[i].coded_size)
            TRY(file_write_at(tmp->fd, offset, s->coded, coded_size, tmp->path, err));
        offset += chunks[i].coded_size;
    }
out:
    return rc;
}

/* *good: the pack is as it was, in `tmp`. */
static int graft(bool *good, file_tmp *tmp, surgery *s, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    sha256 hash;

    TRY(pack_path(path, s->r->store->packs_dir, &s->patient->name, err));
    TRY(file_tmp_open(tmp, s->r->store->tmp_dir, "pack", err));
    TRY(file_copy(tmp, s, path, err));
    for (size_t i = 0; i < s->wound_count; i++)
        TRY(wound_graft(tmp, s, &s->wounds[i], err));
    TRY(pack_bytes_hash(&hash, tmp->fd, tmp->size_bytes, err));
    *good = sha256_compare(&hash, &s->patient->name) == 0;
out:
    if (rc || !*good)
        file_tmp_discard(tmp);
    return rc;
}

/* ---- Another pack in its place ---------------------------------------------------------------------------------- */

static const renaming *renaming_of(const surgery *s, const sha256 *name)
{
    for (size_t i = 0; i < s->renaming_count; i++)
        if (sha256_compare(&s->renamings[i].from, name) == 0)
            return &s->renamings[i];
    return NULL;
}

static const wound *wound_of(const surgery *s, const pack *p, uint32_t frame)
{
    for (size_t i = 0; sha256_compare(&p->name, &s->patient->name) == 0 && i < s->wound_count; i++)
        if (s->wounds[i].frame == frame)
            return &s->wounds[i];
    return NULL;
}

/* Appends a frame: its coded chunks as they are, or those of a wound coded from the donor's bytes. */
static int frame_rewrite(pack_writer *w, surgery *s, const pack *p, uint32_t number, ckpt_error *err)
{
    int rc = 0;
    uint32_t at;
    pack_frame row = p->index.frames[number];
    const pack_frame *const old = &p->index.frames[number];
    const wound *const hurt = wound_of(s, p, number);
    const codec_plan plan = {.mode = CODEC_ZSTD, .width = 1, .dtype = CKPT_OPAQUE, .level = 3};

    if (hurt) {
        row.reference_pack = PACK_NONE;
        row.reference_frame = 0;
        row.reference_hash = (sha256){{0}};
        row.depth = 0;
        row.level = (uint8_t)plan.level;
    }
    TRY(pack_index_add_string(&row.class_name, &w->index, pack_string(&p->index, old->class_name), err));
    TRY(pack_writer_frame(&at, w, &row, err));
    for (uint32_t i = 0; i < pack_frame_chunks(old); i++) {
        const uint64_t left = old->size - (uint64_t)i * CODEC_CHUNK_BYTES;
        size_t coded_size;
        if (hurt) {
            TRY(frame_read_chunk(s->chunk, hurt->reader, hurt->donor, i, err));
            TRY(codec_encode(&coded_size, s->coded, frame_reader_codec(hurt->reader), &plan, s->chunk,
                             left < CODEC_CHUNK_BYTES ? (size_t)left : CODEC_CHUNK_BYTES, NULL, err));
        } else
            TRY(pack_read_chunk(&coded_size, s->coded, p, old, i, err));
        TRY(pack_writer_chunk(w, s->coded, coded_size, p->index.chunks[old->chunk_first + i].xxh64, err));
    }
out:
    return rc;
}

/* Writes a pack anew, with the new names of the packs that it names, into the plan. */
static int pack_rewrite(surgery *s, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    uint32_t number;
    double parity;
    pack *p = NULL; /* of our own, as its table of packs is changed */
    pack_writer w = {.tmp.fd = -1};
    renaming change = {.from = *name};

    TRY(pack_open(&p, s->r->store->packs_dir, name, err));
    TRY(pack_writer_open(&w, s->r->store->tmp_dir, err));
    for (uint32_t i = 0; i < p->index.pack_count; i++) {
        const renaming *const earlier = renaming_of(s, &p->index.packs[i]);
        if (earlier)
            p->index.packs[i] = earlier->to;
        TRY(pack_index_add_pack(&number, &w.index, &p->index.packs[i], err));
        FAIL_IF(number != i + 1, err, CKPT_EDATA, "a pack names another one twice");
    }
    for (uint32_t i = 0; i < p->index.frame_count; i++)
        TRY(frame_rewrite(&w, s, p, i, err));
    TRY(tables_copy(&w.index, &p->index, 0, p->index.file_count, err));
    TRY(pack_writer_finish(&change.to, &w, err));
    TRY(setting_parity(&parity, s->r->store, err));
    if (!(parity > 0)) /* else it is read once more; there may be more packs than descriptors */
        TRY(file_tmp_seal(&w.tmp, err));
    TRY(save_place_pack(&s->plan, &change.bytes, s->r->store, &w.tmp, &change.to, parity, err));
    renaming *const grown = array_room(s->renamings, &s->renaming_capacity, s->renaming_count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    s->renamings = grown;
    grown[s->renaming_count++] = change;
out:
    pack_writer_discard(&w);
    pack_close(p);
    return rc;
}

static bool names_pack(const surgery *s, const reach_pack *p, const sha256 *name)
{
    for (uint32_t i = 0; i < p->need_count; i++)
        if (sha256_compare(&s->r->reach.packs[p->needs[i]].name, name) == 0)
            return true;
    return false;
}

/* Is it to be written anew because it names the patient? */
static bool depends(const surgery *s, const reach_pack *p)
{
    return p->needed && !p->why && names_pack(s, p, &s->patient->name);
}

/* Can it be now: have all that it names their new names? */
static bool is_ready(const surgery *s, const reach_pack *p)
{
    for (uint32_t i = 0; i < p->need_count; i++) {
        const reach_pack *const need = &s->r->reach.packs[p->needs[i]];
        if (depends(s, need) && !renaming_of(s, &need->name))
            return false;
    }
    return true;
}

/* What all of this writes; *possible is false when one of those packs is damaged itself. */
static uint64_t bytes_to_write(bool *possible, const surgery *s)
{
    uint64_t bytes = s->pack->size;

    *possible = true;
    for (uint32_t i = 0; i < s->r->reach.count; i++) {
        const reach_pack *const p = &s->r->reach.packs[i];
        if (!depends(s, p))
            continue;
        bytes += p->size;
        *possible &= hash_set_has(&s->r->sound, &p->name);
    }
    return bytes;
}

static int packs_rewrite(surgery *s, ckpt_error *err)
{
    int rc = 0;
    bool more = true;

    TRY(pack_rewrite(s, &s->patient->name, err));
    while (more) { /* names are hashes, so that each round finds one that is ready */
        more = false;
        for (uint32_t i = 0; i < s->r->reach.count; i++) {
            const reach_pack *const p = &s->r->reach.packs[i];
            if (!depends(s, p) || renaming_of(s, &p->name) || !is_ready(s, p))
                continue;
            TRY(pack_rewrite(s, &p->name, err));
            more = true;
        }
    }
out:
    return rc;
}

static int snapshots_follow(surgery *s, ckpt_error *err)
{
    int rc = 0;
    bool moved;

    for (size_t i = 0; i < s->r->entry_count; i++) {
        const repair_entry *const e = &s->r->entries[i];
        const renaming *const change = e->readable ? renaming_of(s, &e->snap.pack) : NULL;
        if (change)
            TRY(snapshot_move(&moved, s->r->store->snapshots_dir, s->r->store->tmp_dir, &e->name, &change->from,
                              &change->to, change->bytes, err));
    }
out:
    return rc;
}

/* Is all there that the new packs name? Rewriting them took its time, in which what no checkpoint needed any more may
 * have gone. */
static int needs_look(const surgery *s, ckpt_error *err)
{
    int rc = 0;
    reach now = {0};

    TRY(reach_new(&now, s->r->store, err));
    for (size_t i = 0; i < s->renaming_count; i++) {
        const reach_pack *const p = reach_find(&s->r->reach, &s->renamings[i].from);
        for (uint32_t k = 0; p && k < p->need_count; k++) {
            const sha256 *const need = &s->r->reach.packs[p->needs[k]].name;
            FAIL_IF(!renaming_of(s, need) && !reach_find(&now, need), err, CKPT_EBUSY,
                    "another program removed packs meanwhile");
        }
    }
out:
    reach_clear(&now);
    return rc;
}

/* Lets others see it: packs, then the snapshots that name them, then the damaged one goes. */
static int exchange(surgery *s, ckpt_error *err)
{
    int rc = 0;
    bool ignored;
    lease *exclusive = NULL;

    TRY(prune_lease_take(&exclusive, s->r->store, INTENT_WAIT_MS, err));
    TRY(needs_look(s, err));
    TRY(file_commit(&s->plan, err));
    TRY(lease_check(exclusive, err));
    TRY(snapshots_follow(s, err));
    lease_release(exclusive);
    exclusive = NULL;
    s->r->changed = true;
    if (!s->r->unknown) /* else it may be the bytes of another pack, which are still to be copied */
        TRY(repair_set_aside(&ignored, s->r, &s->patient->name, err));
out:
    lease_release(exclusive);
    return rc;
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

static int surgery_open(surgery *s, repairer *r, const repair_patient *p, ckpt_error *err)
{
    int rc = 0;

    *s = (surgery){.r = r, .patient = p};
    TRY(pack_set_new(&s->set, r->store->packs_dir, err));
    TRY(frame_reader_new(&s->reader, s->set, err));
    if (r->other) {
        TRY(pack_set_new(&s->other_set, r->other->packs_dir, err));
        TRY(frame_reader_new(&s->other_reader, s->other_set, err));
    }
    s->chunk = malloc(CODEC_CHUNK_BYTES);
    s->coded = malloc(CODEC_CHUNK_CODED_MAX);
    FAIL_IF_NULL(s->chunk, err);
    FAIL_IF_NULL(s->coded, err);
    TRY(pack_set_get(&s->pack, s->set, &p->name, err));
out:
    return rc;
}

static void surgery_close(surgery *s)
{
    file_commit_discard(&s->plan);
    frame_reader_free(s->reader);
    frame_reader_free(s->other_reader);
    pack_set_free(s->set);
    pack_set_free(s->other_set);
    free(s->chunk);
    free(s->coded);
    free(s->wounds);
    free(s->renamings);
}

static int operate(char action[320], surgery *s, uint64_t bytes, ckpt_error *err)
{
    int rc = 0;
    bool same = false;
    uint64_t space;
    char path[FILE_PATH_MAX];
    file_tmp tmp = {.fd = -1};

    TRY(file_space_free(&space, s->r->store->path, err));
    FAIL_IF(space < bytes, err, CKPT_ENOSPC, "repair writes %" PRIu64 " bytes, and %" PRIu64 " are free", bytes, space);
    TRY(graft(&same, &tmp, s, err));
    if (same) {
        TRY(pack_path(path, s->r->store->packs_dir, &s->patient->name, err));
        TRY(repair_commit(s->r, &tmp, path, err));
        repair_say(action, 320, "made whole with equal frames from elsewhere");
        goto out;
    }
    TRY(packs_rewrite(s, err));
    TRY(exchange(s, err));
    repair_say(action, 320, "written anew with equal frames from elsewhere, and %zu packs that name it",
               s->renaming_count - 1);
out:
    file_tmp_discard(&tmp);
    return rc;
}

int frames_cure(bool *mended, char state[320], char action[320], repairer *r, const repair_patient *p, ckpt_error *err)
{
    int rc = 0;
    bool possible;
    surgery s = {0};
    sha256_stream *const stream = sha256_new();

    *mended = false;
    if (p->missing || !p->indexed || !p->needed)
        goto out;
    FAIL_IF_NULL(stream, err);
    TRY(surgery_open(&s, r, p, err));
    TRY(wounds_find(&s, stream, err));
    TRY(donors_find(&s, stream, err));
    const size_t hopeless = wounds_open(&s);
    if (!state[0])
        repair_say(state, 320, "%zu of %" PRIu32 " frames are damaged", s.wound_count, s.pack->index.frame_count);
    if (hopeless > 0)
        goto out;
    const uint64_t bytes = bytes_to_write(&possible, &s);
    *mended = possible;
    if (possible && r->dry_run)
        repair_say(action, 320, "made whole with equal frames from elsewhere");
    else if (possible)
        TRY(operate(action, &s, bytes, err));
out:
    surgery_close(&s);
    sha256_free(stream);
    return rc;
}
