#include "pattern.h"

#include "file.h"

#include <fnmatch.h>
#include <string.h>

bool pattern_fits(const char *pattern, const char *name)
{
    return fnmatch(pattern, name, 0) == 0;
}

bool pattern_any(const char *const *patterns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (pattern_fits(patterns[i], name))
            return true;
    return false;
}

bool pattern_any_path(const char *const *patterns, size_t count, const char *path)
{
    char above[FILE_PATH_MAX];
    const size_t size = strlen(path);

    if (pattern_any(patterns, count, path))
        return true;
    if (size >= sizeof above)
        return false;
    memcpy(above, path, size + 1);
    for (char *slash = strrchr(above, '/'); slash; slash = strrchr(above, '/')) {
        *slash = 0;
        if (pattern_any(patterns, count, above))
            return true;
    }
    return false;
}
