/* Our own passes give the same bits with every instruction set. oneDNN keeps its own during this, since it decides once
 * for a process; the sets that this machine lacks are named and left out. */
#include "op_check.h"

#include "cpu.h"
#include "cpu_backend.h"

static const char *const SETS[] = {"scalar", "avx2", "avx512"};
#define SET_COUNT (sizeof SETS / sizeof SETS[0])

typedef struct sets {
    backend *of[SET_COUNT]; /* NULL: not on this machine */
} sets;

static const char *passes_name(const backend *b)
{
    return ((const cpu_backend *)b)->passes->name;
}

/* With CKPT_CPU set to `set`, has this machine all of it? */
static bool machine_has(const char *set)
{
    if (strcmp(set, "avx512") == 0)
        return cpu_has(CPU_AVX512);
    return strcmp(set, "avx2") != 0 || cpu_has(CPU_AVX2);
}

static int sets_setup(void **state)
{
    static sets s;
    ckpt_error err = {0};

    /* The widest first: oneDNN's choice may not be below that of any passes. */
    for (size_t i = SET_COUNT; i-- > 0;) {
        assert_int_equal(setenv("CKPT_CPU", SETS[i], 1), 0);
        print_message("passes %s: %s\n", SETS[i], machine_has(SETS[i]) ? "run" : "not on this machine");
        if (!machine_has(SETS[i]))
            continue;
        op_assert_ok(backend_new(&s.of[i], "cpu", &(backend_options){.threads = 2}, &err), &err);
        assert_string_equal(passes_name(s.of[i]), SETS[i]);
    }
    *state = &s;
    return 0;
}

static int sets_teardown(void **state)
{
    const sets *const s = *state;
    for (size_t i = 0; i < SET_COUNT; i++)
        backend_free(s->of[i]);
    return 0;
}

static void plain_passes_are_on_every_machine(void **state)
{
    const sets *const s = *state;
    assert_non_null(s->of[0]);
}

static void assert_same_bits(const op_result *got, const op_result *want)
{
    assert_memory_equal(got->out, want->out, want->out_count * sizeof(float));
    assert_memory_equal(got->in_grad, want->in_grad, want->in_count * sizeof(float));
    if (want->weight_count)
        assert_memory_equal(got->weight_grads, want->weight_grads, want->weight_count * sizeof(float));
}

static void assert_same_in_all_sets(const sets *s, const op_case *c)
{
    op_inputs x;
    op_result want, got;

    op_inputs_new(&x, c, 1);
    x.in[0] = NAN;
    op_run(&want, s->of[0], c, &x);
    for (size_t i = 1; i < SET_COUNT; i++) {
        if (!s->of[i])
            continue;
        op_run(&got, s->of[i], c, &x);
        assert_same_bits(&got, &want);
        op_result_clear(&got);
    }
    op_result_clear(&want);
    op_inputs_clear(&x);
}

static void values_in_blocks_have_the_same_bits(void **state)
{
    static const char *const LAYERS[] = {"relu",    "maxpool 2",    "maxpool 3 stride 2", "relu, maxpool 2",
                                         "flatten", "relu, flatten"};
    static const size_t BLOCKS[] = {1, 8, 16, 20};

    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++)
        for (size_t k = 0; k < sizeof BLOCKS / sizeof BLOCKS[0]; k++) {
            const op_case c = {
                .layers = LAYERS[i], .in = {20, 9, 11}, .batch = 3, .in_block = BLOCKS[k], .layers_max = 2};
            assert_same_in_all_sets(*state, &c);
        }
}

/* The gradient of the bias is the one sum of our own. */
static void dense_layers_have_the_same_bits(void **state)
{
    static const char *const LAYERS[] = {"flatten, dense 1", "flatten, dense 15", "flatten, dense 16, relu",
                                         "flatten, dense 33, relu", "flatten, dense 128, relu"};

    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++)
        for (size_t batch = 1; batch <= 100; batch += 33) {
            const op_case c = {.layers = LAYERS[i], .in = {2, 5, 3}, .batch = batch, .first = 1, .layers_max = 2};
            assert_same_in_all_sets(*state, &c);
        }
}

static void whole_network_has_the_same_bits(void **state)
{
    const op_case c = {.layers = "conv 32 3x3, relu, maxpool 2, conv 20 3x3, relu, flatten, dense 128, relu, dense 10",
                       .in = {1, 28, 28},
                       .batch = 9,
                       .layers_max = 9};
    assert_same_in_all_sets(*state, &c);
}

/* Used where oneDNN has no code of its own, which is not so on every machine. */
static float *small_filter_grads(const backend *b, const filter_shape *s, const float *in, const float *out_grad)
{
    const cpu_backend *const c = (const cpu_backend *)b;
    const size_t taps = pass_filter_taps(s);
    float *const sums = op_floats(pass_filter_sums_bytes(s) / sizeof(float));
    float *const grads = op_floats(s->out_channels * (taps + 1));
    filter_grad_job job = {*s, sums, in, out_grad};

    cpu_run(c, c->passes->filter_grad, &job, pass_filter_units(s), 1);
    pass_filter_sum(grads, grads + s->out_channels * taps, &job);
    free(sums);
    return grads;
}

static void small_filters_have_the_same_bits(void **state)
{
    static const filter_shape SHAPES[] = {{9, 1, 12, 11, 32, 10, 9, 8, 3, 3, 1, 0},
                                          {1, 3, 9, 11, 20, 5, 6, 16, 3, 3, 2, 1},
                                          {20, 2, 7, 9, 10, 6, 5, 16, 2, 5, 1, 0}};
    const sets *const s = *state;

    for (size_t i = 0; i < sizeof SHAPES / sizeof SHAPES[0]; i++) {
        const filter_shape *const f = &SHAPES[i];
        const size_t blocks = (f->out_channels + f->block - 1) / f->block;
        float *const in = op_random(f->batch * f->in_channels * f->in_height * f->in_width, 1, 0);
        float *const out_grad = op_random(f->batch * blocks * f->out_height * f->out_width * f->block, 1, 1);
        float *const want = small_filter_grads(s->of[0], f, in, out_grad);
        for (size_t k = 1; k < SET_COUNT; k++) {
            if (!s->of[k])
                continue;
            float *const got = small_filter_grads(s->of[k], f, in, out_grad);
            assert_memory_equal(got, want, f->out_channels * (pass_filter_taps(f) + 1) * sizeof(float));
            free(got);
        }
        free(in);
        free(out_grad);
        free(want);
    }
}

#define VECTOR_COUNT 9001

static float *adam_weights(backend *b)
{
    ckpt_error err = {0};
    bool finite;
    float *const weights = op_random(VECTOR_COUNT, 1, 0), *const grads = op_random(VECTOR_COUNT, 1, 1);
    float *const moments = calloc(2 * VECTOR_COUNT, sizeof(float));

    assert_non_null(moments);
    for (uint64_t t = 1; t <= 3; t++)
        op_assert_ok(b->adam(&finite, b, &(adam_memory){weights, moments, moments + VECTOR_COUNT, grads, VECTOR_COUNT},
                             &(adam_factors){1e-3, 0.9, 0.999, 1e-8, t}, &err),
                     &err);
    free(grads);
    free(moments);
    return weights;
}

static void adam_has_the_same_bits(void **state)
{
    const sets *const s = *state;
    float *const want = adam_weights(s->of[0]);

    for (size_t i = 1; i < SET_COUNT; i++) {
        if (!s->of[i])
            continue;
        float *const got = adam_weights(s->of[i]);
        assert_memory_equal(got, want, VECTOR_COUNT * sizeof(float));
        free(got);
    }
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_passes_are_on_every_machine), cmocka_unit_test(values_in_blocks_have_the_same_bits),
        cmocka_unit_test(dense_layers_have_the_same_bits),   cmocka_unit_test(whole_network_has_the_same_bits),
        cmocka_unit_test(small_filters_have_the_same_bits),  cmocka_unit_test(adam_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, sets_setup, sets_teardown);
}
