/* Tensor files as a whole: what other programs see in the golden inputs is what we see. */
#include "tensor_described.h"

static void torch_files_read_as_pytorch_reads_them(void **state)
{
    static const char *const NAMES[] = {
        "torch/bfloat16.pt",
        "torch/checkpoint.pt",
        "torch/float16.pt",
        "torch/int64.pt",
        "torch/large_shape.pt",
        "torch/legacy_shared_storage.pt",
        "torch/mixed_types.pt",
        "torch/mnist.pt",
        "torch/nested_dict.pt",
        "torch/noncontiguous_tensor.zip.pt",
        "torch/simple_legacy.pt",
        "torch/special_values.pt",
        "torch/storage_view.legacy.pt",
        "torch/tensors.legacy.pt",
        "torch/tensors.zip.pt",
        "trajectory-tiny/adamw_bf16_step_30.pt",
        "trajectory-tiny/adamw_bf16_step_40.pt",
        "trajectory-tiny/checkpoint_epoch_1.pt",
        "trajectory-tiny/checkpoint_epoch_2.pt",
        "trajectory-tiny/checkpoint_epoch_3.pt",
        "cases/adam.pt",
        "cases/legacy_big_endian.pt",
        "cases/legacy_views.pt",
        "cases/module.pt",
        "cases/nesting.pt",
        "cases/nesting_protocol_4.pt",
        "cases/no_crc.pt",
        "cases/rebuilt.pt",
        "cases/special_tensors.pt",
        "cases/views.pt",
        "cases/wrong_crc.pt",
        "cases/zip64.pt",
    };
    (void)state;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        assert_reads_as_expected(NAMES[i], "torch");
}

static void folders_of_trainers_read_as_pytorch_reads_them(void **state)
{
    (void)state;
    assert_reads_as_expected("folders/checkpoint-2/model.safetensors", "safetensors");
    assert_reads_as_expected("folders/checkpoint-2/optimizer.pt", "torch");
    assert_reads_as_expected("folders/checkpoint-2/rng_state.pth", "torch");
    assert_reads_as_expected("folders/checkpoint-2/scheduler.pt", "torch");
    assert_reads_as_expected("folders/checkpoint-2/training_args.bin", "torch");
    assert_reads_as_expected("folders/lightning/epoch=0-step=1.ckpt", "torch");
    assert_reads_as_expected("folders/sharded/model-00001-of-00003.safetensors", "safetensors");
}

static void safetensors_files_read_as_another_reader_reads_them(void **state)
{
    (void)state;
    assert_reads_as_expected("torch/mnist.safetensors", "safetensors");
    assert_reads_as_expected("trajectory-tiny/model_epoch_1.safetensors", "safetensors");
    assert_reads_as_expected("trajectory-tiny/model_epoch_2.safetensors", "safetensors");
    assert_reads_as_expected("trajectory-tiny/model_epoch_3.safetensors", "safetensors");
}

static void numpy_files_read_as_numpy_reads_them(void **state)
{
    (void)state;
    assert_reads_as_expected("cases/matrix.npy", "npy");
    assert_reads_as_expected("cases/fortran.npy", "npy");
    assert_reads_as_expected("cases/scalar.npy", "npy");
    assert_reads_as_expected("cases/mixed.npz", "npz");
    assert_reads_as_expected("torch/test.npz", "npz");
}

/* ---- What is no tensor file ------------------------------------------------------------------------------------- */

static void assert_opaque_without_reason(const void *data, size_t size)
{
    tensor_file file;
    char why[256] = "old";
    input_read(&file, why, data, size);
    assert_string_equal(file.format, "opaque");
    assert_string_equal(why, "");
    tensor_file_clear(&file);
}

static void files_of_no_known_format_are_opaque_without_a_reason(void **state)
{
    zip_build zip = {0};
    (void)state;

    assert_opaque_without_reason("", 0);
    assert_opaque_without_reason("x", 1);
    assert_opaque_without_reason("a text of some length, {with} braces", 36);
    zip_add(&zip, "word/document.xml", "<w/>", 4, 0, 0);
    input archive = zip_finish(&zip);
    assert_opaque_without_reason(archive.data, archive.size);
    input_free(&archive);
}

static void a_pointer_of_git_lfs_is_told_from_a_checkpoint(void **state)
{
    static const char POINTER[] =
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
    (void)state;
    assert_refused(POINTER, sizeof POINTER - 1, "this is a Git LFS pointer, not a checkpoint");
}

static bool looks_cut_off(const void *data, size_t size)
{
    tensor_file file;
    char why[256];
    input_read(&file, why, data, size);
    const bool cut_off = file.cut_off;
    tensor_file_clear(&file);
    return cut_off;
}

static void a_file_that_ends_too_early_looks_cut_off_and_others_do_not(void **state)
{
    static const char *const WHOLE[] = {"trajectory-tiny/checkpoint_epoch_1.pt",
                                        "trajectory-tiny/model_epoch_1.safetensors", "torch/tensors.legacy.pt"};
    (void)state;
    for (size_t i = 0; i < sizeof WHOLE / sizeof WHOLE[0]; i++) {
        input in = input_golden(WHOLE[i]);
        assert_false(looks_cut_off(in.data, in.size));
        assert_true(looks_cut_off(in.data, in.size - 1));
        assert_true(looks_cut_off(in.data, in.size / 2));
        input_free(&in);
    }
    input script = input_golden("cases/script.pt"); /* refused for another reason */
    assert_false(looks_cut_off(script.data, script.size));
    input_free(&script);
}

/* The first bytes can be read, all else fails. */
static int read_failing(const byte_source *source, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    if (offset == 0) {
        memcpy(dst, source->data, size);
        return 0;
    }
    snprintf(err->message, sizeof err->message, "%s: device is gone", source->path);
    err->code = CKPT_EIO;
    return err->code;
}

static void a_failing_device_is_an_error_and_not_a_refusal(void **state)
{
    tensor_file file;
    char why[256];
    ckpt_error err = {0};
    (void)state;
    input in = input_golden("torch/mnist.safetensors");
    const byte_source source = {.size = in.size, .read = read_failing, .path = "input", .data = in.data};
    assert_int_equal(tensor_file_read(&file, why, &source, &err), CKPT_EIO);
    assert_string_equal(err.message, "input: device is gone");
    assert_int_equal(file.count, 0);
    input_free(&in);
}

/* ---- Views ------------------------------------------------------------------------------------------------------ */

static tensor_view view_of(const char *name, ckpt_dtype dtype, uint64_t rows, uint64_t columns)
{
    return (tensor_view){.name = strdup(name), .dtype = dtype, .rank = 2, .shape = {rows, columns}};
}

static void row_major_fills_strides_span_and_contiguity(void **state)
{
    tensor_view view = {.dtype = CKPT_F64, .rank = 3, .shape = {2, 3, 4}};
    (void)state;
    assert_int_equal(tensor_view_row_major(&view, NULL), 0);
    assert_int_equal(view.stride[0], 12);
    assert_int_equal(view.stride[1], 4);
    assert_int_equal(view.stride[2], 1);
    assert_int_equal(view.span_bytes, 192);
    assert_true(view.contiguous);
}

static void a_shape_that_overflows_is_refused(void **state)
{
    tensor_view view = {.dtype = CKPT_F32, .rank = 2, .shape = {UINT64_C(1) << 40, UINT64_C(1) << 40}};
    (void)state;
    assert_int_equal(tensor_view_row_major(&view, NULL), CKPT_EFORMAT);
    view = (tensor_view){.dtype = CKPT_F32, .rank = 1, .shape = {UINT64_C(1) << 62}};
    assert_int_equal(tensor_view_row_major(&view, NULL), CKPT_EFORMAT);
}

static void a_stride_that_overflows_or_is_negative_is_refused(void **state)
{
    tensor_view view = {.dtype = CKPT_U8, .rank = 1, .shape = {3}, .stride = {INT64_MAX}};
    (void)state;
    view.dtype = CKPT_F32;
    assert_int_equal(tensor_view_measure(&view, NULL), CKPT_EFORMAT);
    view.stride[0] = -1;
    assert_int_equal(tensor_view_measure(&view, NULL), CKPT_EFORMAT);
}

static void a_view_outside_of_the_file_is_refused(void **state)
{
    tensor_file file = {0};
    tensor_view view = view_of("a", CKPT_U8, 2, 5);
    (void)state;
    assert_int_equal(tensor_view_row_major(&view, NULL), 0);
    view.offset = 91;
    assert_int_equal(tensor_file_add(&file, &view, 100, NULL), CKPT_EFORMAT);
    assert_null(view.name);
    view.name = strdup("a");
    view.offset = 90;
    assert_int_equal(tensor_file_add(&file, &view, 100, NULL), 0);
    assert_int_equal(file.count, 1);
    tensor_file_clear(&file);
}

static void a_view_with_more_elements_than_the_file_is_refused(void **state)
{
    tensor_file file = {0};
    tensor_view view = view_of("a", CKPT_U8, 101, 1);
    (void)state;
    view.stride[0] = view.stride[1] = 0;
    assert_int_equal(tensor_view_measure(&view, NULL), 0);
    assert_int_equal(view.span_bytes, 1);
    assert_int_equal(tensor_file_add(&file, &view, 100, NULL), CKPT_EFORMAT);
    tensor_file_clear(&file);
}

/* What goes through all tensors would go through few bytes again and again. */
static void tensors_that_share_their_bytes_too_often_are_refused(void **state)
{
    const uint64_t size = UINT64_C(1) << 30;
    tensor_file file = {0};
    (void)state;
    for (unsigned i = 0; i < 1025; i++) { /* 1024 times the file, and 1 GiB */
        tensor_view view = view_of("shared", CKPT_U8, size, 1);
        assert_int_equal(tensor_view_row_major(&view, NULL), 0);
        assert_int_equal(tensor_file_add(&file, &view, size, NULL), 0);
    }
    tensor_view view = view_of("shared", CKPT_U8, 1, 1);
    assert_int_equal(tensor_view_row_major(&view, NULL), 0);
    assert_int_equal(tensor_file_add(&file, &view, size, NULL), CKPT_EFORMAT);
    tensor_file_clear(&file);
}

static void a_name_that_is_not_text_is_refused(void **state)
{
    static const char *const NAMES[] = {"",         "a\nb",         "a\x1b[31m", "\xff",
                                        "\xc0\x80", "\xed\xa0\x80", "\xc2\x85",  "cut \xe4\xb8"};
    tensor_file file = {0};
    (void)state;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        tensor_view view = view_of(NAMES[i], CKPT_U8, 1, 1);
        assert_int_equal(tensor_view_row_major(&view, NULL), 0);
        assert_int_equal(tensor_file_add(&file, &view, 100, NULL), CKPT_EFORMAT);
    }
    tensor_file_clear(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torch_files_read_as_pytorch_reads_them),
        cmocka_unit_test(folders_of_trainers_read_as_pytorch_reads_them),
        cmocka_unit_test(safetensors_files_read_as_another_reader_reads_them),
        cmocka_unit_test(numpy_files_read_as_numpy_reads_them),
        cmocka_unit_test(files_of_no_known_format_are_opaque_without_a_reason),
        cmocka_unit_test(a_pointer_of_git_lfs_is_told_from_a_checkpoint),
        cmocka_unit_test(a_failing_device_is_an_error_and_not_a_refusal),
        cmocka_unit_test(row_major_fills_strides_span_and_contiguity),
        cmocka_unit_test(a_shape_that_overflows_is_refused),
        cmocka_unit_test(a_stride_that_overflows_or_is_negative_is_refused),
        cmocka_unit_test(a_view_outside_of_the_file_is_refused),
        cmocka_unit_test(a_file_that_ends_too_early_looks_cut_off_and_others_do_not),
        cmocka_unit_test(a_view_with_more_elements_than_the_file_is_refused),
        cmocka_unit_test(tensors_that_share_their_bytes_too_often_are_refused),
        cmocka_unit_test(a_name_that_is_not_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
