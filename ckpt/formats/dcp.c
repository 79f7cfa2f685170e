#include "dcp.h"

#include "checked.h"
#include "fail.h"
#include "file.h"
#include "pickle.h"

#include <stdlib.h>
#include <string.h>

#define MODULE_METADATA "torch.distributed.checkpoint.metadata"
#define MODULE_STORAGE  "torch.distributed.checkpoint.filesystem"
#define ATTRIBUTES_MAX  32 /* of an object that is looked into */

/* The value of a text key; 0 when there is none. */
static pickle_ref dict_get(const pickle *g, pickle_ref dict, const char *key)
{
    const pickle_node *const node = &g->nodes[dict];
    if (node->kind != PICKLE_DICT || node->count > 2 * ATTRIBUTES_MAX)
        return 0;
    uint32_t cell = node->as.items.first;
    for (uint32_t i = 0; i + 1 < node->count; i += 2) {
        const pickle_cell *const name = &g->cells[cell], *const value = &g->cells[name->next];
        if (pickle_text_is(g, name->value, key))
            return value->value;
        cell = value->next;
    }
    return 0;
}

/* The attribute of an object of that class; 0 when it is none, or has none. */
static pickle_ref attribute_get(const pickle *g, pickle_ref object, const char *module, const char *class,
                                const char *key)
{
    const pickle_node *const node = &g->nodes[object];
    if (node->kind != PICKLE_OBJECT || !pickle_global_is(g, node->callee, module, class))
        return 0;
    return dict_get(g, node->state, key);
}

/* A name of a file in the same folder. */
static bool file_name_valid(const char *name)
{
    return tensor_name_valid(name) && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int text_copy(char **out, size_t *left, const pickle *g, pickle_ref ref, const char *what, ckpt_error *err)
{
    int rc = 0;
    const pickle_node *const node = &g->nodes[ref];

    FAIL_IF(node->kind != PICKLE_TEXT || node->count > TENSOR_FILE_NAME_MAX, err, CKPT_EFORMAT, "a part has no %s",
            what);
    FAIL_IF(node->count > *left, err, CKPT_EFORMAT, "the names of the parts are too long");
    *left -= node->count;
    *out = strndup((const char *)g->data + node->as.at, node->count);
    FAIL_IF_NULL(*out, err);
    FAIL_IF(strlen(*out) != node->count || !tensor_name_valid(*out), err, CKPT_EFORMAT, "a part has no %s", what);
out:
    return rc;
}

/* torch.Size([2, 0]) of the piece's place; None for what is not in pieces. */
static int place_read(dcp_part *part, const pickle *g, pickle_ref ref, ckpt_error *err)
{
    const pickle_node *const node = &g->nodes[ref];

    if (node->kind != PICKLE_OBJECT)
        return 0;
    const pickle_ref sizes = pickle_item(g, node->arguments, 0);
    if (g->nodes[sizes].kind != PICKLE_TUPLE || g->nodes[sizes].count > CKPT_RANK_MAX)
        return error_set(err, CKPT_EFORMAT, "%.200s: a part has no place", part->name);
    part->rank = g->nodes[sizes].count;
    for (unsigned i = 0; i < part->rank; i++)
        if (!pickle_count(&part->first[i], g, pickle_item(g, sizes, i)))
            return error_set(err, CKPT_EFORMAT, "%.200s: a part has no place", part->name);
    return 0;
}

static int part_read(dcp_part *part, size_t *names_left, const pickle *g, pickle_ref key, pickle_ref value,
                     ckpt_error *err)
{
    int rc = 0;
    uint64_t end;

    TRY(text_copy(&part->name, names_left, g, attribute_get(g, key, MODULE_METADATA, "MetadataIndex", "fqn"), "name",
                  err));
    TRY(text_copy(&part->file, names_left, g, attribute_get(g, value, MODULE_STORAGE, "_StorageInfo", "relative_path"),
                  "file", err));
    FAIL_IF(!file_name_valid(part->file), err, CKPT_EFORMAT, "%.200s: its file is not in the folder", part->name);
    FAIL_IF(!pickle_count(&part->offset, g, attribute_get(g, value, MODULE_STORAGE, "_StorageInfo", "offset")) ||
                !pickle_count(&part->size, g, attribute_get(g, value, MODULE_STORAGE, "_StorageInfo", "length")) ||
                !checked_add(&end, part->offset, part->size),
            err, CKPT_EFORMAT, "%.200s: a part has no place in its file", part->name);
    TRY(place_read(part, g, attribute_get(g, key, MODULE_METADATA, "MetadataIndex", "offset"), err));
out:
    return rc;
}

static int part_compare(const void *a, const void *b)
{
    const dcp_part *const x = a, *const y = b;
    const int order = strcmp(x->file, y->file);
    if (order)
        return order;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int parts_read(dcp_metadata *out, const pickle *g, pickle_ref parts, ckpt_error *err)
{
    int rc = 0;
    size_t names_left = DCP_NAMES_MAX;
    const pickle_node *const node = &g->nodes[parts];

    FAIL_IF(node->kind != PICKLE_DICT, err, CKPT_EFORMAT, "has no table of parts");
    out->parts = calloc((size_t)node->count / 2 + 1, sizeof *out->parts);
    FAIL_IF_NULL(out->parts, err);
    uint32_t cell = node->as.items.first;
    for (uint32_t i = 0; i + 1 < node->count; i += 2) {
        const pickle_cell *const key = &g->cells[cell], *const value = &g->cells[key->next];
        TRY(part_read(&out->parts[out->count++], &names_left, g, key->value, value->value, err));
        cell = value->next;
    }
    qsort(out->parts, out->count, sizeof *out->parts, part_compare);
out:
    return rc;
}

int dcp_metadata_read(dcp_metadata *out, const void *data, size_t size, ckpt_error *err)
{
    int rc = 0;
    pickle g = {0};

    *out = (dcp_metadata){0};
    TRY(pickle_read(&g, data, size, err));
    const pickle_ref root = g.root;
    FAIL_IF(g.nodes[root].kind != PICKLE_OBJECT ||
                !pickle_global_is(&g, g.nodes[root].callee, MODULE_METADATA, "Metadata"),
            err, CKPT_EFORMAT, "is not the metadata of a distributed checkpoint");
    TRY(parts_read(out, &g, attribute_get(&g, root, MODULE_METADATA, "Metadata", "storage_data"), err));
out:
    pickle_clear(&g);
    if (rc)
        dcp_metadata_clear(out);
    return rc;
}

void dcp_metadata_clear(dcp_metadata *metadata)
{
    for (size_t i = 0; i < metadata->count; i++) {
        free(metadata->parts[i].name);
        free(metadata->parts[i].file);
    }
    free(metadata->parts);
    *metadata = (dcp_metadata){0};
}
