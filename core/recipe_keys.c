#include "recipe_keys.h"

#include "dataset.h"
#include "fail.h"
#include "units.h"
#include "word.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCHS_MAX 1000000u
#define STEPS_MAX  1000000000000u
#define PRUNE_MAX  1000000u
#define LR_MAX     1000.0
#define SHOWN_MAX  80 /* bytes of a value in a message */

#define REAL_DIGITS_MAX 17
#define REAL_PLAIN_MIN  (-4) /* 0.0001 is the smallest that is written without exponent */
#define ZEROS           "00000000000000000"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static const char *const BACKENDS[] = {"cpu", "reference", NULL};
static const char *const DATA_KINDS[] = {"mnist", NULL};
static const char *const SWITCH[] = {"no", "yes", NULL};
static const char *const VALIDATIONS[] = {[VALIDATE_SPLIT] = "split", [VALIDATE_TEST] = "test", NULL};
static const char *const OPTIMIZERS[] = {"adam", NULL};

#define MEMBER(name) .offset = offsetof(recipe_values, name), .size = sizeof(((recipe_values *)0)->name)

const recipe_key RECIPE_KEYS[] = {
    {"run", "name", RECIPE_NAME, true, MEMBER(name),
     .help = "under which checkpoints and log are kept: letters, digits, _ . -"},
    {"run", "epochs", RECIPE_COUNT, true, MEMBER(epochs), .min = 1, .max = EPOCHS_MAX, .usual = "10",
     .help = "passes over the training samples"},
    {"run", "steps", RECIPE_COUNT, true, MEMBER(steps), .max = STEPS_MAX, .usual = "0",
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
    {"optimizer", "lr", RECIPE_REAL, false, MEMBER(lr), .low = 0, .above_low = true, .high = LR_MAX, .to_high = true,
     .usual = "0.001", .help = "learning rate"},
    {"optimizer", "beta1", RECIPE_REAL, false, MEMBER(beta1), .low = 0, .high = 1, .usual = "0.9",
     .help = "how much of the mean gradient stays from step to step"},
    {"optimizer", "beta2", RECIPE_REAL, false, MEMBER(beta2), .low = 0, .high = 1, .usual = "0.999",
     .help = "the same of the mean squared gradient"},
    {"optimizer", "eps", RECIPE_REAL, false, MEMBER(eps), .low = 0, .above_low = true, .high = 1, .to_high = true,
     .usual = "1e-8", .help = "added to the divisor"},

    {"checkpoint", "every", RECIPE_COUNT, true, MEMBER(every), .max = STEPS_MAX, .usual = "50",
     .help = "steps from checkpoint to checkpoint; 0: only at the end of epochs"},
    {"checkpoint", "keep", RECIPE_LIST, true, MEMBER(keep), .usual = "last 3, best 2, tagged",
     .help = "which ones stay: last N, best N, every N steps, tagged; empty: as the store's config says"},
    {"checkpoint", "prune", RECIPE_COUNT, true, MEMBER(prune), .max = PRUNE_MAX, .usual = "20",
     .help = "remove the others after so many checkpoints; 0: never"},
};

const size_t RECIPE_KEY_COUNT = sizeof RECIPE_KEYS / sizeof RECIPE_KEYS[0];

#define KEYS (sizeof RECIPE_KEYS / sizeof RECIPE_KEYS[0])
static_assert(KEYS <= RECIPE_KEYS_MAX, "lists of keys have room for all");

/* ---- Finding a key ---------------------------------------------------------------------------------------------- */

void recipe_key_full(char out[RECIPE_FULL_SIZE], const recipe_key *key)
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

/* ---- Reading a value -------------------------------------------------------------------------------------------- */

static int complain(const recipe_key *key, const char *text, const char *expected, ckpt_error *err)
{
    return error_set(err, CKPT_EUSAGE, "%s.%s = %.*s: %s", key->section, key->key, SHOWN_MAX, text, expected);
}

/* A letter or digit first: neither hidden files nor what looks like an option. Empty is a name that is still missing.
 */
static bool is_name(const char *text)
{
    return !text[0] || (strchr(NAME_LETTERS, text[0]) && text[strspn(text, NAME_LETTERS "_.-")] == 0);
}

static int name_read(char *out, const recipe_key *key, const char *text, ckpt_error *err)
{
    char expected[96];

    snprintf(expected, sizeof expected, "1 to %zu letters, digits, _ . - are expected, the first a letter or digit",
             key->size - 1);
    if (!is_name(text) || strlen(text) >= key->size)
        return complain(key, text, expected, err);
    snprintf(out, key->size, "%s", text);
    return 0;
}

/* Spelled in one way: one blank between words and behind a comma. */
static int list_read(char *out, const recipe_key *key, const char *text, ckpt_error *err)
{
    size_t size = 0;
    char spelled[RECIPE_VALUE_SIZE + 2];

    if (text[strspn(text, NAME_LETTERS "_.- \t,")])
        return complain(key, text, "words of letters, digits, _ . - with commas between are expected", err);
    for (const char *at = text; *at; at++) {
        const bool blank = *at == ' ' || *at == '\t';
        const bool spaced = size == 0 || spelled[size - 1] == ' ';
        if (blank && spaced)
            continue;
        if (*at == ',' && size > 0 && spelled[size - 1] == ' ')
            size--;
        if (size >= RECIPE_VALUE_SIZE)
            return complain(key, text, "is too long", err);
        spelled[size++] = blank ? ' ' : *at;
        if (*at == ',')
            spelled[size++] = ' ';
    }
    while (size > 0 && spelled[size - 1] == ' ')
        size--;
    if (size >= key->size)
        return complain(key, text, "is too long", err);
    memcpy(out, spelled, size);
    out[size] = 0;
    return 0;
}

/* Which of the words it is. */
static int word_read(size_t *out, const recipe_key *key, const char *text, ckpt_error *err)
{
    char expected[96] = "";
    size_t used = 0;

    for (size_t i = 0; key->words[i]; i++) {
        if (strcmp(key->words[i], text) == 0) {
            *out = i;
            return 0;
        }
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%s", i ? " or " : "", key->words[i]);
    }
    snprintf(expected + used, sizeof expected - used, " is expected");
    complain(key, text, expected, err);
    const char *const near = word_nearest(text, key->words);
    if (near)
        error_hint(err, "did you mean %s?", near);
    return CKPT_EUSAGE;
}

static int count_read(uint64_t *out, const recipe_key *key, const char *text, ckpt_error *err)
{
    char expected[96];

    snprintf(expected, sizeof expected, "a whole number from %" PRIu64 " to %" PRIu64 " is expected", key->min,
             key->max);
    if (parse_u64(out, text, NULL) || *out < key->min || *out > key->max)
        return complain(key, text, expected, err);
    return 0;
}

static int real_read(double *out, const recipe_key *key, const char *text, ckpt_error *err)
{
    int rc = 0;
    char expected[96];

    snprintf(expected, sizeof expected, "a number %s %g and %s %g is expected",
             key->above_low ? "above" : "of at least", key->low, key->to_high ? "at most" : "below", key->high);
    *out = 0;
    rc = parse_double(out, text, err);
    if (rc == CKPT_ENOMEM)
        return rc;
    *out += 0.0; /* no -0 */
    if (rc || *out < key->low || (key->above_low && *out <= key->low) || *out > key->high ||
        (!key->to_high && *out >= key->high))
        return complain(key, text, expected, err);
    return 0;
}

/* A switch is kept as bool or as an enum. */
static_assert(sizeof(recipe_validate) == sizeof(unsigned), "an enum has the size of an unsigned int");

static void switch_store(void *member, const recipe_key *key, size_t word)
{
    const bool flag = word != 0;
    const unsigned number = (unsigned)word;
    memcpy(member, key->size == sizeof flag ? (const void *)&flag : &number, key->size);
}

static size_t switch_load(const void *member, const recipe_key *key)
{
    bool flag;
    unsigned number;

    if (key->size != sizeof flag) {
        memcpy(&number, member, sizeof number);
        return number;
    }
    memcpy(&flag, member, sizeof flag);
    return flag;
}

int recipe_key_read(recipe_values *values, const recipe_key *key, const char *text, ckpt_error *err)
{
    int rc = 0;
    void *const member = (char *)values + key->offset;
    uint64_t count;
    double real;
    size_t word;

    switch (key->kind) {
    case RECIPE_NAME:
        TRY(name_read(member, key, text, err));
        break;
    case RECIPE_LIST:
        TRY(list_read(member, key, text, err));
        break;
    case RECIPE_CHOICE:
        TRY(word_read(&word, key, text, err));
        snprintf(member, key->size, "%s", key->words[word]);
        break;
    case RECIPE_SWITCH:
        TRY(word_read(&word, key, text, err));
        switch_store(member, key, word);
        break;
    case RECIPE_COUNT:
        TRY(count_read(&count, key, text, err));
        memcpy(member, &count, sizeof count);
        break;
    case RECIPE_REAL:
        TRY(real_read(&real, key, text, err));
        memcpy(member, &real, sizeof real);
        break;
    }
out:
    if (rc == CKPT_EUSAGE)
        error_hint(err, "%s.%s: %s", key->section, key->key, key->help);
    return rc;
}

/* ---- Writing a value -------------------------------------------------------------------------------------------- */

/* The fewest digits that read back the same, as d.ddd times 10^exponent: at most 17 are needed (David Matula,
 * "In-and-out conversions", 1968). Returns how many there are. */
static int digits_make(char digits[REAL_DIGITS_MAX + 1], int *exponent, double value)
{
    char text[REAL_DIGITS_MAX + 16];
    int count = 0;

    for (int places = 0; places < REAL_DIGITS_MAX; places++) {
        snprintf(text, sizeof text, "%.*e", places, value);
        /* The point is the locale's, and may be several bytes. */
        const char *const e = strchr(text, 'e');
        count = 0;
        for (const char *at = text; at < e; at++)
            if (*at >= '0' && *at <= '9')
                digits[count++] = *at;
        digits[count] = 0;
        *exponent = (int)strtol(e + 1, NULL, 10);
        if (strtod(text, NULL) == value) /* in the locale that printed it */
            break;
    }
    return count;
}

/* As people write it: 0.001, 0.9, 1e-8, 2.5e-7, 100. `value` is finite and not negative. */
static void real_text(char *out, size_t size, double value)
{
    char digits[REAL_DIGITS_MAX + 1];
    int exponent;
    const int count = digits_make(digits, &exponent, value);
    const int whole = exponent + 1; /* digits before the point */

    if (exponent < REAL_PLAIN_MIN || exponent >= REAL_DIGITS_MAX)
        snprintf(out, size, "%c%s%se%d", digits[0], count > 1 ? "." : "", digits + 1, exponent);
    else if (exponent < 0)
        snprintf(out, size, "0.%.*s%s", -exponent - 1, ZEROS, digits);
    else if (count <= whole)
        snprintf(out, size, "%s%.*s", digits, whole - count, ZEROS);
    else
        snprintf(out, size, "%.*s.%s", whole, digits, digits + whole);
}

void recipe_key_text(char out[RECIPE_VALUE_SIZE], const recipe_values *values, const recipe_key *key)
{
    const void *const member = (const char *)values + key->offset;
    uint64_t count;
    double real;

    switch (key->kind) {
    case RECIPE_NAME:
    case RECIPE_LIST:
    case RECIPE_CHOICE:
        snprintf(out, RECIPE_VALUE_SIZE, "%s", (const char *)member);
        break;
    case RECIPE_SWITCH:
        snprintf(out, RECIPE_VALUE_SIZE, "%s", key->words[switch_load(member, key)]);
        break;
    case RECIPE_COUNT:
        memcpy(&count, member, sizeof count);
        snprintf(out, RECIPE_VALUE_SIZE, "%" PRIu64, count);
        break;
    case RECIPE_REAL:
        memcpy(&real, member, sizeof real);
        real_text(out, RECIPE_VALUE_SIZE, real);
        break;
    }
}

bool recipe_key_same(const recipe_values *a, const recipe_values *b, const recipe_key *key)
{
    const void *const x = (const char *)a + key->offset, *const y = (const char *)b + key->offset;
    const bool is_text = key->kind == RECIPE_NAME || key->kind == RECIPE_LIST || key->kind == RECIPE_CHOICE;

    return is_text ? strcmp(x, y) == 0 : memcmp(x, y, key->size) == 0;
}

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
