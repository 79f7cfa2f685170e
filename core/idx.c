#include "idx.h"

#include "dataset.h"

#include "checked.h"
#include "fail.h"
#include "inflow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC_SIZE     4
#define SIZE_SIZE      4 /* bytes of one size in the header */
#define UNSIGNED_BYTES 8 /* the type of elements that images and labels have */

static uint32_t load_big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int magic_check(const unsigned char magic[MAGIC_SIZE], const char *path, unsigned rank, ckpt_error *err)
{
    int rc = 0;
    const char *const expected = rank == 1 ? "labels" : "images";

    if (magic[0] || magic[1] || magic[2] != UNSIGNED_BYTES || magic[3] != rank) {
        const bool exchanged = !magic[0] && !magic[1] && magic[2] == UNSIGNED_BYTES;
        rc = error_set(err, CKPT_EFORMAT, "%s: no IDX file of %s: begins with %02x %02x %02x %02x, not 00 00 %02x %02x",
                       path, expected, magic[0], magic[1], magic[2], magic[3], UNSIGNED_BYTES, rank);
        error_hint(err, "%s",
                   exchanged ? "images have 3 dimensions and labels 1: were two files exchanged?"
                             : "is this the right file? MNIST's four files are named train-images-idx3-ubyte, "
                               "train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte");
    }
    return rc;
}

/* Reads the sizes, and checks them before anything is allocated for them. */
static int shape_read(idx *out, uint64_t *count, inflow *in, const char *path, unsigned rank, ckpt_error *err)
{
    int rc = 0;
    unsigned char sizes[IDX_RANK_MAX * SIZE_SIZE];
    size_t got;

    TRY(inflow_read(&got, in, sizes, rank * SIZE_SIZE, err));
    FAIL_IF(got < rank * SIZE_SIZE, err, CKPT_EFORMAT, "%s: ends inside of its header", path);
    *count = 1;
    for (unsigned i = 0; i < rank; i++) {
        const uint32_t size = load_big_endian(sizes + i * SIZE_SIZE);
        const uint32_t size_max = i == 0 ? DATASET_SAMPLES_MAX : NET_DIM_MAX;
        FAIL_IF(size == 0 || size > size_max, err, CKPT_EFORMAT, "%s: size %lu of dimension %u is not from 1 to %lu",
                path, (unsigned long)size, i + 1, (unsigned long)size_max);
        out->shape[i] = size;
        FAIL_IF(!checked_mul(count, *count, size) || *count > DATASET_BYTES_MAX, err, CKPT_EFORMAT,
                "%s: more than %llu bytes", path, (unsigned long long)DATASET_BYTES_MAX);
    }
    out->rank = rank;
out:
    return rc;
}

static int data_read(idx *out, uint64_t count, inflow *in, inflow_packing packing, const char *path, ckpt_error *err)
{
    int rc = 0;
    size_t got;
    unsigned char beyond;
    const uint64_t header_size = MAGIC_SIZE + out->rank * SIZE_SIZE;

    /* What so few bytes cannot hold is not allocated. */
    const uint64_t possible = inflow_size_max(in) - header_size;
    FAIL_IF(count > possible, err, CKPT_EFORMAT, "%s: %s %llu of %llu bytes of data", path,
            packing == INFLOW_PLAIN ? "ends after" : "holds at most", (unsigned long long)possible,
            (unsigned long long)count);
    out->data = malloc((size_t)count);
    FAIL_IF_NULL(out->data, err);
    TRY(inflow_read(&got, in, out->data, (size_t)count, err));
    FAIL_IF(got < count, err, CKPT_EFORMAT, "%s: ends after %zu of %llu bytes of data", path, got,
            (unsigned long long)count);
    TRY(inflow_read(&got, in, &beyond, 1, err)); /* also has packed data check themselves */
    FAIL_IF(got > 0, err, CKPT_EFORMAT, "%s: bytes are left over behind the %llu that its header tells of", path,
            (unsigned long long)count);
out:
    return rc;
}

static int idx_read_source(idx *out, const zip_source *source, unsigned rank, ckpt_error *err)
{
    int rc = 0;
    const char *const path = source->path;
    inflow_packing packing;
    inflow *in = NULL;
    unsigned char magic[MAGIC_SIZE];
    size_t got;
    uint64_t count = 0;

    assert(rank >= 1 && rank <= IDX_RANK_MAX);
    *out = (idx){0};
    TRY(inflow_detect(&packing, source, err));
    TRY(inflow_open(&in, source, 0, source->size, packing, path, err));
    TRY(inflow_read(&got, in, magic, sizeof magic, err));
    FAIL_IF(got < sizeof magic, err, CKPT_EFORMAT, "%s: ends inside of its header", path);
    TRY(magic_check(magic, path, rank, err));
    TRY(shape_read(out, &count, in, path, rank, err));
    TRY(data_read(out, count, in, packing, path, err));
out:
    if (rc == CKPT_EFORMAT)
        error_hint(err, INFLOW_HINT);
    if (rc)
        idx_clear(out);
    inflow_close(in);
    return rc;
}

int idx_read(idx *out, const char *path, unsigned rank, ckpt_error *err)
{
    int rc = 0;
    origin file;

    *out = (idx){0};
    TRY(origin_open(&file, path, err));
    TRY(idx_read_source(out, &file.source, rank, err));
out:
    origin_close(&file);
    return rc;
}

int idx_parse(idx *out, const void *data, size_t size, const char *path, unsigned rank, ckpt_error *err)
{
    origin memory;

    origin_of_memory(&memory, data, size, path);
    return idx_read_source(out, &memory.source, rank, err);
}

void idx_clear(idx *file)
{
    free(file->data);
    *file = (idx){0};
}
