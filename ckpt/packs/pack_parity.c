#include "pack_parity.h"

#include "bytes.h"
#include "checked.h"
#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC           "CKPTPARI"
#define MAGIC_SIZE      8
#define HEAD_FIXED_SIZE 64
#define CHECK_SIZE      8
#define TRAILER_SIZE    8
#define BLOCK_LOG2_MAX  30

int pack_parity_path(char out[FILE_PATH_MAX], const char *parity_dir, const sha256 *name, ckpt_error *err)
{
    char hex[SHA256_HEX_SIZE], base[SHA256_HEX_SIZE + sizeof PACK_PARITY_SUFFIX];

    sha256_hex(hex, name);
    snprintf(base, sizeof base, "%s" PACK_PARITY_SUFFIX, hex);
    return path_join(out, parity_dir, base, err);
}

bool pack_parity_name_parse(sha256 *name, const char *file)
{
    char hex[SHA256_HEX_SIZE];

    if (strlen(file) != sizeof hex - 1 + strlen(PACK_PARITY_SUFFIX) ||
        strcmp(file + sizeof hex - 1, PACK_PARITY_SUFFIX) != 0)
        return false;
    memcpy(hex, file, sizeof hex - 1);
    hex[sizeof hex - 1] = 0;
    return sha256_parse(name, hex, NULL) == 0;
}

static uint64_t head_size(const parity_layout *l)
{
    return HEAD_FIXED_SIZE + CHECK_SIZE * (l->data_blocks + l->parity_blocks + 1);
}

static unsigned block_log2(const parity_layout *l)
{
    return (unsigned)__builtin_ctz(l->block_size);
}

/* ---- Blocks of a pack and of its parity ------------------------------------------------------------------------- */

/* Reads a data block from the pack; zeros stand for what is behind its end. */
static int data_read(void *dst, const parity_layout *l, int fd, uint64_t block, ckpt_error *err)
{
    const uint64_t offset = block * l->block_size, left = l->size - offset;
    const size_t size = left < l->block_size ? (size_t)left : l->block_size;

    memset((unsigned char *)dst + size, 0, l->block_size - size);
    return file_read_at(dst, fd, offset, size, "pack", err);
}

/* ---- Making ----------------------------------------------------------------------------------------------------- */

typedef struct maker {
    const parity_layout *layout;
    int pack_fd;
    file_tmp *tmp;
    uint64_t blocks_offset;
    uint64_t *checks;
} maker;

static int maker_read(void *payload, void *dst, uint64_t block, ckpt_error *err)
{
    maker *const m = payload;
    const int rc = data_read(dst, m->layout, m->pack_fd, block, err);

    if (!rc)
        m->checks[block] = xxh64_of(dst, m->layout->block_size);
    return rc;
}

static int maker_write(void *payload, const void *src, uint64_t block, ckpt_error *err)
{
    maker *const m = payload;
    const parity_layout *const l = m->layout;

    m->checks[block] = xxh64_of(src, l->block_size);
    return file_write_at(m->tmp->fd, m->blocks_offset + (block - l->data_blocks) * l->block_size, src, l->block_size,
                         m->tmp->path, err);
}

static void head_encode(unsigned char *head, const parity_layout *l, const sha256 *name, const uint64_t *checks)
{
    const uint64_t count = l->data_blocks + l->parity_blocks, size = head_size(l);

    memset(head, 0, HEAD_FIXED_SIZE);
    memcpy(head, MAGIC, MAGIC_SIZE);
    store_u16(head + 8, PACK_PARITY_VERSION);
    head[10] = (unsigned char)block_log2(l);
    store_u32(head + 12, l->parity_count);
    store_u32(head + 16, l->group_count);
    store_u64(head + 24, l->size);
    memcpy(head + 32, name->bytes, sizeof name->bytes);
    for (uint64_t i = 0; i < count; i++)
        store_u64(head + HEAD_FIXED_SIZE + CHECK_SIZE * i, checks[i]);
    store_u64(head + size - CHECK_SIZE, xxh64_of(head, (size_t)size - CHECK_SIZE));
}

int pack_parity_size(uint64_t *bytes, uint64_t pack_size, double share, ckpt_error *err)
{
    parity_layout l;
    const int rc = parity_layout_choose(&l, pack_size, share, err);

    *bytes = rc ? 0 : 2 * head_size(&l) + l.parity_blocks * l.block_size + TRAILER_SIZE;
    return rc;
}

int pack_parity_make(file_tmp *out, const char *tmp_dir, int fd, uint64_t size, const sha256 *name, double share,
                     ckpt_error *err)
{
    int rc = 0;
    parity_layout l;
    file_tmp tmp = {.fd = -1};
    unsigned char *head = NULL, trailer[TRAILER_SIZE];
    maker m = {.layout = &l, .pack_fd = fd, .tmp = &tmp};
    const parity_io io = {maker_read, maker_write, &m};

    TRY(parity_layout_choose(&l, size, share, err));
    const uint64_t head_bytes = head_size(&l), end = head_bytes + l.parity_blocks * l.block_size;
    m.blocks_offset = head_bytes;
    m.checks = malloc((size_t)(l.data_blocks + l.parity_blocks) * sizeof *m.checks);
    head = malloc((size_t)head_bytes);
    FAIL_IF_NULL(m.checks, err);
    FAIL_IF_NULL(head, err);
    TRY(file_tmp_open(&tmp, tmp_dir, "parity", err));
    TRY(parity_blocks_make(&l, &io, err));
    head_encode(head, &l, name, m.checks);
    TRY(file_write_at(tmp.fd, 0, head, (size_t)head_bytes, tmp.path, err));
    TRY(file_write_at(tmp.fd, end, head, (size_t)head_bytes, tmp.path, err));
    store_u64(trailer, head_bytes);
    TRY(file_write_at(tmp.fd, end + head_bytes, trailer, sizeof trailer, tmp.path, err));
    tmp.size_bytes = end + head_bytes + sizeof trailer;
    *out = tmp;
    tmp = (file_tmp){.fd = -1};
out:
    file_tmp_discard(&tmp);
    free(head);
    free(m.checks);
    return rc;
}

/* ---- Opening ---------------------------------------------------------------------------------------------------- */

static int layout_decode(parity_layout *l, const unsigned char *fixed, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(memcmp(fixed, MAGIC, MAGIC_SIZE) != 0, err, CKPT_EDATA, "it does not begin like parity");
    FAIL_IF(load_u16(fixed + 8) != PACK_PARITY_VERSION || fixed[11] || load_u32(fixed + 20), err, CKPT_EVERSION,
            "parity is of a newer version");
    FAIL_IF(fixed[10] > BLOCK_LOG2_MAX, err, CKPT_EDATA, "blocks of 2^%u bytes", fixed[10]);
    *l = (parity_layout){.size = load_u64(fixed + 24),
                         .block_size = 1u << fixed[10],
                         .parity_count = load_u32(fixed + 12),
                         .group_count = load_u32(fixed + 16)};
    TRY(parity_layout_complete(l, err));
out:
    return rc;
}

/* Reads the head that stands at `offset`. */
static int head_read(pack_parity *p, uint64_t offset, uint64_t file_size, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    unsigned char fixed[HEAD_FIXED_SIZE], *head = NULL;
    uint64_t *checks = NULL;
    parity_layout l;

    FAIL_IF(!checked_range(offset, sizeof fixed, file_size), err, CKPT_EDATA, "parity is cut short");
    TRY(file_read_at(fixed, p->fd, offset, sizeof fixed, "parity", err));
    TRY(layout_decode(&l, fixed, err));
    const uint64_t size = head_size(&l), count = l.data_blocks + l.parity_blocks;
    FAIL_IF(!checked_range(offset, size, file_size), err, CKPT_EDATA, "parity is cut short");
    head = malloc((size_t)size);
    checks = malloc((size_t)count * sizeof *checks);
    FAIL_IF_NULL(head, err);
    FAIL_IF_NULL(checks, err);
    TRY(file_read_at(head, p->fd, offset, (size_t)size, "parity", err));
    FAIL_IF(xxh64_of(head, (size_t)size - CHECK_SIZE) != load_u64(head + size - CHECK_SIZE), err, CKPT_EDATA,
            "head of the parity fails its check");
    FAIL_IF(memcmp(head + 32, name->bytes, sizeof name->bytes) != 0, err, CKPT_EDATA, "parity is that of another pack");
    for (uint64_t i = 0; i < count; i++)
        checks[i] = load_u64(head + HEAD_FIXED_SIZE + CHECK_SIZE * i);
    free(p->checks);
    p->checks = checks;
    checks = NULL;
    p->name = *name;
    p->layout = l;
    p->blocks_offset = size;
out:
    free(checks);
    free(head);
    return rc;
}

/* Where the second head begins, as the end of the file says. */
static int second_find(uint64_t *offset, const pack_parity *p, uint64_t file_size, ckpt_error *err)
{
    int rc = 0;
    unsigned char trailer[TRAILER_SIZE];

    FAIL_IF(file_size < sizeof trailer, err, CKPT_EDATA, "parity is cut short");
    TRY(file_read_at(trailer, p->fd, file_size - sizeof trailer, sizeof trailer, "parity", err));
    const uint64_t size = load_u64(trailer);
    FAIL_IF(size > file_size - sizeof trailer, err, CKPT_EDATA, "parity is cut short");
    *offset = file_size - sizeof trailer - size;
out:
    return rc;
}

/* A head that is of a newer version may be one that is damaged: the other one tells. */
static bool is_no_head(int code)
{
    return code == CKPT_EDATA || code == CKPT_EVERSION;
}

static int heads_read(pack_parity *p, uint64_t file_size, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    uint64_t second = 0;
    ckpt_error why;
    const int first = head_read(p, 0, file_size, name, &why);

    if (first && !is_no_head(first))
        TRY(error_pass_own(err, &why));
    rc = second_find(&second, p, file_size, err);
    if (!rc)
        rc = head_read(p, second, file_size, name, err);
    p->whole = !first && !rc && second == p->blocks_offset + p->layout.parity_blocks * p->layout.block_size;
    if (!first && is_no_head(rc))
        rc = error_clear(err);
    else if (first == CKPT_EVERSION && rc == CKPT_EDATA)
        rc = error_set(err, CKPT_EVERSION, "%s", why.message);
out:
    return rc;
}

int pack_parity_take(pack_parity *out, int fd, uint64_t size, const sha256 *name, ckpt_error *err)
{
    pack_parity p = {.fd = fd};
    const int rc = error_as_damage(heads_read(&p, size, name, err), err);

    *out = p;
    if (rc)
        pack_parity_close(out);
    return rc;
}

int pack_parity_open(pack_parity *out, const char *parity_dir, const sha256 *name, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size;
    char path[FILE_PATH_MAX];

    *out = (pack_parity){.fd = -1};
    TRY(pack_parity_path(path, parity_dir, name, err));
    TRY(error_as_damage(file_open(&fd, &size, path, err), err));
    rc = pack_parity_take(out, fd, size, name, err);
    if (rc)
        error_where(err, path);
out:
    return rc;
}

void pack_parity_close(pack_parity *p)
{
    file_close(&p->fd);
    free(p->checks);
    *p = (pack_parity){.fd = -1};
}

/* ---- Rebuilding ------------------------------------------------------------------------------------------------- */

static int parity_read(void *dst, const pack_parity *p, uint64_t block, ckpt_error *err)
{
    const parity_layout *const l = &p->layout;

    return file_read_at(dst, p->fd, p->blocks_offset + (block - l->data_blocks) * l->block_size, l->block_size,
                        "parity", err);
}

/* Bytes that cannot be read are lost like those that are wrong. */
static int block_survey(bool *lost, unsigned char *buffer, const pack_parity *p, int fd, uint64_t size, uint64_t block,
                        ckpt_error *err)
{
    int rc = 0;
    const parity_layout *const l = &p->layout;
    const bool is_data = block < l->data_blocks;
    ckpt_error why;

    *lost = true;
    if (is_data && (fd < 0 || block * l->block_size >= size))
        goto out;
    rc = is_data ? data_read(buffer, l, fd, block, &why) : parity_read(buffer, p, block, &why);
    if (rc) {
        rc = error_pass_own(err, &why);
        goto out;
    }
    *lost = xxh64_of(buffer, l->block_size) != p->checks[block];
out:
    return rc;
}

int pack_parity_survey(pack_loss *out, const pack_parity *p, int fd, uint64_t size, ckpt_error *err)
{
    int rc = 0;
    const parity_layout *const l = &p->layout;
    const uint64_t count = l->data_blocks + l->parity_blocks;
    unsigned char *const buffer = malloc(l->block_size);

    *out = (pack_loss){.lost = calloc((size_t)count, sizeof *out->lost)};
    FAIL_IF_NULL(buffer, err);
    FAIL_IF_NULL(out->lost, err);
    for (uint64_t i = 0; i < count; i++) {
        TRY(block_survey(&out->lost[i], buffer, p, fd, size, i, err));
        *(i < l->data_blocks ? &out->lost_data : &out->lost_parity) += out->lost[i];
    }
    out->missing = parity_blocks_short(l, out->lost);
out:
    free(buffer);
    if (rc)
        pack_loss_clear(out);
    return rc;
}

void pack_loss_clear(pack_loss *loss)
{
    free(loss->lost);
    *loss = (pack_loss){0};
}

typedef struct rebuilder {
    const pack_parity *parity;
    int pack_fd;
    file_tmp *tmp;
} rebuilder;

static int rebuilder_read(void *payload, void *dst, uint64_t block, ckpt_error *err)
{
    const rebuilder *const r = payload;

    if (block >= r->parity->layout.data_blocks)
        return parity_read(dst, r->parity, block, err);
    return data_read(dst, &r->parity->layout, r->pack_fd, block, err);
}

static int rebuilder_write(void *payload, const void *src, uint64_t block, ckpt_error *err)
{
    const rebuilder *const r = payload;
    const parity_layout *const l = &r->parity->layout;
    const uint64_t offset = block * l->block_size;

    if (block >= l->data_blocks)
        return 0; /* parity blocks are made anew from the whole pack */
    const size_t size = l->size - offset < l->block_size ? (size_t)(l->size - offset) : l->block_size;
    return file_write_at(r->tmp->fd, offset, src, size, r->tmp->path, err);
}

/* Copies the blocks that are good. */
static int good_copy(rebuilder *r, const pack_loss *loss, ckpt_error *err)
{
    int rc = 0;
    const parity_layout *const l = &r->parity->layout;
    unsigned char *const buffer = malloc(l->block_size);

    FAIL_IF_NULL(buffer, err);
    for (uint64_t i = 0; i < l->data_blocks; i++) {
        if (loss->lost[i])
            continue;
        TRY(data_read(buffer, l, r->pack_fd, i, err));
        TRY(rebuilder_write(r, buffer, i, err));
    }
out:
    free(buffer);
    return rc;
}

int pack_parity_rebuild(file_tmp *out, const char *tmp_dir, const pack_parity *p, const pack_loss *loss, int fd,
                        ckpt_error *err)
{
    int rc = 0;
    file_tmp tmp = {.fd = -1};
    rebuilder r = {p, fd, &tmp};
    const parity_io io = {rebuilder_read, rebuilder_write, &r};
    sha256 hash;

    TRY(file_tmp_open(&tmp, tmp_dir, "pack", err));
    TRY(good_copy(&r, loss, err));
    TRY(parity_blocks_rebuild(&p->layout, &io, loss->lost, err));
    tmp.size_bytes = p->layout.size;
    TRY(pack_bytes_hash(&hash, tmp.fd, p->layout.size, err));
    FAIL_IF(sha256_compare(&hash, &p->name) != 0, err, CKPT_EDATA, "what its parity gives is not the pack");
    *out = tmp;
    tmp = (file_tmp){.fd = -1};
out:
    file_tmp_discard(&tmp);
    return rc;
}
