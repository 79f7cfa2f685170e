/* Stores that are damaged on purpose, and what verify and repair make of them. Included by one test each. */
#ifndef TESTS_REPAIR_FIXTURE_H
#define TESTS_REPAIR_FIXTURE_H

#include "file_tree.h"

#include "damaged.h"
#include "lease.h"
#include "pack_parity.h"

#define NOISE_BYTES 200000 /* of a file whose pack has nothing to share with others, and several blocks of parity */

static inline int repair_with(ckpt_repair_result *result, fixture *f, const ckpt_repair_options *options)
{
    ckpt_error err = {0};
    fixture_reopen(f);
    const int rc = ckpt_repair(result, f->store, options, &err);
    if (rc != 0 && rc != CKPT_EDATA)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < result->row_count; i++)
        if (getenv("REPAIR_ROWS"))
            print_message("  %s %.8s: %s; %s%s\n", result->rows[i].kind, result->rows[i].name, result->rows[i].state,
                          result->rows[i].action, result->rows[i].mended ? "" : " (damaged)");
    fixture_reopen(f);
    return rc;
}

static inline int repair(ckpt_repair_result *result, fixture *f)
{
    return repair_with(result, f, NULL);
}

static inline int verify_at(fixture *f, ckpt_verify_level level)
{
    const ckpt_verify_options options = {.size = sizeof options, .level = level};
    fixture_reopen(f);
    return ckpt_verify(NULL, f->store, &options, NULL);
}

/* A row that tells of this: parts of its texts. */
static inline bool has_row(const ckpt_repair_result *result, const char *kind, const char *action, bool mended)
{
    for (size_t i = 0; i < result->row_count; i++)
        if (strcmp(result->rows[i].kind, kind) == 0 && strstr(result->rows[i].action, action) &&
            result->rows[i].mended == mended)
            return true;
    for (size_t i = 0; i < result->row_count; i++)
        print_message("  %s %.8s: %s; %s%s\n", result->rows[i].kind, result->rows[i].name, result->rows[i].state,
                      result->rows[i].action, result->rows[i].mended ? "" : " (damaged)");
    return false;
}

/* Mends all there is to mend with one row of that action, after which everything is sound and a second repair finds
 * nothing. */
static inline void assert_mends_with(fixture *f, const ckpt_repair_options *options, const char *kind,
                                     const char *action)
{
    ckpt_repair_result result;
    assert_int_equal(repair_with(&result, f, options), 0);
    assert_true(has_row(&result, kind, action, true));
    ckpt_repair_result_clear(&result);
    assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), 0);
    assert_int_equal(repair_with(&result, f, options), 0);
    assert_int_equal(result.row_count, 0);
    ckpt_repair_result_clear(&result);
    assert_int_equal(count_files(f->store->tmp_dir), 0);
}

static inline void assert_mends(fixture *f, const char *kind, const char *action)
{
    assert_mends_with(f, NULL, kind, action);
}

/* Nothing gives it back, and nothing is lost beside it. */
static inline void assert_remains(fixture *f, const char *kind, const char *action)
{
    ckpt_repair_result result;
    const size_t packs = count_files(f->store->packs_dir);
    assert_int_equal(repair(&result, f), CKPT_EDATA);
    assert_true(has_row(&result, kind, action, false));
    assert_int_equal(count_files(f->store->packs_dir), packs);
    ckpt_repair_result_clear(&result);
}

/* Bytes that no file of another seed shares. */
static inline void write_noise(const char *path, uint64_t seed, size_t size)
{
    unsigned char *const bytes = malloc(size);
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u;
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)(x >> 56);
    }
    write_bytes(path, bytes, size);
    free(bytes);
}

static inline ckpt_save_result save_with_parity(fixture *f, const char *path, double parity)
{
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    ckpt_save_result result;
    options.parity = parity;
    MUST(ckpt_save_files(&result, f->store, &path, 1, &options, ERR));
    return result;
}

/* A checkpoint of one file of noise, which stays beside the store to be compared. */
static inline ckpt_save_result noise_saved(char path[FILE_PATH_MAX], fixture *f, uint64_t seed, double parity)
{
    char name[32];
    snprintf(name, sizeof name, "noise-%u.bin", (unsigned)seed);
    join(path, f->root, name);
    write_noise(path, seed, NOISE_BYTES);
    return save_with_parity(f, path, parity);
}

static inline off_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

/* Overwrites a range, from the end when `from` is negative. */
static inline void wipe(const char *path, off_t from, size_t size)
{
    FILE *const file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseeko(file, from, from < 0 ? SEEK_END : SEEK_SET), 0);
    for (size_t i = 0; i < size; i++)
        assert_true(fputc(0xa5, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#endif
