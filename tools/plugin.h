/* Plugin: libckpt-train, opened by the first command that needs it, so that all others start without the libraries of
 * training. It holds a store of its own: what goes across are names, paths and plain structs, never an object of ours.
 */
#ifndef TOOLS_PLUGIN_H
#define TOOLS_PLUGIN_H

#include <ckpt/train.h>

/* What is called of <ckpt/train.h>, without its `ckpt_`. */
#define PLUGIN_FUNCTIONS(X)                                                                                            \
    X(train_version)                                                                                                   \
    X(recipe_open)                                                                                                     \
    X(recipe_open_run)                                                                                                 \
    X(recipe_set)                                                                                                      \
    X(recipe_check)                                                                                                    \
    X(recipe_print)                                                                                                    \
    X(recipe_free)                                                                                                     \
    X(training_new)                                                                                                    \
    X(training_resume)                                                                                                 \
    X(training_run)                                                                                                    \
    X(training_free)                                                                                                   \
    X(training_profile_row)                                                                                            \
    X(machine_limits_measure)                                                                                          \
    X(model_open)                                                                                                      \
    X(model_evaluate)                                                                                                  \
    X(model_predict)                                                                                                   \
    X(model_free)

typedef struct plugin {
#define PLUGIN_MEMBER(name) __typeof__(ckpt_##name) *name;
    PLUGIN_FUNCTIONS(PLUGIN_MEMBER)
#undef PLUGIN_MEMBER
} plugin;

/* Fills the table; the library then stays open until the program ends. CKPT_EMISSING when it is not there, cannot be
 * loaded, is of another version than the program, or the program was built without training. */
int plugin_open(plugin *out, ckpt_error *err);

#endif
