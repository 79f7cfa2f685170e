/* The reference backend's gradients against finite differences: how much a random linear function of the output moves
 * when one number of the input or of the parameters is moved a little to both sides. */
#include "op_check.h"

static int backend_setup(void **state)
{
    return backend_reference_new((backend **)state, NULL);
}

static int backend_teardown(void **state)
{
    backend_free(*state);
    return 0;
}

/* sum over i of out_grad[i] * out[i] */
static double out_functional(backend *b, const op_case *c, const op_inputs *x)
{
    op_case forward = *c;
    op_result r;
    double sum = 0;

    forward.evaluate = true;
    op_run(&r, b, &forward, x);
    for (size_t i = 0; i < x->out_count; i++)
        sum += (double)x->out_grad[i] * (double)r.out[i];
    op_result_clear(&r);
    return sum;
}

/* `number` is one of those in `x`. */
static float out_slope(backend *b, const op_case *c, const op_inputs *x, float *number, float step)
{
    const float before = *number, above = before + step, below = before - step;

    *number = above;
    const double high = out_functional(b, c, x);
    *number = below;
    const double low = out_functional(b, c, x);
    *number = before;
    return (float)((high - low) / ((double)above - (double)below));
}

static void assert_slopes(backend *b, const op_case *c, const op_inputs *x, float *numbers, const float *grads,
                          size_t count, float step, const char *what)
{
    float *const slopes = op_floats(count);

    for (size_t i = 0; i < count; i++)
        slopes[i] = out_slope(b, c, x, numbers + i, step);
    op_assert_close(grads, slopes, count, 1e-5, what);
    free(slopes);
}

/* Every layer here is linear within `step`, so that the difference is the slope but for the rounding of outputs. */
static void assert_gradients(backend *b, const op_case *c, op_inputs *x, float step)
{
    op_result r;

    op_run(&r, b, c, x);
    assert_slopes(b, c, x, x->in, r.in_grad, x->in_count, step, "gradient of the input");
    assert_slopes(b, c, x, x->weights, r.weight_grads, x->weight_count, step, "gradient of the parameters");
    op_result_clear(&r);
    op_inputs_clear(x);
}

static void assert_linear_gradients(void **state, const char *layers, dims in, size_t batch)
{
    const op_case c = {.layers = layers, .in = in, .batch = batch};
    op_inputs x;

    op_inputs_new(&x, &c, 11);
    assert_gradients(*state, &c, &x, 0.5f);
}

/* Inputs are multiples of 1/8, no two the same and none 0, so that a step of 1/32 passes no kink. */
static void assert_kinked_gradients(void **state, const char *layers, dims in, size_t batch)
{
    const op_case c = {.layers = layers, .in = in, .batch = batch};
    op_inputs x;

    op_inputs_new(&x, &c, 12);
    assert_in_range(x.in_count, 1, 508);
    for (size_t i = 0; i < x.in_count; i++)
        x.in[i] = ((float)(37 * (i + 1) % 509) - 254.5f) / 8; /* 509 is a prime */
    assert_gradients(*state, &c, &x, 1 / 32.0f);
}

static void gradients_of_a_plain_convolution_hold(void **state)
{
    assert_linear_gradients(state, "conv 2 3x3", (dims){1, 5, 5}, 1);
}

static void gradients_of_a_convolution_of_one_place_hold(void **state)
{
    assert_linear_gradients(state, "conv 4 1x1", (dims){5, 3, 2}, 2);
}

static void gradients_of_an_oblong_convolution_with_a_stride_hold(void **state)
{
    assert_linear_gradients(state, "conv 3 3x2 stride 2", (dims){2, 7, 6}, 2);
}

static void gradients_of_a_padded_convolution_hold(void **state)
{
    assert_linear_gradients(state, "conv 3 3x3 pad 1", (dims){2, 5, 4}, 3);
}

static void gradients_of_a_padded_convolution_with_a_stride_hold(void **state)
{
    assert_linear_gradients(state, "conv 2 3x2 stride 2 pad 1", (dims){3, 6, 5}, 1);
}

static void gradients_of_a_convolution_over_the_whole_image_hold(void **state)
{
    assert_linear_gradients(state, "conv 3 4x5", (dims){2, 4, 5}, 2);
}

static void gradients_of_a_convolution_that_leaves_places_out_hold(void **state)
{
    assert_linear_gradients(state, "conv 2 2x2 stride 3", (dims){2, 7, 8}, 2);
}

static void gradients_of_a_convolution_wider_than_its_image_hold(void **state)
{
    assert_linear_gradients(state, "conv 2 5x5 pad 4", (dims){1, 1, 2}, 1);
}

static void gradients_of_a_dense_layer_hold(void **state)
{
    assert_linear_gradients(state, "dense 5", (dims){13, 1, 1}, 3);
}

static void gradients_of_a_dense_layer_of_one_number_hold(void **state)
{
    assert_linear_gradients(state, "dense 1", (dims){1, 1, 1}, 1);
}

static void gradients_of_flatten_hold(void **state)
{
    assert_linear_gradients(state, "flatten", (dims){3, 2, 5}, 2);
}

static void gradients_of_relu_hold(void **state)
{
    assert_kinked_gradients(state, "relu", (dims){3, 5, 7}, 2);
}

static void gradients_of_maxpool_hold(void **state)
{
    assert_kinked_gradients(state, "maxpool 2", (dims){3, 4, 6}, 2);
}

static void gradients_of_maxpool_that_leaves_the_edge_out_hold(void **state)
{
    assert_kinked_gradients(state, "maxpool 2", (dims){2, 5, 7}, 1);
}

static void gradients_of_maxpool_with_windows_that_overlap_hold(void **state)
{
    assert_kinked_gradients(state, "maxpool 3x2 stride 1", (dims){2, 6, 5}, 3);
}

static void gradients_of_maxpool_that_leaves_places_out_hold(void **state)
{
    assert_kinked_gradients(state, "maxpool 2x1 stride 3", (dims){1, 8, 7}, 2);
}

/* The mean over the rows that count: rows beyond have no gradient. */
static void gradient_of_the_loss_holds(void **state)
{
    enum { BATCH = 4, COUNT = 3, CLASSES = 5 };
    backend *const b = *state;
    const uint8_t labels[BATCH] = {4, 0, 2, 1};
    float *const logits = op_random(BATCH * CLASSES, 13, 0), *const grad = op_floats(BATCH * CLASSES);
    float slopes[BATCH * CLASSES];
    loss_memory m = {.logits = logits, .labels = labels, .logits_grad = grad};
    loss_result high, low;
    const float step = 1 / 128.0f;

    m.batch = BATCH;
    m.classes = CLASSES;
    m.count = COUNT;
    assert_int_equal(b->loss(&high, b, &m, NULL), 0);
    m.logits_grad = NULL;
    for (size_t i = 0; i < BATCH * CLASSES; i++) {
        const float before = logits[i];
        logits[i] = before + step;
        assert_int_equal(b->loss(&high, b, &m, NULL), 0);
        logits[i] = before - step;
        assert_int_equal(b->loss(&low, b, &m, NULL), 0);
        logits[i] = before;
        slopes[i] = (float)((high.sum - low.sum) / COUNT / (2 * (double)step));
    }
    op_assert_close(grad, slopes, BATCH * CLASSES, 1e-4, "gradient of the logits");
    free(logits);
    free(grad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_a_plain_convolution_hold),
        cmocka_unit_test(gradients_of_a_convolution_of_one_place_hold),
        cmocka_unit_test(gradients_of_an_oblong_convolution_with_a_stride_hold),
        cmocka_unit_test(gradients_of_a_padded_convolution_hold),
        cmocka_unit_test(gradients_of_a_padded_convolution_with_a_stride_hold),
        cmocka_unit_test(gradients_of_a_convolution_over_the_whole_image_hold),
        cmocka_unit_test(gradients_of_a_convolution_that_leaves_places_out_hold),
        cmocka_unit_test(gradients_of_a_convolution_wider_than_its_image_hold),
        cmocka_unit_test(gradients_of_a_dense_layer_hold),
        cmocka_unit_test(gradients_of_a_dense_layer_of_one_number_hold),
        cmocka_unit_test(gradients_of_flatten_hold),
        cmocka_unit_test(gradients_of_relu_hold),
        cmocka_unit_test(gradients_of_maxpool_hold),
        cmocka_unit_test(gradients_of_maxpool_that_leaves_the_edge_out_hold),
        cmocka_unit_test(gradients_of_maxpool_with_windows_that_overlap_hold),
        cmocka_unit_test(gradients_of_maxpool_that_leaves_places_out_hold),
        cmocka_unit_test(gradient_of_the_loss_holds),
    };
    return cmocka_run_group_tests(tests, backend_setup, backend_teardown);
}
