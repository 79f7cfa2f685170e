#include "repair.h"

#include "array.h"
#include "damaged.h"
#include "fail.h"
#include "lease.h"
#include "segment.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPAIR_LEASE "repair.lease"

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

void repair_say(char *field, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    error_text(field, size, format, args);
    va_end(args);
}

int repair_row(ckpt_repair_row **out, repairer *r, const char *kind, const char *name, ckpt_error *err)
{
    int rc = 0;
    ckpt_repair_result *const result = r->result;
    ckpt_repair_row *row = NULL;

    for (size_t i = 0; i < result->row_count && !row; i++)
        if (strcmp(result->rows[i].kind, kind) == 0 && strncmp(result->rows[i].name, name, CKPT_ID_SIZE - 1) == 0)
            row = &result->rows[i];
    if (!row) {
        FAIL_IF(result->row_count == REPAIR_ROWS_MAX, err, CKPT_EDATA, "more than %d things are damaged",
                REPAIR_ROWS_MAX);
        ckpt_repair_row *const grown = array_room(result->rows, &r->row_capacity, result->row_count + 1, sizeof *grown);
        FAIL_IF_NULL(grown, err);
        result->rows = grown;
        row = &grown[result->row_count++];
        *row = (ckpt_repair_row){0};
        snprintf(row->kind, sizeof row->kind, "%s", kind);
        snprintf(row->name, sizeof row->name, "%.*s", CKPT_ID_SIZE - 1, name);
    }
    *out = row;
out:
    return rc;
}

int repair_progress(repairer *r, uint64_t bytes, ckpt_error *err)
{
    r->done_bytes += bytes;
    if (r->total_bytes < r->done_bytes)
        r->total_bytes = r->done_bytes;
    if (r->store->progress && r->store->progress(r->store->payload, r->done_bytes, r->total_bytes))
        return error_set(err, CKPT_EINTERRUPTED, "interrupted");
    return 0;
}

/* Fills row->hurt with the checkpoints that need a pack. */
static int row_hurt(ckpt_repair_row *row, const repairer *r, const sha256 *name, ckpt_error *err)
{
    int rc = 0;

    free(row->hurt);
    row->hurt_count = 0;
    row->hurt = calloc(r->entry_count + 1, sizeof *row->hurt);
    FAIL_IF_NULL(row->hurt, err);
    for (size_t i = 0; i < r->entry_count; i++)
        if (repair_needs(r, &r->entries[i], name))
            sha256_hex(row->hurt[row->hurt_count++], &r->entries[i].name.id);
out:
    return rc;
}

/* ---- Steps that others see -------------------------------------------------------------------------------------- */

int repair_commit(repairer *r, file_tmp *tmp, const char *path, ckpt_error *err)
{
    int rc = 0;
    struct stat st;
    file_commit_plan plan = {0};
    lease *exclusive = NULL;

    TRY(prune_lease_take(&exclusive, r->store, INTENT_WAIT_MS, err));
    if (lstat(path, &st) == 0)
        TRY(damaged_keep(r->store, path, err));
    TRY(file_commit_add(&plan, tmp, path, true, err));
    TRY(file_commit(&plan, err));
    r->changed = true;
out:
    file_commit_discard(&plan);
    lease_release(exclusive);
    return rc;
}

int repair_set_aside(bool *moved, repairer *r, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    bool needed;
    char path[FILE_PATH_MAX];
    struct stat st;
    prune_guard *guard = NULL;

    *moved = false;
    TRY(pack_path(path, r->store->packs_dir, name, err));
    TRY(prune_guard_open(&guard, r->store, err));
    if (lstat(path, &st) || prune_guard_protects(guard, name, st.st_mtime))
        goto out;
    TRY(repair_needs_now(&needed, r, name, err));
    if (needed)
        goto out;
    TRY(damaged_move(r->store, path, err));
    *moved = true;
    r->changed = true;
out:
    prune_guard_close(guard);
    return rc;
}

/* ---- Packs ------------------------------------------------------------------------------------------------------ */

static int unneeded_set_aside(repairer *r, const repair_patient *p, ckpt_repair_row *row, ckpt_error *err)
{
    int rc = 0;
    bool moved = r->dry_run;

    if (!r->dry_run)
        TRY(repair_set_aside(&moved, r, &p->name, err));
    row->mended = moved;
    REPAIR_SAY(row->state, "%s", p->why);
    REPAIR_SAY(row->action, "%s",
               moved ? "no checkpoint needs it: moved to damaged/" : "a save may need it: left for later");
out:
    return rc;
}

static int patient_row(ckpt_repair_row **row, repairer *r, const repair_patient *p, ckpt_error *err)
{
    int rc = 0;
    char hex[SHA256_HEX_SIZE];

    sha256_hex(hex, &p->name);
    TRY(repair_row(row, r, "pack", hex, err));
    TRY(row_hurt(*row, r, &p->name, err));
out:
    return rc;
}

/* The room that all cures of this round take: nothing is begun that could not be ended. */
static int space_check(const repairer *r, const cure *cures, ckpt_error *err)
{
    int rc = 0;
    uint64_t needed = 0, space = 0;

    for (size_t i = 0; i < r->patient_count; i++)
        needed += cures[i].kind != CURE_NONE ? cures[i].size : 0;
    if (r->dry_run || needed == 0)
        goto out;
    TRY(file_space_free(&space, r->store->path, err));
    if (needed > space) {
        rc = error_set(err, CKPT_ENOSPC, "repair writes %" PRIu64 " bytes, and %" PRIu64 " are free", needed, space);
        error_hint(err, "nothing was changed; make room, then repair again");
    }
out:
    return rc;
}

/* What is said of a pack that nothing gives back. */
static void hopeless_say(ckpt_repair_row *row, const repairer *r, const repair_patient *p)
{
    const char *const more = r->other ? "" : "; `--from STORE` may, if a second store has it";

    if (p->missing)
        REPAIR_SAY(row->action, "nothing here gives it back%s", more);
    else if (!p->indexed)
        REPAIR_SAY(row->action, "kept: its frames may be good, but only its tables tell where they are%s", more);
    else
        REPAIR_SAY(row->action, "kept: what is good of it still restores%s", more);
}

static int patient_treat(bool *mended, repairer *r, const repair_patient *p, cure *c, ckpt_error *err)
{
    int rc = 0;
    ckpt_repair_row *row;

    *mended = false;
    TRY(patient_row(&row, r, p, err));
    if (!p->needed && c->kind == CURE_NONE) {
        TRY(unneeded_set_aside(r, p, row, err));
        goto out;
    }
    if (c->kind != CURE_NONE && !r->dry_run)
        TRY(cure_apply(c, r, p, err));
    *mended = c->kind != CURE_NONE;
    if (!*mended)
        TRY(frames_cure(mended, c->state, c->action, r, p, err));
    row->mended = *mended;
    REPAIR_SAY(row->state, "%s", c->state[0] ? c->state : p->why);
    if (*mended)
        REPAIR_SAY(row->action, "%s", c->action);
    else
        hopeless_say(row, r, p);
out:
    return rc;
}

/* One round: *any tells whether a pack was mended, so that more may be to see. */
static int packs_round(bool *any, repairer *r, ckpt_error *err)
{
    int rc = 0;
    bool mended;
    cure *cures = NULL;

    *any = false;
    TRY(repair_survey(r, err));
    cures = calloc(r->patient_count ? r->patient_count : 1, sizeof *cures);
    FAIL_IF_NULL(cures, err);
    for (size_t i = 0; i < r->patient_count; i++)
        TRY(cure_find(&cures[i], r, &r->patients[i], err));
    TRY(space_check(r, cures, err));
    /* What nothing needs goes last: it may have been the bytes of another pack. */
    for (int needed = 1; needed >= 0; needed--)
        for (size_t i = 0; i < r->patient_count; i++) {
            if (r->patients[i].needed != needed)
                continue;
            TRY(patient_treat(&mended, r, &r->patients[i], &cures[i], err));
            *any |= mended;
        }
out:
    free(cures);
    return rc;
}

static int packs_mend(repairer *r, ckpt_error *err)
{
    int rc = 0;
    bool any = true;

    for (int round = 0; any && round < REPAIR_ROUNDS_MAX; round++) {
        TRY(packs_round(&any, r, err));
        if (r->dry_run)
            break;
    }
out:
    return rc;
}

/* ---- Tags, cache ------------------------------------------------------------------------------------------------ */

static bool id_is_there(const repairer *r, const sha256 *id)
{
    for (size_t i = 0; i < r->entry_count; i++)
        if (sha256_compare(&r->entries[i].name.id, id) == 0)
            return true;
    return false;
}

/* What is wrong with a tag; "" when nothing is, or it is gone. */
static int tag_look(char state[REACH_WHY_SIZE], const repairer *r, const char *tag, ckpt_error *err)
{
    int rc = 0;
    sha256 id;
    ckpt_error why;
    const int failed = tag_read(&id, r->store, tag, &why);

    state[0] = 0;
    if (failed)
        TRY(error_pass_own(err, &why));
    if (failed && failed != CKPT_ENOTFOUND)
        repair_say(state, REACH_WHY_SIZE, "%s", why.message);
    else if (!failed && !id_is_there(r, &id))
        repair_say(state, REACH_WHY_SIZE, "its checkpoint is gone");
out:
    return rc;
}

static int tag_visit(void *payload, const char *tag, ckpt_error *err)
{
    int rc = 0;
    repairer *const r = payload;
    ckpt_repair_row *row;
    char path[FILE_PATH_MAX], state[REACH_WHY_SIZE];
    lease *exclusive = NULL;

    if (tag_check(tag, NULL))
        goto out;
    TRY(tag_look(state, r, tag, err));
    if (!state[0])
        goto out;
    /* Once more, alone: it may be that of a checkpoint which was saved a moment ago. */
    if (!r->dry_run)
        TRY(prune_lease_take(&exclusive, r->store, INTENT_WAIT_MS, err));
    TRY(repair_entries_read(r, err));
    TRY(tag_look(state, r, tag, err));
    if (!state[0])
        goto out;
    TRY(path_join(path, r->store->tags_dir, tag, err));
    if (!r->dry_run)
        TRY(damaged_move(r->store, path, err));
    TRY(repair_row(&row, r, "tag", tag, err));
    REPAIR_SAY(row->state, "%s", state);
    REPAIR_SAY(row->action, "moved to damaged/; `ckpt tag` names a checkpoint anew");
    row->mended = true;
out:
    lease_release(exclusive);
    return rc;
}

static int tags_mend(repairer *r, ckpt_error *err)
{
    const int rc = dir_each(r->store->tags_dir, tag_visit, r, err);

    return rc == CKPT_ENOTFOUND ? error_clear(err) : rc;
}

typedef struct cache_look {
    const char *dir;
    uint64_t bad;
} cache_look;

static int segment_visit(void *payload, const char *name, ckpt_error *err)
{
    cache_look *const look = payload;
    segment s;
    ckpt_error why = {0};
    const size_t length = strlen(name), suffix = strlen(SEGMENT_SUFFIX);

    if (length < suffix || strcmp(name + length - suffix, SEGMENT_SUFFIX) != 0)
        return 0;
    if (segment_open(&s, look->dir, name, &why) == 0)
        segment_close(&s);
    else
        look->bad += why.code == CKPT_EDATA;
    return error_pass_own(err, &why);
}

static int cache_mend(repairer *r, ckpt_error *err)
{
    int rc = 0;
    lookup *made = NULL;
    cache_look look = {.dir = r->store->cache_dir};
    ckpt_repair_row *row;

    rc = dir_each(look.dir, segment_visit, &look, err);
    if (rc == CKPT_ENOTFOUND)
        rc = error_clear(err);
    TRY(rc);
    if (look.bad == 0 && !r->changed)
        goto out;
    if (!r->dry_run) {
        TRY(sweep_cache(r->store, err));
        TRY(lookup_open(&made, r->store, err));
    }
    if (look.bad > 0) {
        TRY(repair_row(&row, r, "cache", "cache", err));
        REPAIR_SAY(row->state, "%" PRIu64 " of its files are damaged", look.bad);
        REPAIR_SAY(row->action, "thrown away and made anew from the packs");
        row->mended = true;
    }
out:
    lookup_close(made);
    return rc;
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

static void rows_count(ckpt_repair_result *result)
{
    result->damaged = result->mended = 0;
    for (size_t i = 0; i < result->row_count; i++) {
        result->damaged++;
        result->mended += result->rows[i].mended;
    }
}

static int repair_run(repairer *r, ckpt_error *err)
{
    int rc = 0;
    damaged_count kept;

    TRY(packs_mend(r, err));
    const bool was_unknown = r->unknown;
    TRY(repair_snapshots(r, err));
    if (was_unknown && !r->unknown) /* now it is known what nothing needs */
        TRY(packs_mend(r, err));
    TRY(repair_entries_read(r, err));
    TRY(tags_mend(r, err));
    TRY(repair_parities(r, err));
    TRY(cache_mend(r, err));
    TRY(damaged_look(&kept, r->store, err));
    r->result->kept_files = kept.files;
    r->result->kept_bytes = kept.bytes;
out:
    rows_count(r->result);
    return rc;
}

/* One repair at a time. */
static int repair_lease_take(lease **out, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    TRY(path_join(path, store->intents_dir, REPAIR_LEASE, err));
    rc = lease_acquire(out, path, NULL, err);
    if (rc == CKPT_EBUSY)
        error_prefix(err, "another repair is at work");
out:
    return rc;
}

int ckpt_repair(ckpt_repair_result *result, ckpt_store *store, const ckpt_repair_options *options, ckpt_error *err)
{
    int rc = 0;
    ckpt_repair_options own = {.size = sizeof own};
    ckpt_repair_result unwanted, *const out_result = result ? result : &unwanted;
    repairer r = {.store = store, .result = out_result};
    lease *alone = NULL;

    *out_result = (ckpt_repair_result){0};
    TRY(store_options(&own, sizeof own, options, err));
    FAIL_IF(!(own.parity >= 0 && own.parity <= 1), err, CKPT_EUSAGE, "a share of parity is from 0 to 1");
    r.dry_run = own.dry_run;
    r.adopt = own.adopt;
    r.parity = own.parity;
    if (own.from)
        TRY(ckpt_store_open(&r.other, own.from, NULL, err));
    if (!r.dry_run) {
        TRY(store_writable(store, err));
        TRY(repair_lease_take(&alone, store, err));
    }
    TRY(repair_run(&r, err));
    if (out_result->mended < out_result->damaged) {
        rc = error_set(err, CKPT_EDATA, "%" PRIu64 " of %" PRIu64 " damaged things cannot be repaired",
                       out_result->damaged - out_result->mended, out_result->damaged);
        error_where(err, store->path);
    }
out:
    lease_release(alone);
    repair_survey_clear(&r);
    hash_set_clear(&r.sound);
    ckpt_store_close(r.other);
    if ((rc && rc != CKPT_EDATA) || !result)
        ckpt_repair_result_clear(out_result);
    return rc;
}

void ckpt_repair_result_clear(ckpt_repair_result *result)
{
    for (size_t i = 0; i < result->row_count; i++)
        free(result->rows[i].hurt);
    free(result->rows);
    *result = (ckpt_repair_result){0};
}
