#include "inflow.h"

#include "checked.h"
#include "fail.h"
#include "file.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define OUTPUT_PIECE    ((size_t)1 << 30) /* zlib counts what it may write in 32 bits */
#define WINDOW_BITS     15                /* of deflate's own window: the largest */
#define GZIP_BITS       16                /* added to them: gzip header and trailer */
#define GZIP_MAGIC      "\x1f\x8b"
#define GZIP_MAGIC_SIZE 2

struct inflow {
    const zip_source *source;
    const char *name;
    uint64_t at, end; /* of what is still to be read of the source */
    uint64_t packed_size;
    inflow_packing packing;
    z_stream z;
    bool z_open;
    bool further; /* a gzip member behind the first */
    bool done;
    unsigned char window[INFLOW_WINDOW];
};

/* ---- Where bytes lie -------------------------------------------------------------------------------------------- */

static int read_fd(void *payload, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    const origin *const o = payload;
    return file_read_at(dst, o->fd, offset, size, o->source.path, err);
}

static int read_memory(void *payload, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    const origin *const o = payload;
    (void)err;
    if (size)
        memcpy(dst, o->memory + offset, size);
    return 0;
}

int origin_open(origin *out, const char *path, ckpt_error *err)
{
    *out = (origin){.source = {.read = read_fd, .payload = out, .path = path}, .fd = -1};
    return file_open(&out->fd, &out->source.size, path, err);
}

void origin_of_memory(origin *out, const void *data, size_t size, const char *path)
{
    *out =
        (origin){.source = {.size = size, .read = read_memory, .payload = out, .path = path}, .fd = -1, .memory = data};
}

void origin_close(origin *o)
{
    if (!o->memory)
        file_close(&o->fd);
}

/* ---- Unpacking -------------------------------------------------------------------------------------------------- */

int inflow_detect(inflow_packing *out, const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    char magic[GZIP_MAGIC_SIZE] = "";

    if (source->size >= sizeof magic)
        TRY(source->read(source->payload, magic, 0, sizeof magic, err));
    *out = memcmp(magic, GZIP_MAGIC, sizeof magic) == 0 ? INFLOW_GZIP : INFLOW_PLAIN;
out:
    return rc;
}

int inflow_open(inflow **out, const zip_source *source, uint64_t offset, uint64_t size, inflow_packing packing,
                const char *name, ckpt_error *err)
{
    int rc = 0;
    inflow *in = calloc(1, sizeof *in);

    *out = NULL;
    FAIL_IF_NULL(in, err);
    in->source = source;
    in->name = name;
    in->at = offset;
    in->end = offset + size;
    in->packed_size = size;
    in->packing = packing;
    if (packing != INFLOW_PLAIN) {
        const int bits = packing == INFLOW_GZIP ? WINDOW_BITS + GZIP_BITS : -WINDOW_BITS;
        in->z_open = inflateInit2(&in->z, bits) == Z_OK;
        if (!in->z_open)
            TRY(error_memory(err));
    }
    *out = in;
    in = NULL;
out:
    inflow_close(in);
    return rc;
}

void inflow_close(inflow *in)
{
    if (in && in->z_open)
        inflateEnd(&in->z);
    free(in);
}

uint64_t inflow_size_max(const inflow *in)
{
    uint64_t size;
    if (in->packing == INFLOW_PLAIN)
        return in->packed_size;
    return checked_mul(&size, in->packed_size, INFLOW_RATIO_MAX) ? size : UINT64_MAX;
}

static int complain(const inflow *in, const char *what, const char *why, ckpt_error *err)
{
    error_set(err, CKPT_EFORMAT, "%s: packed data %s%s", in->name, what, why);
    error_hint(err, INFLOW_HINT);
    return CKPT_EFORMAT;
}

static int window_fill(inflow *in, ckpt_error *err)
{
    int rc = 0;
    const uint64_t left = in->end - in->at;
    const size_t size = left < sizeof in->window ? (size_t)left : sizeof in->window;

    TRY(in->source->read(in->source->payload, in->window, in->at, size, err));
    in->at += size;
    in->z.next_in = in->window;
    in->z.avail_in = (uInt)size;
out:
    return rc;
}

/* The packed data say that they end here. */
static int stream_end(inflow *in, ckpt_error *err)
{
    if (in->z.avail_in == 0 && in->at == in->end) {
        in->done = true;
        return 0;
    }
    if (in->packing == INFLOW_DEFLATE)
        return complain(in, "are followed by other bytes", "", err);
    in->further = true;
    (void)inflateReset(&in->z); /* fails only for a stream that is not open */
    return 0;
}

/* One call of inflate, and what it says. */
static int unpack_some(size_t *got, inflow *in, unsigned char *dst, size_t size, ckpt_error *err)
{
    int rc = 0;

    if (in->z.avail_in == 0 && in->at < in->end)
        TRY(window_fill(in, err));
    in->z.next_out = dst;
    in->z.avail_out = (uInt)(size < OUTPUT_PIECE ? size : OUTPUT_PIECE);
    const uInt room = in->z.avail_out;
    const int answer = inflate(&in->z, Z_NO_FLUSH);
    *got = room - in->z.avail_out;
    switch (answer) {
    case Z_OK:
        break;
    case Z_STREAM_END:
        TRY(stream_end(in, err));
        break;
    case Z_BUF_ERROR: /* there is room, so bytes are wanting */
        TRY(complain(in, "end early", "", err));
        break;
    case Z_MEM_ERROR:
        TRY(error_memory(err));
        break;
    default: /* what zlib says of bytes that are no gzip header would mislead behind a good member */
        if (in->further && in->z.total_out == 0)
            TRY(complain(in, "are followed by other bytes", "", err));
        TRY(complain(in, "are damaged: ", in->z.msg ? in->z.msg : "unknown", err));
    }
out:
    return rc;
}

int inflow_read(size_t *got, inflow *in, void *dst, size_t size, ckpt_error *err)
{
    int rc = 0;

    *got = 0;
    if (in->packing == INFLOW_PLAIN) {
        const uint64_t left = in->end - in->at;
        const size_t piece = left < size ? (size_t)left : size;
        TRY(in->source->read(in->source->payload, dst, in->at, piece, err));
        in->at += piece;
        *got = piece;
    }
    while (in->packing != INFLOW_PLAIN && *got < size && !in->done) {
        size_t piece;
        TRY(unpack_some(&piece, in, (unsigned char *)dst + *got, size - *got, err));
        *got += piece;
    }
out:
    return rc;
}
