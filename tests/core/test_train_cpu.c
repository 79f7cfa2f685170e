/* The preset mnist-cnn learns on the cpu backend: 300 steps of batch 32.
 *
 * Bounds: PyTorch 2.15 with the same recipe, three seeds: mean loss of steps 201 to 300 from 0.37 to 0.44, test
 * accuracy 0.81 to 0.83. A network that learnt nothing has ln 10 = 2.30 and 0.1. */
#include "training_fixture.h"

static void loss_falls_as_with_pytorch(void **state)
{
    fixture *const f = *state;
    ckpt_recipe *recipe = NULL;

    MUST(ckpt_recipe_open(&recipe, "mnist-cnn", ERR));
    recipe_change(recipe, "run.steps", "300");
    recipe_change(recipe, "data.batch", "32");
    recipe_change(recipe, "checkpoint.every", "100");
    fixture_train(f, recipe);

    assert_int_equal(f->result.step, 300);
    assert_int_equal(f->events[CKPT_TRAINING_STEPS], 3);
    const double loss = f->last[CKPT_TRAINING_STEPS].loss, accuracy = f->result.test_accuracy;
    print_message("cpu: %s\n", f->text[CKPT_TRAINING_STARTED]);
    if (!(loss < 0.6 && accuracy > 0.75))
        fail_msg("loss %g, test accuracy %g", loss, accuracy);
    ckpt_recipe_free(recipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loss_falls_as_with_pytorch, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
