/* Undo log: what a power cut would take back. See shim.c for the model. */
#ifndef TESTS_CRASH_UNDO_LOG_H
#define TESTS_CRASH_UNDO_LOG_H

#include <stdbool.h>

/* `scratch`: an empty folder on the same file system, outside of what is watched; second names of files are kept there
 * for as long as they may have to come back. */
void undo_start(const char *scratch);

/* A file was opened for writing; what it holds now counts as durable, unless it was seen here before. */
void undo_opened(int fd);
/* fsync or fdatasync of a file or a folder succeeded. */
void undo_synced(int fd);

/* A change of names in two steps, as only before it what it takes away can be kept. */
typedef struct undo_change {
    char kept[32]; /* name in scratch of the file that goes; "": there was none */
    bool was_folder;
    unsigned folder_mode;
} undo_change;
/* Before `path` goes or is replaced. */
void undo_keep(undo_change *change, const char *path);
/* After: it has appeared (a folder: with mkdir), or gone. */
void undo_appeared(const undo_change *change, const char *path, bool is_folder);
void undo_gone(const undo_change *change, const char *path);
/* Nothing was changed after all. */
void undo_forget(const undo_change *change);

/* Takes back what was not made durable. `torn`: unsynced data stay, but for every second block. */
void undo_all(bool torn);

#endif
