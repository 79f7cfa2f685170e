#include "codec_internal.h"
#include "weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned char data[CODEC_CHUNK_BYTES], reference[CODEC_CHUNK_BYTES], back[CODEC_CHUNK_BYTES];
static unsigned char coded[CODEC_CHUNK_CODED_MAX], other[CODEC_CHUNK_CODED_MAX];
static codec *c;

static int setup(void **state)
{
    (void)state;
    if (codec_new(&c, NULL))
        return -1;
    print_message("kernel %s\n", c->kernel->name);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    codec_free(c);
    return 0;
}

/* Codes `data` as planned and back again; returns the coded size. */
static size_t assert_coded(const codec_plan *plan, size_t size, const void *ref)
{
    size_t coded_size = 0;

    assert_int_equal(codec_encode(&coded_size, coded, c, plan, data, size, ref, NULL), 0);
    assert_int_equal(codec_decode(back, size, c, coded, coded_size, ref, NULL), 0);
    assert_memory_equal(back, data, size);
    return coded_size;
}

typedef struct choice {
    codec_plan plan;
    int reference;
    double estimate;
} choice;

static choice choose(ckpt_dtype dtype, size_t size, const void *first, const void *second)
{
    choice chosen = {.reference = -2};
    codec_sample samples[2];
    ckpt_error err = {0};

    for (size_t i = 0; i < 2; i++)
        samples[i] = (codec_sample){.size = size / 2,
                                    .data = data + i * (size / 2),
                                    .reference = {first ? (const unsigned char *)first + i * (size / 2) : NULL,
                                                  second ? (const unsigned char *)second + i * (size / 2) : NULL}};
    if (codec_plan_choose(&chosen.plan, &chosen.reference, &chosen.estimate, c, dtype, samples, 2,
                          second  ? 2
                          : first ? 1
                                  : 0,
                          &err))
        fail_msg("%s", err.message);
    return chosen;
}

static void trained_weights_are_coded_as_differences_to_the_nearest_reference(void **state)
{
    (void)state;
    fill_weights(other, 65536, 16);
    fill_trained(reference, other, 65536, 0.3f, 17);
    fill_trained(data, reference, 65536, 0.003f, 18);
    const choice chosen = choose(CKPT_F32, 65536, other, reference);
    assert_int_equal(chosen.plan.mode, CODEC_CONTEXT);
    assert_int_equal(chosen.reference, 1);
    assert_true(chosen.estimate > 0.3 && chosen.estimate < 0.65);
}

static void an_unrelated_reference_is_not_taken(void **state)
{
    (void)state;
    fill_weights(reference, 65536, 19);
    fill_weights(data, 65536, 20);
    const choice chosen = choose(CKPT_F32, 65536, reference, NULL);
    assert_int_equal(chosen.plan.mode, CODEC_PLANES);
    assert_int_equal(chosen.reference, -1);
    assert_true(chosen.estimate > 0.8 && chosen.estimate < 0.9);
}

static void a_distant_reference_is_taken_if_it_gains_a_hundredth(void **state)
{
    (void)state;
    fill_weights(reference, 65536, 19);
    fill_trained(data, reference, 65536, 0.5f, 20);
    const choice chosen = choose(CKPT_F32, 65536, reference, NULL), alone = choose(CKPT_F32, 65536, NULL, NULL);
    assert_int_equal(chosen.reference, 0);
    assert_true(chosen.estimate < 0.99 * alone.estimate && chosen.estimate > 0.97 * alone.estimate);
}

static void no_other_mode_is_much_better(void **state)
{
    static const codec_mode MODES[] = {CODEC_PLANES, CODEC_SUB, CODEC_XOR, CODEC_CONTEXT, CODEC_SYMBOLS};
    (void)state;
    fill_weights(reference, 65536, 19);
    fill_trained(data, reference, 65536, 0.01f, 20);
    const choice chosen = choose(CKPT_F32, 65536, reference, NULL);
    const size_t coded_size = assert_coded(&chosen.plan, 65536, reference);
    for (unsigned i = 0; i < sizeof MODES / sizeof *MODES; i++)
        for (unsigned number = 0; number < 3; number++)
            for (unsigned rotate = 0; rotate < 8; rotate++) {
                codec_plan plan = chosen.plan;
                plan.mode = MODES[i];
                plan.number = number;
                plan.rotate = rotate;
                assert_true(assert_coded(&plan, 65536, reference) + 300 > coded_size);
            }
}

static void of_two_equal_references_the_first_is_taken(void **state)
{
    (void)state;
    fill_weights(reference, 65536, 19);
    fill_trained(data, reference, 65536, 0.01f, 20);
    assert_int_equal(choose(CKPT_F32, 65536, reference, reference).reference, 0);
}

static void noise_is_stored(void **state)
{
    (void)state;
    fill_noise(data, 65536, 21);
    fill_noise(reference, 65536, 22);
    const choice chosen = choose(CKPT_OPAQUE, 65536, reference, NULL);
    assert_int_equal(chosen.plan.mode, CODEC_STORED);
    assert_int_equal(chosen.reference, -1);
}

static void zeros_are_constant_and_need_no_reference(void **state)
{
    (void)state;
    memset(data, 0, 65536);
    memset(reference, 0, 65536);
    const choice chosen = choose(CKPT_F32, 65536, reference, NULL);
    assert_int_equal(chosen.plan.mode, CODEC_CONSTANT);
    assert_int_equal(chosen.reference, -1);
}

static void an_unchanged_tensor_is_a_copy_and_its_changed_chunk_a_difference(void **state)
{
    (void)state;
    fill_weights(data, 65536, 23);
    memcpy(reference, data, 65536);
    const choice chosen = choose(CKPT_F32, 65536, reference, NULL);
    assert_int_equal(chosen.plan.mode, CODEC_COPY);
    assert_int_equal(chosen.reference, 0);
    data[1000] ^= 1;
    assert_true(assert_coded(&chosen.plan, 65536, reference) < 1000);
    assert_int_equal(coded[0], CODEC_SUB);
}

static void floats_in_a_file_of_unknown_format_are_found(void **state)
{
    (void)state;
    fill_weights(reference, 65536, 24);
    fill_trained(data, reference, 65536, 0.003f, 25);
    const choice alone = choose(CKPT_OPAQUE, 65536, NULL, NULL);
    assert_true(alone.plan.mode == CODEC_PLANES || alone.plan.mode == CODEC_SYMBOLS);
    assert_int_equal(alone.plan.width, 4);
    assert_int_equal(choose(CKPT_OPAQUE, 65536, reference, NULL).plan.mode, CODEC_CONTEXT);
}

static void text_with_a_line_put_in_is_a_patch_of_its_reference(void **state)
{
    (void)state;
    uint64_t seed = 26;
    for (size_t i = 0; i < 65536; i++)
        reference[i] = (unsigned char)('a' + random_next(&seed) % 26);
    memcpy(data, reference, 20000);
    memcpy(data + 20000, "a line\n", 7);
    memcpy(data + 20007, reference + 20000, 65536 - 20007);
    const choice chosen = choose(CKPT_OPAQUE, 65536, reference, NULL);
    assert_int_equal(chosen.plan.mode, CODEC_PATCH);
    assert_true(assert_coded(&chosen.plan, 65536, reference) < 200);
}

static void hopeless_samples_are_a_usage_error(void **state)
{
    const codec_sample empty = {.data = data}, large = {.size = CODEC_SAMPLE_BYTES + 1, .data = data};
    choice chosen;
    (void)state;
    assert_int_equal(
        codec_plan_choose(&chosen.plan, &chosen.reference, &chosen.estimate, c, CKPT_F32, &empty, 1, 0, NULL),
        CKPT_EUSAGE);
    assert_int_equal(
        codec_plan_choose(&chosen.plan, &chosen.reference, &chosen.estimate, c, CKPT_F32, &large, 1, 0, NULL),
        CKPT_EUSAGE);
    assert_int_equal(
        codec_plan_choose(&chosen.plan, &chosen.reference, &chosen.estimate, c, CKPT_F32, &large, 0, 0, NULL),
        CKPT_EUSAGE);
}

/* ---- Real weights ---- */

/* The tensors of a safetensors file of the golden training: what follows its JSON header. */
static size_t read_golden(void *dst, const char *name)
{
    char path[512];
    unsigned char length[8];

    snprintf(path, sizeof path, "%s/trajectory-tiny/%s", GOLDEN_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(length, 1, 8, file), 8);
    assert_int_equal(fseek(file, length[0] | length[1] << 8 | length[2] << 16, SEEK_CUR), 0);
    const size_t size = fread(dst, 1, CODEC_CHUNK_BYTES, file);
    fclose(file);
    assert_true(size > 100000);
    return size;
}

static size_t code_golden(const void *ref, size_t size)
{
    codec_sample sample = {.size = CODEC_SAMPLE_BYTES, .data = data, .reference = {ref}};
    choice chosen;

    assert_int_equal(codec_plan_choose(&chosen.plan, &chosen.reference, &chosen.estimate, c, CKPT_F32, &sample, 1,
                                       ref != NULL, NULL),
                     0);
    return assert_coded(&chosen.plan, size, chosen.reference < 0 ? NULL : ref);
}

static void real_weights_are_smaller_than_by_zstd_and_smaller_still_with_a_reference(void **state)
{
    (void)state;
    const size_t size = read_golden(data, "model_epoch_3.safetensors");
    assert_int_equal(read_golden(reference, "model_epoch_2.safetensors"), size);
    const size_t by_zstd = ZSTD_compress(other, sizeof other, data, size, 3);
    const size_t alone = code_golden(NULL, size), delta = code_golden(reference, size);
    print_message("zstd -3 %zu, alone %zu, with reference %zu of %zu\n", by_zstd, alone, delta, size);
    assert_true(alone < by_zstd - by_zstd / 20);
    assert_true(delta < alone - alone / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained_weights_are_coded_as_differences_to_the_nearest_reference),
        cmocka_unit_test(an_unrelated_reference_is_not_taken),
        cmocka_unit_test(a_distant_reference_is_taken_if_it_gains_a_hundredth),
        cmocka_unit_test(no_other_mode_is_much_better),
        cmocka_unit_test(of_two_equal_references_the_first_is_taken),
        cmocka_unit_test(noise_is_stored),
        cmocka_unit_test(zeros_are_constant_and_need_no_reference),
        cmocka_unit_test(an_unchanged_tensor_is_a_copy_and_its_changed_chunk_a_difference),
        cmocka_unit_test(floats_in_a_file_of_unknown_format_are_found),
        cmocka_unit_test(text_with_a_line_put_in_is_a_patch_of_its_reference),
        cmocka_unit_test(hopeless_samples_are_a_usage_error),
        cmocka_unit_test(real_weights_are_smaller_than_by_zstd_and_smaller_still_with_a_reference),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
