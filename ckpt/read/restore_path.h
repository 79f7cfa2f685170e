/* Paths of a restore: nothing is written through a link below the target.
 *
 * A store from a stranger could first restore a link that leads out and then a file behind it. Where people restore in
 * place, a link may be their own (runs -> /scratch/runs); then they are asked. */
#ifndef CKPT_RESTORE_PATH_H
#define CKPT_RESTORE_PATH_H

#include "file.h"

#include <ckpt/store.h>

/* Is a folder on the way to dir/path a link? For a folder the whole path counts. `in_place`: dir is the current folder
 * by default, and `overwrite` agrees to follow. Errors: CKPT_EUSAGE, or CKPT_ECONFIRM in place. */
int restore_path_check(const char *dir, const char *path, bool is_folder, bool in_place, bool overwrite,
                       ckpt_error *err);

/* May files be written into the folder, which need not exist? CKPT_EUSAGE when it lies in a store: what is written
 * there in the place of a file of its own is lost, and what is written beside them may come to mean something. */
int restore_folder_check(const char *dir, ckpt_error *err);

/* May one file be written there? CKPT_ECONFIRM when there is one and `overwrite` is false; CKPT_EUSAGE in a store, and
 * for what is no file and no link to one: a folder, or a device, whose place no file is to take. */
int restore_target_check(const char *path, bool overwrite, ckpt_error *err);

#endif
