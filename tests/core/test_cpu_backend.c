/* The backend `cpu` as a whole: batches, loss and Adam with the bits of the reference; threads, instruction sets,
 * memory. */
#include "backend_pair.h"

#include "cpu.h"
#include "pool.h"

#include <omp.h>
#include <stdint.h>
#include <sys/sysinfo.h>

/* ---- Adam -------------------------------------------------------------------------------------------------------- */

#define ADAM_COUNT 20011 /* no multiple of any vector, and more than one thread takes alone */
#define ADAM_STEPS 5

typedef struct adam_vectors {
    float *weights, *exp_avg, *exp_avg_sq;
} adam_vectors;

static adam_vectors adam_vectors_new(size_t count)
{
    const adam_vectors v = {op_random(count, 3, 0), calloc(count, sizeof(float)), calloc(count, sizeof(float))};
    assert_non_null(v.exp_avg);
    assert_non_null(v.exp_avg_sq);
    return v;
}

static void adam_vectors_clear(const adam_vectors *v)
{
    free(v->weights);
    free(v->exp_avg);
    free(v->exp_avg_sq);
}

static bool adam_run(backend *b, const adam_vectors *v, const float *grads, size_t count, uint64_t t)
{
    ckpt_error err = {0};
    bool finite = false;
    const adam_memory m = {v->weights, v->exp_avg, v->exp_avg_sq, grads, count};
    const adam_factors f = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .t = t};
    op_assert_ok(b->adam(&finite, b, &m, &f, &err), &err);
    return finite;
}

static void adam_steps(backend *b, const adam_vectors *v)
{
    for (uint64_t t = 1; t <= ADAM_STEPS; t++) {
        float *const grads = op_random(ADAM_COUNT, t, 4);
        grads[5] = 0;
        grads[6] = 1e-30f; /* its square is a denormal */
        grads[7] = 1e15f;
        assert_true(adam_run(b, v, grads, ADAM_COUNT, t));
        free(grads);
    }
}

static void adam_has_the_bits_of_the_reference_on_any_number_of_threads(void **state)
{
    const pair *const p = *state;
    const size_t bytes = ADAM_COUNT * sizeof(float);
    const adam_vectors want = adam_vectors_new(ADAM_COUNT);

    adam_steps(p->reference, &want);
    for (unsigned threads = 1; threads <= 3; threads++) {
        backend *const b = backend_open("cpu", threads);
        const adam_vectors got = adam_vectors_new(ADAM_COUNT);
        adam_steps(b, &got);
        assert_memory_equal(got.weights, want.weights, bytes);
        assert_memory_equal(got.exp_avg, want.exp_avg, bytes);
        assert_memory_equal(got.exp_avg_sq, want.exp_avg_sq, bytes);
        adam_vectors_clear(&got);
        backend_free(b);
    }
    adam_vectors_clear(&want);
}

static void adam_finds_one_weight_that_is_not_finite(void **state)
{
    const pair *const p = *state;
    static const float BAD[] = {NAN, INFINITY, -INFINITY};

    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        for (size_t place = 0; place < ADAM_COUNT; place += 5001) {
            const adam_vectors v = adam_vectors_new(ADAM_COUNT);
            float *const grads = op_random(ADAM_COUNT, 1, 4);
            v.weights[place] = BAD[i];
            assert_false(adam_run(p->cpu, &v, grads, ADAM_COUNT, 1));
            free(grads);
            adam_vectors_clear(&v);
        }
}

static void adam_finds_the_gradient_that_is_not_a_number(void **state)
{
    const pair *const p = *state;
    const adam_vectors v = adam_vectors_new(ADAM_COUNT);
    float *const grads = op_random(ADAM_COUNT, 1, 4);

    grads[ADAM_COUNT - 1] = NAN;
    assert_false(adam_run(p->cpu, &v, grads, ADAM_COUNT, 1));
    free(grads);
    adam_vectors_clear(&v);
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

static void batch_has_the_bits_of_the_reference(void **state)
{
    enum { SAMPLES = 300, BATCH = 130, SIZE_MAX_HERE = 784 };
    static const size_t SIZES[] = {1, 3, 49, SIZE_MAX_HERE};
    const pair *const p = *state;
    uint8_t *const samples = malloc(SAMPLES * SIZE_MAX_HERE);
    uint32_t indices[BATCH];

    assert_non_null(samples);
    for (size_t i = 0; i < SAMPLES * SIZE_MAX_HERE; i++)
        samples[i] = (uint8_t)random_word(1, RANDOM_INIT, 0, i);
    for (size_t i = 0; i < BATCH; i++)
        indices[i] = random_word(1, RANDOM_INIT, 1, i) % SAMPLES;
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++)
        for (size_t count = 0; count <= BATCH; count += 65) {
            const size_t numbers = BATCH * SIZES[i];
            ckpt_error err = {0};
            float *const want = op_floats(numbers), *const got = op_floats(numbers);
            op_assert_ok(
                p->reference->gather(want, p->reference, samples, SIZES[i], indices, count, BATCH, 1 / 255.0f, &err),
                &err);
            op_assert_ok(p->cpu->gather(got, p->cpu, samples, SIZES[i], indices, count, BATCH, 1 / 255.0f, &err), &err);
            assert_memory_equal(got, want, numbers * sizeof(float));
            free(want);
            free(got);
        }
    free(samples);
}

/* ---- Loss -------------------------------------------------------------------------------------------------------- */

typedef struct loss_case {
    size_t batch, classes, count;
} loss_case;

typedef struct loss_outcome {
    loss_result result;
    float *grad, *probabilities;
} loss_outcome;

static loss_outcome loss_run(backend *b, const loss_case *c, const float *logits, const uint8_t *labels)
{
    ckpt_error err = {0};
    loss_outcome o = {.grad = op_floats(c->batch * c->classes), .probabilities = op_floats(c->batch * c->classes)};
    const loss_memory m = {logits, labels, o.grad, o.probabilities, c->batch, c->classes, c->count};
    op_assert_ok(b->loss(&o.result, b, &m, &err), &err);
    return o;
}

static void loss_outcome_clear(loss_outcome *o)
{
    free(o->grad);
    free(o->probabilities);
}

/* Both compute in double by the same formula; the last bit is left to the mathematical library. */
static void assert_loss_of_reference(const pair *p, const loss_case *c, float *logits)
{
    const size_t numbers = c->batch * c->classes;
    uint8_t *const labels = malloc(c->batch);

    assert_non_null(labels);
    for (size_t i = 0; i < c->batch; i++)
        labels[i] = (uint8_t)(random_word(5, RANDOM_INIT, 0, i) % c->classes);
    loss_outcome want = loss_run(p->reference, c, logits, labels), got = loss_run(p->cpu, c, logits, labels);
    assert_int_equal(got.result.correct, want.result.correct);
    assert_true(isfinite(want.result.sum) ? fabs(got.result.sum - want.result.sum) <= 1e-12 * fabs(want.result.sum)
                                          : isnan(got.result.sum) == isnan(want.result.sum));
    op_assert_close(got.grad, want.grad, numbers, 0x1p-23, "gradient");
    op_assert_close(got.probabilities, want.probabilities, numbers, 0x1p-23, "probabilities");
    loss_outcome_clear(&want);
    loss_outcome_clear(&got);
    free(labels);
}

static void loss_is_that_of_the_reference(void **state)
{
    static const loss_case CASES[] = {{1, 10, 1},  {512, 10, 512},  {37, 10, 20},
                                      {40, 1, 40}, {3000, 7, 2500}, {5, 256, 0}};

    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        float *const logits = op_random(CASES[i].batch * CASES[i].classes, 2, 0);
        for (size_t k = 0; k < CASES[i].batch * CASES[i].classes; k++)
            logits[k] *= 20;
        assert_loss_of_reference(*state, &CASES[i], logits);
        free(logits);
    }
}

static void loss_of_numbers_that_are_not_finite_is_that_of_the_reference(void **state)
{
    static const float BAD[] = {NAN, INFINITY, -INFINITY};
    const loss_case c = {64, 10, 64};

    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        for (size_t place = 0; place < 10; place++) {
            float *const logits = op_random(c.batch * c.classes, 2, 0);
            logits[330 + place] = BAD[i];
            assert_loss_of_reference(*state, &c, logits);
            free(logits);
        }
}

static void of_equal_logits_the_first_counts(void **state)
{
    const pair *const p = *state;
    const float logits[] = {1, 1, 0, 1, 1, 0};
    const uint8_t labels[] = {0, 0};
    const loss_case c = {2, 3, 2};
    loss_outcome got = loss_run(p->cpu, &c, logits, labels);

    assert_int_equal(got.result.correct, 2);
    loss_outcome_clear(&got);
}

/* ---- Threads, instruction sets, memory --------------------------------------------------------------------------- */

static void backend_says_what_its_bits_depend_on(void **state)
{
    const pair *const p = *state;

    print_message("%s on %s, %u threads\n", p->cpu->library, p->cpu->isa, p->cpu->threads);
    assert_string_equal(p->cpu->name, "cpu");
    assert_int_equal(p->cpu->threads, 2);
    assert_non_null(strstr(p->cpu->library, "oneDNN "));
#if defined(__x86_64__)
    assert_true(strlen(p->cpu->isa) > 0);
#endif
}

static void threads_are_those_of_the_machine_unless_told(void **state)
{
    unsigned threads = 0;
    backend *const b = backend_open("cpu", 0);
    (void)state;

    assert_int_equal(pool_threads_default(&threads, NULL), 0);
    assert_int_equal(b->threads, threads);
    backend_free(b);
}

static void threads_are_not_more_than_openmp_gives(void **state)
{
    const int levels = omp_get_max_active_levels();
    (void)state;

    omp_set_max_active_levels(0); /* as OMP_THREAD_LIMIT=1, but within a process */
    backend *const b = backend_open("cpu", 2);
    omp_set_max_active_levels(levels);
    assert_int_equal(b->threads, 1);
    backend_free(b);
}

static void too_many_threads_are_refused(void **state)
{
    ckpt_error err = {0};
    backend *b = NULL;
    (void)state;

    assert_int_equal(backend_new(&b, "cpu", &(backend_options){.threads = POOL_THREADS_MAX + 1}, &err), CKPT_EUSAGE);
    assert_null(b);
}

static void unknown_instruction_set_is_missing(void **state)
{
    ckpt_error err = {0};
    backend *b = NULL;
    (void)state;

    assert_int_equal(backend_new(&b, "cpu", &(backend_options){.isa = "avx2048"}, &err), CKPT_EMISSING);
    assert_non_null(strstr(err.message, "avx2048"));
    assert_null(b);
}

static void instruction_set_in_use_may_be_wished_again(void **state)
{
    const pair *const p = *state;
    ckpt_error err = {0};
    backend *b = NULL;

    op_assert_ok(backend_new(&b, "cpu", &(backend_options){.isa = p->cpu->isa}, &err), &err);
    assert_string_equal(b->isa, p->cpu->isa);
    backend_free(b);
}

/* oneDNN has taken its choice for the process when the first backend was made. */
static void wish_that_comes_too_late_is_not_said_to_be_met(void **state)
{
#if defined(__x86_64__)
    const pair *const p = *state;
    ckpt_error err = {0};
    backend *b = NULL;

    op_assert_ok(backend_new(&b, "cpu", &(backend_options){.isa = "sse41"}, &err), &err);
    assert_string_equal(b->isa, p->cpu->isa);
    backend_free(b);
#else
    (void)state;
    skip();
#endif
}

static void ckpt_cpu_limits_the_instruction_set(void **state)
{
    const pair *const p = *state;

    if (!cpu_has(CPU_AVX512))
        assert_null(strstr(p->cpu->isa, "avx512"));
    if (!cpu_has(CPU_AVX2))
        assert_null(strstr(p->cpu->isa, "avx2"));
}

static void memory_is_zero_and_aligned(void **state)
{
    static const size_t BYTES[] = {0, 1, 64, 65, 100000, ((size_t)2 << 20) - 1, (size_t)2 << 20, ((size_t)5 << 20) + 3};
    const pair *const p = *state;
    ckpt_error err = {0};

    for (size_t i = 0; i < sizeof BYTES / sizeof BYTES[0]; i++) {
        void *memory = NULL;
        op_assert_ok(p->cpu->memory_new(&memory, p->cpu, BYTES[i], &err), &err);
        assert_int_equal((uintptr_t)memory % BACKEND_ALIGNMENT, 0);
        for (size_t k = 0; k < BYTES[i]; k++)
            if (((const char *)memory)[k])
                fail_msg("byte %zu of %zu is not 0", k, BYTES[i]);
        p->cpu->memory_free(p->cpu, memory);
    }
    p->cpu->memory_free(p->cpu, NULL);
}

static void too_much_memory_is_an_error(void **state)
{
    const pair *const p = *state;
    void *memory = NULL;

    assert_int_equal(p->cpu->memory_new(&memory, p->cpu, SIZE_MAX, NULL), CKPT_ENOMEM);
    assert_null(memory);
}

/* Linux would give it, and kill this process when it is touched. */
static void more_memory_than_the_machine_has_is_refused_before_it_is_touched(void **state)
{
    const pair *const p = *state;
    struct sysinfo machine;
    ckpt_error err = {0};
    void *memory = NULL;

    assert_int_equal(sysinfo(&machine), 0);
    const size_t all = (size_t)(machine.totalram + machine.totalswap) * machine.mem_unit;
    assert_int_equal(p->cpu->memory_new(&memory, p->cpu, all, &err), CKPT_ENOMEM);
    assert_null(memory);
    assert_non_null(strstr(err.message, "the machine has"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_has_the_bits_of_the_reference_on_any_number_of_threads),
        cmocka_unit_test(adam_finds_one_weight_that_is_not_finite),
        cmocka_unit_test(adam_finds_the_gradient_that_is_not_a_number),
        cmocka_unit_test(batch_has_the_bits_of_the_reference),
        cmocka_unit_test(loss_is_that_of_the_reference),
        cmocka_unit_test(loss_of_numbers_that_are_not_finite_is_that_of_the_reference),
        cmocka_unit_test(of_equal_logits_the_first_counts),
        cmocka_unit_test(backend_says_what_its_bits_depend_on),
        cmocka_unit_test(threads_are_those_of_the_machine_unless_told),
        cmocka_unit_test(threads_are_not_more_than_openmp_gives),
        cmocka_unit_test(too_many_threads_are_refused),
        cmocka_unit_test(unknown_instruction_set_is_missing),
        cmocka_unit_test(instruction_set_in_use_may_be_wished_again),
        cmocka_unit_test(wish_that_comes_too_late_is_not_said_to_be_met),
        cmocka_unit_test(ckpt_cpu_limits_the_instruction_set),
        cmocka_unit_test(memory_is_zero_and_aligned),
        cmocka_unit_test(too_much_memory_is_an_error),
        cmocka_unit_test(more_memory_than_the_machine_has_is_refused_before_it_is_touched),
    };
    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
