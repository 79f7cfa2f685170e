#include "recipe_keys.h"

#include "dataset.h"
#include "fail.h"
#include "word.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const BACKENDS[] = {"cpu", "reference", NULL};
static const char *const DATA_KINDS[] = {"mnist", NULL};
static const char *const SWITCH[] = {"no", "yes", NULL};
static const char *const VALIDATIONS[] = {[VALIDATE_SPLIT] = "split", [VALIDATE_TEST] = "test", NULL};
static const char *const OPTIMIZERS[] = {"adam", NULL};

#define MEMBER(name) .offset = offsetof(recipe_values, name), .size = sizeof(((recipe_values *)0)->name)

const recipe_key RECIPE_KEYS[] = {
    {"run", "name", RECIPE_NAME, true, MEMBER(name),
     .help = "under which checkpoints and log are kept: letters, digits, _ . -"},
    {"run", "epochs", RECIPE_COUNT, true, MEMBER(epochs), .min = 1, .max = RECIPE_EPOCHS_MAX, .usual = "10",
     .help = "passes over the training samples"},
    {"run", "steps", RECIPE_COUNT, true, MEMBER(steps), .max = RECIPE_STEPS_MAX, .usual = "0",
     .help = "stop after so many steps in all; 0: after the epochs"},
    {"run", "seed", RECIPE_COUNT, false, MEMBER(seed), .max = UINT64_MAX, .usual = "1",
     .help = "of first weights, order of samples, and which are held back"},
    {"run", "backend", RECIPE_CHOICE, false, MEMBER(backend), .words = BACKENDS, .usual = "cpu",
     .help = "who computes: cpu, or reference (plain and slow, to compare with)"},

    {"data", "kind", RECIPE_CHOICE, false, MEMBER(data_kind), .words = DATA_KINDS, .usual = "mnist",
     .help = "mnist: four IDX files, plain or .gz, or mnist.npz"},
    {"data", "classes", RECIPE_COUNT, false, MEMBER(classes), .min = 2, .max = DATASET_CLASSES_MAX, .usual = "10",
     .help = "labels are below this number"},
    {"data", "batch", RECIPE_COUNT, false, MEMBER(batch), .min = 1, .max = RECIPE_BATCH_MAX, .usual = "512",
     .help = "samples of one step"},
    {"data", "drop_last", RECIPE_SWITCH, false, MEMBER(drop_last), .words = SWITCH, .usual = "no",
     .help = "yes: leave out the last batch of an epoch when it is a short one"},
    {"data", "validate", RECIPE_SWITCH, false, MEMBER(validate), .words = VALIDATIONS, .usual = "split",
     .help = "split: on training samples that are held back; test: on the test samples"},
    {"data", "validation", RECIPE_REAL, false, MEMBER(validation), .low = 0, .high = 1, .usual = "0.1",
     .help = "share of the training samples that is held back; with `validate = test` 0"},

    {"net", "layers", RECIPE_LIST, false, MEMBER(layers),
     .help = "conv CHANNELS SIZE [stride N] [pad N], maxpool SIZE [stride N], relu, flatten, dense FEATURES"},

    {"optimizer", "kind", RECIPE_CHOICE, false, MEMBER(optimizer_kind), .words = OPTIMIZERS, .usual = "adam",
     .help = "adam, as PyTorch computes it"},
    {"optimizer", "lr", RECIPE_REAL, false, MEMBER(lr), .low = 0, .above_low = true, .high = RECIPE_LR_MAX,
     .to_high = true, .usual = "0.001", .help = "learning rate"},
    {"optimizer", "beta1", RECIPE_REAL, false, MEMBER(beta1), .low = 0, .high = 1, .usual = "0.9",
     .help = "how much of the mean gradient stays from step to step"},
    {"optimizer", "beta2", RECIPE_REAL, false, MEMBER(beta2), .low = 0, .high = 1, .usual = "0.999",
     .help = "the same of the mean squared gradient"},
    {"optimizer", "eps", RECIPE_REAL, false, MEMBER(eps), .low = RECIPE_EPS_MIN, .high = 1, .to_high = true,
     .usual = "1e-8", .help = "added to the divisor"},

    {"checkpoint", "every", RECIPE_COUNT, true, MEMBER(every), .max = RECIPE_STEPS_MAX, .usual = "50",
     .help = "steps from checkpoint to checkpoint; 0: only at the end of epochs"},
    {"checkpoint", "keep", RECIPE_LIST, true, MEMBER(keep), .usual = "last 3, best 2, tagged",
     .help = "which ones stay: last N, best N, every N steps, tagged; empty: as the store's config says"},
    {"checkpoint", "prune", RECIPE_COUNT, true, MEMBER(prune), .max = RECIPE_PRUNE_MAX, .usual = "20",
     .help = "remove the others after so many checkpoints; 0: never"},
};

const size_t RECIPE_KEY_COUNT = sizeof RECIPE_KEYS / sizeof RECIPE_KEYS[0];

#define KEYS (sizeof RECIPE_KEYS / sizeof RECIPE_KEYS[0])
static_assert(KEYS <= RECIPE_KEYS_MAX, "lists of keys have room for all");

/* ---- Finding a key ---------------------------------------------------------------------------------------------- */

/* "optimizer.lr" */
static void recipe_key_full(char out[RECIPE_FULL_SIZE], const recipe_key *key)
{
    snprintf(out, RECIPE_FULL_SIZE, "%s.%s", key->section, key->key);
}

const recipe_key *recipe_key_find(const char *section, const char *key)
{
    for (size_t i = 0; i < KEYS; i++)
        if (strcmp(RECIPE_KEYS[i].section, section) == 0 && strcmp(RECIPE_KEYS[i].key, key) == 0)
            return &RECIPE_KEYS[i];
    return NULL;
}

/* Adds the full names of all keys of that last part: "data.kind or optimizer.kind". */
static void names_add(char *out, size_t size, const char *key)
{
    size_t used = 0;

    out[0] = 0;
    for (size_t i = 0; i < KEYS && used < size; i++)
        if (strcmp(RECIPE_KEYS[i].key, key) == 0)
            used +=
                (size_t)snprintf(out + used, size - used, "%s%s.%s", used ? " or " : "", RECIPE_KEYS[i].section, key);
}

/* What may have been meant: the same key in another section, the nearest full name, the nearest last part. */
static void names_near(char *out, size_t size, const char *full, const char *key)
{
    char names[KEYS][RECIPE_FULL_SIZE];
    const char *full_list[KEYS + 1] = {NULL}, *key_list[KEYS + 1] = {NULL};

    for (size_t i = 0; i < KEYS; i++) {
        recipe_key_full(names[i], &RECIPE_KEYS[i]);
        full_list[i] = names[i];
        key_list[i] = RECIPE_KEYS[i].key;
    }
    names_add(out, size, key);
    if (out[0])
        return;
    const char *const near_full = word_nearest(full, full_list), *const near_key = word_nearest(key, key_list);
    if (near_full)
        snprintf(out, size, "%s", near_full);
    else if (near_key)
        names_add(out, size, near_key);
}

int recipe_key_unknown(const char *section, const char *key, ckpt_error *err)
{
    char full[2 * WORD_SIZE_MAX], near[4 * RECIPE_FULL_SIZE];
    const bool has_section = section && section[0];

    snprintf(full, sizeof full, "%.*s%s%.*s", WORD_SIZE_MAX / 2, has_section ? section : "", has_section ? "." : "",
             WORD_SIZE_MAX / 2, key);
    names_near(near, sizeof near, full, key);
    error_set(err, CKPT_EUSAGE, "unknown key %s", full);
    if (near[0])
        error_hint(err, "did you mean %s?", near);
    else
        error_hint(err, "`ckpt train --print mnist-cnn` shows all keys");
    return CKPT_EUSAGE;
}

/* ---- Usual values ------------------------------------------------------------------------------------------------ */

int recipe_values_usual(recipe_values *out, ckpt_error *err)
{
    int rc = 0;

    *out = (recipe_values){0};
    for (size_t i = 0; i < KEYS; i++)
        if (RECIPE_KEYS[i].usual)
            TRY(recipe_key_read(out, &RECIPE_KEYS[i], RECIPE_KEYS[i].usual, err));
out:
    return rc;
}
