/* Printing what several commands print: checkpoints, shapes, counts. Functions with an `out` return it. */
#ifndef TOOLS_PRINT_H
#define TOOLS_PRINT_H

#include "json_out.h"
#include "units.h"

#include <ckpt/stats.h>
#include <ckpt/store.h>

#define PRINT_ID_DIGITS 8 /* of an id, as git does */

const char *print_id(char out[PRINT_ID_DIGITS + 1], const char *id);

/* The checkpoint of an id, searched from *from on, which starts at 0: where ids come in the order of the list, newest
 * first, one pass finds all. NULL when it is not in the list. */
const ckpt_info *print_info_of(size_t *from, const ckpt_list *list, const char *id);

#define PRINT_SHAPE_SIZE 352 /* CKPT_RANK_MAX numbers of 20 digits */
/* "[64,3,7,7]"; "[]" for a scalar. */
const char *print_shape(char out[PRINT_SHAPE_SIZE], unsigned rank, const uint64_t *shape);

const char *print_size(char out[UNITS_TEXT_SIZE], uint64_t bytes);
const char *print_time(char out[UNITS_TEXT_SIZE], int64_t utc_seconds);
/* "0.12 s" of short times, "2m 05s" of longer ones. */
const char *print_seconds(char out[UNITS_TEXT_SIZE], double seconds);
/* "1 file", "2 files". */
const char *print_count(char out[UNITS_TEXT_SIZE], uint64_t count, const char *noun);
/* "72.1 %"; "-" when there is no whole. */
const char *print_percent(char out[UNITS_TEXT_SIZE], uint64_t part, uint64_t whole);
#define PRINT_SIZES_SIZE (4 * UNITS_TEXT_SIZE)
/* "5.4 MiB as 3.9 MiB (72.1 %)"; without the share where the files are so small that it says nothing. */
const char *print_sizes(char out[PRINT_SIZES_SIZE], uint64_t raw_bytes, uint64_t stored_bytes);
/* "500"; "" for CKPT_STEP_NONE. */
const char *print_step(char out[UNITS_TEXT_SIZE], int64_t step);

/* "val_acc=0.93 lr=0.1" and "first, good"; malloc'ed, NULL when memory is exhausted. With `brief`, which is for lines
 * that will be cut, numbers that are longer have 6 significant digits, and long values come last. What has the key
 * `skip` (may be NULL) is left out, and so is what print_lossy tells. */
char *print_meta(const ckpt_info *info, bool brief, const char *skip);
/* The value of one key as `print_meta` shows it with `brief`, in `out` or where it stands; "" without one. */
#define PRINT_METRIC_SIZE 32
const char *print_metric(char out[PRINT_METRIC_SIZE], const ckpt_info *info, const char *key);
char *print_tags(const ckpt_info *info);
/* What a lossy save did to the tensors; "" when the checkpoint is exact. */
const char *print_lossy(const ckpt_info *info);

/* A string that ends in 0. */
json_t *print_json_text(const char *text);
/* [64, 3]. */
json_t *print_json_shape(unsigned rank, const uint64_t *shape);
/* null without a quota. */
json_t *print_json_quota(const ckpt_usage *usage);
/* null for CKPT_STEP_NONE. */
json_t *print_json_step(int64_t step);
/* Sets the members of a checkpoint. */
int print_json_info(json_t *object, const ckpt_info *info, ckpt_error *err);

#endif
