/* What a name stands for while checkpoints are damaged or pruned: the newest good one for `latest`, and for any name
 * the one that it means when it can be opened. */
#include "content.h"

#include "fail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RESOLVE_TRIES_MAX 8 /* so often a name is resolved anew because a prune was quicker */

/* What is to be done with a checkpoint, whatever its name leads to. */
typedef struct checkpoint_work {
    ckpt_store *store;
    content_work_fn run;
    void *payload;
} checkpoint_work;

/* Is this snapshot no longer there? Then what failed to open was pruned since it was listed, and is not damaged. */
static bool was_removed(const ckpt_store *store, const snapshot_name *name)
{
    char path[FILE_PATH_MAX];
    struct stat st;

    return snapshot_path(path, store->snapshots_dir, name, NULL) == 0 && stat(path, &st) && errno == ENOENT;
}

static int work_one(const checkpoint_work *work, const snapshot_name *name, ckpt_error *err)
{
    ckpt_content *content = NULL;
    char hex[SHA256_HEX_SIZE];
    int rc = content_open_snapshot(&content, work->store, name, err);
    const bool opened = rc == 0;

    if (rc == CKPT_ENOTFOUND && was_removed(work->store, name)) {
        rc = error_set(err, CKPT_ENOTFOUND, "it was removed while it was being opened");
    } else if (rc == CKPT_ENOTFOUND) { /* the snapshot exists, so what it needs should */
        rc = CKPT_EDATA;
        if (err)
            err->code = rc;
    }
    if (opened)
        rc = work->run(work->payload, &content, err);
    sha256_hex(hex, &name->id);
    if (rc == CKPT_EDATA || !opened)
        error_prefix(err, "checkpoint %.8s", hex);
    ckpt_content_close(content);
    return rc;
}

/* Of all checkpoints but the damaged one the newest that is not damaged; `err` tells of that one when there is none. */
static int work_newest_good(bool *fell_back, const checkpoint_work *work, const snapshot_name *damaged, ckpt_error *err)
{
    int rc = 0;
    snapshot_name *names = NULL;
    size_t count = 0, at = 0;
    char hex[SHA256_HEX_SIZE];
    ckpt_error last;

    TRY(snapshot_names(&names, &count, work->store->snapshots_dir, err));
    for (rc = CKPT_EDATA; at < count; at++) {
        if (sha256_compare(&names[at].id, &damaged->id) == 0)
            continue;
        rc = work_one(work, &names[at], &last);
        const bool removed = rc == CKPT_ENOTFOUND && was_removed(work->store, &names[at]);
        if (rc != CKPT_EDATA && !removed)
            break;
        rc = CKPT_EDATA;
    }
    if (at == count)
        goto out; /* all are damaged */
    sha256_hex(hex, &names[at].id);
    *fell_back = rc == 0;
    if (rc == 0) {
        store_note(work->store, "the newest checkpoint is damaged (%s); taking %.8s, the newest good one", err->message,
                   hex);
    } else {
        *err = last;
        error_prefix(err, "the newest checkpoint is damaged; %.8s instead", hex);
    }
out:
    free(names);
    return rc;
}

bool content_may_fall_back(const char *name)
{
    return strcmp(name, "latest") == 0;
}

int content_work(bool *fell_back, ckpt_store *store, const char *name, content_work_fn run, void *payload,
                 ckpt_error *err)
{
    int rc = 0;
    snapshot_name wanted;
    const checkpoint_work work = {store, run, payload};
    ckpt_error first = {0};

    *fell_back = false;
    for (int tries = 1;; tries++) {
        TRY(name_resolve(&wanted, store, name, err));
        rc = work_one(&work, &wanted, &first);
        if (rc == CKPT_EDATA && content_may_fall_back(name))
            rc = work_newest_good(fell_back, &work, &wanted, &first);
        if (rc != CKPT_ENOTFOUND || !was_removed(store, &wanted) || tries == RESOLVE_TRIES_MAX)
            break; /* else a prune was quicker, and the name means another one now, or none */
    }
    if (rc && err)
        *err = first;
out:
    return rc;
}

static int content_keep(void *payload, ckpt_content **content, ckpt_error *err)
{
    int rc = 0;

    TRY(content_add_packed(*content, err));
    *(ckpt_content **)payload = *content;
    *content = NULL;
out:
    return rc;
}

int ckpt_content_open(ckpt_content **out, ckpt_store *store, const char *name, ckpt_error *err)
{
    bool fell_back;

    return content_work(&fell_back, store, name, content_keep, out, err);
}

typedef struct content_user {
    ckpt_content_fn use;
    void *payload;
} content_user;

static int content_lend(void *payload, ckpt_content **content, ckpt_error *err)
{
    int rc = 0;
    const content_user *const user = payload;

    TRY(content_add_packed(*content, err));
    TRY(user->use(user->payload, *content, err));
out:
    return rc;
}

int ckpt_content_use(ckpt_store *store, const char *name, ckpt_content_fn use, void *payload, ckpt_error *err)
{
    bool fell_back;
    content_user user = {use, payload};

    return content_work(&fell_back, store, name, content_lend, &user, err);
}
