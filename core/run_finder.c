#include "run_finder.h"

#include "run_meta.h"

#include "fail.h"

#include <stdio.h>
#include <string.h>

#define ID_SHOWN     8 /* digits of an id in messages */
#define OTHERS_SHOWN 5 /* runs that a hint names */

int run_exists(bool *exists, ckpt_store *store, const char *run, ckpt_error *err)
{
    int rc = 0;
    ckpt_list *list = NULL;

    *exists = false;
    TRY(ckpt_list_new(&list, store, err));
    *exists = run_meta_newest(list, run) != NULL;
out:
    ckpt_list_free(list);
    return rc;
}

/* ---- Failing ---- */

/* Was a checkpoint of this run there already, newer than number i? */
static bool was_seen(const ckpt_list *list, size_t i, const char *run)
{
    for (size_t k = 0; k < i; k++)
        if (run_meta_is_of(ckpt_list_get(list, k), run))
            return true;
    return false;
}

static int fail_not_found(const ckpt_list *list, const char *run, ckpt_error *err)
{
    char others[160] = "";
    size_t size = 0, count = 0;
    const int rc = run ? error_set(err, CKPT_ENOTFOUND, "the store has no checkpoint of the run `%.64s`", run)
                       : error_set(err, CKPT_ENOTFOUND, "the store has no checkpoint of a run");

    for (size_t i = 0; i < ckpt_list_count(list) && count < OTHERS_SHOWN; i++) {
        const ckpt_info *const info = ckpt_list_get(list, i);
        const char *const name = run_meta_get(info, RUN_META_RUN);
        if (!run_meta_is_of(info, NULL) || was_seen(list, i, name))
            continue;
        const int added = snprintf(others + size, sizeof others - size, "%s%.64s", count ? ", " : "", name);
        if (added < 0 || (size_t)added >= sizeof others - size)
            break;
        size += (size_t)added;
        count++;
    }
    others[size] = '\0'; /* without a name that was cut */
    if (count > 0)
        error_hint(err, "its runs: %s", others);
    else
        error_hint(err, "begin with `ckpt train`");
    return rc;
}

/* A checkpoint whose snapshot cannot be read is not in the list, and may have been the run's: nobody shall begin anew
 * because of that. */
static int damage_check(ckpt_store *store, ckpt_error *err)
{
    ckpt_verify_result result = {0};
    ckpt_error why;
    int rc = ckpt_verify(&result, store, NULL, &why);

    if (rc == CKPT_EDATA) {
        rc = 0;
        for (size_t i = 0; i < result.fault_count && rc == 0; i++)
            if (result.faults[i].checkpoint[0])
                rc = error_set(err, CKPT_EDATA, "no checkpoint of the run can be read, and %.*s is damaged: %s",
                               ID_SHOWN, result.faults[i].checkpoint, result.faults[i].what);
    } else if (rc && err) {
        *err = why;
    }
    ckpt_verify_result_clear(&result);
    return rc;
}

/* ---- Finding ---- */

typedef struct finder {
    ckpt_store *store;
    run_take_fn take;
    void *payload;
} finder;

/* *none: there is nothing to go on from: it was pruned since it was listed, or is no training's, whatever its meta
 * says. */
static int try_one(bool *none, const finder *f, const ckpt_info *info, ckpt_error *err)
{
    int rc = 0;
    ckpt_content *content = NULL;
    size_t file = 0;

    rc = ckpt_content_open(&content, f->store, info->id, err);
    *none = rc == CKPT_ENOTFOUND;
    TRY(rc);
    rc = state_find(&file, content, err);
    *none = rc == CKPT_EUSAGE;
    TRY(rc);
    TRY(f->take(f->payload, content, file, info, err));
out:
    ckpt_content_close(content);
    return rc;
}

int run_find(ckpt_store *store, const char *run, report *r, run_take_fn take, void *payload, ckpt_error *err)
{
    int rc = 0;
    ckpt_list *list = NULL;
    const finder f = {store, take, payload};
    size_t damaged = 0;
    bool none;
    ckpt_error why = {0};

    TRY(ckpt_list_new(&list, store, err));
    for (size_t i = 0; i < ckpt_list_count(list); i++) {
        const ckpt_info *const info = ckpt_list_get(list, i);
        if (!run_meta_is_of(info, run))
            continue;
        rc = try_one(&none, &f, info, &why);
        if (rc == 0)
            goto out;
        if (none)
            continue;
        if (rc != CKPT_EDATA) {
            if (err)
                *err = why;
            goto out;
        }
        damaged++;
        report_warning(r, NULL, "checkpoint %.*s is damaged and passed over: %s", ID_SHOWN, info->id, why.message);
    }
    if (damaged == 0) {
        TRY(damage_check(store, err));
        TRY(fail_not_found(list, run, err));
    }
    rc = error_set(err, CKPT_EDATA, "%s damaged: %s",
                   damaged == 1 ? "the only checkpoint of the run is" : "all checkpoints of the run are", why.message);
    error_hint(err, "`ckpt verify --full` lists what is wrong");
out:
    ckpt_list_free(list);
    return rc;
}
