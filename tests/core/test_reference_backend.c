/* The reference backend: what it says of its operations, its memory, and special values of loss and optimizer. */
#include "alloc_fail.h"
#include "op_check.h"

#include <stdint.h>

static int backend_setup(void **state)
{
    return backend_reference_new((backend **)state, NULL);
}

static int backend_teardown(void **state)
{
    backend_free(*state);
    return 0;
}

static void bits_depend_on_no_threads_and_no_instruction_set(void **state)
{
    const backend *const b = *state;

    assert_string_equal(b->name, "reference");
    assert_int_equal(b->threads, 1);
    assert_string_equal(b->isa, "");
    assert_string_equal(b->library, "");
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

/* An operation for layer `i` of a small network, batch 5. */
static op *op_of_layer(backend *b, size_t i, bool training, bool wants_in_grad)
{
    ckpt_error err = {0};
    net *n = NULL;
    op *o = NULL;

    op_assert_ok(net_parse(&n, "conv 4 3x3, relu, maxpool 2, flatten, dense 3", (dims){2, 8, 9}, 3, &err), &err);
    const op_request request = {.net = n,
                                .layer = i,
                                .layers_max = n->layer_count - i,
                                .in = {{5, n->layers[i].in, 1, CKPT_F32}},
                                .training = training,
                                .wants_in_grad = {wants_in_grad}};
    op_assert_ok(b->op_new(&o, b, &request, &err), &err);
    net_free(n); /* an operation does not need it any more */
    return o;
}

static void operation_is_one_layer_and_has_its_name(void **state)
{
    const char *const names[] = {"conv1", "relu1", "maxpool1", "flatten1", "dense1"};

    for (size_t i = 0; i < 5; i++) {
        op *const o = op_of_layer(*state, i, true, true);
        assert_string_equal(o->name, names[i]);
        assert_int_equal(o->layer_count, 1);
        assert_int_equal(o->out.block, 1);
        assert_int_equal(o->out.batch, 5);
        o->free(o);
    }
}

static void convolution_counts_its_operations_and_bytes(void **state)
{
    op *const o = op_of_layer(*state, 0, true, true), *const first = op_of_layer(*state, 0, true, false);
    const double in = 4.0 * 5 * 2 * 8 * 9, out = 4.0 * 5 * 4 * 6 * 7, params = 4.0 * (4 * 2 * 3 * 3 + 4);
    const double flops = 2.0 * (5 * 4 * 6 * 7) * (2 * 3 * 3);

    assert_true(o->forward_flops == flops && o->backward_flops == 2 * flops);
    assert_true(o->forward_bytes == in + out + params);
    assert_true(o->backward_bytes == in + out + params + in + params);
    assert_true(first->backward_flops == flops && first->backward_bytes == in + out + params);
    o->free(o);
    first->free(first);
}

static void maxpool_keeps_a_byte_for_each_output_when_it_trains(void **state)
{
    op *const trains = op_of_layer(*state, 2, true, true), *const evaluates = op_of_layer(*state, 2, false, false);

    assert_int_equal(trains->keep_bytes, 5 * 4 * 3 * 3);
    assert_int_equal(evaluates->keep_bytes, 0);
    assert_false(trains->reads_in || trains->reads_out);
    trains->free(trains);
    evaluates->free(evaluates);
}

static void largest_window_of_maxpool_knows_its_last_place(void **state)
{
    const op_case c = {.layers = "maxpool 16", .in = {1, 16, 16}, .batch = 1};
    op_inputs x;
    op_result r;

    op_inputs_new(&x, &c, 1);
    x.in[255] = 2;
    op_run(&r, *state, &c, &x);
    assert_true(r.out[0] == 2);
    for (size_t i = 0; i < 255; i++)
        assert_true(r.in_grad[i] == 0);
    assert_true(r.in_grad[255] == x.out_grad[0]);
    op_result_clear(&r);
    op_inputs_clear(&x);
}

static void window_whose_places_no_byte_can_count_is_refused(void **state)
{
    backend *const b = *state;
    ckpt_error err = {0};
    net *n = NULL;
    op *o = NULL;

    op_assert_ok(net_parse(&n, "maxpool 17x16 stride 16, flatten, dense 1", (dims){1, 17, 16}, 1, &err), &err);
    const op_request request = {.net = n, .layers_max = 1, .in = {{1, {1, 17, 16}, 1, CKPT_F32}}, .training = true};
    assert_int_equal(b->op_new(&o, b, &request, &err), CKPT_EUSAGE);
    assert_string_equal(err.message, "maxpool1: windows of 17x16 are larger than 256 numbers");
    assert_null(o);
    net_free(n);
}

static void without_the_gradient_of_the_input_the_rest_is_the_same(void **state)
{
    op_case c = {.layers = "conv 4 3x2, relu, flatten, dense 3", .in = {2, 6, 5}, .batch = 3};
    op_inputs x;
    op_result want, got;

    op_inputs_new(&x, &c, 2);
    op_run(&want, *state, &c, &x);
    c.no_in_grad = true;
    op_run(&got, *state, &c, &x);
    assert_null(got.in_grad);
    assert_memory_equal(got.out, want.out, x.out_count * sizeof(float));
    assert_memory_equal(got.weight_grads, want.weight_grads, x.weight_count * sizeof(float));
    op_result_clear(&want);
    op_result_clear(&got);
    op_inputs_clear(&x);
}

static void first_layer_of_any_kind_may_go_without_the_gradient_of_its_input(void **state)
{
    const char *const layers[] = {"conv 4 3x2", "relu", "maxpool 2", "flatten", "dense 2"};

    for (size_t i = 0; i < 5; i++) {
        const op_case c = {
            .layers = layers[i], .in = {7, i < 4 ? 6 : 1, i < 4 ? 5 : 1}, .batch = 3, .no_in_grad = true};
        op_inputs x;
        op_result r;
        op_inputs_new(&x, &c, 3);
        op_run(&r, *state, &c, &x);
        assert_null(r.in_grad);
        op_result_clear(&r);
        op_inputs_clear(&x);
    }
}

static void evaluation_gives_what_training_gives(void **state)
{
    op_case c = {.layers = "conv 4 3x2, relu, maxpool 2, flatten, dense 3", .in = {2, 6, 5}, .batch = 1};
    op_inputs x;
    op_result want, got;

    op_inputs_new(&x, &c, 4);
    op_run(&want, *state, &c, &x);
    c.evaluate = true;
    op_run(&got, *state, &c, &x);
    assert_memory_equal(got.out, want.out, x.out_count * sizeof(float));
    op_result_clear(&want);
    op_result_clear(&got);
    op_inputs_clear(&x);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static void memory_is_zeroed_and_aligned(void **state)
{
    enum { BYTES = 1000 };
    backend *const b = *state;
    const uint8_t zeros[BYTES] = {0};
    void *memory = NULL;

    assert_int_equal(b->memory_new(&memory, b, BYTES, NULL), 0);
    assert_int_equal((uintptr_t)memory % BACKEND_ALIGNMENT, 0);
    assert_memory_equal(memory, zeros, BYTES);
    b->memory_free(b, memory);
    b->memory_free(b, NULL);
}

static void memory_of_no_bytes_is_memory(void **state)
{
    backend *const b = *state;
    void *memory = NULL;

    assert_int_equal(b->memory_new(&memory, b, 0, NULL), 0);
    assert_non_null(memory);
    b->memory_free(b, memory);
}

static void memory_that_no_machine_has_is_refused(void **state)
{
    backend *const b = *state;
    ckpt_error err = {0};
    void *memory = b;

    assert_int_equal(b->memory_new(&memory, b, SIZE_MAX, &err), CKPT_ENOMEM);
    assert_null(memory);
}

static void want_of_memory_is_told(void **state)
{
    backend *const b = *state, *other = b;
    ckpt_error err = {0};
    net *n = NULL;
    op *o = NULL;

    if (!ALLOC_FAIL_WORKS)
        skip();
    alloc_fail_arm(1);
    assert_int_equal(backend_reference_new(&other, &err), CKPT_ENOMEM);
    assert_true(alloc_fail_disarm());
    assert_null(other);
    op_assert_ok(net_parse(&n, "flatten, dense 1", (dims){1, 2, 2}, 1, &err), &err);
    const op_request request = {.net = n, .layers_max = 1, .in = {{1, {1, 2, 2}, 1, CKPT_F32}}};
    alloc_fail_arm(1);
    assert_int_equal(b->op_new(&o, b, &request, &err), CKPT_ENOMEM);
    assert_true(alloc_fail_disarm());
    assert_null(o);
    net_free(n);
}

static void what_is_written_is_read(void **state)
{
    backend *const b = *state;
    char got[6];
    void *memory = NULL;

    assert_int_equal(b->memory_new(&memory, b, 6, NULL), 0);
    assert_int_equal(b->write(b, memory, "tensor", 6, NULL), 0);
    assert_int_equal(b->wait(b, NULL), 0);
    assert_int_equal(b->read(b, got, memory, 6, NULL), 0);
    assert_memory_equal(got, "tensor", 6);
    b->memory_free(b, memory);
}

static void gather_scales_the_samples_and_empties_the_rest(void **state)
{
    backend *const b = *state;
    const uint8_t samples[] = {0, 1, 2, 10, 20, 30, 255, 254, 253};
    const uint32_t indices[] = {2, 0, 2};
    const float want[] = {127.5f, 127, 126.5f, 0, 0.5f, 1, 127.5f, 127, 126.5f, 0, 0, 0, 0, 0, 0};
    float *const rows = op_floats(15);

    assert_int_equal(b->gather(rows, b, samples, 3, indices, 3, 5, 0.5f, NULL), 0);
    assert_memory_equal(rows, want, sizeof want);
    free(rows);
}

/* ---- Loss -------------------------------------------------------------------------------------------------------- */

static void rows_that_fill_up_count_for_nothing(void **state)
{
    backend *const b = *state;
    const float logits[] = {0, 0, NAN, NAN, INFINITY, 1};
    const uint8_t labels[] = {0};
    const float zeros[4] = {0};
    float *const grad = op_floats(6), *const shares = op_floats(6);
    const loss_memory m = {logits, labels, grad, shares, 3, 2, 1};
    loss_result r;

    assert_int_equal(b->loss(&r, b, &m, NULL), 0);
    assert_true(fabs(r.sum - log(2)) < 1e-15);
    assert_int_equal(r.correct, 1);
    assert_true(grad[0] == -0.5f && grad[1] == 0.5f && shares[0] == 0.5f && shares[1] == 0.5f);
    assert_memory_equal(grad + 2, zeros, sizeof zeros);
    assert_memory_equal(shares + 2, zeros, sizeof zeros);
    free(grad);
    free(shares);
}

static loss_result loss_of_row(backend *b, const float logits[3], uint8_t label)
{
    loss_result r;
    assert_int_equal(b->loss(&r, b, &(loss_memory){logits, &label, NULL, NULL, 1, 3, 1}, NULL), 0);
    return r;
}

static void loss_of_a_row_with_nan_is_nan(void **state)
{
    assert_true(isnan(loss_of_row(*state, (float[]){NAN, 1, 2}, 1).sum));
    assert_true(isnan(loss_of_row(*state, (float[]){1, 2, NAN}, 1).sum));
    assert_true(isnan(loss_of_row(*state, (float[]){1, INFINITY, 2}, 1).sum));
}

static void loss_of_a_label_that_cannot_be_is_infinite(void **state)
{
    const double loss = loss_of_row(*state, (float[]){1, -INFINITY, 2}, 1).sum;
    assert_true(isinf(loss) && loss > 0);
}

static void first_of_equal_logits_is_the_answer(void **state)
{
    assert_int_equal(loss_of_row(*state, (float[]){1, 3, 3}, 1).correct, 1);
    assert_int_equal(loss_of_row(*state, (float[]){1, 3, 3}, 2).correct, 0);
}

/* ---- Adam -------------------------------------------------------------------------------------------------------- */

/* The first update of one weight from fresh averages; *finite as the backend says. */
static float adam_first(bool *finite, backend *b, float weight, float grad, const adam_factors *f)
{
    float exp_avg = 0, exp_avg_sq = 0;
    const adam_memory m = {&weight, &exp_avg, &exp_avg_sq, &grad, 1};

    assert_int_equal(b->adam(finite, b, &m, f, NULL), 0);
    return weight;
}

static const adam_factors USUAL = {1e-3, 0.9, 0.999, 1e-8, 1};

static void adam_leaves_weights_without_gradient_alone(void **state)
{
    const float weights[] = {0.0f, -0.0f, 1.5f, -3e38f, 1e-42f};

    for (size_t i = 0; i < 5; i++) {
        bool finite;
        const float after = adam_first(&finite, *state, weights[i], 0, &USUAL);
        assert_memory_equal(&after, &weights[i], sizeof after);
        assert_true(finite);
    }
}

static void adam_without_memory_steps_by_the_rate(void **state)
{
    const adam_factors f = {0.25, 0, 0, 0, 7};
    bool finite;

    assert_true(adam_first(&finite, *state, 1, 2, &f) == 0.75f);
    assert_true(adam_first(&finite, *state, 1, -1e10f, &f) == 1.25f);
}

/* lr * g / eps: the square of such a gradient is 0. */
static void adam_sees_gradients_below_the_normal_numbers(void **state)
{
    bool finite;
    const double after = (double)adam_first(&finite, *state, 0, 1e-40f, &USUAL);
    assert_true(fabs(after + 1e-35) < 1e-37); /* numbers that small have few bits */
}

static void adam_tells_of_weights_that_are_not_finite(void **state)
{
    const adam_factors no_eps = {1e-3, 0.9, 0.999, 0, 1};
    bool finite;

    assert_true(isnan(adam_first(&finite, *state, 1, NAN, &USUAL)));
    assert_false(finite);
    assert_true(isnan(adam_first(&finite, *state, 1, -INFINITY, &USUAL))); /* infinity by infinity */
    assert_false(finite);
    assert_true(isinf(adam_first(&finite, *state, INFINITY, 1, &USUAL)));
    assert_false(finite);
    assert_true(isnan(adam_first(&finite, *state, 1, 0, &no_eps))); /* 0 by 0 */
    assert_false(finite);
}

/* Its average stays finite and its square does not, so that the step becomes 0. */
static void adam_takes_no_step_from_a_gradient_whose_square_is_infinite(void **state)
{
    bool finite;
    assert_true(adam_first(&finite, *state, 1, 1e30f, &USUAL) == 1);
    assert_true(finite);
}

static void one_bad_weight_among_good_ones_is_told(void **state)
{
    backend *const b = *state;
    float weights[] = {1, 2, 3}, exp_avg[3] = {0}, exp_avg_sq[3] = {0};
    const float grads[] = {1, NAN, 1};
    bool finite = true;

    assert_int_equal(b->adam(&finite, b, &(adam_memory){weights, exp_avg, exp_avg_sq, grads, 3}, &USUAL, NULL), 0);
    assert_false(finite);
    assert_true(isnan(weights[1]) && isfinite(weights[0]) && isfinite(weights[2]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_depend_on_no_threads_and_no_instruction_set),
        cmocka_unit_test(operation_is_one_layer_and_has_its_name),
        cmocka_unit_test(convolution_counts_its_operations_and_bytes),
        cmocka_unit_test(maxpool_keeps_a_byte_for_each_output_when_it_trains),
        cmocka_unit_test(largest_window_of_maxpool_knows_its_last_place),
        cmocka_unit_test(window_whose_places_no_byte_can_count_is_refused),
        cmocka_unit_test(without_the_gradient_of_the_input_the_rest_is_the_same),
        cmocka_unit_test(first_layer_of_any_kind_may_go_without_the_gradient_of_its_input),
        cmocka_unit_test(evaluation_gives_what_training_gives),
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(memory_of_no_bytes_is_memory),
        cmocka_unit_test(memory_that_no_machine_has_is_refused),
        cmocka_unit_test(want_of_memory_is_told),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(gather_scales_the_samples_and_empties_the_rest),
        cmocka_unit_test(rows_that_fill_up_count_for_nothing),
        cmocka_unit_test(loss_of_a_row_with_nan_is_nan),
        cmocka_unit_test(loss_of_a_label_that_cannot_be_is_infinite),
        cmocka_unit_test(first_of_equal_logits_is_the_answer),
        cmocka_unit_test(adam_leaves_weights_without_gradient_alone),
        cmocka_unit_test(adam_without_memory_steps_by_the_rate),
        cmocka_unit_test(adam_sees_gradients_below_the_normal_numbers),
        cmocka_unit_test(adam_tells_of_weights_that_are_not_finite),
        cmocka_unit_test(adam_takes_no_step_from_a_gradient_whose_square_is_infinite),
        cmocka_unit_test(one_bad_weight_among_good_ones_is_told),
    };
    return cmocka_run_group_tests(tests, backend_setup, backend_teardown);
}
