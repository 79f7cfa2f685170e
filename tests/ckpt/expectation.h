/* The tables of tests/golden/expected: one line a row, columns between tabs. */
#ifndef TESTS_EXPECTATION_H
#define TESTS_EXPECTATION_H

#include "file_tree.h"

#define EXPECTED_COLUMNS_MAX 24

/* Calls `each` with the columns of every line of expected/NAME. */
static inline void expected_rows(const char *name, void (*each)(void *payload, char *const *columns, size_t count),
                                 void *payload)
{
    char path[FILE_PATH_MAX];
    char *text = NULL, *line, *next;
    size_t size;
    join(path, GOLDEN_DIR "/expected", name);
    MUST(file_read_all(&text, &size, path, (size_t)4 << 20, ERR));
    for (next = text; (line = strsep(&next, "\n")) && line[0];) {
        char *columns[EXPECTED_COLUMNS_MAX];
        size_t count = 0;
        for (char *column; (column = strsep(&line, "\t"));) {
            assert_true(count < EXPECTED_COLUMNS_MAX);
            columns[count++] = column;
        }
        each(payload, columns, count);
    }
    free(text);
}

/* "2,3,4" of a shape or of strides; "-" for none. */
static inline void numbers_text(char out[256], const uint64_t *numbers, unsigned count)
{
    snprintf(out, 256, "-");
    for (unsigned i = 0, used = 0; i < count; i++)
        used += (unsigned)snprintf(out + used, 256 - used, "%s%llu", i ? "," : "", (unsigned long long)numbers[i]);
}

/* Golden inputs that have a list of tensors. */
static const char *const EXPECTED_FILES[] = {
    "cases/adam.pt",
    "cases/chunks.h5",
    "cases/compressed.npz",
    "cases/fortran.npy",
    "cases/legacy_views.pt",
    "cases/matrix.npy",
    "cases/mixed.npz",
    "cases/module.pt",
    "cases/nesting.pt",
    "cases/packed.npz",
    "cases/rebuilt.pt",
    "cases/scalar.npy",
    "cases/special_tensors.pt",
    "cases/views.pt",
    "torch/bfloat16.pt",
    "torch/checkpoint.pt",
    "torch/float16.pt",
    "torch/large_shape.pt",
    "torch/mixed_types.pt",
    "torch/mnist.safetensors",
    "torch/noncontiguous_tensor.zip.pt",
    "torch/special_values.pt",
    "torch/tensors.zip.pt",
    "torch/test.npz",
    "trajectory-tiny/adamw_bf16_step_40.pt",
    "trajectory-tiny/checkpoint_epoch_2.pt",
    "trajectory-tiny/model_epoch_2.safetensors",
};
#define EXPECTED_FILE_COUNT (sizeof EXPECTED_FILES / sizeof *EXPECTED_FILES)

#endif
