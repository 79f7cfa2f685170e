/* Walk: which files, folders and links a list of paths stands for, and under which names they are saved.
 *
 * A path under the current folder keeps its relative path, any other its last component. A path that is itself a
 * symbolic link is followed, as the person who typed it meant what it leads to; links inside folders are kept as links.
 * Sockets, pipes and devices are left out with a note. A store is never part of a save. */
#ifndef CKPT_WALK_H
#define CKPT_WALK_H

#include <ckpt/store.h>

#define WALK_DEPTH_MAX 128

typedef struct walk_entry {
    char *source; /* where to read it */
    char *path;   /* name in the checkpoint: relative, without "." and ".." */
    char *link;   /* target of a link, "" otherwise */
    ckpt_file_kind kind;
    bool typed;    /* given by name, not found in a folder */
    size_t given;  /* of a typed one: which of the paths it is */
    unsigned mode; /* permission bits */
    uint64_t size; /* of a file, when it was listed */
} walk_entry;

typedef struct walk {
    walk_entry *entries; /* in natural order of path: epoch_2 before epoch_10 */
    size_t count, capacity;
    uint64_t total_bytes;
} walk;

/* `store_path` is the .ckpt folder of the store that saves. `note` may be NULL.
 * Errors: CKPT_ENOTFOUND, CKPT_EUSAGE (two entries with one name, a path inside a store), CKPT_EIO. */
int walk_paths(walk *out, const char *const *paths, size_t count, const char *store_path, ckpt_note_fn note,
               void *payload, ckpt_error *err);
void walk_clear(walk *w);
/* Is the folder a store? By its name and what is in it. */
bool walk_is_store(const char *path);

/* Order in which runs of digits count as numbers; 0 only for equal strings. */
int natural_compare(const char *a, const char *b);

#endif
