/* Decoding frames: along the chain of references back to a chunk that needs none, then forward again.
 *
 *   at            chain[0]  needs reference ->  chain[1]  needs reference ->  chain[2]  needs none
 *   decoded into  dst       <- decoded[1]       decoded[1] <- decoded[0]      decoded[0]
 *
 * The reference of chunk i of a frame is chunk i of the reference frame, cut or continued with zeros to its size. All
 * memory is allocated with the reader; pages that no chain has reached are never touched. */
#include "pack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

#define CHAIN_MAX (PACK_DEPTH_READ_MAX + 1) /* the frame itself and its references */

typedef struct chain_step {
    frame_at at;
    const pack_frame *frame;
    size_t size, coded_size; /* of the chunk */
    unsigned char *coded;
} chain_step;

struct frame_reader {
    pack_set *set;
    codec *codec;
    unsigned char *memory;
    unsigned char *decoded[2];
    chain_step chain[CHAIN_MAX];
    /* The last chunk that was wanted in part: small tensors of one frame are read one after the other. */
    unsigned char *part;
    frame_at part_at; /* pack NULL: none */
    uint32_t part_chunk;
};

int frame_reader_new(frame_reader **out, pack_set *set, ckpt_error *err)
{
    int rc = 0;
    frame_reader *r = calloc(1, sizeof *r);

    *out = NULL;
    FAIL_IF_NULL(r, err);
    r->set = set;
    TRY(codec_new(&r->codec, err));
    r->memory = malloc(CHAIN_MAX * CODEC_CHUNK_CODED_MAX + 3 * CODEC_CHUNK_BYTES);
    FAIL_IF_NULL(r->memory, err);
    unsigned char *at = r->memory; /* decoded chunks first: they stay aligned for the codec */
    r->decoded[0] = at;
    r->decoded[1] = at + CODEC_CHUNK_BYTES;
    r->part = at + 2 * CODEC_CHUNK_BYTES;
    at += 3 * CODEC_CHUNK_BYTES;
    for (size_t i = 0; i < CHAIN_MAX; i++, at += CODEC_CHUNK_CODED_MAX)
        r->chain[i].coded = at;
    *out = r;
    r = NULL;
out:
    frame_reader_free(r);
    return rc;
}

void frame_reader_free(frame_reader *r)
{
    if (!r)
        return;
    codec_free(r->codec);
    free(r->memory);
    free(r);
}

void frame_reader_forget(frame_reader *r)
{
    r->part_at.pack = NULL;
}

codec *frame_reader_codec(frame_reader *r)
{
    return r->codec;
}

/* Bytes of chunk i of a frame; 0 beyond its end. */
static size_t chunk_size(const pack_frame *frame, uint32_t i)
{
    const uint64_t offset = (uint64_t)i * CODEC_CHUNK_BYTES;
    if (offset >= frame->size)
        return 0;
    return frame->size - offset < CODEC_CHUNK_BYTES ? (size_t)(frame->size - offset) : CODEC_CHUNK_BYTES;
}

static void prefix_chunk(ckpt_error *err, const pack *p, uint32_t frame, uint32_t i)
{
    char hex[SHA256_HEX_SIZE];

    sha256_hex(hex, &p->name);
    error_prefix(err, "pack %.8s: frame %" PRIu32 ": chunk %" PRIu32, hex, frame, i);
}

/* Reads the coded chunk i of step->at; *needs tells whether the chain goes on. */
static int chain_read(bool *needs, chain_step *step, uint32_t i, ckpt_error *err)
{
    int rc = 0;

    TRY(pack_read_chunk(&step->coded_size, step->coded, step->at.pack, step->frame, i, err));
    TRY(codec_needs_reference(needs, step->coded, step->coded_size, err));
    FAIL_IF(*needs && step->frame->reference_pack == PACK_NONE, err, CKPT_EDATA,
            "it is coded against a reference, and the frame has none");
out:
    return rc;
}

/* The place of a step's reference, which must be the frame that it was coded against. */
static int chain_follow(frame_at *next, const chain_step *step, pack_set *set, ckpt_error *err)
{
    int rc = 0;
    const pack_frame *frame = step->frame;

    TRY(pack_set_follow(next, set, step->at.pack, frame->reference_pack, frame->reference_frame, err));
    const pack_frame *reference = &next->pack->index.frames[next->frame];
    FAIL_IF(sha256_compare(&reference->hash, &frame->reference_hash) != 0, err, CKPT_EDATA,
            "its reference is not the frame that it was coded against");
out:
    return rc;
}

/* Reads the coded chunks from `at` to the one that needs no reference, or whose reference is beyond the end of its
 * frame, which is all zeros. */
static int chain_gather(unsigned *length, bool *ends_in_zeros, frame_reader *r, frame_at at, uint32_t i,
                        ckpt_error *err)
{
    int rc = 0;
    bool needs = true;
    chain_step *step = NULL;

    *ends_in_zeros = false;
    for (*length = 0; needs && !*ends_in_zeros; ++*length) {
        FAIL_IF(*length == CHAIN_MAX, err, CKPT_EDATA, "its references are more than %d deep", PACK_DEPTH_READ_MAX);
        step = &r->chain[*length];
        step->at = at;
        step->frame = &at.pack->index.frames[at.frame];
        step->size = chunk_size(step->frame, i);
        TRY(chain_read(&needs, step, i, err));
        if (needs) {
            TRY(chain_follow(&at, step, r->set, err));
            *ends_in_zeros = chunk_size(&at.pack->index.frames[at.frame], i) == 0;
        }
    }
out:
    if (rc && step)
        prefix_chunk(err, step->at.pack, step->at.frame, i);
    return rc;
}

static int chain_decode(void *dst, frame_reader *r, const chain_step *step, uint32_t i, const void *reference,
                        ckpt_error *err)
{
    int rc = 0;

    TRY(codec_decode(dst, step->size, r->codec, step->coded, step->coded_size, reference, err));
    FAIL_IF(xxh64_of(dst, step->size) != step->at.pack->index.chunks[step->frame->chunk_first + i].xxh64, err,
            CKPT_EDATA, "it fails its check");
out:
    if (rc)
        prefix_chunk(err, step->at.pack, step->at.frame, i);
    return rc;
}

int frame_read_chunk(void *dst, frame_reader *r, frame_at at, uint32_t i, ckpt_error *err)
{
    int rc = 0;
    unsigned length = 0;
    bool ends_in_zeros = false;
    const void *reference = NULL;

    TRY(chain_gather(&length, &ends_in_zeros, r, at, i, err));
    if (ends_in_zeros) {
        memset(r->decoded[length & 1], 0, r->chain[length - 1].size);
        reference = r->decoded[length & 1];
    }
    while (length-- > 0) {
        const chain_step *step = &r->chain[length];
        unsigned char *to = length == 0 ? dst : r->decoded[length & 1];
        TRY(chain_decode(to, r, step, i, reference, err));
        const size_t wanted = length == 0 ? step->size : step[-1].size;
        if (wanted > step->size)
            memset(to + step->size, 0, wanted - step->size);
        reference = to;
    }
out:
    return rc;
}

/* Copies a part of chunk i, which is decoded unless it was the last one. */
static int part_read(void *dst, frame_reader *r, frame_at at, uint32_t i, size_t offset, size_t size, ckpt_error *err)
{
    int rc = 0;

    if (r->part_at.pack != at.pack || r->part_at.frame != at.frame || r->part_chunk != i) {
        r->part_at.pack = NULL;
        TRY(frame_read_chunk(r->part, r, at, i, err));
        r->part_at = at;
        r->part_chunk = i;
    }
    memcpy(dst, r->part + offset, size);
out:
    return rc;
}

int frame_read(void *dst, frame_reader *r, frame_at at, uint64_t offset, size_t size, ckpt_error *err)
{
    int rc = 0;
    unsigned char *to = dst;
    const pack_frame *frame = &at.pack->index.frames[at.frame];

    while (size > 0 && offset < frame->size) {
        const uint32_t i = (uint32_t)(offset / CODEC_CHUNK_BYTES);
        const size_t skip = (size_t)(offset % CODEC_CHUNK_BYTES);
        const size_t whole = chunk_size(frame, i);
        const size_t part = size < whole - skip ? size : whole - skip;
        if (part == whole)
            TRY(frame_read_chunk(to, r, at, i, err));
        else
            TRY(part_read(to, r, at, i, skip, part, err));
        to += part;
        offset += part;
        size -= part;
    }
    memset(to, 0, size);
out:
    return rc;
}
