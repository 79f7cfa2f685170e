/* Reading a pack: the tables at its end, coded chunks by place, and the check of all its bytes. */
#include "pack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "checked.h"
#include "fail.h"
#include "pack_format.h"
#include "zstd_frame.h"

#define CHECK_BUFFER_BYTES ((size_t)1 << 20)

typedef struct pack_footer {
    uint64_t index_offset, index_coded_size, index_size, index_xxh64;
} pack_footer;

static int header_check(int fd, const char *path, ckpt_error *err)
{
    int rc = 0;
    unsigned char header[PACK_HEADER_SIZE];

    TRY(file_read_at(header, fd, 0, sizeof header, path, err));
    FAIL_IF(memcmp(header, PACK_MAGIC, PACK_MAGIC_SIZE) != 0, err, CKPT_EDATA, "it does not begin like a pack");
    const unsigned version = load_u16(header + 8);
    FAIL_IF(version != PACK_VERSION, err, CKPT_EVERSION, "pack is of version %u, this program reads %d", version,
            PACK_VERSION);
    FAIL_IF(header[10] != PACK_CHUNK_LOG2 || header[11] || load_u32(header + 12), err, CKPT_EVERSION,
            "pack uses chunks or fields of a newer version");
out:
    return rc;
}

static int footer_read(pack_footer *footer, int fd, uint64_t size, const char *path, ckpt_error *err)
{
    int rc = 0;
    unsigned char bytes[PACK_FOOTER_SIZE];
    uint64_t end = 0;

    TRY(file_read_at(bytes, fd, size - PACK_FOOTER_SIZE, sizeof bytes, path, err));
    FAIL_IF(memcmp(bytes + 40, PACK_FOOTER_MAGIC, PACK_MAGIC_SIZE) != 0, err, CKPT_EDATA,
            "pack is cut short or overwritten: it has no footer");
    *footer = (pack_footer){load_u64(bytes), load_u64(bytes + 8), load_u64(bytes + 16), load_u64(bytes + 24)};
    FAIL_IF(load_u64(bytes + 32) != size, err, CKPT_EDATA, "pack has %" PRIu64 " bytes, its footer says %" PRIu64, size,
            load_u64(bytes + 32));
    FAIL_IF(footer->index_offset < PACK_HEADER_SIZE ||
                !checked_add(&end, footer->index_offset, footer->index_coded_size) || end != size - PACK_FOOTER_SIZE ||
                footer->index_size > PACK_INDEX_MAX || footer->index_coded_size > ZSTD_compressBound(PACK_INDEX_MAX),
            err, CKPT_EDATA, "footer of the pack contradicts itself");
out:
    return rc;
}

static int index_unpack(pack_index *index, const pack_footer *footer, const void *coded, ckpt_error *err)
{
    int rc = 0;
    unsigned char *tables = NULL;
    ZSTD_DCtx *decompressor = NULL;

    FAIL_IF(xxh64_of(coded, (size_t)footer->index_coded_size) != footer->index_xxh64, err, CKPT_EDATA,
            "index of the pack fails its check");
    decompressor = ZSTD_createDCtx();
    FAIL_IF_NULL(decompressor, err);
    tables = malloc((size_t)footer->index_size + 1);
    FAIL_IF_NULL(tables, err);
    TRY(zstd_frame_decode(tables, (size_t)footer->index_size, decompressor, coded, (size_t)footer->index_coded_size,
                          NULL, 0, err));
    TRY(pack_index_decode(index, tables, (size_t)footer->index_size, err));
out:
    free(tables);
    ZSTD_freeDCtx(decompressor);
    return rc;
}

/* What pack_index_check could not know: that the chunks lie between header and index. */
static int frames_fit(const pack_index *index, uint64_t index_offset, ckpt_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < index->frame_count; i++) {
        const pack_frame *frame = &index->frames[i];
        uint64_t coded_size = 0; /* at most 64 chunks of about 1 MiB */
        for (uint32_t c = 0; c < pack_frame_chunks(frame); c++)
            coded_size += index->chunks[frame->chunk_first + c].coded_size;
        FAIL_IF(!checked_range(frame->offset, coded_size, index_offset), err, CKPT_EDATA,
                "frame %" PRIu32 " lies outside the pack", i);
    }
out:
    return rc;
}

static int index_read(pack *p, const char *path, ckpt_error *err)
{
    int rc = 0;
    void *coded = NULL;
    pack_footer footer = {0};

    FAIL_IF(p->size < PACK_HEADER_SIZE + PACK_FOOTER_SIZE, err, CKPT_EDATA, "pack is cut short to %" PRIu64 " bytes",
            p->size);
    TRY(header_check(p->fd, path, err)); /* first: a newer version may end otherwise */
    TRY(footer_read(&footer, p->fd, p->size, path, err));
    coded = malloc((size_t)footer.index_coded_size + 1);
    FAIL_IF_NULL(coded, err);
    TRY(file_read_at(coded, p->fd, footer.index_offset, (size_t)footer.index_coded_size, path, err));
    TRY(index_unpack(&p->index, &footer, coded, err));
    p->index_size = footer.index_size;
    TRY(frames_fit(&p->index, footer.index_offset, err));
out:
    free(coded);
    return rc;
}

bool pack_name_parse(sha256 *name, const char *file)
{
    char hex[SHA256_HEX_SIZE];

    if (strlen(file) != sizeof hex - 1 + strlen(PACK_SUFFIX) || strcmp(file + sizeof hex - 1, PACK_SUFFIX) != 0)
        return false;
    memcpy(hex, file, sizeof hex - 1);
    hex[sizeof hex - 1] = 0;
    return sha256_parse(name, hex, NULL) == 0;
}

int pack_path(char out[FILE_PATH_MAX], const char *packs_dir, const sha256 *name, ckpt_error *err)
{
    char hex[SHA256_HEX_SIZE];
    char base[SHA256_HEX_SIZE + sizeof PACK_SUFFIX];

    sha256_hex(hex, name);
    snprintf(base, sizeof base, "%s" PACK_SUFFIX, hex);
    return path_join(out, packs_dir, base, err);
}

int pack_file_look(bool *there, struct stat *st, const char *path, ckpt_error *err)
{
    *there = stat(path, st) == 0;
    if (*there || errno == ENOENT || errno == ELOOP || errno == ENOTDIR)
        return 0;
    return error_errno(err, errno, "look at %s", path);
}

int pack_open_file(pack **out, const char *path, const char *label, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    char hex[SHA256_HEX_SIZE];
    pack *p = calloc(1, sizeof *p);

    *out = NULL;
    FAIL_IF_NULL(p, err);
    p->fd = -1;
    p->name = *name;
    rc = file_open(&p->fd, &p->size, path, err);
    if (rc == CKPT_ENOTFOUND) {
        sha256_hex(hex, name);
        error_set(err, rc, "the pack %.8s is missing", hex);
        error_where(err, path);
    }
    TRY(error_as_damage(rc, err));
    rc = error_as_damage(index_read(p, path, err), err);
    if (rc) {
        error_prefix(err, "%.200s", label);
        error_where(err, path);
        goto out;
    }
    *out = p;
    p = NULL;
out:
    pack_close(p);
    return rc;
}

int pack_open(pack **out, const char *packs_dir, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    *out = NULL;
    TRY(pack_path(path, packs_dir, name, err));
    TRY(pack_open_file(out, path, path_base(path), name, err));
out:
    return rc;
}

void pack_close(pack *p)
{
    if (!p)
        return;
    file_close(&p->fd);
    pack_index_clear(&p->index);
    free(p);
}

/* The descriptor, held while it is in use: a pack of a set may have been closed meanwhile. */
static int pack_hold(int *fd, const pack *p, ckpt_error *err)
{
    if (p->slot)
        return pack_slot_pin(fd, p->slot, err);
    *fd = __atomic_load_n(&p->fd, __ATOMIC_RELAXED); /* a plain load could be moved before the test of slot */
    return 0;
}

static void pack_let_go(const pack *p)
{
    if (p->slot)
        pack_slot_unpin(p->slot);
}

int pack_read_bytes(void *dst, const pack *p, uint64_t offset, size_t size, ckpt_error *err)
{
    int rc = 0, fd = -1;

    TRY(pack_hold(&fd, p, err));
    rc = error_as_damage(file_read_at(dst, fd, offset, size, "pack", err), err);
    pack_let_go(p);
out:
    return rc;
}

int pack_read_chunk(size_t *coded_size, void *dst, const pack *p, const pack_frame *frame, uint32_t i, ckpt_error *err)
{
    int rc = 0;
    int fd = -1;
    uint64_t offset = frame->offset;

    FAIL_IF(i >= pack_frame_chunks(frame), err, CKPT_EBUG, "frame has no chunk %" PRIu32, i);
    const pack_chunk *chunks = &p->index.chunks[frame->chunk_first];
    for (uint32_t c = 0; c < i; c++)
        offset += chunks[c].coded_size;
    TRY(pack_hold(&fd, p, err));
    rc = error_as_damage(file_read_at(dst, fd, offset, chunks[i].coded_size, "pack", err), err);
    pack_let_go(p);
    TRY(rc);
    *coded_size = chunks[i].coded_size;
out:
    return rc;
}

int pack_bytes_hash(sha256 *out, int fd, uint64_t size, ckpt_error *err)
{
    int rc = 0;
    sha256_stream *stream = NULL;
    void *buffer = malloc(CHECK_BUFFER_BYTES);

    FAIL_IF_NULL(buffer, err);
    stream = sha256_new();
    FAIL_IF_NULL(stream, err);
    for (uint64_t at = 0; at < size;) {
        const size_t part = size - at < CHECK_BUFFER_BYTES ? (size_t)(size - at) : CHECK_BUFFER_BYTES;
        TRY(file_read_at(buffer, fd, at, part, "pack", err));
        sha256_update(stream, buffer, part);
        at += part;
    }
    sha256_finish(out, stream);
out:
    sha256_free(stream);
    free(buffer);
    return rc;
}

int pack_check(const pack *p, ckpt_error *err)
{
    int rc = 0;
    int fd = -1;
    sha256 hash;
    char hex[SHA256_HEX_SIZE];

    TRY(pack_hold(&fd, p, err));
    rc = pack_bytes_hash(&hash, fd, p->size, err);
    pack_let_go(p);
    TRY(rc);
    sha256_hex(hex, &p->name);
    FAIL_IF(sha256_compare(&hash, &p->name) != 0, err, CKPT_EDATA, "pack %.8s does not have the SHA-256 of its name",
            hex);
out:
    return rc;
}
