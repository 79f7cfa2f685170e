#include "verify_state.h"

#include "bytes.h"
#include "checked.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAGIC      "CKPTVRFY"
#define MAGIC_SIZE 8
#define VERSION    1
#define HEAD_SIZE  32
#define PACK_SIZE  48
#define FILE_SIZE  SHA256_SIZE
#define CHECK_SIZE 8

static int state_path(char out[FILE_PATH_MAX], const verifier *v)
{
    return path_join(out, v->store->cache_dir, VERIFY_STATE_NAME, NULL);
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static bool state_is_good(const unsigned char *bytes, size_t size, int64_t now)
{
    uint64_t packs, files, total;

    if (size < HEAD_SIZE + CHECK_SIZE || memcmp(bytes, MAGIC, MAGIC_SIZE) != 0 || load_u32(bytes + 8) != VERSION)
        return false;
    packs = load_u32(bytes + 12);
    if (!checked_mul(&files, load_u64(bytes + 16), FILE_SIZE) ||
        !checked_add(&total, files, packs * PACK_SIZE + HEAD_SIZE + CHECK_SIZE) || total != size)
        return false;
    if (xxh64_of(bytes, size - CHECK_SIZE) != load_u64(bytes + size - CHECK_SIZE))
        return false;
    const int64_t age = now - (int64_t)load_u64(bytes + 24);
    return age >= 0 && age <= VERIFY_STATE_AGE_S;
}

static int packs_take(bool *changed, verifier *v, const unsigned char *row, uint32_t count, ckpt_error *err)
{
    int rc = 0;
    sha256 name;

    *changed = false;
    for (uint32_t i = 0; i < count; i++, row += PACK_SIZE) {
        memcpy(name.bytes, row, sizeof name.bytes);
        const reach_pack *const p = reach_find(&v->reach, &name);
        if (!p)
            continue; /* pruned: no file that is still needed lies in it */
        if (p->size != load_u64(row + 32) || (uint64_t)p->mtime != load_u64(row + 40))
            *changed = true;
        else
            TRY(hash_set_add(&v->read, &name, err));
    }
out:
    return rc;
}

int verify_state_load(verifier *v, ckpt_error *err)
{
    int rc = 0;
    bool changed;
    char path[FILE_PATH_MAX], *text = NULL;
    size_t size;
    sha256 key;
    ckpt_error why;

    if (state_path(path, v) || file_read_all(&text, &size, path, VERIFY_STATE_MAX, &why)) {
        rc = why.code == CKPT_ENOMEM ? error_memory(err) : 0;
        goto out;
    }
    const unsigned char *const bytes = (const unsigned char *)text;
    if (!state_is_good(bytes, size, (int64_t)time(NULL)))
        goto out;
    const uint32_t packs = load_u32(bytes + 12);
    const unsigned char *row = bytes + HEAD_SIZE;
    TRY(packs_take(&changed, v, row, packs, err));
    row += (size_t)packs * PACK_SIZE;
    for (uint64_t i = 0; !changed && i < load_u64(bytes + 16); i++, row += FILE_SIZE) {
        memcpy(key.bytes, row, sizeof key.bytes);
        TRY(hash_set_add(&v->decoded, &key, err));
        TRY(hash_set_add(&v->before, &key, err));
    }
out:
    free(text);
    return rc;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

static bool is_taken(const hash_set *set, size_t slot)
{
    return !bytes_are_zero(set->slots[slot].bytes, SHA256_SIZE);
}

void verify_state_save(const verifier *v)
{
    char path[FILE_PATH_MAX];
    uint32_t packs = 0;
    uint64_t files = 0;
    unsigned char *const bytes =
        malloc(HEAD_SIZE + CHECK_SIZE + v->read.used * PACK_SIZE + v->decoded.used * FILE_SIZE);

    if (!bytes || v->store->read_only)
        goto out;
    unsigned char *row = bytes + HEAD_SIZE;
    for (uint32_t i = 0; i < v->reach.count; i++) {
        const reach_pack *const p = &v->reach.packs[i];
        if (!hash_set_has(&v->read, &p->name))
            continue;
        memcpy(row, p->name.bytes, SHA256_SIZE);
        store_u64(row + 32, p->size);
        store_u64(row + 40, (uint64_t)p->mtime);
        row += PACK_SIZE;
        packs++;
    }
    for (size_t i = 0; i < v->decoded.size; i++) {
        if (!is_taken(&v->decoded, i))
            continue;
        memcpy(row, v->decoded.slots[i].bytes, FILE_SIZE);
        row += FILE_SIZE;
        files++;
    }
    memcpy(bytes, MAGIC, MAGIC_SIZE);
    store_u32(bytes + 8, VERSION);
    store_u32(bytes + 12, packs);
    store_u64(bytes + 16, files);
    store_u64(bytes + 24, (uint64_t)time(NULL));
    store_u64(row, xxh64_of(bytes, (size_t)(row - bytes)));
    if (state_path(path, v) == 0)
        (void)file_replace(path, v->store->tmp_dir, bytes, (size_t)(row - bytes) + CHECK_SIZE, NULL);
out:
    free(bytes);
}

void verify_state_remove(const verifier *v)
{
    char path[FILE_PATH_MAX];

    if (!v->store->read_only && state_path(path, v) == 0)
        (void)unlink(path);
}
