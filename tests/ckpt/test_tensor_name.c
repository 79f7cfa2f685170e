/* Names of tensors: pairing across files, and classes. */
#include "tensor_input.h"

static void container_words_in_front_are_not_part_of_the_canonical_name(void **state)
{
    (void)state;
    assert_string_equal(tensor_name_canonical("model.layer1.0.conv1.weight"), "layer1.0.conv1.weight");
    assert_string_equal(tensor_name_canonical("state_dict.conv1.weight"), "conv1.weight");
    assert_string_equal(tensor_name_canonical("model_state_dict.fc.bias"), "fc.bias");
    assert_string_equal(tensor_name_canonical("module.fc.bias"), "fc.bias");
    assert_string_equal(tensor_name_canonical("net.fc.bias"), "fc.bias");
    assert_string_equal(tensor_name_canonical("_orig_mod.fc.bias"), "fc.bias");
    assert_string_equal(tensor_name_canonical("state_dict.model.module._orig_mod.fc.bias"), "fc.bias");
}

static void other_words_stay(void **state)
{
    (void)state;
    assert_string_equal(tensor_name_canonical("fc.bias"), "fc.bias");
    assert_string_equal(tensor_name_canonical("ema.fc.bias"), "ema.fc.bias");
    assert_string_equal(tensor_name_canonical("models.fc.bias"), "models.fc.bias");
    assert_string_equal(tensor_name_canonical("fc.model.bias"), "fc.model.bias");
    assert_string_equal(tensor_name_canonical("optimizer.state.3.exp_avg"), "optimizer.state.3.exp_avg");
}

static void a_canonical_name_is_never_empty(void **state)
{
    (void)state;
    assert_string_equal(tensor_name_canonical("model"), "model");
    assert_string_equal(tensor_name_canonical("model."), "model.");
    assert_string_equal(tensor_name_canonical("model.module"), "module");
    assert_string_equal(tensor_name_canonical(""), "");
}

static void assert_class(const char *name, const char *expected)
{
    char class_name[64];
    tensor_class_of(class_name, name);
    assert_string_equal(class_name, expected);
}

static void what_is_not_of_the_optimizer_is_weights(void **state)
{
    (void)state;
    assert_class("model.layer1.0.conv1.weight", "weights");
    assert_class("bn1.running_mean", "weights");
    assert_class("bn1.num_batches_tracked", "weights");
    assert_class("state.alpha", "weights");
    assert_class("", "weights");
}

static void the_optimizer_s_state_is_named_by_its_last_word(void **state)
{
    (void)state;
    assert_class("optimizer.state.3.momentum_buffer", "momentum_buffer");
    assert_class("optimizer_state_dict.state.0.exp_avg", "exp_avg");
    assert_class("optimizer_states.0.state.17.exp_avg_sq", "exp_avg_sq");
    assert_class("optim.state.0.step", "step");
    assert_class("state.12.exp_avg", "exp_avg");
    assert_class("optimizer.fp32_from_fp16.0.3", "fp32_from_fp16");
    assert_class("optimizer", "weights");
}

static void a_word_for_a_moment_names_the_class_wherever_it_stands(void **state)
{
    (void)state;
    assert_class("optimizer.exp_avg.conv1.weight", "exp_avg");
    assert_class("optimizer.exp_avg_sq.dense1.bias", "exp_avg_sq");
    assert_class("optimizer.state.layer1.0.weight.exp_avg", "exp_avg");
    assert_class("opt_state.0.mu.params.Dense_0.kernel", "mu");
    assert_class("optimizer.state.music", "music");
}

static void a_class_is_cut_to_63_bytes(void **state)
{
    char class_name[64];
    (void)state;
    tensor_class_of(class_name,
                    "optimizer.state.0.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    assert_int_equal(strlen(class_name), 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(container_words_in_front_are_not_part_of_the_canonical_name),
        cmocka_unit_test(other_words_stay),
        cmocka_unit_test(a_canonical_name_is_never_empty),
        cmocka_unit_test(what_is_not_of_the_optimizer_is_weights),
        cmocka_unit_test(the_optimizer_s_state_is_named_by_its_last_word),
        cmocka_unit_test(a_word_for_a_moment_names_the_class_wherever_it_stands),
        cmocka_unit_test(a_class_is_cut_to_63_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
