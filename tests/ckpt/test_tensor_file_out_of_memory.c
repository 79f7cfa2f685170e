/* Parsers when memory is exhausted: each allocation fails once, and the parser says so, leaks nothing and leaves an
 * empty list. Linked with --wrap for the allocation functions (tests/CMakeLists.txt). */
#include "tensor_input.h"

#include <jansson.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

static size_t allocations;   /* since the count was set to 0 */
static size_t failing_index; /* the allocation that fails; SIZE_MAX for none */

static bool fails_now(void)
{
    return allocations++ == failing_index;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return __wrap_strndup(text, strlen(text));
}

char *__wrap_strndup(const char *text, size_t size)
{
    const size_t length = strnlen(text, size);
    char *copy = __wrap_malloc(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = 0;
    }
    return copy;
}

typedef struct reading {
    int rc;
    size_t tensors;
    bool refused;
} reading;

/* Reads with the allocation of that index failing. */
static reading read_with_failure_at(const input *in, size_t index)
{
    tensor_file file;
    byte_source source;
    char why[256];
    ckpt_error err = {0};

    byte_source_memory(&source, in->data, in->size, "input");
    allocations = 0;
    failing_index = index;
    const int rc = tensor_file_read(&file, why, &source, &err);
    failing_index = SIZE_MAX;
    assert_int_equal(err.code, rc);
    const reading result = {rc, file.count, why[0] != 0};
    tensor_file_clear(&file);
    return result;
}

static void assert_survives(const char *name)
{
    input in = input_golden(name);
    assert_int_equal(read_with_failure_at(&in, SIZE_MAX).rc, 0);
    const size_t count = allocations;
    for (size_t i = 0; i < count; i++) {
        const reading result = read_with_failure_at(&in, i);
        assert_int_equal(result.rc, CKPT_ENOMEM);
        assert_int_equal(result.tensors, 0);
    }
    assert_true(count > 0);
    input_free(&in);
}

/* The JSON library can do without some allocations and calls some failures syntax errors; then all is read, or the file
 * is refused: never a part. */
static void assert_survives_in_whole(const char *name)
{
    input in = input_golden(name);
    const reading whole = read_with_failure_at(&in, SIZE_MAX);
    const size_t count = allocations;
    for (size_t i = 0; i < count; i++) {
        const reading result = read_with_failure_at(&in, i);
        assert_int_equal(result.tensors, result.rc || result.refused ? 0 : whole.tensors);
    }
    assert_true(count > 0);
    input_free(&in);
}

static void parsers_survive_each_allocation_that_fails(void **state)
{
    (void)state;
    assert_survives("cases/fortran.npy");
    assert_survives("cases/mixed.npz");
    assert_survives("cases/adam.pt");
    assert_survives("cases/nesting_protocol_4.pt");
    assert_survives("cases/rebuilt.pt");
    assert_survives("cases/legacy_views.pt");
    assert_survives("cases/old.h5");
    assert_survives("cases/new.h5");
    assert_survives("cases/model.keras");
    assert_survives_in_whole("torch/mnist.safetensors");
}

/* From disk, since what is beside the file counts. */
static reading read_file_with_failure_at(const char *path, size_t index)
{
    tensor_file file;
    byte_source source;
    char why[256];
    ckpt_error err = {0};
    int fd = -1;
    uint64_t size;

    failing_index = SIZE_MAX;
    assert_int_equal(file_open(&fd, &size, path, NULL), 0);
    byte_source_fd(&source, fd, size, path);
    allocations = 0;
    failing_index = index;
    const int rc = tensor_file_read(&file, why, &source, &err);
    failing_index = SIZE_MAX;
    const reading result = {rc, file.count, why[0] != 0};
    tensor_file_clear(&file);
    file_close(&fd);
    return result;
}

static void distributed_checkpoints_survive_each_allocation_that_fails(void **state)
{
    static const char PATH[] = GOLDEN_DIR "/folders/pieces/__0_0.distcp";
    (void)state;
    assert_int_equal(read_file_with_failure_at(PATH, SIZE_MAX).tensors, 3);
    const size_t count = allocations;
    assert_true(count > 10);
    for (size_t i = 0; i < count; i++) {
        const reading result = read_file_with_failure_at(PATH, i);
        assert_int_equal(result.rc, CKPT_ENOMEM);
        assert_int_equal(result.tensors, 0);
    }
}

static void extents_survive_each_allocation_that_fails(void **state)
{
    tensor_file file;
    char why[256];
    extent *extents;
    size_t count;
    (void)state;
    failing_index = SIZE_MAX;
    input in = input_golden("cases/adam.pt");
    input_read(&file, why, in.data, in.size);
    for (size_t i = 0; i < 2; i++) {
        allocations = 0;
        failing_index = i;
        const int rc = extents_make(&extents, &count, &file, in.size, NULL);
        failing_index = SIZE_MAX;
        assert_int_equal(rc, CKPT_ENOMEM);
        assert_null(extents);
    }
    tensor_file_clear(&file);
    input_free(&in);
}

static void the_header_writer_survives_each_allocation_that_fails(void **state)
{
    float data[6] = {0};
    const ckpt_tensor tensors[] = {{.name = "a", .dtype = CKPT_F32, .rank = 2, .shape = {2, 3}, .data = data},
                                   {.name = "b", .dtype = CKPT_I64, .data = data}};
    const ckpt_value value = {"step", "7"};
    char *header;
    size_t size, failures = 0;
    int rc = CKPT_ENOMEM;
    (void)state;

    while (rc) {
        allocations = 0;
        failing_index = failures++;
        rc = safetensors_header(&header, &size, tensors, 2, &value, 1, NULL);
        failing_index = SIZE_MAX;
        assert_true(rc == 0 || !header);
    }
    assert_true(failures > 10);
    free(header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parsers_survive_each_allocation_that_fails),
        cmocka_unit_test(distributed_checkpoints_survive_each_allocation_that_fails),
        cmocka_unit_test(extents_survive_each_allocation_that_fails),
        cmocka_unit_test(the_header_writer_survives_each_allocation_that_fails),
    };
    failing_index = SIZE_MAX;
    json_set_alloc_funcs(__wrap_malloc, free); /* the library's own calls are not wrapped */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
