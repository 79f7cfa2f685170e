#include "hdf5_chunks.h"

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "inflate.h"

#include <stdlib.h>
#include <string.h>

#define TREE_HEAD      24
#define TREE_DEPTH_MAX 16
#define CHECKSUM_SIZE  4

/* The chunks of a dataset on their way into its elements. */
typedef struct reading {
    const byte_source *source;
    const hdf5_object *object;
    uint64_t chunk_bytes, chunks; /* of each; how many there have to be */
    uint64_t found;               /* how many were */
    hdf5_budget left;
    uint64_t last[CKPT_RANK_MAX]; /* where the chunk before begins */
    unsigned char *data;          /* NULL: only count */
    unsigned char *packed, *plain, *other;
} reading;

typedef struct chunk {
    uint64_t first[CKPT_RANK_MAX]; /* elements */
    uint64_t at, size;
    uint32_t skipped; /* a bit for each filter */
} chunk;

static int read_range(void *dst, const byte_source *source, uint64_t at, uint64_t size, ckpt_error *err)
{
    if (!checked_range(at, size, source->size))
        return error_set(err, CKPT_EFORMAT, "hdf5: an address lies outside of the file");
    return size ? source->read(source, dst, at, (size_t)size, err) : 0;
}

/* ---- One chunk -------------------------------------------------------------------------------------------------- */

/* All first bytes of the elements, then all second ones ...: back to elements. Bytes that make no element stay behind.
 */
static void unshuffle(unsigned char *dst, const unsigned char *src, size_t size, size_t width)
{
    const size_t count = size / width;
    for (size_t i = 0; i < count; i++)
        for (size_t byte = 0; byte < width; byte++)
            dst[i * width + byte] = src[byte * count + i];
    memcpy(dst + count * width, src + count * width, size - count * width);
}

/* Undoes the filters, the last one first. The elements stand in r->plain afterwards. */
static int chunk_unpack(reading *r, const chunk *c, ckpt_error *err)
{
    int rc = 0;
    const hdf5_object *const o = r->object;
    const size_t width = ckpt_dtype_size(o->view.dtype);
    uint64_t size = c->size;

    FAIL_IF(size > r->chunk_bytes + CHECKSUM_SIZE + r->chunk_bytes / 8 + 1024, err, CKPT_EFORMAT,
            "hdf5: a chunk is larger than its elements");
    unsigned char *const packed = realloc(r->packed, (size_t)size + 1);
    FAIL_IF_NULL(packed, err);
    r->packed = packed;
    TRY(read_range(r->packed, r->source, c->at, size, err));
    bool elsewhere = false; /* in r->plain, not r->packed any more */
    for (unsigned i = o->filter_count; i-- > 0;) {
        if (c->skipped & (1u << i))
            continue;
        if (o->filters[i] == HDF5_CHECKSUM) {
            FAIL_IF(size < CHECKSUM_SIZE, err, CKPT_EFORMAT, "hdf5: a chunk is too short");
            size -= CHECKSUM_SIZE;
        } else if (o->filters[i] == HDF5_DEFLATE) {
            FAIL_IF(elsewhere, err, CKPT_EFORMAT, "hdf5: a chunk is packed twice");
            rc = inflate_zlib_exactly(r->plain, (size_t)r->chunk_bytes, r->packed, (size_t)size, err);
            TRY(rc == CKPT_EDATA ? error_recode(err, CKPT_EFORMAT) : rc);
            size = r->chunk_bytes;
            elsewhere = true;
        } else {
            const unsigned char *const from = elsewhere ? r->plain : r->packed;
            FAIL_IF(size != r->chunk_bytes, err, CKPT_EFORMAT, "hdf5: a chunk has another size");
            unshuffle(r->other, from, (size_t)size, width);
            memcpy(r->plain, r->other, (size_t)size);
            elsewhere = true;
        }
    }
    FAIL_IF(size != r->chunk_bytes, err, CKPT_EFORMAT, "hdf5: a chunk has another size");
    if (!elsewhere)
        memcpy(r->plain, r->packed, (size_t)size);
out:
    return rc;
}

/* Copies the part of the chunk that lies in the dataset, row by row. */
static void chunk_place(const reading *r, const chunk *c)
{
    const hdf5_object *const o = r->object;
    const unsigned rank = o->view.rank;
    const size_t width = ckpt_dtype_size(o->view.dtype);
    uint64_t part[CKPT_RANK_MAX], at[CKPT_RANK_MAX] = {0}, rows = 1;

    for (unsigned d = 0; d < rank; d++) {
        const uint64_t left = o->view.shape[d] - c->first[d];
        part[d] = left < o->chunk[d] ? left : o->chunk[d];
        rows *= d + 1 < rank ? part[d] : 1;
    }
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t from = 0, to = 0;
        for (unsigned d = 0; d < rank; d++) {
            from = from * o->chunk[d] + at[d];
            to = to * o->view.shape[d] + c->first[d] + at[d];
        }
        memcpy(r->data + to * width, r->plain + from * width, (size_t)part[rank - 1] * width);
        for (unsigned d = rank - 1; d-- > 0 && ++at[d] == part[d];)
            at[d] = 0;
    }
}

static bool comes_after(const uint64_t *place, const uint64_t *other, unsigned rank)
{
    for (unsigned d = 0; d < rank; d++)
        if (place[d] != other[d])
            return place[d] > other[d];
    return false;
}

static int chunk_visit(reading *r, const chunk *c, ckpt_error *err)
{
    int rc = 0;

    for (unsigned d = 0; d < r->object->view.rank; d++)
        FAIL_IF(c->first[d] >= r->object->view.shape[d] || c->first[d] % r->object->chunk[d] != 0, err, CKPT_EFORMAT,
                "hdf5: a chunk lies outside of its dataset");
    /* A chunk that came twice would stand for one that is not there. */
    FAIL_IF(r->found && !comes_after(c->first, r->last, r->object->view.rank), err, CKPT_EFORMAT,
            "hdf5: chunks are not in order");
    memcpy(r->last, c->first, sizeof r->last);
    FAIL_IF(++r->found > r->chunks, err, CKPT_EFORMAT, "hdf5: a dataset has too many chunks");
    FAIL_IF(!checked_range(c->at, c->size, r->source->size), err, CKPT_EFORMAT,
            "hdf5: an address lies outside of the file");
    FAIL_IF(c->size < r->chunk_bytes / INFLATE_RATIO_MAX, err, CKPT_EFORMAT,
            "hdf5: a chunk cannot be so much smaller than its elements");
    FAIL_IF(c->size > r->left.bytes, err, CKPT_EFORMAT, "hdf5: chunks share their bytes");
    r->left.bytes -= c->size;
    if (r->data) {
        TRY(chunk_unpack(r, c, err));
        chunk_place(r, c);
    }
out:
    return rc;
}

/* ---- The tree --------------------------------------------------------------------------------------------------- */

static int node_visit(reading *r, uint64_t address, unsigned depth, ckpt_error *err)
{
    int rc = 0;
    unsigned char head[TREE_HEAD];
    unsigned char *rows = NULL;
    const unsigned rank = r->object->view.rank;
    const size_t key_size = 8 + 8 * ((size_t)rank + 1), row_size = key_size + 8;

    TRY(read_range(head, r->source, address, sizeof head, err));
    FAIL_IF(memcmp(head, "TREE", 4) != 0 || head[4] != 1 || depth == TREE_DEPTH_MAX, err, CKPT_EFORMAT,
            "hdf5: a dataset has no tree of chunks");
    const size_t count = load_u16(head + 6);
    FAIL_IF(count + 1 > r->left.rows, err, CKPT_EFORMAT, "hdf5: there are too many chunks");
    r->left.rows -= count + 1;
    rows = malloc(count * row_size + 1);
    FAIL_IF_NULL(rows, err);
    TRY(read_range(rows, r->source, address + TREE_HEAD, count * row_size, err));
    for (size_t i = 0; i < count; i++) {
        const unsigned char *const key = rows + i * row_size;
        chunk c = {.size = load_u32(key), .skipped = load_u32(key + 4), .at = load_u64(key + key_size)};
        for (unsigned d = 0; d < rank; d++)
            c.first[d] = load_u64(key + 8 + 8 * (size_t)d);
        TRY(head[5] ? node_visit(r, c.at, depth + 1, err) : chunk_visit(r, &c, err));
    }
out:
    free(rows);
    return rc;
}

/* ---- Datasets --------------------------------------------------------------------------------------------------- */

static int reading_begin(reading *r, const byte_source *source, const hdf5_object *o, hdf5_budget left, ckpt_error *err)
{
    int rc = 0;

    *r = (reading){.source = source, .object = o, .chunks = 1, .left = left};
    r->chunk_bytes = ckpt_dtype_size(o->view.dtype);
    FAIL_IF(o->view.span_bytes > HDF5_UNPACKED_MAX, err, CKPT_EFORMAT, "hdf5: a dataset is larger than %u MiB",
            (unsigned)(HDF5_UNPACKED_MAX >> 20));
    for (unsigned d = 0; d < o->view.rank; d++) {
        FAIL_IF(o->chunk[d] == 0 || !checked_mul(&r->chunk_bytes, r->chunk_bytes, o->chunk[d]) ||
                    r->chunk_bytes > HDF5_CHUNK_MAX,
                err, CKPT_EFORMAT, "hdf5: a chunk makes no sense");
        r->chunks *= (o->view.shape[d] + o->chunk[d] - 1) / o->chunk[d]; /* at most the number of elements */
    }
out:
    return rc;
}

int hdf5_chunks_check(hdf5_budget *left, const byte_source *source, const hdf5_object *object, ckpt_error *err)
{
    int rc = 0;
    reading r = {.left = *left};

    TRY(reading_begin(&r, source, object, *left, err));
    if (r.chunks)
        TRY(node_visit(&r, object->chunk_tree, 0, err));
    FAIL_IF(r.found != r.chunks, err, CKPT_EFORMAT, "hdf5: a dataset lacks chunks");
out:
    *left = r.left; /* of one that cannot be read too: there may be many of those */
    return rc;
}

int hdf5_chunks_read(unsigned char **data, const byte_source *source, const hdf5_object *object, ckpt_error *err)
{
    int rc = 0;
    reading r;

    TRY(reading_begin(&r, source, object, (hdf5_budget){UINT64_MAX, UINT64_MAX}, err));
    r.data = calloc(1, (size_t)object->view.span_bytes + 1);
    r.plain = malloc((size_t)r.chunk_bytes + 1);
    r.other = malloc((size_t)r.chunk_bytes + 1);
    FAIL_IF_NULL(r.data && r.plain && r.other, err);
    if (r.chunks)
        TRY(node_visit(&r, object->chunk_tree, 0, err));
    FAIL_IF(r.found != r.chunks, err, CKPT_EFORMAT, "hdf5: a dataset lacks chunks");
    *data = r.data;
    r.data = NULL;
out:
    free(r.data);
    free(r.packed);
    free(r.plain);
    free(r.other);
    return rc;
}
