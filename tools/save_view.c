#include "save_view.h"

#include "fail.h"
#include "json_out.h"
#include "output.h"
#include "print.h"

#include <inttypes.h>
#include <string.h>

void save_view_line(const save_view *v)
{
    const ckpt_save_result *const saved = v->saved;
    char files[UNITS_TEXT_SIZE], sizes[PRINT_SIZES_SIZE], time[UNITS_TEXT_SIZE];

    printf("saved %.*s", PRINT_ID_DIGITS, saved->id);
    if (v->step != CKPT_STEP_NONE)
        printf(" step %" PRId64, v->step);
    if (v->path) {
        putchar(' ');
        output_text(stdout, v->path);
    }
    printf(": %s, %s, %s\n", print_count(files, saved->files, "file"),
           print_sizes(sizes, saved->raw_bytes, saved->stored_bytes), print_seconds(time, v->seconds));
    if (*saved->lossy) {
        fputs("lossy: ", stdout);
        output_text(stdout, saved->lossy);
        fputc('\n', stdout);
    }
}

int save_view_json(const save_view *v, int (*write)(FILE *out, const json_t *value, ckpt_error *err), ckpt_error *err)
{
    int rc = 0;
    const ckpt_save_result *const saved = v->saved;
    json_t *object = json_object();

    TRY(json_out_set(object, "id", print_json_text(saved->id), err));
    TRY(json_out_set(object, "sequence", json_out_count(saved->sequence), err));
    TRY(json_out_set(object, "step", print_json_step(v->step), err));
    if (v->path)
        TRY(json_out_set(object, "path", print_json_text(v->path), err));
    TRY(json_out_set(object, "files", json_out_count(saved->files), err));
    TRY(json_out_set(object, "tensors", json_out_count(saved->tensors), err));
    TRY(json_out_set(object, "raw_bytes", json_out_count(saved->raw_bytes), err));
    TRY(json_out_set(object, "stored_bytes", json_out_count(saved->stored_bytes), err));
    TRY(json_out_set(object, "coded_bytes", json_out_count(saved->coded_bytes), err));
    TRY(json_out_set(object, "shared_bytes", json_out_count(saved->shared_bytes), err));
    TRY(json_out_set(object, "lossy", *saved->lossy ? print_json_text(saved->lossy) : json_null(), err));
    if (v->usage) {
        TRY(json_out_set(object, "store_bytes", json_out_count(v->usage->store_bytes), err));
        TRY(json_out_set(object, "quota_bytes", print_json_quota(v->usage), err));
    }
    TRY(json_out_set(object, "seconds", json_out_real(v->seconds), err));
    TRY(write(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

ckpt_level save_view_level(const arguments *args)
{
    const char *const word = arguments_text(args, "level");
    ckpt_level level = CKPT_LEVEL_DEFAULT;

    while (word && ckpt_level_name(level) && strcmp(ckpt_level_name(level), word) != 0)
        level++;
    return level;
}
