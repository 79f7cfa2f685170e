#include "save_internal.h"

#include "dcp.h"
#include "fail.h"
#include "shard_index.h"

#include <stdlib.h>
#include <string.h>

/* Names of the files that one file says are parts of the same model or checkpoint. */
typedef struct part_names {
    shard_index shards;
    dcp_metadata metadata;
    const char **names; /* of files in the same folder, each once */
    size_t count;
} part_names;

static void part_names_clear(part_names *p)
{
    shard_index_clear(&p->shards);
    dcp_metadata_clear(&p->metadata);
    free(p->names);
}

static int names_collect(part_names *p, ckpt_error *err)
{
    p->names = calloc(p->shards.count + p->metadata.count + 1, sizeof *p->names);
    if (!p->names)
        return error_memory(err);
    for (size_t i = 0; i < p->shards.count; i++)
        p->names[p->count++] = p->shards.shards[i];
    for (size_t i = 0; i < p->metadata.count; i++) /* sorted by file */
        if (p->count == 0 || strcmp(p->names[p->count - 1], p->metadata.parts[i].file) != 0)
            p->names[p->count++] = p->metadata.parts[i].file;
    return 0;
}

/* None for a file that is no list of parts, or cannot be read: saving it will tell. */
static int part_names_read(part_names *out, const walk_entry *entry, ckpt_error *err)
{
    int rc = 0;
    char *data = NULL;
    size_t size;
    ckpt_error why = {0};
    const bool index = shard_index_named(entry->path);

    *out = (part_names){0};
    if (!index && strcmp(path_base(entry->path), DCP_METADATA_NAME) != 0)
        goto out;
    if (file_read_all(&data, &size, entry->source, index ? SHARD_INDEX_BYTES_MAX : DCP_METADATA_MAX, &why))
        goto out;
    rc = index ? shard_index_read(&out->shards, data, size, &why) : dcp_metadata_read(&out->metadata, data, size, &why);
    TRY(error_pass_own(err, &why));
    TRY(names_collect(out, err));
out:
    free(data);
    return rc;
}

static int entry_compare(const void *a, const void *b)
{
    return natural_compare(((const walk_entry *)a)->path, ((const walk_entry *)b)->path);
}

/* Is the file of that name in the folder of `entry` part of the save? */
static bool is_saved(const walk *w, const walk_entry *entry, const char *name)
{
    char path[FILE_PATH_MAX];
    const size_t folder = (size_t)(path_base(entry->path) - entry->path), size = strlen(name);
    const walk_entry wanted = {.path = path};

    if (folder + size >= sizeof path)
        return false;
    memcpy(path, entry->path, folder);
    memcpy(path + folder, name, size + 1);
    return bsearch(&wanted, w->entries, w->count, sizeof wanted, entry_compare) != NULL;
}

static int entry_check(const ckpt_store *store, const walk *w, const walk_entry *entry, ckpt_error *err)
{
    int rc = 0;
    size_t missing = 0;
    const char *first = NULL;
    part_names parts;

    TRY(part_names_read(&parts, entry, err));
    for (size_t i = 0; i < parts.count; i++)
        if (!is_saved(w, entry, parts.names[i])) {
            first = first ? first : parts.names[i];
            missing++;
        }
    if (missing == 1)
        store_warn(store, "%s names %s, which is not there", entry->path, first);
    else if (missing > 1)
        store_warn(store, "%s names %zu files that are not there, such as %s", entry->path, missing, first);
out:
    part_names_clear(&parts);
    return rc;
}

int save_check_parts(const ckpt_store *store, const walk *w, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < w->count; i++)
        if (w->entries[i].kind == CKPT_FILE)
            TRY(entry_check(store, w, &w->entries[i], err));
out:
    return rc;
}
