/* A store in a temporary folder, and saves into it. Included by one test each. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include "store_internal.h"

#include <fcntl.h>
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

#define FIXTURE_TENSOR_FLOATS 3000
#define VERIFY_FULL                                                                                                    \
    ((const ckpt_verify_options){.size = sizeof(ckpt_verify_options), .level = CKPT_VERIFY_FULL})

typedef struct fixture {
    char root[TEMP_PATH_MAX];
    ckpt_store *store;
    char note[1024]; /* the last one */
} fixture;

static void fixture_note(void *payload, const char *note)
{
    fixture *const f = payload;
    snprintf(f->note, sizeof f->note, "%s", note);
}

static inline void fixture_open(fixture *f)
{
    const ckpt_open_options options = {.size = sizeof options, .threads = 2, .note = fixture_note, .payload = f};
    MUST(ckpt_store_open(&f->store, f->root, &options, ERR));
}

static inline int fixture_setup(void **state)
{
    fixture *const f = calloc(1, sizeof *f);
    if (!f || temp_dir_make(f->root))
        return -1;
    MUST(ckpt_store_init(NULL, f->root, ERR));
    fixture_open(f);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    fixture *const f = *state;
    ckpt_store_close(f->store);
    const int rc = temp_dir_remove(f->root);
    free(f);
    return rc;
}

/* Closes and opens the store, so that nothing that it remembers counts. */
static inline void fixture_reopen(fixture *f)
{
    ckpt_store_close(f->store);
    f->store = NULL;
    fixture_open(f);
}

/* Saves two tensors, `weight` and `bias`, made of the seed: equal seeds, equal bytes. */
static inline void save_seed(char id[CKPT_ID_SIZE], fixture *f, uint64_t seed, const ckpt_save_options *options)
{
    static float weight[FIXTURE_TENSOR_FLOATS], bias[FIXTURE_TENSOR_FLOATS];
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < FIXTURE_TENSOR_FLOATS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        weight[i] = (float)(x >> 40) / (1 << 24);
        bias[i] = (float)(x >> 32 & 0xffffff) / (1 << 24);
    }
    const ckpt_tensor tensors[] = {
        {"weight", CKPT_F32, 1, {FIXTURE_TENSOR_FLOATS}, weight},
        {"bias", CKPT_F32, 1, {FIXTURE_TENSOR_FLOATS}, bias},
    };
    ckpt_save_result result;
    MUST(ckpt_save_tensors(&result, f->store, NULL, tensors, 2, NULL, 0, options, ERR));
    memcpy(id, result.id, CKPT_ID_SIZE);
}

static inline void save_step(char id[CKPT_ID_SIZE], fixture *f, uint64_t seed, int64_t step)
{
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.step = step;
    save_seed(id, f, seed, &options);
}

/* Saves a file of noise, which shares no byte with the save of another seed. */
static inline void save_noise(char id[CKPT_ID_SIZE], fixture *f, uint64_t seed)
{
    char path[FILE_PATH_MAX];
    const char *const paths[] = {path};
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u;
    MUST(path_join(path, f->root, "noise.bin", ERR));
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < FIXTURE_TENSOR_FLOATS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        fputc((int)(x >> 56), file);
    }
    assert_int_equal(fclose(file), 0);
    ckpt_save_result result;
    MUST(ckpt_save_files(&result, f->store, paths, 1, NULL, ERR));
    memcpy(id, result.id, CKPT_ID_SIZE);
}

/* ---- Files ---- */

static inline void write_text(const char *path, const char *text)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The text of a file, to be freed; NULL when there is none. */
static inline char *read_text(const char *path)
{
    char *text = NULL;
    size_t size;
    return file_read_all(&text, &size, path, 1 << 20, NULL) ? NULL : text;
}

static inline bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static int count_one(void *payload, const char *name, ckpt_error *err)
{
    (void)name;
    (void)err;
    ++*(size_t *)payload;
    return 0;
}

static inline size_t count_files(const char *dir)
{
    size_t count = 0;
    MUST(dir_each(dir, count_one, &count, ERR));
    return count;
}

/* Name of a checkpoint's snapshot file, and of its own pack. */
static inline void snapshot_file(char out[FILE_PATH_MAX], fixture *f, const char *name)
{
    snapshot_name found;
    MUST(name_resolve(&found, f->store, name, ERR));
    MUST(snapshot_path(out, f->store->snapshots_dir, &found, ERR));
}

static inline void own_pack(sha256 *out, fixture *f, const char *name)
{
    snapshot_name found;
    snapshot s;
    MUST(name_resolve(&found, f->store, name, ERR));
    MUST(snapshot_read(&s, f->store->snapshots_dir, &found, ERR));
    *out = s.pack;
    snapshot_clear(&s);
}

static inline void own_pack_file(char out[FILE_PATH_MAX], fixture *f, const char *name)
{
    sha256 pack_name;
    own_pack(&pack_name, f, name);
    MUST(pack_path(out, f->store->packs_dir, &pack_name, ERR));
}

/* Turns one bit of a file over, `offset` bytes from its beginning, or from its end when negative. */
static inline void flip_bit(const char *path, off_t offset)
{
    unsigned char byte;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    const off_t at = lseek(fd, offset, offset < 0 ? SEEK_END : SEEK_SET);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

#endif
