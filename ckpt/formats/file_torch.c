/* PyTorch's format since 1.6: a zip archive of stored members below one folder.
 *
 *   NAME/data.pkl      what torch.save was given; tensors name their storages
 *   NAME/data/KEY      the bytes of one storage
 *   NAME/byteorder     "little" or "big"; absent in old files
 *   NAME/version, NAME/.data/...
 *
 * The pickle is read as inert values (pickle.h), never executed. */
#include "fail.h"
#include "torch_graph.h"
#include "zip_member.h"

#include <stdlib.h>
#include <string.h>

#define PICKLE_NAME     "data.pkl"
#define BYTEORDER_SIZE  6 /* of "little" */
#define MEMBER_NAME_MAX 1024

typedef struct archive {
    const byte_source *source;
    zip_dir dir;
    const zip_entry **sorted; /* entries by name */
    const char *folder;       /* NAME */
    size_t folder_size;
} archive;

/* ---- Members ---------------------------------------------------------------------------------------------------- */

static int entry_compare(const void *a, const void *b)
{
    return strcmp((*(const zip_entry *const *)a)->name, (*(const zip_entry *const *)b)->name);
}

static int entry_compare_name(const void *name, const void *entry)
{
    return strcmp(name, (*(const zip_entry *const *)entry)->name);
}

/* The member NAME/<folder><name>, NULL when there is none. */
static const zip_entry *member_find(const archive *a, const char *folder, const char *name, size_t name_size)
{
    char path[MEMBER_NAME_MAX + 1];
    const size_t middle = strlen(folder), size = a->folder_size + 1 + middle;

    if (size + name_size > MEMBER_NAME_MAX || memchr(name, 0, name_size))
        return NULL;
    memcpy(path, a->folder, a->folder_size + 1); /* with the slash */
    memcpy(path + a->folder_size + 1, folder, middle);
    memcpy(path + size, name, name_size);
    path[size + name_size] = 0;
    const zip_entry *const *found = bsearch(path, a->sorted, a->dir.count, sizeof *a->sorted, entry_compare_name);
    return found ? *found : NULL;
}

/* The name of the one folder that holds a data.pkl; CKPT_ENOTFOUND when no folder does. */
static int folder_find(archive *a, ckpt_error *err)
{
    for (size_t i = 0; i < a->dir.count; i++) {
        const char *name = a->dir.entries[i].name, *slash = strchr(name, '/');
        if (!slash || strcmp(slash + 1, PICKLE_NAME) != 0)
            continue;
        if (a->folder)
            return error_set(err, CKPT_EFORMAT, "PyTorch archive: has two %s", PICKLE_NAME);
        a->folder = name;
        a->folder_size = (size_t)(slash - name);
    }
    return a->folder ? 0 : error_set(err, CKPT_ENOTFOUND, "not a PyTorch archive");
}

static int members_sort(archive *a, ckpt_error *err)
{
    a->sorted = malloc((a->dir.count + 1) * sizeof *a->sorted);
    if (!a->sorted)
        return error_memory(err);
    for (size_t i = 0; i < a->dir.count; i++)
        a->sorted[i] = &a->dir.entries[i];
    qsort(a->sorted, a->dir.count, sizeof *a->sorted, entry_compare);
    for (size_t i = 1; i < a->dir.count; i++)
        if (strcmp(a->sorted[i - 1]->name, a->sorted[i]->name) == 0)
            return error_set(err, CKPT_EFORMAT, "PyTorch archive: two members are named %.200s", a->sorted[i]->name);
    return 0;
}

/* torch.export.save, now and in its first versions. */
static bool is_exported_program(const archive *a)
{
    for (size_t i = 0; i < a->dir.count; i++) {
        const char *const name = a->dir.entries[i].name, *const slash = strchr(name, '/');
        if ((slash && strcmp(slash + 1, "archive_format") == 0) ||
            strcmp(name, "serialized_exported_program.json") == 0)
            return true;
    }
    return false;
}

/* TorchScript keeps code beside the data, in which names and sharing live; reading the data alone would guess. */
static bool is_script(const archive *a)
{
    const size_t prefix = a->folder_size + 1;
    for (size_t i = 0; i < a->dir.count; i++) {
        const char *name = a->dir.entries[i].name;
        if (strncmp(name, a->folder, prefix) == 0 &&
            (strncmp(name + prefix, "code/", 5) == 0 || strcmp(name + prefix, "constants.pkl") == 0))
            return true;
    }
    return false;
}

static int archive_open(archive *a, tensor_file *out, ckpt_error *err)
{
    int rc = 0;

    TRY(zip_member_directory(&a->dir, out, a->source, err));
    FAIL_IF(is_exported_program(a), err, CKPT_EFORMAT,
            "a PT2 archive of torch.export; save the state_dict to have its tensors recognised");
    TRY(folder_find(a, err));
    TRY(members_sort(a, err));
    FAIL_IF(is_script(a), err, CKPT_EFORMAT,
            "a TorchScript archive; save the state_dict to have its tensors recognised");
out:
    return rc;
}

static void archive_close(archive *a)
{
    free(a->sorted);
    zip_dir_clear(&a->dir);
}

static int byteorder_check(const archive *a, ckpt_error *err)
{
    int rc = 0;
    char order[BYTEORDER_SIZE];
    uint64_t offset;
    const zip_entry *entry = member_find(a, "", "byteorder", strlen("byteorder"));

    if (!entry)
        return 0;
    FAIL_IF(entry->size != BYTEORDER_SIZE, err, CKPT_EFORMAT, "PyTorch archive: numbers are not little-endian");
    TRY(zip_member_locate(&offset, entry, a->source, err));
    TRY(a->source->read(a->source, order, offset, sizeof order, err));
    FAIL_IF(memcmp(order, "little", sizeof order) != 0, err, CKPT_EFORMAT,
            "PyTorch archive: numbers are not little-endian");
out:
    return rc;
}

static int storage_find(void *payload, uint64_t *offset, uint64_t *size, const char *key, size_t key_size,
                        ckpt_error *err)
{
    const archive *a = payload;
    const zip_entry *entry = member_find(a, "data/", key, key_size);
    if (!entry)
        return error_set(err, CKPT_EFORMAT, "its storage is not in the archive");
    *size = entry->size;
    return zip_member_locate(offset, entry, a->source, err);
}

/* ---- The formats ------------------------------------------------------------------------------------------------ */

static int torch_parse(tensor_file *out, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    archive a = {.source = source};
    unsigned char *bytes = NULL;
    pickle graph = {0};
    uint64_t offset;

    TRY(archive_open(&a, out, err));
    TRY(byteorder_check(&a, err));
    const zip_entry *entry = member_find(&a, "", PICKLE_NAME, strlen(PICKLE_NAME));
    FAIL_IF(!entry, err, CKPT_EFORMAT, "PyTorch archive: the name of its folder is too long");
    FAIL_IF(entry->size > PICKLE_BYTES_MAX, err, CKPT_EFORMAT, PICKLE_NAME " is larger than %u MiB",
            PICKLE_BYTES_MAX >> 20);
    TRY(zip_member_locate(&offset, entry, source, err));
    bytes = malloc((size_t)entry->size + 1);
    FAIL_IF_NULL(bytes, err);
    TRY(source->read(source, bytes, offset, (size_t)entry->size, err));
    rc = pickle_read(&graph, bytes, (size_t)entry->size, err);
    if (rc == 0)
        rc = torch_graph_tensors(out, &graph, source->size, storage_find, &a, err);
    if (rc == CKPT_EFORMAT)
        error_prefix(err, PICKLE_NAME);
    TRY(rc);
    TRY(zip_member_checks(out, &a.dir, source, err));
out:
    pickle_clear(&graph);
    free(bytes);
    archive_close(&a);
    return rc;
}

const tensor_format FORMAT_TORCH = {"torch", zip_member_probe, torch_parse};
