/* Recipes: reading, printing, setting, checking. Numbers are expected as Python's repr() and decimal write them. */
#include "alloc_fail.h"
#include "preset.h"
#include "recipe.h"
#include "recipe_keys.h"
#include "temp_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static ckpt_recipe *preset_open(void)
{
    ckpt_recipe *recipe;
    assert_int_equal(ckpt_recipe_open(&recipe, "mnist-cnn", NULL), 0);
    return recipe;
}

static void assert_refused(const char *text, const char *message, const char *hint)
{
    recipe_values values;
    ckpt_error err = {0};
    assert_int_equal(recipe_parse(&values, text, strlen(text), "my.ini", &err), CKPT_EUSAGE);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
}

static void assert_set_refused(const char *key, const char *value, const char *message, const char *hint)
{
    ckpt_recipe *const recipe = preset_open();
    ckpt_error err = {0};
    assert_int_equal(ckpt_recipe_set(recipe, key, value, &err), CKPT_EUSAGE);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
    ckpt_recipe_free(recipe);
}

/* `pairs` ends with NULL. */
static void assert_check(const char *const *pairs, int code, const char *message, const char *hint)
{
    ckpt_recipe *const recipe = preset_open();
    ckpt_error err = {0};
    for (; pairs[0]; pairs += 2)
        assert_int_equal(ckpt_recipe_set(recipe, pairs[0], pairs[1], NULL), 0);
    assert_int_equal(ckpt_recipe_check(recipe, &err), code);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
    ckpt_recipe_free(recipe);
}

static const char MNIST_CNN[] =
    "[run]\nname = mnist-cnn\nepochs = 10\nsteps = 0\nseed = 1\nbackend = cpu\n\n"
    "[data]\nkind = mnist\nclasses = 10\nbatch = 512\ndrop_last = no\nvalidate = split\nvalidation = 0.1\n\n"
    "[net]\nlayers = conv 32 3x3, relu, maxpool 2, conv 64 3x3, relu, flatten, dense 128, relu, dense 10\n\n"
    "[optimizer]\nkind = adam\nlr = 0.001\nbeta1 = 0.9\nbeta2 = 0.999\neps = 1e-8\n\n"
    "[checkpoint]\nevery = 50\nkeep = last 3, best 2, tagged\nprune = 20\n";

static void the_preset_is_the_network_of_the_docs(void **state)
{
    char *text;
    ckpt_recipe *const recipe = preset_open();
    (void)state;
    assert_int_equal(recipe_text(&text, &recipe->values, NULL), 0);
    assert_string_equal(text, MNIST_CNN);
    assert_int_equal(ckpt_recipe_check(recipe, NULL), 0);
    free(text);
    ckpt_recipe_free(recipe);
}

static void presets_are_listed_with_a_summary(void **state)
{
    const char *summary = NULL;
    (void)state;
    assert_string_equal(ckpt_recipe_preset(0, &summary), "mnist-cnn");
    assert_non_null(summary);
    assert_null(ckpt_recipe_preset(1, &summary));
    assert_null(summary);
    assert_null(ckpt_recipe_preset(1, NULL));
}

static void what_is_printed_reads_back_the_same(void **state)
{
    char *printed, *again;
    recipe_values values;
    ckpt_recipe *const recipe = preset_open();
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(ckpt_recipe_set(recipe, "data.validate", "test", NULL), 0);
    assert_int_equal(ckpt_recipe_set(recipe, "optimizer.lr", "2.5e-7", NULL), 0);
    assert_int_equal(ckpt_recipe_set(recipe, "run.seed", "18446744073709551615", NULL), 0);
    assert_int_equal(ckpt_recipe_set(recipe, "checkpoint.keep", "", NULL), 0);
    assert_int_equal(ckpt_recipe_print(&printed, recipe, NULL), 0);
    if (recipe_parse(&values, printed, strlen(printed), "printed", &err))
        fail_msg("%s", err.message);
    assert_int_equal(recipe_compatible(&recipe->values, &values, NULL), 0);
    assert_true(values.seed == UINT64_MAX);
    assert_string_equal(values.keep, "");
    free(printed);
    assert_int_equal(recipe_text(&printed, &recipe->values, NULL), 0);
    assert_int_equal(recipe_text(&again, &values, NULL), 0);
    assert_string_equal(printed, again);
    free(printed);
    free(again);
    ckpt_recipe_free(recipe);
}

static void every_key_is_read_and_printed(void **state)
{
    static const char *const PAIRS[][2] = {
        {"run.name", "a-b_c.9"},       {"run.epochs", "1000000"},
        {"run.steps", "120"},          {"run.seed", "7"},
        {"run.backend", "reference"},  {"data.kind", "mnist"},
        {"data.classes", "256"},       {"data.batch", "65536"},
        {"data.drop_last", "yes"},     {"data.validate", "test"},
        {"data.validation", "0.25"},   {"net.layers", "flatten, dense 256"},
        {"optimizer.kind", "adam"},    {"optimizer.lr", "1000"},
        {"optimizer.beta1", "0"},      {"optimizer.beta2", "0.5"},
        {"optimizer.eps", "1"},        {"checkpoint.every", "0"},
        {"checkpoint.keep", "last 1"}, {"checkpoint.prune", "0"},
    };
    char *text, line[128];
    ckpt_recipe *const recipe = preset_open();
    (void)state;
    assert_int_equal(COUNT(PAIRS), RECIPE_KEY_COUNT);
    for (size_t i = 0; i < COUNT(PAIRS); i++)
        assert_int_equal(ckpt_recipe_set(recipe, PAIRS[i][0], PAIRS[i][1], NULL), 0);
    assert_int_equal(recipe_text(&text, &recipe->values, NULL), 0);
    for (size_t i = 0; i < COUNT(PAIRS); i++) {
        snprintf(line, sizeof line, "\n%s = %s\n", strchr(PAIRS[i][0], '.') + 1, PAIRS[i][1]);
        assert_non_null(strstr(text, line));
    }
    assert_int_equal(recipe->values.epochs, 1000000);
    assert_int_equal(recipe->values.batch, 65536);
    assert_true(recipe->values.drop_last);
    assert_int_equal(recipe->values.validate, VALIDATE_TEST);
    assert_true(recipe->values.beta2 == 0.5);
    free(text);
    ckpt_recipe_free(recipe);
}

static void numbers_are_printed_in_their_shortest_form(void **state)
{
    static const char *const PAIRS[][2] = {
        {"1e-3", "0.001"},       {"0.0001", "0.0001"}, {"0.00001", "1e-5"},
        {"0.10000", "0.1"},      {"1e2", "100"},       {"123.456", "123.456"},
        {"3e-324", "5e-324"},    {"1.5e-9", "1.5e-9"}, {"0.30000000000000004", "0.30000000000000004"},
        {"2.50", "2.5"},         {"1000", "1000"},     {"0.1000000000000000055511151231257827", "0.1"},
        {"1.7e-308", "1.7e-308"}};
    char text[RECIPE_VALUE_SIZE];
    ckpt_recipe *const recipe = preset_open();
    (void)state;
    for (size_t i = 0; i < COUNT(PAIRS); i++) {
        assert_int_equal(ckpt_recipe_set(recipe, "optimizer.lr", PAIRS[i][0], NULL), 0);
        recipe_key_text(text, &recipe->values, recipe_key_find("optimizer", "lr"));
        assert_string_equal(text, PAIRS[i][1]);
    }
    ckpt_recipe_free(recipe);
}

static void lists_are_spelled_in_one_way(void **state)
{
    ckpt_recipe *const recipe = preset_open();
    (void)state;
    assert_int_equal(ckpt_recipe_set(recipe, "net.layers", "  conv 32  3x3 ,relu\t,flatten,dense 10 ", NULL), 0);
    assert_string_equal(recipe->values.layers, "conv 32 3x3, relu, flatten, dense 10");
    ckpt_recipe_free(recipe);
}

static void a_recipe_without_name_is_printed_and_read_all_the_same(void **state)
{
    static const char TEXT[] = "[net]\nlayers =\n";
    char *text;
    recipe_values values, again;
    (void)state;
    assert_int_equal(recipe_parse(&values, TEXT, strlen(TEXT), "my.ini", NULL), 0);
    assert_int_equal(recipe_text(&text, &values, NULL), 0);
    assert_int_equal(recipe_parse(&again, text, strlen(text), "again", NULL), 0);
    assert_string_equal(again.name, "");
    assert_string_equal(again.layers, "");
    free(text);
}

static void keys_that_are_left_out_have_their_usual_values(void **state)
{
    static const char TEXT[] = "[run]\nname = x\n[net]\nlayers = flatten, dense 10\n";
    recipe_values values;
    (void)state;
    assert_int_equal(recipe_parse(&values, TEXT, strlen(TEXT), "my.ini", NULL), 0);
    assert_int_equal(values.batch, 512);
    assert_true(values.lr == 0.001);
    assert_true(values.validation == 0.1);
    assert_string_equal(values.keep, "last 3, best 2, tagged");
}

static void lines_may_end_as_in_dos(void **state)
{
    static const char TEXT[] = "[run]\r\nname = x # mine\r\n\r\n[data]\r\nbatch=64\r\n";
    recipe_values values;
    (void)state;
    assert_int_equal(recipe_parse(&values, TEXT, strlen(TEXT), "my.ini", NULL), 0);
    assert_string_equal(values.name, "x");
    assert_int_equal(values.batch, 64);
}

static void unknown_keys_are_refused_with_the_nearest_known_one(void **state)
{
    (void)state;
    assert_refused("[optimizer]\nlrr = 1\n", "my.ini:2: unknown key optimizer.lrr", "did you mean optimizer.lr?");
    assert_refused("[run]\nlr = 1\n", "my.ini:2: unknown key run.lr", "did you mean optimizer.lr?");
    assert_refused("[run]\nbacth = 1\n", "my.ini:2: unknown key run.bacth", "did you mean data.batch?");
    assert_refused("seed = 1\n", "my.ini:1: unknown key seed", "did you mean run.seed?");
    assert_refused("[net]\ndropout = 1\n", "my.ini:2: unknown key net.dropout",
                   "`ckpt train --print mnist-cnn` shows all keys");
    assert_refused("[optimiser]\n", "my.ini:1: unknown section [optimiser]", "did you mean [optimizer]?");
    assert_refused("[net \"a\"]\n", "my.ini:1: unknown section [net \"...\"]", "did you mean [net]?");
    assert_refused("[zzzz]\n", "my.ini:1: unknown section [zzzz]",
                   "there are [run], [data], [net], [optimizer] and [checkpoint]");
}

static void a_key_without_its_section_is_refused_with_its_full_name(void **state)
{
    (void)state;
    assert_set_refused("lr", "1", "unknown key lr", "did you mean optimizer.lr?");
    assert_set_refused("kind", "adam", "unknown key kind", "did you mean data.kind or optimizer.kind?");
    assert_set_refused("data.epochs", "1", "unknown key data.epochs", "did you mean run.epochs?");
    assert_set_refused("run.", "1", "unknown key run.", "did you mean run.name?");
}

static void a_key_that_stands_twice_is_refused(void **state)
{
    (void)state;
    assert_refused("[run]\nseed = 1\n[data]\nbatch = 2\n[run]\nseed = 1\n",
                   "my.ini:6: run.seed stands here again, first in line 2", "remove one of the two lines");
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    assert_set_refused("run.epochs", "0", "run.epochs = 0: a whole number from 1 to 1000000 is expected",
                       "run.epochs: passes over the training samples");
    assert_set_refused("run.epochs", "1000001", "run.epochs = 1000001: a whole number from 1 to 1000000 is expected",
                       "run.epochs: passes over the training samples");
    assert_set_refused("data.batch", "65537", "data.batch = 65537: a whole number from 1 to 65536 is expected",
                       "data.batch: samples of one step");
    assert_set_refused("data.classes", "1", "data.classes = 1: a whole number from 2 to 256 is expected",
                       "data.classes: labels are below this number");
    assert_set_refused("optimizer.lr", "0", "optimizer.lr = 0: a number above 0 and at most 1000 is expected",
                       "optimizer.lr: learning rate");
    assert_set_refused("optimizer.lr", "1001", "optimizer.lr = 1001: a number above 0 and at most 1000 is expected",
                       "optimizer.lr: learning rate");
    assert_set_refused("optimizer.beta1", "1", "optimizer.beta1 = 1: a number of at least 0 and below 1 is expected",
                       "optimizer.beta1: how much of the mean gradient stays from step to step");
    assert_set_refused("optimizer.beta2", "-0.1",
                       "optimizer.beta2 = -0.1: a number of at least 0 and below 1 is expected",
                       "optimizer.beta2: the same of the mean squared gradient");
    assert_set_refused("optimizer.eps", "1e-46",
                       "optimizer.eps = 1e-46: a number of at least 1e-30 and at most 1 is expected",
                       "optimizer.eps: added to the divisor");
}

static void what_is_no_number_is_refused(void **state)
{
    static const char *const WORDS[] = {"nan", "inf", "1e999", "", "0x1p-3", "1,5", "0.5x"};
    ckpt_recipe *const recipe = preset_open();
    (void)state;
    for (size_t i = 0; i < COUNT(WORDS); i++) {
        assert_int_equal(ckpt_recipe_set(recipe, "optimizer.beta1", WORDS[i], NULL), CKPT_EUSAGE);
        assert_int_equal(ckpt_recipe_set(recipe, "run.seed", WORDS[i], NULL), CKPT_EUSAGE);
    }
    assert_true(recipe->values.beta1 == 0.9); /* untouched */
    assert_int_equal(recipe->values.seed, 1);
    ckpt_recipe_free(recipe);
}

static void words_out_of_a_list_are_refused_with_the_nearest(void **state)
{
    (void)state;
    assert_refused("[data]\nvalidate = tset\n", "my.ini:2: data.validate = tset: split or test is expected",
                   "did you mean test?");
    assert_set_refused("data.drop_last", "true", "data.drop_last = true: no or yes is expected",
                       "data.drop_last: yes: leave out the last batch of an epoch when it is a short one");
    assert_set_refused("run.backend", "cup", "run.backend = cup: cpu or reference is expected", "did you mean cpu?");
    assert_set_refused("optimizer.kind", "sgd", "optimizer.kind = sgd: adam is expected",
                       "optimizer.kind: adam, as PyTorch computes it");
}

static void names_that_no_file_should_have_are_refused(void **state)
{
    static const char *const NAMES[] = {"_", ".", "..", "a/b", "-x", ".hidden", "a b", "a~1"};
    static const char LONG[] = "0123456789012345678901234567890123456789012345678901234567890123"; /* 64 letters */
    ckpt_recipe *const recipe = preset_open();
    (void)state;
    for (size_t i = 0; i < COUNT(NAMES); i++)
        assert_int_equal(ckpt_recipe_set(recipe, "run.name", NAMES[i], NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_recipe_set(recipe, "run.name", LONG, NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_recipe_set(recipe, "run.name", LONG + 1, NULL), 0);
    ckpt_recipe_free(recipe);
    assert_set_refused("run.name", "a/b",
                       "run.name = a/b: 1 to 63 letters, digits, _ . - are expected, the first a letter or digit",
                       "run.name: under which checkpoints and log are kept: letters, digits, _ . -");
}

static void lists_that_are_too_long_or_hold_other_characters_are_refused(void **state)
{
    char layers[RECIPE_LAYERS_SIZE + 1], longer[RECIPE_LAYERS_SIZE + 3];
    ckpt_recipe *const recipe = preset_open();
    (void)state;
    memset(layers, 'a', sizeof layers);
    layers[RECIPE_LAYERS_SIZE] = 0;
    assert_int_equal(ckpt_recipe_set(recipe, "net.layers", layers, NULL), CKPT_EUSAGE);
    memset(layers, ',', RECIPE_LAYERS_SIZE); /* each gets a blank behind it */
    assert_int_equal(ckpt_recipe_set(recipe, "net.layers", layers, NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_recipe_set(recipe, "net.layers", "relu # later", NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_recipe_set(recipe, "net.layers", "\"relu\"", NULL), CKPT_EUSAGE);
    layers[RECIPE_LAYERS_SIZE - 1] = 0;
    memset(layers, 'a', RECIPE_LAYERS_SIZE - 1);
    assert_int_equal(ckpt_recipe_set(recipe, "net.layers", layers, NULL), 0);
    snprintf(longer, sizeof longer, "%s b", layers); /* the blank would be cut off at the end */
    assert_int_equal(ckpt_recipe_set(recipe, "net.layers", longer, NULL), CKPT_EUSAGE);
    assert_string_equal(recipe->values.layers, layers);
    ckpt_recipe_free(recipe);
}

static void a_share_is_not_held_back_when_the_test_samples_validate(void **state)
{
    static const char FILE_WITHOUT[] = "[data]\nvalidate = test\n";
    ckpt_recipe *const recipe = preset_open();
    recipe_values values;
    (void)state;
    assert_int_equal(ckpt_recipe_set(recipe, "data.validate", "test", NULL), 0);
    assert_true(recipe->values.validation == 0);
    assert_int_equal(ckpt_recipe_check(recipe, NULL), 0);
    assert_int_equal(ckpt_recipe_set(recipe, "data.validate", "split", NULL), 0);
    assert_true(recipe->values.validation == 0.1);
    ckpt_recipe_free(recipe);
    assert_int_equal(recipe_parse(&values, FILE_WITHOUT, strlen(FILE_WITHOUT), "my.ini", NULL), 0);
    assert_true(values.validation == 0);
}

static void contradictions_are_told_in_one_line(void **state)
{
    static const char *const SHARE_AND_TEST[] = {"data.validation", "0.2", "data.validate", "test", NULL};
    static const char *const TEST_AND_SHARE[] = {"data.validate", "test", "data.validation", "0.2", NULL};
    static const char *const BEST_OF_NOTHING[] = {"data.validation", "0", NULL};
    static const char *const NO_POLICY[] = {"checkpoint.keep", "last three", NULL};
    static const char *const LAST_OF_NOTHING[] = {"data.validation", "0", "checkpoint.keep", "last 3", NULL};
    static const char MESSAGE[] = "data.validate = test holds nothing back, but data.validation = 0.2";
    static const char HINT[] = "leave data.validation out, or set data.validate = split";
    (void)state;
    assert_check(SHARE_AND_TEST, CKPT_EUSAGE, MESSAGE, HINT);
    assert_check(TEST_AND_SHARE, CKPT_EUSAGE, MESSAGE, HINT);
    assert_check(BEST_OF_NOTHING, CKPT_EUSAGE,
                 "checkpoint.keep = last 3, best 2, tagged, but with data.validation = 0 no checkpoint is the best",
                 "set data.validation = 0.1, or take `best` out of checkpoint.keep");
    assert_check(NO_POLICY, CKPT_EUSAGE, "checkpoint.keep: policy `last three`: at 6: a number is missing",
                 "for instance: last 5, best 2, every 10000 steps, tagged");
    assert_check(LAST_OF_NOTHING, 0, "", "");
}

static void a_file_that_contradicts_itself_is_told_so_in_either_order(void **state)
{
    static const char *const TEXTS[] = {"[data]\nvalidate = test\nvalidation = 0.2\n",
                                        "[data]\nvalidation = 0.2\nvalidate = test\n"};
    (void)state;
    for (size_t i = 0; i < COUNT(TEXTS); i++) {
        ckpt_recipe recipe = {0};
        ckpt_error err = {0};
        assert_int_equal(recipe_parse(&recipe.values, TEXTS[i], strlen(TEXTS[i]), "my.ini", NULL), 0);
        assert_int_equal(ckpt_recipe_set(&recipe, "run.name", "x", NULL), 0);
        assert_int_equal(ckpt_recipe_set(&recipe, "net.layers", "flatten, dense 10", NULL), 0);
        assert_int_equal(ckpt_recipe_check(&recipe, &err), CKPT_EUSAGE);
        assert_string_equal(err.message, "data.validate = test holds nothing back, but data.validation = 0.2");
    }
}

static void a_recipe_without_name_or_layers_is_told_so(void **state)
{
    static const char NO_NAME[] = "[net]\nlayers = flatten, dense 10\n", NO_LAYERS[] = "[run]\nname = x\n";
    ckpt_recipe recipe = {0};
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(recipe_parse(&recipe.values, NO_NAME, strlen(NO_NAME), "my.ini", NULL), 0);
    assert_int_equal(ckpt_recipe_check(&recipe, &err), CKPT_EUSAGE);
    assert_string_equal(err.message, "the recipe has no run.name");
    assert_string_equal(err.hint, "for instance --set run.name=my-run");
    assert_int_equal(recipe_parse(&recipe.values, NO_LAYERS, strlen(NO_LAYERS), "my.ini", NULL), 0);
    assert_int_equal(ckpt_recipe_check(&recipe, &err), CKPT_EUSAGE);
    assert_string_equal(err.message, "the recipe has no net.layers");
}

static void a_run_may_go_on_for_longer_and_be_kept_otherwise(void **state)
{
    static const char *const PAIRS[][2] = {
        {"run.name", "other"},     {"run.epochs", "20"},    {"run.steps", "1000"},
        {"checkpoint.every", "7"}, {"checkpoint.keep", ""}, {"checkpoint.prune", "0"},
    };
    ckpt_recipe *const recorded = preset_open(), *const now = preset_open();
    (void)state;
    for (size_t i = 0; i < COUNT(PAIRS); i++)
        assert_int_equal(ckpt_recipe_set(now, PAIRS[i][0], PAIRS[i][1], NULL), 0);
    assert_int_equal(recipe_compatible(&recorded->values, &now->values, NULL), 0);
    ckpt_recipe_free(recorded);
    ckpt_recipe_free(now);
}

static void a_run_may_not_go_on_with_another_recipe(void **state)
{
    ckpt_recipe *const recorded = preset_open(), *const now = preset_open();
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(ckpt_recipe_set(now, "optimizer.lr", "2e-3", NULL), 0);
    assert_int_equal(ckpt_recipe_set(now, "data.batch", "256", NULL), 0);
    assert_int_equal(recipe_compatible(&recorded->values, &now->values, &err), CKPT_EUSAGE);
    assert_string_equal(err.message, "the recipe is not that of the run: data.batch was 512, now 256; optimizer.lr was "
                                     "0.001, now 0.002");
    assert_string_equal(err.hint, "of a run only run.epochs, run.steps and [checkpoint] may change; begin another with "
                                  "`ckpt train --name NAME`");
    ckpt_recipe_free(recorded);
    ckpt_recipe_free(now);
}

static void any_other_key_that_differs_is_named(void **state)
{
    static const char *const PAIRS[][2] = {
        {"run.seed", "2"},
        {"run.backend", "reference"},
        {"data.classes", "20"},
        {"data.batch", "1"},
        {"data.drop_last", "yes"},
        {"data.validation", "0.5"},
        {"net.layers", "flatten, dense 10"},
        {"optimizer.lr", "1"},
        {"optimizer.beta1", "0.5"},
        {"optimizer.beta2", "0.5"},
        {"optimizer.eps", "0.5"},
    };
    ckpt_recipe *const recorded = preset_open();
    (void)state;
    for (size_t i = 0; i < COUNT(PAIRS); i++) {
        ckpt_recipe *const now = preset_open();
        ckpt_error err = {0};
        assert_int_equal(ckpt_recipe_set(now, PAIRS[i][0], PAIRS[i][1], NULL), 0);
        assert_int_equal(recipe_compatible(&recorded->values, &now->values, &err), CKPT_EUSAGE);
        assert_non_null(strstr(err.message, PAIRS[i][0]));
        ckpt_recipe_free(now);
    }
    ckpt_recipe_free(recorded);
}

static void a_file_is_opened_by_its_path(void **state)
{
    char dir[TEMP_PATH_MAX], path[TEMP_PATH_MAX + 16];
    ckpt_recipe *recipe;
    (void)state;
    assert_int_equal(temp_dir_make(dir), 0);
    snprintf(path, sizeof path, "%s/my.ini", dir);
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs("[run]\nname = mine\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(ckpt_recipe_open(&recipe, path, NULL), 0);
    assert_string_equal(recipe->values.name, "mine");
    ckpt_recipe_free(recipe);
    assert_int_equal(temp_dir_remove(dir), 0);
}

static void a_name_that_is_neither_preset_nor_file_is_not_found(void **state)
{
    ckpt_recipe *recipe;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(ckpt_recipe_open(&recipe, "mnist-cn", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.message, "recipe mnist-cn: neither a preset nor a file");
    assert_string_equal(err.hint, "did you mean the preset mnist-cnn?");
    assert_int_equal(ckpt_recipe_open(&recipe, "none/of/these", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.hint, "`ckpt train --print mnist-cnn > my.ini` makes a file to begin with");
    assert_null(recipe);
}

static void a_file_that_is_no_ini_is_refused_with_the_line(void **state)
{
    recipe_values values;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(recipe_parse(&values, "[run]\nname x\n", 13, "my.ini", &err), CKPT_EFORMAT);
    assert_string_equal(err.message, "my.ini:2: \"=\" expected after \"name\"");
}

static void each_allocation_that_fails_is_survived(void **state)
{
    ckpt_recipe *recipe = NULL;
    char *text = NULL;
    long at = 0;
    bool failed = ALLOC_FAIL_WORKS;
    (void)state;
    while (failed) {
        alloc_fail_arm(++at);
        int rc = ckpt_recipe_open(&recipe, "mnist-cnn", NULL);
        if (!rc)
            rc = ckpt_recipe_set(recipe, "data.validate", "test", NULL);
        if (!rc)
            rc = ckpt_recipe_print(&text, recipe, NULL);
        failed = alloc_fail_disarm();
        assert_true(rc == 0 || (failed && rc == CKPT_ENOMEM));
        assert_true((rc == 0) == (text != NULL));
        free(text);
        text = NULL;
        ckpt_recipe_free(recipe);
        recipe = NULL;
    }
    assert_true(!ALLOC_FAIL_WORKS || at > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_preset_is_the_network_of_the_docs),
        cmocka_unit_test(presets_are_listed_with_a_summary),
        cmocka_unit_test(what_is_printed_reads_back_the_same),
        cmocka_unit_test(every_key_is_read_and_printed),
        cmocka_unit_test(numbers_are_printed_in_their_shortest_form),
        cmocka_unit_test(lists_are_spelled_in_one_way),
        cmocka_unit_test(a_recipe_without_name_is_printed_and_read_all_the_same),
        cmocka_unit_test(keys_that_are_left_out_have_their_usual_values),
        cmocka_unit_test(lines_may_end_as_in_dos),
        cmocka_unit_test(unknown_keys_are_refused_with_the_nearest_known_one),
        cmocka_unit_test(a_key_without_its_section_is_refused_with_its_full_name),
        cmocka_unit_test(a_key_that_stands_twice_is_refused),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(words_out_of_a_list_are_refused_with_the_nearest),
        cmocka_unit_test(names_that_no_file_should_have_are_refused),
        cmocka_unit_test(lists_that_are_too_long_or_hold_other_characters_are_refused),
        cmocka_unit_test(a_share_is_not_held_back_when_the_test_samples_validate),
        cmocka_unit_test(contradictions_are_told_in_one_line),
        cmocka_unit_test(a_file_that_contradicts_itself_is_told_so_in_either_order),
        cmocka_unit_test(a_recipe_without_name_or_layers_is_told_so),
        cmocka_unit_test(a_run_may_go_on_for_longer_and_be_kept_otherwise),
        cmocka_unit_test(a_run_may_not_go_on_with_another_recipe),
        cmocka_unit_test(any_other_key_that_differs_is_named),
        cmocka_unit_test(a_file_is_opened_by_its_path),
        cmocka_unit_test(a_name_that_is_neither_preset_nor_file_is_not_found),
        cmocka_unit_test(a_file_that_is_no_ini_is_refused_with_the_line),
        cmocka_unit_test(each_allocation_that_fails_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
