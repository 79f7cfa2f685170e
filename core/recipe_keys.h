/* Keys of a recipe: one table from which reading, printing, checking and `--set` work. A new key is a member of
 * recipe_values and a row here. */
#ifndef CORE_RECIPE_KEYS_H
#define CORE_RECIPE_KEYS_H

#include "recipe.h"

#define RECIPE_KEYS_MAX   64
#define RECIPE_FULL_SIZE  64                 /* "optimizer.lr" */
#define RECIPE_VALUE_SIZE RECIPE_LAYERS_SIZE /* of any value as text */
#define RECIPE_SHOWN_MAX  80                 /* bytes of a value in a message */

typedef enum recipe_kind {
    RECIPE_NAME,   /* a word that can be the name of a file and of a tag */
    RECIPE_LIST,   /* words and commas */
    RECIPE_CHOICE, /* one of `words`, kept as text */
    RECIPE_SWITCH, /* one of `words`, kept as its number: bool or enum */
    RECIPE_COUNT,  /* uint64_t */
    RECIPE_REAL    /* double */
} recipe_kind;

typedef struct recipe_key {
    const char *section, *key;
    recipe_kind kind;
    bool may_differ;         /* between the parts of one run: recipe_compatible */
    size_t offset, size;     /* of the member of recipe_values */
    uint64_t min, max;       /* RECIPE_COUNT */
    double low, high;        /* RECIPE_REAL */
    bool above_low, to_high; /* low itself is not allowed; high itself is */
    const char *const *words;
    const char *usual; /* value where a recipe does not say; NULL: it must say */
    const char *help;
} recipe_key;

extern const recipe_key RECIPE_KEYS[];
extern const size_t RECIPE_KEY_COUNT;

const recipe_key *recipe_key_find(const char *section, const char *key); /* NULL: unknown */
/* CKPT_EUSAGE, "unknown key ...", with the nearest known ones as hint; `section` may be NULL or "". */
int recipe_key_unknown(const char *section, const char *key, ckpt_error *err);

/* Reads a value. CKPT_EUSAGE says what is expected: "optimizer.lr = 0: a number above 0 ...". */
int recipe_key_read(recipe_values *values, const recipe_key *key, const char *text, ckpt_error *err);
/* The value as it reads back the same, in its shortest form. */
void recipe_key_text(char out[RECIPE_VALUE_SIZE], const recipe_values *values, const recipe_key *key);
bool recipe_key_same(const recipe_values *a, const recipe_values *b, const recipe_key *key);

/* All keys at their usual values; those without one are empty. */
int recipe_values_usual(recipe_values *out, ckpt_error *err);

#endif
