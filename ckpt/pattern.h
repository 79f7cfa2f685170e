/* Patterns of names, as a shell has them: `*` stands for any text, also for `/` and `.`, `?` for one character, `[a-z]`
 * for one of several. */
#ifndef CKPT_PATTERN_H
#define CKPT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

bool pattern_fits(const char *pattern, const char *name);
/* Does any of them fit? With none given none does. */
bool pattern_any(const char *const *patterns, size_t count, const char *name);
/* The same for paths, where a pattern that fits a folder fits all that is below it. */
bool pattern_any_path(const char *const *patterns, size_t count, const char *path);

#endif
