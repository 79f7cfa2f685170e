#include "hdf5_object.h"

#include "bytes.h"
#include "checked.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

enum {
    MESSAGE_DATASPACE = 0x01,
    MESSAGE_DATATYPE = 0x03,
    MESSAGE_LINK = 0x06,
    MESSAGE_EXTERNAL = 0x07,
    MESSAGE_LAYOUT = 0x08,
    MESSAGE_FILTERS = 0x0b,
    MESSAGE_CONTINUATION = 0x10,
    MESSAGE_SYMBOL_TABLE = 0x11
};

#define MESSAGE_SHARED     0x02 /* flag: it stands somewhere else */
#define VERSION_1_SIZE     16   /* of the fixed parts */
#define VERSION_1_MESSAGE  8
#define VERSION_2_SIZE     6
#define CONTINUATION_EXTRA 8 /* signature and checksum of a block of version 2 */

/* A block of messages that is still to be read. */
typedef struct block {
    uint64_t at, size;
} block;

typedef struct header {
    hdf5_reader *reader;
    hdf5_object *out;
    hdf5_link_fn link;
    void *payload;
    unsigned version;
    bool tracked; /* version 2: messages have a number */
    block blocks[HDF5_BLOCKS_MAX];
    size_t block_count, message_count;
    bool has_space, has_type, has_layout, unknown;
    unsigned chunk_rank; /* with a dimension for the bytes of an element; 0: not in chunks */
    uint64_t data, data_size;
} header;

typedef struct message {
    unsigned type, flags;
    const unsigned char *data;
    size_t size;
    uint64_t at; /* of the data, in the file */
} message;

int hdf5_read(void *dst, hdf5_reader *reader, uint64_t at, uint64_t size, ckpt_error *err)
{
    if (!checked_range(at, size, reader->source->size))
        return error_set(err, CKPT_EFORMAT, "hdf5: an address lies outside of the file");
    if (size > reader->left)
        return error_set(err, CKPT_EFORMAT, "hdf5: objects refer to each other too often");
    reader->left -= size;
    return size ? reader->source->read(reader->source, dst, at, (size_t)size, err) : 0;
}

/* ---- Messages --------------------------------------------------------------------------------------------------- */

/* The shape. Version 1 has 4 bytes more; a null dataspace, of version 2, has no elements at all. */
static bool dataspace_read(tensor_view *view, const message *m)
{
    if (m->size < 4)
        return false;
    const unsigned version = m->data[0], rank = m->data[1];
    const size_t start = version == 1 ? 8 : 4;
    if (version < 1 || version > 2 || rank > CKPT_RANK_MAX || m->size < start + 8 * (size_t)rank ||
        (version == 2 && m->data[3] > 1))
        return false;
    view->rank = rank;
    for (unsigned i = 0; i < rank; i++)
        view->shape[i] = load_u64(m->data + start + 8 * (size_t)i);
    return true;
}

static const struct {
    unsigned size, exponent, mantissa;
    ckpt_dtype dtype;
} FLOATS[] = {{2, 5, 10, CKPT_F16}, {2, 8, 7, CKPT_BF16}, {4, 8, 23, CKPT_F32}, {8, 11, 52, CKPT_F64}};

static ckpt_dtype float_type(const unsigned char *data, size_t size, unsigned width)
{
    if (size < 20 || (data[1] & 0x41) != 0 || load_u16(data + 8) != 0 || load_u16(data + 10) != 8 * width)
        return CKPT_OPAQUE;
    for (size_t i = 0; i < sizeof FLOATS / sizeof *FLOATS; i++)
        if (FLOATS[i].size == width && FLOATS[i].exponent == data[13] && FLOATS[i].mantissa == data[15])
            return FLOATS[i].dtype;
    return CKPT_OPAQUE;
}

static ckpt_dtype integer_type(const unsigned char *data, size_t size, unsigned width)
{
    static const ckpt_dtype TYPES[2][9] = {
        {[1] = CKPT_U8, [2] = CKPT_U16, [4] = CKPT_U32, [8] = CKPT_U64},
        {[1] = CKPT_I8, [2] = CKPT_I16, [4] = CKPT_I32, [8] = CKPT_I64},
    };
    if (size < 12 || width > 8 || ((data[1] & 1) != 0 && width > 1) || load_u16(data + 8) != 0 ||
        load_u16(data + 10) != 8 * width)
        return CKPT_OPAQUE;
    return TYPES[(data[1] >> 3) & 1][width];
}

/* The enumeration {FALSE, TRUE} of one byte: what h5py writes for bool. */
static bool is_bool(const unsigned char *data, size_t size, unsigned width)
{
    static const char NAMES[] = "FALSE\0\0\0TRUE\0\0\0\0\0\1", NAMES_3[] = "FALSE\0TRUE\0\0\1";
    const size_t base = 8 + 12; /* behind the type of the values */
    const bool padded = data[0] >> 4 < 3;
    const size_t names = padded ? sizeof NAMES - 1 : sizeof NAMES_3 - 1;
    return width == 1 && load_u16(data + 1) == 2 && size >= base + names &&
           memcmp(data + base, padded ? NAMES : NAMES_3, names) == 0;
}

static bool datatype_read(tensor_view *view, const message *m)
{
    enum { CLASS_INTEGER = 0, CLASS_FLOAT = 1, CLASS_ENUM = 8 };
    if (m->size < 8)
        return false;
    const unsigned class = m->data[0] & 15, width = load_u32(m->data + 4);
    if (class == CLASS_INTEGER)
        view->dtype = integer_type(m->data, m->size, width);
    else if (class == CLASS_FLOAT)
        view->dtype = float_type(m->data, m->size, width);
    else if (class == CLASS_ENUM && is_bool(m->data, m->size, width))
        view->dtype = CKPT_BOOL;
    return view->dtype != CKPT_OPAQUE;
}

/* Where the elements lie: somewhere in the file, in the message itself, or in chunks. */
static bool layout_read(header *h, const message *m)
{
    enum { COMPACT = 0, CONTIGUOUS = 1, CHUNKED = 2 };
    if (m->size < 2 || m->data[0] < 3 || m->data[0] > 4)
        return false;
    if (m->data[1] == CONTIGUOUS && m->size >= 18) {
        h->data = load_u64(m->data + 2);
        h->data_size = load_u64(m->data + 10);
        return true;
    }
    if (m->data[1] == COMPACT && m->size >= 4) {
        h->data = m->at + 4;
        h->data_size = load_u16(m->data + 2);
        return h->data_size <= m->size - 4;
    }
    if (m->data[0] == 3 && m->data[1] == CHUNKED && m->size >= 11) { /* version 4 has other indexes than a tree */
        h->chunk_rank = m->data[2];
        h->out->chunk_tree = load_u64(m->data + 3);
        if (h->chunk_rank < 2 || h->chunk_rank > CKPT_RANK_MAX + 1 || m->size < 11 + 4 * (size_t)h->chunk_rank)
            return false;
        for (unsigned i = 0; i + 1 < h->chunk_rank; i++)
            h->out->chunk[i] = load_u32(m->data + 11 + 4 * (size_t)i);
        return true;
    }
    return false;
}

/* The filters of chunks; false when there is one that is not known. */
static bool filters_read(hdf5_object *out, const message *m)
{
    if (m->size < 2 || m->data[0] < 1 || m->data[0] > 2 || m->data[1] > HDF5_FILTERS_MAX)
        return false;
    const bool old = m->data[0] == 1;
    size_t at = old ? 8 : 2;
    for (unsigned i = 0; i < m->data[1]; i++) {
        if (m->size < at + 8)
            return false;
        const unsigned id = load_u16(m->data + at);
        if (id < HDF5_DEFLATE || id > HDF5_CHECKSUM)
            return false;
        const size_t name_size = old ? load_u16(m->data + at + 2) : 0; /* known ones have none in version 2 */
        const size_t values = load_u16(m->data + at + (old ? 6 : 4));
        at += (old ? 8 + (name_size + 7) / 8 * 8 : 6) + 4 * (values + (old ? values % 2 : 0));
        out->filters[out->filter_count++] = (hdf5_filter)id;
    }
    return at <= m->size;
}

/* A hard link; others lead to names. */
static int link_read(header *h, const message *m, ckpt_error *err)
{
    size_t at = 2;
    if (m->size < 2 || m->data[0] != 1)
        return 0;
    const unsigned flags = m->data[1];
    const size_t width = (size_t)1 << (flags & 3);
    uint64_t name_size = 0;
    if ((flags & 8) && (m->size < 3 || m->data[at++] != 0))
        return 0;
    at += (flags & 4 ? 8u : 0u) + (flags & 16 ? 1u : 0u);
    if (at > m->size || m->size - at < width)
        return 0;
    for (size_t i = width; i-- > 0;)
        name_size = name_size << 8 | m->data[at + i];
    at += width;
    if (name_size > HDF5_LINK_MAX || m->size - at < name_size + 8)
        return 0;
    return h->link(h->payload, (const char *)m->data + at, (size_t)name_size, load_u64(m->data + at + name_size), err);
}

static int continuation_read(header *h, const message *m, ckpt_error *err)
{
    int rc = 0;
    block next;

    FAIL_IF(m->size < 16 || h->block_count == HDF5_BLOCKS_MAX, err, CKPT_EFORMAT, "hdf5: a header goes on too long");
    next = (block){load_u64(m->data), load_u64(m->data + 8)};
    if (h->version == 2) {
        FAIL_IF(next.size < CONTINUATION_EXTRA || next.at > UINT64_MAX - 4, err, CKPT_EFORMAT,
                "hdf5: a header goes on nowhere");
        next = (block){next.at + 4, next.size - CONTINUATION_EXTRA};
    }
    h->blocks[h->block_count++] = next;
out:
    return rc;
}

static int message_read(header *h, const message *m, ckpt_error *err)
{
    int rc = 0;
    hdf5_object *const out = h->out;

    FAIL_IF(++h->message_count > HDF5_MESSAGES_MAX, err, CKPT_EFORMAT, "hdf5: a header has too many messages");
    if (m->type == MESSAGE_CONTINUATION) {
        TRY(continuation_read(h, m, err));
    } else if (m->type == MESSAGE_LINK) {
        TRY(link_read(h, m, err));
    } else if (m->type == MESSAGE_SYMBOL_TABLE && m->size >= 16) {
        out->tree = load_u64(m->data);
        out->heap = load_u64(m->data + 8);
    } else if (m->type == MESSAGE_EXTERNAL) {
        h->unknown = true;
    } else if (m->type == MESSAGE_DATASPACE) {
        h->has_space = !(m->flags & MESSAGE_SHARED) && dataspace_read(&out->view, m);
    } else if (m->type == MESSAGE_DATATYPE) {
        h->has_type = !(m->flags & MESSAGE_SHARED) && datatype_read(&out->view, m);
    } else if (m->type == MESSAGE_LAYOUT) {
        h->has_layout = layout_read(h, m);
    } else if (m->type == MESSAGE_FILTERS) {
        out->filter_count = 0;
        h->unknown |= (m->flags & MESSAGE_SHARED) || !filters_read(out, m);
    }
out:
    return rc;
}

/* ---- Blocks ----------------------------------------------------------------------------------------------------- */

static int block_read(header *h, block where, ckpt_error *err)
{
    int rc = 0;
    const size_t head = h->version == 1 ? VERSION_1_MESSAGE : h->tracked ? 6 : 4;
    unsigned char *bytes = NULL;

    FAIL_IF(where.size > HDF5_BLOCK_MAX, err, CKPT_EFORMAT, "hdf5: a header is too long");
    bytes = malloc((size_t)where.size + 1);
    FAIL_IF_NULL(bytes, err);
    TRY(hdf5_read(bytes, h->reader, where.at, where.size, err));
    for (size_t at = 0; where.size - at >= head;) {
        const unsigned char *const start = bytes + at;
        message m = {.data = start + head, .at = where.at + at + head};
        m.type = h->version == 1 ? load_u16(start) : start[0];
        m.size = h->version == 1 ? load_u16(start + 2) : load_u16(start + 1);
        m.flags = h->version == 1 ? start[4] : start[3];
        FAIL_IF(m.size > where.size - at - head, err, CKPT_EFORMAT, "hdf5: a message runs past its header");
        TRY(message_read(h, &m, err));
        at += head + m.size;
    }
out:
    free(bytes);
    return rc;
}

/* The first block of either version. */
static int header_begin(header *h, uint64_t address, ckpt_error *err)
{
    int rc = 0;
    unsigned char start[VERSION_1_SIZE];

    TRY(hdf5_read(start, h->reader, address, sizeof start, err));
    if (memcmp(start, "OHDR", 4) == 0 && start[4] == 2) {
        const unsigned flags = start[5];
        const size_t width = (size_t)1 << (flags & 3);
        uint64_t at = address + VERSION_2_SIZE + (flags & 32 ? 16u : 0u) + (flags & 16 ? 4u : 0u), size = 0;
        unsigned char sizes[8];
        TRY(hdf5_read(sizes, h->reader, at, width, err));
        for (size_t i = width; i-- > 0;)
            size = size << 8 | sizes[i];
        h->version = 2;
        h->tracked = flags & 4;
        h->blocks[h->block_count++] = (block){at + width, size};
    } else {
        FAIL_IF(start[0] != 1, err, CKPT_EFORMAT, "hdf5: no object where a name leads to");
        h->version = 1;
        h->blocks[h->block_count++] = (block){address + VERSION_1_SIZE, load_u32(start + 8)};
    }
out:
    return rc;
}

int hdf5_object_read(hdf5_object *out, hdf5_reader *reader, uint64_t address, hdf5_link_fn link, void *payload,
                     ckpt_error *err)
{
    int rc = 0;
    header h = {.reader = reader, .out = out, .link = link, .payload = payload};

    *out = (hdf5_object){.tree = HDF5_NO_ADDRESS, .heap = HDF5_NO_ADDRESS};
    TRY(header_begin(&h, address, err));
    for (size_t i = 0; i < h.block_count; i++)
        TRY(block_read(&h, h.blocks[i], err));
    if (!h.has_space || !h.has_type || !h.has_layout || h.unknown)
        goto out;
    if (tensor_view_row_major(&out->view, NULL))
        goto out;
    if (h.chunk_rank) {
        out->chunked = h.chunk_rank == out->view.rank + 1 && out->view.span_bytes > 0;
        goto out;
    }
    out->view.offset = out->view.span_bytes ? h.data : 0; /* one without elements has no place */
    out->dataset = out->view.span_bytes <= h.data_size &&
                   checked_range(out->view.offset, out->view.span_bytes, reader->source->size);
out:
    return rc;
}
