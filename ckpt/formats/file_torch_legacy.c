/* PyTorch's format before 1.6: pickles one after the other, then the storages.
 *
 *   file    := pickle of a magic number, of a version, of a dictionary about the machine, of what torch.save was given,
 *              of a list of keys; then storage*, in the order of the keys
 *   storage := elements (8 bytes, little-endian) data
 *
 * Numbers are little-endian whatever the machine was; the pickle knows how many bytes an element has. Storages may have
 * parts that are named as storages of their own. The pickles are read as inert values (pickle.h), never executed. What
 * a second torch.save appended to the file is bytes between. */
#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "pickle.h"
#include "torch_graph.h"
#include "torch_tensor.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC          "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
#define MAGIC_SIZE     14
#define VERSION        1001
#define HEAD_FIRST     ((size_t)1 << 20) /* read at first; more when the pickles are longer */
#define COUNT_SIZE     8
#define NAME_OF_ERRORS "PyTorch file"
enum { PICKLE_OF_MAGIC, PICKLE_OF_VERSION, PICKLE_OF_MACHINE, PICKLE_OF_STATE, PICKLE_OF_KEYS, PICKLE_COUNT };

typedef struct storage_row {
    const char *key; /* in the bytes of a pickle */
    size_t key_size;
    uint64_t elements, width;
    uint64_t offset; /* in the file; 0: not found there */
} storage_row;

typedef struct legacy {
    const byte_source *source;
    unsigned char *head;
    pickle graphs[PICKLE_COUNT];
    storage_row *rows; /* by key */
    size_t row_count;
    uint64_t end; /* of the pickles */
    bool cut_off;
} legacy;

/* ---- Pickles ---------------------------------------------------------------------------------------------------- */

static void pickles_clear(legacy *l)
{
    for (size_t i = 0; i < PICKLE_COUNT; i++)
        pickle_clear(&l->graphs[i]);
    free(l->head);
    l->head = NULL;
}

/* Reads all pickles from the first `size` bytes of the file; *short_head when those are too few. */
static int pickles_try(legacy *l, bool *short_head, size_t size, ckpt_error *err)
{
    int rc = 0;
    size_t at = 0;

    *short_head = false;
    l->head = malloc(size);
    FAIL_IF_NULL(l->head, err);
    TRY(l->source->read(l->source, l->head, 0, size, err));
    for (size_t i = 0; i < PICKLE_COUNT; i++) {
        rc = pickle_read(&l->graphs[i], l->head + at, size - at, err);
        *short_head = rc == CKPT_EFORMAT && l->graphs[i].cut_off;
        if (rc == CKPT_EFORMAT)
            error_prefix(err, NAME_OF_ERRORS ": pickle %zu", i + 1);
        TRY(rc);
        at += l->graphs[i].size;
    }
    l->end = at;
out:
    return rc;
}

static int pickles_read(legacy *l, ckpt_error *err)
{
    const uint64_t size_max = l->source->size < PICKLE_BYTES_MAX ? l->source->size : PICKLE_BYTES_MAX;
    for (uint64_t size = HEAD_FIRST;; size *= 2) {
        bool short_head;
        const bool last = size >= size_max;
        const int rc = pickles_try(l, &short_head, (size_t)(last ? size_max : size), err);
        if (rc == 0 || !short_head || last) {
            l->cut_off = rc && short_head && size_max == l->source->size;
            return rc;
        }
        error_clear(err);
        pickles_clear(l);
    }
}

static int version_check(const legacy *l, ckpt_error *err)
{
    uint64_t version;
    const pickle *const g = &l->graphs[PICKLE_OF_VERSION];
    if (!pickle_count(&version, g, g->root) || version != VERSION)
        return error_set(err, CKPT_EFORMAT, NAME_OF_ERRORS ": of an unknown version");
    return 0;
}

/* ---- Storages --------------------------------------------------------------------------------------------------- */

static int row_compare(const void *a, const void *b)
{
    const storage_row *const x = a, *const y = b;
    if (x->key_size != y->key_size)
        return x->key_size < y->key_size ? -1 : 1;
    return memcmp(x->key, y->key, x->key_size);
}

static storage_row *row_find(const legacy *l, const char *key, size_t key_size)
{
    const storage_row wanted = {.key = key, .key_size = key_size};
    return l->row_count ? bsearch(&wanted, l->rows, l->row_count, sizeof wanted, row_compare) : NULL;
}

static bool is_storage(const pickle *g, const pickle_node *node)
{
    return node->kind == PICKLE_PERSISTENT && pickle_text_is(g, pickle_item(g, node->arguments, 0), "storage");
}

/* Every storage that the state names, each once. */
static int rows_make(legacy *l, ckpt_error *err)
{
    int rc = 0;
    const pickle *const g = &l->graphs[PICKLE_OF_STATE];
    size_t count = 0, kept = 0;

    for (size_t i = 0; i < g->node_count; i++)
        count += is_storage(g, &g->nodes[i]);
    l->rows = calloc(count + 1, sizeof *l->rows);
    FAIL_IF_NULL(l->rows, err);
    for (size_t i = 0; i < g->node_count; i++) {
        torch_storage storage;
        if (!is_storage(g, &g->nodes[i]))
            continue;
        TRY(torch_storage_read(&storage, g, (pickle_ref)i, err));
        l->rows[l->row_count++] = (storage_row){.key = (const char *)g->data + g->nodes[storage.key].as.at,
                                                .key_size = g->nodes[storage.key].count,
                                                .elements = storage.elements,
                                                .width = storage.width};
    }
    qsort(l->rows, l->row_count, sizeof *l->rows, row_compare);
    for (size_t i = 0; i < l->row_count; i++) {
        const storage_row *const row = &l->rows[i];
        if (kept && row_compare(&l->rows[kept - 1], row) == 0)
            FAIL_IF(l->rows[kept - 1].elements != row->elements || l->rows[kept - 1].width != row->width, err,
                    CKPT_EFORMAT, NAME_OF_ERRORS ": two storages have one key");
        else
            l->rows[kept++] = *row;
    }
    l->row_count = kept;
out:
    return rc;
}

/* Places the storage of that key at *at, and moves *at behind it. */
static int row_place(legacy *l, uint64_t *at, const char *key, size_t key_size, ckpt_error *err)
{
    int rc = 0;
    unsigned char count[COUNT_SIZE];
    storage_row *const row = row_find(l, key, key_size);

    FAIL_IF(!row, err, CKPT_EFORMAT, NAME_OF_ERRORS ": has a storage that nothing names");
    FAIL_IF(row->offset, err, CKPT_EFORMAT, NAME_OF_ERRORS ": has a storage twice");
    FAIL_IF(!row->width, err, CKPT_EFORMAT, NAME_OF_ERRORS ": has a storage of an unknown type");
    l->cut_off = !checked_range(*at, COUNT_SIZE, l->source->size);
    FAIL_IF(l->cut_off, err, CKPT_EFORMAT, NAME_OF_ERRORS ": ends before its storages do");
    TRY(l->source->read(l->source, count, *at, sizeof count, err));
    FAIL_IF(load_u64(count) != row->elements, err, CKPT_EFORMAT, NAME_OF_ERRORS ": a storage has another size");
    row->offset = *at + COUNT_SIZE;
    l->cut_off = !checked_range(row->offset, row->elements * row->width, l->source->size);
    FAIL_IF(l->cut_off, err, CKPT_EFORMAT, NAME_OF_ERRORS ": ends before its storages do");
    *at = row->offset + row->elements * row->width;
out:
    return rc;
}

static int rows_place(legacy *l, ckpt_error *err)
{
    int rc = 0;
    const pickle *const g = &l->graphs[PICKLE_OF_KEYS];
    const pickle_node *const keys = &g->nodes[g->root];
    uint64_t at = l->end;

    FAIL_IF(keys->kind != PICKLE_LIST, err, CKPT_EFORMAT, NAME_OF_ERRORS ": has no list of storages");
    uint32_t cell = keys->as.items.first;
    for (uint32_t i = 0; i < keys->count; i++, cell = g->cells[cell].next) {
        const pickle_node *const key = &g->nodes[g->cells[cell].value];
        FAIL_IF(key->kind != PICKLE_TEXT, err, CKPT_EFORMAT, NAME_OF_ERRORS ": a storage has no key");
        TRY(row_place(l, &at, (const char *)g->data + key->as.at, key->count, err));
    }
out:
    return rc;
}

static int storage_find(void *payload, uint64_t *offset, uint64_t *size, const char *key, size_t key_size,
                        ckpt_error *err)
{
    const storage_row *const row = row_find(payload, key, key_size);
    if (!row || !row->offset)
        return error_set(err, CKPT_EFORMAT, "its storage is not in the file");
    *offset = row->offset;
    *size = row->elements * row->width;
    return 0;
}

/* ---- The format ------------------------------------------------------------------------------------------------- */

static bool legacy_probe(const unsigned char *head, size_t head_size, uint64_t size)
{
    (void)size;
    return head_size >= MAGIC_SIZE && memcmp(head, MAGIC, MAGIC_SIZE) == 0;
}

static int legacy_parse(tensor_file *out, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    legacy l = {.source = source};

    TRY(pickles_read(&l, err));
    TRY(version_check(&l, err));
    TRY(rows_make(&l, err));
    TRY(rows_place(&l, err));
    TRY(torch_graph_tensors(out, &l.graphs[PICKLE_OF_STATE], source->size, storage_find, &l, err));
out:
    out->cut_off = rc && l.cut_off;
    free(l.rows);
    pickles_clear(&l);
    return rc;
}

const tensor_format FORMAT_TORCH_LEGACY = {"torch", legacy_probe, legacy_parse};
