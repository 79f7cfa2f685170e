/* Presets: recipes that come with the program. A new one is a row in preset.c. */
#ifndef CORE_PRESET_H
#define CORE_PRESET_H

#include <stddef.h>

typedef struct preset {
    const char *name, *summary;
    const char *text; /* an INI file with what differs from the usual values */
} preset;

const preset *preset_find(const char *name);
const char *preset_nearest(const char *name); /* NULL: none is near */

#endif
