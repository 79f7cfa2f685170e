#include "net.h"

#include "alloc_fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const dims IMAGE = {1, 28, 28};

static net *parse(const char *layers, dims input, size_t classes)
{
    net *n = NULL;
    ckpt_error err = {0};
    if (net_parse(&n, layers, input, classes, &err))
        fail_msg("%s: %s", layers, err.message);
    return n;
}

static void assert_dims(const dims *d, size_t channels, size_t height, size_t width)
{
    assert_int_equal(d->channels, channels);
    assert_int_equal(d->height, height);
    assert_int_equal(d->width, width);
}

/* ---- What is understood ----------------------------------------------------------------------------------------- */

/* The network of Keras' mnist_cnn example in its PyTorch form, whose `sum(p.numel() for p in model.parameters())` is
 * 1011466. */
static void mnist_cnn_has_the_shapes_and_parameters_of_pytorch(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        dims out;
    } LAYERS[] = {{"conv1", {32, 26, 26}}, {"relu1", {32, 26, 26}}, {"maxpool1", {32, 13, 13}},
                  {"conv2", {64, 11, 11}}, {"relu2", {64, 11, 11}}, {"flatten1", {7744, 1, 1}},
                  {"dense1", {128, 1, 1}}, {"relu3", {128, 1, 1}},  {"dense2", {10, 1, 1}}};
    net *const n =
        parse("conv 32 3x3, relu, maxpool 2, conv 64 3x3, relu, flatten, dense 128, relu, dense 10", IMAGE, 10);
    assert_int_equal(n->layer_count, 9);
    for (size_t i = 0; i < 9; i++) {
        const layer *const l = &n->layers[i];
        assert_string_equal(l->name, LAYERS[i].name);
        assert_dims(&l->out, LAYERS[i].out.channels, LAYERS[i].out.height, LAYERS[i].out.width);
        assert_int_equal(l->input_count, 1);
        assert_int_equal(l->inputs[0], i);
    }
    assert_dims(&n->layers[0].in, 1, 28, 28);
    assert_dims(&n->layers[3].in, 32, 13, 13);
    assert_int_equal(n->classes, 10);
    assert_int_equal(n->weight_count, 1011466);
    net_free(n);
}

static void parameters_have_pytorch_names_shapes_and_order(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned rank;
        size_t shape[NET_PARAM_RANK_MAX], offset, count, fan_in;
    } PARAMS[] = {
        {"conv1.weight", 4, {4, 2, 3, 5}, 0, 120, 30}, {"conv1.bias", 1, {4}, 120, 4, 30},
        {"dense1.weight", 2, {3, 48}, 124, 144, 48},   {"dense1.bias", 1, {3}, 268, 3, 48},
        {"dense2.weight", 2, {2, 3}, 271, 6, 3},       {"dense2.bias", 1, {2}, 277, 2, 3},
    };
    net *const n = parse("conv 4 3x5, flatten, dense 3, dense 2", (dims){2, 6, 7}, 2);
    assert_int_equal(n->param_count, 6);
    for (size_t i = 0; i < 6; i++) {
        const param *const p = &n->params[i];
        assert_string_equal(p->name, PARAMS[i].name);
        assert_int_equal(p->rank, PARAMS[i].rank);
        for (unsigned k = 0; k < p->rank; k++)
            assert_int_equal(p->shape[k], PARAMS[i].shape[k]);
        assert_int_equal(p->offset, PARAMS[i].offset);
        assert_int_equal(p->count, PARAMS[i].count);
        assert_int_equal(p->fan_in, PARAMS[i].fan_in);
    }
    assert_int_equal(n->weight_count, 279);
    net_free(n);
}

static void a_layer_knows_its_parameters(void **state)
{
    (void)state;
    net *const n = parse("relu, flatten, dense 3, relu, dense 2", (dims){1, 2, 2}, 2);
    assert_int_equal(n->layers[1].param_count, 0);
    assert_int_equal(n->layers[2].param_first, 0);
    assert_int_equal(n->layers[2].param_count, 2);
    assert_int_equal(n->layers[4].param_first, 2);
    assert_int_equal(n->layers[4].param_count, 2);
    net_free(n);
}

/* Shapes as torch.nn.Conv2d and MaxPool2d of PyTorch 2.15 give them. */
static void windows_strides_and_padding_are_as_in_pytorch(void **state)
{
    (void)state;
    static const struct {
        const char *layer;
        size_t height, width;
    } ROWS[] = {
        {"conv 3 3", 9, 16},
        {"conv 3 3x5", 9, 14},
        {"conv 3 5x3", 7, 16},
        {"conv 3 3 stride 2", 5, 8},
        {"conv 3 3 pad 1", 11, 18},
        {"conv 3 3 stride 2 pad 1", 6, 9},
        {"conv 3 3 pad 2 stride 3", 5, 7},
        {"conv 3 4 stride 3", 3, 5},
        {"conv 3 1", 11, 18},
        {"conv 3 2 stride 7", 2, 3},
        {"conv 3 11x18", 1, 1},
        {"conv 3 3 pad 0", 9, 16},
        {"maxpool 2", 5, 9},
        {"maxpool 3", 3, 6},
        {"maxpool 3 stride 2", 5, 8},
        {"maxpool 2x3 stride 1", 10, 16},
        {"maxpool 5", 2, 3},
        {"maxpool 11x18 stride 4", 1, 1},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        char layers[128];
        snprintf(layers, sizeof layers, "%s, flatten, dense 2", ROWS[i].layer);
        net *const n = parse(layers, (dims){3, 11, 18}, 2);
        assert_dims(&n->layers[0].out, 3, ROWS[i].height, ROWS[i].width);
        net_free(n);
    }
}

static void options_have_their_defaults(void **state)
{
    (void)state;
    net *const n = parse("conv 3 5x3, maxpool 4, flatten, dense 2", IMAGE, 2);
    assert_int_equal(n->layers[0].kernel_height, 5);
    assert_int_equal(n->layers[0].kernel_width, 3);
    assert_int_equal(n->layers[0].stride, 1);
    assert_int_equal(n->layers[0].padding, 0);
    assert_int_equal(n->layers[1].stride, 4);
    net_free(n);
}

static void blanks_and_lines_mean_nothing(void **state)
{
    (void)state;
    net *const n = parse("\n  conv\t4  3x3 stride   2,relu ,\n flatten\r\n,dense 2 \n", IMAGE, 2);
    assert_int_equal(n->layer_count, 4);
    assert_dims(&n->layers[0].out, 4, 13, 13);
    net_free(n);
}

static void a_vector_may_come_in(void **state)
{
    (void)state;
    net *const n = parse("relu, dense 2", (dims){7, 1, 1}, 2);
    assert_int_equal(n->weight_count, 16);
    net_free(n);
}

static void as_many_layers_as_allowed(void **state)
{
    (void)state;
    char layers[8 * NET_LAYERS_MAX] = "dense 2";
    for (size_t i = 1; i < NET_LAYERS_MAX; i++)
        strncat(layers, ",relu", sizeof layers - strlen(layers) - 1);
    net *const n = parse(layers, (dims){2, 1, 1}, 2);
    assert_int_equal(n->layer_count, NET_LAYERS_MAX);
    assert_string_equal(n->layers[NET_LAYERS_MAX - 1].name, "relu255");
    net_free(n);
}

static void kinds_have_the_names_that_are_typed(void **state)
{
    (void)state;
    assert_string_equal(layer_kind_name(LAYER_CONV), "conv");
    assert_string_equal(layer_kind_name(LAYER_RELU), "relu");
    assert_string_equal(layer_kind_name(LAYER_MAXPOOL), "maxpool");
    assert_string_equal(layer_kind_name(LAYER_FLATTEN), "flatten");
    assert_string_equal(layer_kind_name(LAYER_DENSE), "dense");
}

static void none_is_freed(void **state)
{
    (void)state;
    net_free(NULL);
}

/* ---- What is refused -------------------------------------------------------------------------------------------- */

static void assert_refused(const char *layers, dims input, const char *message, const char *hint)
{
    net *n = NULL;
    ckpt_error err = {0};
    assert_int_equal(net_parse(&n, layers, input, 10, &err), CKPT_EUSAGE);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
    assert_null(n);
}

static void texts_that_are_no_network_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *layers, *message, *hint;
    } ROWS[] = {
        {"", "a network needs at least one layer", ""},
        {" \n", "a network needs at least one layer", ""},
        {"relu,", "layer 2, ``: the name of a layer is missing", ""},
        {"relu,,relu", "layer 2, ``: the name of a layer is missing", ""},
        {"relu, conf 8 3", "layer 2, `conf 8 3`: unknown layer `conf`", "did you mean `conv`?"},
        {"relu; flatten", "layer 1, `relu; flatten`: unknown layer `relu;`", "did you mean `relu`?"},
        {"max 2", "layer 1, `max 2`: unknown layer `max`", "did you mean `maxpool`?"},
        {"softmax", "layer 1, `softmax`: unknown layer `softmax`", ""},
        {"Relu", "layer 1, `Relu`: unknown layer `Relu`", "did you mean `relu`?"},
        {"dense", "layer 1, `dense`: features: the number is missing", ""},
        {"dense ten", "layer 1, `dense ten`: features: `ten` is not a number from 1 to 65536", ""},
        {"dense 0", "layer 1, `dense 0`: features: `0` is not a number from 1 to 65536", ""},
        {"dense -1", "layer 1, `dense -1`: features: `-1` is not a number from 1 to 65536", ""},
        {"dense 65537", "layer 1, `dense 65537`: features: `65537` is not a number from 1 to 65536", ""},
        {"dense 99999999999999999999",
         "layer 1, `dense 99999999999999999999`: features: `99999999999999999999` is not a number from 1 to 65536", ""},
        {"dense 10 10", "layer 1, `dense 10 10`: unknown word `10`", ""},
        {"relu 2", "layer 1, `relu 2`: unknown word `2`", ""},
        {"conv 3x3", "layer 1, `conv 3x3`: channels: `3x3` is not a number from 1 to 65536", ""},
        {"conv 8", "layer 1, `conv 8`: window: the size is missing, `3x3` or `3`", ""},
        {"conv 8 3x", "layer 1, `conv 8 3x`: width of the window: `` is not a number from 1 to 65536", ""},
        {"conv 8 x3", "layer 1, `conv 8 x3`: height of the window: `` is not a number from 1 to 65536", ""},
        {"conv 8 3x3x3", "layer 1, `conv 8 3x3x3`: width of the window: `3x3` is not a number from 1 to 65536", ""},
        {"conv 8 0", "layer 1, `conv 8 0`: window: `0` is not a number from 1 to 65536", ""},
        {"conv 8 3 strid 2", "layer 1, `conv 8 3 strid 2`: unknown word `strid`", "did you mean `stride`?"},
        {"conv 8 3 padding 1", "layer 1, `conv 8 3 padding 1`: unknown word `padding`", ""},
        {"conv 8 3 stride", "layer 1, `conv 8 3 stride`: stride: the number is missing", ""},
        {"conv 8 3 stride 0", "layer 1, `conv 8 3 stride 0`: stride: `0` is not a number from 1 to 65536", ""},
        {"conv 8 3 pad x", "layer 1, `conv 8 3 pad x`: pad: `x` is not a number from 0 to 65536", ""},
        {"conv 8 3 pad 1 pad 1", "layer 1, `conv 8 3 pad 1 pad 1`: `pad` is given twice", ""},
        {"conv 8 3 stride 1 stride 1", "layer 1, `conv 8 3 stride 1 stride 1`: `stride` is given twice", ""},
        {"maxpool 2 pad 1", "layer 1, `maxpool 2 pad 1`: unknown word `pad`", ""},
        {"maxpool 2x3", "layer 1, `maxpool 2x3`: a window that is not square needs a stride", ""},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        assert_refused(ROWS[i].layers, IMAGE, ROWS[i].message, ROWS[i].hint);
}

static void layers_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *layers, *message, *hint;
    } ROWS[] = {
        {"maxpool 8, maxpool 4", "layer 2, `maxpool 4`: the window of 4x4 is larger than its input of 3x3", ""},
        {"conv 8 29x28", "layer 1, `conv 8 29x28`: the window of 29x28 is larger than its input of 28x28", ""},
        {"conv 8 28x29", "layer 1, `conv 8 28x29`: the window of 28x29 is larger than its input of 28x28", ""},
        {"conv 8 31 pad 1", "layer 1, `conv 8 31 pad 1`: the window of 31x31 is larger than its padded input of 30x30",
         ""},
        {"conv 8 3x5 pad 3", "layer 1, `conv 8 3x5 pad 3`: the padding of 3 is not smaller than the window of 3x5", ""},
        {"conv 8 5x3 pad 3", "layer 1, `conv 8 5x3 pad 3`: the padding of 3 is not smaller than the window of 5x3", ""},
        {"dense 10", "layer 1, `dense 10`: it needs a vector, but gets 1x28x28", "put `flatten` before it"},
        {"conv 8 28, relu, dense 10", "layer 3, `dense 10`: it needs a vector, but gets 8x1x1",
         "put `flatten` before it"},
        {"maxpool 28, dense 10", "layer 2, `dense 10`: it needs a vector, but gets 1x1x1", "put `flatten` before it"},
        {"flatten, relu, conv 8 1", "layer 3, `conv 8 1`: it needs an image, but gets a vector", ""},
        {"flatten, maxpool 1", "layer 2, `maxpool 1`: it needs an image, but gets a vector", ""},
        {"flatten, dense 8, conv 8 1", "layer 3, `conv 8 1`: it needs an image, but gets a vector", ""},
        {"flatten, dense 11", "the last layer, dense1, gives 11 numbers for 10 classes", ""},
        {"conv 10 28", "the last layer, conv1, gives 10x1x1 instead of a vector of 10",
         "put `flatten, dense 10` behind it"},
        {"conv 10 3, relu", "the last layer, relu1, gives 10x26x26 instead of a vector of 10",
         "put `flatten, dense 10` behind it"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        assert_refused(ROWS[i].layers, IMAGE, ROWS[i].message, ROWS[i].hint);
}

static void what_is_too_large_is_refused(void **state)
{
    (void)state;
    char layers[8 * NET_LAYERS_MAX] = "relu", text[400], message[600];
    for (size_t i = 0; i < NET_LAYERS_MAX; i++)
        strncat(layers, ",relu", sizeof layers - strlen(layers) - 1);
    assert_refused(layers, IMAGE, "257 layers are more than 256", "");

    snprintf(text, sizeof text, "relu, conv %0200d 3", 8);
    snprintf(message, sizeof message, "layer 2, `%.127s`: a layer has at most 127 bytes", text + strlen("relu, "));
    assert_refused(text, IMAGE, message, "");

    assert_refused("conv 65536 1 stride 1", (dims){1, 1024, 1024},
                   "layer 1, `conv 65536 1 stride 1`: it gives 65536x1024x1024, more than 2147483648 numbers for a "
                   "sample",
                   "");
    assert_refused("flatten, dense 65536", (dims){1, 1024, 1024},
                   "layer 2, `dense 65536`: its weight has more than 2147483648 numbers", "");
    assert_refused("conv 65536 65536", (dims){1, 65536, 32768},
                   "layer 1, `conv 65536 65536`: the window of 65536x65536 is larger than its input of 65536x32768",
                   "");
    assert_refused("conv 65536 32768", (dims){1, 32768, 32768},
                   "layer 1, `conv 65536 32768`: its weight has more than 2147483648 numbers", "");
}

static void batches_without_a_sane_shape_are_refused(void **state)
{
    (void)state;
    assert_refused("relu", (dims){0, 28, 28}, "a network cannot take 0x28x28", "");
    assert_refused("relu", (dims){1, 0, 28}, "a network cannot take 1x0x28", "");
    assert_refused("relu", (dims){1, 28, 0}, "a network cannot take 1x28x0", "");
    assert_refused("relu", (dims){65537, 1, 1}, "a network cannot take 65537x1x1", "");
    assert_refused("relu", (dims){1, 65537, 1}, "a network cannot take 1x65537x1", "");
    assert_refused("relu", (dims){1, 1, 65537}, "a network cannot take 1x1x65537", "");
    assert_refused("relu", (dims){1, 65536, 32769}, "a network cannot take 1x65536x32769", "");
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = ALLOC_FAIL_WORKS;
    if (!failed)
        skip();
    for (long at = 1; failed; at++) {
        net *n = NULL;
        alloc_fail_arm(at);
        const int rc = net_parse(&n, "flatten, dense 10", IMAGE, 10, NULL);
        failed = alloc_fail_disarm();
        assert_int_equal(rc, failed ? CKPT_ENOMEM : 0);
        assert_int_equal(n == NULL, failed);
        net_free(n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mnist_cnn_has_the_shapes_and_parameters_of_pytorch),
        cmocka_unit_test(parameters_have_pytorch_names_shapes_and_order),
        cmocka_unit_test(a_layer_knows_its_parameters),
        cmocka_unit_test(windows_strides_and_padding_are_as_in_pytorch),
        cmocka_unit_test(options_have_their_defaults),
        cmocka_unit_test(blanks_and_lines_mean_nothing),
        cmocka_unit_test(a_vector_may_come_in),
        cmocka_unit_test(as_many_layers_as_allowed),
        cmocka_unit_test(kinds_have_the_names_that_are_typed),
        cmocka_unit_test(none_is_freed),
        cmocka_unit_test(texts_that_are_no_network_are_refused),
        cmocka_unit_test(layers_that_do_not_fit_are_refused),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(batches_without_a_sane_shape_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
