#include "codec_internal.h"
#include "zstd_frame.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

/* Indexed by codec_mode. */
static const codec_mode_row *const MODES[] = {
    [CODEC_STORED] = &CODEC_ROW_STORED,   [CODEC_CONSTANT] = &CODEC_ROW_CONSTANT, [CODEC_COPY] = &CODEC_ROW_COPY,
    [CODEC_ZSTD] = &CODEC_ROW_ZSTD,       [CODEC_PATCH] = &CODEC_ROW_PATCH,       [CODEC_PLANES] = &CODEC_ROW_PLANES,
    [CODEC_SUB] = &CODEC_ROW_SUB,         [CODEC_XOR] = &CODEC_ROW_XOR,           [CODEC_CONTEXT] = &CODEC_ROW_CONTEXT,
    [CODEC_PALETTE] = &CODEC_ROW_PALETTE, [CODEC_SYMBOLS] = &CODEC_ROW_SYMBOLS,
};
enum { MODE_COUNT = sizeof MODES / sizeof MODES[0] };

/* NULL: no such mode. */
static const codec_mode_row *mode_row(unsigned mode)
{
    return mode < MODE_COUNT ? MODES[mode] : NULL;
}

/* ---- Scratch memory ---- */

int codec_new(codec **out, ckpt_error *err)
{
    int rc = 0;
    codec *c = calloc(1, sizeof *c);

    FAIL_IF_NULL(c, err);
    c->compressor = ZSTD_createCCtx();
    FAIL_IF_NULL(c->compressor, err);
    c->decompressor = ZSTD_createDCtx();
    FAIL_IF_NULL(c->decompressor, err);
    c->planes = malloc(CODEC_CHUNK_BYTES);
    FAIL_IF_NULL(c->planes, err);
    c->trial = malloc(CODEC_SAMPLE_BYTES);
    FAIL_IF_NULL(c->trial, err);
    c->context = calloc(1, sizeof *c->context);
    FAIL_IF_NULL(c->context, err);
    c->kernel = plane_kernel_best();
    c->context_kernel = context_kernel_best();
    c->rans_decode = rans_decode_best();
    c->rans_rounds = rans_encode_avx512();
    *out = c;
    c = NULL;
out:
    codec_free(c);
    return rc;
}

void codec_free(codec *c)
{
    if (!c)
        return;
    ZSTD_freeCCtx(c->compressor);
    ZSTD_freeDCtx(c->decompressor);
    free(c->planes);
    free(c->trial);
    free(c->context);
    free(c);
}

/* ---- Elements and plans ---- */

unsigned codec_dtype_width(ckpt_dtype dtype)
{
    switch (dtype) {
    case CKPT_U16:
    case CKPT_I16:
    case CKPT_F16:
    case CKPT_BF16:
        return 2;
    case CKPT_U32:
    case CKPT_I32:
    case CKPT_F32:
    case CKPT_C64:
        return 4;
    case CKPT_U64:
    case CKPT_I64:
    case CKPT_F64:
    case CKPT_C128:
        return 8;
    case CKPT_OPAQUE:
    case CKPT_BOOL:
    case CKPT_U8:
    case CKPT_I8:
    case CKPT_F8_E4M3:
    case CKPT_F8_E5M2:
        break;
    }
    return 1;
}

bool codec_dtype_is_float(ckpt_dtype dtype)
{
    return dtype >= CKPT_F16 && dtype <= CKPT_F8_E5M2;
}

plane_layout codec_plane_layout(const codec_plan *plan, plane_delta delta)
{
    const unsigned width = plan->width == 2 || plan->width == 4 || plan->width == 8 ? plan->width : 1;

    return (plane_layout){.delta = delta,
                          .width = width,
                          .rotate = plan->rotate % (8 * width),
                          .ordered = delta == PLANE_DELTA_SUB && codec_dtype_is_float(plan->dtype)};
}

codec_plan codec_plan_fast(ckpt_dtype dtype)
{
    const unsigned width = codec_dtype_width(dtype);
    const bool has_exponent = codec_dtype_is_float(dtype) && width > 1;

    return (codec_plan){.mode = CODEC_PLANES, .width = width, .dtype = dtype, .rotate = has_exponent ? 1 : 0};
}

/* How a chunk whose plan is "a copy" or "constant" is coded when it is not: the mode next to it. */
static codec_plan plan_alternative(const codec_plan *plan, bool has_reference)
{
    const bool bytes = plan->dtype == CKPT_OPAQUE;
    codec_plan other = *plan;

    switch (plan->mode) {
    case CODEC_COPY:
        other.mode = bytes ? CODEC_PATCH : CODEC_SUB;
        break;
    case CODEC_CONSTANT:
        other.mode = bytes ? CODEC_ZSTD : CODEC_PLANES;
        break;
    case CODEC_STORED:
    case CODEC_ZSTD:
    case CODEC_PATCH:
    case CODEC_PLANES:
    case CODEC_SUB:
    case CODEC_XOR:
    case CODEC_CONTEXT:
    case CODEC_PALETTE:
    case CODEC_SYMBOLS:
        break;
    }
    if (!has_reference && mode_row(other.mode) && mode_row(other.mode)->needs_reference)
        other.mode = other.mode == CODEC_PATCH     ? CODEC_ZSTD
                     : other.mode == CODEC_CONTEXT ? CODEC_SYMBOLS
                                                   : CODEC_PLANES;
    return other;
}

/* ---- Coding ---- */

int codec_encode_mode(size_t *coded_size, void *dst, size_t capacity, codec *c, const codec_plan *plan,
                      const codec_chunk *chunk, ckpt_error *err)
{
    int rc = 0;
    unsigned char *out = dst;
    const codec_mode_row *mode = MODES[plan->mode];
    size_t payload_size = CODEC_NO_GAIN;

    if (capacity > 0 && (chunk->reference || !mode->needs_reference)) {
        out[0] = (unsigned char)plan->mode;
        TRY(mode->encode(&payload_size, out + 1, capacity - 1, c, plan, chunk, err));
    }
    *coded_size = payload_size == CODEC_NO_GAIN ? CODEC_NO_GAIN : payload_size + 1;
out:
    return rc;
}

/* Coding with contexts adapts to a chunk in so many ways that tests cannot see all of them. */
static bool comes_back(codec *c, const void *coded, size_t coded_size, const codec_chunk *chunk)
{
    return codec_decode(c->planes, chunk->size, c, coded, coded_size, chunk->reference, NULL) == 0 &&
           memcmp(c->planes, chunk->src, chunk->size) == 0;
}

static int encode_checked(size_t *coded_size, void *dst, size_t capacity, codec *c, const codec_plan *plan,
                          const codec_chunk *chunk, ckpt_error *err)
{
    int rc = 0;
    const unsigned char *const out = dst;

    TRY((plan->thorough ? codec_encode_best : codec_encode_mode)(coded_size, dst, capacity, c, plan, chunk, err));
    if (*coded_size == CODEC_NO_GAIN || !MODES[out[0]]->checkable || !plan->check)
        goto out;
    if (!comes_back(c, dst, *coded_size, chunk)) {
        const codec_plan other = {
            .mode = CODEC_PLANES, .width = plan->width, .dtype = plan->dtype, .rotate = plan->rotate};
        c->fault_count++;
        TRY(codec_encode_mode(coded_size, dst, capacity, c, &other, chunk, err));
    }
out:
    return rc;
}

/* From the cheapest to the one that always fits. What is not smaller than the chunk itself does not pay. */
int codec_encode(size_t *coded_size, void *dst, codec *c, const codec_plan *plan, const void *src, size_t size,
                 const void *reference, ckpt_error *err)
{
    int rc = 0;
    const codec_chunk chunk = {.src = src, .size = size, .reference = reference};
    const codec_plan planned = plan_alternative(plan, reference != NULL);
    const codec_plan attempts[] = {
        {.mode = CODEC_COPY}, {.mode = CODEC_CONSTANT}, planned, {.mode = CODEC_ZSTD, .level = 1}};
    const size_t attempt_count = !mode_row(planned.mode) || planned.mode == CODEC_STORED ? 2 : 4;

    FAIL_IF(size > CODEC_CHUNK_BYTES, err, CKPT_EUSAGE, "chunk of %zu bytes", size);
    *coded_size = CODEC_NO_GAIN;
    for (size_t i = 0; i < attempt_count && *coded_size == CODEC_NO_GAIN; i++)
        TRY(encode_checked(coded_size, dst, size, c, &attempts[i], &chunk, err));
    if (*coded_size == CODEC_NO_GAIN)
        TRY(codec_encode_mode(coded_size, dst, size + 1, c, &(codec_plan){.mode = CODEC_STORED}, &chunk, err));
out:
    return rc;
}

size_t codec_faults(const codec *c)
{
    return c->fault_count;
}

int codec_needs_reference(bool *needs, const void *coded, size_t coded_size, ckpt_error *err)
{
    int rc = 0;
    const unsigned char *in = coded;

    FAIL_IF(coded_size < 1, err, CKPT_EDATA, "empty coded chunk");
    FAIL_IF(!mode_row(in[0]), err, CKPT_EDATA, "unknown coding mode %u", in[0]);
    *needs = MODES[in[0]]->needs_reference;
out:
    return rc;
}

int codec_decode(void *dst, size_t size, codec *c, const void *coded, size_t coded_size, const void *reference,
                 ckpt_error *err)
{
    int rc = 0;
    const unsigned char *in = coded;
    bool needs = false;

    TRY(codec_needs_reference(&needs, coded, coded_size, err));
    FAIL_IF(needs && !reference, err, CKPT_EDATA, "chunk of mode %s without its reference", MODES[in[0]]->name);
    FAIL_IF(size > CODEC_CHUNK_BYTES, err, CKPT_EDATA, "chunk of %zu bytes", size);
    TRY(MODES[in[0]]->decode(dst, size, c, in + 1, coded_size - 1, reference, err));
out:
    return rc;
}

const char *codec_mode_name(unsigned mode)
{
    return mode_row(mode) ? mode_row(mode)->name : NULL;
}
