#include "walk.h"

#include "array.h"
#include "checked.h"
#include "fail.h"
#include "file.h"
#include "pack.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct walker {
    walk *out;
    dev_t store_dev;
    ino_t store_ino;
    ckpt_note_fn note;
    void *payload;
} walker;

int natural_compare(const char *a, const char *b)
{
    const char *const a_start = a, *const b_start = b;

    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            while (*a == '0')
                a++;
            while (*b == '0')
                b++;
            size_t na = strspn(a, "0123456789"), nb = strspn(b, "0123456789");
            if (na != nb)
                return na < nb ? -1 : 1;
            const int order = strncmp(a, b, na);
            if (order)
                return order;
            a += na;
            b += nb;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    if (*a || *b)
        return *a ? 1 : -1;
    return strcmp(a_start, b_start); /* 007 and 7 */
}

static int entry_compare(const void *a, const void *b)
{
    return natural_compare(((const walk_entry *)a)->path, ((const walk_entry *)b)->path);
}

static int entry_add(walk *w, const char *source, const char *path, const struct stat *st, const char *link,
                     ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(w->count >= PACK_FILES_MAX, err, CKPT_EUSAGE, "more than %u files in one checkpoint", PACK_FILES_MAX);
    walk_entry *grown = array_room(w->entries, &w->capacity, w->count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    w->entries = grown;
    walk_entry *e = &w->entries[w->count];
    *e =
        (walk_entry){.source = strdup(source), .path = strdup(path), .link = strdup(link), .mode = st->st_mode & 07777};
    e->kind = S_ISDIR(st->st_mode) ? CKPT_FOLDER : S_ISLNK(st->st_mode) ? CKPT_LINK : CKPT_FILE;
    if (e->kind == CKPT_FILE)
        e->size = (uint64_t)st->st_size;
    w->count++; /* from here walk_clear() frees what there is */
    FAIL_IF_NULL(e->source && e->path && e->link, err);
    FAIL_IF(!checked_add(&w->total_bytes, w->total_bytes, e->size), err, CKPT_EUSAGE, "the files are too large");
out:
    return rc;
}

bool walk_is_store(const char *path)
{
    char config[FILE_PATH_MAX];

    return strcmp(path_base(path), ".ckpt") == 0 && path_join(config, path, "config.ini", NULL) == 0 &&
           access(config, F_OK) == 0;
}

/* Is this folder a store: ours, or any other? */
static bool is_store(const walker *wk, const char *path, const struct stat *st)
{
    return (st->st_dev == wk->store_dev && st->st_ino == wk->store_ino) || walk_is_store(path);
}

static int visit(walker *wk, const char *source, const char *path, unsigned depth, ckpt_error *err);

typedef struct folder_visit {
    walker *wk;
    const char *source, *path;
    unsigned depth;
} folder_visit;

static void walk_note(const walker *wk, const char *source, const char *why)
{
    char note[FILE_PATH_MAX + 64];

    if (!wk->note)
        return;
    snprintf(note, sizeof note, "%s left out: %s", source, why);
    wk->note(wk->payload, note);
}

static int visit_child(void *payload, const char *name, ckpt_error *err)
{
    const folder_visit *const v = payload;
    int rc = 0;
    char source[FILE_PATH_MAX], path[FILE_PATH_MAX];

    TRY(path_join(source, v->source, name, err));
    if (v->path[0])
        TRY(path_join(path, v->path, name, err));
    else
        TRY(path_join(path, ".", name, err));
    if (file_tmp_owner(name)) {
        walk_note(v->wk, source, "the temporary file of a restore");
        goto out;
    }
    rc = visit(v->wk, source, v->path[0] ? path : path + 2, v->depth + 1, err);
    if (rc == CKPT_ENOTFOUND) { /* a program at work renames and removes its files */
        walk_note(v->wk, source, "gone since the folder was listed");
        rc = error_clear(err);
    }
out:
    return rc;
}

static int visit_folder(walker *wk, const char *source, const char *path, const struct stat *st, unsigned depth,
                        ckpt_error *err)
{
    int rc = 0;

    if (is_store(wk, source, st)) {
        FAIL_IF(depth == 0, err, CKPT_EUSAGE, "%s is a store, which is never part of a save", source);
        goto out;
    }
    FAIL_IF(depth >= WALK_DEPTH_MAX, err, CKPT_EUSAGE, "%s: folders are nested more than %d deep", source,
            WALK_DEPTH_MAX);
    if (path[0])
        TRY(entry_add(wk->out, source, path, st, "", err));
    folder_visit v = {.wk = wk, .source = source, .path = path, .depth = depth};
    TRY(dir_each(source, visit_child, &v, err));
out:
    return rc;
}

static int visit_link(walker *wk, const char *source, const char *path, const struct stat *st, ckpt_error *err)
{
    int rc = 0;
    char target[FILE_PATH_MAX];
    const ssize_t length = readlink(source, target, sizeof target - 1);

    if (length < 0) {
        rc = error_errno(err, errno, "read link %s", source);
        goto out;
    }
    target[length] = 0;
    TRY(entry_add(wk->out, source, path, st, target, err));
out:
    return rc;
}

/* At depth 0 a link is followed. `path` is empty for the current folder itself. */
static int visit(walker *wk, const char *source, const char *path, unsigned depth, ckpt_error *err)
{
    struct stat st;

    if ((depth == 0 ? stat : lstat)(source, &st)) {
        const int rc = error_errno(err, errno, "%s", source);
        error_where(err, source);
        return rc;
    }
    if (S_ISDIR(st.st_mode))
        return visit_folder(wk, source, path, &st, depth, err);
    if (S_ISREG(st.st_mode))
        return entry_add(wk->out, source, path, &st, "", err);
    if (S_ISLNK(st.st_mode))
        return visit_link(wk, source, path, &st, err);
    if (depth == 0)
        return error_set(err, CKPT_EUSAGE, "%s is neither a file nor a folder", source);
    walk_note(wk, source, "neither a file, a folder nor a link");
    return 0;
}

/* The absolute path of what was typed, with its last component kept when that is a link. */
static int absolute_path(char out[FILE_PATH_MAX], const char *typed, ckpt_error *err)
{
    int rc = 0;
    char parent[FILE_PATH_MAX];
    char *resolved = NULL;

    size_t length = strlen(typed);
    while (length > 1 && typed[length - 1] == '/')
        length--;
    FAIL_IF(length == 0, err, CKPT_EUSAGE, "an empty path");
    FAIL_IF(length >= FILE_PATH_MAX, err, CKPT_EUSAGE, "a path is longer than %d bytes", FILE_PATH_MAX);
    memcpy(parent, typed, length);
    parent[length] = 0;

    char *slash = strrchr(parent, '/');
    const char *base = slash ? slash + 1 : parent;
    if (strcmp(base, ".") == 0 || strcmp(base, "..") == 0 || *base == 0) {
        resolved = realpath(parent, NULL);
        if (resolved)
            rc = path_join(out, resolved, "", err);
    } else {
        char name[FILE_PATH_MAX];
        memcpy(name, base, strlen(base) + 1);
        if (slash)
            slash[slash == parent ? 1 : 0] = 0;
        resolved = realpath(slash ? parent : ".", NULL);
        if (resolved)
            rc = path_join(out, resolved, name, err);
    }
    if (!resolved) {
        rc = error_errno(err, errno, "%s", typed);
        error_where(err, typed);
    }
out:
    free(resolved);
    return rc;
}

/* Does a path, whatever links it goes through, lead to something inside a store? */
static int check_outside_stores(const walker *wk, const char *absolute, const char *typed, ckpt_error *err)
{
    int rc = 0;
    struct stat st;
    char *const real = realpath(absolute, NULL);

    FAIL_IF_NULL(real || errno != ENOMEM, err);
    for (char *slash = real ? strchr(real + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        FAIL_IF(stat(real, &st) == 0 && is_store(wk, real, &st), err, CKPT_EUSAGE,
                "%s is inside a store, which is never part of a save", typed);
        *slash = '/';
    }
out:
    free(real); /* NULL for what does not exist: visit() says so */
    return rc;
}

static int add_typed(walker *wk, const char *typed, size_t given, const char *here, ckpt_error *err)
{
    int rc = 0;
    char absolute[FILE_PATH_MAX];

    TRY(absolute_path(absolute, typed, err));
    for (size_t n = strlen(absolute); n > 1 && absolute[n - 1] == '/'; n--)
        absolute[n - 1] = 0;
    const size_t prefix = strlen(here);
    const char *path = path_base(absolute);
    if (strcmp(absolute, here) == 0)
        path = "";
    else if (strcmp(here, "/") == 0)
        path = absolute + 1;
    else if (strncmp(absolute, here, prefix) == 0 && absolute[prefix] == '/')
        path = absolute + prefix + 1;
    TRY(check_outside_stores(wk, absolute, typed, err));
    const size_t first = wk->out->count;
    TRY(visit(wk, absolute, path, 0, err));
    if (wk->out->count > first) {
        wk->out->entries[first].typed = true;
        wk->out->entries[first].given = given;
    }
out:
    return rc;
}

/* Is a file or link saved under a name that another path needs as a folder? */
static int check_parents(const walk *w, ckpt_error *err)
{
    int rc = 0;
    char parent[FILE_PATH_MAX];
    const walk_entry key = {.path = parent};

    for (size_t i = 0; i < w->count; i++) {
        const char *const path = w->entries[i].path;
        for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
            memcpy(parent, path, (size_t)(slash - path));
            parent[slash - path] = 0;
            const walk_entry *const found = bsearch(&key, w->entries, w->count, sizeof *w->entries, entry_compare);
            FAIL_IF(found && found->kind != CKPT_FOLDER, err, CKPT_EUSAGE,
                    "%s would be saved as a file and as a folder", parent);
        }
    }
out:
    return rc;
}

int walk_paths(walk *out, const char *const *paths, size_t count, const char *store_path, ckpt_note_fn note,
               void *payload, ckpt_error *err)
{
    int rc = 0;
    char *here = NULL;
    struct stat st;
    walker wk = {.out = out, .note = note, .payload = payload};

    *out = (walk){0};
    FAIL_IF(count == 0, err, CKPT_EUSAGE, "nothing to save");
    if (stat(store_path, &st)) {
        rc = error_errno(err, errno, "%s", store_path);
        goto out;
    }
    wk.store_dev = st.st_dev;
    wk.store_ino = st.st_ino;
    here = realpath(".", NULL);
    if (!here) {
        rc = error_errno(err, errno, "the current folder");
        goto out;
    }
    for (size_t i = 0; i < count; i++)
        TRY(add_typed(&wk, paths[i], i, here, err));

    qsort(out->entries, out->count, sizeof *out->entries, entry_compare);
    for (size_t i = 1; i < out->count; i++)
        FAIL_IF(strcmp(out->entries[i - 1].path, out->entries[i].path) == 0, err, CKPT_EUSAGE,
                "two paths would be saved as %s", out->entries[i].path);
    TRY(check_parents(out, err));
out:
    free(here);
    if (rc)
        walk_clear(out);
    return rc;
}

void walk_clear(walk *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free(w->entries[i].source);
        free(w->entries[i].path);
        free(w->entries[i].link);
    }
    free(w->entries);
    *w = (walk){0};
}
