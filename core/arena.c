#include "arena.h"

#include "backend.h"
#include "checked.h"
#include "fail.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t room(const arena_buffer *b)
{
    return (b->bytes + BACKEND_ALIGNMENT - 1) / BACKEND_ALIGNMENT * BACKEND_ALIGNMENT;
}

/* With this no offset that is made of the sizes can overflow. */
static int sizes_check(const arena_buffer *buffers, size_t count, ckpt_error *err)
{
    int rc = 0;
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        FAIL_IF(buffers[i].bytes > PTRDIFF_MAX - BACKEND_ALIGNMENT || !checked_add(&sum, sum, room(&buffers[i])) ||
                    sum > PTRDIFF_MAX,
                err, CKPT_ENOMEM, "the buffers need more memory than there are addresses");
out:
    return rc;
}

/* Largest first; of equal ones in the order of the list. */
static int by_size(const void *a, const void *b)
{
    const arena_buffer *const x = *(arena_buffer *const *)a, *const y = *(arena_buffer *const *)b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : 1;
}

static bool lives_meet(const arena_buffer *a, const arena_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which `b` meets none of `placed`, which are sorted by their offsets. */
static size_t offset_find(const arena_buffer *b, arena_buffer *const *placed, size_t count)
{
    size_t offset = 0;

    for (size_t i = 0; i < count; i++) {
        const arena_buffer *const other = placed[i];
        if (!lives_meet(b, other))
            continue;
        if (other->offset >= offset && other->offset - offset >= room(b))
            break;
        if (other->offset + room(other) > offset)
            offset = other->offset + room(other);
    }
    return offset;
}

static void placed_insert(arena_buffer **placed, size_t count, arena_buffer *b)
{
    size_t at = count;

    while (at > 0 && placed[at - 1]->offset > b->offset)
        at--;
    memmove(placed + at + 1, placed + at, (count - at) * sizeof *placed);
    placed[at] = b;
}

int arena_place(size_t *total_bytes, arena_buffer *buffers, size_t count, ckpt_error *err)
{
    int rc = 0;
    arena_buffer **waiting = NULL, **placed = NULL;
    size_t waiting_count = 0, total = 0;

    assert(count <= ARENA_BUFFERS_MAX);
    TRY(sizes_check(buffers, count, err));
    waiting = calloc(count + 1, sizeof(arena_buffer *));
    placed = calloc(count + 1, sizeof(arena_buffer *));
    FAIL_IF_NULL(waiting, err);
    FAIL_IF_NULL(placed, err);

    for (size_t i = 0; i < count; i++) {
        assert(buffers[i].first <= buffers[i].last);
        buffers[i].offset = 0;
        if (buffers[i].bytes > 0)
            waiting[waiting_count++] = &buffers[i];
    }
    qsort(waiting, waiting_count, sizeof *waiting, by_size);
    for (size_t i = 0; i < waiting_count; i++) {
        arena_buffer *const b = waiting[i];
        b->offset = offset_find(b, placed, i);
        placed_insert(placed, i, b);
        if (b->offset + room(b) > total)
            total = b->offset + room(b);
    }
    *total_bytes = total;
out:
    free(waiting);
    free(placed);
    return rc;
}
