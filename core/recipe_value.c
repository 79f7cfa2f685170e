/* Value of a recipe's key, from text and to text. */
#include "recipe_keys.h"

#include "real.h"

#include "fail.h"
#include "units.h"
#include "word.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static int complain(const recipe_key *key, const char *text, const char *expected, ckpt_error *err)
{
    return error_set(err, CKPT_EUSAGE, "%s.%s = %.*s: %s", key->section, key->key, RECIPE_SHOWN_MAX, text, expected);
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

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

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
        real_shortest(out, real);
        break;
    }
}

bool recipe_key_same(const recipe_values *a, const recipe_values *b, const recipe_key *key)
{
    const void *const x = (const char *)a + key->offset, *const y = (const char *)b + key->offset;
    const bool is_text = key->kind == RECIPE_NAME || key->kind == RECIPE_LIST || key->kind == RECIPE_CHOICE;

    return is_text ? strcmp(x, y) == 0 : memcmp(x, y, key->size) == 0;
}
