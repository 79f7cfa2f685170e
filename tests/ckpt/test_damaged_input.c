/* Damage to files that were good: cut anywhere, or with any bit wrong. A parser then reads what still makes sense or
 * refuses with a reason; what it reads lies inside the file. Sanitizers watch the rest. */
#include "tensor_input.h"

/* Small inputs are damaged at every byte, large ones at about so many places. */
#define SMALL  8192
#define PLACES 300

static const char *const NAMES[] = {
    "cases/adam.pt",
    "cases/compressed.npz",
    "cases/fortran.npy",
    "cases/mixed.npz",
    "cases/module.pt",
    "cases/nesting.pt",
    "cases/nesting_protocol_4.pt",
    "cases/script.pt",
    "cases/special_tensors.pt",
    "cases/views.pt",
    "torch/checkpoint.pt",
    "torch/mnist.pt",
    "torch/mnist.safetensors",
    "torch/tensors.zip.pt",
    "torch/test.npz",
    "trajectory-tiny/adamw_bf16_step_30.pt",
    "trajectory-tiny/checkpoint_epoch_1.pt",
    "trajectory-tiny/model_epoch_1.safetensors",
};

#define NAME_COUNT (sizeof NAMES / sizeof NAMES[0])

static size_t step_through(size_t size)
{
    return size <= SMALL ? 1 : size / PLACES;
}

/* Reads, and checks what every caller relies on. */
static void read_and_check(const void *data, size_t size)
{
    tensor_file file;
    char why[256];
    extent *extents;
    size_t count;
    uint64_t end = 0;

    input_read(&file, why, data, size);
    for (size_t i = 0; i < file.count; i++) {
        uint64_t bytes;
        assert_true(tensor_view_bytes(&bytes, &file.tensors[i]));
        assert_true(bytes <= size);
        assert_true(file.tensors[i].offset <= size);
        assert_true(file.tensors[i].span_bytes <= size - file.tensors[i].offset);
        assert_true(tensor_name_valid(file.tensors[i].name));
    }
    assert_int_equal(extents_make(&extents, &count, &file, size, NULL), 0);
    for (size_t i = 0; i < count; i++) {
        assert_true(extents[i].offset == end && extents[i].size > 0);
        end += extents[i].size;
    }
    assert_true(end == size);
    free(extents);
    tensor_file_clear(&file);
}

static void a_file_cut_at_any_place_is_read_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAME_COUNT; i++) {
        input in = input_golden(NAMES[i]);
        const size_t step = step_through(in.size);
        for (size_t size = 0; size < in.size; size += step) {
            char *cut = malloc(size ? size : 1); /* exactly so large, for the address sanitizer */
            memcpy(cut, in.data, size);
            read_and_check(cut, size);
            free(cut);
        }
        input_free(&in);
    }
}

static void damage_at(input *in, size_t at)
{
    const char good = in->data[at];
    in->data[at] = (char)(good ^ (1 << at % 8));
    read_and_check(in->data, in->size);
    in->data[at] = (char)~good;
    read_and_check(in->data, in->size);
    in->data[at] = good;
}

static void a_file_with_any_bit_wrong_is_read_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAME_COUNT; i++) {
        input in = input_golden(NAMES[i]);
        const size_t step = step_through(in.size);
        for (size_t at = 0; at < in.size; at += step)
            damage_at(&in, at);
        input_free(&in);
    }
}

static void a_header_or_pickle_with_any_byte_wrong_is_read_or_refused(void **state)
{
    (void)state;
    /* The beginning of the file, where data.pkl and headers lie. */
    for (size_t i = 0; i < NAME_COUNT; i++) {
        input in = input_golden(NAMES[i]);
        for (size_t at = 0; at < in.size && at < SMALL / 4; at++)
            damage_at(&in, at);
        input_free(&in);
    }
}

static void a_member_cut_out_of_the_middle_is_read_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAME_COUNT; i++) {
        input in = input_golden(NAMES[i]);
        const size_t step = in.size / 200 + 1;
        for (size_t at = 0; at + step < in.size; at += step) {
            input hole = {0};
            input_add(&hole, in.data, at);
            input_add(&hole, in.data + at + step, in.size - at - step);
            read_and_check(hole.data, hole.size);
            input_free(&hole);
        }
        input_free(&in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_cut_at_any_place_is_read_or_refused),
        cmocka_unit_test(a_file_with_any_bit_wrong_is_read_or_refused),
        cmocka_unit_test(a_header_or_pickle_with_any_byte_wrong_is_read_or_refused),
        cmocka_unit_test(a_member_cut_out_of_the_middle_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
