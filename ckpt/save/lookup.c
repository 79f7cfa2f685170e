/* The cache of the store: from the hash of an extent to the packs that have such bytes.
 *
 *   cache/ segment segment segment ...      each covers some packs       packs/ pack pack pack ...
 *
 * On open a segment that is damaged, or all of whose packs are gone or covered by a larger one, is removed; packs that
 * none covers are read. Few and small ones are only kept in memory, since the next open reads them again in less time
 * than an fsync takes; else they become a segment. Then segments of like size are merged, MERGE_WIDTH at a time, so
 * that their number grows with the logarithm of the packs, and each entry is written about as often.
 *
 * Any number of processes may do this at once without a lock: segments are never changed, a name stands for its bytes,
 * and what one has removed too early is read from the packs again. */
#include "store_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "fail.h"
#include "segment.h"

/* From so many packs or entries on, what was read from the packs is written. */
#define UNCOVERED_PACKS_MAX   8u
#define UNCOVERED_ENTRIES_MAX 4096u
/* One segment made from packs, or merged, has about so many bytes at most: a bound for memory. */
#define BATCH_ENTRIES (1u << 18)
/* Sizes of one level differ by less than a factor of MERGE_WIDTH; the largest level is not merged any further. */
#define MERGE_WIDTH       4u
#define LEVEL_BYTES_FIRST ((size_t)64 << 10)
#define LEVEL_COUNT       4u
/* Another process may merge between our listing and our opening of a segment. */
#define LISTINGS_MAX 4

typedef struct covering {
    segment segment;
    bool *wanted; /* of its packs: those that exist and that no larger segment covers */
    uint32_t wanted_count;
} covering;

struct lookup {
    const ckpt_store *store;
    covering *coverings; /* largest first */
    size_t count, capacity;
    sha256 *packs; /* all of packs/, sorted */
    bool *covered; /* of packs */
    size_t pack_count, pack_capacity;
    bool gone; /* a segment vanished between listing and opening */
};

static void covering_clear(covering *c)
{
    segment_close(&c->segment);
    free(c->wanted);
    *c = (covering){0};
}

static void coverings_clear(lookup *l)
{
    for (size_t i = 0; i < l->count; i++)
        covering_clear(&l->coverings[i]);
    l->count = 0;
}

/* Removing a segment is never needed for being right: where it fails, the next open tries again. */
static void segment_remove(const ckpt_store *store, const char *name)
{
    char path[FILE_PATH_MAX];
    if (!store->read_only && path_join(path, store->cache_dir, name, NULL) == 0)
        (void)file_remove(path, NULL);
}

/* ---- Listing ---- */

static bool has_suffix(const char *name, const char *suffix)
{
    const size_t length = strlen(name), end = strlen(suffix);
    return length > end && strcmp(name + length - end, suffix) == 0;
}

/* Takes the segment over, also when it fails. */
static int covering_add(lookup *l, segment *s, ckpt_error *err)
{
    int rc = 0;
    covering c = {.segment = *s};

    *s = (segment){0};
    c.wanted = calloc(c.segment.pack_count + (size_t)1, sizeof *c.wanted);
    FAIL_IF_NULL(c.wanted, err);
    covering *grown = array_room(l->coverings, &l->capacity, l->count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    l->coverings = grown;
    l->coverings[l->count++] = c;
    c = (covering){0};
out:
    covering_clear(&c);
    return rc;
}

static int segment_found(void *payload, const char *name, ckpt_error *err)
{
    lookup *l = payload;
    segment s;

    if (!has_suffix(name, SEGMENT_SUFFIX))
        return 0;
    switch (segment_open(&s, l->store->cache_dir, name, NULL)) {
    case 0:
        return covering_add(l, &s, err);
    case CKPT_ENOMEM:
        return error_memory(err);
    case CKPT_ENOTFOUND:
        l->gone = true;
        return 0;
    case CKPT_EDATA:
        segment_remove(l->store, name);
        return 0;
    default:
        return 0; /* unreadable: its packs count as not covered */
    }
}

static int covering_compare(const void *a, const void *b)
{
    const segment *x = &((const covering *)a)->segment, *y = &((const covering *)b)->segment;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int segments_list(lookup *l, ckpt_error *err)
{
    int rc = 0;

    for (int i = 0; i < LISTINGS_MAX; i++) {
        coverings_clear(l);
        l->gone = false;
        if (dir_each(l->store->cache_dir, segment_found, l, NULL) == CKPT_ENOMEM)
            TRY(error_memory(err)); /* else a cache that cannot be listed is an empty one */
        if (!l->gone)
            break;
    }
    if (l->count)
        qsort(l->coverings, l->count, sizeof *l->coverings, covering_compare);
out:
    return rc;
}

static int pack_found(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    lookup *l = payload;
    sha256 hash;

    if (!pack_name_parse(&hash, name))
        goto out;
    sha256 *grown = array_room(l->packs, &l->pack_capacity, l->pack_count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    l->packs = grown;
    l->packs[l->pack_count++] = hash;
out:
    return rc;
}

static int name_compare(const void *a, const void *b)
{
    return sha256_compare(a, b);
}

static int packs_list(lookup *l, ckpt_error *err)
{
    int rc = 0;

    TRY(dir_each(l->store->packs_dir, pack_found, l, err));
    if (l->pack_count)
        qsort(l->packs, l->pack_count, sizeof *l->packs, name_compare);
    l->covered = calloc(l->pack_count + 1, sizeof *l->covered);
    FAIL_IF_NULL(l->covered, err);
out:
    return rc;
}

/* ---- Covering ---- */

static void covering_claim(lookup *l, covering *c)
{
    c->wanted_count = 0;
    for (uint32_t i = 0; i < c->segment.pack_count; i++) {
        sha256 name;
        segment_pack(&name, &c->segment, i);
        const sha256 *found =
            l->pack_count ? bsearch(&name, l->packs, l->pack_count, sizeof *l->packs, name_compare) : NULL;
        bool *covered = found ? &l->covered[found - l->packs] : NULL;
        c->wanted[i] = covered && !*covered;
        if (c->wanted[i]) {
            *covered = true;
            c->wanted_count++;
        }
    }
}

/* Drops entry i of the list, keeping the order. */
static void covering_drop(lookup *l, size_t i)
{
    covering_clear(&l->coverings[i]);
    memmove(&l->coverings[i], &l->coverings[i + 1], (l->count - i - 1) * sizeof *l->coverings);
    l->count--;
}

static void coverings_claim(lookup *l)
{
    for (size_t i = 0; i < l->count;) {
        covering *c = &l->coverings[i];
        covering_claim(l, c);
        if (c->wanted_count == 0) {
            segment_remove(l->store, c->segment.name);
            covering_drop(l, i);
        } else {
            i++;
        }
    }
}

/* Makes what was collected a part of the lookup, and of cache/ when `write`. *written may be NULL. */
static int batch_add(bool *written, lookup *l, segment_builder *b, bool write, ckpt_error *err)
{
    int rc = 0;
    segment s = {0};
    bool kept = false;

    TRY(segment_build(&s, b, err));
    if (write && !l->store->read_only)
        kept = segment_write(&s, l->store->cache_dir, l->store->tmp_dir, NULL) == 0;
    if (!kept)
        s.name[0] = 0; /* it is in memory only, and takes no part in merging */
    if (written)
        *written = kept;
    TRY(covering_add(l, &s, err));
    covering *c = &l->coverings[l->count - 1];
    memset(c->wanted, true, c->segment.pack_count);
    c->wanted_count = c->segment.pack_count;
out:
    segment_close(&s);
    segment_builder_clear(b);
    return rc;
}

static bool is_worth_writing(const segment_builder *b)
{
    return b->pack_count >= UNCOVERED_PACKS_MAX || b->entry_count >= UNCOVERED_ENTRIES_MAX;
}

/* Reads the indexes of packs that no segment covers. One that is damaged or gone has nothing to offer. */
static int uncovered_read(lookup *l, ckpt_error *err)
{
    int rc = 0;
    segment_builder b = {0};
    pack *p = NULL;

    for (size_t i = 0; i < l->pack_count; i++) {
        if (l->covered[i])
            continue;
        const int opened = pack_open(&p, l->store->packs_dir, &l->packs[i], NULL);
        if (opened == CKPT_ENOMEM)
            TRY(error_memory(err));
        if (opened)
            continue;
        TRY(segment_add_pack(&b, &p->name, &p->index, err));
        pack_close(p);
        p = NULL;
        l->covered[i] = true;
        if (b.entry_count >= BATCH_ENTRIES)
            TRY(batch_add(NULL, l, &b, true, err));
    }
    if (b.pack_count > 0)
        TRY(batch_add(NULL, l, &b, is_worth_writing(&b), err));
out:
    pack_close(p);
    segment_builder_clear(&b);
    return rc;
}

/* ---- Merging ---- */

/* LEVEL_COUNT for what is not merged: too large, or in memory only. */
static unsigned level_of(const covering *c)
{
    if (c->segment.name[0] == 0)
        return LEVEL_COUNT;
    size_t bytes = LEVEL_BYTES_FIRST;
    for (unsigned level = 0; level < LEVEL_COUNT; level++, bytes *= MERGE_WIDTH)
        if (c->segment.size < bytes)
            return level;
    return LEVEL_COUNT;
}

/* A level with too many segments, or LEVEL_COUNT. */
static unsigned level_full(const lookup *l)
{
    unsigned counts[LEVEL_COUNT + 1] = {0};
    unsigned level = 0;

    for (size_t i = 0; i < l->count; i++)
        counts[level_of(&l->coverings[i])]++;
    while (level < LEVEL_COUNT && counts[level] < MERGE_WIDTH)
        level++;
    return level;
}

/* Merges all segments of one level to one, with only what is wanted of them. *done is false where the result could not
 * be written: then the old ones stay. */
static int level_merge(bool *done, lookup *l, unsigned level, ckpt_error *err)
{
    int rc = 0;
    segment_builder b = {0};

    *done = true;
    for (size_t i = 0; i < l->count;) {
        covering *c = &l->coverings[i];
        rc = level_of(c) == level ? segment_add_segment(&b, &c->segment, c->wanted, err) : 0;
        if (rc && rc != CKPT_ENOMEM) { /* its packs are read again at the next open */
            error_clear(err);
            segment_remove(l->store, c->segment.name);
            covering_drop(l, i);
            continue;
        }
        TRY(rc);
        i++;
    }
    rc = 0;
    if (b.pack_count == 0)
        goto out;

    const size_t old_count = l->count;
    TRY(batch_add(done, l, &b, true, err));
    if (!*done) {
        covering_drop(l, l->count - 1);
        goto out;
    }
    char merged[SEGMENT_NAME_SIZE];
    memcpy(merged, l->coverings[l->count - 1].segment.name, sizeof merged);
    for (size_t i = old_count; i-- > 0;) {
        const segment *s = &l->coverings[i].segment;
        if (level_of(&l->coverings[i]) != level)
            continue;
        if (strcmp(s->name, merged) != 0)
            segment_remove(l->store, s->name);
        covering_drop(l, i);
    }
out:
    segment_builder_clear(&b);
    return rc;
}

static int levels_merge(lookup *l, ckpt_error *err)
{
    int rc = 0;
    bool done = !l->store->read_only;

    for (unsigned level = level_full(l); done && level < LEVEL_COUNT; level = level_full(l))
        TRY(level_merge(&done, l, level, err));
out:
    return rc;
}

/* ---- The interface ---- */

int lookup_open(lookup **out, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    lookup *l = calloc(1, sizeof *l);

    *out = NULL;
    FAIL_IF_NULL(l, err);
    l->store = store;
    TRY(segments_list(l, err));
    TRY(packs_list(l, err));
    coverings_claim(l);
    TRY(uncovered_read(l, err));
    TRY(levels_merge(l, err));
    *out = l;
    l = NULL;
out:
    lookup_close(l);
    return rc;
}

void lookup_close(lookup *l)
{
    if (!l)
        return;
    coverings_clear(l);
    free(l->coverings);
    free(l->packs);
    free(l->covered);
    free(l);
}

size_t lookup_find(lookup_hit *hits, size_t max, lookup *l, hash128 hash, uint64_t size)
{
    size_t count = 0;
    segment_entry entry;

    for (size_t i = 0; i < l->count; i++) {
        covering *c = &l->coverings[i];
        for (uint32_t at = segment_place(&c->segment, hash, size); at < c->segment.entry_count && count < max; at++) {
            if (!segment_entry_get(&entry, &c->segment, at) || entry.hash.low != hash.low ||
                entry.hash.high != hash.high || entry.size != size)
                break;
            if (entry.pack >= c->segment.pack_count || !c->wanted[entry.pack])
                continue;
            segment_pack(&hits[count].pack, &c->segment, entry.pack);
            hits[count].frame = entry.frame;
            hits[count].frame_offset = entry.frame_offset;
            count++;
        }
    }
    return count;
}

int lookup_add(ckpt_store *store, const sha256 *name, const pack_index *index, ckpt_error *err)
{
    int rc = 0;
    segment_builder b = {0};
    segment s = {0};

    /* A small pack is left to the next open, a large one would cost it too much. */
    if (store->read_only || index->extent_count < UNCOVERED_ENTRIES_MAX)
        goto out;
    TRY(segment_add_pack(&b, name, index, err));
    TRY(segment_build(&s, &b, err));
    (void)segment_write(&s, store->cache_dir, store->tmp_dir, NULL);
out:
    segment_close(&s);
    segment_builder_clear(&b);
    return rc;
}
