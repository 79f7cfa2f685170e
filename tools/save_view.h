/* Save view: what a save prints, whoever asked for it. */
#ifndef TOOLS_SAVE_VIEW_H
#define TOOLS_SAVE_VIEW_H

#include "option.h"

#include <ckpt/stats.h>
#include <ckpt/store.h>
#include <jansson.h>

typedef struct save_view {
    const ckpt_save_result *saved;
    int64_t step;
    double seconds;
    const char *path;        /* what was saved, where that is not known from the command; NULL */
    const ckpt_usage *usage; /* of the store afterwards; NULL: not told */
} save_view;

/* "saved 1a2b3c4d step 500: 1 file, 5.4 MiB as 3.9 MiB (72.1 %), 0.12 s", and a line of what is lossy. */
void save_view_line(const save_view *v);
/* The same as an object, written with `write`: json_out_value or json_out_line. */
int save_view_json(const save_view *v, int (*write)(FILE *out, const json_t *value, ckpt_error *err), ckpt_error *err);

/* The option --level, whose words are the names of the levels. */
#define SAVE_LEVEL_WORDS "fast|default|max"
ckpt_level save_view_level(const arguments *args);

#endif
