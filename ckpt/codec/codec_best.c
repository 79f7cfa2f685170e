/* The smallest of all that may pay for one chunk, found by coding it in each way. */
#include "codec_internal.h"

#include "context.h"
#include "zstd_frame.h"

#include "fail.h"

#include <assert.h>

enum { WAYS_MAX = 16, LEVEL_REPEATS = 3 };

typedef struct ways {
    codec_plan plans[WAYS_MAX];
    size_t count;
} ways;

static void ways_add(ways *w, codec_mode mode, const codec_plan *planned, int level, unsigned number)
{
    codec_plan plan = codec_plan_of(mode, planned->dtype);

    assert(w->count < WAYS_MAX);
    plan.period = planned->period;
    plan.grid = planned->grid;
    plan.level = level;
    plan.number = number;
    w->plans[w->count++] = plan;
}

/* The planned one first: the smaller the best so far, the earlier the others give up. */
static void ways_list(ways *w, const codec_plan *planned, bool has_reference)
{
    const bool bytes = planned->dtype == CKPT_OPAQUE;

    w->plans[w->count++] = *planned;
    ways_add(w, CODEC_SYMBOLS, planned, 0, 0);
    for (int level = 0; level <= LEVEL_REPEATS; level += LEVEL_REPEATS)
        ways_add(w, CODEC_PLANES, planned, level, 0);
    ways_add(w, CODEC_PALETTE, planned, LEVEL_REPEATS, 0);
    if (bytes)
        ways_add(w, CODEC_ZSTD, planned, ZSTD_FRAME_LEVEL_MAX, 0);
    if (!has_reference)
        return;
    for (unsigned number = CONTEXT_RAW; number <= CONTEXT_XOR; number++)
        ways_add(w, CODEC_CONTEXT, planned, 0, number);
    for (int level = 0; level <= LEVEL_REPEATS; level += LEVEL_REPEATS) {
        ways_add(w, CODEC_SUB, planned, level, 0);
        ways_add(w, CODEC_XOR, planned, level, 0);
    }
    if (bytes)
        ways_add(w, CODEC_PATCH, planned, ZSTD_FRAME_LEVEL_MAX, 0);
}

int codec_encode_best(size_t *coded_size, void *dst, size_t capacity, codec *c, const codec_plan *planned,
                      const codec_chunk *chunk, ckpt_error *err)
{
    int rc = 0;
    ways w = {.count = 0};
    size_t best = 0, last = 0; /* the ways that dst holds the smallest of, and any of */

    ways_list(&w, planned, chunk->reference != NULL);
    *coded_size = CODEC_NO_GAIN;
    for (size_t i = 0; i < w.count; i++) {
        size_t size = 0;
        TRY(codec_encode_mode(&size, dst, *coded_size == CODEC_NO_GAIN ? capacity : *coded_size - 1, c, &w.plans[i],
                              chunk, err));
        last = i;
        if (size != CODEC_NO_GAIN) {
            best = i;
            *coded_size = size;
        }
    }
    if (best != last && *coded_size != CODEC_NO_GAIN) /* who gave up has written over it */
        TRY(codec_encode_mode(coded_size, dst, capacity, c, &w.plans[best], chunk, err));
out:
    return rc;
}
