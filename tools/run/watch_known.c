#include "watch_internal.h"

#include "fail.h"
#include "hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHECKPOINTS_MAX 64 /* newest ones that are opened */
#define READ_BYTES      ((size_t)1 << 20)

static int hash_file(char hex[SHA256_HEX_SIZE], int fd, uint64_t size, const char *path, ckpt_error *err)
{
    int rc = 0;
    sha256 digest;
    char *const buffer = malloc(READ_BYTES);
    sha256_stream *const stream = sha256_new();

    FAIL_IF_NULL(buffer && stream, err);
    for (uint64_t done = 0; done < size;) {
        const size_t n = size - done < READ_BYTES ? (size_t)(size - done) : READ_BYTES;
        TRY(file_read_at(buffer, fd, done, n, path, err));
        sha256_update(stream, buffer, n);
        done += n;
    }
    sha256_finish(&digest, stream);
    sha256_hex(hex, &digest);
out:
    sha256_free(stream);
    free(buffer);
    return rc;
}

static int file_is_same(bool *same, const ckpt_file_info *file, const char *path, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    char hex[SHA256_HEX_SIZE];

    *same = false;
    TRY(file_open(&fd, &size, path, err));
    if (size != file->size)
        goto out;
    TRY(hash_file(hex, fd, size, path, err));
    *same = strcmp(hex, file->sha256) == 0;
out:
    file_close(&fd);
    return rc;
}

/* What a checkpoint holds under a name: the file itself, or all below the folder. */
static const char *below(const char *saved, const char *name)
{
    const size_t length = strlen(name);

    if (strncmp(saved, name, length) != 0 || (saved[length] && saved[length] != '/'))
        return NULL;
    return saved + length;
}

typedef struct counted {
    uint64_t entries;
    const char *path;
} counted;

static int count_entries(const char *path, uint64_t *entries, ckpt_error *err);

static int count_entry(void *payload, const char *name, ckpt_error *err)
{
    int rc = 0;
    counted *const c = payload;
    char path[FILE_PATH_MAX];
    struct stat st;

    TRY(path_join(path, c->path, name, err));
    c->entries++;
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
        TRY(count_entries(path, &c->entries, err));
out:
    return rc;
}

static int count_entries(const char *path, uint64_t *entries, ckpt_error *err)
{
    counted c = {.path = path};
    const int rc = dir_each(path, count_entry, &c, err);

    *entries += c.entries;
    return rc;
}

/* *found: the checkpoint holds something of that name. */
static int compare(bool *found, bool *same, const ckpt_content *content, const char *path, const char *name,
                   ckpt_error *err)
{
    int rc = 0;
    uint64_t entries = 1, there = 0;
    struct stat st;
    char each[FILE_PATH_MAX];

    *found = *same = false;
    for (size_t i = 0; i < ckpt_content_file_count(content); i++)
        there += below(ckpt_content_file(content, i)->path, name) != NULL;
    *found = there > 0;
    if (!*found || stat(path, &st))
        goto out;
    if (S_ISDIR(st.st_mode))
        TRY(count_entries(path, &entries, err));
    *same = entries == there;
    for (size_t i = 0; *same && i < ckpt_content_file_count(content); i++) {
        const ckpt_file_info *const file = ckpt_content_file(content, i);
        const char *const rest = below(file->path, name);
        if (!rest || file->kind != CKPT_FILE)
            continue;
        FAIL_IF(snprintf(each, sizeof each, "%s%s", path, rest) >= (int)sizeof each, err, CKPT_EUSAGE,
                "%s: a path is too long", path);
        TRY(file_is_same(same, file, each, err));
    }
out:
    return rc;
}

int watch_known(bool *same, ckpt_store *store, const char *path, const char *name, int64_t step, ckpt_error *err)
{
    int rc = 0;
    bool found = false;
    size_t opened = 0;
    ckpt_list *list = NULL;
    ckpt_content *content = NULL;

    *same = false;
    TRY(ckpt_list_new(&list, store, err));
    for (size_t i = 0; !found && i < ckpt_list_count(list) && opened < CHECKPOINTS_MAX; i++) {
        const ckpt_info *const info = ckpt_list_get(list, i);
        if (step != CKPT_STEP_NONE && info->step != CKPT_STEP_NONE && info->step != step)
            continue; /* of hundreds of folders each has its own */
        ckpt_content_close(content);
        content = NULL;
        opened++;
        if (ckpt_content_open(&content, store, info->id, NULL) == 0)
            TRY(compare(&found, same, content, path, name, err));
    }
out:
    ckpt_content_close(content);
    ckpt_list_free(list);
    return rc;
}
