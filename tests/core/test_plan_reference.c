/* Plans on the reference backend: what stands in one arena gives the bits of the same operations with memory of their
 * own each. */
#include "plan.h"

#include "op_check.h"

#define NET_SMALL "conv 3 3, relu, maxpool 2, conv 4 2 stride 2 pad 1, relu, flatten, dense 6, relu, dense 3"

enum { CLASSES = 3, BATCH_MAX = 8 };

static const uint8_t LABELS[BATCH_MAX] = {2, 0, 1, 1, 0, 2, 2, 1};

static int backend_setup(void **state)
{
    return backend_reference_new((backend **)state, NULL);
}

static int backend_teardown(void **state)
{
    backend_free(*state);
    return 0;
}

/* What a step gives. */
typedef struct step {
    loss_result loss;
    float probabilities[BATCH_MAX * CLASSES];
    float *grads;                      /* NULL: none */
    char first_bad[3 * NET_NAME_SIZE]; /* "": the loss is good */
    size_t weight_count;
} step;

static void step_clear(step *s)
{
    free(s->grads);
}

/* `count` samples of the case in a plan of `batch` rows. All memory is full of NaN before. */
static step step_of_plan(backend *b, const op_case *c, const op_inputs *x, size_t batch, plan_mode mode)
{
    const size_t grad_count = mode == PLAN_TRAIN ? x->weight_count : 0;
    const size_t row_bytes = dims_count(&c->in) * sizeof(float);
    step s = {.weight_count = x->weight_count};
    net *n = NULL;
    plan *p = NULL;

    assert_int_equal(net_parse(&n, c->layers, c->in, CLASSES, NULL), 0);
    assert_int_equal(n->weight_count, x->weight_count);
    assert_int_equal(plan_new(&p, b, n, batch, mode, NULL), 0);
    void *const arena = op_memory_new(b, plan_bytes(p));
    float *const weights = op_memory_with(b, x->weights, x->weight_count * sizeof *weights);
    float *const grads = op_memory_new(b, grad_count * sizeof *grads);
    plan_bind(p, arena, weights, grads);
    memset(plan_batch(p), 0, batch * row_bytes);
    memcpy(plan_batch(p), x->in, c->batch * row_bytes);
    assert_int_equal(plan_run(&s.loss, p, LABELS, c->batch, s.probabilities, NULL), 0);
    if (!isfinite(s.loss.sum))
        snprintf(s.first_bad, sizeof s.first_bad, "%s", plan_first_bad(p));
    s.grads = grads ? op_memory_floats(b, grads, grad_count) : NULL;
    b->memory_free(b, arena);
    b->memory_free(b, weights);
    b->memory_free(b, grads);
    plan_free(p);
    net_free(n);
    return s;
}

/* The same by hand: forward, the loss, and once more with its gradient behind. */
static step step_by_hand(backend *b, const op_case *c, op_inputs *x)
{
    step s = {.weight_count = x->weight_count};
    op_result r;

    op_run(&r, b, c, x);
    const loss_memory loss = {r.out, LABELS, x->out_grad, s.probabilities, c->batch, CLASSES, c->batch};
    assert_int_equal(b->loss(&s.loss, b, &loss, NULL), 0);
    op_result_clear(&r);
    op_run(&r, b, c, x);
    s.grads = r.weight_grads;
    r.weight_grads = NULL;
    op_result_clear(&r);
    return s;
}

static void assert_same_bits(const step *got, const step *want)
{
    assert_memory_equal(&got->loss.sum, &want->loss.sum, sizeof got->loss.sum);
    assert_int_equal(got->loss.correct, want->loss.correct);
    assert_memory_equal(got->probabilities, want->probabilities, sizeof got->probabilities);
    assert_memory_equal(got->grads, want->grads, got->weight_count * sizeof *got->grads);
}

static void assert_step_as_by_hand(backend *b, const char *layers, dims in, size_t batch)
{
    const op_case c = {.layers = layers, .in = in, .batch = batch, .no_in_grad = true};
    op_inputs x;
    op_inputs_new(&x, &c, batch);
    step want = step_by_hand(b, &c, &x), got = step_of_plan(b, &c, &x, batch, PLAN_TRAIN);
    assert_same_bits(&got, &want);
    step_clear(&want);
    step_clear(&got);
    op_inputs_clear(&x);
}

static void a_step_has_the_bits_of_separate_memory(void **state)
{
    assert_step_as_by_hand(*state, NET_SMALL, (dims){1, 9, 8}, 4);
    assert_step_as_by_hand(*state, NET_SMALL, (dims){2, 12, 13}, 1);
    assert_step_as_by_hand(*state, "relu, maxpool 2, flatten, dense 9, relu, relu, dense 3", (dims){2, 7, 5}, 3);
    assert_step_as_by_hand(*state, "flatten, dense 3", (dims){1, 5, 5}, 8);
}

static void rows_without_samples_change_nothing(void **state)
{
    const op_case c = {.layers = NET_SMALL, .in = {1, 9, 8}, .batch = 5};
    op_inputs x;
    op_inputs_new(&x, &c, 1);
    step exact = step_of_plan(*state, &c, &x, 5, PLAN_TRAIN), filled = step_of_plan(*state, &c, &x, 8, PLAN_TRAIN);
    assert_memory_equal(&filled.loss.sum, &exact.loss.sum, sizeof exact.loss.sum);
    assert_int_equal(filled.loss.correct, exact.loss.correct);
    assert_memory_equal(filled.probabilities, exact.probabilities, 5 * CLASSES * sizeof(float));
    op_assert_close(filled.grads, exact.grads, x.weight_count, 1e-6, "gradients");
    step_clear(&exact);
    step_clear(&filled);
    op_inputs_clear(&x);
}

static void evaluation_gives_the_loss_of_training(void **state)
{
    const op_case c = {.layers = NET_SMALL, .in = {1, 9, 8}, .batch = 4};
    op_inputs x;
    op_inputs_new(&x, &c, 1);
    step train = step_of_plan(*state, &c, &x, 4, PLAN_TRAIN), evaluate = step_of_plan(*state, &c, &x, 4, PLAN_EVALUATE);
    assert_memory_equal(&evaluate.loss.sum, &train.loss.sum, sizeof train.loss.sum);
    assert_int_equal(evaluate.loss.correct, train.loss.correct);
    assert_memory_equal(evaluate.probabilities, train.probabilities, sizeof train.probabilities);
    assert_null(evaluate.grads);
    step_clear(&train);
    op_inputs_clear(&x);
}

static void a_bad_weight_is_found_at_its_layer(void **state)
{
    const op_case c = {.layers = NET_SMALL, .in = {1, 9, 8}, .batch = 4};
    op_inputs x;
    op_inputs_new(&x, &c, 1);
    x.weights[x.weight_count - 1] = NAN; /* a bias of the last layer */
    step s = step_of_plan(*state, &c, &x, 4, PLAN_TRAIN);
    assert_false(isfinite(s.loss.sum));
    assert_string_equal(s.first_bad, "dense2");
    step_clear(&s);
    x.weights[0] = INFINITY; /* of the first */
    s = step_of_plan(*state, &c, &x, 4, PLAN_TRAIN);
    assert_string_equal(s.first_bad, "conv1");
    step_clear(&s);
    op_inputs_clear(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_has_the_bits_of_separate_memory),
        cmocka_unit_test(rows_without_samples_change_nothing),
        cmocka_unit_test(evaluation_gives_the_loss_of_training),
        cmocka_unit_test(a_bad_weight_is_found_at_its_layer),
    };
    return cmocka_run_group_tests(tests, backend_setup, backend_teardown);
}
