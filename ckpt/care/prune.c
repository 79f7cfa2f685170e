/* Prune: the policy decides which snapshots go, then goes what no snapshot needs.
 *
 *   list, read -> policy -> decode the newest that stays
 *   guard -> the same again -> remove snapshots -> sync -> remove packs -> sync -> remove leftovers
 *
 * Decoding may take minutes, for which no writer shall wait; under the guard only what was not decoded before is.
 * It may be stopped anywhere: without its snapshot a pack is only waste, which the next prune finds. */
#include "prune.h"

#include "parity_dir.h"
#include "reach.h"
#include "retention.h"
#include "verify.h"

#include "array.h"
#include "fail.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEYS_SHOWN_MAX 160 /* bytes */

/* What prune knows of one checkpoint. */
typedef struct prune_entry {
    snapshot_name name;
    uint64_t size; /* of the snapshot's file */
    sha256 pack;
    retention_item item;
    bool readable;            /* the snapshot */
    bool counted;             /* one of those that the policy is about */
    char why[REACH_WHY_SIZE]; /* what is damaged; "": it is good */
} prune_entry;

/* What decoding all files of a checkpoint showed. */
typedef struct verdict {
    sha256 id;
    char why[REACH_WHY_SIZE]; /* "": they are as they were saved */
} verdict;

typedef struct pruner {
    ckpt_store *store;
    bool dry_run;
    bool all_stay;           /* no policy counts, not even that of the config */
    const ckpt_value *among; /* or NULL */
    prune_guard *guard;      /* NULL in a dry run */
    bool has_policy;
    retention_policy policy;
    int64_t now; /* by which the policy judges ages, when it is applied twice too */
    size_t count;
    prune_entry *entries; /* newest first */
    verdict *verdicts;
    size_t verdict_count, verdict_capacity;
    reach reach;
    bool has_values[RETENTION_METRICS_MAX]; /* some checkpoint has a number for the metric */
    char keys[KEYS_SHOWN_MAX];              /* of meta that there are, "acc, loss", as far as there is room */
    ckpt_prune_result *result;
} pruner;

/* ---- What there is ---------------------------------------------------------------------------------------------- */

static int policy_read(pruner *p, const char *keep, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL, *best = NULL;
    metric config;

    TRY(store_config_get(&best, p->store, "retention", "best", err));
    TRY(metric_parse(&config, best, err));
    if (!keep)
        TRY(store_config_get(&text, p->store, "retention", "keep", err));
    p->has_policy = keep || text;
    if (p->has_policy)
        TRY(retention_parse(&p->policy, keep ? keep : text, &config, err));
    p->now = (int64_t)time(NULL);
out:
    free(text);
    free(best);
    return rc;
}

static bool is_tagged(const tag_row *tags, size_t count, const sha256 *id)
{
    for (size_t i = 0; i < count; i++)
        if (sha256_compare(&tags[i].id, id) == 0)
            return true;
    return false;
}

static void key_add(pruner *p, const char *key)
{
    const size_t used = strlen(p->keys), length = strlen(key);

    for (const char *at = p->keys; (at = strstr(at, key)); at += length)
        if ((at == p->keys || at[-1] == ' ') && (at[length] == 0 || at[length] == ','))
            return;
    if (used + length + sizeof ", " <= sizeof p->keys)
        snprintf(p->keys + used, sizeof p->keys - used, "%s%s", used ? ", " : "", key);
}

/* Is it about this checkpoint? */
static bool is_among(const pruner *p, const snapshot *s)
{
    if (!p->among)
        return true;
    for (size_t i = 0; i < s->meta_count; i++)
        if (strcmp(s->meta[i].key, p->among->key) == 0 && strcmp(s->meta[i].value, p->among->value) == 0)
            return true;
    return false;
}

static int entry_read(prune_entry *e, pruner *p, const snapshot_name *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;
    snapshot s = {0};
    ckpt_error why;

    e->name = *name;
    TRY(snapshot_path(path, p->store->snapshots_dir, name, err));
    e->size = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    if (snapshot_read(&s, p->store->snapshots_dir, name, &why)) {
        TRY(error_pass_own(err, &why));
        snprintf(e->why, sizeof e->why, "%.*s", (int)sizeof e->why - 1, why.message);
        goto out;
    }
    e->readable = true;
    e->pack = s.pack;
    retention_item_read(&e->item, &p->policy, &s);
    e->counted = is_among(p, &s);
    for (size_t i = 0; i < p->policy.metric_count; i++)
        p->has_values[i] |= e->counted && e->item.values[i].has;
    for (size_t i = 0; e->counted && i < s.meta_count; i++)
        key_add(p, s.meta[i].key);
    TRY(reach_check(e->why, NULL, &p->reach, &s.pack, err));
out:
    snapshot_clear(&s);
    return rc;
}

static int entries_read(pruner *p, ckpt_error *err)
{
    int rc = 0;
    snapshot_name *names = NULL;
    tag_row *tags = NULL;
    size_t tag_count = 0;

    TRY(snapshot_names(&names, &p->count, p->store->snapshots_dir, err));
    TRY(tag_rows(&tags, &tag_count, p->store, err));
    TRY(reach_new(&p->reach, p->store, err));
    p->entries = calloc(p->count ? p->count : 1, sizeof *p->entries);
    FAIL_IF_NULL(p->entries, err);
    for (size_t i = 0; i < p->count; i++) {
        TRY(entry_read(&p->entries[i], p, &names[i], err));
        p->entries[i].item.tagged = is_tagged(tags, tag_count, &names[i].id);
    }
out:
    tag_rows_free(tags, tag_count);
    free(names);
    return rc;
}

/* ---- What stays ------------------------------------------------------------------------------------------------- */

static void row_keep(ckpt_prune_row *row, const char *reason)
{
    if (row->keep)
        return;
    row->keep = true;
    snprintf(row->reason, sizeof row->reason, "%s", reason);
}

static void row_tell_of_tags(ckpt_prune_row *row)
{
    const size_t used = strlen(row->reason);

    snprintf(row->reason + used, sizeof row->reason - used, "; its tags go too");
}

static bool is_good(const prune_entry *e)
{
    return e->counted && !e->why[0];
}

/* Applies the policy to the good checkpoints only: damaged ones must not count as the last five. */
static int policy_apply(pruner *p, ckpt_error *err)
{
    int rc = 0;
    size_t good = 0;
    retention_item *items = calloc(p->count ? p->count : 1, sizeof *items);
    ckpt_prune_row *rows = calloc(p->count ? p->count : 1, sizeof *rows);

    FAIL_IF_NULL(items, err);
    FAIL_IF_NULL(rows, err);
    for (size_t i = 0; i < p->count; i++)
        if (is_good(&p->entries[i]))
            items[good++] = p->entries[i].item;
    TRY(retention_apply(rows, &p->policy, items, good, p->now, err));
    /* Never the last good one, and the newest is the one that a training goes on from. */
    if (good > 0)
        row_keep(&rows[0], "the newest good one");
    good = 0;
    for (size_t i = 0; i < p->count; i++)
        if (is_good(&p->entries[i]))
            p->result->rows[i] = rows[good++];
out:
    free(rows);
    free(items);
    return rc;
}

/* A rule that finds nothing to look at looks like one that protects. Who gives no values at all does not rely on it,
 * and a run of its own may have none yet. */
static void best_note(const pruner *p)
{
    if (!p->has_policy || p->among || !p->keys[0])
        return;
    for (size_t i = 0; i < p->policy.metric_count; i++) {
        const char *const key = p->policy.metrics[i].key;
        const uint64_t count = retention_best_count(&p->policy, i);
        if (count == 0 || p->has_values[i])
            continue;
        if (key[0])
            store_note(p->store,
                       "rule `best %" PRIu64 "` keeps nothing: no checkpoint has a number for `%s`; keys there are: %s",
                       count, key, p->keys);
        else
            store_note(p->store,
                       "rule `best %" PRIu64 "` keeps nothing: config.ini has no `best = KEY max`; keys there are: %s",
                       count, p->keys);
    }
}

static int rows_decide(pruner *p, ckpt_error *err)
{
    int rc = 0;
    ckpt_prune_row *const rows = calloc(p->count ? p->count : 1, sizeof *rows);

    FAIL_IF_NULL(rows, err);
    free(p->result->rows);
    p->result->rows = rows;
    p->result->row_count = p->count;
    if (p->has_policy)
        TRY(policy_apply(p, err));
    for (size_t i = 0; i < p->count; i++) {
        sha256_hex(rows[i].id, &p->entries[i].name.id);
        if (!p->has_policy)
            row_keep(&rows[i], "no policy is set");
        if (p->entries[i].why[0])
            row_keep(&rows[i], "damaged; see `ckpt verify`");
        if (!p->entries[i].counted)
            row_keep(&rows[i], "the policy is not about it");
        if (p->guard && prune_guard_keeps(p->guard, &p->entries[i].name.id))
            row_keep(&rows[i], "its save is not done yet"); /* it may be about to get its tag */
        if (!rows[i].keep && p->entries[i].item.tagged)
            row_tell_of_tags(&rows[i]);
    }
out:
    return rc;
}

static bool removes_any(const pruner *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (!p->result->rows[i].keep)
            return true;
    return false;
}

static prune_entry *newest_good(const pruner *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (is_good(&p->entries[i]))
            return &p->entries[i];
    return NULL;
}

static int verdict_get(const verdict **out, pruner *p, const snapshot_name *name, ckpt_error *err)
{
    int rc = 0;

    *out = NULL;
    for (size_t i = 0; i < p->verdict_count && !*out; i++)
        if (sha256_compare(&p->verdicts[i].id, &name->id) == 0)
            *out = &p->verdicts[i];
    if (*out)
        goto out;
    verdict *const grown = array_room(p->verdicts, &p->verdict_capacity, p->verdict_count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    p->verdicts = grown;
    verdict *const v = &grown[p->verdict_count];
    v->id = name->id;
    TRY(verify_checkpoint(v->why, p->store, name, err));
    p->verdict_count++;
    *out = v;
out:
    return rc;
}

/* Names, sizes and tables do not show a bit that turned over in the data. So before any checkpoint goes, the newest
 * that stays is decoded against the SHA-256 of its files; when that fails it counts as damaged, and the next one has to
 * do. */
static int newest_prove(pruner *p, ckpt_error *err)
{
    int rc = 0;
    const verdict *v;
    prune_entry *newest;

    while (removes_any(p) && (newest = newest_good(p)) != NULL) {
        TRY(verdict_get(&v, p, &newest->name, err));
        if (!v->why[0])
            break;
        memcpy(newest->why, v->why, sizeof newest->why);
        TRY(rows_decide(p, err));
    }
out:
    return rc;
}

static void entries_forget(pruner *p)
{
    reach_clear(&p->reach);
    free(p->entries);
    p->entries = NULL;
    p->count = 0;
}

/* Decides what stays by what there is now. */
static int plan_make(pruner *p, ckpt_error *err)
{
    int rc = 0;

    entries_forget(p);
    TRY(entries_read(p, err));
    TRY(rows_decide(p, err));
    TRY(newest_prove(p, err));
out:
    return rc;
}

/* Marks the packs of all checkpoints that stay. *known is false when one of them cannot tell what it needs. */
static int needs_mark(bool *known, pruner *p, ckpt_error *err)
{
    int rc = 0;

    *known = true;
    for (size_t i = 0; i < p->count; i++) {
        bool told = false;
        if (!p->result->rows[i].keep)
            continue;
        if (p->entries[i].readable)
            TRY(reach_need(&told, &p->reach, &p->entries[i].pack, err));
        if (!told && *known) {
            *known = false;
            store_note(p->store,
                       "no packs are removed, as the damaged checkpoint %.8s may need them (%s); `ckpt verify` tells "
                       "more, `ckpt rm %.8s` gives it up",
                       p->result->rows[i].id, p->entries[i].why, p->result->rows[i].id);
        }
    }
out:
    return rc;
}

static bool pack_stays(const pruner *p, const reach_pack *candidate)
{
    return candidate->needed || (p->guard && prune_guard_protects(p->guard, &candidate->name, candidate->mtime));
}

/* Tells of each checkpoint that goes what goes with it: packs that several of them needed count for the newest. */
static int rows_weigh(pruner *p, bool known, ckpt_error *err)
{
    int rc = 0;
    bool *const counted = calloc((size_t)p->reach.count + 1, sizeof *counted);

    FAIL_IF_NULL(counted, err);
    for (size_t i = 0; i < p->count; i++) {
        ckpt_prune_row *const row = &p->result->rows[i];
        const reach_pack *const own = reach_find(&p->reach, &p->entries[i].pack);
        if (row->keep)
            continue;
        row->freed_bytes = p->entries[i].size;
        for (uint32_t k = 0; known && own && k <= own->need_count; k++) {
            const reach_pack *const candidate = k < own->need_count ? &p->reach.packs[own->needs[k]] : own;
            if (counted[candidate - p->reach.packs] || pack_stays(p, candidate))
                continue;
            counted[candidate - p->reach.packs] = true;
            row->freed_bytes += candidate->size;
        }
    }
out:
    free(counted);
    return rc;
}

/* ---- Removing --------------------------------------------------------------------------------------------------- */

/* Removes a file whose folder is synced later, once for all. */
static int file_unlink(const char *path, ckpt_error *err)
{
    int failed;

    do
        failed = unlink(path) ? errno : 0;
    while (failed == EINTR);
    return failed && failed != ENOENT ? error_errno(err, failed, "remove %s", path) : 0;
}

static int snapshots_remove(pruner *p, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    const uint64_t before = p->result->removed_checkpoints;

    for (size_t i = 0; i < p->count; i++) {
        if (p->result->rows[i].keep)
            continue;
        if (!p->dry_run) {
            TRY(prune_guard_check(p->guard, err));
            if (p->entries[i].item.tagged) /* first: a tag without its checkpoint is a fault */
                TRY(tags_release(p->store, &p->entries[i].name.id, true, err));
            TRY(snapshot_path(path, p->store->snapshots_dir, &p->entries[i].name, err));
            TRY(file_unlink(path, err));
        }
        p->result->removed_checkpoints++;
        p->result->freed_bytes += p->entries[i].size;
    }
    if (!p->dry_run && p->result->removed_checkpoints > before)
        TRY(dir_sync(p->store->snapshots_dir, NULL, err));
out:
    return rc;
}

static int packs_remove(pruner *p, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    for (uint32_t i = 0; i < p->reach.count; i++) {
        const reach_pack *const candidate = &p->reach.packs[i];
        if (pack_stays(p, candidate))
            continue;
        if (!p->dry_run) {
            TRY(prune_guard_check(p->guard, err));
            TRY(pack_path(path, p->store->packs_dir, &candidate->name, err));
            TRY(file_unlink(path, err));
        }
        TRY(parity_drop(&p->result->freed_bytes, p->store, &candidate->name, p->dry_run, err));
        p->result->removed_packs++;
        p->result->freed_bytes += candidate->size;
    }
    if (!p->dry_run && p->result->removed_packs > 0)
        TRY(dir_sync(p->store->packs_dir, NULL, err));
out:
    return rc;
}

/* Takes the lease. On a disk too full for that, what can be made again makes room for it. */
static int guard_take(pruner *p, ckpt_error *err)
{
    int rc = 0;

    rc = prune_guard_open(&p->guard, p->store, err);
    if (rc == CKPT_ENOSPC) {
        TRY(sweep_cache(p->store, err));
        TRY(sweep_tmp(NULL, p->store, false, false, err));
        rc = prune_guard_open(&p->guard, p->store, err);
    }
out:
    return rc;
}

static int prune_run(pruner *p, const char *keep, ckpt_error *err)
{
    int rc = 0;
    bool known;
    uint64_t swept = 0;

    if (!p->all_stay)
        TRY(policy_read(p, keep, err));
    if (!p->dry_run)
        TRY(store_writable(p->store, err));
    TRY(plan_make(p, err));
    if (!p->dry_run) {
        TRY(guard_take(p, err));
        TRY(plan_make(p, err));
    }
    best_note(p);
    TRY(needs_mark(&known, p, err));
    TRY(rows_weigh(p, known, err));
    TRY(snapshots_remove(p, err));
    if (known) {
        TRY(packs_remove(p, err));
        TRY(parity_sweep(&p->result->freed_bytes, p->store, p->dry_run, err));
        p->result->held_bytes = reach_held_bytes(&p->reach);
    }
    TRY(sweep_tmp(&swept, p->store, p->guard && prune_guard_writers(p->guard) == 0, p->dry_run, err));
    p->result->freed_bytes += swept;
out:
    return rc;
}

static void pruner_close(pruner *p)
{
    prune_guard_close(p->guard);
    entries_forget(p);
    free(p->verdicts);
}

int prune_unreachable(ckpt_prune_result *result, ckpt_store *store, bool dry_run, ckpt_error *err)
{
    int rc = 0;
    pruner p = {.store = store, .dry_run = dry_run, .all_stay = true, .result = result};

    *result = (ckpt_prune_result){0};
    TRY(prune_run(&p, NULL, err));
out:
    pruner_close(&p);
    if (rc)
        ckpt_prune_result_clear(result);
    return rc;
}

int ckpt_prune(ckpt_prune_result *result, ckpt_store *store, const ckpt_prune_options *options, ckpt_error *err)
{
    int rc = 0;
    ckpt_prune_options own = {.size = sizeof own};
    ckpt_prune_result unwanted, *const out_result = result ? result : &unwanted;
    pruner p = {.store = store, .result = out_result};

    *out_result = (ckpt_prune_result){0};
    TRY(store_options(&own, sizeof own, options, err));
    p.dry_run = own.dry_run;
    p.among = own.among;
    TRY(prune_run(&p, own.keep, err));
out:
    pruner_close(&p);
    if (rc || !result)
        ckpt_prune_result_clear(out_result);
    return rc;
}

void ckpt_prune_result_clear(ckpt_prune_result *result)
{
    free(result->rows);
    *result = (ckpt_prune_result){0};
}
