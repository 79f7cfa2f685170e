#include "metric.h"
#include "store_internal.h"

#include "fail.h"
#include "word.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME_BYTES_MAX 512
#define NAME_SHOWN     8 /* digits of an id in messages, as in the tables of the program */
#define NAME_NEAR_MAX  3 /* candidates in a message or hint */
#define NAME_EDITS_MAX 2 /* a tag so many letters away may have been meant */
#define NAME_HINT_SIZE 200
#define HEX_DIGITS     "0123456789abcdefABCDEF"

/* A name taken apart, and the one listing that answers it. */
typedef struct question {
    ckpt_store *store;
    char base[NAME_BYTES_MAX]; /* without ~N */
    uint64_t back;             /* N */
    snapshot_name *names;      /* newest first */
    size_t count;
} question;

/* ---- Hints ------------------------------------------------------------------------------------------------------ */

/* Appends a word to a list in a message, as far as it fits. */
static void list_append(char list[NAME_HINT_SIZE], const char *word, const char *quote)
{
    const size_t used = strlen(list);
    char item[NAME_HINT_SIZE];

    const int length = snprintf(item, sizeof item, "%s%s%s%s", used ? ", " : "", quote, word, quote);
    if (used + (size_t)length < NAME_HINT_SIZE)
        memcpy(list + used, item, (size_t)length + 1);
}

/* Names with a meaning, and what other programs call them. */
static const struct {
    const char *typed, *meant;
} RESERVED[] = {{"latest", "latest"}, {"last", "latest"}, {"newest", "latest"}, {"HEAD", "latest"}, {"best", "best"}};

/* The name with a meaning that `base` looks like; NULL when it looks like none. */
static const char *reserved_near(const char *base)
{
    for (size_t i = 0; i < sizeof RESERVED / sizeof RESERVED[0]; i++)
        if (strcasecmp(base, RESERVED[i].typed) == 0)
            return RESERVED[i].meant;
    for (size_t i = 0; i < sizeof RESERVED / sizeof RESERVED[0]; i++)
        if (strcmp(RESERVED[i].typed, RESERVED[i].meant) == 0 && strlen(base) > NAME_EDITS_MAX + 1 &&
            word_distance(base, RESERVED[i].typed) <= NAME_EDITS_MAX)
            return RESERVED[i].meant;
    return NULL;
}

/* What may have been meant: names that look alike, else all tags, else the newest checkpoint. */
static void hint_what_exists(const question *q, ckpt_error *err)
{
    char list[NAME_HINT_SIZE] = "", hex[SHA256_HEX_SIZE];
    tag_row *tags = NULL;
    size_t count = 0, near_count = 0;

    if (!err || q->count == 0) {
        error_hint(err, "`ckpt save PATH...` makes the first checkpoint");
        return;
    }
    const char *const reserved = reserved_near(q->base);
    if (reserved) {
        error_hint(err, "did you mean `%s`?", reserved);
        return;
    }
    if (strlen(q->base) < NAME_PREFIX_MIN && strspn(q->base, HEX_DIGITS) == strlen(q->base)) {
        error_hint(err, "of an id give at least %d digits; `ckpt log` lists all", NAME_PREFIX_MIN);
        return;
    }
    (void)tag_rows(&tags, &count, q->store, NULL); /* a hint without tags is still one */
    for (int all = 0; all <= 1 && near_count == 0; all++)
        for (size_t i = 0; i < count && near_count < NAME_NEAR_MAX; i++)
            if (all || word_distance(q->base, tags[i].name) <= NAME_EDITS_MAX) {
                list_append(list, tags[i].name, "`");
                near_count++;
            }
    tag_rows_free(tags, count);
    sha256_hex(hex, &q->names[0].id);
    if (*list)
        error_hint(err, "there is %s; `ckpt log` lists all", list);
    else
        error_hint(err, "the newest is %.*s; `ckpt log` lists all", NAME_SHOWN, hex);
}

/* ---- The forms of names ----------------------------------------------------------------------------------------- */

/* Each form answers with an index into q->names. */

static int find_id(size_t *at, const question *q, const sha256 *id, const char *tag, ckpt_error *err)
{
    for (size_t i = 0; i < q->count; i++)
        if (sha256_compare(&q->names[i].id, id) == 0) {
            *at = i;
            return 0;
        }
    error_set(err, CKPT_ENOTFOUND, "the checkpoint of the tag `%s` is gone", tag);
    error_hint(err, "`ckpt tag` lists the tags and can remove this one");
    return CKPT_ENOTFOUND;
}

static int find_best(size_t *at, const question *q, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;
    metric m;
    bool found = false;
    double best = 0, value;

    TRY(store_config_get(&text, q->store, "retention", "best", err));
    TRY(metric_parse(&m, text, err));
    for (size_t i = 0; i < q->count; i++) {
        snapshot s;
        if (snapshot_read(&s, q->store->snapshots_dir, &q->names[i], NULL))
            continue; /* what is damaged is not the best; verify reports it */
        if (metric_value(&value, &m, &s) && (!found || metric_better(&m, value, best))) {
            found = true;
            best = value;
            *at = i;
        }
        snapshot_clear(&s);
    }
    if (found)
        goto out;
    if (m.key[0]) {
        rc = error_set(err, CKPT_ENOTFOUND, "no checkpoint has a value of `%s`, so none is the best", m.key);
        error_hint(err, "save with the meta pair %s=VALUE, or let `best` in config.ini name another key", m.key);
    } else {
        rc = error_set(err, CKPT_ENOTFOUND, "config.ini does not say what is best");
        error_hint(err, "write `best = val_acc max` under [retention] in %s", q->store->config_path);
    }
out:
    free(text);
    return rc;
}

static uint64_t distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

static int find_step(size_t *at, const question *q, const char *digits, ckpt_error *err)
{
    int rc = 0;
    int64_t nearest = CKPT_STEP_NONE;
    const size_t length = strlen(digits);

    FAIL_IF(length == 0 || length > 18 || strspn(digits, "0123456789") != length, err, CKPT_EUSAGE,
            "`%s`: a step is a number", q->base);
    const int64_t step = strtoll(digits, NULL, 10);
    for (size_t i = 0; i < q->count; i++) {
        snapshot s;
        if (snapshot_read(&s, q->store->snapshots_dir, &q->names[i], NULL))
            continue;
        const int64_t found = s.step;
        snapshot_clear(&s);
        if (found == step) {
            *at = i;
            goto out;
        }
        if (found != CKPT_STEP_NONE && (nearest == CKPT_STEP_NONE || distance(found, step) < distance(nearest, step)))
            nearest = found;
    }
    rc = error_set(err, CKPT_ENOTFOUND, "no checkpoint of step %" PRId64, step);
    if (nearest != CKPT_STEP_NONE)
        error_hint(err, "the nearest is `step:%" PRId64 "`; `ckpt log` lists all", nearest);
    else
        error_hint(err, "no checkpoint was saved with a step; `ckpt log` lists all");
out:
    return rc;
}

static bool is_prefix(const char *base)
{
    const size_t length = strlen(base);

    return length >= NAME_PREFIX_MIN && length < SHA256_HEX_SIZE && strspn(base, HEX_DIGITS) == length;
}

static int find_prefix(size_t *at, const question *q, ckpt_error *err)
{
    int rc = 0;
    char list[NAME_HINT_SIZE] = "", hex[SHA256_HEX_SIZE];
    size_t found = 0;

    for (size_t i = 0; i < q->count; i++) {
        sha256_hex(hex, &q->names[i].id);
        if (strncasecmp(hex, q->base, strlen(q->base)) != 0)
            continue;
        if (found++ == 0)
            *at = i;
        if (found <= NAME_NEAR_MAX) {
            hex[strlen(q->base) < NAME_SHOWN ? NAME_SHOWN : SHA256_HEX_SIZE - 1] = 0;
            list_append(list, hex, "");
        }
    }
    FAIL_IF(found > 1, err, CKPT_EUSAGE, "`%s` fits %zu checkpoints: %s%s", q->base, found, list,
            found > NAME_NEAR_MAX ? ", ..." : "");
    if (found == 0) {
        rc = error_set(err, CKPT_ENOTFOUND, "no checkpoint or tag `%s`", q->base);
        hint_what_exists(q, err);
    }
out:
    return rc;
}

static int find_base(size_t *at, const question *q, ckpt_error *err)
{
    int rc = 0;
    sha256 id;

    FAIL_IF(!q->base[0], err, CKPT_EUSAGE, "the name of a checkpoint is empty");
    if (tag_check(q->base, NULL) == 0) {
        rc = tag_read(&id, q->store, q->base, err);
        if (rc != CKPT_ENOTFOUND) {
            TRY(rc);
            TRY(find_id(at, q, &id, q->base, err));
            goto out;
        }
        rc = error_clear(err);
    }
    if (q->count == 0) {
        rc = error_set(err, CKPT_ENOTFOUND, "the store has no checkpoints");
        hint_what_exists(q, err);
        goto out;
    }
    if (strcmp(q->base, "latest") == 0)
        *at = 0;
    else if (strcmp(q->base, "best") == 0)
        TRY(find_best(at, q, err));
    else if (strncmp(q->base, "step:", 5) == 0)
        TRY(find_step(at, q, q->base + 5, err));
    else if (is_prefix(q->base))
        TRY(find_prefix(at, q, err));
    else {
        rc = error_set(err, CKPT_ENOTFOUND, "no checkpoint or tag `%s`", q->base);
        hint_what_exists(q, err);
    }
out:
    return rc;
}

/* ---- ~N --------------------------------------------------------------------------------------------------------- */

/* "name~2" -> "name", 2 */
static int name_split(question *q, const char *name, ckpt_error *err)
{
    int rc = 0;
    const char *const tilde = strchr(name, '~');
    const size_t length = tilde ? (size_t)(tilde - name) : strlen(name);

    FAIL_IF(length >= sizeof q->base, err, CKPT_EUSAGE, "`%.32s...` is too long for a name", name);
    memcpy(q->base, name, length);
    q->base[length] = 0;
    if (!tilde)
        goto out;
    const size_t digits = strlen(tilde + 1);
    FAIL_IF(digits == 0 || digits > 9 || strspn(tilde + 1, "0123456789") != digits, err, CKPT_EUSAGE,
            "`%s`: a number belongs behind `~`", name);
    q->back = strtoull(tilde + 1, NULL, 10);
out:
    return rc;
}

int name_resolve(snapshot_name *out, ckpt_store *store, const char *name, ckpt_error *err)
{
    int rc = 0;
    size_t at = 0;
    question q = {.store = store};

    TRY(name_split(&q, name, err));
    if (strcmp(name, "latest") == 0) { /* which nobody can take as a tag */
        bool any = false;
        TRY(snapshot_newest(&any, out, store->snapshots_dir, err));
        if (any)
            goto out;
    }
    TRY(snapshot_names(&q.names, &q.count, store->snapshots_dir, err));
    TRY(find_base(&at, &q, err));
    if (q.back >= q.count - at) {
        const size_t before = q.count - at - 1;
        rc = before ? error_set(err, CKPT_ENOTFOUND, "`%s`: only %zu checkpoint%s before `%s`", name, before,
                                before == 1 ? " is" : "s are", q.base)
                    : error_set(err, CKPT_ENOTFOUND, "`%s`: `%s` is the oldest checkpoint", name, q.base);
        error_hint(err, "`ckpt log` lists all");
        goto out;
    }
    *out = q.names[at + q.back];
out:
    free(q.names);
    return rc;
}

int ckpt_find(char id[CKPT_ID_SIZE], ckpt_store *store, const char *name, ckpt_error *err)
{
    int rc = 0;
    snapshot_name found;

    TRY(name_resolve(&found, store, name, err));
    sha256_hex(id, &found.id);
out:
    return rc;
}
