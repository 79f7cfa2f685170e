/* Recipes: what is read is printed in one way, and reads back the same; values that are set are kept or refused. */
#include "fuzz.h"

#include "recipe.h"

#include <string.h>

/* Canonical text of the values, after they were read again from it. */
static void check_round_trip(const recipe_values *values)
{
    char *text = NULL, *again = NULL;
    recipe_values copy;
    CHECK(recipe_text(&text, values, NULL) == 0);
    CHECK(recipe_parse(&copy, text, strlen(text), "again", NULL) == 0);
    CHECK(recipe_compatible(values, &copy, NULL) == 0);
    CHECK(recipe_text(&again, &copy, NULL) == 0);
    CHECK(strcmp(text, again) == 0);
    free(text);
    free(again);
}

/* The input as "KEY=VALUE", as `--set` takes it. */
static void check_as_setting(const uint8_t *data, size_t size)
{
    ckpt_recipe *recipe;
    char *key = malloc(size + 1);
    CHECK(key && ckpt_recipe_open(&recipe, "mnist-cnn", NULL) == 0);
    memcpy(key, data, size);
    key[size] = 0;
    char *const equals = strchr(key, '=');
    if (equals) {
        *equals = 0;
        (void)!ckpt_recipe_set(recipe, key, equals + 1, NULL);
        (void)!ckpt_recipe_check(recipe, NULL);
        check_round_trip(&recipe->values);
    }
    ckpt_recipe_free(recipe);
    free(key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    recipe_values values;
    ckpt_error err;
    if (recipe_parse(&values, (const char *)data, size, "input", &err) == 0)
        check_round_trip(&values);
    else
        CHECK(err.code == CKPT_EUSAGE || err.code == CKPT_EFORMAT);
    check_as_setting(data, size);
    return 0;
}
