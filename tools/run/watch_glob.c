#include "watch_glob.h"

#include "fail.h"
#include "file.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct watch_glob {
    char *text;
    const char *parts[WATCH_DEPTH_MAX]; /* into text */
    size_t count;
    bool absolute, plain;
};

static bool is_magic(const char *part)
{
    return strpbrk(part, "*?[") != NULL;
}

static bool is_deep(const char *part)
{
    return strcmp(part, "**") == 0;
}

int watch_glob_new(watch_glob **out, const char *pattern, ckpt_error *err)
{
    int rc = 0;
    struct stat st;
    watch_glob *const g = calloc(1, sizeof *g);

    FAIL_IF_NULL(g, err);
    FAIL_IF(!pattern[0] || strlen(pattern) > WATCH_GLOB_MAX, err, CKPT_EUSAGE,
            "a pattern is empty or longer than %d bytes", WATCH_GLOB_MAX);
    g->text = strdup(pattern);
    FAIL_IF_NULL(g->text, err);
    g->absolute = pattern[0] == '/';
    g->plain = lstat(pattern, &st) == 0;
    for (char *at = g->text; *at;) {
        const size_t length = strcspn(at, "/");
        const bool more = at[length] != 0;
        at[length] = 0;
        const bool again = g->count && is_deep(at) && is_deep(g->parts[g->count - 1]);
        if (length && strcmp(at, ".") != 0 && !again) {
            FAIL_IF(g->count == WATCH_DEPTH_MAX, err, CKPT_EUSAGE, "%s: more than %d folders deep", pattern,
                    WATCH_DEPTH_MAX);
            g->parts[g->count++] = at;
        }
        at += length + more;
    }
    FAIL_IF(g->count == 0, err, CKPT_EUSAGE, "%s: name what is in this folder, as %s*", pattern,
            g->absolute ? "/" : "");
    size_t magic = 0, deep = 0;
    for (size_t i = 0; i < g->count; i++) {
        magic += is_magic(g->parts[i]);
        deep += is_deep(g->parts[i]);
    }
    FAIL_IF(deep > WATCH_DEEP_MAX, err, CKPT_EUSAGE, "%s: more than %d times `**`", pattern, WATCH_DEEP_MAX);
    g->plain |= magic == 0;
    *out = g;
out:
    if (rc)
        watch_glob_free(g);
    return rc;
}

void watch_glob_free(watch_glob *g)
{
    if (g)
        free(g->text);
    free(g);
}

/* ---- Fitting ---- */

static bool part_fits(const watch_glob *g, const char *part, const char *name)
{
    return g->plain ? strcmp(part, name) == 0 : fnmatch(part, name, FNM_PERIOD) == 0;
}

/* Do parts [i, count) fit the rest of a path? `**` may stand for nothing or for one name more. */
static bool rest_fits(const watch_glob *g, size_t i, const char *rest, unsigned depth)
{
    char name[FILE_PATH_MAX];

    while (*rest == '/')
        rest++;
    if (!*rest || i == g->count || depth > WATCH_DEPTH_MAX)
        return !*rest && i == g->count;
    const size_t length = strcspn(rest, "/");
    if (length >= sizeof name)
        return false;
    memcpy(name, rest, length);
    name[length] = 0;
    const char *const behind = rest + length;
    if (!g->plain && is_deep(g->parts[i])) {
        if (i + 1 < g->count && rest_fits(g, i + 1, rest, depth + 1))
            return true;
        if (name[0] == '.')
            return false;
        return rest_fits(g, i + (i + 1 == g->count && !*behind), behind, depth + 1);
    }
    return part_fits(g, g->parts[i], name) && rest_fits(g, i + 1, behind, depth + 1);
}

bool watch_glob_fits(const watch_glob *g, const char *path)
{
    return g->absolute == (path[0] == '/') && rest_fits(g, 0, path, 0);
}

/* ---- Scanning ---- */

typedef struct scanner {
    const watch_glob *g;
    const watch_scan *scan;
    size_t found, visits;
} scanner;

/* One folder that is read for names that fit part i. */
typedef struct visit {
    scanner *s;
    const char *folder; /* "" for the current one */
    size_t part;
    unsigned depth;
} visit;

static int scan_parts(scanner *s, const char *folder, size_t part, unsigned depth, ckpt_error *err);

static int child_path(char out[FILE_PATH_MAX], const char *folder, const char *name)
{
    if (!folder[0])
        return snprintf(out, FILE_PATH_MAX, "%s", name) < FILE_PATH_MAX ? 0 : CKPT_EUSAGE;
    return path_join(out, folder, name, NULL);
}

static bool is_store(const char *path)
{
    char config[FILE_PATH_MAX];
    struct stat st;

    return strcmp(path_base(path), ".ckpt") == 0 && path_join(config, path, "config.ini", NULL) == 0 &&
           stat(config, &st) == 0;
}

static int tell_found(scanner *s, const char *path, const struct stat *st, ckpt_error *err)
{
    if ((!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) || (S_ISDIR(st->st_mode) && is_store(path)))
        return 0;
    if (s->found++ == WATCH_FOUND_MAX)
        return error_set(err, CKPT_EUSAGE, "more than %d files fit; a narrower pattern is needed", WATCH_FOUND_MAX);
    return s->scan->found(s->scan->payload, path, st, err);
}

static int visit_name(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    const visit *const v = payload;
    const watch_glob *const g = v->s->g;
    const bool deep = is_deep(g->parts[v->part]), last = v->part + 1 == g->count;
    char path[FILE_PATH_MAX];
    struct stat st;

    if (file_tmp_owner(name) || child_path(path, v->folder, name) || (deep && name[0] == '.') ||
        (!deep && !part_fits(g, g->parts[v->part], name)) || lstat(path, &st))
        return 0;
    const bool folder = S_ISDIR(st.st_mode);
    if (deep && folder && !is_store(path))
        TRY(scan_parts(v->s, path, v->part, v->depth + 1, err));
    else if (last && !(deep && folder))
        TRY(tell_found(v->s, path, &st, err));
    else if (!deep && folder && !is_store(path))
        TRY(scan_parts(v->s, path, v->part + 1, v->depth + 1, err));
out:
    return rc;
}

static int visit_folder(scanner *s, const char *folder, size_t part, unsigned depth, ckpt_error *err)
{
    int rc = 0;
    visit v = {.s = s, .folder = folder, .part = part, .depth = depth};
    const char *const path = folder[0] ? folder : ".";

    FAIL_IF(s->visits++ == WATCH_VISITS_MAX, err, CKPT_EUSAGE,
            "more than %d folders to look into; a narrower pattern is needed", WATCH_VISITS_MAX);
    TRY(s->scan->folder(s->scan->payload, path, err));
    /* Nothing of `each` fails but what has to end the scan; a folder that cannot be read holds nothing for us. */
    ckpt_error own = {0};
    rc = dir_each(path, visit_name, &v, &own);
    if (rc == CKPT_ENOTFOUND || rc == CKPT_EIO)
        rc = 0;
    else if (rc && err)
        *err = own;
out:
    return rc;
}

/* A part without magic: a name that need not be searched for. */
static int scan_plain(scanner *s, const char *folder, size_t part, unsigned depth, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;

    if (child_path(path, folder, s->g->parts[part]))
        goto out;
    if (stat(path, &st)) {
        TRY(s->scan->folder(s->scan->payload, folder[0] ? folder : ".", err));
    } else if (part + 1 == s->g->count) {
        TRY(s->scan->folder(s->scan->payload, folder[0] ? folder : ".", err));
        TRY(tell_found(s, path, &st, err));
    } else if (S_ISDIR(st.st_mode)) {
        TRY(scan_parts(s, path, part + 1, depth + 1, err));
    }
out:
    return rc;
}

static int scan_parts(scanner *s, const char *folder, size_t part, unsigned depth, ckpt_error *err)
{
    int rc = 0;
    const watch_glob *const g = s->g;

    if (depth > WATCH_DEPTH_MAX)
        goto out;
    if (g->plain || !is_magic(g->parts[part])) {
        TRY(scan_plain(s, folder, part, depth, err));
        goto out;
    }
    if (is_deep(g->parts[part]) && part + 1 < g->count) /* for no folder */
        TRY(scan_parts(s, folder, part + 1, depth, err));
    TRY(visit_folder(s, folder, part, depth, err));
out:
    return rc;
}

int watch_glob_scan(const watch_glob *g, const watch_scan *scan, ckpt_error *err)
{
    scanner s = {.g = g, .scan = scan};

    return scan_parts(&s, g->absolute ? "/" : "", 0, 0, err);
}
