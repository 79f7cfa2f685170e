/* The folder parity/: what of it goes with the packs. */
#ifndef CKPT_PARITY_DIR_H
#define CKPT_PARITY_DIR_H

#include "store_internal.h"

/* Removes the parity of a pack that is gone; adds its size to *bytes. With `dry_run` it only counts. */
int parity_drop(uint64_t *bytes, const ckpt_store *store, const sha256 *name, bool dry_run, ckpt_error *err);
/* The same for all parity whose pack is gone, which a prune that was stopped left behind. */
int parity_sweep(uint64_t *bytes, const ckpt_store *store, bool dry_run, ckpt_error *err);

#endif
