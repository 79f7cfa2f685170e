/* Packs made for tests: a temporary store-like folder, noise, and frames coded one by one. Included by one test each.
 */
#ifndef TESTS_PACK_FIXTURE_H
#define TESTS_PACK_FIXTURE_H

#include "pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "temp_dir.h"

typedef struct fixture {
    char root[TEMP_PATH_MAX];
    char packs[FILE_PATH_MAX], tmp[FILE_PATH_MAX], cache[FILE_PATH_MAX];
} fixture;

static inline int fixture_setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f || temp_dir_make(f->root))
        return -1;
    snprintf(f->packs, sizeof f->packs, "%s/packs", f->root);
    snprintf(f->tmp, sizeof f->tmp, "%s/tmp", f->root);
    snprintf(f->cache, sizeof f->cache, "%s/cache", f->root);
    *state = f;
    return mkdir(f->packs, 0700) || mkdir(f->tmp, 0700) || mkdir(f->cache, 0700);
}

static inline int fixture_teardown(void **state)
{
    fixture *f = *state;
    const int rc = temp_dir_remove(f->root);
    free(f);
    return rc;
}

/* The same bytes for the same seed, without any pattern that a coder could use. */
static inline unsigned char *noise(size_t size, uint64_t seed)
{
    unsigned char *bytes = malloc(size + 1);
    uint64_t x = seed * 2 + 1;
    for (size_t i = 0; i < size; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)(x >> 56);
    }
    return bytes;
}

/* Adds a frame of these bytes whose chunks are STORED, and returns its number. */
static inline uint32_t put_stored(pack_writer *w, const unsigned char *data, size_t size)
{
    uint32_t at = 0;
    pack_frame frame = {.size = size, .reference_pack = PACK_NONE};
    unsigned char *coded = malloc(CODEC_CHUNK_BYTES + 1);
    sha256_of(&frame.hash, data, size);
    MUST(pack_writer_frame(&at, w, &frame, ERR));
    for (size_t done = 0; done < size; done += CODEC_CHUNK_BYTES) {
        const size_t part = size - done < CODEC_CHUNK_BYTES ? size - done : CODEC_CHUNK_BYTES;
        coded[0] = CODEC_STORED;
        memcpy(coded + 1, data + done, part);
        MUST(pack_writer_chunk(w, coded, part + 1, xxh64_of(data + done, part), ERR));
    }
    free(coded);
    return at;
}

/* Adds a file that is exactly one frame of this pack. */
static inline void put_file(pack_writer *w, const char *path, uint32_t frame, const unsigned char *data)
{
    uint32_t ignored = 0;
    const uint64_t size = w->index.frames[frame].size;
    pack_file file = {.mode = 0644, .size = size, .extent_first = w->index.extent_count, .extent_count = 1};
    file.hash = w->index.frames[frame].hash;
    MUST(pack_index_add_string(&file.path, &w->index, path, ERR));
    MUST(pack_index_add_extent(&ignored, &w->index,
                               &(pack_extent){.size = size, .frame = frame, .hash = xxh128_of(data, size)}, ERR));
    MUST(pack_index_add_file(&ignored, &w->index, &file, ERR));
}

/* Ends the pack and puts it into packs/; no fsync, tests need none. */
static inline void finish(sha256 *name, pack_writer *w, const fixture *f)
{
    char path[FILE_PATH_MAX];
    MUST(pack_writer_finish(name, w, ERR));
    MUST(pack_path(path, f->packs, name, ERR));
    assert_int_equal(rename(w->tmp.path, path), 0);
    pack_writer_discard(w);
}

/* A pack with one file "data" of `size` bytes of noise. */
static inline void small_pack(sha256 *name, const fixture *f, size_t size, uint64_t seed)
{
    pack_writer w;
    unsigned char *data = noise(size, seed);
    MUST(pack_writer_open(&w, f->tmp, ERR));
    put_file(&w, "data", put_stored(&w, data, size), data);
    finish(name, &w, f);
    free(data);
}

static inline unsigned char *pack_bytes(size_t *size, const fixture *f, const sha256 *name)
{
    char path[FILE_PATH_MAX];
    char *bytes = NULL;
    MUST(pack_path(path, f->packs, name, ERR));
    MUST(file_read_all(&bytes, size, path, (size_t)1 << 30, ERR));
    return (unsigned char *)bytes;
}

/* Overwrites packs/<name>.pack with other bytes. */
static inline void pack_overwrite(const fixture *f, const sha256 *name, const unsigned char *bytes, size_t size)
{
    char path[FILE_PATH_MAX];
    MUST(pack_path(path, f->packs, name, ERR));
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

#endif
