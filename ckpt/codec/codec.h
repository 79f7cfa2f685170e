/* Codec: turns one chunk of a tensor into fewer bytes and back, exactly.
 *
 *   coded chunk := mode (1 byte) payload
 *
 * A chunk is at most CODEC_CHUNK_BYTES of a frame (a tensor, or several small ones), starting at a multiple of that.
 * A mode is one file codec_NAME.c and one row in MODES of codec.c; its number is part of the format (docs/format.md).
 * The reference of a chunk is the same range of bytes of the reference frame, cut or continued with zeros to the same
 * length. All modes are bijections on bits: NaN payloads, infinities, -0 and denormals survive. */
#ifndef CKPT_CODEC_H
#define CKPT_CODEC_H

#include <ckpt/store.h>

#define CODEC_CHUNK_BYTES ((size_t)1 << 20)
/* The largest coded chunk: 0.1 % and 16 bytes above the raw size. */
#define CODEC_CHUNK_CODED_MAX (CODEC_CHUNK_BYTES + CODEC_CHUNK_BYTES / 1000 + 16)

typedef enum codec_mode {
    CODEC_STORED = 0,   /* the bytes */
    CODEC_CONSTANT = 1, /* one element repeated (zero is the usual one) */
    CODEC_COPY = 2,     /* equal to the reference */
    CODEC_ZSTD = 3,     /* zstd of the bytes */
    CODEC_PATCH = 4,    /* zstd of the bytes with the reference as prefix */
    CODEC_PLANES = 5,   /* byte planes, floats rotated so that the exponent is a whole byte */
    CODEC_SUB = 6,      /* ordered integers minus those of the reference, zigzag, byte planes */
    CODEC_XOR = 7,      /* XOR with the reference, byte planes */
    CODEC_CONTEXT = 8,  /* symbols with the reference as context, and raw bits */
    CODEC_PALETTE = 9,  /* few distinct elements, once, and the index of each */
    CODEC_SYMBOLS = 10  /* symbols with their place as context, and raw bits */
} codec_mode;

/* Scratch memory of one worker: zstd contexts and plane buffers, allocated once. */
typedef struct codec codec;
int codec_new(codec **out, ckpt_error *err);
void codec_free(codec *c);

/* How the chunks of one frame are to be coded; found by codec_plan_choose, and only advice: each chunk falls back on
 * its own when the plan does not pay for it. */
typedef struct codec_plan {
    codec_mode mode;
    unsigned width; /* bytes of an element: 1, 2, 4, 8 */
    ckpt_dtype dtype;
    int level;       /* of zstd; 0: entropy coding without a search for repeats */
    unsigned rotate; /* bits by which elements are rotated before they are cut into byte planes */
    unsigned number; /* of CONTEXT: a context_number */
    /* For CONTEXT and SYMBOLS, what is known of the tensor's shape. */
    uint32_t period; /* elements in a row, 0: not known */
    struct codec_grid {
        uint32_t planes, inner; /* places of a convolution's kernel, and elements that follow one another at each; 0 */
        uint64_t first_byte;    /* of the chunk, in the tensor */
    } grid;
    bool thorough; /* code each chunk in all ways that may pay, and keep the smallest */
    bool check;    /* decode what the modes with contexts make of a chunk, before it is taken */
} codec_plan;

/* One sample: the same range of the tensor and, for each candidate reference, of that reference (NULL: none). */
#define CODEC_REFERENCES_MAX 4
#define CODEC_SAMPLE_BYTES   ((size_t)64 << 10)
#define CODEC_SAMPLES_MAX    4
typedef struct codec_sample {
    size_t size;
    const void *data;
    const void *reference[CODEC_REFERENCES_MAX];
} codec_sample;

/* Chooses mode and reference by coding the samples. *reference is the index of the chosen candidate, or -1.
 * *estimate is the expected coded size divided by the raw size. dtype CKPT_OPAQUE: the element width is guessed. */
int codec_plan_choose(codec_plan *plan, int *reference, double *estimate, codec *c, ckpt_dtype dtype,
                      const codec_sample *samples, size_t sample_count, unsigned reference_count, ckpt_error *err);

/* The plan of who has no time for samples: planes of which one is the exponent. Not for CKPT_OPAQUE. */
codec_plan codec_plan_fast(ckpt_dtype dtype);

/* Codes one chunk into dst, which has room for CODEC_CHUNK_CODED_MAX bytes. `reference` has `size` bytes or is NULL.
 * Never larger than size + size / 1000 + 16. */
int codec_encode(size_t *coded_size, void *dst, codec *c, const codec_plan *plan, const void *src, size_t size,
                 const void *reference, ckpt_error *err);

/* How many chunks did not come back when they were checked: a fault of ours, which has cost space and nothing else, as
 * such a chunk is coded in another way. */
size_t codec_faults(const codec *c);

/* Does this coded chunk need its reference? CKPT_EDATA for an unknown mode; codec_size is >= 1. */
int codec_needs_reference(bool *needs, const void *coded, size_t coded_size, ckpt_error *err);

/* Decodes exactly `size` bytes into dst. Bounded and safe on hostile input: CKPT_EDATA. */
int codec_decode(void *dst, size_t size, codec *c, const void *coded, size_t coded_size, const void *reference,
                 ckpt_error *err);

/* "planes", "sub", ... for show and stats; NULL for an unknown mode. */
const char *codec_mode_name(unsigned mode);

#endif
