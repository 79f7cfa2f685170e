/* PALETTE: payload := width:u8 last:u8 element[width]{last + 1} plane tail
 *
 * Few distinct elements: dequantised weights, masks, codes. The elements stand once, in rising order; the plane
 * (planes.h) holds the index of each element in as few bits as do for `last`, 1, 2, 4 or 8, several in one byte from
 * the lowest bit on. The tail is what is less than an element. */
#include "codec_internal.h"

#include "bytes.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

enum { COLORS_MAX = 256, PALETTE_HEADER = 2, SLOT_COUNT = 1024 };

/* Distinct elements in the order in which they come, found again by hash. */
typedef struct palette {
    uint64_t colors[COLORS_MAX];
    unsigned count;
    uint16_t slots[SLOT_COUNT]; /* one more than the index of a color, 0: free; open addressing */
} palette;

static uint64_t element_load(const unsigned char *p, unsigned width)
{
    switch (width) {
    case 2:
        return load_u16(p);
    case 4:
        return load_u32(p);
    case 8:
        return load_u64(p);
    default:
        return *p;
    }
}

static void element_store(unsigned char *p, uint64_t element, unsigned width)
{
    unsigned char bytes[8];

    store_u64(bytes, element);
    memcpy(p, bytes, width);
}

/* The index of a color, COLORS_MAX when it would be one too many. */
static unsigned palette_index(palette *p, uint64_t color)
{
    /* The top bits of a product depend on all bits of the color: 2^64 divided by the golden ratio. */
    unsigned slot = (unsigned)(color * UINT64_C(0x9e3779b97f4a7c15) >> 54);

    while (p->slots[slot] && p->colors[p->slots[slot] - 1] != color)
        slot = (slot + 1) % SLOT_COUNT;
    if (!p->slots[slot]) {
        if (p->count == COLORS_MAX)
            return COLORS_MAX;
        p->colors[p->count++] = color;
        p->slots[slot] = (uint16_t)p->count;
    }
    return p->slots[slot] - 1u;
}

static int color_compare(const void *a, const void *b)
{
    const uint64_t *const x = a, *const y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Puts the colors into rising order; rank[i] is where the i-th went. */
static void palette_sort(unsigned char rank[COLORS_MAX], palette *p)
{
    uint64_t sorted[COLORS_MAX];

    memcpy(sorted, p->colors, p->count * sizeof *sorted);
    qsort(sorted, p->count, sizeof *sorted, color_compare);
    for (unsigned i = 0; i < p->count; i++)
        rank[palette_index(p, sorted[i])] = (unsigned char)i;
    memcpy(p->colors, sorted, p->count * sizeof *sorted);
}

static unsigned index_bits(unsigned last)
{
    return last < 2 ? 1 : last < 4 ? 2 : last < 16 ? 4 : 8;
}

/* Several indexes into one byte, in place: each byte is written behind the last that is still to be read. */
static size_t indexes_pack(unsigned char *indexes, size_t count, unsigned bits, const unsigned char rank[COLORS_MAX])
{
    const unsigned each = 8 / bits;
    size_t bytes = 0;

    for (size_t i = 0; i < count; i += each) {
        unsigned value = 0;
        for (unsigned k = 0; k < each && i + k < count; k++)
            value |= (unsigned)rank[indexes[i + k]] << (k * bits);
        indexes[bytes++] = (unsigned char)value;
    }
    return bytes;
}

/* false: there are too many colors. */
static bool indexes_find(unsigned char *indexes, palette *p, const unsigned char *src, size_t count, unsigned width)
{
    for (size_t i = 0; i < count; i++) {
        const unsigned index = palette_index(p, element_load(src + i * width, width));
        if (index == COLORS_MAX)
            return false;
        indexes[i] = (unsigned char)index;
    }
    return count > 0;
}

static int palette_encode(size_t *payload_size, void *payload, size_t capacity, codec *c, const codec_plan *plan,
                          const codec_chunk *chunk, ckpt_error *err)
{
    int rc = 0;
    unsigned char *const out = payload, rank[COLORS_MAX] = {0};
    const unsigned width = codec_plane_layout(plan, PLANE_DELTA_NONE).width;
    const size_t count = chunk->size / width, tail = chunk->size % width;
    size_t used = PALETTE_HEADER;
    bool fits = true;
    palette p = {.count = 0};

    *payload_size = CODEC_NO_GAIN;
    if (!indexes_find(c->planes, &p, chunk->src, count, width) || capacity < PALETTE_HEADER + p.count * width + tail)
        goto out;
    palette_sort(rank, &p);
    out[0] = (unsigned char)width;
    out[1] = (unsigned char)(p.count - 1);
    for (unsigned i = 0; i < p.count; i++, used += width)
        element_store(out + used, p.colors[i], width);
    const size_t bytes = indexes_pack(c->planes, count, index_bits(p.count - 1), rank);
    TRY(plane_encode(&fits, &used, out, capacity - tail, c, plan->level, c->planes, bytes, err));
    if (fits) {
        memcpy(out + used, (const unsigned char *)chunk->src + chunk->size - tail, tail);
        *payload_size = used + tail;
    }
out:
    return rc;
}

static int palette_decode(void *dst, size_t size, codec *c, const void *payload, size_t payload_size,
                          const void *reference, ckpt_error *err)
{
    int rc = 0;
    const unsigned char *const in = payload, *plane = NULL;
    unsigned char *const to = dst;

    (void)reference;
    FAIL_IF(payload_size < PALETTE_HEADER, err, CKPT_EDATA, "palette ends too early");
    const unsigned width = in[0], last = in[1], bits = index_bits(last), each = 8 / bits;
    FAIL_IF(width != 1 && width != 2 && width != 4 && width != 8, err, CKPT_EDATA, "palette of elements of %u bytes",
            width);
    const size_t count = size / width, tail = size % width;
    size_t used = PALETTE_HEADER + (size_t)(last + 1) * width;
    FAIL_IF(payload_size < used, err, CKPT_EDATA, "palette ends too early");
    TRY(plane_decode(&plane, &used, c->planes, c, in, payload_size, (count + each - 1) / each, err));
    FAIL_IF(payload_size - used != tail, err, CKPT_EDATA, "%zu bytes behind a palette instead of %zu",
            payload_size - used, tail);
    for (size_t i = 0; i < count; i++) {
        const unsigned index = plane[i / each] >> (i % each * bits) & ((1u << bits) - 1);
        FAIL_IF(index > last, err, CKPT_EDATA, "element %u of a palette of %u", index, last + 1);
        memcpy(to + i * width, in + PALETTE_HEADER + (size_t)index * width, width);
    }
    memcpy(to + size - tail, in + used, tail);
out:
    return rc;
}

const codec_mode_row CODEC_ROW_PALETTE = {.name = "palette", .encode = palette_encode, .decode = palette_decode};
