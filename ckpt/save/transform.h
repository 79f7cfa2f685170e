/* Transform: a lossy choice that a person made for a save. The file that is saved is the transformed one; whatever
 * comes after that is exact, and the SHA-256 that is kept is that of the transformed file.
 *
 *   below   | header  | weights | momentum | dropped | more weights |
 *   above   | header' | weights | rounded  | more weights |                    nothing dropped: the header stays
 *
 * Only safetensors files, whose header we can write, are transformed; files of tensors in other formats are refused. */
#ifndef CKPT_TRANSFORM_H
#define CKPT_TRANSFORM_H

#include "numbers.h"
#include "pack.h"
#include "tensor_file.h"

typedef struct transform_rules {
    bool optimizer_bf16; /* round f32 of what is not weights to the nearest bf16 */
    bool weights_only;   /* drop what is not weights */
    const char *const *drop;
    size_t drop_count;
} transform_rules;

transform_rules transform_rules_of(const ckpt_save_options *options);
bool transform_rules_any(const transform_rules *rules);
/* CKPT_EUSAGE for a pattern that is no clean text. */
int transform_rules_check(const transform_rules *rules, ckpt_error *err);

/* What was done to all files of a save. */
typedef struct transform_account {
    uint64_t rounded_tensors;
    numbers_error error;
    uint64_t stripped_tensors, stripped_bytes; /* dropped as no weights */
    uint64_t dropped_tensors, dropped_bytes;   /* dropped by a pattern */
} transform_account;

/* "optimizer bf16: 62 tensors, largest relative error 0.0039, rms 0.0011"; "" when nothing was done. */
void transform_text(char out[CKPT_LOSSY_SIZE], const transform_account *account, const transform_rules *rules);

typedef struct transform_run transform_run;
typedef struct transform {
    byte_source source; /* the file above; first, so that it can be cast back */
    const byte_source *below;
    char *header; /* NULL: that of the file below */
    transform_run *runs;
    size_t run_count;
    bool rounds; /* any tensor */
} transform;

/* Makes the file above from `file`, which was read from `below`; both must stay. Adds tensors to the account. */
int transform_open(transform *t, transform_account *account, const tensor_file *file, const byte_source *below,
                   const transform_rules *rules, ckpt_error *err);
void transform_close(transform *t); /* a zeroed one is fine */
/* As t->source.read, but counts the errors of rounding: for the one reading that goes through all of the file. */
int transform_read(void *dst, const transform *t, transform_account *account, uint64_t offset, size_t size,
                   ckpt_error *err);
/* Where the byte at `offset` stands in the file below; false when it may not be the same byte. */
bool transform_origin(uint64_t *below, const transform *t, uint64_t offset);
/* What these rules do to a tensor that is not dropped. One of a single element, as a counter of steps, stays exact. */
pack_transform transform_of(const transform_rules *rules, const tensor_view *view);

#endif
