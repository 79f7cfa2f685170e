/* Recipe: everything that a training's result depends on, but for the data themselves; an INI file.
 *
 * Keys are told to people as SECTION.KEY. Every key has a row in one table (recipe_keys.c) with its kind, limits,
 * default and one line of help, from which reading, printing, checking and `--set` work. What is unknown is CKPT_EUSAGE
 * with the nearest known key; what contradicts itself (`validate = test` with a share, `best` kept but nothing held
 * back) is told in one line. What does not fit the data is told when they are opened (trainer_open).
 *
 *     [run]         name  epochs  steps  seed  backend
 *     [data]        kind  classes  batch  drop_last  validate  validation
 *     [net]         layers
 *     [optimizer]   kind  lr  beta1  beta2  eps
 *     [checkpoint]  every  keep  prune
 *
 * The path of the data is not part of it: the digest of their contents is what counts. */
#ifndef CORE_RECIPE_H
#define CORE_RECIPE_H

#include <ckpt/train.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECIPE_NAME_SIZE   64
#define RECIPE_LAYERS_SIZE 2048
#define RECIPE_KEEP_SIZE   256
#define RECIPE_BATCH_MAX   65536u
#define RECIPE_EPOCHS_MAX  1000000u
#define RECIPE_STEPS_MAX   1000000000000u
#define RECIPE_PRUNE_MAX   1000000u
#define RECIPE_LR_MAX      1000.0
#define RECIPE_EPS_MIN     1e-30 /* what float makes 0 of gives 0 / 0 where a gradient is 0 */

typedef enum recipe_validate { VALIDATE_SPLIT, VALIDATE_TEST } recipe_validate;

/* The values, ready to use. */
typedef struct recipe_values {
    char name[RECIPE_NAME_SIZE]; /* of the run: letters, digits, `_ . -` */
    uint64_t epochs;
    uint64_t steps; /* stop after so many in all; 0: no limit but epochs */
    uint64_t seed;
    char backend[16]; /* "cpu", "reference" */

    char data_kind[16]; /* "mnist" */
    uint64_t classes, batch;
    bool drop_last;
    recipe_validate validate;
    double validation; /* share of the training set that is held back with VALIDATE_SPLIT, 0 to below 1 */

    char layers[RECIPE_LAYERS_SIZE];

    char optimizer_kind[16]; /* "adam" */
    double lr, beta1, beta2, eps;

    uint64_t every;              /* steps from checkpoint to checkpoint; 0: only at the end of epochs */
    char keep[RECIPE_KEEP_SIZE]; /* retention policy; "": that of the store's config */
    uint64_t prune;              /* apply it after so many checkpoints; 0: never */
} recipe_values;

struct ckpt_recipe {
    recipe_values values;
    bool share_set; /* data.validation was set by ckpt_recipe_set */
};

/* The canonical text: every key, in the order of the table, numbers spelled so that they read back the same. The same
 * values give the same text. malloc'ed. */
int recipe_text(char **out, const recipe_values *values, ckpt_error *err);
/* Keys that the text lacks have their usual values; with `validate = test` no share is held back unless it says so.
 * `path` is for messages. CKPT_EFORMAT, CKPT_EUSAGE. */
int recipe_parse(recipe_values *out, const char *text, size_t size, const char *path, ckpt_error *err);

/* May a run go on with `b` that was begun with `a`? Only where it stops (epochs, steps) and how it is kept
 * ([checkpoint], run.name) may differ. Else CKPT_EUSAGE, which names the keys that differ with both values. */
int recipe_compatible(const recipe_values *a, const recipe_values *b, ckpt_error *err);

#endif
