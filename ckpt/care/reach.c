#include "reach.h"

#include "array.h"
#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int pack_compare(const void *a, const void *b)
{
    return sha256_compare(&((const reach_pack *)a)->name, &((const reach_pack *)b)->name);
}

/* ---- Listing ---------------------------------------------------------------------------------------------------- */

static int reach_add(void *payload, const char *file, ckpt_error *err)
{
    int rc = 0;
    reach *const r = payload;
    char path[FILE_PATH_MAX];
    struct stat st;
    sha256 name;
    bool there;

    if (!pack_name_parse(&name, file))
        goto out; /* other names in packs/ are not ours to judge */
    TRY(path_join(path, r->store->packs_dir, file, err));
    TRY(pack_file_look(&there, &st, path, err));
    if (!there)
        goto out;
    FAIL_IF(r->count == REACH_PACKS_MAX, err, CKPT_EDATA, "more than %d packs", REACH_PACKS_MAX);
    reach_pack *const grown = array_room(r->packs, &r->capacity, (size_t)r->count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    r->packs = grown;
    r->packs[r->count++] = (reach_pack){.name = name, .size = (uint64_t)st.st_size, .mtime = st.st_mtime};
out:
    return rc;
}

int reach_new(reach *out, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;

    *out = (reach){.store = store};
    TRY(dir_each(store->packs_dir, reach_add, out, err));
    if (out->count > 1)
        qsort(out->packs, out->count, sizeof *out->packs, pack_compare);
out:
    if (rc)
        reach_clear(out);
    return rc;
}

void reach_clear(reach *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        free(r->packs[i].why);
        free(r->packs[i].needs);
    }
    free(r->packs);
    *r = (reach){0};
}

reach_pack *reach_find(const reach *r, const sha256 *name)
{
    const reach_pack key = {.name = *name};

    return r->count ? bsearch(&key, r->packs, r->count, sizeof key, pack_compare) : NULL;
}

/* ---- Reading indexes -------------------------------------------------------------------------------------------- */

static int take_needs(reach_pack *p, const reach *r, const pack_index *index, ckpt_error *err)
{
    int rc = 0;

    p->needs = calloc(index->pack_count ? index->pack_count : 1, sizeof *p->needs);
    FAIL_IF_NULL(p->needs, err);
    for (uint32_t i = 0; i < index->pack_count; i++) {
        const reach_pack *const need = reach_find(r, &index->packs[i]);
        if (need)
            p->needs[p->need_count++] = (uint32_t)(need - r->packs);
        else if (!p->lacks) {
            p->lacks = true;
            p->lacking = index->packs[i];
        }
    }
out:
    return rc;
}

int reach_read(reach *r, reach_pack *p, ckpt_error *err)
{
    int rc = 0;
    pack *opened = NULL;
    ckpt_error why;

    if (p->read)
        goto out;
    const bool unreadable = pack_open(&opened, r->store->packs_dir, &p->name, &why) != 0;
    if (unreadable)
        TRY(error_pass_own(err, &why));
    p->read = true;
    if (unreadable) {
        p->why = strdup(why.message);
        FAIL_IF_NULL(p->why, err);
        goto out;
    }
    TRY(take_needs(p, r, &opened->index, err));
    if (r->visit)
        TRY(r->visit(r->payload, opened, err));
out:
    pack_close(opened);
    return rc;
}

int reach_check(char why[REACH_WHY_SIZE], sha256 *at_fault, reach *r, const sha256 *own_pack, ckpt_error *err)
{
    int rc = 0;
    char hex[SHA256_HEX_SIZE];
    const sha256 *bad = own_pack;
    reach_pack *const own = reach_find(r, own_pack);

    why[0] = 0;
    sha256_hex(hex, own_pack);
    if (!own) {
        snprintf(why, REACH_WHY_SIZE, "its pack %.8s is missing", hex);
        goto out;
    }
    TRY(reach_read(r, own, err));
    if (own->why) {
        snprintf(why, REACH_WHY_SIZE, "%s", own->why);
        goto out;
    }
    if (own->lacks) {
        bad = &own->lacking;
        sha256_hex(hex, bad);
        snprintf(why, REACH_WHY_SIZE, "it needs the pack %.8s, which is missing", hex);
        goto out;
    }
    for (uint32_t i = 0; i < own->need_count && !why[0]; i++) {
        reach_pack *const need = &r->packs[own->needs[i]];
        TRY(reach_read(r, need, err));
        if (need->why) {
            bad = &need->name;
            snprintf(why, REACH_WHY_SIZE, "%s", need->why);
        }
    }
out:
    if (at_fault)
        *at_fault = *bad;
    return rc;
}

int reach_need(bool *known, reach *r, const sha256 *own_pack, ckpt_error *err)
{
    int rc = 0;
    reach_pack *const own = reach_find(r, own_pack);

    *known = false;
    if (!own)
        goto out;
    own->needed = own->own = true;
    TRY(reach_read(r, own, err));
    if (own->why)
        goto out;
    *known = true;
    for (uint32_t i = 0; i < own->need_count; i++)
        r->packs[own->needs[i]].needed = true;
out:
    return rc;
}

uint64_t reach_held_bytes(const reach *r)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < r->count; i++)
        if (r->packs[i].needed && !r->packs[i].own)
            bytes += r->packs[i].size;
    return bytes;
}
