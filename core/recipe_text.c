/* Recipes as text: canonical, and with comments for people. */
#include "recipe_keys.h"

#include "fail.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the longest text: all values but the lists are short, and so are names and comments. */
#define LINE_MAX 320
#define TEXT_MAX (RECIPE_LAYERS_SIZE + RECIPE_KEEP_SIZE + 40 * LINE_MAX)

#define HEAD                                                                                                           \
    "# A recipe: all that the result of a training depends on, but for the data. Change it, and\n"                     \
    "#\n"                                                                                                              \
    "#     ckpt train THIS_FILE --data FOLDER\n"                                                                       \
    "#\n"                                                                                                              \
    "# `--set optimizer.lr=0.002` changes a key for one training. A key that is left out has the value\n"              \
    "# that the preset mnist-cnn gives it, but for run.name and net.layers, which have to be here.\n\n"

typedef struct text {
    size_t size;
    char *bytes; /* room for TEXT_MAX */
} text;

static void __attribute__((format(printf, 2, 3))) text_add(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int size = vsnprintf(t->bytes + t->size, TEXT_MAX - t->size, format, args);
    va_end(args);
    assert(size >= 0 && (size_t)size < TEXT_MAX - t->size);
    t->size += (size_t)size;
}

static int text_make(char **out, const recipe_values *values, bool comments, ckpt_error *err)
{
    int rc = 0;
    char value[RECIPE_VALUE_SIZE];
    text t = {.bytes = malloc(TEXT_MAX)};

    *out = NULL;
    FAIL_IF_NULL(t.bytes, err);
    text_add(&t, "%s", comments ? HEAD : "");
    for (size_t i = 0; i < RECIPE_KEY_COUNT; i++) {
        const recipe_key *const key = &RECIPE_KEYS[i];
        if (i == 0 || strcmp(key->section, RECIPE_KEYS[i - 1].section) != 0)
            text_add(&t, "%s[%s]\n", i ? "\n" : "", key->section);
        if (comments)
            text_add(&t, "# %s\n", key->help);
        recipe_key_text(value, values, key);
        text_add(&t, "%s =%s%s\n", key->key, value[0] ? " " : "", value);
    }
    *out = t.bytes;
out:
    return rc;
}

int recipe_text(char **out, const recipe_values *values, ckpt_error *err)
{
    return text_make(out, values, false, err);
}

int ckpt_recipe_print(char **out, const ckpt_recipe *recipe, ckpt_error *err)
{
    return text_make(out, &recipe->values, true, err);
}
