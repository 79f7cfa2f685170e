/* saved.json: {"store": id of the store, "newest": its last sequence number, "saved": [row, ...]}
 *
 * A store that was made anew in the same place has another id, and one that was taken back from a copy has a lower
 * number: what was saved to the one before is not in it. */
#include "watch_internal.h"

#include "array.h"
#include "fail.h"
#include "ini.h"
#include "json_out.h"

#include <stdlib.h>
#include <string.h>

#define STATE_BYTES_MAX (16u << 20)

typedef struct state_row {
    char *path;
    watch_mark mark;
} state_row;

struct watch_state {
    ckpt_store *store;
    char folder[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    state_row *rows; /* sorted by path */
    size_t count, capacity;
};

static int row_compare(const void *a, const void *b)
{
    return strcmp(((const state_row *)a)->path, ((const state_row *)b)->path);
}

/* {"path":"model.pt","size":1,"inode":2,"mtime_ns":3,"names":"00..."}: what is no row is passed over. */
static int row_read(watch_state *s, const json_t *object, ckpt_error *err)
{
    int rc = 0;
    const char *const path = json_string_value(json_object_get(object, "path"));
    const char *const names = json_string_value(json_object_get(object, "names"));

    if (!path || !names)
        goto out;
    state_row *const grown = array_room(s->rows, &s->capacity, s->count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    s->rows = grown;
    s->rows[s->count] = (state_row){.path = strdup(path),
                                    .mark = {.size = (uint64_t)json_integer_value(json_object_get(object, "size")),
                                             .inode = (uint64_t)json_integer_value(json_object_get(object, "inode")),
                                             .mtime_ns = json_integer_value(json_object_get(object, "mtime_ns")),
                                             .names = strtoull(names, NULL, 16)}};
    FAIL_IF_NULL(s->rows[s->count].path, err);
    s->count++;
out:
    return rc;
}

/* ---- Which store it is ---- */

static int store_id(char **out, const watch_state *s, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], *text = NULL;
    size_t size = 0;
    ini *config = NULL;

    TRY(path_join(path, ckpt_store_path(s->store), "config.ini", err));
    TRY(file_read_all(&text, &size, path, INI_SIZE_MAX, err));
    TRY(ini_parse(&config, text, size, path, err));
    const char *const id = ini_get(config, "store", NULL, "id");
    *out = strdup(id ? id : "");
    FAIL_IF_NULL(*out, err);
out:
    ini_free(config);
    free(text);
    return rc;
}

static int store_newest(json_int_t *out, const watch_state *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_list *list = NULL;

    TRY(ckpt_list_new(&list, s->store, err));
    *out = ckpt_list_count(list) ? (json_int_t)ckpt_list_get(list, 0)->sequence : 0;
out:
    ckpt_list_free(list);
    return rc;
}

static int is_of_store(bool *is, const watch_state *s, const json_t *object, ckpt_error *err)
{
    int rc = 0;
    char *id = NULL;
    json_int_t newest;
    const char *const its = json_string_value(json_object_get(object, "store"));

    TRY(store_id(&id, s, err));
    TRY(store_newest(&newest, s, err));
    *is = its && strcmp(its, id) == 0 && json_integer_value(json_object_get(object, "newest")) <= newest;
out:
    free(id);
    return rc;
}

/* ---- Reading ---- */

static int rows_read(watch_state *s, ckpt_error *err)
{
    int rc = 0;
    bool is = false;
    char *text = NULL;
    size_t size = 0, i;
    json_t *object = NULL, *row;

    if (file_read_all(&text, &size, s->path, STATE_BYTES_MAX, NULL))
        goto out;
    object = json_loadb(text, size, 0, NULL);
    TRY(is_of_store(&is, s, object, err));
    json_array_foreach(is ? json_object_get(object, "saved") : NULL, i, row)
    {
        TRY(row_read(s, row, err));
    }
    if (s->count)
        qsort(s->rows, s->count, sizeof *s->rows, row_compare);
out:
    json_decref(object);
    free(text);
    return rc;
}

int watch_state_open(watch_state **out, const char *folder, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    watch_state *const s = calloc(1, sizeof *s);

    FAIL_IF_NULL(s, err);
    s->store = store;
    if (folder) {
        FAIL_IF(strlen(folder) >= sizeof s->folder, err, CKPT_EUSAGE, "the path of a folder is too long");
        memcpy(s->folder, folder, strlen(folder) + 1);
        TRY(path_join(s->path, folder, "saved.json", err));
        TRY(rows_read(s, err));
    }
    *out = s;
out:
    if (rc)
        watch_state_close(s);
    return rc;
}

void watch_state_close(watch_state *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        free(s->rows[i].path);
    free(s->rows);
    free(s);
}

bool watch_state_get(watch_mark *out, const watch_state *s, const char *path)
{
    char copy[FILE_PATH_MAX];
    state_row key = {.path = copy};

    if (!s->count || strlen(path) >= sizeof copy)
        return false;
    memcpy(copy, path, strlen(path) + 1);
    const state_row *const row = bsearch(&key, s->rows, s->count, sizeof *s->rows, row_compare);
    if (row)
        *out = row->mark;
    return row != NULL;
}

static int row_write(json_t *array, const watch_item *item, ckpt_error *err)
{
    int rc = 0;
    char names[17];
    json_t *const row = json_object();

    TRY(json_out_append(array, row, err));
    snprintf(names, sizeof names, "%016llx", (unsigned long long)item->saved.names);
    TRY(json_out_set(row, "path", json_string(item->path), err));
    TRY(json_out_set(row, "size", json_integer((json_int_t)item->saved.size), err));
    TRY(json_out_set(row, "inode", json_integer((json_int_t)item->saved.inode), err));
    TRY(json_out_set(row, "mtime_ns", json_integer((json_int_t)item->saved.mtime_ns), err));
    TRY(json_out_set(row, "names", json_string(names), err));
out:
    return rc;
}

/* A path that is no UTF-8 is not remembered: JSON cannot hold it. It is compared with the store after a restart. */
static bool is_text(const char *path)
{
    json_t *const probe = json_string(path);
    const bool is = probe != NULL;

    json_decref(probe);
    return is;
}

int watch_state_put(watch_state *s, const watch_track *track, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL, *id = NULL;
    json_int_t newest;
    json_t *const object = json_object(), *array;

    if (!s->path[0])
        goto out;
    TRY(store_id(&id, s, err));
    TRY(store_newest(&newest, s, err));
    TRY(json_out_set(object, "store", json_string(id), err));
    TRY(json_out_set(object, "newest", json_integer(newest), err));
    array = json_array();
    TRY(json_out_set(object, "saved", array, err));
    for (size_t i = 0; i < watch_track_count(track); i++) {
        const watch_item *const item = watch_track_at(track, i);
        if (item->has_saved && is_text(item->path))
            TRY(row_write(array, item, err));
    }
    text = json_dumps(object, JSON_COMPACT);
    FAIL_IF_NULL(text, err);
    TRY(file_replace(s->path, s->folder, text, strlen(text), err));
out:
    free(text);
    free(id);
    json_decref(object);
    return rc;
}
