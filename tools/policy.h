/* Policy: what config.ini of the store says about keeping checkpoints. */
#ifndef TOOLS_POLICY_H
#define TOOLS_POLICY_H

#include <ckpt/store.h>

/* The values of `keep` and `best` under [retention], malloc'ed; NULL when the config has none. Either may be NULL. */
int policy_read(char **keep, char **best, const ckpt_store *store, ckpt_error *err);
/* The key of the value that `best` looks at, malloc'ed; NULL when the config has none. */
int policy_metric(char **key, const ckpt_store *store, ckpt_error *err);

#endif
