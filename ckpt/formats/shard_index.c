#include "shard_index.h"

#include "fail.h"
#include "json_bounded.h"
#include "tensor_file.h"

#include <stdlib.h>
#include <string.h>

#define MAP_KEY "weight_map"

bool shard_index_named(const char *path)
{
    const size_t size = strlen(path), suffix = strlen(SHARD_INDEX_SUFFIX);
    return size > suffix && strcmp(path + size - suffix, SHARD_INDEX_SUFFIX) == 0;
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool shard_name_valid(const char *name)
{
    return name && tensor_name_valid(name) && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Each name once. */
static void shards_unite(shard_index *index)
{
    size_t kept = 0;

    qsort(index->shards, index->count, sizeof *index->shards, name_compare);
    for (size_t i = 0; i < index->count; i++) {
        if (kept && strcmp(index->shards[kept - 1], index->shards[i]) == 0)
            free(index->shards[i]);
        else
            index->shards[kept++] = index->shards[i];
    }
    index->count = kept;
}

static int map_read(shard_index *out, json_t *map, ckpt_error *err)
{
    int rc = 0;
    const char *name, *last = NULL;
    json_t *shard;

    out->tensors = json_object_size(map);
    out->shards = calloc(out->tensors + 1, sizeof *out->shards);
    FAIL_IF_NULL(out->shards, err);
    json_object_foreach(map, name, shard)
    {
        const char *const file = json_string_value(shard);
        FAIL_IF(!shard_name_valid(file), err, CKPT_EFORMAT, "%.200s: its shard is not a file of the folder", name);
        if (last && strcmp(last, file) == 0)
            continue; /* tensors of one shard mostly follow each other */
        out->shards[out->count] = strdup(file);
        FAIL_IF_NULL(out->shards[out->count], err);
        last = out->shards[out->count++];
    }
    shards_unite(out);
out:
    return rc;
}

int shard_index_read(shard_index *out, const char *text, size_t size, ckpt_error *err)
{
    int rc = 0;
    json_t *root = NULL;

    *out = (shard_index){0};
    TRY(json_bounded_load(&root, &out->cut_off, text, size, err));
    json_t *const map = json_object_get(root, MAP_KEY);
    FAIL_IF(!json_is_object(map), err, CKPT_EFORMAT, "has no " MAP_KEY);
    TRY(map_read(out, map, err));
out:
    json_decref(root);
    if (rc) {
        const bool cut_off = out->cut_off;
        shard_index_clear(out);
        out->cut_off = cut_off;
    }
    return rc;
}

void shard_index_clear(shard_index *index)
{
    for (size_t i = 0; i < index->count; i++)
        free(index->shards[i]);
    free(index->shards);
    *index = (shard_index){0};
}
