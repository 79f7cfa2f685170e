#include "torch_graph.h"

#include "fail.h"
#include "text.h"
#include "torch_tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 100
/* Values and items are visited once in an honest file; shared ones, like tied weights, a few times. */
#define VISITS_PER_ITEM 8
#define VISITS_FREE     4096

enum {
    MARK_OPEN = 1,  /* being walked: a cycle leads back here */
    MARK_BARREN = 2 /* walked, and no tensor was found in it */
};

typedef struct walk {
    tensor_file *file;
    pickle *graph;
    uint64_t file_size, visits_left;
    torch_storage_fn find;
    void *payload;
    size_t names_left; /* bytes of all names together */
    unsigned depth;
    size_t name_size;
    char name[TENSOR_FILE_NAME_MAX + 1];
} walk;

static int walk_value(walk *w, pickle_ref ref, ckpt_error *err);

/* ---- Names ------------------------------------------------------------------------------------------------------ */

/* Appends a component; false, and nothing appended, when it cannot be part of a name. */
static bool name_push(walk *w, const char *text, size_t size)
{
    const size_t start = w->name_size + (w->name_size ? 1 : 0);
    if (size == 0 || start > TENSOR_FILE_NAME_MAX || size > TENSOR_FILE_NAME_MAX - start || memchr(text, 0, size))
        return false;
    memcpy(w->name + start, text, size);
    w->name[start + size] = 0;
    if (!text_is_clean(w->name + start, false))
        return false;
    if (start > w->name_size)
        w->name[w->name_size] = '.';
    w->name_size = start + size;
    return true;
}

static bool name_push_count(walk *w, int64_t count)
{
    char text[24];
    const int size = snprintf(text, sizeof text, "%lld", (long long)count);
    return name_push(w, text, (size_t)size);
}

static bool name_push_key(walk *w, pickle_ref key)
{
    const pickle_node *node = &w->graph->nodes[key];
    if (node->kind == PICKLE_TEXT)
        return name_push(w, (const char *)w->graph->data + node->as.at, node->count);
    if (node->kind == PICKLE_INT)
        return name_push_count(w, node->as.integer);
    if (node->kind == PICKLE_BOOL)
        return node->as.integer ? name_push(w, "True", 4) : name_push(w, "False", 5);
    return false;
}

/* ---- Tensors ---------------------------------------------------------------------------------------------------- */

static int tensor_add(walk *w, const torch_tensor *tensor, ckpt_error *err)
{
    int rc = 0;
    const pickle_node *key = &w->graph->nodes[tensor->key];
    const char *key_text = (const char *)w->graph->data + key->as.at;
    tensor_view view = tensor->view;
    uint64_t storage_offset, storage_size, bytes;
    const size_t name_size = w->name_size;

    TRY(w->find(w->payload, &storage_offset, &storage_size, key_text, key->count, err));
    FAIL_IF(tensor->storage_bytes > storage_size, err, CKPT_EFORMAT, "its storage is shorter than its tensors");
    /* An expanded tensor shows few bytes many times: more than its storage has is not for us. */
    if (!tensor_view_bytes(&bytes, &view) || bytes > storage_size)
        goto out;
    view.offset = storage_offset + tensor->storage_offset;
    if (tensor->part && !name_push(w, tensor->part, strlen(tensor->part)))
        goto out;
    FAIL_IF(w->name_size > w->names_left, err, CKPT_EFORMAT, "the names of the tensors are too long");
    w->names_left -= w->name_size;
    view.name = strdup(w->name_size ? w->name : TENSOR_NAME_ALONE);
    FAIL_IF_NULL(view.name, err);
    TRY(tensor_file_add(w->file, &view, w->file_size, err));
out:
    w->name_size = name_size;
    free(view.name);
    return rc;
}

/* Adds the value to the file if it is a tensor. */
static int tensor_visit(bool *found, walk *w, pickle_ref ref, ckpt_error *err)
{
    int rc = 0;
    torch_tensor tensor;

    w->name[w->name_size] = 0;
    TRY(torch_tensor_read(found, &tensor, w->graph, ref, err));
    if (*found)
        TRY(tensor_add(w, &tensor, err));
out:
    if (rc == CKPT_EFORMAT && w->name_size)
        error_prefix(err, "%.200s", w->name);
    return rc;
}

/* ---- Walking ---------------------------------------------------------------------------------------------------- */

/* Pays for work on so many items; bounds the walk of a graph in which everything is shared. */
static int walk_spend(walk *w, uint64_t items, ckpt_error *err)
{
    if (items > w->visits_left)
        return error_set(err, CKPT_EFORMAT, "values refer to each other too often");
    w->visits_left -= items;
    return 0;
}

/* The cells of a container: pairs of key and value, or values that have their index as key. */
static int walk_items(walk *w, pickle_ref container, ckpt_error *err)
{
    int rc = 0;
    const pickle *g = w->graph;
    const pickle_node *node = &g->nodes[container];
    const size_t name_size = w->name_size;
    const uint32_t step = node->pairs ? 2 : 1;

    TRY(walk_spend(w, node->count, err));
    uint32_t cell = node->as.items.first;
    for (uint32_t i = 0; i < node->count; i += step) {
        pickle_ref value = g->cells[cell].value;
        bool named;
        if (node->pairs) {
            const pickle_ref key = value;
            cell = g->cells[cell].next;
            value = g->cells[cell].value;
            named = name_push_key(w, key);
        } else {
            named = name_push_count(w, i);
        }
        cell = g->cells[cell].next;
        if (named)
            TRY(walk_value(w, value, err));
        w->name_size = name_size;
    }
out:
    return rc;
}

/* OrderedDict([[key, value], ...]), as protocol 2 of Python 2 wrote it. */
static int walk_pair_list(walk *w, pickle_ref list, ckpt_error *err)
{
    int rc = 0;
    const pickle *g = w->graph;
    const pickle_node *node = &g->nodes[list];
    const size_t name_size = w->name_size;

    if (node->kind != PICKLE_LIST)
        return 0;
    TRY(walk_spend(w, node->count, err));
    uint32_t cell = node->as.items.first;
    for (uint32_t i = 0; i < node->count; i++, cell = g->cells[cell].next) {
        const pickle_ref pair = g->cells[cell].value;
        if (name_push_key(w, pickle_item(g, pair, 0)))
            TRY(walk_value(w, pickle_item(g, pair, 1), err));
        w->name_size = name_size;
    }
out:
    return rc;
}

/* Tensors that are made of others. */
static const struct {
    const char *name;
    const char *layout; /* of the first argument; NULL: it has none, and the parts are the arguments themselves */
    const char *parts[5];
} COMPOUNDS[] = {
    {"_rebuild_sparse_tensor", "torch.sparse_coo", {"indices", "values"}},
    {"_rebuild_sparse_tensor", "torch.sparse_csr", {"crow_indices", "col_indices", "values"}},
    {"_rebuild_sparse_tensor", "torch.sparse_csc", {"ccol_indices", "row_indices", "values"}},
    {"_rebuild_sparse_tensor", "torch.sparse_bsr", {"crow_indices", "col_indices", "values"}},
    {"_rebuild_sparse_tensor", "torch.sparse_bsc", {"ccol_indices", "row_indices", "values"}},
    {"_rebuild_sparse_csr_tensor", "torch.sparse_csr", {"crow_indices", "col_indices", "values"}},
    {"_rebuild_nested_tensor", NULL, {"values", "sizes", "strides", "offsets"}},
};

#define COMPOUND_COUNT (sizeof COMPOUNDS / sizeof *COMPOUNDS)

/* _get_layout("torch.sparse_coo") */
static bool layout_is(const pickle *g, pickle_ref ref, const char *layout)
{
    return g->nodes[ref].kind == PICKLE_OBJECT && pickle_text_is(g, pickle_item(g, g->nodes[ref].arguments, 0), layout);
}

/* The parts of such a tensor, by their names. */
static int walk_compound(walk *w, const pickle_node *node, ckpt_error *err)
{
    int rc = 0;
    const pickle *g = w->graph;
    const size_t name_size = w->name_size;
    size_t i = 0;

    while (i < COMPOUND_COUNT &&
           (!pickle_global_is(g, node->callee, "torch._utils", COMPOUNDS[i].name) ||
            (COMPOUNDS[i].layout && !layout_is(g, pickle_item(g, node->arguments, 0), COMPOUNDS[i].layout))))
        i++;
    if (i == COMPOUND_COUNT)
        goto out;
    const pickle_ref parts = COMPOUNDS[i].layout ? pickle_item(g, node->arguments, 1) : node->arguments;
    for (size_t part = 0; COMPOUNDS[i].parts[part]; part++) {
        if (name_push(w, COMPOUNDS[i].parts[part], strlen(COMPOUNDS[i].parts[part])))
            TRY(walk_value(w, pickle_item(g, parts, part), err));
        w->name_size = name_size;
    }
out:
    return rc;
}

/* Items and attributes of an object. */
static int walk_object(walk *w, pickle_ref ref, ckpt_error *err)
{
    int rc = 0;
    const pickle_node *node = &w->graph->nodes[ref];

    if (pickle_global_is(w->graph, node->callee, "collections", "OrderedDict"))
        TRY(walk_pair_list(w, pickle_item(w->graph, node->arguments, 0), err));
    TRY(walk_compound(w, node, err));
    TRY(walk_items(w, ref, err));
    if (w->graph->nodes[node->state].kind == PICKLE_DICT)
        TRY(walk_value(w, node->state, err));
out:
    return rc;
}

static int walk_value(walk *w, pickle_ref ref, ckpt_error *err)
{
    int rc = 0;
    pickle_node *node = &w->graph->nodes[ref];
    const size_t count = w->file->count;
    bool found;

    if (node->marks || w->depth == DEPTH_MAX)
        return 0;
    TRY(walk_spend(w, 1, err));
    w->depth++;
    node->marks |= MARK_OPEN;
    TRY(tensor_visit(&found, w, ref, err));
    if (!found && node->kind == PICKLE_OBJECT)
        TRY(walk_object(w, ref, err));
    else if (node->kind == PICKLE_DICT || node->kind == PICKLE_LIST || node->kind == PICKLE_TUPLE)
        TRY(walk_items(w, ref, err));
    if (w->file->count == count)
        node->marks |= MARK_BARREN;
    node->marks &= (uint8_t)~MARK_OPEN;
    w->depth--;
out:
    return rc;
}

int torch_graph_tensors(tensor_file *out, pickle *graph, uint64_t file_size, torch_storage_fn find, void *payload,
                        ckpt_error *err)
{
    const uint64_t items = (uint64_t)graph->node_count + graph->cell_count;
    walk w = {.file = out,
              .graph = graph,
              .file_size = file_size,
              .visits_left = items * VISITS_PER_ITEM + VISITS_FREE,
              .find = find,
              .payload = payload,
              .names_left = TENSOR_FILE_HEADER_MAX};
    return walk_value(&w, graph->root, err);
}
