/* Usage: what the store takes, and what it may. */
#ifndef CKPT_USAGE_H
#define CKPT_USAGE_H

#include "store_internal.h"

#include <ckpt/stats.h>

/* Bytes of the files in a folder; one that is missing has none. */
int usage_of_folder(uint64_t *bytes, const char *dir, ckpt_error *err);
/* The limits; what the store takes is counted only where there is a quota. */
int usage_limits(ckpt_usage *out, const ckpt_store *store, ckpt_error *err);
/* What may still be written: by the quota, if there is one, and by the disk. */
uint64_t usage_room(const ckpt_usage *u);

#endif
