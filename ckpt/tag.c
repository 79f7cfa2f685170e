#include "store_internal.h"

#include "array.h"
#include "fail.h"
#include "lease.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TAG_FILE_SIZE SHA256_HEX_SIZE /* 64 digits and a line end */
#define TAG_COUNT_MAX 100000
#define TAG_SHOWN     8 /* digits of an id in messages, at least */

/* ---- Names ------------------------------------------------------------------------------------------------------ */

static bool is_id(const char *text)
{
    return strlen(text) == SHA256_HEX_SIZE - 1 && strspn(text, "0123456789abcdef") == SHA256_HEX_SIZE - 1;
}

int tag_check(const char *tag, ckpt_error *err)
{
    static const char *const WORDS[] = {"latest", "best", "step"};
    const char *why = NULL;

    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (strcmp(tag, WORDS[i]) == 0)
            why = "is a word with a meaning of its own";
    if (!*tag)
        why = "is empty";
    else if (strlen(tag) > CKPT_TAG_BYTES_MAX)
        why = "is longer than 200 bytes";
    else if (*tag == '-' || *tag == '.')
        why = "begins with `-` or `.`";
    else if (strpbrk(tag, ":/~"))
        why = "holds one of `: / ~`";
    else if (!text_is_clean(tag, false))
        why = "is not UTF-8 or holds control characters";
    else if (is_id(tag))
        why = "looks like the id of a checkpoint";
    return why ? error_set(err, CKPT_EUSAGE, "`%.64s` cannot be a tag: it %s", tag, why) : 0;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static int tag_path(char out[FILE_PATH_MAX], const ckpt_store *store, const char *tag, ckpt_error *err)
{
    return path_join(out, store->tags_dir, tag, err);
}

int tag_read(sha256 *id, const ckpt_store *store, const char *tag, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    char *text = NULL;
    size_t size;

    TRY(tag_path(path, store, tag, err));
    rc = file_read_all(&text, &size, path, TAG_FILE_SIZE, err);
    if (rc == CKPT_ENOTFOUND)
        FAIL(err, CKPT_ENOTFOUND, "no tag `%s`", tag);
    TRY(rc);
    FAIL_IF(size != TAG_FILE_SIZE || text[size - 1] != '\n', err, CKPT_EDATA, "the tag `%s` is damaged", tag);
    text[size - 1] = 0;
    FAIL_IF(sha256_parse(id, text, NULL), err, CKPT_EDATA, "the tag `%s` is damaged", tag);
out:
    free(text);
    return rc;
}

typedef struct tag_listing {
    const ckpt_store *store;
    tag_row *rows;
    size_t count, capacity;
} tag_listing;

static int tag_add(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    tag_listing *const list = payload;
    sha256 id;

    if (tag_check(name, NULL))
        return 0; /* not a name that we write: leave it alone */
    FAIL_IF(list->count == TAG_COUNT_MAX, err, CKPT_EDATA, "more than %d tags", TAG_COUNT_MAX);
    tag_row *const grown = array_room(list->rows, &list->capacity, list->count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    list->rows = grown;
    rc = tag_read(&id, list->store, name, err);
    if (rc == CKPT_ENOTFOUND || rc == CKPT_EDATA || rc == CKPT_EUSAGE) {
        /* Removed since it was listed, or nothing that a tag may be; verify names the damaged ones. */
        rc = 0;
        goto out;
    }
    TRY(rc);
    list->rows[list->count].name = strdup(name);
    FAIL_IF_NULL(list->rows[list->count].name, err);
    list->rows[list->count++].id = id;
out:
    return rc;
}

static int tag_row_compare(const void *a, const void *b)
{
    return strcmp(((const tag_row *)a)->name, ((const tag_row *)b)->name);
}

int tag_rows(tag_row **out, size_t *count, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    tag_listing list = {.store = store};

    *out = NULL;
    *count = 0;
    rc = dir_each(store->tags_dir, tag_add, &list, err);
    if (rc == CKPT_ENOTFOUND) /* a copy of a store may have lost its empty folders */
        rc = 0;
    TRY(rc);
    if (list.count > 1)
        qsort(list.rows, list.count, sizeof *list.rows, tag_row_compare);
    *out = list.rows;
    *count = list.count;
    list = (tag_listing){0};
out:
    tag_rows_free(list.rows, list.count);
    return rc;
}

void tag_rows_free(tag_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(rows[i].name);
    free(rows);
}

/* ---- Changing --------------------------------------------------------------------------------------------------- */

/* Writes the tag; the lease `prune` is held, so that the checkpoint cannot go meanwhile. */
static int tag_write(ckpt_store *store, const char *tag, const sha256 *id, bool move, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], text[TAG_FILE_SIZE + 1], old_hex[SHA256_HEX_SIZE];
    sha256 old;

    rc = tag_read(&old, store, tag, NULL);
    if (rc == 0 && sha256_compare(&old, id) == 0)
        goto out;
    if (rc == 0 && !move) {
        sha256_hex(old_hex, &old);
        rc = error_set(err, CKPT_ECONFIRM, "the tag `%s` names another checkpoint, %.8s", tag, old_hex);
        goto out;
    }
    sha256_hex(text, id);
    text[TAG_FILE_SIZE - 1] = '\n';
    text[TAG_FILE_SIZE] = 0;
    TRY(tag_path(path, store, tag, err));
    TRY(file_replace(path, store->tmp_dir, text, TAG_FILE_SIZE, err));
out:
    return rc;
}

/* A tag goes before an id, so one that looks like the beginning of another checkpoint's id hides that. */
static int tag_note_hidden(const ckpt_store *store, const char *tag, const sha256 *tagged, ckpt_error *err)
{
    int rc = 0;
    char hex[SHA256_HEX_SIZE];
    snapshot_name *names = NULL;
    size_t count = 0;
    const size_t length = strlen(tag);

    if (length < NAME_PREFIX_MIN || length >= SHA256_HEX_SIZE || strspn(tag, "0123456789abcdefABCDEF") != length)
        goto out;
    TRY(snapshot_names(&names, &count, store->snapshots_dir, err));
    for (size_t i = 0; i < count; i++) {
        sha256_hex(hex, &names[i].id);
        if (strncasecmp(hex, tag, length) != 0 || sha256_compare(&names[i].id, tagged) == 0)
            continue;
        store_note(store, "`%s` is the tag from now on, and no longer short for the checkpoint %.*s", tag,
                   (int)(length < TAG_SHOWN ? TAG_SHOWN : length + 1), hex);
        break;
    }
out:
    free(names);
    return rc;
}

int ckpt_tag_set(ckpt_store *store, const char *tag, const char *name, bool move, ckpt_error *err)
{
    int rc = 0;
    snapshot_name found;
    lease *exclusive = NULL;

    TRY(tag_check(tag, err));
    TRY(store_writable(store, err));
    TRY(prune_lease_take(&exclusive, store, INTENT_WAIT_MS, err));
    TRY(name_resolve(&found, store, name, err));
    TRY(tag_write(store, tag, &found.id, move, err));
    TRY(tag_note_hidden(store, tag, &found.id, err));
out:
    lease_release(exclusive);
    return rc;
}

int ckpt_tag_remove(ckpt_store *store, const char *tag, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;

    TRY(tag_check(tag, err));
    TRY(store_writable(store, err));
    TRY(tag_path(path, store, tag, err));
    if (lstat(path, &st) && errno == ENOENT) {
        rc = error_set(err, CKPT_ENOTFOUND, "no tag `%s`", tag);
        error_hint(err, "`ckpt tag` lists them");
        goto out;
    }
    TRY(file_remove(path, err));
out:
    return rc;
}
