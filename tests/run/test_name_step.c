#include "name_step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(const char *path, int64_t step, int64_t epoch)
{
    int64_t got_step = 0, got_epoch = 0;
    name_step(&got_step, &got_epoch, path);
    if (got_step != step || got_epoch != epoch)
        fail_msg("%s: step %lld, epoch %lld", path, (long long)got_step, (long long)got_epoch);
}

static void steps_of_the_usual_names(void **state)
{
    (void)state;
    expect("checkpoint-500", 500, NAME_STEP_NONE);
    expect("runs/exp1/checkpoint-500", 500, NAME_STEP_NONE);
    expect("step_001500.pt", 1500, NAME_STEP_NONE);
    expect("global_step200", 200, NAME_STEP_NONE);
    expect("model-iter-30.ckpt", 30, NAME_STEP_NONE);
}

static void epochs_of_the_usual_names(void **state)
{
    (void)state;
    expect("epoch_12.pt", NAME_STEP_NONE, 12);
    expect("ep7.pth", NAME_STEP_NONE, 7);
    expect("model_epoch12.h5", NAME_STEP_NONE, 12);
    expect("Epoch-3.keras", NAME_STEP_NONE, 3);
}

static void lightning_names_tell_both(void **state)
{
    (void)state;
    expect("epoch=3-step=500.ckpt", 500, 3);
}

static void a_number_without_a_word_of_its_own_tells_nothing(void **state)
{
    (void)state;
    expect("model_12.pt", NAME_STEP_NONE, NAME_STEP_NONE);
    expect("weights.05-0.43.h5", NAME_STEP_NONE, NAME_STEP_NONE);
    expect("model_best.pt", NAME_STEP_NONE, NAME_STEP_NONE);
    expect("footstep7.pt", NAME_STEP_NONE, NAME_STEP_NONE);
    expect("deep3.pt", NAME_STEP_NONE, NAME_STEP_NONE);
}

static void folders_above_tell_nothing(void **state)
{
    (void)state;
    expect("checkpoint-500/model.pt", NAME_STEP_NONE, NAME_STEP_NONE);
}

static void a_hash_is_no_step(void **state)
{
    (void)state;
    expect("step_12345678901234567890", NAME_STEP_NONE, NAME_STEP_NONE);
    expect("step_", NAME_STEP_NONE, NAME_STEP_NONE);
    expect("", NAME_STEP_NONE, NAME_STEP_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_the_usual_names),
        cmocka_unit_test(epochs_of_the_usual_names),
        cmocka_unit_test(lightning_names_tell_both),
        cmocka_unit_test(a_number_without_a_word_of_its_own_tells_nothing),
        cmocka_unit_test(folders_above_tell_nothing),
        cmocka_unit_test(a_hash_is_no_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
