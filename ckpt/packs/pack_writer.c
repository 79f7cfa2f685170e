/* Writing a pack: a stream of chunks, hashed as it goes, with the tables behind it. */
#include "pack.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "fail.h"
#include "pack_format.h"
#include "zstd_frame.h"

/* Names repeat from row to row; hashes do not shrink at any level. */
#define INDEX_LEVEL 9
/* After so many bytes the kernel is asked to begin writing them. */
#define FLUSH_BYTES ((uint64_t)8 << 20)

/* Appends what the stream of the pack has taken, or is about to. */
static int bytes_append(pack_writer *w, const void *data, size_t size, ckpt_error *err)
{
    int rc = 0;

    TRY(file_tmp_write(&w->tmp, data, size, err));
    if (w->tmp.size_bytes - w->flushed_bytes >= FLUSH_BYTES) {
        file_tmp_flush_hint(&w->tmp, w->flushed_bytes);
        w->flushed_bytes = w->tmp.size_bytes;
    }
out:
    return rc;
}

static int pack_writer_write(pack_writer *w, const void *data, size_t size, ckpt_error *err)
{
    sha256_update(w->stream, data, size);
    return bytes_append(w, data, size, err);
}

int pack_writer_open(pack_writer *w, const char *tmp_dir, ckpt_error *err)
{
    int rc = 0;
    unsigned char header[PACK_HEADER_SIZE] = {0};

    *w = (pack_writer){.tmp.fd = -1};
    w->stream = sha256_new();
    FAIL_IF_NULL(w->stream, err);
    TRY(file_tmp_open(&w->tmp, tmp_dir, "pack", err));
    memcpy(header, PACK_MAGIC, PACK_MAGIC_SIZE);
    store_u16(header + 8, PACK_VERSION);
    header[10] = PACK_CHUNK_LOG2;
    TRY(pack_writer_write(w, header, sizeof header, err));
out:
    if (rc)
        pack_writer_discard(w);
    return rc;
}

int pack_writer_frame(uint32_t *at, pack_writer *w, pack_frame *frame, ckpt_error *err)
{
    frame->offset = w->tmp.size_bytes;
    frame->chunk_first = w->index.chunk_count;
    return pack_index_add_frame(at, &w->index, frame, err);
}

/* What a reader must know to decode a chunk of this mode. */
static uint32_t mode_feature(unsigned mode)
{
    switch (mode) {
    case CODEC_CONTEXT:
    case CODEC_SYMBOLS:
        return PACK_FEATURE_CONTEXT;
    case CODEC_PALETTE:
        return PACK_FEATURE_PALETTE;
    default:
        return 0;
    }
}

/* A chunk that the stream of the pack has taken. */
static int chunk_append(pack_writer *w, const void *coded, size_t coded_size, uint64_t xxh64, ckpt_error *err)
{
    int rc = 0;
    uint32_t at = 0;

    assert(coded_size > 0 && coded_size <= CODEC_CHUNK_CODED_MAX);
    TRY(bytes_append(w, coded, coded_size, err));
    w->index.features |= mode_feature(*(const unsigned char *)coded);
    TRY(pack_index_add_chunk(&at, &w->index, &(pack_chunk){(uint32_t)coded_size, xxh64}, err));
    w->coded_bytes += coded_size;
out:
    return rc;
}

int pack_writer_chunk(pack_writer *w, const void *coded, size_t coded_size, uint64_t xxh64, ckpt_error *err)
{
    sha256_update(w->stream, coded, coded_size);
    return chunk_append(w, coded, coded_size, xxh64, err);
}

int pack_writer_chunk_of(pack_writer *w, const void *coded, size_t coded_size, uint64_t xxh64,
                         sha256_stream *frame_stream, const void *data, size_t size, ckpt_error *err)
{
    sha256_update_pair(w->stream, coded, coded_size, frame_stream, data, size);
    return chunk_append(w, coded, coded_size, xxh64, err);
}

/* The tables as one zstd frame. */
static int index_pack(void **coded, size_t *coded_size, size_t *size, const pack_index *index, ckpt_error *err)
{
    int rc = 0;
    unsigned char *tables = NULL;
    ZSTD_CCtx *compressor = ZSTD_createCCtx();

    *coded = NULL;
    FAIL_IF_NULL(compressor, err);
    TRY(pack_index_encode(&tables, size, index, err));
    const size_t capacity = ZSTD_compressBound(*size);
    *coded = malloc(capacity);
    FAIL_IF_NULL(*coded, err);
    TRY(zstd_frame_encode(coded_size, *coded, capacity, compressor, INDEX_LEVEL, tables, *size, NULL, 0, err));
    assert(*coded_size <= capacity);
out:
    free(tables);
    ZSTD_freeCCtx(compressor);
    return rc;
}

int pack_writer_finish(sha256 *name, pack_writer *w, ckpt_error *err)
{
    int rc = 0;
    void *coded = NULL;
    size_t coded_size = 0, size = 0;
    unsigned char footer[PACK_FOOTER_SIZE];
    const uint64_t index_offset = w->tmp.size_bytes;

    TRY(index_pack(&coded, &coded_size, &size, &w->index, err));
    TRY(pack_writer_write(w, coded, coded_size, err));
    store_u64(footer, index_offset);
    store_u64(footer + 8, coded_size);
    store_u64(footer + 16, size);
    store_u64(footer + 24, xxh64_of(coded, coded_size));
    store_u64(footer + 32, index_offset + coded_size + PACK_FOOTER_SIZE);
    memcpy(footer + 40, PACK_FOOTER_MAGIC, PACK_MAGIC_SIZE);
    TRY(pack_writer_write(w, footer, sizeof footer, err));
    file_tmp_flush_hint(&w->tmp, w->flushed_bytes);
    w->flushed_bytes = w->tmp.size_bytes;
    sha256_finish(name, w->stream);
out:
    free(coded);
    return rc;
}

void pack_writer_discard(pack_writer *w)
{
    file_tmp_discard(&w->tmp);
    pack_index_clear(&w->index);
    sha256_free(w->stream);
    w->stream = NULL;
}
