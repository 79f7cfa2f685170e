#include "repair.h"

#include "array.h"
#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void entries_clear(repairer *r)
{
    for (size_t i = 0; i < r->entry_count; i++)
        snapshot_clear(&r->entries[i].snap);
    free(r->entries);
    r->entries = NULL;
    r->entry_count = 0;
}

void repair_survey_clear(repairer *r)
{
    entries_clear(r);
    free(r->patients);
    r->patients = NULL;
    r->patient_count = r->patient_capacity = 0;
    free(r->strays);
    r->strays = NULL;
    r->stray_count = r->stray_capacity = 0;
    free(r->wants);
    r->wants = NULL;
    r->want_count = r->want_capacity = 0;
    reach_clear(&r->reach);
}

int repair_entries_read(repairer *r, ckpt_error *err)
{
    int rc = 0;
    snapshot_name *names = NULL;
    ckpt_error why;

    entries_clear(r);
    TRY(snapshot_names(&names, &r->entry_count, r->store->snapshots_dir, err));
    r->entries = calloc(r->entry_count ? r->entry_count : 1, sizeof *r->entries);
    if (!r->entries)
        r->entry_count = 0;
    FAIL_IF_NULL(r->entries, err);
    for (size_t i = 0; i < r->entry_count; i++) {
        repair_entry *const e = &r->entries[i];
        e->name = names[i];
        e->readable = snapshot_read(&e->snap, r->store->snapshots_dir, &e->name, &why) == 0;
        if (!e->readable)
            TRY(error_pass_own(err, &why));
    }
out:
    free(names);
    return rc;
}

bool repair_needs(const repairer *r, const repair_entry *e, const sha256 *name)
{
    if (!e->readable)
        return false;
    if (sha256_compare(&e->snap.pack, name) == 0)
        return true;
    const reach_pack *const own = reach_find(&r->reach, &e->snap.pack), *const wanted = reach_find(&r->reach, name);
    if (!own)
        return false;
    for (uint32_t i = 0; wanted && i < own->need_count; i++)
        if (&r->reach.packs[own->needs[i]] == wanted)
            return true;
    for (size_t i = 0; !wanted && i < r->want_count; i++)
        if (sha256_compare(&r->wants[i].id, &e->name.id) == 0 && sha256_compare(&r->wants[i].pack, name) == 0)
            return true;
    return false;
}

int repair_needs_now(bool *needed, const repairer *r, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    size_t count = 0;
    reach now = {0};
    snapshot_name *names = NULL;
    snapshot s = {0};
    ckpt_error why;

    *needed = false;
    TRY(reach_new(&now, r->store, err));
    TRY(snapshot_names(&names, &count, r->store->snapshots_dir, err));
    for (size_t i = 0; i < count && !*needed; i++) {
        bool known = false;
        snapshot_clear(&s);
        if (snapshot_read(&s, r->store->snapshots_dir, &names[i], &why))
            TRY(error_pass_own(err, &why));
        else
            TRY(reach_need(&known, &now, &s.pack, err));
        const reach_pack *const found = reach_find(&now, name);
        *needed = !known || (found && found->needed);
    }
out:
    snapshot_clear(&s);
    free(names);
    reach_clear(&now);
    return rc;
}

static int patient_add(repairer *r, const sha256 *name, bool missing, const char *why, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < r->patient_count; i++)
        if (sha256_compare(&r->patients[i].name, name) == 0)
            goto out;
    repair_patient *const grown = array_room(r->patients, &r->patient_capacity, r->patient_count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    r->patients = grown;
    repair_patient *const p = &grown[r->patient_count++];
    *p = (repair_patient){.name = *name, .missing = missing};
    snprintf(p->why, sizeof p->why, "%s", why);
out:
    return rc;
}

static int stray_add(repairer *r, const sha256 *name, const sha256 *bytes, ckpt_error *err)
{
    int rc = 0;
    repair_stray *const grown = array_room(r->strays, &r->stray_capacity, r->stray_count + 1, sizeof *grown);

    FAIL_IF_NULL(grown, err);
    r->strays = grown;
    grown[r->stray_count++] = (repair_stray){*name, *bytes};
out:
    return rc;
}

/* Reads the bytes of one pack. */
static int pack_survey(repairer *r, reach_pack *p, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    char path[FILE_PATH_MAX];
    sha256 hash;
    ckpt_error why;

    TRY(reach_read(&r->reach, p, err));
    if (hash_set_has(&r->sound, &p->name))
        goto out;
    TRY(pack_path(path, r->store->packs_dir, &p->name, err));
    int failed = file_open(&fd, &size, path, &why);
    if (failed == CKPT_ENOTFOUND) /* pruned meanwhile */
        goto out;
    if (!failed)
        failed = pack_bytes_hash(&hash, fd, size, &why);
    if (failed) {
        TRY(error_pass_own(err, &why));
        TRY(patient_add(r, &p->name, false, why.message, err));
    } else if (sha256_compare(&hash, &p->name) != 0) {
        TRY(patient_add(r, &p->name, false, p->why ? p->why : "its bytes are not those of its name", err));
        TRY(stray_add(r, &p->name, &hash, err));
    } else {
        TRY(hash_set_add(&r->sound, &p->name, err));
    }
    TRY(repair_progress(r, size, err));
out:
    file_close(&fd);
    return rc;
}

static int want_add(repairer *r, const repair_entry *e, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    repair_want *const grown = array_room(r->wants, &r->want_capacity, r->want_count + 1, sizeof *grown);

    FAIL_IF_NULL(grown, err);
    r->wants = grown;
    grown[r->want_count++] = (repair_want){e->name.id, *name};
    TRY(patient_add(r, name, true, "it is missing", err));
out:
    return rc;
}

/* Is the snapshot as it was listed? Else a pack that it named may have gone with it, or after it was repacked. */
static int entry_stands(bool *stands, const repairer *r, const repair_entry *e, ckpt_error *err)
{
    int rc = 0;
    snapshot now = {0};
    ckpt_error why;

    *stands = false;
    if (snapshot_read(&now, r->store->snapshots_dir, &e->name, &why))
        TRY(error_pass_own(err, &why));
    else
        *stands = sha256_compare(&now.pack, &e->snap.pack) == 0;
out:
    snapshot_clear(&now);
    return rc;
}

/* All packs that a checkpoint needs and that are not there. */
static int missing_add(repairer *r, const repair_entry *e, ckpt_error *err)
{
    int rc = 0;
    bool stands;
    pack *opened = NULL;
    ckpt_error why = {0};
    const reach_pack *const own = reach_find(&r->reach, &e->snap.pack);

    if (own && !own->lacks)
        goto out;
    TRY(entry_stands(&stands, r, e, err));
    if (!stands)
        goto out;
    if (!own) {
        TRY(want_add(r, e, &e->snap.pack, err));
        goto out;
    }
    if (pack_open(&opened, r->store->packs_dir, &own->name, &why)) {
        TRY(error_pass_own(err, &why)); /* it could be read a moment ago: another round will tell */
        goto out;
    }
    for (uint32_t i = 0; i < opened->index.pack_count; i++)
        if (!reach_find(&r->reach, &opened->index.packs[i]))
            TRY(want_add(r, e, &opened->index.packs[i], err));
out:
    pack_close(opened);
    return rc;
}

int repair_survey(repairer *r, ckpt_error *err)
{
    int rc = 0;
    bool known;

    repair_survey_clear(r);
    TRY(repair_entries_read(r, err));
    TRY(reach_new(&r->reach, r->store, err));
    for (uint32_t i = 0; i < r->reach.count; i++)
        r->total_bytes += hash_set_has(&r->sound, &r->reach.packs[i].name) ? 0 : r->reach.packs[i].size;
    r->unknown = false;
    for (uint32_t i = 0; i < r->reach.count; i++)
        TRY(pack_survey(r, &r->reach.packs[i], err));
    for (size_t i = 0; i < r->entry_count; i++) {
        known = false;
        if (r->entries[i].readable) {
            TRY(reach_need(&known, &r->reach, &r->entries[i].snap.pack, err));
            TRY(missing_add(r, &r->entries[i], err));
        }
        r->unknown |= !known;
    }
    for (size_t i = 0; i < r->patient_count; i++) {
        const reach_pack *const found = reach_find(&r->reach, &r->patients[i].name);
        r->patients[i].needed = !found || found->needed || r->unknown;
        r->patients[i].indexed = found && !found->why;
    }
    r->result->packs = r->reach.count;
    r->result->checkpoints = r->entry_count;
out:
    return rc;
}
