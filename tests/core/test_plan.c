#include "fake_backend.h"

#include "alloc_fail.h"

static const uint8_t LABELS[4] = {1, 0, 1, 1};
static const char *const MLP = "flatten, dense 6, relu, dense 2";
static const dims IMAGE = {1, 6, 6};

static int run(fake_plan *made, ckpt_error *err)
{
    loss_result result;
    return fake_plan_run(&result, made, LABELS, NULL, err);
}

/* What a training step of MLP calls when `f` is as given. */
static void assert_calls(fake_backend *f, const char *layers, plan_mode mode, const char *expected)
{
    fake_plan made = fake_plan_make(f, layers, IMAGE, 4, mode);
    assert_int_equal(run(&made, NULL), 0);
    assert_string_equal(f->calls, expected);
    fake_plan_clear(&made);
}

/* ---- Operations ------------------------------------------------------------------------------------------------- */

static void a_step_goes_forward_and_back(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    assert_calls(&f, "conv 2 3, relu, flatten, dense 2", PLAN_TRAIN,
                 "conv1 relu1 flatten1 dense1 loss ~dense1 ~flatten1 ~relu1 ~conv1");
    assert_calls(&f, "conv 2 3, relu, flatten, dense 2", PLAN_EVALUATE, "conv1 relu1 flatten1 dense1 loss");
}

static void nothing_goes_back_beyond_the_first_parameters(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    assert_calls(&f, MLP, PLAN_TRAIN, "flatten1 dense1 relu1 dense2 loss ~dense2 ~relu1 ~dense1");
}

static void a_network_without_parameters_only_goes_forward(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    fake_plan made = fake_plan_make(&f, "maxpool 1, flatten", (dims){1, 1, 1}, 4, PLAN_TRAIN);
    assert_int_equal(run(&made, NULL), 0);
    assert_string_equal(f.calls, "maxpool1 flatten1 loss");
    assert_null(f.loss.logits_grad);
    fake_plan_clear(&made);
}

static void operations_are_asked_for_with_what_comes_in_and_what_may_follow(void **state)
{
    (void)state;
    static const struct {
        size_t layer, layers_max, features;
        bool wants_in_grad;
    } EXPECTED[] = {{0, 4, 36, false}, {1, 3, 36, false}, {2, 2, 6, true}, {3, 1, 6, true}};
    fake_backend f = fake_backend_make();
    fake_plan made = fake_plan_make(&f, MLP, IMAGE, 4, PLAN_TRAIN);
    assert_int_equal(f.op_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const op_request *const r = &f.ops[i]->request;
        assert_ptr_equal(r->net, made.net);
        assert_int_equal(r->layer, EXPECTED[i].layer);
        assert_int_equal(r->layers_max, EXPECTED[i].layers_max);
        assert_int_equal(r->in[0].batch, 4);
        assert_int_equal(dims_count(&r->in[0].shape), EXPECTED[i].features);
        assert_true(r->training);
        assert_int_equal(r->wants_in_grad[0], EXPECTED[i].wants_in_grad);
    }
    fake_plan_clear(&made);
}

static void evaluation_asks_for_no_way_back(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    fake_plan made = fake_plan_make(&f, MLP, IMAGE, 4, PLAN_EVALUATE);
    for (size_t i = 0; i < 4; i++) {
        assert_false(f.ops[i]->request.training);
        assert_false(f.ops[i]->request.wants_in_grad[0]);
    }
    fake_plan_clear(&made);
}

static void layers_done_in_one_go_are_not_asked_for_again(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    f.fused = 3;
    assert_calls(&f, "relu, conv 2 3, relu, maxpool 2, flatten, dense 2", PLAN_TRAIN,
                 "relu1 maxpool1 loss ~maxpool1 ~relu1");
}

static void operations_get_the_parameters_of_their_layers(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    f.fused = 2;
    fake_plan made = fake_plan_make(&f, "relu, conv 2 3, flatten, relu, dense 3, dense 2", IMAGE, 4, PLAN_TRAIN);
    const param *const params = made.net->params;
    assert_int_equal(f.op_count, 3); /* relu and conv; flatten and relu; both dense, with weight and bias each */
    assert_int_equal(run(&made, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_ptr_equal(f.ops[0]->memory.params[i], made.weights + params[i].offset);
        assert_ptr_equal(f.ops[0]->memory.param_grads[i], made.grads + params[i].offset);
        assert_null(f.ops[1]->memory.params[i]);
    }
    for (size_t i = 0; i < OP_PARAMS_MAX; i++) {
        assert_ptr_equal(f.ops[2]->memory.params[i], made.weights + params[2 + i].offset);
        assert_ptr_equal(f.ops[2]->memory.param_grads[i], made.grads + params[2 + i].offset);
    }
    fake_plan_clear(&made);
}

static void the_loss_gets_what_the_caller_gave(void **state)
{
    (void)state;
    float probabilities[8];
    loss_result result;
    fake_backend f = fake_backend_make();
    fake_plan made = fake_plan_make(&f, MLP, IMAGE, 4, PLAN_TRAIN);
    assert_int_equal(fake_plan_run(&result, &made, LABELS, probabilities, NULL), 0);
    assert_ptr_equal(f.loss.labels, LABELS);
    assert_ptr_equal(f.loss.probabilities, probabilities);
    assert_int_equal(f.loss.count, 4);
    assert_int_equal(f.loss.batch, 4);
    assert_int_equal(f.loss.classes, 2);
    assert_non_null(f.loss.logits_grad);
    assert_true(result.sum > 1.4 && result.sum < 1.6);
    assert_int_equal(result.correct, 1);
    fake_plan_clear(&made);
}

static void fewer_samples_than_rows_are_told_to_the_loss(void **state)
{
    (void)state;
    loss_result result;
    fake_backend f = fake_backend_make();
    fake_plan made = fake_plan_make(&f, MLP, IMAGE, 4, PLAN_TRAIN);
    fake_fill(plan_batch(made.plan), 4 * 36 * sizeof(float), fake_byte(FAKE_VALUE, 0));
    assert_int_equal(plan_run(&result, made.plan, LABELS, 3, NULL, NULL), 0);
    assert_int_equal(f.loss.count, 3);
    assert_int_equal(f.loss.batch, 4);
    fake_plan_clear(&made);
}

static void evaluation_wants_no_gradients(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    fake_plan made = fake_plan_make(&f, MLP, IMAGE, 4, PLAN_EVALUATE);
    assert_int_equal(run(&made, NULL), 0);
    assert_null(f.loss.logits_grad);
    fake_plan_clear(&made);
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

/* The operations do the looking. */
static void what_is_in_use_is_never_overwritten(void **state)
{
    (void)state;
    static const char *const NETS[] = {
        "conv 4 3, relu, maxpool 2, conv 5 3, relu, flatten, dense 12, relu, dense 3",
        "relu, maxpool 3, flatten, dense 7, relu, dense 5, dense 3",
        "conv 9 1, relu, conv 3 3 stride 2, relu, maxpool 2, relu, flatten, relu, dense 3",
        "flatten, dense 3",
    };
    fake_backend f = fake_backend_make();
    f.random_sizes = true;
    f.draws = (random_sequence){.seed = 6, .purpose = RANDOM_ORDER};
    for (size_t round = 0; round < 400; round++) {
        const size_t batch = 1 + fake_draw(&f, 4);
        const plan_mode mode = round % 4 == 3 ? PLAN_EVALUATE : PLAN_TRAIN;
        fake_plan made = fake_plan_make(&f, NETS[round % 3 + (round % 7 == 0)], (dims){2, 12, 11}, batch, mode);
        assert_int_equal(run(&made, NULL), 0);
        fake_plan_clear(&made);
    }
}

static size_t bytes_of(fake_backend *f, const char *layers, plan_mode mode)
{
    fake_plan made = fake_plan_make(f, layers, (dims){64, 1, 1}, 4, mode);
    const size_t bytes = plan_bytes(made.plan);
    fake_plan_clear(&made);
    return bytes;
}

static const char *const DEEP = "dense 64, relu, dense 64, relu, dense 64, relu, dense 64, relu, dense 64";
enum { DEEP_OPS = 9, DEEP_VALUE = 64 * 4 * sizeof(float) };

static void evaluation_holds_two_values_at_a_time(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    f.reads_in = f.reads_out = true; /* means nothing when nothing goes back */
    assert_int_equal(bytes_of(&f, DEEP, PLAN_EVALUATE), 2 * DEEP_VALUE);
}

static void training_holds_what_backward_reads(void **state)
{
    (void)state;
    fake_backend nothing = fake_backend_make(), in = fake_backend_make(), both = fake_backend_make();
    in.reads_in = true;
    both.reads_in = both.reads_out = true;
    /* The batch, and two values at a time. */
    assert_int_equal(bytes_of(&nothing, DEEP, PLAN_TRAIN), 3 * DEEP_VALUE);
    /* All values but the logits, and either these with their gradient or two gradients. */
    assert_int_equal(bytes_of(&in, DEEP, PLAN_TRAIN), (DEEP_OPS + 2) * DEEP_VALUE);
    /* All values and two gradients. */
    assert_int_equal(bytes_of(&both, DEEP, PLAN_TRAIN), (DEEP_OPS + 1 + 2) * DEEP_VALUE);
}

static void the_batch_lies_in_the_arena(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    fake_plan made = fake_plan_make(&f, MLP, IMAGE, 3, PLAN_TRAIN);
    const char *const batch = plan_batch(made.plan), *const arena = made.arena;
    assert_int_equal(plan_batch_size(made.plan), 3);
    assert_int_equal((uintptr_t)batch % BACKEND_ALIGNMENT, 0);
    assert_int_equal(plan_bytes(made.plan) % BACKEND_ALIGNMENT, 0);
    assert_true(batch >= arena && batch + 3 * 36 * sizeof(float) <= arena + plan_bytes(made.plan));
    fake_plan_clear(&made);
}

static void blocks_fill_channels_up(void **state)
{
    (void)state;
    const dims shape = {5, 3, 2};
    assert_int_equal(value_bytes(&(value){2, shape, 1, CKPT_F32}), 2 * 5 * 3 * 2 * 4);
    assert_int_equal(value_bytes(&(value){2, shape, 5, CKPT_F32}), 2 * 5 * 3 * 2 * 4);
    assert_int_equal(value_bytes(&(value){2, shape, 4, CKPT_F32}), 2 * 8 * 3 * 2 * 4);
    assert_int_equal(value_bytes(&(value){2, shape, 16, CKPT_F32}), 2 * 16 * 3 * 2 * 4);
    assert_int_equal(value_bytes(&(value){2, shape, 1, CKPT_BF16}), 2 * 5 * 3 * 2 * 2);
    assert_int_equal(value_planes(&(value){2, shape, 1, CKPT_F32}), 2 * 5);
    assert_int_equal(value_planes(&(value){2, shape, 4, CKPT_F32}), 2 * 2);
}

/* ---- What goes wrong -------------------------------------------------------------------------------------------- */

static void a_failing_call_is_told_with_its_operation(void **state)
{
    (void)state;
    static const struct {
        const char *failing, *message, *calls;
    } ROWS[] = {
        {"dense1", "dense1: made to fail", "flatten1 dense1"},
        {"loss", "made to fail", "flatten1 dense1 relu1 dense2 loss"},
        {"~relu1", "relu1: made to fail", "flatten1 dense1 relu1 dense2 loss ~dense2 ~relu1"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        ckpt_error err = {0};
        fake_backend f = fake_backend_make();
        fake_plan made = fake_plan_make(&f, MLP, IMAGE, 4, PLAN_TRAIN);
        f.failing = ROWS[i].failing;
        assert_int_equal(run(&made, &err), CKPT_EIO);
        assert_string_equal(err.message, ROWS[i].message);
        assert_string_equal(f.calls, ROWS[i].calls);
        fake_plan_clear(&made);
    }
}

static void a_plan_that_cannot_be_made_leaves_nothing(void **state)
{
    (void)state;
    net *n = NULL;
    plan *p = NULL;
    ckpt_error err = {0};
    fake_backend f = fake_backend_make();
    f.failing = "new relu1";
    assert_int_equal(net_parse(&n, MLP, IMAGE, 2, NULL), 0);
    assert_int_equal(plan_new(&p, &f.base, n, 4, PLAN_TRAIN, &err), CKPT_EIO);
    assert_string_equal(err.message, "made to fail");
    assert_null(p);
    assert_int_equal(f.op_count, 2);
    assert_int_equal(f.op_alive, 0);
    net_free(n);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    net *n = NULL;
    bool failed = ALLOC_FAIL_WORKS;
    if (!failed)
        skip();
    assert_int_equal(net_parse(&n, MLP, IMAGE, 2, NULL), 0);
    for (long at = 1; failed; at++) {
        plan *p = NULL;
        fake_backend f = fake_backend_make();
        alloc_fail_arm(at);
        const int rc = plan_new(&p, &f.base, n, 4, PLAN_TRAIN, NULL);
        failed = alloc_fail_disarm();
        assert_int_equal(rc, failed ? CKPT_ENOMEM : 0);
        assert_int_equal(p == NULL, failed);
        plan_free(p);
        assert_int_equal(f.op_alive, 0);
    }
    net_free(n);
}

static void a_freed_plan_frees_its_operations(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    fake_plan made = fake_plan_make(&f, MLP, IMAGE, 4, PLAN_TRAIN);
    assert_int_equal(f.op_alive, 4);
    fake_plan_clear(&made);
    assert_int_equal(f.op_alive, 0);
    plan_free(NULL);
}

/* The first operation whose output is bad, when that of `bad` is. */
static void assert_first_bad(const char *bad, bool reads, const char *expected)
{
    loss_result result;
    fake_backend f = fake_backend_make();
    f.bad = bad;
    f.reads_in = f.reads_out = reads;
    fake_plan made = fake_plan_make(&f, DEEP, (dims){64, 1, 1}, 4, PLAN_TRAIN);
    assert_int_equal(fake_plan_run(&result, &made, LABELS, NULL, NULL), 0);
    assert_true(isnan(result.sum));
    const char *const found = plan_first_bad(made.plan);
    assert_string_equal(found ? found : "none", expected);
    fake_plan_clear(&made);
}

static void the_first_bad_value_is_named_wherever_it_lay(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"dense1", "relu2", "dense3", "dense5", "none"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        assert_first_bad(NAMES[i], true, NAMES[i]);
        assert_first_bad(NAMES[i], false, NAMES[i]); /* each takes the place of the one before the last */
    }
}

static void the_batch_is_still_there_when_the_loss_is_bad(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    f.bad = "none";
    fake_plan made = fake_plan_make(&f, DEEP, (dims){64, 1, 1}, 4, PLAN_TRAIN);
    assert_int_equal(run(&made, NULL), 0);
    fake_check(plan_batch(made.plan), DEEP_VALUE, fake_byte(FAKE_VALUE, 0));
    fake_plan_clear(&made);
}

static void a_bad_loss_ends_the_step(void **state)
{
    (void)state;
    fake_backend f = fake_backend_make();
    f.bad = "dense1";
    assert_calls(&f, MLP, PLAN_TRAIN, "flatten1 dense1 relu1 dense2 loss");
}

/* ---- Profiles --------------------------------------------------------------------------------------------------- */

static void a_profile_counts_the_steps_while_it_is_on(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"flatten1", "dense1", "relu1", "dense2", "loss"};
    fake_backend f = fake_backend_make();
    fake_plan made = fake_plan_make(&f, MLP, IMAGE, 4, PLAN_TRAIN);
    assert_int_equal(run(&made, NULL), 0);
    assert_int_equal(f.waits, 0);
    plan_profile(made.plan, true);
    assert_int_equal(run(&made, NULL), 0);
    assert_int_equal(run(&made, NULL), 0);
    assert_int_equal(f.waits, 2 * 2 * (4 + 1 + 3)); /* steps, before and after, operations with loss and way back */
    plan_profile(made.plan, false);
    assert_int_equal(run(&made, NULL), 0);
    assert_int_equal(plan_row_count(made.plan), 5);
    for (size_t i = 0; i < 5; i++) {
        plan_row row;
        plan_row_get(&row, made.plan, i);
        assert_string_equal(row.name, NAMES[i]);
        assert_int_equal(row.calls, 2);
        assert_true(row.forward_seconds > 0);
        assert_true(i == 0 || i == 4 ? row.backward_seconds <= 0 : row.backward_seconds > 0);
        assert_int_equal(row.forward_flops, i < 4 ? 1 : 0);
        assert_int_equal(row.backward_flops, i > 0 && i < 4 ? 2 : 0);
        assert_int_equal(row.forward_bytes, i < 4 ? 3 : 0);
        assert_int_equal(row.backward_bytes, i > 0 && i < 4 ? 4 : 0);
    }
    fake_plan_clear(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_goes_forward_and_back),
        cmocka_unit_test(nothing_goes_back_beyond_the_first_parameters),
        cmocka_unit_test(a_network_without_parameters_only_goes_forward),
        cmocka_unit_test(operations_are_asked_for_with_what_comes_in_and_what_may_follow),
        cmocka_unit_test(evaluation_asks_for_no_way_back),
        cmocka_unit_test(layers_done_in_one_go_are_not_asked_for_again),
        cmocka_unit_test(operations_get_the_parameters_of_their_layers),
        cmocka_unit_test(the_loss_gets_what_the_caller_gave),
        cmocka_unit_test(fewer_samples_than_rows_are_told_to_the_loss),
        cmocka_unit_test(evaluation_wants_no_gradients),
        cmocka_unit_test(what_is_in_use_is_never_overwritten),
        cmocka_unit_test(evaluation_holds_two_values_at_a_time),
        cmocka_unit_test(training_holds_what_backward_reads),
        cmocka_unit_test(the_batch_lies_in_the_arena),
        cmocka_unit_test(blocks_fill_channels_up),
        cmocka_unit_test(a_failing_call_is_told_with_its_operation),
        cmocka_unit_test(a_plan_that_cannot_be_made_leaves_nothing),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_freed_plan_frees_its_operations),
        cmocka_unit_test(the_first_bad_value_is_named_wherever_it_lay),
        cmocka_unit_test(the_batch_is_still_there_when_the_loss_is_bad),
        cmocka_unit_test(a_bad_loss_ends_the_step),
        cmocka_unit_test(a_profile_counts_the_steps_while_it_is_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
