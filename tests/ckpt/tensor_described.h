/* Tensor files described as tests/ckpt/expect_torch.py does, for comparing them with what other programs see. */
#ifndef TESTS_TENSOR_DESCRIBED_H
#define TESTS_TENSOR_DESCRIBED_H

#include "tensor_input.h"

#include "hash.h"

#include <stdio.h>

static inline void add_numbers(input *out, unsigned count, const uint64_t *numbers)
{
    char text[32];
    for (unsigned i = 0; i < count; i++) {
        const int size = snprintf(text, sizeof text, "%s%llu", i ? "," : "", (unsigned long long)numbers[i]);
        input_add(out, text, (size_t)size);
    }
    if (count == 0)
        INPUT_ADD_LITERAL(out, "-");
}

/* The elements in row-major order of the shape. */
static inline input elements_gather(const tensor_view *view, const input *in)
{
    input out = {0};
    const size_t width = ckpt_dtype_size(view->dtype);
    uint64_t index[CKPT_RANK_MAX] = {0}, bytes;

    assert_true(tensor_view_bytes(&bytes, view));
    while (out.size < bytes) {
        uint64_t at = 0;
        for (unsigned i = 0; i < view->rank; i++)
            at += index[i] * (uint64_t)view->stride[i];
        input_add(&out, in->data + view->offset + at * width, width);
        for (unsigned i = view->rank; i-- > 0 && ++index[i] == view->shape[i];)
            index[i] = 0;
    }
    return out;
}

static inline void describe_view(input *out, const tensor_view *view, const input *in)
{
    sha256 hash;
    char hex[SHA256_HEX_SIZE];
    uint64_t strides[CKPT_RANK_MAX];
    input elements = elements_gather(view, in);

    for (unsigned i = 0; i < view->rank; i++)
        strides[i] = (uint64_t)view->stride[i];
    sha256_of(&hash, elements.data, elements.size);
    sha256_hex(hex, &hash);
    input_add(out, view->name, strlen(view->name));
    INPUT_ADD_LITERAL(out, "\t");
    input_add(out, ckpt_dtype_name(view->dtype), strlen(ckpt_dtype_name(view->dtype)));
    INPUT_ADD_LITERAL(out, "\t");
    add_numbers(out, view->rank, view->shape);
    INPUT_ADD_LITERAL(out, "\t");
    add_numbers(out, view->rank, strides);
    INPUT_ADD_LITERAL(out, "\t");
    input_add(out, hex, strlen(hex));
    INPUT_ADD_LITERAL(out, "\n");
    input_free(&elements);
}

static inline int view_compare(const void *a, const void *b)
{
    return strcmp(((const tensor_view *)a)->name, ((const tensor_view *)b)->name);
}

/* The file of that name below tests/golden, read from disk, holds what is expected; where its order says nothing,
 * sorted by name. */
static inline void assert_reads(const char *name, const char *format, bool sorted)
{
    char path[FILE_PATH_MAX], expected_name[FILE_PATH_MAX], why[256];
    byte_source source;
    tensor_file file;
    int fd = -1;
    uint64_t size;
    input in = input_golden(name), described = {0};

    snprintf(expected_name, sizeof expected_name, "expected/%s.txt", name);
    input expected = input_golden(expected_name);
    assert_int_equal(path_join(path, GOLDEN_DIR, name, NULL), 0);
    assert_int_equal(file_open(&fd, &size, path, NULL), 0);
    byte_source_fd(&source, fd, size, path);
    assert_int_equal(tensor_file_read(&file, why, &source, NULL), 0);
    assert_string_equal(why, "");
    assert_string_equal(file.format, format);
    if (sorted)
        qsort(file.tensors, file.count, sizeof *file.tensors, view_compare);
    for (size_t i = 0; i < file.count; i++)
        describe_view(&described, &file.tensors[i], &in);
    input_add(&described, "", 1);
    assert_string_equal(described.data, expected.data);

    file_close(&fd);
    tensor_file_clear(&file);
    input_free(&described);
    input_free(&expected);
    input_free(&in);
}

static inline void assert_reads_as_expected(const char *name, const char *format)
{
    assert_reads(name, format, false);
}

#endif
