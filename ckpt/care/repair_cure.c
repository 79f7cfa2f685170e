#include "repair.h"

#include "bytes.h"
#include "damaged.h"
#include "fail.h"
#include "pack_format.h"
#include "pack_parity.h"
#include "zstd_frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES     ((size_t)1 << 20)
#define ENDS_BYTES_MAX ((uint64_t)64 << 20) /* of the end of a pack, in which its index is looked for */
#define ENDS_TRIES_MAX 64
#define INDEX_MAGIC    "CKIX"
#define MAGIC_ZSTD     0xfd2fb528u
#define ZSTD_FRAME_MIN 8

/* ---- Copies ----------------------------------------------------------------------------------------------------- */

/* Has the file the bytes of this pack? What cannot be read has not. */
static int copy_look(bool *good, uint64_t *size, const char *path, const sha256 *name, ckpt_error *err)
{
    int rc = 0, fd = -1;
    sha256 hash;
    ckpt_error why = {0};

    *good = false;
    if (file_open(&fd, size, path, &why) == 0 && pack_bytes_hash(&hash, fd, *size, &why) == 0)
        *good = sha256_compare(&hash, name) == 0;
    if (why.code != CKPT_ENOTFOUND)
        TRY(error_pass_own(err, &why));
out:
    file_close(&fd);
    return rc;
}

static int copy_try(cure *c, const char *path, const sha256 *name, const char *where, ckpt_error *err)
{
    int rc = 0;
    bool good;

    TRY(copy_look(&good, &c->size, path, name, err));
    if (!good)
        goto out;
    c->kind = CURE_COPY;
    snprintf(c->from, sizeof c->from, "%s", path);
    REPAIR_SAY(c->action, "copied from %s", where);
out:
    return rc;
}

/* Among the files of this name that were kept: there may be several. */
static int copy_in_damaged(cure *c, const repairer *r, const char *file, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;

    for (unsigned i = 0; !c->kind; i++) {
        TRY(damaged_path(path, r->store, file, i, err));
        if (lstat(path, &st))
            break;
        TRY(copy_try(c, path, name, "damaged/", err));
    }
out:
    return rc;
}

/* The pack under another pack's name, in damaged/, or in the second store. */
static int copy_find(cure *c, const repairer *r, const repair_patient *p, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], hex[SHA256_HEX_SIZE];

    for (size_t i = 0; i < r->stray_count && !c->kind; i++) {
        if (sha256_compare(&r->strays[i].bytes, &p->name) != 0)
            continue;
        sha256_hex(hex, &r->strays[i].name);
        TRY(pack_path(path, r->store->packs_dir, &r->strays[i].name, err));
        TRY(copy_try(c, path, &p->name, "a file of another name", err));
    }
    if (!c->kind) {
        TRY(pack_path(path, r->store->packs_dir, &p->name, err));
        TRY(copy_in_damaged(c, r, path_base(path), &p->name, err));
    }
    if (!c->kind && r->other) {
        TRY(pack_path(path, r->other->packs_dir, &p->name, err));
        TRY(copy_try(c, path, &p->name, r->other->path, err));
    }
out:
    return rc;
}

static int copy_make(file_tmp *tmp, const char *path, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size;
    unsigned char *const buffer = malloc(COPY_BYTES);

    FAIL_IF_NULL(buffer, err);
    TRY(file_open(&fd, &size, path, err));
    for (uint64_t done = 0; done < size;) {
        const size_t n = size - done < COPY_BYTES ? (size_t)(size - done) : COPY_BYTES;
        TRY(file_read_at(buffer, fd, done, n, path, err));
        TRY(file_tmp_write(tmp, buffer, n, err));
        done += n;
    }
out:
    file_close(&fd);
    free(buffer);
    return rc;
}

/* ---- Header and footer, which follow from the rest -------------------------------------------------------------- */

typedef struct ends {
    unsigned char header[PACK_HEADER_SIZE], footer[PACK_FOOTER_SIZE];
    uint64_t index_end; /* where the footer begins */
} ends;

static void header_make(unsigned char header[PACK_HEADER_SIZE])
{
    memset(header, 0, PACK_HEADER_SIZE);
    memcpy(header, PACK_MAGIC, PACK_MAGIC_SIZE);
    store_u16(header + 8, PACK_VERSION);
    header[10] = PACK_CHUNK_LOG2;
}

/* Decodes what may be an index: its sizes, coded and not; false when it is none. `tail` ends where the file ends. */
static bool index_measure(size_t *coded, uint64_t *decoded, ZSTD_DCtx *decompressor, unsigned char *buffer,
                          const unsigned char *tail, size_t size)
{
    ZSTD_inBuffer in = {tail, size, 0};
    size_t left;

    *decoded = 0;
    ZSTD_DCtx_reset(decompressor, ZSTD_reset_session_only);
    do {
        ZSTD_outBuffer out = {buffer, COPY_BYTES, 0};
        const size_t before = in.pos;
        left = ZSTD_decompressStream(decompressor, &out, &in);
        if (ZSTD_isError(left) || (in.pos == before && out.pos == 0))
            return false;
        if (*decoded == 0 && (out.pos < strlen(INDEX_MAGIC) || memcmp(buffer, INDEX_MAGIC, strlen(INDEX_MAGIC)) != 0))
            return false;
        *decoded += out.pos;
    } while (left != 0 && *decoded <= PACK_INDEX_MAX);
    *coded = in.pos;
    return left == 0 && *decoded <= PACK_INDEX_MAX;
}

static void footer_make(unsigned char footer[PACK_FOOTER_SIZE], uint64_t offset, const unsigned char *index,
                        size_t coded, uint64_t decoded)
{
    store_u64(footer, offset);
    store_u64(footer + 8, coded);
    store_u64(footer + 16, decoded);
    store_u64(footer + 24, xxh64_of(index, coded));
    store_u64(footer + 32, offset + coded + PACK_FOOTER_SIZE);
    memcpy(footer + 40, PACK_FOOTER_MAGIC, PACK_MAGIC_SIZE);
}

/* SHA-256 of the pack with these ends; with `tmp` it is written too. */
static int ends_apply(sha256 *hash, file_tmp *tmp, const ends *e, int fd, ckpt_error *err)
{
    int rc = 0;
    unsigned char *const buffer = malloc(COPY_BYTES);
    sha256_stream *const stream = sha256_new();

    FAIL_IF_NULL(buffer, err);
    FAIL_IF_NULL(stream, err);
    sha256_update(stream, e->header, sizeof e->header);
    if (tmp)
        TRY(file_tmp_write(tmp, e->header, sizeof e->header, err));
    for (uint64_t done = sizeof e->header; done < e->index_end;) {
        const size_t n = e->index_end - done < COPY_BYTES ? (size_t)(e->index_end - done) : COPY_BYTES;
        TRY(file_read_at(buffer, fd, done, n, "pack", err));
        sha256_update(stream, buffer, n);
        if (tmp)
            TRY(file_tmp_write(tmp, buffer, n, err));
        done += n;
    }
    sha256_update(stream, e->footer, sizeof e->footer);
    if (tmp)
        TRY(file_tmp_write(tmp, e->footer, sizeof e->footer, err));
    sha256_finish(hash, stream);
out:
    sha256_free(stream);
    free(buffer);
    return rc;
}

/* Looks from the end for the index, which is the last zstd frame of a pack; *good when with that and our own header and
 * footer the pack is what its name says. */
static int ends_search(bool *good, ends *e, int fd, uint64_t file_size, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    const size_t size = file_size < ENDS_BYTES_MAX ? (size_t)file_size : (size_t)ENDS_BYTES_MAX;
    const uint64_t start = file_size - size;
    unsigned char *const tail = malloc(size + 1), *const buffer = malloc(COPY_BYTES);
    ZSTD_DCtx *const decompressor = ZSTD_createDCtx();
    size_t coded;
    uint64_t decoded;
    sha256 hash;

    FAIL_IF(!tail || !buffer || !decompressor, err, CKPT_ENOMEM, "no memory to look for an index");
    TRY(file_read_at(tail, fd, start, size, "pack", err));
    for (size_t at = size < ZSTD_FRAME_MIN ? 0 : size - ZSTD_FRAME_MIN + 1, tries = 0; at-- > 0 && !*good;) {
        if (load_u32(tail + at) != MAGIC_ZSTD || start + at < PACK_HEADER_SIZE)
            continue;
        const bool is_index = index_measure(&coded, &decoded, decompressor, buffer, tail + at, size - at);
        /* Also those that only begin like one: each may say that it is large. */
        if (decoded > 0 && ++tries > ENDS_TRIES_MAX)
            break;
        if (!is_index)
            continue;
        e->index_end = start + at + coded;
        footer_make(e->footer, start + at, tail + at, coded, decoded);
        TRY(ends_apply(&hash, NULL, e, fd, err));
        *good = sha256_compare(&hash, name) == 0;
    }
out:
    ZSTD_freeDCtx(decompressor);
    free(buffer);
    free(tail);
    return rc;
}

static int ends_find(cure *c, const repairer *r, const repair_patient *p, ends *e, ckpt_error *err)
{
    int rc = 0, fd = -1;
    bool good = false;
    uint64_t size;
    char path[FILE_PATH_MAX];
    ckpt_error why = {0};

    header_make(e->header);
    TRY(pack_path(path, r->store->packs_dir, &p->name, err));
    if (file_open(&fd, &size, path, &why) || ends_search(&good, e, fd, size, &p->name, &why))
        TRY(error_pass_own(err, &why));
    if (!good)
        goto out;
    c->kind = CURE_ENDS;
    c->size = e->index_end + PACK_FOOTER_SIZE;
    REPAIR_SAY(c->action, "its frames and tables are whole: header and footer written anew");
out:
    file_close(&fd);
    return rc;
}

/* ---- Parity ----------------------------------------------------------------------------------------------------- */

static int parity_find(cure *c, const repairer *r, const repair_patient *p, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    char path[FILE_PATH_MAX];
    pack_parity parity = {.fd = -1};
    pack_loss loss = {0};
    ckpt_error why = {0};

    if (pack_parity_open(&parity, r->store->parity_dir, &p->name, &why)) {
        if (why.code != CKPT_ENOTFOUND)
            TRY(error_pass_own(err, &why));
        goto out;
    }
    TRY(pack_path(path, r->store->packs_dir, &p->name, err));
    (void)file_open(&fd, &size, path, NULL); /* without it all blocks are lost */
    TRY(pack_parity_survey(&loss, &parity, fd, size, err));
    REPAIR_SAY(c->state, "%" PRIu64 " of %" PRIu64 " blocks are damaged", loss.lost_data, parity.layout.data_blocks);
    if (loss.missing > 0) {
        REPAIR_SAY(c->state, "%" PRIu64 " of %" PRIu64 " blocks are damaged, %" PRIu64 " too many for its parity",
                   loss.lost_data, parity.layout.data_blocks, loss.missing);
        goto out;
    }
    c->kind = CURE_PARITY;
    c->size = parity.layout.size;
    REPAIR_SAY(c->action, "rebuilt from its parity");
out:
    pack_loss_clear(&loss);
    pack_parity_close(&parity);
    file_close(&fd);
    return rc;
}

static int parity_apply(file_tmp *tmp, const repairer *r, const repair_patient *p, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    char path[FILE_PATH_MAX];
    pack_parity parity = {.fd = -1};
    pack_loss loss = {0};

    TRY(pack_parity_open(&parity, r->store->parity_dir, &p->name, err));
    TRY(pack_path(path, r->store->packs_dir, &p->name, err));
    (void)file_open(&fd, &size, path, NULL);
    TRY(pack_parity_survey(&loss, &parity, fd, size, err));
    TRY(pack_parity_rebuild(tmp, r->store->tmp_dir, &parity, &loss, fd, err));
out:
    pack_loss_clear(&loss);
    pack_parity_close(&parity);
    file_close(&fd);
    return rc;
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

int cure_find(cure *out, repairer *r, const repair_patient *p, ckpt_error *err)
{
    int rc = 0;
    ends e;

    *out = (cure){0};
    TRY(copy_find(out, r, p, err));
    if (!out->kind && !p->missing && !p->indexed)
        TRY(ends_find(out, r, p, &e, err));
    if (!out->kind)
        TRY(parity_find(out, r, p, err));
out:
    return rc;
}

static int ends_make(file_tmp *tmp, const repairer *r, const repair_patient *p, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size;
    char path[FILE_PATH_MAX];
    cure c = {0};
    ends e;
    sha256 hash;

    TRY(ends_find(&c, r, p, &e, err));
    FAIL_IF(!c.kind, err, CKPT_ECHANGED, "a pack changed while it was repaired");
    TRY(pack_path(path, r->store->packs_dir, &p->name, err));
    TRY(file_open(&fd, &size, path, err));
    TRY(ends_apply(&hash, tmp, &e, fd, err));
out:
    file_close(&fd);
    return rc;
}

static int cure_make(const cure *c, repairer *r, const repair_patient *p, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    file_tmp tmp = {.fd = -1};
    sha256 hash;

    if (c->kind == CURE_PARITY)
        TRY(parity_apply(&tmp, r, p, err));
    else {
        TRY(file_tmp_open(&tmp, r->store->tmp_dir, "pack", err));
        TRY(c->kind == CURE_COPY ? copy_make(&tmp, c->from, err) : ends_make(&tmp, r, p, err));
    }
    /* Whatever changed since it was found: only these bytes may have this name. */
    TRY(pack_bytes_hash(&hash, tmp.fd, tmp.size_bytes, err));
    FAIL_IF(sha256_compare(&hash, &p->name) != 0, err, CKPT_ECHANGED, "a pack changed while it was repaired");
    TRY(pack_path(path, r->store->packs_dir, &p->name, err));
    TRY(repair_commit(r, &tmp, path, err));
out:
    file_tmp_discard(&tmp);
    return rc;
}

int cure_apply(cure *c, repairer *r, const repair_patient *p, ckpt_error *err)
{
    int rc;
    ckpt_error why = {0};
    cure kept = {0};

    rc = cure_make(c, r, p, &why);
    /* Two packs that had each other's name: the file that it was to be copied from was just kept. */
    if (rc == CKPT_ECHANGED && c->kind == CURE_COPY &&
        copy_in_damaged(&kept, r, path_base(c->from), &p->name, NULL) == 0 && kept.kind) {
        *c = kept;
        rc = cure_make(c, r, p, &why);
    }
    if (rc == CKPT_EDATA || rc == CKPT_ECHANGED || rc == CKPT_ENOTFOUND) {
        *c = (cure){.kind = CURE_NONE};
        REPAIR_SAY(c->state, "what seemed to give it back does not: %s", why.message);
        return 0;
    }
    if (rc && err)
        *err = why;
    return rc;
}
