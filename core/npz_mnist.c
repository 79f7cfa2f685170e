#include "npz_mnist.h"

#include "bytes.h"
#include "fail.h"
#include "file.h"
#include "inflow.h"
#include "npy_head.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE    (FILE_PATH_MAX + 16) /* "mnist.npz: x_train", for messages */
#define LABELS_PIECE 4096                 /* labels that are converted in one go */
#define LABEL_MAX    (DATASET_CLASSES_MAX - 1)

/* One array of the archive while it is read. */
typedef struct member {
    char name[NAME_SIZE];
    const zip_entry *entry;
    inflow *in;
    uint64_t left; /* bytes still to come, as the directory has it */
    uint32_t crc;
    npy_head head;
} member;

/* Exactly `size` bytes, which the member must still have. */
static int member_read(void *dst, member *m, size_t size, ckpt_error *err)
{
    int rc = 0;
    size_t got = 0;

    if (size <= m->left)
        TRY(inflow_read(&got, m->in, dst, size, err));
    FAIL_IF(got < size, err, CKPT_EFORMAT, "%s: ends early", m->name);
    m->crc = crc32_of(m->crc, dst, size);
    m->left -= size;
out:
    return rc;
}

static int head_read(member *m, ckpt_error *err)
{
    int rc = 0;
    unsigned char start[NPY_HEAD_START], length[4] = {0};
    char text[NPY_HEAD_TEXT_MAX + 1];
    size_t length_size;

    TRY(member_read(start, m, sizeof start, err));
    TRY(npy_head_start(&length_size, start, m->name, err));
    TRY(member_read(length, m, length_size, err));
    const uint32_t size = load_u32(length);
    FAIL_IF(size > NPY_HEAD_TEXT_MAX, err, CKPT_EFORMAT, "%s: header of %" PRIu32 " bytes is too long", m->name, size);
    TRY(member_read(text, m, size, err));
    text[size] = 0;
    TRY(npy_head_parse(&m->head, text, size, m->name, err));
out:
    return rc;
}

/* Opens the array `array` and reads its head. */
static int member_open(member *m, const zip_dir *dir, const zip_source *source, const char *array, ckpt_error *err)
{
    int rc = 0;
    char entry_name[16];
    size_t count;
    uint64_t offset;

    snprintf(entry_name, sizeof entry_name, "%s.npy", array);
    snprintf(m->name, sizeof m->name, "%s: %s", source->path, array);
    m->entry = zip_dir_find(&count, dir, entry_name);
    if (count != 1) {
        error_set(err, CKPT_EFORMAT, "%s: has %s array %s", source->path, count ? "more than one" : "no", array);
        error_hint(err, "mnist.npz, as Keras has it, holds x_train, y_train, x_test and y_test");
        return CKPT_EFORMAT;
    }
    const zip_entry *const e = m->entry;
    FAIL_IF(e->flags & ZIP_FLAG_ENCRYPTED, err, CKPT_EFORMAT, "%s: is encrypted", m->name);
    FAIL_IF(e->method != ZIP_METHOD_STORED && e->method != ZIP_METHOD_DEFLATE, err, CKPT_EFORMAT,
            "%s: is packed by method %u, which is not known", m->name, e->method);
    TRY(zip_entry_locate(&offset, e, source, err));
    TRY(inflow_open(&m->in, source, offset, e->size_packed,
                    e->method == ZIP_METHOD_STORED ? INFLOW_PLAIN : INFLOW_DEFLATE, m->name, err));
    m->left = e->size;
    TRY(head_read(m, err));
out:
    return rc;
}

/* All elements were read: does the member end here, and is it what was packed? */
static int member_check(member *m, ckpt_error *err)
{
    int rc = 0;
    unsigned char beyond;
    size_t got;

    TRY(inflow_read(&got, m->in, &beyond, 1, err));
    FAIL_IF(got > 0 || m->left > 0, err, CKPT_EFORMAT, "%s: bytes are left over behind its elements", m->name);
    FAIL_IF(m->crc != m->entry->crc32, err, CKPT_EFORMAT, "%s: fails its check (CRC-32)", m->name);
out:
    return rc;
}

static void member_close(member *m)
{
    inflow_close(m->in);
    m->in = NULL;
}

/* The shape, and that so many bytes can be there at all: before anything is allocated. */
static int shape_check(const member *m, unsigned rank, ckpt_error *err)
{
    int rc = 0;
    const npy_head *const h = &m->head;
    uint64_t size = h->item_size;

    FAIL_IF(h->rank != rank, err, CKPT_EFORMAT, "%s: has %u dimensions, not %u", m->name, h->rank, rank);
    for (unsigned i = 0; i < rank; i++) {
        const uint64_t size_max = i == 0 ? DATASET_SAMPLES_MAX : NET_DIM_MAX;
        FAIL_IF(h->shape[i] == 0 || h->shape[i] > size_max, err, CKPT_EFORMAT,
                "%s: size %" PRIu64 " of dimension %u is not from 1 to %" PRIu64, m->name, h->shape[i], i + 1,
                size_max);
        size *= h->shape[i]; /* below 2^24 * 2^32 * 8 */
    }
    FAIL_IF(size > DATASET_BYTES_MAX, err, CKPT_EFORMAT, "%s: more than %" PRIu64 " bytes", m->name, DATASET_BYTES_MAX);
    FAIL_IF(size > m->left, err, CKPT_EFORMAT, "%s: ends early", m->name);
    FAIL_IF(size > inflow_size_max(m->in), err, CKPT_EFORMAT, "%s: %" PRIu64 " bytes cannot be in %" PRIu64, m->name,
            size, m->entry->size_packed);
out:
    return rc;
}

static int images_read(samples *out, dims *shape, member *m, ckpt_error *err)
{
    int rc = 0;
    const npy_head *const h = &m->head;

    FAIL_IF(h->kind != 'u' || h->item_size != 1, err, CKPT_EFORMAT, "%s: pixels are not unsigned bytes", m->name);
    TRY(shape_check(m, 3, err));
    *shape = (dims){1, (size_t)h->shape[1], (size_t)h->shape[2]};
    out->count = (size_t)h->shape[0];
    out->images = malloc(out->count * dims_count(shape));
    FAIL_IF_NULL(out->images, err);
    TRY(member_read(out->images, m, out->count * dims_count(shape), err));
    TRY(member_check(m, err));
out:
    return rc;
}

/* An integer of any size and sign; what is negative becomes larger than any label. */
static uint64_t integer_load(const unsigned char *p, const npy_head *h)
{
    const bool negative = h->kind == 'i' && p[h->big_endian ? 0 : h->item_size - 1] & 0x80;
    uint64_t value = 0;

    for (unsigned i = 0; i < h->item_size; i++)
        value = value << 8 | p[h->big_endian ? i : h->item_size - 1 - i];
    return negative ? UINT64_MAX : value;
}

static int labels_read(samples *out, member *m, ckpt_error *err)
{
    int rc = 0;
    const npy_head *const h = &m->head;
    unsigned char piece[LABELS_PIECE * sizeof(uint64_t)];

    TRY(shape_check(m, 1, err));
    FAIL_IF(h->shape[0] != out->count, err, CKPT_EFORMAT, "%s: %" PRIu64 " labels for %zu images", m->name, h->shape[0],
            out->count);
    out->labels = malloc(out->count);
    FAIL_IF_NULL(out->labels, err);
    for (size_t done = 0; done < out->count;) {
        const size_t left = out->count - done, count = left < LABELS_PIECE ? left : LABELS_PIECE;
        TRY(member_read(piece, m, count * h->item_size, err));
        for (size_t i = 0; i < count; i++) {
            const uint64_t label = integer_load(piece + i * h->item_size, h);
            FAIL_IF(label > LABEL_MAX, err, CKPT_EFORMAT, "%s: the label at index %zu is not from 0 to %d", m->name,
                    done + i, LABEL_MAX);
            out->labels[done + i] = (uint8_t)label;
        }
        done += count;
    }
    TRY(member_check(m, err));
out:
    return rc;
}

/* The images and labels of one part. */
static int part_read(samples *out, dims *shape, const zip_dir *dir, const zip_source *source, const char *images,
                     const char *labels, ckpt_error *err)
{
    int rc = 0;
    member m = {0};

    TRY(member_open(&m, dir, source, images, err));
    TRY(images_read(out, shape, &m, err));
    member_close(&m);
    m = (member){0};
    TRY(member_open(&m, dir, source, labels, err));
    TRY(labels_read(out, &m, err));
out:
    member_close(&m);
    return rc;
}

static int npz_read_source(dataset *out, const zip_source *source, ckpt_error *err)
{
    int rc = 0;
    zip_dir dir = {0};
    dims test_shape;

    *out = (dataset){0};
    TRY(zip_dir_read(&dir, source, false, err));
    TRY(part_read(&out->train, &out->shape, &dir, source, "x_train", "y_train", err));
    TRY(part_read(&out->test, &test_shape, &dir, source, "x_test", "y_test", err));
    FAIL_IF(test_shape.height != out->shape.height || test_shape.width != out->shape.width, err, CKPT_EFORMAT,
            "%s: images of x_train are %zu x %zu, those of x_test %zu x %zu", source->path, out->shape.height,
            out->shape.width, test_shape.height, test_shape.width);
out:
    if (rc == CKPT_EFORMAT)
        error_hint(err, "the file was damaged or is another one: copy or download it again");
    if (rc)
        dataset_clear(out);
    zip_dir_clear(&dir);
    return rc;
}

int npz_read(dataset *out, const char *path, ckpt_error *err)
{
    int rc = 0;
    origin file;

    *out = (dataset){0};
    TRY(origin_open(&file, path, err));
    TRY(npz_read_source(out, &file.source, err));
out:
    origin_close(&file);
    return rc;
}

int npz_parse(dataset *out, const void *data, size_t size, const char *path, ckpt_error *err)
{
    origin memory;

    origin_of_memory(&memory, data, size, path);
    return npz_read_source(out, &memory.source, err);
}
