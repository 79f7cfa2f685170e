/* HDF5 (.h5), as h5py and Keras write it: datasets of plain numbers that lie in one piece are tensors, named by their
 * path with dots for slashes. What is in chunks (hdf5_chunks.h) or of another type, and groups of so many links that
 * they are indexed by a heap, stay bytes between. Chains of links that lead in a circle end at a depth.
 *
 *   superblock -> group -> object ...        tree := "TREE" node -> "SNOD" -> (name in "HEAP", object)*
 *
 * No library reads the file: all of it is places that are checked (hdf5_object.h). */
#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "hdf5.h"
#include "zip_member.h"

#include <stdlib.h>
#include <string.h>

#define SIGNATURE      "\x89HDF\r\n\x1a\n"
#define SIGNATURE_SIZE 8
#define SUPERBLOCK_MAX 96
#define ADDRESS_SIZE   8
#define DEPTH_MAX      64
/* Objects and nodes are visited once in an honest file; those with several names a few times. */
#define BYTES_PER_OBJECT 32
#define OBJECTS_FREE     4096
#define READS_PER_BYTE   4
#define READS_FREE       (UINT64_C(16) << 20)
#define TREE_HEAD        24
#define TREE_DEPTH_MAX   16
#define LEAF_HEAD        8
#define LEAF_ROW         40
#define HEAP_HEAD        32
#define LINK_SYMBOLIC    2

typedef struct hdf5 {
    hdf5_reader reader;
    hdf5_dataset_fn each;
    void *payload;
    uint64_t objects_left;
    unsigned depth;
    size_t name_size;
    char name[TENSOR_FILE_NAME_MAX + 1];
} hdf5;

static int object_visit(hdf5 *h, uint64_t address, ckpt_error *err);

/* ---- Links ------------------------------------------------------------------------------------------------------ */

/* Visits what a name leads to. A name that is none of a tensor leaves all below it out. */
static int link_visit(void *payload, const char *name, size_t name_size, uint64_t address, ckpt_error *err)
{
    int rc = 0;
    hdf5 *const h = payload;
    const size_t before = h->name_size, start = before + (before ? 1 : 0);

    if (name_size == 0 || memchr(name, 0, name_size) || start + name_size > TENSOR_FILE_NAME_MAX)
        goto out;
    if (before)
        h->name[before] = '.';
    memcpy(h->name + start, name, name_size);
    h->name_size = start + name_size;
    h->name[h->name_size] = 0;
    for (char *c = h->name + start; *c; c++) /* no part of a path has one; a name of ours has dots */
        if (*c == '/')
            *c = '.';
    TRY(object_visit(h, address, err));
out:
    h->name_size = before;
    h->name[before] = 0;
    return rc;
}

/* ---- Symbol tables ---------------------------------------------------------------------------------------------- */

/* The names of one group: a segment of texts that end with 0. */
typedef struct names {
    uint64_t at, size;
} names;

static int heap_read(names *out, hdf5 *h, uint64_t address, ckpt_error *err)
{
    int rc = 0;
    unsigned char head[HEAP_HEAD];

    TRY(hdf5_read(head, &h->reader, address, sizeof head, err));
    FAIL_IF(memcmp(head, "HEAP", 4) != 0, err, CKPT_EFORMAT, "hdf5: a group has no names");
    *out = (names){load_u64(head + 24), load_u64(head + 8)};
    FAIL_IF(!checked_range(out->at, out->size, h->reader.source->size), err, CKPT_EFORMAT,
            "hdf5: an address lies outside of the file");
out:
    return rc;
}

static int row_visit(hdf5 *h, const names *n, const unsigned char *row, ckpt_error *err)
{
    int rc = 0;
    char name[HDF5_LINK_MAX + 1];
    const uint64_t at = load_u64(row);

    FAIL_IF(at >= n->size, err, CKPT_EFORMAT, "hdf5: a name lies outside of its heap");
    if (load_u32(row + 16) == LINK_SYMBOLIC)
        goto out;
    const size_t size = n->size - at < HDF5_LINK_MAX ? (size_t)(n->size - at) : HDF5_LINK_MAX;
    TRY(hdf5_read(name, &h->reader, n->at + at, size, err));
    name[size] = 0;
    if (strlen(name) < size)
        TRY(link_visit(h, name, strlen(name), load_u64(row + 8), err));
out:
    return rc;
}

static int leaf_visit(hdf5 *h, const names *n, uint64_t address, ckpt_error *err)
{
    int rc = 0;
    unsigned char head[LEAF_HEAD];
    unsigned char *rows = NULL;

    TRY(hdf5_read(head, &h->reader, address, sizeof head, err));
    FAIL_IF(memcmp(head, "SNOD", 4) != 0, err, CKPT_EFORMAT, "hdf5: a group has no list");
    const size_t count = load_u16(head + 6);
    rows = malloc(count * LEAF_ROW + 1);
    FAIL_IF_NULL(rows, err);
    TRY(hdf5_read(rows, &h->reader, address + LEAF_HEAD, count * LEAF_ROW, err));
    for (size_t i = 0; i < count; i++)
        TRY(row_visit(h, n, rows + i * LEAF_ROW, err));
out:
    free(rows);
    return rc;
}

static int tree_visit(hdf5 *h, const names *n, uint64_t address, unsigned depth, ckpt_error *err)
{
    int rc = 0;
    unsigned char head[TREE_HEAD];
    unsigned char *rows = NULL;

    FAIL_IF(h->objects_left == 0, err, CKPT_EFORMAT, "hdf5: objects refer to each other too often");
    h->objects_left--;
    TRY(hdf5_read(head, &h->reader, address, sizeof head, err));
    FAIL_IF(memcmp(head, "TREE", 4) != 0 || head[4] != 0 || depth == TREE_DEPTH_MAX, err, CKPT_EFORMAT,
            "hdf5: a group has no tree");
    const unsigned level = head[5];
    const size_t count = load_u16(head + 6);
    rows = malloc(count * 2 * ADDRESS_SIZE + 1);
    FAIL_IF_NULL(rows, err);
    TRY(hdf5_read(rows, &h->reader, address + TREE_HEAD, count * 2 * ADDRESS_SIZE, err));
    for (size_t i = 0; i < count; i++) { /* a key before each child, and one behind the last */
        const uint64_t child = load_u64(rows + i * 2 * ADDRESS_SIZE + ADDRESS_SIZE);
        TRY(level ? tree_visit(h, n, child, depth + 1, err) : leaf_visit(h, n, child, err));
    }
out:
    free(rows);
    return rc;
}

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

static int object_visit(hdf5 *h, uint64_t address, ckpt_error *err)
{
    int rc = 0;
    hdf5_object object;
    names n;

    FAIL_IF(h->objects_left == 0, err, CKPT_EFORMAT, "hdf5: objects refer to each other too often");
    h->objects_left--;
    if (h->depth == DEPTH_MAX)
        return 0;
    h->depth++;
    TRY(hdf5_object_read(&object, &h->reader, address, link_visit, h, err));
    if (object.dataset || object.chunked) {
        const char *const name = h->name_size ? h->name : TENSOR_NAME_ALONE;
        if (tensor_name_valid(name))
            TRY(h->each(h->payload, name, &object, err));
    } else if (object.tree != HDF5_NO_ADDRESS) {
        TRY(heap_read(&n, h, object.heap, err));
        TRY(tree_visit(h, &n, object.tree, 0, err));
    }
    h->depth--;
out:
    return rc;
}

/* ---- The formats ------------------------------------------------------------------------------------------------ */

static bool hdf5_probe(const unsigned char *head, size_t head_size, uint64_t size)
{
    (void)size;
    return head_size >= SIGNATURE_SIZE && memcmp(head, SIGNATURE, SIGNATURE_SIZE) == 0;
}

/* Addresses of the root group's header and of the end of the file. */
static int superblock_read(uint64_t *root, uint64_t *end, hdf5 *h, ckpt_error *err)
{
    int rc = 0;
    unsigned char block[SUPERBLOCK_MAX] = {0};
    const uint64_t size = h->reader.source->size;

    TRY(hdf5_read(block, &h->reader, 0, size < sizeof block ? (size_t)size : sizeof block, err));
    const unsigned version = block[8];
    const bool old = version <= 1;
    const size_t base = old ? (version == 0 ? 24 : 28) : 12;
    FAIL_IF(version > 3, err, CKPT_EFORMAT, "hdf5: superblock of version %u is unknown", version);
    FAIL_IF(block[old ? 13 : 9] != ADDRESS_SIZE || block[old ? 14 : 10] != ADDRESS_SIZE || load_u64(block + base) != 0,
            err, CKPT_EFORMAT, "hdf5: addresses are not plain ones of 8 bytes");
    *end = load_u64(block + base + 2 * ADDRESS_SIZE);
    *root = load_u64(block + base + (old ? 5 : 3) * ADDRESS_SIZE);
out:
    return rc;
}

static int datasets_visit(bool *cut_off, const byte_source *source, hdf5_dataset_fn each, void *payload,
                          ckpt_error *err)
{
    int rc = 0;
    hdf5 h = {
        .reader = {source, source->size < UINT64_MAX / 8 ? source->size * READS_PER_BYTE + READS_FREE : UINT64_MAX},
        .objects_left = source->size / BYTES_PER_OBJECT + OBJECTS_FREE,
        .each = each,
        .payload = payload};
    uint64_t root = 0, end = 0;

    TRY(superblock_read(&root, &end, &h, err));
    *cut_off = end > source->size;
    FAIL_IF(*cut_off, err, CKPT_EFORMAT, "hdf5: ends before its last byte");
    TRY(object_visit(&h, root, err));
out:
    return rc;
}

int hdf5_datasets(const byte_source *source, hdf5_dataset_fn each, void *payload, ckpt_error *err)
{
    bool ignored;
    return datasets_visit(&ignored, source, each, payload, err);
}

typedef struct listing {
    tensor_file *out;
    uint64_t file_size;
} listing;

static int dataset_add(void *payload, const char *name, const hdf5_object *object, ckpt_error *err)
{
    int rc = 0;
    const listing *const l = payload;
    tensor_view view = object->view;

    if (object->chunked)
        goto out;
    view.name = strdup(name);
    FAIL_IF_NULL(view.name, err);
    TRY(tensor_file_add(l->out, &view, l->file_size, err));
out:
    return rc;
}

static int hdf5_parse(tensor_file *out, const byte_source *source, ckpt_error *err)
{
    listing l = {out, source->size};
    return datasets_visit(&out->cut_off, source, dataset_add, &l, err);
}

const tensor_format FORMAT_HDF5 = {"hdf5", hdf5_probe, hdf5_parse};
