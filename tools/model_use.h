/* Model use: what `eval` and `predict` have in common: the plugin, the network of a checkpoint, and which samples. */
#ifndef TOOLS_MODEL_USE_H
#define TOOLS_MODEL_USE_H

#include "plugin.h"
#include "session.h"
#include "training_view.h"

typedef struct model_use {
    session *s;
    plugin plugin;
    training_view view;
    const char *name; /* of the checkpoint or file */
    ckpt_samples samples;
    const char *samples_name; /* "test" */
    ckpt_model *model;
} model_use;

/* Rows for tables of options. */
#define MODEL_OPTION_DATA                                                                                              \
    {                                                                                                                  \
        "data", 0, OPT_DIR, "DIR", "where the samples are; else where the run had them"                                \
    }
#define MODEL_OPTION_SAMPLES                                                                                           \
    {                                                                                                                  \
        "samples", 0, OPT_CHOICE, "test|validation|train", "which of them; test unless given"                          \
    }

/* Opens the checkpoint or file that the command line names, `latest` without a word. */
int model_use_open(model_use *use, session *s, ckpt_error *err);
void model_use_close(model_use *use); /* a zeroed one is fine */

#endif
