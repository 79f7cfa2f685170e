/* A folder of its own for a test, below $TMPDIR or /tmp. */
#ifndef TESTS_TEMP_DIR_H
#define TESTS_TEMP_DIR_H

#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMP_PATH_MAX 1024

static inline int temp_dir_make(char out[TEMP_PATH_MAX])
{
    const char *const base = getenv("TMPDIR");
    snprintf(out, TEMP_PATH_MAX, "%s/ckpt-test-XXXXXX", base && base[0] ? base : "/tmp");
    return mkdtemp(out) ? 0 : -1;
}

/* Removes a folder with all that is in it. */
static inline int temp_dir_remove(const char *path)
{
    char *const roots[] = {(char *)(uintptr_t)path, NULL}; /* fts promises not to write to it */
    FTS *const walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int failed = walk ? 0 : -1;

    for (FTSENT *entry; walk && (entry = fts_read(walk));)
        if (entry->fts_info != FTS_D && remove(entry->fts_accpath))
            failed = -1;
    if (walk)
        fts_close(walk);
    return failed;
}

#endif
