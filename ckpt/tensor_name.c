/* Names of tensors: what may be one, how they pair across files, and what they tell about the optimizer. */
#include "tensor_file.h"

#include <stdio.h>
#include <string.h>

/* ---- Validity --------------------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `text`, 0 when it is none (overlong, surrogate, above U+10FFFF, cut off). */
static size_t utf8_length(const unsigned char *text, size_t size)
{
    const unsigned first = text[0];
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (size < length)
        return 0;
    const unsigned second_min = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned second_max = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < second_min || text[1] > second_max)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

bool tensor_name_valid(const char *name, size_t size)
{
    if (size == 0 || size > TENSOR_FILE_NAME_MAX)
        return false;
    for (size_t i = 0; i < size;) {
        const unsigned char *at = (const unsigned char *)name + i;
        const size_t length = utf8_length(at, size - i);
        const bool control = at[0] < 0x20 || at[0] == 0x7F || (at[0] == 0xC2 && length == 2 && at[1] < 0xA0);
        if (length == 0 || control)
            return false;
        i += length;
    }
    return true;
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

void tensor_class_of(char out[64], const char *name)
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
        }
        optimizer = optimizer || component_is_optimizer(at, size);
        at += size;
        if (!*at)
            break;
    }
    snprintf(out, 64, "%.*s", (int)(word_size < 63 ? word_size : 63), word);
}
