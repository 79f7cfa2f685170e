/* How many packs this process has open. */
#ifndef TESTS_OPEN_PACKS_H
#define TESTS_OPEN_PACKS_H

#include "pack.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Removed ones count: their space is not free yet. */
static inline size_t open_packs(void)
{
    size_t count = 0;
    char path[FILE_PATH_MAX], target[FILE_PATH_MAX];
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        const ssize_t size = readlink(path, target, sizeof target - 1);
        target[size > 0 ? size : 0] = 0;
        count += strstr(target, PACK_SUFFIX) != NULL;
    }
    closedir(dir);
    return count;
}

#endif
