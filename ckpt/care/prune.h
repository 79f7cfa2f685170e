/* Prune: what no checkpoint needs goes; see <ckpt/store.h> for the part with a policy. */
#ifndef CKPT_PRUNE_H
#define CKPT_PRUNE_H

#include "store_internal.h"

/* Removes packs that no checkpoint needs and what killed saves left, whatever the policy of the config says. Waits for
 * no writer, and takes nothing that one may be about to use. The result, all of whose rows are kept, is for
 * ckpt_prune_result_clear. CKPT_EBUSY when another prune runs. */
int prune_unreachable(ckpt_prune_result *result, ckpt_store *store, bool dry_run, ckpt_error *err);

#endif
