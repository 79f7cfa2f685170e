#include "zip_writer.h"

#include "array.h"
#include "bytes.h"
#include "fail.h"
#include "hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LOCAL_SIZE       30u
#define CENTRAL_SIZE     46u
#define END_SIZE         22u
#define END64_SIZE       56u
#define LOCATOR64_SIZE   20u
#define LOCAL_CRC        14u /* offset of the CRC in a local header */
#define VERSION_PLAIN    20u
#define VERSION_64       45u
#define FLAG_UTF8        0x0800u
#define DOS_DATE_NONE    0x0021u /* 1980-01-01, the first there is */
#define LIMIT_16         0xffffu
#define LIMIT_32         UINT32_C(0xffffffff)
#define EXTRA_ID_64      0x0001u
#define EXTRA_ID_PADDING 0x4246u /* "FB", as PyTorch has it */
#define EXTRA_HEAD_SIZE  4u
#define ALIGNMENT_MAX    4096u
#define BUFFER_SIZE      ((size_t)256 << 10)

struct zip_writer_member {
    char *name;
    uint64_t header, size, written; /* where its local header begins; bytes there have to be, and are */
    uint32_t crc;
};

void zip_writer_clear(zip_writer *z)
{
    for (size_t i = 0; i < z->count; i++)
        free(z->members[i].name);
    free(z->members);
    free(z->buffer);
    *z = (zip_writer){0};
}

/* ---- The end of the file ---- */

static uint64_t position(const zip_writer *z)
{
    return z->out->size_bytes + z->used;
}

static int flush(zip_writer *z, ckpt_error *err)
{
    const int rc = file_tmp_write(z->out, z->buffer, z->used, err);

    z->used = 0;
    return rc;
}

/* Appends; what is one call of this stays in one piece in the buffer. */
static int put(zip_writer *z, const void *data, size_t size, ckpt_error *err)
{
    int rc = 0;

    if (!z->buffer) {
        z->buffer = malloc(BUFFER_SIZE);
        FAIL_IF_NULL(z->buffer, err);
    }
    if (size > BUFFER_SIZE - z->used)
        TRY(flush(z, err));
    if (size >= BUFFER_SIZE) {
        TRY(file_tmp_write(z->out, data, size, err));
        goto out;
    }
    if (size > 0)
        memcpy(z->buffer + z->used, data, size);
    z->used += size;
out:
    return rc;
}

/* ---- Members ---- */

static unsigned flags_of(const char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name >= 0x80)
            return FLAG_UTF8;
    return 0;
}

/* The fields that local header and directory have in common, from `version needed` to `extra size`. */
static void fields_store(unsigned char *to, const zip_writer_member *m, bool is_64, size_t extra_size)
{
    const uint32_t size = is_64 ? LIMIT_32 : (uint32_t)m->size;

    store_u16(to, is_64 ? VERSION_64 : VERSION_PLAIN);
    store_u16(to + 2, (uint16_t)flags_of(m->name));
    store_u16(to + 4, 0); /* stored */
    store_u16(to + 6, 0);
    store_u16(to + 8, DOS_DATE_NONE);
    store_u32(to + 10, m->crc);
    store_u32(to + 14, size);
    store_u32(to + 18, size);
    store_u16(to + 22, (uint16_t)strlen(m->name));
    store_u16(to + 24, (uint16_t)extra_size);
}

int zip_writer_begin(zip_writer *z, const char *name, uint64_t size, unsigned alignment, ckpt_error *err)
{
    int rc = 0;
    unsigned char header[LOCAL_SIZE] = "PK\3\4", extra[2 * EXTRA_HEAD_SIZE + 16 + ALIGNMENT_MAX] = {0};
    zip_writer_member *const grown = array_room(z->members, &z->capacity, z->count + 1, sizeof *grown);
    const size_t name_size = strlen(name);
    const bool is_64 = size >= LIMIT_32;
    size_t extra_size = 0;

    assert(alignment > 0 && alignment <= ALIGNMENT_MAX);
    FAIL_IF_NULL(grown, err);
    z->members = grown;
    FAIL_IF(name_size > ZIP_WRITER_NAME_MAX, err, CKPT_EUSAGE, "%.200s...: too long for the name of a member", name);
    FAIL_IF(z->count >= ZIP_WRITER_MEMBERS_MAX, err, CKPT_EUSAGE, "too many members for one archive");
    zip_writer_member *const m = &z->members[z->count];
    *m = (zip_writer_member){.name = strdup(name), .header = position(z), .size = size};
    FAIL_IF_NULL(m->name, err);
    z->count++;
    if (is_64) {
        store_u16(extra, EXTRA_ID_64);
        store_u16(extra + 2, 16);
        store_u64(extra + 4, size);
        store_u64(extra + 12, size);
        extra_size = EXTRA_HEAD_SIZE + 16;
    }
    const uint64_t data = m->header + LOCAL_SIZE + name_size + extra_size;
    if (data % alignment) { /* at least a head of padding, and on to the next boundary */
        const uint64_t least = data + EXTRA_HEAD_SIZE;
        const size_t padding = (size_t)((alignment - least % alignment) % alignment);
        store_u16(extra + extra_size, EXTRA_ID_PADDING);
        store_u16(extra + extra_size + 2, (uint16_t)padding);
        extra_size += EXTRA_HEAD_SIZE + padding;
    }
    fields_store(header + 4, m, is_64, extra_size);
    TRY(put(z, header, LOCAL_SIZE, err));
    TRY(put(z, name, name_size, err));
    TRY(put(z, extra, extra_size, err));
out:
    return rc;
}

int zip_writer_data(zip_writer *z, const void *data, size_t size, ckpt_error *err)
{
    zip_writer_member *const m = &z->members[z->count - 1];

    assert(size <= m->size - m->written);
    m->crc = crc32_of(m->crc, data, size);
    m->written += size;
    return put(z, data, size, err);
}

int zip_writer_end(zip_writer *z, ckpt_error *err)
{
    const zip_writer_member *const m = &z->members[z->count - 1];
    unsigned char crc[4];

    assert(m->written == m->size);
    if (m->header >= z->out->size_bytes) {
        store_u32(z->buffer + (m->header - z->out->size_bytes) + LOCAL_CRC, m->crc);
        return 0;
    }
    store_u32(crc, m->crc);
    return file_write_at(z->out->fd, m->header + LOCAL_CRC, crc, sizeof crc, z->out->path, err);
}

static int directory_add(zip_writer *z, const zip_writer_member *m, ckpt_error *err)
{
    int rc = 0;
    unsigned char row[CENTRAL_SIZE] = "PK\1\2", extra[EXTRA_HEAD_SIZE + 24];
    const bool is_64 = m->size >= LIMIT_32, far = m->header >= LIMIT_32;
    size_t extra_size = EXTRA_HEAD_SIZE;

    if (is_64) {
        store_u64(extra + extra_size, m->size);
        store_u64(extra + extra_size + 8, m->size);
        extra_size += 16;
    }
    if (far) {
        store_u64(extra + extra_size, m->header);
        extra_size += 8;
    }
    store_u16(extra, EXTRA_ID_64);
    store_u16(extra + 2, (uint16_t)(extra_size - EXTRA_HEAD_SIZE));
    if (extra_size == EXTRA_HEAD_SIZE)
        extra_size = 0;
    store_u16(row + 4, is_64 || far ? VERSION_64 : VERSION_PLAIN);
    fields_store(row + 6, m, is_64, extra_size);
    if (far)
        store_u16(row + 6, VERSION_64);
    store_u32(row + 42, far ? LIMIT_32 : (uint32_t)m->header);
    TRY(put(z, row, CENTRAL_SIZE, err));
    TRY(put(z, m->name, strlen(m->name), err));
    TRY(put(z, extra, extra_size, err));
out:
    return rc;
}

static int end64_write(zip_writer *z, uint64_t offset, uint64_t size, ckpt_error *err)
{
    int rc = 0;
    unsigned char end[END64_SIZE] = "PK\6\6", locator[LOCATOR64_SIZE] = "PK\6\7";
    const uint64_t here = position(z);

    store_u64(end + 4, END64_SIZE - 12);
    store_u16(end + 12, VERSION_64);
    store_u16(end + 14, VERSION_64);
    store_u64(end + 24, z->count);
    store_u64(end + 32, z->count);
    store_u64(end + 40, size);
    store_u64(end + 48, offset);
    store_u64(locator + 8, here);
    store_u32(locator + 16, 1);
    TRY(put(z, end, END64_SIZE, err));
    TRY(put(z, locator, LOCATOR64_SIZE, err));
out:
    return rc;
}

int zip_writer_finish(zip_writer *z, ckpt_error *err)
{
    int rc = 0;
    unsigned char end[END_SIZE] = "PK\5\6";
    const uint64_t offset = position(z);

    for (size_t i = 0; i < z->count; i++)
        TRY(directory_add(z, &z->members[i], err));
    const uint64_t size = position(z) - offset;
    const bool is_64 = z->count >= LIMIT_16 || offset >= LIMIT_32 || size >= LIMIT_32;
    if (is_64)
        TRY(end64_write(z, offset, size, err));
    store_u16(end + 8, z->count >= LIMIT_16 ? LIMIT_16 : (uint16_t)z->count);
    store_u16(end + 10, z->count >= LIMIT_16 ? LIMIT_16 : (uint16_t)z->count);
    store_u32(end + 12, size >= LIMIT_32 ? LIMIT_32 : (uint32_t)size);
    store_u32(end + 16, offset >= LIMIT_32 ? LIMIT_32 : (uint32_t)offset);
    TRY(put(z, end, END_SIZE, err));
    TRY(flush(z, err));
out:
    return rc;
}
