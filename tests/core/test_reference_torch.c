/* The reference backend against PyTorch: tests/golden/training/ops.npz, written by make_ops.py beside it. */
#include "op_check.h"

#include <stdint.h>

#define ROUNDING 1.2e-7 /* two results rounded to float, from sums that differ in the last bits of a double */

typedef struct fixture {
    backend *b;
    ckpt_content *golden;
} fixture;

static int fixture_setup(void **state)
{
    static fixture f;
    ckpt_error err = {0};

    *state = &f;
    op_assert_ok(backend_reference_new(&f.b, &err), &err);
    op_assert_ok(ckpt_content_open_file(&f.golden, GOLDEN_DIR "/training/ops.npz", &err), &err);
    return 0;
}

static int fixture_teardown(void **state)
{
    fixture *const f = *state;
    ckpt_content_close(f->golden);
    backend_free(f->b);
    return 0;
}

/* The numbers of "NAME.what", for free(). */
static void *golden(const fixture *f, const char *name, const char *what, ckpt_dtype dtype, size_t count)
{
    ckpt_error err = {0};
    char full[OP_TEXT_MAX];

    snprintf(full, sizeof full, "%s.%s", name, what);
    for (size_t i = 0; i < ckpt_content_tensor_count(f->golden); i++) {
        const ckpt_tensor_info *const t = ckpt_content_tensor(f->golden, i);
        if (strcmp(t->name, full) != 0)
            continue;
        void *const numbers = malloc(t->bytes);
        assert_non_null(numbers);
        assert_int_equal(t->dtype, dtype);
        assert_int_equal(t->bytes, count * ckpt_dtype_size(dtype));
        op_assert_ok(ckpt_content_read(numbers, f->golden, i, 0, count, &err), &err);
        return numbers;
    }
    fail_msg("%s is not there", full);
    return NULL;
}

static float *golden_floats(const fixture *f, const char *name, const char *what, size_t count)
{
    return golden(f, name, what, CKPT_F32, count);
}

static double golden_double(const fixture *f, const char *name, const char *what)
{
    double *const numbers = golden(f, name, what, CKPT_F64, 1), number = numbers[0];
    free(numbers);
    return number;
}

static void op_inputs_replace(float **numbers, float *by)
{
    free(*numbers);
    *numbers = by;
}

static void assert_as_torch(void **state, const char *name, const char *layers, dims in, size_t batch, double tolerance)
{
    const fixture *const f = *state;
    const op_case c = {.layers = layers, .in = in, .batch = batch};
    op_inputs x;
    op_result want, got;

    op_inputs_new(&x, &c, 0);
    op_inputs_replace(&x.in, golden_floats(f, name, "in", x.in_count));
    op_inputs_replace(&x.out_grad, golden_floats(f, name, "out_grad", x.out_count));
    if (x.weight_count)
        op_inputs_replace(&x.weights, golden_floats(f, name, "weights", x.weight_count));
    want = (op_result){.in_count = x.in_count, .out_count = x.out_count, .weight_count = x.weight_count};
    want.out = golden_floats(f, name, "out", x.out_count);
    want.in_grad = golden_floats(f, name, "in_grad", x.in_count);
    want.weight_grads = x.weight_count ? golden_floats(f, name, "weight_grads", x.weight_count) : op_floats(0);
    op_run(&got, f->b, &c, &x);
    op_result_assert_close(&got, &want, tolerance);
    op_result_clear(&got);
    op_result_clear(&want);
    op_inputs_clear(&x);
}

static void convolution_is_that_of_torch(void **state)
{
    assert_as_torch(state, "conv", "conv 4 3x3", (dims){3, 7, 6}, 2, ROUNDING);
}

static void convolution_of_one_place_is_that_of_torch(void **state)
{
    assert_as_torch(state, "conv_1x1", "conv 3 1x1", (dims){5, 3, 4}, 1, ROUNDING);
}

static void oblong_convolution_with_a_stride_is_that_of_torch(void **state)
{
    assert_as_torch(state, "conv_stride", "conv 5 3x2 stride 2", (dims){3, 8, 7}, 3, ROUNDING);
}

static void padded_convolution_is_that_of_torch(void **state)
{
    assert_as_torch(state, "conv_pad", "conv 4 3x3 stride 2 pad 1", (dims){2, 5, 8}, 2, ROUNDING);
}

static void dense_layer_is_that_of_torch(void **state)
{
    assert_as_torch(state, "dense", "dense 11", (dims){37, 1, 1}, 3, ROUNDING);
}

static void maxpool_of_ties_and_special_values_is_that_of_torch(void **state)
{
    assert_as_torch(state, "maxpool_special", "maxpool 2", (dims){3, 7, 9}, 2, 0);
}

static void maxpool_with_windows_that_overlap_is_that_of_torch(void **state)
{
    assert_as_torch(state, "maxpool_overlap", "maxpool 3x2 stride 2", (dims){3, 7, 9}, 2, ROUNDING);
}

static void maxpool_that_leaves_places_out_is_that_of_torch(void **state)
{
    assert_as_torch(state, "maxpool_gaps", "maxpool 2 stride 3", (dims){3, 7, 9}, 2, 0);
}

static void relu_of_special_values_is_that_of_torch(void **state)
{
    assert_as_torch(state, "relu_special", "relu", (dims){3, 7, 9}, 2, 0);
}

static void assert_loss_as_torch(void **state, const char *name)
{
    enum { BATCH = 7, CLASSES = 5, COUNT = BATCH * CLASSES };
    const fixture *const f = *state;
    float *const logits = golden_floats(f, name, "logits", COUNT);
    float *const want_grad = golden_floats(f, name, "grad", COUNT), *const got_grad = op_floats(COUNT);
    float *const want_share = golden_floats(f, name, "probabilities", COUNT), *const got_share = op_floats(COUNT);
    uint8_t *const labels = golden(f, name, "labels", CKPT_U8, BATCH);
    const loss_memory m = {logits, labels, got_grad, got_share, BATCH, CLASSES, BATCH};
    const double sum = golden_double(f, name, "sum");
    loss_result got;

    assert_int_equal(f->b->loss(&got, f->b, &m, NULL), 0);
    assert_true(fabs(got.sum - sum) <= 1e-14 * sum);
    assert_int_equal(got.correct, golden_double(f, name, "correct"));
    op_assert_close(got_grad, want_grad, COUNT, ROUNDING, "gradient of the logits");
    op_assert_close(got_share, want_share, COUNT, ROUNDING, "probabilities");
    free(logits);
    free(want_grad);
    free(got_grad);
    free(want_share);
    free(got_share);
    free(labels);
}

static void cross_entropy_is_that_of_torch(void **state)
{
    assert_loss_as_torch(state, "loss");
}

static void cross_entropy_of_large_logits_is_that_of_torch(void **state)
{
    assert_loss_as_torch(state, "loss_large");
}

/* Values are rounded to float between layers here and were not there: a few roundings more. */
static void step_of_a_small_network_is_that_of_torch(void **state)
{
    enum { BATCH = 4, CLASSES = 3 };
    const double tolerance = 1e-6;
    const fixture *const f = *state;
    const op_case c = {.layers = "conv 3 3x3, relu, maxpool 2, conv 4 3x2 pad 1, relu, flatten, dense 6, relu, dense 3",
                       .in = {1, 9, 8},
                       .batch = BATCH};
    op_inputs x;
    op_result r;
    loss_result loss;
    uint8_t *const labels = golden(f, "cnn", "labels", CKPT_U8, BATCH);

    op_inputs_new(&x, &c, 0);
    float *const out = golden_floats(f, "cnn", "out", x.out_count);
    float *const in_grad = golden_floats(f, "cnn", "in_grad", x.in_count);
    float *const weight_grads = golden_floats(f, "cnn", "weight_grads", x.weight_count);
    op_inputs_replace(&x.in, golden_floats(f, "cnn", "in", x.in_count));
    op_inputs_replace(&x.weights, golden_floats(f, "cnn", "weights", x.weight_count));
    op_run(&r, f->b, &c, &x);
    op_assert_close(r.out, out, x.out_count, tolerance, "logits");
    assert_int_equal(
        f->b->loss(&loss, f->b, &(loss_memory){r.out, labels, x.out_grad, NULL, BATCH, CLASSES, BATCH}, NULL), 0);
    assert_true(fabs(loss.sum - golden_double(f, "cnn", "sum")) <= tolerance * loss.sum);
    op_result_clear(&r);
    op_run(&r, f->b, &c, &x); /* with the gradient of the loss behind it */
    op_assert_close(r.in_grad, in_grad, x.in_count, tolerance, "gradient of the input");
    op_assert_close(r.weight_grads, weight_grads, x.weight_count, tolerance, "gradient of the parameters");
    op_result_clear(&r);
    op_inputs_clear(&x);
    free(out);
    free(in_grad);
    free(weight_grads);
    free(labels);
}

/* ---- Adam -------------------------------------------------------------------------------------------------------- */

enum { ADAM_STEPS = 5, ADAM_COUNT = 200 };

/* What is left of 5 updates. */
typedef struct adam_trace {
    float *weights_after; /* [step][count] */
    float *exp_avg, *exp_avg_sq;
} adam_trace;

static void adam_run(adam_trace *out, const fixture *f)
{
    float *const grads = golden_floats(f, "adam", "grads", ADAM_STEPS * ADAM_COUNT);
    float *const weights = golden_floats(f, "adam", "weights", ADAM_COUNT);
    adam_factors factors = {1e-3, 0.9, 0.999, 1e-8, 0};
    bool finite;

    *out = (adam_trace){op_floats(ADAM_STEPS * ADAM_COUNT), calloc(ADAM_COUNT, sizeof(float)),
                        calloc(ADAM_COUNT, sizeof(float))};
    for (size_t i = 0; i < ADAM_STEPS; i++) {
        const adam_memory m = {weights, out->exp_avg, out->exp_avg_sq, grads + i * ADAM_COUNT, ADAM_COUNT};
        factors.t = i + 1;
        assert_int_equal(f->b->adam(&finite, f->b, &m, &factors, NULL), 0);
        assert_true(finite);
        memcpy(out->weights_after + i * ADAM_COUNT, weights, ADAM_COUNT * sizeof *weights);
    }
    free(grads);
    free(weights);
}

static void adam_trace_golden(adam_trace *out, const fixture *f, const char *name)
{
    *out = (adam_trace){golden_floats(f, name, "weights_after", ADAM_STEPS * ADAM_COUNT),
                        golden_floats(f, name, "exp_avg_after", ADAM_COUNT),
                        golden_floats(f, name, "exp_avg_sq_after", ADAM_COUNT)};
}

static void adam_trace_clear(adam_trace *t)
{
    free(t->weights_after);
    free(t->exp_avg);
    free(t->exp_avg_sq);
}

/* Floats in the order of their values, as whole numbers: neighbours differ by 1. */
static int64_t float_rank(float number)
{
    int32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

static void assert_ranks_near(const float *got, const float *want, size_t count, int64_t distance)
{
    for (size_t i = 0; i < count; i++)
        if (llabs(float_rank(got[i]) - float_rank(want[i])) > distance)
            fail_msg("number %zu is %.9g instead of %.9g", i, (double)got[i], (double)want[i]);
}

static void adam_has_the_bits_of_its_formula_in_numpy(void **state)
{
    adam_trace want, got;

    adam_trace_golden(&want, *state, "adam_rounded");
    adam_run(&got, *state);
    assert_memory_equal(got.weights_after, want.weights_after, ADAM_STEPS * ADAM_COUNT * sizeof(float));
    assert_memory_equal(got.exp_avg, want.exp_avg, ADAM_COUNT * sizeof(float));
    assert_memory_equal(got.exp_avg_sq, want.exp_avg_sq, ADAM_COUNT * sizeof(float));
    adam_trace_clear(&want);
    adam_trace_clear(&got);
}

/* PyTorch's kernels round a little otherwise: lerp_ contracts a multiplication with an addition, and sqrt may give the
 * neighbour of the nearest float. Where an average of gradients of both signs comes near 0 what is left is all
 * rounding, so averages are compared with the gradients that they were made of. */
static void adam_is_the_optimizer_of_torch_but_for_roundings(void **state)
{
    const fixture *const f = *state;
    adam_trace want, got;

    adam_trace_golden(&want, f, "adam");
    adam_run(&got, f);
    float *const grads = golden_floats(f, "adam", "grads", ADAM_STEPS * ADAM_COUNT);
    assert_ranks_near(got.weights_after, want.weights_after, ADAM_STEPS * ADAM_COUNT, 1);
    assert_ranks_near(got.exp_avg_sq, want.exp_avg_sq, ADAM_COUNT, 1);
    for (size_t i = 0; i < ADAM_COUNT; i++) {
        double largest = 0;
        for (size_t t = 0; t < ADAM_STEPS; t++)
            largest = fmax(largest, fabs((double)grads[t * ADAM_COUNT + i]));
        assert_true(fabs((double)got.exp_avg[i] - (double)want.exp_avg[i]) <= ROUNDING * largest);
    }
    free(grads);
    adam_trace_clear(&want);
    adam_trace_clear(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_is_that_of_torch),
        cmocka_unit_test(convolution_of_one_place_is_that_of_torch),
        cmocka_unit_test(oblong_convolution_with_a_stride_is_that_of_torch),
        cmocka_unit_test(padded_convolution_is_that_of_torch),
        cmocka_unit_test(dense_layer_is_that_of_torch),
        cmocka_unit_test(maxpool_of_ties_and_special_values_is_that_of_torch),
        cmocka_unit_test(maxpool_with_windows_that_overlap_is_that_of_torch),
        cmocka_unit_test(maxpool_that_leaves_places_out_is_that_of_torch),
        cmocka_unit_test(relu_of_special_values_is_that_of_torch),
        cmocka_unit_test(cross_entropy_is_that_of_torch),
        cmocka_unit_test(cross_entropy_of_large_logits_is_that_of_torch),
        cmocka_unit_test(step_of_a_small_network_is_that_of_torch),
        cmocka_unit_test(adam_has_the_bits_of_its_formula_in_numpy),
        cmocka_unit_test(adam_is_the_optimizer_of_torch_but_for_roundings),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
