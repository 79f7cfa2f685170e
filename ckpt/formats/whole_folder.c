#include "whole.h"

#include "array.h"
#include "checked.h"
#include "dcp.h"
#include "fail.h"
#include "file.h"
#include "shard_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRAINER_STATE  "trainer_state.json"
#define TRAINER_PREFIX "checkpoint-"
#define STORE_NAME     ".ckpt"

/* Files of which an empty one is one that has just been created. Others, like locks and __init__.py, may be empty. */
static const char *const SUFFIXES[] = {".pt",  ".pth", ".bin",   ".ckpt",   ".safetensors", ".npy",
                                       ".npz", ".h5",  ".keras", ".distcp", ".json"};

typedef struct folder {
    const char *path;
    unsigned depth;
    whole_verdict *verdict;
    bool any_whole;
    char **names;
    size_t count, capacity;
} folder;

static bool has_suffix(const char *name, const char *suffix)
{
    const size_t size = strlen(name), tail = strlen(suffix);
    return size >= tail && strcmp(name + size - tail, suffix) == 0;
}

static bool may_not_be_empty(const char *name)
{
    for (size_t i = 0; i < sizeof SUFFIXES / sizeof *SUFFIXES; i++)
        if (has_suffix(name, SUFFIXES[i]))
            return true;
    return strcmp(name, DCP_METADATA_NAME) == 0;
}

static bool is_cut_off(const folder *f)
{
    return f->verdict->state == CKPT_FILE_CUT_OFF;
}

/* Size of the file of that name in the folder; CKPT_ENOTFOUND. */
static int part_size(uint64_t *size, const folder *f, const char *name, ckpt_error *err)
{
    int rc = 0, fd = -1;
    char path[FILE_PATH_MAX];

    TRY(path_join(path, f->path, name, err));
    TRY(file_open(&fd, size, path, err));
out:
    file_close(&fd);
    return rc;
}

/* ---- Entries ---------------------------------------------------------------------------------------------------- */

static int name_add(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    folder *const f = payload;

    if (file_tmp_owner(name) || strcmp(name, STORE_NAME) == 0)
        goto out;
    FAIL_IF(f->count >= WHOLE_ENTRIES_MAX, err, CKPT_EUSAGE, "%s: more than %u files in one folder", f->path,
            WHOLE_ENTRIES_MAX);
    char **const grown = array_room(f->names, &f->capacity, f->count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    f->names = grown;
    f->names[f->count] = strdup(name);
    FAIL_IF_NULL(f->names[f->count], err);
    f->count++;
out:
    return rc;
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_name(const folder *f, const char *name)
{
    return f->count && bsearch(&name, f->names, f->count, sizeof *f->names, name_compare);
}

static int entry_judge(folder *f, const char *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;
    whole_verdict verdict = {.state = CKPT_FILE_UNKNOWN};

    TRY(path_join(path, f->path, name, err));
    if (lstat(path, &st) || (S_ISLNK(st.st_mode) && (stat(path, &st) || S_ISDIR(st.st_mode))))
        goto out; /* gone since the folder was listed, or leads out of it */
    if (S_ISDIR(st.st_mode))
        rc = whole_folder(&verdict, path, f->depth + 1, err);
    else if (S_ISREG(st.st_mode) && (st.st_size > 0 || may_not_be_empty(name)))
        rc = whole_file(&verdict, path, err);
    if (rc == CKPT_ENOTFOUND)
        rc = error_clear(err);
    TRY(rc);
    if (verdict.state == CKPT_FILE_CUT_OFF)
        whole_say(f->verdict, CKPT_FILE_CUT_OFF, "%s: %s", name, verdict.why);
    f->any_whole |= verdict.state == CKPT_FILE_WHOLE && !has_suffix(name, ".json");
out:
    return rc;
}

/* ---- What the folder speaks of ---------------------------------------------------------------------------------- */

static int index_judge(folder *f, const char *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    char *text = NULL;
    size_t size;
    shard_index index = {0};

    TRY(path_join(path, f->path, name, err));
    TRY(file_read_all(&text, &size, path, SHARD_INDEX_BYTES_MAX, err));
    rc = shard_index_read(&index, text, size, err);
    if (rc == CKPT_EFORMAT) {
        rc = error_clear(err); /* some other file of that name; its own text was judged before */
        goto out;
    }
    TRY(rc);
    for (size_t i = 0; i < index.count && !is_cut_off(f); i++)
        if (!has_name(f, index.shards[i]))
            whole_say(f->verdict, CKPT_FILE_CUT_OFF, "%s, which %s names, is missing", index.shards[i], name);
    f->any_whole |= index.count > 0;
out:
    shard_index_clear(&index);
    free(text);
    return rc;
}

static int parts_judge(folder *f, const dcp_metadata *metadata, ckpt_error *err)
{
    int rc = 0;
    uint64_t size = 0, end;

    for (size_t i = 0; i < metadata->count && !is_cut_off(f); i++) {
        const dcp_part *const part = &metadata->parts[i];
        if (i == 0 || strcmp(part->file, metadata->parts[i - 1].file) != 0) {
            rc = part_size(&size, f, part->file, err);
            if (rc == CKPT_ENOTFOUND) {
                rc = error_clear(err);
                whole_say(f->verdict, CKPT_FILE_CUT_OFF, "%s, which " DCP_METADATA_NAME " names, is missing",
                          part->file);
                continue;
            }
            TRY(rc);
        }
        if (!checked_add(&end, part->offset, part->size) || end > size)
            whole_say(f->verdict, CKPT_FILE_CUT_OFF, "%s: ends before %s does", part->file, part->name);
    }
out:
    return rc;
}

/* Every rank writes its .distcp files; when all have, one of them writes .metadata. */
static int distributed_judge(folder *f, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    char *data = NULL;
    size_t size, i = 0;
    ckpt_error why = {0};
    dcp_metadata metadata = {0};

    while (i < f->count && !has_suffix(f->names[i], DCP_SUFFIX))
        i++;
    if (i == f->count)
        goto out;
    if (!has_name(f, DCP_METADATA_NAME)) {
        whole_say(f->verdict, CKPT_FILE_CUT_OFF, "has %s, but no " DCP_METADATA_NAME " yet", f->names[i]);
        goto out;
    }
    TRY(path_join(path, f->path, DCP_METADATA_NAME, err));
    TRY(file_read_all(&data, &size, path, DCP_METADATA_MAX, err));
    rc = dcp_metadata_read(&metadata, data, size, &why);
    if (rc)
        whole_say(f->verdict, CKPT_FILE_CUT_OFF, DCP_METADATA_NAME ": %s", why.message);
    TRY(error_pass_own(err, &why));
    TRY(parts_judge(f, &metadata, err));
    f->any_whole = true;
out:
    dcp_metadata_clear(&metadata);
    free(data);
    return rc;
}

/* checkpoint-500 of a trainer; a model that was saved at the end of a training has no trainer_state.json. */
static void trainer_judge(folder *f)
{
    const char *const base = path_base(f->path), *const number = base + strlen(TRAINER_PREFIX);
    if (strncmp(base, TRAINER_PREFIX, strlen(TRAINER_PREFIX)) != 0 || strspn(number, "0123456789") == 0)
        return;
    const bool trainer = has_name(f, "training_args.bin") || has_name(f, "optimizer.pt");
    if (trainer && !has_name(f, TRAINER_STATE))
        whole_say(f->verdict, CKPT_FILE_CUT_OFF, "has no " TRAINER_STATE " yet");
}

/* ---- Folders ---------------------------------------------------------------------------------------------------- */

int whole_folder(whole_verdict *out, const char *path, unsigned depth, ckpt_error *err)
{
    int rc = 0;
    folder f = {.path = path, .depth = depth, .verdict = out};

    *out = (whole_verdict){.state = CKPT_FILE_UNKNOWN};
    FAIL_IF(depth >= WHOLE_DEPTH_MAX, err, CKPT_EUSAGE, "%s: folders are nested more than %d deep", path,
            WHOLE_DEPTH_MAX);
    TRY(dir_each(path, name_add, &f, err));
    if (f.count)
        qsort(f.names, f.count, sizeof *f.names, name_compare);
    trainer_judge(&f);
    if (!is_cut_off(&f))
        TRY(distributed_judge(&f, err));
    for (size_t i = 0; i < f.count && !is_cut_off(&f); i++)
        if (shard_index_named(f.names[i]))
            TRY(index_judge(&f, f.names[i], err));
    for (size_t i = 0; i < f.count && !is_cut_off(&f); i++)
        TRY(entry_judge(&f, f.names[i], err));
    if (f.any_whole && !is_cut_off(&f))
        whole_say(out, CKPT_FILE_WHOLE, "%s", "");
out:
    for (size_t i = 0; i < f.count; i++)
        free(f.names[i]);
    free(f.names);
    return rc;
}
