/* Glob: which files and folders a pattern such as `runs/exp?/checkpoint-*` stands for, now and later.
 *
 *     ?  *  [a-z]     within one component, as a shell has it; a leading dot has to be written
 *     **              as a component: any number of folders, also none, but no hidden ones; at the end: all files below
 *
 * A path that exists is that path, whatever its characters mean in patterns. Symbolic links are followed where they
 * were written out, not where a pattern finds them: "last.ckpt" often leads to a file that the pattern finds too.
 * Stores and temporary files of ckpt are never found. */
#ifndef RUN_WATCH_GLOB_H
#define RUN_WATCH_GLOB_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define WATCH_DEPTH_MAX  32    /* components of a pattern, and folders that `**` goes down */
#define WATCH_DEEP_MAX   4     /* `**` in one pattern: each multiplies the ways to fit a path */
#define WATCH_GLOB_MAX   1024  /* bytes of a pattern */
#define WATCH_FOUND_MAX  20000 /* paths that one scan finds */
#define WATCH_VISITS_MAX 20000 /* folders that one scan reads */

typedef struct watch_glob watch_glob;

/* CKPT_EUSAGE: empty, too long or too deep. */
int watch_glob_new(watch_glob **out, const char *pattern, ckpt_error *err);
void watch_glob_free(watch_glob *g); /* NULL is fine */

/* Does the pattern fit this path, spelled as the scan does? */
bool watch_glob_fits(const watch_glob *g, const char *path);

typedef struct watch_scan {
    /* A file or folder that the pattern stands for. What is below such a folder is not looked for. */
    int (*found)(void *payload, const char *path, const struct stat *st, ckpt_error *err);
    /* A folder in which a new name can change what the pattern stands for: each one that was read, and where part of
     * the pattern does not exist yet, the deepest that does. */
    int (*folder)(void *payload, const char *path, ckpt_error *err);
    void *payload;
} watch_scan;

/* What cannot be read or goes away meanwhile is passed over. CKPT_EUSAGE beyond a limit above; else what a callback
 * returned. */
int watch_glob_scan(const watch_glob *g, const watch_scan *scan, ckpt_error *err);

#endif
