/* What the modes of the codec share: the row that each of them is, and the scratch memory they work in.
 *
 * A new mode is one file codec_NAME.c that defines a codec_mode_row, and its line in MODES of codec.c. */
#ifndef CKPT_CODEC_INTERNAL_H
#define CKPT_CODEC_INTERNAL_H

#include "codec.h"
#include "context.h"
#include "planes.h"

#include <zstd.h>

/* Payload size by which an encoder says that the payload did not fit: the mode does not pay for this chunk. */
#define CODEC_NO_GAIN SIZE_MAX

/* One chunk on its way through a mode. `reference` has `size` bytes, or is NULL. */
typedef struct codec_chunk {
    const void *src;
    size_t size;
    const void *reference;
} codec_chunk;

typedef struct codec_mode_row {
    const char *name;
    bool needs_reference;
    bool checkable; /* decoding has no use for c->planes, so that a check may decode into it */
    /* Writes at most `capacity` bytes; *payload_size is CODEC_NO_GAIN when they do not do. */
    int (*encode)(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                  const codec_chunk *chunk, ckpt_error *err);
    /* Fills exactly `size` bytes from exactly `payload_size`; believes nothing. CKPT_EDATA. */
    int (*decode)(void *dst, size_t size, codec *c, const void *payload, size_t payload_size, const void *reference,
                  ckpt_error *err);
} codec_mode_row;

extern const codec_mode_row CODEC_ROW_STORED, CODEC_ROW_CONSTANT, CODEC_ROW_COPY, CODEC_ROW_ZSTD, CODEC_ROW_PATCH,
    CODEC_ROW_PLANES, CODEC_ROW_SUB, CODEC_ROW_XOR, CODEC_ROW_CONTEXT, CODEC_ROW_PALETTE, CODEC_ROW_SYMBOLS;

struct codec {
    ZSTD_CCtx *compressor;
    ZSTD_DCtx *decompressor;
    const plane_kernel *kernel;
    unsigned char *planes; /* CODEC_CHUNK_BYTES: a chunk cut into planes, or planes being put together */
    unsigned char *trial;  /* CODEC_SAMPLE_BYTES: coded samples, which only their size is wanted of */
    const context_kernel *context_kernel;
    rans_decode_fn *rans_decode;
    rans_encode_fn *rans_rounds; /* may be NULL */
    context_scratch *context;
    size_t fault_count; /* see codec_faults */
};

/* Codes with one mode only, mode byte included; *coded_size is CODEC_NO_GAIN when it takes more than `capacity`. */
int codec_encode_mode(size_t *coded_size, void *dst, size_t capacity, codec *c, const codec_plan *plan,
                      const codec_chunk *chunk, ckpt_error *err);

/* The same with the smallest of all modes that may pay, the planned one among them (codec_best.c). */
int codec_encode_best(size_t *coded_size, void *dst, size_t capacity, codec *c, const codec_plan *planned,
                      const codec_chunk *chunk, ckpt_error *err);
/* What a search for a plan of this mode begins with (codec_choose.c). */
codec_plan codec_plan_of(codec_mode mode, ckpt_dtype dtype);

/* Length of the shortest element of 1, 2, 4 or 8 bytes whose repetition is the whole chunk; 0: there is none. */
size_t codec_constant_period(const void *src, size_t size);

/* The layout of PLANES, SUB and XOR that a plan asks for. Any plan gives a valid one. */
plane_layout codec_plane_layout(const codec_plan *plan, plane_delta delta);

/* Bytes of the number that byte planes are made of: an element, or for complex types half of one. */
unsigned codec_dtype_width(ckpt_dtype dtype);
bool codec_dtype_is_float(ckpt_dtype dtype);

#endif
