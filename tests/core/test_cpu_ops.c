/* The operations of the backend `cpu` against the reference, each alone and with what goes along, forward and backward.
 */
#include "backend_pair.h"

#include <stdint.h>

/* A sum of n products in float is off by at most about n 2^-24 times the sum of their sizes, and mostly by about the
 * root of n (Higham, "Accuracy and Stability of Numerical Algorithms", chapter 3). The sum of sizes of numbers in
 * (-1, 1) exceeds the largest sum of the tensor, which op_check.h scales with, by no more than the root of n; so n is
 * what is left, with 2 for the chance in single numbers. */
static double tolerance_of(size_t terms)
{
    return 2 * 0x1p-24 * (double)(terms + 4);
}

/* What the reference says, which knows no blocks. */
static void run_reference(op_result *want, const pair *p, const op_case *c, const op_inputs *x)
{
    op_case plain = *c;
    plain.in_block = 0;
    plain.layers_max = 1;
    op_run(want, p->reference, &plain, x);
}

static void assert_close_to_reference(const pair *p, const op_case *c, size_t terms)
{
    op_inputs x;
    op_result want, got;

    op_inputs_new(&x, c, 1);
    run_reference(&want, p, c, &x);
    op_run(&got, p->cpu, c, &x);
    op_result_assert_close(&got, &want, tolerance_of(terms));
    op_result_clear(&want);
    op_result_clear(&got);
    op_inputs_clear(&x);
}

static void assert_same_bits(const op_result *got, const op_result *want)
{
    assert_memory_equal(got->out, want->out, want->out_count * sizeof(float));
    if (want->in_grad)
        assert_memory_equal(got->in_grad, want->in_grad, want->in_count * sizeof(float));
    if (want->weight_count)
        assert_memory_equal(got->weight_grads, want->weight_grads, want->weight_count * sizeof(float));
}

/* ---- Sums: convolution and dense layers -------------------------------------------------------------------------- */

static const size_t CHANNELS[] = {1, 3, 8, 10, 16, 20, 33};
#define CHANNEL_COUNT (sizeof CHANNELS / sizeof CHANNELS[0])

/* Blocks in which a convolution may get its input: those that vectors like, the plain order, and all channels. */
static const size_t BLOCKS[] = {1, 4, 8, 16, 0};
#define BLOCK_COUNT (sizeof BLOCKS / sizeof BLOCKS[0])

static size_t block_of(size_t i, size_t channels)
{
    return BLOCKS[i] ? BLOCKS[i] : channels;
}

/* Backward adds over the batch and all places. */
static size_t conv_terms(const op_case *c)
{
    return c->batch * c->in.height * c->in.width + 9 * 33;
}

static void convolution_takes_any_number_of_channels_in_any_block(void **state)
{
    for (size_t i = 0; i < CHANNEL_COUNT; i++)
        for (size_t k = 0; k < BLOCK_COUNT; k++) {
            const size_t channels = CHANNELS[i];
            const op_case c = {
                .layers = "conv 20 3x3", .in = {channels, 6, 5}, .batch = 2, .in_block = block_of(k, channels)};
            assert_close_to_reference(*state, &c, conv_terms(&c));
        }
}

static void convolution_gives_any_number_of_channels(void **state)
{
    static const char *const LAYERS[] = {"conv 1 3x3",  "conv 3 3x3",  "conv 8 3x3", "conv 10 3x3",
                                         "conv 16 3x3", "conv 20 3x3", "conv 33 3x3"};

    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++)
        for (size_t channels = 1; channels <= 16; channels += 15) {
            const op_case c = {.layers = LAYERS[i], .in = {channels, 7, 9}, .batch = 3, .in_block = channels};
            assert_close_to_reference(*state, &c, conv_terms(&c));
        }
}

static void convolution_has_any_window_stride_and_padding(void **state)
{
    static const char *const LAYERS[] = {"conv 5 1x1",          "conv 5 5x2",       "conv 7 3x3 stride 2",
                                         "conv 16 3x3 pad 1",   "conv 4 2x5 pad 1", "conv 9 3x3 stride 2 pad 1",
                                         "conv 8 7x7 stride 3", "conv 3 9x11"};

    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++)
        for (size_t channels = 1; channels <= 3; channels++)
            for (size_t batch = 1; batch <= 9; batch += 4) {
                const op_case c = {.layers = LAYERS[i], .in = {channels, 9, 11}, .batch = batch};
                assert_close_to_reference(*state, &c, conv_terms(&c));
            }
}

static void convolutions_follow_each_other_in_the_blocks_that_they_choose(void **state)
{
    const op_case c = {
        .layers = "conv 33 3x3 pad 1, conv 16 1x1, conv 10 3x3 stride 2, conv 24 2x2", .in = {3, 12, 9}, .batch = 4};
    assert_close_to_reference(*state, &c, 20 * conv_terms(&c)); /* four sums one behind the other */
}

static void first_convolution_gives_nothing_back(void **state)
{
    const op_case c = {.layers = "conv 32 3x3", .in = {1, 28, 28}, .batch = 7, .no_in_grad = true};
    assert_close_to_reference(*state, &c, conv_terms(&c));
}

static void dense_takes_any_shape(void **state)
{
    static const char *const LAYERS[] = {"flatten, dense 1", "flatten, dense 10", "flatten, dense 33",
                                         "flatten, dense 128"};

    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++)
        for (size_t batch = 1; batch <= 65; batch += 32)
            for (size_t width = 1; width <= 121; width += 40) {
                const op_case c = {.layers = LAYERS[i], .in = {3, 1, width}, .batch = batch, .first = 1};
                assert_close_to_reference(*state, &c, batch + 3 * width + 128);
            }
}

static void dense_and_relu_are_one_operation(void **state)
{
    static const char *const LAYERS[] = {"flatten, dense 5, relu", "flatten, dense 16, relu",
                                         "flatten, dense 100, relu"};
    const pair *const p = *state;

    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++) {
        const op_case c = {.layers = LAYERS[i], .in = {3, 5, 7}, .batch = 9, .first = 1, .layers_max = 2};
        op_inputs x;
        op_result got;
        assert_close_to_reference(p, &c, 9 + 105 + 100);
        op_inputs_new(&x, &c, 1);
        op_run(&got, p->cpu, &c, &x);
        assert_int_equal(got.op_count, 1);
        op_result_clear(&got);
        op_inputs_clear(&x);
    }
}

#define MNIST_CNN "conv 32 3x3, relu, maxpool 2, conv 64 3x3, relu, flatten, dense 128, relu, dense 10"

static void whole_network_is_close_to_the_reference(void **state)
{
    for (size_t batch = 1; batch <= 5; batch += 4) {
        const op_case c = {.layers = MNIST_CNN, .in = {1, 28, 28}, .batch = batch, .layers_max = 9, .no_in_grad = true};
        assert_close_to_reference(*state, &c, 7744 + batch * 26 * 26);
    }
}

static void whole_network_is_six_operations(void **state)
{
    const pair *const p = *state;
    const op_case c = {.layers = MNIST_CNN, .in = {1, 28, 28}, .batch = 2, .layers_max = 9};
    op_inputs x;
    op_result got;

    op_inputs_new(&x, &c, 1);
    op_run(&got, p->cpu, &c, &x);
    assert_int_equal(got.op_count, 6); /* conv, relu+maxpool, conv, relu+flatten, dense+relu, dense */
    op_result_clear(&got);
    op_inputs_clear(&x);
}

static void bits_are_the_same_in_every_run(void **state)
{
    const pair *const p = *state;
    const op_case c = {.layers = MNIST_CNN, .in = {1, 28, 28}, .batch = 37, .layers_max = 9};
    op_inputs x;
    op_result first, again;

    op_inputs_new(&x, &c, 1);
    op_run(&first, p->cpu, &c, &x);
    for (int i = 0; i < 3; i++) {
        op_run(&again, p->cpu, &c, &x);
        assert_same_bits(&again, &first);
        op_result_clear(&again);
    }
    op_result_clear(&first);
    op_inputs_clear(&x);
}

static void evaluation_gives_what_training_gives(void **state)
{
    const pair *const p = *state;
    op_case c = {.layers = MNIST_CNN, .in = {1, 28, 28}, .batch = 11, .layers_max = 9};
    op_inputs x;
    op_result trained, evaluated;

    op_inputs_new(&x, &c, 1);
    op_run(&trained, p->cpu, &c, &x);
    c.evaluate = true;
    op_run(&evaluated, p->cpu, &c, &x);
    assert_memory_equal(evaluated.out, trained.out, trained.out_count * sizeof(float));
    op_result_clear(&trained);
    op_result_clear(&evaluated);
    op_inputs_clear(&x);
}

/* ---- Choices: relu, max-pool, flatten are exact ------------------------------------------------------------------ */

/* Numbers that are treated specially, among ordinary ones and among equal ones. */
static void special_numbers_put(float *numbers, size_t count)
{
    static const float SPECIAL[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 0.5f, 0.5f, 1e-40f, -1e-40f};

    for (size_t i = 0; i < count; i++)
        if (random_word(7, RANDOM_INIT, 0, i) % 3 == 0)
            numbers[i] = SPECIAL[random_word(7, RANDOM_INIT, 1, i) % (sizeof SPECIAL / sizeof SPECIAL[0])];
}

static void assert_bits_of_reference(const pair *p, const op_case *c, size_t ops)
{
    op_inputs x;
    op_result want, got;

    op_inputs_new(&x, c, 1);
    special_numbers_put(x.in, x.in_count);
    x.out_grad[0] = -0.0f;
    run_reference(&want, p, c, &x);
    op_run(&got, p->cpu, c, &x);
    assert_int_equal(got.op_count, ops);
    assert_same_bits(&got, &want);
    op_result_clear(&want);
    op_result_clear(&got);
    op_inputs_clear(&x);
}

/* Layers that make one operation, in every block, channels and batch. */
static void assert_exact(const pair *p, const char *layers, size_t layers_max, size_t height, size_t width)
{
    for (size_t i = 0; i < CHANNEL_COUNT; i++)
        for (size_t k = 0; k < BLOCK_COUNT; k++)
            for (size_t batch = 1; batch <= 3; batch += 2) {
                const size_t channels = CHANNELS[i];
                const op_case c = {.layers = layers,
                                   .in = {channels, height, width},
                                   .batch = batch,
                                   .in_block = block_of(k, channels),
                                   .layers_max = layers_max};
                assert_bits_of_reference(p, &c, 1);
            }
}

static void relu_is_exact(void **state)
{
    assert_exact(*state, "relu", 1, 5, 7);
}

static void long_relu_is_exact(void **state)
{
    const op_case c = {.layers = "relu", .in = {33, 31, 29}, .batch = 5, .in_block = 16};
    assert_bits_of_reference(*state, &c, 1);
}

static void maxpool_is_exact(void **state)
{
    static const char *const LAYERS[] = {"maxpool 2",          "maxpool 3",          "maxpool 2x3 stride 3",
                                         "maxpool 1 stride 2", "maxpool 2 stride 3", "maxpool 3x2 stride 4"};

    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++)
        assert_exact(*state, LAYERS[i], 1, 7, 9);
}

static void maxpool_with_overlapping_windows_is_exact(void **state)
{
    static const char *const LAYERS[] = {"maxpool 3 stride 2", "maxpool 2 stride 1", "maxpool 3x2 stride 2",
                                         "maxpool 5x4 stride 2"};

    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++)
        assert_exact(*state, LAYERS[i], 1, 7, 9);
}

static void maxpool_of_the_whole_plane_is_exact(void **state)
{
    const op_case c = {.layers = "maxpool 16x16", .in = {20, 16, 17}, .batch = 2, .in_block = 16};
    assert_bits_of_reference(*state, &c, 1);
}

static void relu_with_maxpool_is_exact(void **state)
{
    static const char *const LAYERS[] = {"relu, maxpool 2", "relu, maxpool 3 stride 2", "relu, maxpool 2x1 stride 3"};

    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++)
        assert_exact(*state, LAYERS[i], 2, 8, 7);
}

static void flatten_is_exact(void **state)
{
    assert_exact(*state, "flatten", 1, 11, 13);
}

static void relu_with_flatten_is_exact(void **state)
{
    assert_exact(*state, "relu, flatten", 2, 11, 13);
}

static void maxpool_with_flatten_is_exact_as_two_operations(void **state)
{
    const op_case c = {.layers = "maxpool 2, flatten", .in = {20, 9, 8}, .batch = 3, .in_block = 16, .layers_max = 2};
    assert_bits_of_reference(*state, &c, 2);
}

/* ---- What operations say of themselves --------------------------------------------------------------------------- */

static op *op_of_layer(backend *b, const char *layers, dims in, size_t i, size_t block)
{
    ckpt_error err = {0};
    net *n = NULL;
    op *o = NULL;

    op_assert_ok(net_parse(&n, layers, in, 3, &err), &err);
    const op_request request = {.net = n,
                                .layer = i,
                                .layers_max = n->layer_count - i,
                                .in = {{5, n->layers[i].in, block, CKPT_F32}},
                                .training = true,
                                .wants_in_grad = {i > 0}};
    op_assert_ok(b->op_new(&o, b, &request, &err), &err);
    net_free(n); /* an operation does not need it any more */
    return o;
}

static void operations_have_the_names_of_their_layers(void **state)
{
    const pair *const p = *state;
    const char *const layers = "conv 16 3x3, relu, maxpool 2, conv 16 2x2, relu, flatten, dense 4, relu, dense 3";
    const char *const names[] = {"conv1", "relu1+maxpool1", NULL, "conv2", "relu2+flatten1",
                                 NULL,    "dense1+relu3",   NULL, "dense2"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!names[i])
            continue;
        op *const o = op_of_layer(p->cpu, layers, (dims){1, 8, 9}, i, 1);
        assert_string_equal(o->name, names[i]);
        assert_int_equal(o->layer_count, strchr(names[i], '+') ? 2 : 1);
        o->free(o);
    }
}

static void convolution_counts_its_operations_and_bytes(void **state)
{
    const pair *const p = *state;
    const char *const layers = "relu, conv 4 3x3, flatten, dense 3";
    op *const o = op_of_layer(p->cpu, layers, (dims){2, 8, 9}, 1, 1);
    const double flops = 2.0 * (5 * 4 * 6 * 7) * (2 * 3 * 3), in = 4.0 * 5 * 2 * 8 * 9,
                 params = 4.0 * (4 * 2 * 3 * 3 + 4);
    const double out = (double)value_bytes(&o->out);

    assert_true(o->forward_flops == flops && o->backward_flops == 2 * flops);
    assert_true(o->forward_bytes == in + out + params);
    assert_true(o->backward_bytes == in + out + params + in + params);
    o->free(o);
}

static void too_large_a_window_is_refused_by_name(void **state)
{
    const pair *const p = *state;
    ckpt_error err = {0};
    net *n = NULL;
    op *o = NULL;

    op_assert_ok(net_parse(&n, "maxpool 17, flatten, dense 3", (dims){1, 17, 17}, 3, &err), &err);
    const op_request request = {.net = n, .layer = 0, .layers_max = 1, .in = {{5, n->input, 1, CKPT_F32}}};
    assert_int_equal(p->cpu->op_new(&o, p->cpu, &request, &err), CKPT_EUSAGE);
    assert_non_null(strstr(err.message, "maxpool1"));
    net_free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_takes_any_number_of_channels_in_any_block),
        cmocka_unit_test(convolution_gives_any_number_of_channels),
        cmocka_unit_test(convolution_has_any_window_stride_and_padding),
        cmocka_unit_test(convolutions_follow_each_other_in_the_blocks_that_they_choose),
        cmocka_unit_test(first_convolution_gives_nothing_back),
        cmocka_unit_test(dense_takes_any_shape),
        cmocka_unit_test(dense_and_relu_are_one_operation),
        cmocka_unit_test(whole_network_is_close_to_the_reference),
        cmocka_unit_test(whole_network_is_six_operations),
        cmocka_unit_test(bits_are_the_same_in_every_run),
        cmocka_unit_test(evaluation_gives_what_training_gives),
        cmocka_unit_test(relu_is_exact),
        cmocka_unit_test(long_relu_is_exact),
        cmocka_unit_test(maxpool_is_exact),
        cmocka_unit_test(maxpool_with_overlapping_windows_is_exact),
        cmocka_unit_test(maxpool_of_the_whole_plane_is_exact),
        cmocka_unit_test(relu_with_maxpool_is_exact),
        cmocka_unit_test(flatten_is_exact),
        cmocka_unit_test(relu_with_flatten_is_exact),
        cmocka_unit_test(maxpool_with_flatten_is_exact_as_two_operations),
        cmocka_unit_test(operations_have_the_names_of_their_layers),
        cmocka_unit_test(convolution_counts_its_operations_and_bytes),
        cmocka_unit_test(too_large_a_window_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
