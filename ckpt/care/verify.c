#include "verify.h"

#include "verify_state.h"

#include "array.h"
#include "fail.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A checkpoint of the listing. */
typedef struct verify_entry {
    snapshot_name name;
    snapshot snap;
    bool readable;
    bool suspect; /* something that it needs is damaged: its files are decoded at any level, to name what is hurt */
} verify_entry;

typedef struct verify_listing {
    size_t count;
    verify_entry *entries;
} verify_listing;

/* ---- Faults and progress ---------------------------------------------------------------------------------------- */

static bool path_exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* Has repacking given the checkpoint another pack, which needs the one of this name no more? */
static bool is_moved(const verifier *v, const sha256 *name, const snapshot_name *id)
{
    snapshot now;
    pack *own = NULL;

    if (snapshot_read(&now, v->store->snapshots_dir, id, NULL))
        return false;
    bool needed = pack_open(&own, v->store->packs_dir, &now.pack, NULL) != 0 || sha256_compare(&now.pack, name) == 0;
    for (uint32_t i = 0; !needed && i < own->index.pack_count; i++)
        needed = sha256_compare(&own->index.packs[i], name) == 0;
    pack_close(own);
    snapshot_clear(&now);
    return !needed;
}

/* Did prune, rm or repacking remove it while we looked? */
static bool is_gone(const verifier *v, const sha256 *name, const snapshot_name *id)
{
    char path[FILE_PATH_MAX];
    const bool pack_gone = name && pack_path(path, v->store->packs_dir, name, NULL) == 0 && !path_exists(path);

    if (!id)
        return pack_gone;
    return (snapshot_path(path, v->store->snapshots_dir, id, NULL) == 0 && !path_exists(path)) ||
           (pack_gone && is_moved(v, name, id));
}

int verify_fault(verifier *v, const sha256 *name, const snapshot_name *id, ckpt_error *err, const char *format, ...)
{
    int rc = 0;
    va_list args;
    ckpt_verify_result *const result = v->result;
    ckpt_verify_fault *grown;

    if (is_gone(v, name, id) || result->fault_count == VERIFY_FAULTS_MAX)
        goto out;
    grown = array_room(result->faults, &v->fault_capacity, result->fault_count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    result->faults = grown;
    ckpt_verify_fault *const fault = &grown[result->fault_count++];
    *fault = (ckpt_verify_fault){0};
    if (name)
        sha256_hex(fault->pack, name);
    if (id)
        sha256_hex(fault->checkpoint, &id->id);
    va_start(args, format);
    error_text(fault->what, sizeof fault->what, format, args);
    va_end(args);
    if (result->fault_count == VERIFY_FAULTS_MAX)
        snprintf(fault->what, sizeof fault->what, "further faults are not listed");
out:
    return rc;
}

int verify_progress(verifier *v, uint64_t bytes, ckpt_error *err)
{
    v->done_bytes += bytes;
    if (v->keeps_state && v->done_bytes - v->state_bytes >= VERIFY_STATE_BYTES) {
        verify_state_save(v);
        v->state_bytes = v->done_bytes;
    }
    if (v->store->progress && v->store->progress(v->store->payload, v->done_bytes, v->total_bytes))
        return error_set(err, CKPT_EINTERRUPTED, "interrupted");
    return 0;
}

/* ---- Names, sizes, indexes -------------------------------------------------------------------------------------- */

static int entries_read(verify_listing *list, verifier *v, ckpt_error *err)
{
    int rc = 0;
    snapshot_name *names = NULL;
    ckpt_error why;

    TRY(snapshot_names(&names, &list->count, v->store->snapshots_dir, err));
    list->entries = calloc(list->count ? list->count : 1, sizeof *list->entries);
    FAIL_IF_NULL(list->entries, err);
    v->result->checkpoints = list->count;
    for (size_t i = 0; i < list->count; i++) {
        verify_entry *const e = &list->entries[i];
        e->name = names[i];
        e->readable = snapshot_read(&e->snap, v->store->snapshots_dir, &e->name, &why) == 0;
        if (e->readable)
            continue;
        TRY(error_pass_own(err, &why));
        TRY(verify_fault(v, NULL, &e->name, err, "%s", why.message));
    }
out:
    free(names);
    return rc;
}

/* Does the own pack hold the files that the snapshot promises? It was good a moment ago: one that cannot be opened now
 * was removed meanwhile, or is a fault. */
static int tree_check(const verify_entry *e, verifier *v, ckpt_error *err)
{
    int rc = 0;
    pack *own = NULL;
    sha256 tree;
    uint64_t raw_bytes = 0;
    ckpt_error why;

    if (pack_open(&own, v->store->packs_dir, &e->snap.pack, &why)) {
        TRY(error_pass_own(err, &why));
        TRY(verify_fault(v, &e->snap.pack, &e->name, err, "%s", why.message));
        goto out;
    }
    TRY(pack_index_tree(&tree, &own->index, err));
    for (uint32_t i = 0; i < own->index.file_count; i++)
        raw_bytes += own->index.files[i].size;
    if (sha256_compare(&tree, &e->snap.tree) != 0)
        TRY(verify_fault(v, &e->snap.pack, &e->name, err, "its pack holds other files than were saved"));
    else if (e->snap.files != own->index.file_count || e->snap.raw_bytes != raw_bytes)
        TRY(verify_fault(v, &e->snap.pack, &e->name, err, "number or size of its files is not what its snapshot says"));
out:
    pack_close(own);
    return rc;
}

static int entry_check(const verify_entry *e, verifier *v, ckpt_error *err)
{
    int rc = 0;
    bool known; /* what it needs; if not, `why` tells why */
    char why[REACH_WHY_SIZE];
    sha256 at_fault;

    if (!e->readable)
        goto out;
    TRY(reach_need(&known, &v->reach, &e->snap.pack, err));
    TRY(reach_check(why, &at_fault, &v->reach, &e->snap.pack, err));
    if (why[0])
        TRY(verify_fault(v, &at_fault, &e->name, err, "%s", why));
    else
        TRY(tree_check(e, v, err));
out:
    return rc;
}

/* Packs that no checkpoint needs are no fault; damaged ones are, as a later save of the same bytes would trust them. */
static int packs_check(verifier *v, ckpt_error *err)
{
    int rc = 0;
    uint64_t unneeded = 0;

    for (uint32_t i = 0; i < v->reach.count; i++) {
        reach_pack *const p = &v->reach.packs[i];
        if (!verify_wants(v, p))
            continue;
        v->result->packs++;
        TRY(reach_read(&v->reach, p, err));
        unneeded += !p->needed;
        if (p->why && !p->needed)
            TRY(verify_fault(v, &p->name, NULL, err, "%s; no checkpoint needs it, `ckpt prune` removes it", p->why));
    }
    if (unneeded > 0)
        store_note(v->store, "%" PRIu64 " packs that no checkpoint needs; `ckpt prune` removes them", unneeded);
out:
    return rc;
}

typedef struct tag_checker {
    verifier *v;
    const verify_listing *list;
} tag_checker;

/* A tag may be younger than the listing, and so may its checkpoint. */
static int id_look_again(bool *found, const ckpt_store *store, const sha256 *id, ckpt_error *err)
{
    int rc = 0;
    snapshot_name *names = NULL;
    size_t count;

    TRY(snapshot_names(&names, &count, store->snapshots_dir, err));
    for (size_t i = 0; i < count && !*found; i++)
        *found = sha256_compare(&names[i].id, id) == 0;
out:
    free(names);
    return rc;
}

static int tag_visit(void *payload, const char *tag, ckpt_error *err)
{
    int rc = 0;
    const tag_checker *const c = payload;
    sha256 id;
    ckpt_error why;

    if (tag_check(tag, NULL))
        goto out;
    if (tag_read(&id, c->v->store, tag, &why)) {
        TRY(error_pass_own(err, &why));
        if (why.code != CKPT_ENOTFOUND) /* else it was removed since it was listed */
            TRY(verify_fault(c->v, NULL, NULL, err, "%s", why.message));
        goto out;
    }
    bool found = false;
    for (size_t i = 0; i < c->list->count && !found; i++)
        found = sha256_compare(&c->list->entries[i].name.id, &id) == 0;
    if (!found)
        TRY(id_look_again(&found, c->v->store, &id, err));
    if (!found)
        TRY(verify_fault(c->v, NULL, NULL, err, "the checkpoint of the tag `%s` is gone", tag));
out:
    return rc;
}

static int tags_check(const verify_listing *list, verifier *v, ckpt_error *err)
{
    tag_checker c = {v, list};
    const int rc = dir_each(v->store->tags_dir, tag_visit, &c, err);

    return rc == CKPT_ENOTFOUND ? 0 : rc;
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

static bool needs_damaged(const verifier *v, const verify_entry *e)
{
    const reach_pack *const own = reach_find(&v->reach, &e->snap.pack);

    if (!own || own->why)
        return own != NULL;
    for (uint32_t i = 0; i < own->need_count; i++)
        if (v->reach.packs[own->needs[i]].why)
            return true;
    return own->lacks;
}

/* Which checkpoints are decoded, and how much work that is. */
static uint64_t entries_choose(verify_listing *list, const verifier *v, ckpt_verify_level level)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < list->count; i++) {
        verify_entry *const e = &list->entries[i];
        e->suspect = e->readable && (level == CKPT_VERIFY_FULL || needs_damaged(v, e));
        if (e->suspect)
            bytes += e->snap.raw_bytes;
    }
    return bytes;
}

static int files_check(verify_listing *list, verifier *v, ckpt_error *err)
{
    int rc = 0;
    size_t found;
    file_verifier *files = NULL;

    for (size_t i = 0; i < list->count; i++) {
        const verify_entry *const e = &list->entries[i];
        if (!e->suspect)
            continue;
        if (!files)
            TRY(file_verifier_new(&files, v, err));
        TRY(file_verifier_run(&found, files, &e->name, &e->snap, err));
    }
out:
    file_verifier_free(files);
    return rc;
}

static uint64_t packs_bytes(const verifier *v)
{
    uint64_t bytes = 0;
    const reach *const r = &v->reach;

    for (uint32_t i = 0; i < r->count; i++)
        bytes += r->packs[i].why || !verify_wants(v, &r->packs[i]) ? 0 : r->packs[i].size;
    return bytes;
}

/* Which checkpoints are looked at: those from a name or a time on. The listing stands newest first. */
static int entries_select(verify_listing *list, verifier *v, const ckpt_verify_options *options, ckpt_error *err)
{
    int rc = 0;
    snapshot_name since;
    size_t kept = 0;

    if (options->since)
        TRY(name_resolve(&since, v->store, options->since, err));
    for (size_t i = 0; i < list->count; i++) {
        verify_entry *const e = &list->entries[i];
        /* Of one that cannot be read nobody knows the time. */
        if (options->since_time && e->readable && e->snap.time < options->since_time) {
            snapshot_clear(&e->snap);
            continue;
        }
        list->entries[kept++] = *e;
        if (options->since && sha256_compare(&e->name.id, &since.id) == 0) {
            for (size_t k = i + 1; k < list->count; k++)
                snapshot_clear(&list->entries[k].snap);
            break;
        }
    }
    list->count = kept;
    v->result->checkpoints = kept;
    v->needed_only = options->since || options->since_time;
out:
    return rc;
}

static int verify_run(verify_listing *list, verifier *v, const ckpt_verify_options *options, ckpt_error *err)
{
    int rc = 0;
    const ckpt_verify_level level = options->level;

    TRY(entries_read(list, v, err));
    TRY(entries_select(list, v, options, err));
    TRY(reach_new(&v->reach, v->store, err)); /* after the snapshots: what they need is then listed */
    for (size_t i = 0; i < list->count; i++)
        TRY(entry_check(&list->entries[i], v, err));
    TRY(packs_check(v, err));
    TRY(tags_check(list, v, err));
    v->keeps_state = level >= CKPT_VERIFY_READ;
    if (options->proceed)
        TRY(verify_state_load(v, err));
    if (level >= CKPT_VERIFY_READ) {
        v->total_bytes = packs_bytes(v) + entries_choose(list, v, level);
        TRY(verify_packs(v, err));
        TRY(verify_parity(v, err));
    }
    if (options->sample > 0)
        TRY(verify_sample(v, options->sample, options->seed, err));
    v->total_bytes = v->done_bytes + entries_choose(list, v, level); /* reading may have found more to decode */
    TRY(files_check(list, v, err));
out:
    return rc;
}

int verify_snapshot(char why[REACH_WHY_SIZE], ckpt_store *store, const snapshot_name *id, const snapshot *s,
                    ckpt_error *err)
{
    int rc = 0;
    size_t found;
    ckpt_verify_result result = {0};
    verifier v = {.store = store, .result = &result, .total_bytes = s->raw_bytes};
    const verify_entry e = {.name = *id, .snap = *s};
    file_verifier *files = NULL;

    why[0] = 0;
    TRY(tree_check(&e, &v, err));
    if (result.fault_count == 0) {
        TRY(file_verifier_new(&files, &v, err));
        TRY(file_verifier_run(&found, files, &e.name, &e.snap, err));
    }
    if (result.fault_count > 0)
        snprintf(why, REACH_WHY_SIZE, "%.*s", REACH_WHY_SIZE - 1, result.faults[0].what);
out:
    file_verifier_free(files);
    hash_set_clear(&v.decoded);
    ckpt_verify_result_clear(&result);
    return rc;
}

int verify_checkpoint(char why[REACH_WHY_SIZE], ckpt_store *store, const snapshot_name *id, ckpt_error *err)
{
    int rc = 0;
    ckpt_error unread;
    snapshot s = {0};

    if (snapshot_read(&s, store->snapshots_dir, id, &unread)) {
        TRY(error_pass_own(err, &unread));
        snprintf(why, REACH_WHY_SIZE, "%.*s", REACH_WHY_SIZE - 1, unread.message);
        goto out;
    }
    TRY(verify_snapshot(why, store, id, &s, err));
out:
    snapshot_clear(&s);
    return rc;
}

int ckpt_verify(ckpt_verify_result *result, ckpt_store *store, const ckpt_verify_options *options, ckpt_error *err)
{
    int rc = 0;
    ckpt_verify_options own = {.size = sizeof own};
    ckpt_verify_result unwanted, *const out_result = result ? result : &unwanted;
    verifier v = {.store = store, .result = out_result};
    verify_listing list = {0};

    *out_result = (ckpt_verify_result){0};
    TRY(store_options(&own, sizeof own, options, err));
    FAIL_IF(own.level > CKPT_VERIFY_FULL, err, CKPT_EUSAGE, "no such level of verify");
    FAIL_IF(!(own.sample >= 0 && own.sample <= 1), err, CKPT_EUSAGE, "a sample is a share from 0 to 1");
    FAIL_IF(own.proceed && own.level == CKPT_VERIFY_NAMES, err, CKPT_EUSAGE,
            "only a verify that reads can go on where one was stopped");
    rc = verify_run(&list, &v, &own, err);
    if (v.keeps_state && rc == CKPT_EINTERRUPTED)
        verify_state_save(&v);
    else if (v.keeps_state && !rc)
        verify_state_remove(&v);
    TRY(rc);
    if (out_result->fault_count > 0) {
        const ckpt_verify_fault *const first = &out_result->faults[0];
        rc = error_set(err, CKPT_EDATA, "%zu faults, the first: %s%.8s%s%s", out_result->fault_count,
                       *first->checkpoint ? "checkpoint " : "", first->checkpoint, *first->checkpoint ? ": " : "",
                       first->what);
        error_where(err, store->path);
        error_hint(err, "`ckpt repair --dry-run` shows what can be mended");
    }
out:
    for (size_t i = 0; i < list.count; i++)
        snapshot_clear(&list.entries[i].snap);
    free(list.entries);
    hash_set_clear(&v.decoded);
    hash_set_clear(&v.read);
    hash_set_clear(&v.before);
    reach_clear(&v.reach);
    if ((rc && rc != CKPT_EDATA && rc != CKPT_EINTERRUPTED) || !result)
        ckpt_verify_result_clear(out_result);
    return rc;
}

void ckpt_verify_result_clear(ckpt_verify_result *result)
{
    free(result->faults);
    *result = (ckpt_verify_result){0};
}
