/* Diff view: a comparison arranged for people: rows sorted, or summed up into groups of names. */
#ifndef TOOLS_DIFF_VIEW_H
#define TOOLS_DIFF_VIEW_H

#include <ckpt/store.h>
#include <stdio.h>

typedef enum diff_order { DIFF_BY_NAME, DIFF_BY_CHANGE, DIFF_BY_SIZE } diff_order;

/* Sorts tensors and files in place. In every order tensors with more NaN or infinities than before come first. By
 * change: what is only on one side or has another shape first, then the largest
 * relative L2. By size: the largest first. */
void diff_sort(ckpt_diff *diff, diff_order order);

/* All tensors whose names begin with the same components, as "layer1.0" of "layer1.0.conv1.weight" at depth 2.
 * Relative L2 of a group cannot be derived from those of its tensors, so that the largest is told. */
typedef struct diff_group {
    char *name;
    size_t tensors, tensors_by_change[CKPT_RESHAPED + 1];
    uint64_t elements, changed; /* sums, over tensors that both sides have in one shape */
    uint64_t bytes;
    double max_abs;                      /* largest */
    double mean_abs;                     /* mean of the tensors' means, weighted by elements */
    double relative_l2_max;              /* largest */
    double cosine_min;                   /* smallest; NaN when no tensor has one */
    uint64_t nan_a, inf_a, nan_b, inf_b; /* sums */
} diff_group;

/* For diff_groups_free(). `depth` is the number of components, from 1. */
int diff_groups(diff_group **groups, size_t *count, const ckpt_diff *diff, uint64_t depth, diff_order order,
                ckpt_error *err);
void diff_groups_free(diff_group *groups, size_t count);

const char *diff_change_name(ckpt_change change);
/* Bytes of the larger side. */
uint64_t diff_tensor_bytes(const ckpt_diff_tensor *tensor);

/* Tables; those of tensors and files without rows that are equal unless `all`. Nothing is written for no row. */
int diff_write_tensors(FILE *out, const ckpt_diff *diff, bool all, size_t width, bool color, ckpt_error *err);
int diff_write_groups(FILE *out, const diff_group *groups, size_t count, size_t width, bool color, ckpt_error *err);
int diff_write_files(FILE *out, const ckpt_diff *diff, bool all, size_t width, bool color, ckpt_error *err);

#endif
