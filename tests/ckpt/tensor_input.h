/* Inputs for the tests of tensor files: golden files, bytes in memory, and archives put together by hand. */
#ifndef TESTS_TENSOR_INPUT_H
#define TESTS_TENSOR_INPUT_H

#include "tensor_file.h"

#include "bytes.h"
#include "file.h"

/* What cmocka.h wants in front of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define INPUT_SIZE_MAX ((size_t)16 << 20)

typedef struct input {
    char *data;
    size_t size, capacity;
} input;

static inline void input_add(input *in, const void *data, size_t size)
{
    if (in->size + size > in->capacity) {
        in->capacity = 2 * (in->size + size);
        in->data = realloc(in->data, in->capacity);
        assert_non_null(in->data);
    }
    if (size)
        memcpy(in->data + in->size, data, size);
    in->size += size;
}

#define INPUT_ADD_LITERAL(in, literal) input_add((in), (literal), sizeof(literal) - 1)

static inline void input_free(input *in)
{
    free(in->data);
    *in = (input){0};
}

static inline input input_golden(const char *name)
{
    input in = {0};
    char path[FILE_PATH_MAX];
    assert_int_equal(path_join(path, GOLDEN_DIR, name, NULL), 0);
    assert_int_equal(file_read_all(&in.data, &in.size, path, INPUT_SIZE_MAX, NULL), 0);
    return in;
}

/* Reads the bytes as a file; a parser may refuse, but not fail. */
static inline void input_read(tensor_file *file, char why[256], const void *data, size_t size)
{
    byte_source source;
    ckpt_error err = {0};
    byte_source_memory(&source, data, size, "input");
    const int rc = tensor_file_read(file, why, &source, &err);
    if (rc)
        fail_msg("%d: %s", rc, err.message);
}

/* The bytes are refused, and the reason holds `expected`. */
static inline void assert_refused(const void *data, size_t size, const char *expected)
{
    tensor_file file;
    char why[256];
    input_read(&file, why, data, size);
    assert_string_equal(file.format, "opaque");
    assert_int_equal(file.count, 0);
    assert_int_equal(file.value_count, 0);
    if (!strstr(why, expected))
        fail_msg("'%s' does not hold '%s'", why, expected);
    tensor_file_clear(&file);
}

/* ---- Zip archives of stored members, CRC 0 ---------------------------------------------------------------------- */

typedef struct zip_build {
    input file, directory;
    unsigned count;
} zip_build;

static inline void zip_add(zip_build *zip, const char *name, const void *data, size_t size, unsigned method,
                           unsigned flags)
{
    unsigned char local[30] = "PK\3\4", central[46] = "PK\1\2";
    local[4] = central[4] = central[6] = 20;
    store_u16(local + 6, (uint16_t)flags);
    store_u16(local + 8, (uint16_t)method);
    store_u32(local + 18, (uint32_t)size);
    store_u32(local + 22, (uint32_t)size);
    store_u16(local + 26, (uint16_t)strlen(name));
    memcpy(central + 8, local + 6, 24);
    store_u32(central + 42, (uint32_t)zip->file.size);
    input_add(&zip->directory, central, sizeof central);
    input_add(&zip->directory, name, strlen(name));
    input_add(&zip->file, local, sizeof local);
    input_add(&zip->file, name, strlen(name));
    input_add(&zip->file, data, size);
    zip->count++;
}

/* The finished archive; `zip` is empty afterwards. */
static inline input zip_finish(zip_build *zip)
{
    unsigned char end[22] = "PK\5\6";
    store_u16(end + 8, (uint16_t)zip->count);
    store_u16(end + 10, (uint16_t)zip->count);
    store_u32(end + 12, (uint32_t)zip->directory.size);
    store_u32(end + 16, (uint32_t)zip->file.size);
    input_add(&zip->file, zip->directory.data, zip->directory.size);
    input_add(&zip->file, end, sizeof end);
    input_free(&zip->directory);
    const input file = zip->file;
    *zip = (zip_build){0};
    return file;
}

/* A PyTorch archive with this pickle and one storage "0" of `storage_size` zeros. */
static inline input torch_archive(const void *pickle, size_t pickle_size, size_t storage_size)
{
    zip_build zip = {0};
    char *storage = calloc(1, storage_size + 1);
    zip_add(&zip, "a/data.pkl", pickle, pickle_size, 0, 0);
    zip_add(&zip, "a/data/0", storage, storage_size, 0, 0);
    free(storage);
    return zip_finish(&zip);
}

#endif
