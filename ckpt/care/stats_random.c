#include "stats_random.h"

#include "fail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RANDOM_BITS_MIN 7.9 /* of entropy in a byte */
#define CHUNK_BYTES_MIN ((size_t)64 << 10)

/* ---- Choosing --------------------------------------------------------------------------------------------------- */

static unsigned float_width(unsigned dtype)
{
    switch (dtype) {
    case CKPT_F16:
    case CKPT_BF16:
        return 2;
    case CKPT_F32:
        return 4;
    case CKPT_F64:
        return 8;
    default:
        return 0;
    }
}

/* Reservoir sampling; the multiplier is Knuth's. */
static void chunk_show(stats_random *r, const stats_random_chunk *chunk)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    const uint64_t at = r->shown < STATS_RANDOM_CHUNKS ? r->shown : (r->state >> 32) % (r->shown + 1);
    r->shown++;
    if (at < STATS_RANDOM_CHUNKS)
        r->chunks[at] = *chunk;
}

void stats_random_show(stats_random *r, const pack *p)
{
    for (uint32_t i = 0; i < p->index.frame_count; i++) {
        const pack_frame *const frame = &p->index.frames[i];
        for (uint32_t k = 0; float_width(frame->dtype) && k < pack_frame_chunks(frame); k++)
            chunk_show(r, &(stats_random_chunk){p->name, i, k});
    }
}

/* ---- Measuring -------------------------------------------------------------------------------------------------- */

static uint64_t element_load(const unsigned char *from, unsigned width)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < width; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* The order of the numbers as that of unsigned integers: a small difference of values is a small one of these. */
static uint64_t ordered(uint64_t bits, unsigned width)
{
    const uint64_t sign = UINT64_C(1) << (8 * width - 1), all = sign | (sign - 1);

    return bits & sign ? ~bits & all : bits | sign;
}

/* What there is to code of an element: its bits, or how far it is from the reference, small either way. */
static uint64_t element_residual(const unsigned char *data, const unsigned char *reference, unsigned width)
{
    const uint64_t bits = element_load(data, width);
    const uint64_t all = UINT64_MAX >> (64 - 8 * width);

    if (!reference)
        return (bits << 1 | bits >> (8 * width - 1)) & all; /* the exponent in a byte of its own */
    const uint64_t difference = (ordered(bits, width) - ordered(element_load(reference, width), width)) & all;
    const bool negative = difference >> (8 * width - 1);
    return (negative ? ~(difference << 1) : difference << 1) & all;
}

static double entropy_bits(const uint32_t counts[256], size_t total)
{
    double bits = 0;

    for (size_t i = 0; i < 256; i++)
        if (counts[i])
            bits -= counts[i] * log2((double)counts[i] / (double)total);
    return bits / (double)total;
}

/* Bytes of the chunk in planes without a pattern. */
static size_t random_bytes(const unsigned char *data, const unsigned char *reference, size_t size, unsigned width)
{
    const size_t elements = size / width;
    size_t bytes = 0;
    uint32_t counts[8][256] = {{0}};

    for (size_t i = 0; i < elements; i++) {
        const uint64_t value = element_residual(data + i * width, reference ? reference + i * width : NULL, width);
        for (unsigned k = 0; k < width; k++)
            counts[k][value >> (8 * k) & 0xff]++;
    }
    for (unsigned k = 0; k < width; k++)
        if (entropy_bits(counts[k], elements) > RANDOM_BITS_MIN)
            bytes += elements;
    return bytes;
}

/* *size is 0 when the chunk cannot be decoded, or is too small to tell. */
static int chunk_measure(size_t *random, size_t *size, const stats_random_chunk *chunk, ckpt_store *store,
                         frame_reader *reader, unsigned char *data, unsigned char *reference, ckpt_error *err)
{
    int rc = 0;
    frame_at at = {.frame = chunk->frame}, of_reference;
    const uint64_t offset = (uint64_t)chunk->chunk * CODEC_CHUNK_BYTES;
    ckpt_error why;

    *size = 0;
    if (pack_set_get(&at.pack, store->packs, &chunk->pack, NULL))
        goto out;
    const pack_frame *const frame = &at.pack->index.frames[at.frame];
    const size_t n = frame->size - offset < CODEC_CHUNK_BYTES ? (size_t)(frame->size - offset) : CODEC_CHUNK_BYTES;
    if (n < CHUNK_BYTES_MIN)
        goto out;
    bool damaged = frame_read_chunk(data, reader, at, chunk->chunk, &why) != 0;
    const bool refers = frame->reference_pack != PACK_NONE;
    if (!damaged && refers)
        damaged = pack_set_follow(&of_reference, store->packs, at.pack, frame->reference_pack, frame->reference_frame,
                                  &why) != 0 ||
                  frame_read(reference, reader, of_reference, offset, n, &why) != 0;
    if (damaged) {
        TRY(error_pass_own(err, &why));
        goto out;
    }
    *size = n;
    *random = random_bytes(data, refers ? reference : NULL, n, float_width(frame->dtype));
out:
    return rc;
}

int stats_random_measure(double *share, uint64_t *chunks, const stats_random *r, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    const size_t count = r->shown < STATS_RANDOM_CHUNKS ? (size_t)r->shown : STATS_RANDOM_CHUNKS;
    uint64_t bytes = 0, random = 0;
    frame_reader *reader = NULL;
    unsigned char *const data = malloc(CODEC_CHUNK_BYTES), *const reference = malloc(CODEC_CHUNK_BYTES);

    store_packs_borrow(store);
    FAIL_IF_NULL(data && reference, err);
    TRY(frame_reader_new(&reader, store->packs, err));
    for (size_t i = 0; i < count; i++) {
        size_t random_here = 0, size = 0;
        TRY(chunk_measure(&random_here, &size, &r->chunks[i], store, reader, data, reference, err));
        *chunks += size > 0;
        bytes += size;
        random += random_here;
    }
    *share = bytes ? (double)random / (double)bytes : 0;
out:
    frame_reader_free(reader);
    store_packs_return(store);
    free(data);
    free(reference);
    return rc;
}
