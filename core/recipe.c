#include "recipe.h"

#include "preset.h"
#include "recipe_keys.h"

#include "fail.h"
#include "file.h"
#include "ini.h"
#include "word.h"

#include <ckpt/store.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_SIZE_MAX ((size_t)64 << 10)

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* In which line each key stood; 0: nowhere. */
typedef struct key_lines {
    size_t of[RECIPE_KEYS_MAX];
} key_lines;

static int section_check(const ini_entry *entry, ckpt_error *err)
{
    const char *names[RECIPE_KEYS_MAX + 1] = {NULL};

    for (size_t i = 0; i < RECIPE_KEY_COUNT; i++) {
        names[i] = RECIPE_KEYS[i].section;
        if (!entry->sub && strcmp(names[i], entry->section) == 0)
            return 0;
    }
    error_set(err, CKPT_EUSAGE, "unknown section [%.*s%s]", RECIPE_SHOWN_MAX, entry->section,
              entry->sub ? " \"...\"" : "");
    const char *const near = word_nearest(entry->section, names);
    if (near)
        error_hint(err, "did you mean [%s]?", near);
    else
        error_hint(err, "there are [run], [data], [net], [optimizer] and [checkpoint]");
    return CKPT_EUSAGE;
}

static int entry_read(recipe_values *values, key_lines *lines, const ini_entry *entry, ckpt_error *err)
{
    int rc = 0;

    if (!entry->key) {
        TRY(section_check(entry, err));
        goto out;
    }
    const recipe_key *const key = recipe_key_find(entry->section, entry->key);
    if (!key)
        TRY(recipe_key_unknown(entry->section, entry->key, err));
    size_t *const line = &lines->of[key - RECIPE_KEYS];
    if (*line) {
        rc = error_set(err, CKPT_EUSAGE, "%s.%s stands here again, first in line %zu", key->section, key->key, *line);
        error_hint(err, "remove one of the two lines");
        goto out;
    }
    *line = entry->line;
    TRY(recipe_key_read(values, key, entry->value, err));
out:
    return rc;
}

int recipe_parse(recipe_values *out, const char *text, size_t size, const char *path, ckpt_error *err)
{
    int rc = 0;
    ini *file = NULL;
    ini_entry entry;
    size_t cursor = 0;
    key_lines lines = {{0}};

    TRY(recipe_values_usual(out, err));
    TRY(ini_parse(&file, text, size, path, err));
    while (ini_next(&entry, &cursor, file)) {
        rc = entry_read(out, &lines, &entry, err);
        if (rc == CKPT_EUSAGE)
            error_prefix(err, "%s:%zu", path, entry.line);
        TRY(rc);
    }
    if (out->validate == VALIDATE_TEST && !lines.of[recipe_key_find("data", "validation") - RECIPE_KEYS])
        out->validation = 0;
out:
    ini_free(file);
    return rc;
}

static int file_recipe_read(recipe_values *out, const char *path, ckpt_error *err)
{
    int rc = 0;
    char *data = NULL;
    size_t size;

    rc = file_read_all(&data, &size, path, FILE_SIZE_MAX, err);
    if (rc == CKPT_ENOTFOUND) {
        const char *const near = preset_nearest(path);
        error_set(err, rc, "recipe %s: neither a preset nor a file", path);
        if (near)
            error_hint(err, "did you mean the preset %s?", near);
        else
            error_hint(err, "`ckpt train --print mnist-cnn > my.ini` makes a file to begin with");
    }
    TRY(rc);
    TRY(recipe_parse(out, data, size, path, err));
out:
    free(data);
    return rc;
}

int ckpt_recipe_open(ckpt_recipe **out, const char *name, ckpt_error *err)
{
    int rc = 0;
    const preset *const found = preset_find(name);
    ckpt_recipe *recipe = calloc(1, sizeof *recipe);

    *out = NULL;
    FAIL_IF_NULL(recipe, err);
    if (found)
        TRY(recipe_parse(&recipe->values, found->text, strlen(found->text), found->name, err));
    else
        TRY(file_recipe_read(&recipe->values, name, err));
    *out = recipe;
    recipe = NULL;
out:
    ckpt_recipe_free(recipe);
    return rc;
}

void ckpt_recipe_free(ckpt_recipe *recipe)
{
    free(recipe);
}

/* ---- Changing --------------------------------------------------------------------------------------------------- */

/* The share that is held back follows data.validate as long as nobody sets it. */
static int share_follow(ckpt_recipe *recipe, recipe_validate before, ckpt_error *err)
{
    int rc = 0;
    const recipe_key *const share = recipe_key_find("data", "validation");
    recipe_values *const values = &recipe->values;

    if (recipe->share_set || values->validate == before)
        goto out;
    TRY(recipe_key_read(values, share, values->validate == VALIDATE_TEST ? "0" : share->usual, err));
out:
    return rc;
}

int ckpt_recipe_set(ckpt_recipe *recipe, const char *key, const char *value, ckpt_error *err)
{
    int rc = 0;
    char section[RECIPE_FULL_SIZE] = "";
    const recipe_validate before = recipe->values.validate;
    const char *const point = strchr(key, '.');

    if (point)
        snprintf(section, sizeof section, "%.*s", (int)(point - key), key);
    const char *const last = point ? point + 1 : key;
    const recipe_key *const found = recipe_key_find(section, last);
    if (!found)
        TRY(recipe_key_unknown(section, last, err));
    TRY(recipe_key_read(&recipe->values, found, value, err));
    recipe->share_set = recipe->share_set || found->offset == offsetof(recipe_values, validation);
    TRY(share_follow(recipe, before, err));
out:
    return rc;
}

/* ---- Do values fit together? ------------------------------------------------------------------------------------ */

static int key_missing(const char *key, const char *example, ckpt_error *err)
{
    error_set(err, CKPT_EUSAGE, "the recipe has no %s", key);
    error_hint(err, "for instance --set %s=%s", key, example);
    return CKPT_EUSAGE;
}

/* Lists are spelled in one way, so that a rule stands at the start or behind ", ". */
static bool keeps_best(const char *keep)
{
    static const char RULE[] = "best ";
    return strncmp(keep, RULE, strlen(RULE)) == 0 || strstr(keep, ", best ") != NULL;
}

/* What is validated on, and what `best` in checkpoint.keep would then mean. */
static int validation_check(const recipe_values *v, ckpt_error *err)
{
    char share[RECIPE_VALUE_SIZE];

    if (v->validate == VALIDATE_TEST && v->validation > 0) {
        recipe_key_text(share, v, recipe_key_find("data", "validation"));
        error_set(err, CKPT_EUSAGE, "data.validate = test holds nothing back, but data.validation = %s", share);
        error_hint(err, "leave data.validation out, or set data.validate = split");
        return CKPT_EUSAGE;
    }
    if (v->validate == VALIDATE_SPLIT && v->validation <= 0 && keeps_best(v->keep)) {
        error_set(err, CKPT_EUSAGE, "checkpoint.keep = %s, but with data.validation = 0 no checkpoint is the best",
                  v->keep);
        error_hint(err, "set data.validation = 0.1, or take `best` out of checkpoint.keep");
        return CKPT_EUSAGE;
    }
    return 0;
}

int ckpt_recipe_check(const ckpt_recipe *recipe, ckpt_error *err)
{
    int rc = 0;
    const recipe_values *const v = &recipe->values;

    if (!v->name[0])
        TRY(key_missing("run.name", "my-run", err));
    if (!v->layers[0])
        TRY(key_missing("net.layers", "\"flatten, dense 10\"", err));
    if (v->keep[0]) {
        rc = ckpt_policy_check(v->keep, err);
        if (rc)
            error_prefix(err, "checkpoint.keep");
        TRY(rc);
    }
    TRY(validation_check(v, err));
out:
    return rc;
}

int recipe_compatible(const recipe_values *a, const recipe_values *b, ckpt_error *err)
{
    char differences[sizeof err->message] = "", was[RECIPE_VALUE_SIZE], now[RECIPE_VALUE_SIZE];
    size_t used = 0;

    for (size_t i = 0; i < RECIPE_KEY_COUNT && used < sizeof differences; i++) {
        const recipe_key *const key = &RECIPE_KEYS[i];
        if (key->may_differ || recipe_key_same(a, b, key))
            continue;
        recipe_key_text(was, a, key);
        recipe_key_text(now, b, key);
        used +=
            (size_t)snprintf(differences + used, sizeof differences - used, "%s%s.%s was %.*s, now %.*s",
                             used ? "; " : "", key->section, key->key, RECIPE_SHOWN_MAX, was, RECIPE_SHOWN_MAX, now);
    }
    if (used == 0)
        return 0;
    error_set(err, CKPT_EUSAGE, "the recipe is not that of the run: %s", differences);
    error_hint(err, "of a run only run.epochs, run.steps and [checkpoint] may change; begin another with "
                    "`ckpt train --name NAME`");
    return CKPT_EUSAGE;
}
