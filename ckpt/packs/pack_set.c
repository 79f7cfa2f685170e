/* Packs that are open together. Each stays with its index while anybody may borrow it; only descriptors are scarce, so
 * that of the pack not read for longest is closed when there are too many, and opened again by name.
 *
 *   set.slots, sorted by name:   slot -> pack (fd, index)        a slot is pinned while its fd is being read from */
#include "pack.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "fail.h"

typedef struct pack_slot {
    pack_set *set;
    pack *pack;
    unsigned pins;
    uint64_t used; /* the set's clock when it was last asked for or pinned */
} pack_slot;

struct pack_set {
    pthread_mutex_t lock; /* over all below, and over fd of each pack */
    pack_slot **slots;
    size_t count, capacity, open_count;
    uint64_t clock;
    char packs_dir[FILE_PATH_MAX];
};

int pack_set_new(pack_set **out, const char *packs_dir, ckpt_error *err)
{
    int rc = 0;
    pack_set *set = calloc(1, sizeof *set);

    *out = NULL;
    FAIL_IF_NULL(set, err);
    FAIL_IF(strlen(packs_dir) >= sizeof set->packs_dir, err, CKPT_EUSAGE, "path of the store is too long");
    memcpy(set->packs_dir, packs_dir, strlen(packs_dir) + 1);
    FAIL_IF(pthread_mutex_init(&set->lock, NULL) != 0, err, CKPT_ENOMEM, "no memory for a lock");
    *out = set;
    set = NULL;
out:
    free(set);
    return rc;
}

static void slot_free(pack_slot *slot)
{
    assert(slot->pins == 0);
    pack_close(slot->pack);
    free(slot);
}

void pack_set_free(pack_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->count; i++)
        slot_free(set->slots[i]);
    free(set->slots);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

/* ---- Forgetting ---- */

static int latest_first(const void *a, const void *b)
{
    const pack_slot *const *x = a, *const *y = b;
    return (*x)->used < (*y)->used ? 1 : -1; /* no two are equal */
}

static int by_name(const void *a, const void *b)
{
    const pack_slot *const *x = a, *const *y = b;
    return sha256_compare(&(*x)->pack->name, &(*y)->pack->name);
}

/* How many of the slots, the latest first, are kept. */
static size_t kept_count(const pack_set *set)
{
    size_t kept = 0;
    uint64_t bytes = 0;

    while (kept < set->count && kept < PACK_SET_KEPT_MAX && bytes < PACK_SET_KEPT_BYTES)
        bytes += set->slots[kept++]->pack->index_size;
    return kept;
}

void pack_set_trim(pack_set *set)
{
    pthread_mutex_lock(&set->lock);
    if (set->count > 0)
        qsort(set->slots, set->count, sizeof(pack_slot *), latest_first);
    const size_t kept = kept_count(set);
    while (set->count > kept)
        slot_free(set->slots[--set->count]);
    for (size_t i = 0; i < set->count; i++) {
        assert(set->slots[i]->pins == 0);
        file_close(&set->slots[i]->pack->fd);
    }
    if (set->count > 0)
        qsort(set->slots, set->count, sizeof(pack_slot *), by_name);
    set->open_count = 0;
    pthread_mutex_unlock(&set->lock);
}

/* ---- Descriptors: all with the lock held ---- */

/* Makes room for one more descriptor. When every pack is being read from, the bound gives way. */
static void close_oldest(pack_set *set)
{
    pack_slot *oldest = NULL;

    if (set->open_count < PACK_SET_OPEN_MAX)
        return;
    for (size_t i = 0; i < set->count; i++) {
        pack_slot *slot = set->slots[i];
        if (slot->pack->fd >= 0 && slot->pins == 0 && (!oldest || slot->used < oldest->used))
            oldest = slot;
    }
    if (oldest) {
        file_close(&oldest->pack->fd);
        set->open_count--;
    }
}

static int slot_reopen(pack_slot *slot, ckpt_error *err)
{
    int rc = 0;
    int fd = -1;
    uint64_t size = 0;
    char path[FILE_PATH_MAX];

    close_oldest(slot->set);
    TRY(pack_path(path, slot->set->packs_dir, &slot->pack->name, err));
    TRY(file_open(&fd, &size, path, err));
    FAIL_IF(size != slot->pack->size, err, CKPT_EDATA, "%s had %" PRIu64 " bytes, and has %" PRIu64, path_base(path),
            slot->pack->size, size);
    slot->pack->fd = fd;
    slot->set->open_count++;
    fd = -1;
out:
    file_close(&fd);
    return rc;
}

/* Makes it the one used last, and open. */
static int slot_touch(pack_slot *slot, ckpt_error *err)
{
    slot->used = ++slot->set->clock;
    return slot->pack->fd < 0 ? slot_reopen(slot, err) : 0;
}

int pack_slot_pin(int *fd, pack_slot *slot, ckpt_error *err)
{
    int rc = 0;

    pthread_mutex_lock(&slot->set->lock);
    TRY(slot_touch(slot, err));
    slot->pins++;
    *fd = slot->pack->fd;
out:
    pthread_mutex_unlock(&slot->set->lock);
    return rc;
}

void pack_slot_unpin(pack_slot *slot)
{
    pthread_mutex_lock(&slot->set->lock);
    assert(slot->pins > 0);
    slot->pins--;
    pthread_mutex_unlock(&slot->set->lock);
}

/* ---- Finding and adding: all with the lock held ---- */

/* The first slot whose name is not below `name`. */
static size_t slot_place(const pack_set *set, const sha256 *name)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (sha256_compare(&set->slots[middle]->pack->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int slot_add(pack_set *set, size_t place, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    pack_slot *slot = calloc(1, sizeof *slot);

    FAIL_IF_NULL(slot, err);
    pack_slot **slots = array_room(set->slots, &set->capacity, set->count + 1, sizeof(pack_slot *));
    FAIL_IF_NULL(slots, err);
    set->slots = slots;
    close_oldest(set);
    TRY(pack_open(&slot->pack, set->packs_dir, name, err));
    slot->set = set;
    slot->used = ++set->clock;
    slot->pack->slot = slot;
    memmove(&set->slots[place + 1], &set->slots[place], (set->count - place) * sizeof(pack_slot *));
    set->slots[place] = slot;
    set->count++;
    set->open_count++;
    slot = NULL;
out:
    free(slot);
    return rc;
}

int pack_set_get(pack **out, pack_set *set, const sha256 *name, ckpt_error *err)
{
    int rc = 0;

    *out = NULL;
    pthread_mutex_lock(&set->lock);
    const size_t place = slot_place(set, name);
    if (place == set->count || sha256_compare(&set->slots[place]->pack->name, name) != 0)
        TRY(slot_add(set, place, name, err));
    else
        TRY(slot_touch(set->slots[place], err));
    *out = set->slots[place]->pack;
out:
    pthread_mutex_unlock(&set->lock);
    return rc;
}

int pack_set_follow(frame_at *out, pack_set *set, pack *p, uint32_t pack_number, uint32_t frame, ckpt_error *err)
{
    int rc = 0;
    pack *to = p;

    FAIL_IF(pack_number > p->index.pack_count, err, CKPT_EDATA, "there is no pack of number %" PRIu32, pack_number);
    if (pack_number > 0)
        TRY(pack_set_get(&to, set, &p->index.packs[pack_number - 1], err));
    FAIL_IF(frame >= to->index.frame_count, err, CKPT_EDATA, "there is no frame %" PRIu32 " in the pack referred to",
            frame);
    *out = (frame_at){to, frame};
out:
    return rc;
}
