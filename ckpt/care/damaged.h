/* Damaged files that were replaced, or that nothing needs: kept in damaged/ under their names, for as long as a person
 * wants. Nothing of ckpt removes them. */
#ifndef CKPT_DAMAGED_H
#define CKPT_DAMAGED_H

#include "store_internal.h"

/* Keeps a file of the store before another takes its name. It stays where it is too, where the file system can give it
 * two names. */
int damaged_keep(const ckpt_store *store, const char *path, ckpt_error *err);
/* Moves a file there. */
int damaged_move(const ckpt_store *store, const char *path, ckpt_error *err);

/* The name under which a file of this name is kept: the first one is number 0. */
int damaged_path(char out[FILE_PATH_MAX], const ckpt_store *store, const char *name, unsigned number, ckpt_error *err);

typedef struct damaged_count {
    uint64_t files, bytes;
} damaged_count;
int damaged_look(damaged_count *out, const ckpt_store *store, ckpt_error *err);

#endif
