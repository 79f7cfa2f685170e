/* Policy: what config.ini of the store says about keeping checkpoints. */
#ifndef TOOLS_POLICY_H
#define TOOLS_POLICY_H

#include <ckpt/store.h>

/* The value of `keep` under [retention], malloc'ed; NULL when the config has none. */
int policy_read(char **keep, const ckpt_store *store, ckpt_error *err);

#endif
