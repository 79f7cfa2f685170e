#include "preset.h"

#include "word.h"

#include <ckpt/train.h>
#include <string.h>

/* Images of 28 x 28 become 26, 13 and 11 wide: 7,744 features, 1,011,466 parameters. */
static const char MNIST_CNN[] = "[run]\n"
                                "name = mnist-cnn\n"
                                "[net]\n"
                                "layers = conv 32 3x3, relu, maxpool 2, conv 64 3x3, relu, flatten, dense 128, relu, "
                                "dense 10\n";

static const preset PRESETS[] = {
    {"mnist-cnn", "two convolutions and two dense layers for MNIST and Fashion-MNIST, Adam, 10 epochs", MNIST_CNN},
};

#define PRESET_COUNT (sizeof PRESETS / sizeof PRESETS[0])

static const preset *preset_at(size_t i)
{
    return i < PRESET_COUNT ? &PRESETS[i] : NULL;
}

const preset *preset_find(const char *name)
{
    for (size_t i = 0; i < PRESET_COUNT; i++)
        if (strcmp(PRESETS[i].name, name) == 0)
            return &PRESETS[i];
    return NULL;
}

const char *preset_nearest(const char *name)
{
    const char *names[PRESET_COUNT + 1] = {NULL};

    for (size_t i = 0; i < PRESET_COUNT; i++)
        names[i] = PRESETS[i].name;
    return word_nearest(name, names);
}

const char *ckpt_recipe_preset(size_t i, const char **summary)
{
    const preset *const found = preset_at(i);

    if (summary)
        *summary = found ? found->summary : NULL;
    return found ? found->name : NULL;
}
