#include "content.h"

#include "array.h"
#include "fail.h"
#include "walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STORE_NAME ".ckpt"

/* ---- Files of a folder ------------------------------------------------------------------------------------------ */

typedef struct path_list {
    char **paths;
    size_t count, capacity;
} path_list;

typedef struct folder_visit {
    path_list *list;
    const char *path;
    unsigned depth;
} folder_visit;

static int path_add(path_list *l, const char *path, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(l->count >= CONTENT_PLAIN_FILES_MAX, err, CKPT_EUSAGE, "more than %u files in one folder",
            CONTENT_PLAIN_FILES_MAX);
    char **const grown = array_room(l->paths, &l->capacity, l->count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    l->paths = grown;
    l->paths[l->count] = strdup(path);
    FAIL_IF_NULL(l->paths[l->count], err);
    l->count++;
out:
    return rc;
}

/* Links to files are followed, as caches of models are made of them; links to folders may lead in a circle. */
static int entry_visit(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    const folder_visit *const v = payload;
    char path[FILE_PATH_MAX];
    struct stat st, target;

    if (file_tmp_owner(name) || strcmp(name, STORE_NAME) == 0)
        goto out;
    TRY(path_join(path, v->path, name, err));
    if (lstat(path, &st) || stat(path, &target))
        goto out; /* gone since the folder was listed, or a link to nothing */
    if (S_ISREG(target.st_mode)) {
        TRY(path_add(v->list, path, err));
    } else if (S_ISDIR(st.st_mode)) {
        FAIL_IF(v->depth >= CONTENT_PLAIN_DEPTH_MAX, err, CKPT_EUSAGE, "%s: folders are nested more than %d deep", path,
                CONTENT_PLAIN_DEPTH_MAX);
        folder_visit below = {v->list, path, v->depth + 1};
        TRY(dir_each(path, entry_visit, &below, err));
    }
out:
    return rc;
}

static int path_compare(const void *a, const void *b)
{
    return natural_compare(*(char *const *)a, *(char *const *)b);
}

/* The file itself, or the files of the folder; *folder_size is the part of their paths that is the folder's. */
static int paths_list(path_list *l, size_t *folder_size, const char *path, ckpt_error *err)
{
    int rc = 0;
    struct stat st;
    folder_visit top = {l, path, 0};

    *folder_size = 0;
    if (stat(path, &st) || !S_ISDIR(st.st_mode)) {
        TRY(path_add(l, path, err)); /* what is neither is told when it is opened */
        goto out;
    }
    TRY(dir_each(path, entry_visit, &top, err));
    if (l->count)
        qsort(l->paths, l->count, sizeof *l->paths, path_compare);
    *folder_size = strlen(path) + (path[strlen(path) - 1] == '/' ? 0 : 1);
out:
    return rc;
}

static void paths_clear(path_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->paths[i]);
    free(l->paths);
}

/* ---- One file --------------------------------------------------------------------------------------------------- */

/* Opens the file, in the place of the one that was open. */
static int plain_open(content_plain *p, ckpt_error *err)
{
    int rc = 0;
    ckpt_content *const c = p->content;
    uint64_t size = 0;

    if (p->fd >= 0)
        goto out;
    if (c->plain_open != SIZE_MAX)
        file_close(&c->plains[c->plain_open].fd);
    c->plain_open = SIZE_MAX;
    TRY(file_open(&p->fd, &size, p->path, err));
    c->plain_open = (size_t)(p - c->plains);
    if (!p->source.path) {
        byte_source_fd(&p->source, p->fd, size, p->path);
        goto out;
    }
    if (size < p->source.size)
        rc = error_set(err, CKPT_EDATA, "%s: has become shorter", p->path);
out:
    return rc;
}

static int read_plain(const byte_source *source, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    int rc = 0;
    content_plain *const p = (content_plain *)(uintptr_t)source; /* const for readers; ours to open */

    TRY(plain_open(p, err));
    TRY(file_read_at(dst, p->fd, offset, size, p->path, err));
out:
    return rc;
}

static void plain_tensor(ckpt_tensor_info *t, const tensor_view *v, size_t file)
{
    *t = (ckpt_tensor_info){
        .name = v->name, .dtype = v->dtype, .rank = v->rank, .contiguous = v->contiguous, .file = file};
    for (unsigned i = 0; i < v->rank; i++) {
        t->shape[i] = v->shape[i];
        t->stride[i] = v->stride[i];
    }
    (void)tensor_view_bytes(&t->bytes, v); /* parsers have made sure that it fits */
}

static int tensors_add(ckpt_content *c, size_t file, ckpt_error *err)
{
    int rc = 0;
    const tensor_file *const found = &c->plains[file].file;
    const size_t count = c->tensor_count + found->count;

    ckpt_tensor_info *const tensors = realloc(c->tensors, (count + 1) * sizeof *tensors);
    FAIL_IF_NULL(tensors, err);
    c->tensors = tensors;
    uint64_t *const offsets = realloc(c->tensor_offsets, (count + 1) * sizeof *offsets);
    FAIL_IF_NULL(offsets, err);
    c->tensor_offsets = offsets;
    for (size_t i = 0; i < found->count; i++, c->tensor_count++) {
        plain_tensor(&c->tensors[c->tensor_count], &found->tensors[i], file);
        c->tensor_offsets[c->tensor_count] = found->tensors[i].offset;
    }
out:
    return rc;
}

static int file_add(ckpt_content *c, char *path, size_t folder_size, ckpt_error *err)
{
    int rc = 0;
    const size_t i = c->file_count++;
    content_plain *const p = &c->plains[i];
    char why[CKPT_WHY_SIZE];
    struct stat st;

    *p = (content_plain){.content = c, .path = path, .fd = -1};
    TRY(plain_open(p, err));
    p->source.read = read_plain;
    TRY(tensor_file_read(&p->file, why, &p->source, err));
    snprintf(p->refusal, sizeof p->refusal, "%s", tensor_file_refusal(why, path));
    c->files[i].info = (ckpt_file_info){.path = path + folder_size,
                                        .kind = CKPT_FILE,
                                        .size = p->source.size,
                                        .link_target = "",
                                        .format = p->file.format,
                                        .tensor_first = c->tensor_count,
                                        .tensor_count = p->file.count};
    if (fstat(p->fd, &st) == 0)
        c->files[i].info.mode = st.st_mode & 07777;
    TRY(tensors_add(c, i, err));
out:
    return rc;
}

/* ---- Opening ---------------------------------------------------------------------------------------------------- */

int ckpt_content_open_file(ckpt_content **out, const char *path, ckpt_error *err)
{
    int rc = 0;
    path_list paths = {0};
    size_t folder_size = 0;
    ckpt_content *c = NULL;

    TRY(paths_list(&paths, &folder_size, path, err));
    TRY(content_alloc(&c, paths.count, 0, err));
    c->plains = calloc(paths.count + 1, sizeof *c->plains);
    FAIL_IF_NULL(c->plains, err);
    for (size_t i = 0; i < paths.count; i++) {
        char *const one = paths.paths[i];
        paths.paths[i] = NULL; /* the content's from here on */
        TRY(file_add(c, one, folder_size, err));
    }
    TRY(content_add_packed(c, err));
    *out = c;
    c = NULL;
out:
    paths_clear(&paths);
    ckpt_content_close(c);
    return rc;
}

void content_plain_clear(ckpt_content *c)
{
    for (size_t i = 0; c->plains && i < c->file_count; i++) {
        tensor_file_clear(&c->plains[i].file);
        file_close(&c->plains[i].fd);
        free(c->plains[i].path);
    }
    free(c->plains);
    c->plains = NULL;
}
