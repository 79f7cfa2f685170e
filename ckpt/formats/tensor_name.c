/* Names of tensors: what may be one, how they pair across files, and what they tell about the optimizer. */
#include "tensor_file.h"

#include "text.h"

#include <stdio.h>
#include <string.h>

/* ---- Validity --------------------------------------------------------------------------------------------------- */

bool tensor_name_valid(const char *name)
{
    const size_t size = strnlen(name, TENSOR_FILE_NAME_MAX + 1);
    return size > 0 && size <= TENSOR_FILE_NAME_MAX && text_is_clean(name, false);
}

/* ---- Pairing ---------------------------------------------------------------------------------------------------- */

/* Words that savers and wrappers put in front of a network's own names, and what puts them there. */
static const char *const CONTAINERS[] = {
    "model",            /* {"model": model.state_dict(), ...} */
    "state_dict",       /* PyTorch Lightning, older examples */
    "model_state_dict", /* the PyTorch tutorial */
    "model_state",      /* fvcore, detectron2 */
    "module",           /* DataParallel, DistributedDataParallel, DeepSpeed */
    "net",              /* {"net": net.state_dict(), ...} */
    "network",          /* the same */
    "_orig_mod",        /* torch.compile */
    "params",           /* Flax */
};

#define CONTAINER_COUNT (sizeof CONTAINERS / sizeof CONTAINERS[0])

/* What stands behind one container word, or NULL when none stands in front. */
static const char *container_skip(const char *name)
{
    for (size_t i = 0; i < CONTAINER_COUNT; i++) {
        const size_t size = strlen(CONTAINERS[i]);
        if (strncmp(name, CONTAINERS[i], size) == 0 && name[size] == '.' && name[size + 1])
            return name + size + 1;
    }
    return NULL;
}

const char *tensor_name_canonical(const char *name)
{
    for (const char *rest = container_skip(name); rest; rest = container_skip(name))
        name = rest;
    return name;
}

/* ---- Classes ---------------------------------------------------------------------------------------------------- */

static bool component_is_number(const char *text, size_t size)
{
    return size > 0 && strspn(text, "0123456789") >= size;
}

/* Is the component a word for the optimizer (optimizer, optimizer_states, optim, opt_state ...)? */
static bool component_is_optimizer(const char *text, size_t size)
{
    static const char *const WORDS[] = {"optim", "opt_state"};
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (size >= strlen(WORDS[i]) && strncmp(text, WORDS[i], strlen(WORDS[i])) == 0)
            return true;
    return false;
}

/* Is it what an optimizer keeps of each parameter, by the names that PyTorch and Optax have for it? */
static bool component_is_moment(const char *text, size_t size)
{
    static const char *const WORDS[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg",
                                        "mu",      "nu"};
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (size == strlen(WORDS[i]) && strncmp(text, WORDS[i], size) == 0)
            return true;
    return false;
}

void tensor_class_of(char out[TENSOR_CLASS_SIZE], const char *name)
{
    /* An optimizer's own file begins with state.0.exp_avg. */
    bool optimizer = strncmp(name, "state.", 6) == 0 && component_is_number(name + 6, strcspn(name + 6, "."));
    const char *word = "weights";
    size_t word_size = strlen(word);

    for (const char *at = name;; at++) {
        const size_t size = strcspn(at, ".");
        if (optimizer && size && !component_is_number(at, size)) {
            word = at;
            word_size = size;
            if (component_is_moment(at, size))
                break; /* the parameter's name may stand behind it */
        }
        optimizer = optimizer || component_is_optimizer(at, size);
        at += size;
        if (!*at)
            break;
    }
    const size_t cut = word_size < TENSOR_CLASS_SIZE ? word_size : TENSOR_CLASS_SIZE - 1;
    snprintf(out, TENSOR_CLASS_SIZE, "%.*s", (int)cut, word);
}
