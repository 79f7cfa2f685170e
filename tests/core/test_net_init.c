#include "net.h"

#include "random_rows.h"

#include <math.h>

static const char *const MNIST_CNN =
    "conv 32 3x3, relu, maxpool 2, conv 64 3x3, relu, flatten, dense 128, relu, dense 10";

static net *mnist_cnn(void)
{
    net *n = NULL;
    assert_int_equal(net_parse(&n, MNIST_CNN, (dims){1, 28, 28}, 10, NULL), 0);
    return n;
}

static float *first_weights(const net *n, uint64_t seed)
{
    float *const weights = calloc(n->weight_count, sizeof *weights);
    assert_non_null(weights);
    net_init(weights, n, seed);
    return weights;
}

static void expect_all(char *const *columns)
{
    net *const n = mnist_cnn();
    float *const weights = first_weights(n, column_u64(columns[0]));
    assert_sha256(weights, n->weight_count * sizeof *weights, columns[1]);
    free(weights);
    net_free(n);
}

static void expect_weight(char *const *columns)
{
    net *const n = mnist_cnn();
    float *const weights = first_weights(n, column_u64(columns[0]));
    const param *const p = &n->params[column_u64(columns[1])];
    assert_true(weights[p->offset + column_u64(columns[2])] == strtof(columns[3], NULL));
    free(weights);
    net_free(n);
}

static void some_weights_are_as_python_computes_them(void **state)
{
    (void)state;
    random_rows("weight", expect_weight);
}

static void all_weights_are_as_python_computes_them(void **state)
{
    (void)state;
    random_rows("init", expect_all);
}

static void weights_fill_their_bounds_evenly(void **state)
{
    (void)state;
    net *const n = mnist_cnn();
    float *const weights = first_weights(n, 3);
    for (size_t i = 0; i < n->param_count; i++) {
        const param *const p = &n->params[i];
        const double bound = 1 / sqrt((double)p->fan_in), count = (double)p->count;
        double sum = 0, square_sum = 0, largest = 0;
        for (size_t k = 0; k < p->count; k++) {
            const double w = (double)weights[p->offset + k] / bound;
            sum += w;
            square_sum += w * w;
            largest = fmax(largest, fabs(w));
        }
        /* Uniform in (-1, 1): mean 0 and variance 1/3; mean of squares 1/3 and variance 4/45. Five deviations. */
        assert_true(largest < 1 && pow(largest, count) > 1e-6);
        assert_true(fabs(sum) < 5 * sqrt(count / 3));
        assert_true(fabs(square_sum - count / 3) < 5 * sqrt(count * 4 / 45));
    }
    free(weights);
    net_free(n);
}

static void parameters_and_seeds_have_weights_of_their_own(void **state)
{
    (void)state;
    net *n = NULL;
    assert_int_equal(net_parse(&n, "dense 8, relu, dense 8", (dims){8, 1, 1}, 8, NULL), 0);
    float *const weights = first_weights(n, 3), *const others = first_weights(n, 4);
    const float *const a = weights + n->params[0].offset, *const b = weights + n->params[2].offset;
    for (size_t k = 0; k < 64; k++) {
        assert_true(a[k] < b[k] || a[k] > b[k]);
        assert_true(a[k] < others[k] || a[k] > others[k]);
    }
    free(weights);
    free(others);
    net_free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_weights_are_as_python_computes_them),
        cmocka_unit_test(all_weights_are_as_python_computes_them),
        cmocka_unit_test(weights_fill_their_bounds_evenly),
        cmocka_unit_test(parameters_and_seeds_have_weights_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
