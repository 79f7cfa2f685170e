/* Split: which samples a recipe trains with, which it validates on, and which it is tested on. */
#ifndef CORE_SPLIT_H
#define CORE_SPLIT_H

#include "dataset.h"
#include "recipe.h"

/* Both parts of the training set, in rising order: train_count to train with, then those held back. */
typedef struct split {
    uint32_t *indices;
    size_t train_count, held_count;
} split;

/* CKPT_EUSAGE when nothing would be left to train with; CKPT_ENOMEM. Holds back `validation` of the training samples,
 * rounded to the nearest, chosen by the seed; none with VALIDATE_TEST. */
int split_new(split *out, const recipe_values *values, const dataset *data, ckpt_error *err);
void split_clear(split *s);

/* Some samples of a data set. */
typedef struct subset {
    const samples *from;
    const uint32_t *indices; /* NULL: 0, 1, 2, ... */
    size_t count;
} subset;

/* With VALIDATE_TEST validation is on the test set; a subset may be empty. */
void split_subset(subset *out, const split *s, const recipe_values *values, const dataset *data, ckpt_samples which);

#endif
